/* SPDX-License-Identifier: MIT */
/* blocking.h - threads for calls that may block without limit: because storage hangs, or because
 * another process decides how long a descriptor takes to close. The loop waits for none of them. */
#ifndef LOADER_SERVE_BLOCKING_H
#define LOADER_SERVE_BLOCKING_H

#include <stdbool.h>
#include <stdint.h>

#include <uv.h>

#include "common/list.h"

/**
 * The threads, and the jobs that wait for one. At most `limit` jobs of one group (a user's
 * openings, say) run at a time, each in a thread of its own; the others of the group wait. So a
 * group that hangs delays no other.
 */
struct blocking;

/** One job. Its owner keeps it in place until done() has been called, or blocking_cancel() was
 * true. */
struct blocking_job {
    void (*work)(struct blocking_job *job); /* in the thread */
    /* On the loop, and not before blocking_start() has returned. */
    void (*done)(struct blocking_job *job);
    bool off_loop;     /* done() may be called by any thread, also within blocking_start() */
    const char *group; /* borrowed */
    unsigned limit;
    int code; /* 0, or why there is no thread: then no work was done */
    /* Private. */
    struct blocking *blocking;
    struct list link; /* of the jobs that wait, that run, or that have ended */
    uint64_t began_ns;
    bool started;
};

int blocking_create(uv_loop_t *loop, struct blocking **ret);
/** The loop is about to end: from now on done() is called by blocking_destroy() alone. */
void blocking_close(struct blocking *blocking);
/** Wait for the threads at work; jobs that wait end with -ECANCELED. NULL is nothing. */
void blocking_destroy(struct blocking *blocking);

/** Threads: any. */
void blocking_start(struct blocking *blocking, struct blocking_job *job);
/** Drop a job that waits: false when it has begun. Threads: any. */
bool blocking_cancel(struct blocking_job *job);
/** Has it begun? Threads: any. */
bool blocking_has_begun(struct blocking_job *job);

/**
 * Close a descriptor that a client has sent, in a thread. Closing may take as long as the client
 * likes: of a file whose file system the client serves itself (FUSE), of a socket with SO_LINGER
 * and unread bytes, and of a unix socket with such descriptors in its queue. Sockets and queues are
 * interrupted by a signal; so only a file can hold a thread up. Ownership of `fd` passes.
 */
void blocking_close_fd(struct blocking *blocking, uint64_t user, int fd);
/** Close a connection that we accepted: at once, where no descriptor is in its queue; else in a
 * thread, in another group than blocking_close_fd(), because its queue hardly ever hangs. */
void blocking_close_connection(struct blocking *blocking, uint64_t user, int fd);
/** Do this user's descriptors wait for others whose closing hangs? Then the loader accepts no more
 * descriptors of the user, and closes its connections with what is in their queues. So a user holds
 * only so many of our threads and descriptors. */
bool blocking_is_stuck(struct blocking *blocking, uint64_t user);

/** The user of a peer that was not authenticated. */
#define BLOCKING_UNKNOWN_USER UINT64_MAX

#endif
