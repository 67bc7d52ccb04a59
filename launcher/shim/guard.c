/* SPDX-License-Identifier: MIT */
/* guard.c - a process whose only task is to outlive another one.
 *
 * A process that supervises a program can itself be killed. So each supervisor is the child of a
 * guard, which is small, allocates nothing until the end, and adopts (as a subreaper) its child's
 * orphans:
 *
 *     plenumrun ── guard ── mpirun ── outer shim ── inner shim ── the program and its children
 *
 * mpirun's guard and the outer shim run the same loop. The kernel notifies each process when its
 * parent ends. So kill -9 of any of them ends everything below it:
 *
 *     plenumrun    the inner shims see their connection close; guard: `orphaned` steps for mpirun
 *     guard        mpirun dies with it; the outer shims are notified; plenumrun notices at once
 *     mpirun       the outer shims are notified; the guard lets them end in order, then kills
 *     outer shim   the inner shim is notified, and kills the tree
 *     inner shim   the outer shim has adopted the tree, and kills it
 */
#include "config.h"

#include "launcher/shim/guard.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util/util.h"
#include "launcher/host/proctree.h"
#include "launcher/host/signals.h"

enum {
    LOOK_MS = 20,         /* between checks of a tree that is being killed */
    UNKILLABLE_MS = 5000, /* after this time, the rest of the tree is left behind */
};

struct guard {
    const struct guard_options *options;
    bool ended; /* the child has ended */
    bool leave; /* the child has asked its guard to leave */
    int status;
    bool told;                      /* the guard was asked to end: the tree may not linger */
    const struct guard_step *steps; /* being executed; NULL: none yet */
    uint64_t begun_ns;              /* when the first step was due */
    uint64_t kill_at;               /* when the tree is killed; UINT64_MAX: not set yet */
    uint64_t give_up_at;            /* when to give up on the child */
    struct proctree_end tree;       /* progress of killing the tree */
    struct signals_handed handed;
};

static void signals(sigset_t *set)
{
    (void)sigemptyset(set);
    (void)sigaddset(set, SIGCHLD);
    (void)sigaddset(set, SIGTERM);
    (void)sigaddset(set, SIGINT);
    (void)sigaddset(set, SIGHUP);
    (void)sigaddset(set, SIGUSR1);
    (void)sigaddset(set, SIGUSR2);
    (void)sigaddset(set, GUARD_PARENT_SIGNAL);
    (void)sigaddset(set, GUARD_LEAVE_SIGNAL);
}

void guard_block_signals(sigset_t *before)
{
    sigset_t set;

    signals(&set);
    (void)sigprocmask(SIG_BLOCK, &set, before);
}

/* Reap every child that has ended. Returns whether any child is left. */
static bool reap(struct guard *g)
{
    int status;

    for (;;) {
        pid_t pid = waitpid(-1, &status, WNOHANG);

        if (pid == 0)
            return true;
        if (pid < 0 && errno == EINTR)
            continue;
        if (pid < 0)
            return false;
        if (pid != g->options->child)
            continue;
        g->ended = true;
        g->status = status;
        g->kill_at = time_now_ns() + (g->told ? 0 : g->options->linger_ns);
        if (g->options->status_fd >= 0)
            (void)!write(g->options->status_fd, &status, sizeof(status));
    }
}

static void begin(struct guard *g, const struct guard_step *steps)
{
    if (g->steps)
        return;
    g->steps = steps;
    g->begun_ns = time_now_ns();
}

/* Send due signals; after the last step, set when to give up on the
 * child. */
static void send_due_signals(struct guard *g, uint64_t now)
{
    if (g->ended || !g->steps)
        return;
    while (g->steps->signal && now - g->begun_ns >= g->steps->after_ns) {
        (void)kill(g->options->child, g->steps->signal);
        (void)kill(g->options->child, SIGCONT); /* a stopped process cannot end */
        g->steps++;
    }
    if (!g->steps->signal && g->give_up_at == UINT64_MAX)
        g->give_up_at = now + UNKILLABLE_MS * NS_PER_MS;
}

static uint64_t next_wakeup(const struct guard *g, uint64_t now)
{
    if (g->ended)
        return now >= g->kill_at ? now + LOOK_MS * NS_PER_MS : g->kill_at;
    if (g->steps && g->steps->signal)
        return g->begun_ns + g->steps->after_ns;
    return g->give_up_at;
}

static void handle_signal(struct guard *g, int signal, pid_t from)
{
    if (signal == SIGCHLD)
        return;
    if (signal == GUARD_LEAVE_SIGNAL) {
        g->leave = from == g->options->child;
        return;
    }
    if (signal == SIGUSR1 || signal == SIGUSR2) {
        if (g->options->hand_on && !g->ended && signals_may_hand_on(&g->handed, signal, from))
            (void)kill(g->options->child, signal);
        return;
    }
    if (signal != GUARD_PARENT_SIGNAL) {
        begin(g, g->options->told);
        g->told = true;
        if (g->ended) /* the tree was lingering */
            g->kill_at = 0;
    } else if (getppid() != g->options->parent) { /* not only a thread of the parent has ended */
        begin(g, g->options->orphaned);
    }
}

static void wait_for_signal(struct guard *g, uint64_t until, uint64_t now)
{
    struct timespec limit = {0};
    siginfo_t info;
    sigset_t set;
    int signal;

    signals(&set);
    if (until == UINT64_MAX) {
        signal = sigwaitinfo(&set, &info);
    } else {
        uint64_t left = until > now ? until - now : 0;

        limit.tv_sec = (time_t)(left / NS_PER_SEC);
        limit.tv_nsec = (long)(left % NS_PER_SEC);
        signal = sigtimedwait(&set, &info, &limit);
    }
    if (signal > 0)
        handle_signal(g, signal, info.si_pid);
}

int guard_run(const struct guard_options *options)
{
    struct guard g = {.options = options, .kill_at = UINT64_MAX, .give_up_at = UINT64_MAX};

    assert(options->child > 0 && options->told && options->orphaned);
    if (getppid() != options->parent)
        begin(&g, options->orphaned);
    while (!g.leave && reap(&g)) {
        uint64_t now = time_now_ns();

        send_due_signals(&g, now);
        if (!g.ended && now >= g.give_up_at)
            break;
        if (g.ended && now >= g.kill_at && proctree_end(&g.tree, 0, now) &&
            (!reap(&g) || now >= g.tree.give_up_at))
            break;
        wait_for_signal(&g, next_wakeup(&g, now), now);
    }
    return g.status;
}
