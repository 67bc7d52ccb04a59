/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "launcher/host/capture.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util/text.h"
#include "common/util/util.h"
#include "launcher/host/proctree.h"
#include "launcher/host/signals.h"

enum {
    NOT_FOUND = 127,
    WAIT_MS = 20,   /* between checks of a process that prints nothing */
    SWEEP_MS = 1,   /* between checks of processes that were killed */
    KILLED_MS = 200 /* time for a killed process to end; one that hangs in the kernel does not */
};

/* Signals to a guard. Batch systems and users, who signal whole process trees, do not use them. */
#define PARENT_SIGNAL SIGRTMIN /* its parent has ended, or only the parent's thread that forked */
#define END_SIGNAL (SIGRTMIN + 1)

/* In the new process: start a session, reset signals, read from /dev/null, write to `out`, and
 * close all but the standard descriptors, so that pipes whose end other processes wait for are not
 * kept open. */
static void settle(int out)
{
    int null = open("/dev/null", O_RDONLY);

    (void)setsid();
    signals_reset(0);
    if (dup2(null, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
        dup2(out, STDERR_FILENO) < 0)
        _exit(NOT_FOUND);
    closefrom(STDERR_FILENO + 1);
}

static void block_signals(sigset_t *ret)
{
    (void)sigemptyset(ret);
    (void)sigaddset(ret, SIGCHLD);
    (void)sigaddset(ret, PARENT_SIGNAL);
    (void)sigaddset(ret, END_SIGNAL);
    (void)sigprocmask(SIG_BLOCK, ret, NULL);
}

/* Wait until the child or `parent` ends, or END_SIGNAL arrives. Returns the child's status if it
 * has ended, otherwise that of a killed process. */
static int wait_for_end(pid_t child, pid_t parent, const sigset_t *signals)
{
    int status, signal = 0;
    pid_t pid;

    while (signal != END_SIGNAL && getppid() == parent) {
        while ((pid = waitpid(-1, &status, WNOHANG)) > 0) /* or an orphan's that it has adopted */
            if (pid == child)
                return status;
        signal = sigwaitinfo(signals, NULL);
    }
    return SIGKILL;
}

/* Kill the remaining processes of the command, in whatever session: orphans are our children. */
static void sweep(void)
{
    struct proctree_end end = {0};

    while (!proctree_end(&end, 0, time_now_ns())) {
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        (void)usleep(SWEEP_MS * 1000);
    }
}

/* End as the command has ended: with its status, or by its signal. */
static void end_like(int status)
{
    const struct rlimit none = {0, 0};

    if (WIFSIGNALED(status)) {
        (void)setrlimit(RLIMIT_CORE, &none); /* the command's own core file is enough */
        signals_reset(0);
        (void)raise(WTERMSIG(status));
    }
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : NOT_FOUND);
}

/* In the new process: call the function in a child, and end as the child ends. When that or
 * `parent` ends, kill all of its descendants. */
static void guard(pid_t parent, int (*call)(const void *arg), const void *arg)
{
    pid_t self = getpid(), child;
    sigset_t signals;
    int status;

    signals_ignore_strays();
    block_signals(&signals);
    if (proctree_adopt() < 0 || proctree_follow(parent, PARENT_SIGNAL) < 0)
        _exit(NOT_FOUND);
    child = fork();
    if (child < 0)
        _exit(NOT_FOUND);
    if (child == 0) {
        signals_reset(0);
        _exit(proctree_follow(self, SIGKILL) < 0 ? NOT_FOUND : call(arg));
    }
    status = wait_for_end(child, parent, &signals);
    sweep();
    end_like(status);
}

int capture_call(struct capture *c, int (*call)(const void *arg), const void *arg,
                 uint64_t limit_ns)
{
    int fds[2], r;
    pid_t pid, self = getpid();

    *c = (struct capture){.fd = -1};
    c->text = calloc(1, CAPTURE_MAX + 1);
    if (!c->text)
        return -ENOMEM;
    if (pipe2(fds, O_CLOEXEC) < 0) {
        r = -errno;
        capture_fini(c);
        return r;
    }
    pid = fork();
    r = pid < 0 ? -errno : 0;
    if (pid == 0) {
        settle(fds[1]);
        guard(self, call, arg);
    }
    (void)close(fds[1]);
    if (r == 0)
        r = io_set_nonblock(fds[0]);
    c->fd = fds[0];
    c->pid = pid > 0 ? pid : 0;
    c->until_ns = time_now_ns() + limit_ns;
    if (r < 0)
        capture_fini(c);
    return r;
}

static int execute(const void *arg)
{
    char *const *words = arg;

    (void)execvp(words[0], words);
    return NOT_FOUND;
}

int capture_command(struct capture *c, char *const *words, uint64_t limit_ns)
{
    return capture_call(c, execute, words, limit_ns);
}

static void take_text(struct capture *c)
{
    char bytes[4096];
    ssize_t n;

    while (c->fd >= 0 && (n = read(c->fd, bytes, sizeof(bytes))) != 0) {
        size_t room = CAPTURE_MAX - c->len, kept;

        if (n < 0)
            return;
        kept = min_u64((uint64_t)n, room);
        for (size_t i = 0; i < kept; i++)
            c->text[c->len++] = bytes[i] ? bytes[i] : '?';
        c->text[c->len] = '\0';
    }
    io_close(&c->fd);
}

/* Reap the process if it has ended. Returns whether it has. One that another part of the program
 * has reaped counts as ended with status 0. */
static bool reap(struct capture *c)
{
    pid_t pid = waitpid(c->pid, &c->status, WNOHANG);

    if (pid == 0)
        return false;
    if (pid < 0)
        c->status = 0;
    return true;
}

/* Let the guard kill the command. If that takes long, the guard continues without us. */
static void give_up(struct capture *c)
{
    uint64_t end = time_now_ns() + KILLED_MS * NS_PER_MS;

    (void)kill(c->pid, END_SIGNAL);
    (void)kill(c->pid, SIGCONT);
    while (!reap(c) && time_now_ns() < end)
        (void)usleep(1000);
}

bool capture_poll(struct capture *c, uint64_t now)
{
    if (c->pid == 0)
        return true;
    take_text(c);
    if (reap(c)) {
        (void)kill(-c->pid, SIGKILL); /* the rest, if the guard was killed */
    } else if (now < c->until_ns) {
        return false;
    } else {
        c->late = true;
        give_up(c);
    }
    take_text(c);
    io_close(&c->fd);
    c->pid = 0;
    return true;
}

void capture_wait(struct capture *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        while (!capture_poll(&list[i], time_now_ns())) {
            struct pollfd p = {.fd = list[i].fd, .events = POLLIN};

            (void)poll(&p, 1, WAIT_MS);
        }
    }
}

bool capture_has_exited(const struct capture *c, int status)
{
    assert(c->pid == 0);
    return !c->late && WIFEXITED(c->status) && WEXITSTATUS(c->status) == status;
}

const char *capture_last_line(struct capture *c)
{
    char *line;

    if (!c->text)
        return "";
    while (c->len > 0 && strchr(" \t\r\n", c->text[c->len - 1]))
        c->text[--c->len] = '\0';
    line = strrchr(c->text, '\n');
    return text_make_plain(line ? line + 1 : c->text);
}

void capture_fini(struct capture *c)
{
    if (c->pid > 0) {
        give_up(c);
        c->pid = 0;
    }
    if (c->text) /* otherwise it has no descriptor, either */
        io_close(&c->fd);
    free(c->text);
    c->text = NULL;
}
