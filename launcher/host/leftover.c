/* SPDX-License-Identifier: MIT */
/* leftover.c - a program can outlive a start only if both of its shims were killed, or if they
 * still give it its grace period. It must not run beside the next start, because both would write
 * to the same files. Its parents are gone, so it is found by its environment. */
#include "config.h"

#include "launcher/host/leftover.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/util/util.h"

enum {
    ENVIRONMENT_MAX = 4 * 1024 * 1024, /* bytes of a process's environment that are searched */
    LOOK_MS = 10,
};

/* Read as much of the file as fits. Returns the length read, or -errno. */
static ssize_t read_file(int proc, const char *path, char *bytes, size_t size)
{
    int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -errno : 1;
    size_t len = 0;

    while (n > 0 && len < size) {
        n = read(fd, bytes + len, size - len);
        len += n > 0 ? (size_t)n : 0;
    }
    io_close(&fd);
    return n < 0 ? n : (ssize_t)len;
}

/* Returns whether the process was started with this "NAME=value"; false if its environment cannot
 * be read. */
static bool has_variable(int proc, const char *pid, const char *variable, char *bytes)
{
    char path[300];
    ssize_t len;
    size_t n = strlen(variable) + 1;

    (void)snprintf(path, sizeof(path), "%s/environ", pid);
    len = read_file(proc, path, bytes, ENVIRONMENT_MAX);
    for (const char *p = bytes; len > 0 && p && (size_t)(bytes + len - p) >= n;) {
        if (memcmp(p, variable, n) == 0)
            return true;
        p = memchr(p, '\0', (size_t)(bytes + len - p));
        p = p ? p + 1 : NULL;
    }
    return false;
}

/* Send SIGKILL once to every other process with this variable. Returns their number, or -errno. */
static int kill_all(const char *variable, char *bytes)
{
    DIR *dir = opendir("/proc");
    struct dirent *entry;
    int count = 0;

    if (!dir)
        return -errno;
    while ((entry = readdir(dir))) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);

        if (pid <= 1 || pid == getpid() ||
            !has_variable(dirfd(dir), entry->d_name, variable, bytes))
            continue;
        count++;
        (void)kill(pid, SIGKILL);
    }
    (void)closedir(dir);
    return count;
}

int leftover_kill(const char *job, uint64_t limit_ns)
{
    const struct timespec look = {.tv_nsec = LOOK_MS * (long)NS_PER_MS};
    char *variable = str_format("PLENUM_JOB_ID=%s", job), *bytes = malloc(ENVIRONMENT_MAX);
    uint64_t end = time_now_ns() + limit_ns;
    int r = variable && bytes ? 1 : -ENOMEM;

    while (r > 0) {
        r = kill_all(variable, bytes);
        if (r <= 0 || time_now_ns() >= end)
            break;
        (void)nanosleep(&look, NULL);
    }
    free(bytes);
    free(variable);
    return r;
}
