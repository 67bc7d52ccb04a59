/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tests/daemon.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/net/address.h"

static void die(const char *what)
{
    fprintf(stderr, "tests/daemon.c: %s\n", what);
    abort();
}

enum { ARGS_MAX = 32 };

pid_t daemon_start(const char *address, const char *threads, const char *option, const char *value)
{
    const char *const args[] = {option, value, NULL};

    return daemon_start_with(address, threads, args);
}

pid_t daemon_start_with(const char *address, const char *threads, const char *const *args)
{
    const char *all[ARGS_MAX + 1] = {"plenumd",   "--socket", address,
                                     "--threads", threads,    "--quiet"};
    const char *program = getenv("PLENUM_PLENUMD");
    struct address a;
    pid_t pid;

    if (!program)
        die("PLENUM_PLENUMD is not set: run this by make check");
    if (address_parse(address, &a, NULL) < 0)
        die(address);
    pid = fork();
    if (pid < 0)
        die("fork");
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (size_t i = 0, at = 6; args[i] && at < ARGS_MAX; i++)
            all[at++] = args[i];
        (void)execv(program, (char *const *)(uintptr_t)all);
        _exit(127);
    }
    for (int i = 0; i < 2000; i++) {
        int fd = address_connect(&a, 0);

        if (fd >= 0) {
            (void)close(fd);
            return pid;
        }
        (void)usleep(10000);
    }
    die("the loader is not listening");
    return -1;
}

bool child_stop(pid_t pid)
{
    int status;

    return kill(pid, SIGSTOP) == 0 && waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status);
}

int daemon_end(pid_t pid, int signum)
{
    int status = -1;

    if (pid <= 0 || kill(pid, signum) < 0 || waitpid(pid, &status, 0) != pid)
        die("the loader cannot be ended");
    return status;
}
