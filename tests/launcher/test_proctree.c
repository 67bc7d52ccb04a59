/* SPDX-License-Identifier: MIT */
/* Tests that process trees cannot escape: grandchildren in their own sessions, and a tree that
 * keeps forking. */
#include "config.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util/util.h"
#include "launcher/host/proctree.h"
#include "launcher/shim/guard.h"

/* Sleep longer than any test, but not for ever. */
static void sleep_on(void)
{
    (void)sleep(60);
    _exit(0);
}

/* Fork a child with a grandchild in its own session; then the child exits. */
static void get_away(void)
{
    if (fork() == 0) {
        setsid();
        if (fork() == 0)
            sleep_on();
        _exit(0);
    }
    sleep_on();
}

/* Kill repeatedly until no process is found, and reap all. */
static void end_family(pid_t spare)
{
    for (int i = 0; i < 500; i++) {
        int n = proctree_kill(spare);

        cr_assert(ge(int, n, 0));
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        if (n == 0)
            return;
        (void)usleep(10000);
    }
    cr_fatal("some are still alive");
}

static void all_of_it_ends(void)
{
    cr_assert(eq(int, proctree_adopt(), 0));
    for (int i = 0; i < 3; i++)
        if (fork() == 0)
            get_away();
    (void)usleep(100000); /* some most likely get away */
    end_family(0);
    cr_expect(eq(int, waitpid(-1, NULL, WNOHANG), -1));
    cr_expect(eq(int, errno, ECHILD));
}

Test(proctree, the_whole_tree_ends, .timeout = 600)
{
    all_of_it_ends();
}

Test(proctree, the_whole_tree_ends_without_the_kernels_lists_of_children, .timeout = 600)
{
    proctree_walks_proc = true;
    all_of_it_ends();
}

/* Fork from a secondary thread, whose children are on a separate list. */
static void *fork_away(void *arg)
{
    (void)arg;
    if (fork() == 0)
        get_away();
    (void)sleep(60);
    return NULL;
}

Test(proctree, children_of_threads_belong_to_it, .timeout = 600)
{
    pthread_t thread;

    cr_assert(eq(int, proctree_adopt(), 0));
    if (fork() == 0) {
        (void)pthread_create(&thread, NULL, fork_away, NULL);
        sleep_on();
    }
    (void)usleep(200000); /* the thread most likely forks */
    end_family(0);
    cr_expect(eq(int, waitpid(-1, NULL, WNOHANG), -1));
}

/* The time limit starts again while the number of processes decreases. */
Test(proctree, is_not_given_up_while_it_shrinks)
{
    struct proctree_end end = {0};
    pid_t some[8];

    cr_assert(eq(int, proctree_adopt(), 0));
    for (size_t i = 0; i < ARRAY_LEN(some); i++)
        if ((some[i] = fork()) == 0)
            sleep_on();
    cr_expect(eq(int, proctree_end(&end, some[0], 1), false));
    cr_expect(gt(u64, end.give_up_at, 1));
    end.least = 100; /* as if there had been many */
    cr_expect(eq(int, proctree_end(&end, 0, 60 * NS_PER_SEC), false),
              "it must keep running while their number decreases");
    for (bool over = false; !over; (void)usleep(10000)) {
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        over = proctree_end(&end, 0, 61 * NS_PER_SEC);
    }
    cr_expect(eq(int, waitpid(-1, NULL, WNOHANG), -1));
}

/* A chain of processes, each of which is replaced by a child after a few milliseconds. It ends by
 * itself, so that no process can outlive a failing test. */
Test(proctree, repeated_forking_does_not_help, .timeout = 600)
{
    int ends[2];
    char byte;

    cr_assert(eq(int, pipe(ends), 0));
    cr_assert(eq(int, proctree_adopt(), 0));
    if (fork() == 0) {
        for (int i = 0; i < 3000; i++) {
            (void)usleep(20000);
            if (fork() != 0)
                _exit(0);
        }
        _exit(write(ends[1], "x", 1) != 1);
    }
    (void)close(ends[1]);
    (void)usleep(50000);
    end_family(0);
    cr_expect(eq(int, waitpid(-1, NULL, WNOHANG), -1));
    cr_expect(eq(int, (int)read(ends[0], &byte, 1), 0),
              "the chain must have been killed, not ended by itself");
}

static void one_is_spared(void)
{
    int fds[2];
    pid_t spared, grandchild;

    cr_assert(eq(int, proctree_adopt(), 0));
    cr_assert(eq(int, pipe(fds), 0));
    spared = fork();
    if (spared == 0) {
        pid_t pid = fork();

        if (pid > 0)
            (void)!write(fds[1], &pid, sizeof(pid));
        sleep_on();
    }
    cr_assert(eq(int, (int)read(fds[0], &grandchild, sizeof(grandchild)), sizeof(grandchild)));
    if (fork() == 0)
        get_away();
    (void)usleep(50000);
    end_family(spared);
    cr_expect(eq(int, kill(spared, 0), 0));
    cr_expect(eq(int, kill(grandchild, 0), 0));
    cr_expect(eq(int, waitpid(-1, NULL, WNOHANG), 0),
              "spared processes must be neither stopped nor dead");
    end_family(0);
}

Test(proctree, one_is_spared_with_its_children, .timeout = 600)
{
    one_is_spared();
}

Test(proctree, one_is_spared_without_the_kernels_lists_of_children, .timeout = 600)
{
    proctree_walks_proc = true;
    one_is_spared();
}

static int exit_code(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Start a guard with a child that behaves as `how` specifies: it exits at once, or ignores SIGTERM.
 * Returns when the child does so. */
static void start_guard(char how, const struct guard_step *told, pid_t *guard, int *status_fd)
{
    int fds[2], ready[2], status;
    char byte;

    cr_assert(eq(int, pipe(fds), 0));
    cr_assert(eq(int, pipe2(ready, O_CLOEXEC), 0));
    *status_fd = fds[0];
    *guard = fork();
    if (*guard == 0) {
        struct guard_options options = {
            .parent = getppid(), .told = told, .orphaned = told, .status_fd = fds[1]};
        sigset_t before;

        guard_block_signals(&before);
        (void)proctree_adopt();
        options.child = fork();
        if (options.child == 0) {
            (void)sigprocmask(SIG_SETMASK, &before, NULL);
            if (how == 'e')
                _exit(5);
            (void)signal(SIGTERM, SIG_IGN);
            (void)!write(ready[1], "", 1);
            get_away();
        }
        (void)close(fds[0]);
        status = guard_run(&options);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    }
    (void)close(fds[1]);
    (void)close(ready[1]);
    if (how != 'e')
        cr_assert(eq(int, (int)read(ready[0], &byte, 1), 1));
    (void)close(ready[0]);
}

Test(guard, forwards_the_status_of_its_child, .timeout = 600)
{
    const struct guard_step told[] = {{0, 0}};
    int status, fd;
    pid_t guard;

    start_guard('e', told, &guard, &fd);
    cr_assert(eq(int, (int)read(fd, &status, sizeof(status)), sizeof(status)));
    cr_expect(eq(int, exit_code(status), 5));
    cr_assert(eq(int, waitpid(guard, &status, 0), guard));
    cr_expect(eq(int, exit_code(status), 5));
}

Test(guard, ends_a_child_that_ignores_sigterm_and_its_descendants, .timeout = 600)
{
    const struct guard_step told[] = {{0, SIGTERM}, {200 * NS_PER_MS, SIGKILL}, {0, 0}};
    uint64_t before;
    int status, fd;
    pid_t guard;

    cr_assert(eq(int, proctree_adopt(), 0)); /* processes that escape the guard are reparented to
                                              * us */
    start_guard('s', told, &guard, &fd);
    before = time_now_ns();
    (void)kill(guard, SIGTERM);
    cr_assert(eq(int, waitpid(guard, &status, 0), guard));
    cr_expect(eq(int, exit_code(status), 128 + SIGKILL));
    cr_expect(ge(u64, time_now_ns() - before, 200 * NS_PER_MS),
              "the guard must wait between its steps");
    cr_expect(eq(int, waitpid(-1, NULL, WNOHANG), -1), "no child is left");
}
