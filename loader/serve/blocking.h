/* SPDX-License-Identifier: MIT */
/* blocking.h - runs calls that may block without limit in threads: storage may hang, and another
 * process may decide how long closing a descriptor takes. The loop never waits for them. */
#ifndef LOADER_SERVE_BLOCKING_H
#define LOADER_SERVE_BLOCKING_H

#include <stdbool.h>
#include <stdint.h>

#include <uv.h>

#include "common/util/list.h"

/**
 * The threads, and the jobs that wait for one. At most `limit` jobs of a group (such as one user's
 * openings) run at a time, each in its own thread; the other jobs of the group wait. So a hanging
 * group delays no other group.
 */
struct blocking;

/** One job. Its owner must not move or free it until done() has been called or blocking_cancel()
 * has returned true. */
struct blocking_job {
    void (*work)(struct blocking_job *job); /* called in the thread */
    /* Called on the loop, and never before blocking_start() has returned. */
    void (*done)(struct blocking_job *job);
    bool off_loop;     /* done() may be called by any thread, even from blocking_start() */
    const char *group; /* borrowed */
    unsigned limit;
    int code; /* 0, or -errno if work() was not called */
    /* Private. */
    struct blocking *blocking;
    struct list link; /* in the list of waiting, running or ended jobs */
    uint64_t began_ns;
    bool started;
};

int blocking_create(uv_loop_t *loop, struct blocking **ret);
/** Prepare for the end of the loop: from now on, only blocking_destroy() calls done(), except for
 * jobs with `off_loop`. */
void blocking_close(struct blocking *blocking);
/** Wait for the running threads; waiting jobs end with -ECANCELED. NULL is ignored. */
void blocking_destroy(struct blocking *blocking);

/** Start a job, or let it wait for its group. Threads: any. */
void blocking_start(struct blocking *blocking, struct blocking_job *job);
/** Drop a waiting job. Returns false if it has already begun. Threads: any. */
bool blocking_cancel(struct blocking_job *job);
/** Returns whether the job has begun. Threads: any. */
bool blocking_has_begun(struct blocking_job *job);

/**
 * Close a descriptor that a client has sent, in a thread. Takes ownership of `fd`. A client can
 * make closing take arbitrarily long: with a file whose file system it serves itself (FUSE), with a
 * socket that has SO_LINGER set and unread bytes, or with a unix socket that has such descriptors
 * in its queue. Signals interrupt the wait for sockets and queues, so only a file can block a
 * thread.
 */
void blocking_close_fd(struct blocking *blocking, uint64_t user, int fd);
/** Close a connection that we accepted: at once if there are no descriptors in its queue, otherwise
 * in a thread. These threads have a separate limit from those of blocking_close_fd(), because
 * closing a queue hardly ever hangs. */
void blocking_close_connection(struct blocking *blocking, uint64_t user, int fd);
/** Returns whether descriptors of this user are waiting behind others whose closing hangs. If so,
 * the loader accepts no more descriptors from the user, and closes its connections together with
 * the contents of their queues. This bounds the threads and descriptors that one user can hold. */
bool blocking_is_stuck(struct blocking *blocking, uint64_t user);

/** The user ID for peers that were not authenticated. */
#define BLOCKING_UNKNOWN_USER UINT64_MAX

#endif
