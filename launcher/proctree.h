/* SPDX-License-Identifier: MIT */
/* proctree.h - the descendants of this process, and their end. */
#ifndef LAUNCHER_PROCTREE_H
#define LAUNCHER_PROCTREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/**
 * Kill (SIGKILL) all living descendants of the calling process, but not `spare` and its own
 * descendants (0: nobody is spared).
 *
 * Complete when the caller is a subreaper (then nobody can leave the tree), reaps its children,
 * and calls again until the answer is 0: children of the killed become children of the caller.
 *
 * @return how many were found alive, or 1 when there may be some; -ENOMEM or another -errno when
 * /proc cannot be read
 */
int proctree_kill(pid_t spare);

extern bool proctree_walks_proc;

/** Kill a tree in bounded time: patience for those whom even SIGKILL does not end, but none is
 * lost while their number falls. Zero-initialised: not begun. */
struct proctree_end {
    int least;           /* of those that were found alive */
    uint64_t give_up_at; /* on those that are left; 0: not begun */
};

/** proctree_kill() once more: true when nobody is left, or none who can be killed. */
bool proctree_end(struct proctree_end *end, pid_t spare, uint64_t now_ns);

/** Become the one to whom orphaned descendants fall: 0 or -errno. */
int proctree_adopt(void);

/**
 * Ask the kernel for `signal` when the parent ends, which is `parent` as it was before fork() (or
 * getppid()): 0, or -ESRCH when it has ended already.
 *
 * The kernel means the thread that forked: look at getppid() before the signal is believed.
 */
int proctree_follow(pid_t parent, int signal);

#endif
