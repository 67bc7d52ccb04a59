/* SPDX-License-Identifier: MIT */
/* proctree.h - kills the descendants of this process. */
#ifndef LAUNCHER_PROCTREE_H
#define LAUNCHER_PROCTREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/**
 * Kill (SIGKILL) all living descendants of the calling process, except `spare` and its own
 * descendants (0: no exception).
 *
 * Complete if the caller is a subreaper (so that no process can leave the tree), reaps its
 * children, and calls again until the result is 0: children of killed processes become children of
 * the caller.
 *
 * Returns the number of processes found alive (1 if there may be some), -ENOMEM, or another -errno
 * if /proc cannot be read.
 */
int proctree_kill(pid_t spare);

extern bool proctree_walks_proc;

/** Kills a tree in bounded time: it waits for processes that survive even SIGKILL, and starts the
 * wait again while their number decreases. Zero-initialised: not begun. */
struct proctree_end {
    int least;           /* lowest number found alive */
    uint64_t give_up_at; /* when to give up on the rest; 0: not begun */
};

/** Call proctree_kill() again. Returns whether no process is left, or the wait for the rest is
 * over. */
bool proctree_end(struct proctree_end *end, pid_t spare, uint64_t now_ns);

/** Make this process adopt its orphaned descendants. Returns 0 or -errno. */
int proctree_adopt(void);

/**
 * Ask the kernel to send `signal` when the parent ends. `parent` is its process ID, read before
 * fork() or by getppid(). Returns 0, -ESRCH if the parent has already ended, or another -errno.
 *
 * The signal also arrives when only the thread that forked has ended: check getppid() then.
 */
int proctree_follow(pid_t parent, int signal);

#endif
