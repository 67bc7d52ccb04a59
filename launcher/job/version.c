/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "launcher/job/version.h"

#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <hwloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/job/jobloader.h"
#include "common/util/json.h"
#include "common/util/util.h"
#include "launcher/host/host.h"
#include "launcher/host/signals.h"

enum { ANSWER_MS = 3000 };

struct version_part {
    const char *name;
    char path[1024]; /* "" if it is not a program */
    char version[256];
};

static _Noreturn void become(const char *program, const char *argument, int out, int err)
{
    int null = open("/dev/null", O_RDWR);
    char *const argv[] = {(char *)program, (char *)argument, NULL};

    (void)setsid();
    (void)dup2(null, STDIN_FILENO);
    signals_reset(0);
    (void)dup2(out, STDOUT_FILENO);
    (void)dup2(err < 0 ? null : err, STDERR_FILENO);
    (void)execv(program, argv);
    _exit(127);
}

int version_ask(const char *program, const char *argument, unsigned limit_ms, char *ret,
                size_t size)
{
    uint64_t deadline = time_now_ns() + limit_ms * NS_PER_MS, now;
    size_t len = 0;
    int fds[2], err, status;
    ssize_t n;
    pid_t pid;

    ret[0] = '\0';
    if (pipe2(fds, O_CLOEXEC) < 0)
        return -errno;
    err = memfd_create("version", MFD_CLOEXEC);
    pid = fork();
    if (pid == 0)
        become(program, argument, fds[1], err);
    (void)close(fds[1]);
    while (pid > 0 && len + 1 < size && (now = time_now_ns()) < deadline) {
        struct pollfd p = {.fd = fds[0], .events = POLLIN};

        if (poll(&p, 1, (int)((deadline - now) / NS_PER_MS) + 1) <= 0)
            continue;
        n = read(fds[0], ret + len, size - 1 - len);
        if (n == 0 || (n < 0 && errno != EINTR))
            break;
        len += n > 0 ? (size_t)n : 0;
    }
    (void)close(fds[0]);
    if (pid > 0) {
        (void)kill(pid, SIGKILL); /* whatever it has printed by now is enough */
        (void)waitpid(pid, &status, 0);
    }
    if (len == 0 && err >= 0 && (n = pread(err, ret, size - 1, 0)) > 0)
        len = (size_t)n;
    io_close(&err);
    ret[len] = '\0';
    if (pid <= 0)
        return -EAGAIN;
    ret[strcspn(ret, "\n")] = '\0';
    return ret[0] ? 0 : -ENODATA;
}

static void ask_program(struct version_part *part, const char *argument)
{
    if (!part->path[0] && host_find_program(part->name, part->path, sizeof(part->path)) < 0)
        (void)snprintf(part->version, sizeof(part->version), "not found");
    else if (version_ask(part->path, argument, ANSWER_MS, part->version, sizeof(part->version)) < 0)
        (void)snprintf(part->version, sizeof(part->version), "unknown");
}

static size_t list_parts(struct version_part parts[8])
{
    unsigned hwloc = hwloc_get_api_version();
    struct utsname kernel;
    size_t n = 0;

    parts[n] = (struct version_part){.name = "plenumrun"};
    (void)host_get_self(parts[n].path, sizeof(parts[n].path), NULL);
    (void)snprintf(parts[n++].version, sizeof(parts->version), "%s", PACKAGE_VERSION);
    parts[n] = (struct version_part){.name = "plenumd"};
    if (jobloader_find_program(parts[n].path, sizeof(parts[n].path), NULL) < 0)
        parts[n].path[0] = '\0';
    ask_program(&parts[n++], "--version");
    parts[n] = (struct version_part){.name = "mpirun"};
    ask_program(&parts[n++], "--version");
    parts[n] = (struct version_part){.name = "ssh"};
    ask_program(&parts[n++], "-V");
    parts[n] = (struct version_part){.name = "hwloc"};
    (void)snprintf(parts[n++].version, sizeof(parts->version), "API %u.%u.%u", hwloc >> 16,
                   hwloc >> 8 & 0xff, hwloc & 0xff);
    parts[n] = (struct version_part){.name = "libc"};
    (void)snprintf(parts[n++].version, sizeof(parts->version), "glibc %s", gnu_get_libc_version());
    if (uname(&kernel) == 0) {
        parts[n] = (struct version_part){.name = "kernel"};
        (void)snprintf(parts[n++].version, sizeof(parts->version), "%s %s %s", kernel.sysname,
                       kernel.release, kernel.machine);
    }
    return n;
}

int version_print(bool as_json)
{
    struct json j = {.file = stdout};
    struct version_part parts[8];
    size_t count;

    count = list_parts(parts);
    if (as_json)
        json_begin_object(&j, NULL, JSON_LINES);
    for (size_t i = 0; i < count; i++) {
        if (!as_json) {
            printf("%-10s %s%s%s%s\n", parts[i].name, parts[i].version,
                   parts[i].path[0] ? " (" : "", parts[i].path, parts[i].path[0] ? ")" : "");
            continue;
        }
        json_begin_object(&j, parts[i].name, JSON_FLAT);
        json_text(&j, "version", parts[i].version);
        json_text(&j, "path", parts[i].path[0] ? parts[i].path : NULL);
        json_end_object(&j);
    }
    if (as_json)
        json_end_object(&j);
    return fflush(stdout) == 0 ? 0 : 1;
}
