/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util/util.h"
#include "launcher/host/leftover.h"

/* Start a process with these variables; it runs when this returns. */
static pid_t start(const char *first, const char *second)
{
    char *const argv[] = {(char *)"sleep", (char *)"1000", NULL};
    char *const envp[] = {(char *)first, (char *)second, NULL};
    int fds[2];
    char byte;
    pid_t pid;

    cr_assert(eq(int, pipe2(fds, O_CLOEXEC), 0));
    pid = fork();
    cr_assert(ge(int, pid, 0));
    if (pid == 0) {
        (void)setsid();
        (void)execve("/bin/sleep", argv, envp);
        _exit(1);
    }
    close(fds[1]);
    cr_assert(eq(int, (int)read(fds[0], &byte, 1), 0), "exec closes it");
    close(fds[0]);
    return pid;
}

static bool is_killed(pid_t pid)
{
    int status;
    pid_t r = waitpid(pid, &status, WNOHANG);

    cr_assert(ge(int, r, 0));
    return r == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

Test(leftover, only_the_jobs_processes_are_killed)
{
    pid_t mine = start("A=1", "PLENUM_JOB_ID=5eed5eed"),
          too = start("PLENUM_JOB_ID=5eed5eed", "B=");
    pid_t longer = start("PLENUM_JOB_ID=5eed5eed0", "C="),
          other = start("XPLENUM_JOB_ID=5eed5eed", "");
    pid_t none = start("", "PLENUM_JOB_ID=");

    cr_assert(eq(int, setenv("PLENUM_JOB_ID", "5eed5eed", 1), 0));
    cr_expect(eq(int, leftover_kill("5eed5eed", 60 * NS_PER_SEC), 0));
    cr_expect(is_killed(mine));
    cr_expect(is_killed(too));
    cr_expect(eq(int, waitpid(longer, NULL, WNOHANG), 0), "another job");
    cr_expect(eq(int, waitpid(other, NULL, WNOHANG), 0), "another variable");
    cr_expect(eq(int, waitpid(none, NULL, WNOHANG), 0), "no job");
    kill(longer, SIGKILL);
    kill(other, SIGKILL);
    kill(none, SIGKILL);
}
