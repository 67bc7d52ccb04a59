/* SPDX-License-Identifier: MIT */
/* jobspawn.h - how the process of a job's own loader is started, held, and watched. */
#ifndef COMMON_JOBSPAWN_H
#define COMMON_JOBSPAWN_H

#include <sys/types.h>

/** The descriptors that the loader begins with. The first one is its descriptor
 * JOBSPAWN_FIRST_FD, and the others follow. */
enum jobspawn_fd {
    JOBSPAWN_LISTEN,
    JOBSPAWN_LIFELINE,
    JOBSPAWN_LEASH,
    JOBSPAWN_PAGE,   /* listens for readers of the status page; or none */
    JOBSPAWN_CLIENT, /* a client that was accepted already; or none */
    JOBSPAWN_FDS
};

enum { JOBSPAWN_FIRST_FD = 3 };

/** What is started. The descriptors are borrowed. */
struct jobspawn_request {
    const char *program;
    char *const *args;
    char *const *environment; /* NULL: this process's own */
    int fds[JOBSPAWN_FDS];    /* the loader's ends; -1: none */
    int stderr_fd;            /* -1: this process's standard error */
};

struct jobspawn_process {
    pid_t pid;
    int pidfd; /* -1: the kernel has none for us */
};

/** The wait status of a process that is no child of ours. */
struct jobspawn_observer;

/**
 * Start the loader. It is no child of this process. Its kernel kills it when the other end of
 * the leash is closed, from its first instruction on, until the loader itself ends that.
 *
 * 0 or -errno.
 */
int jobspawn_start(const struct jobspawn_request *request, struct jobspawn_process *ret);

/**
 * The same, and learn how it ends. A thread of this process stays until then, or until
 * jobspawn_unobserve(); so this is for a loader whose last start has failed.
 *
 * 0 or -errno; -ENOTSUP: nothing was started, as this kernel cannot do it.
 */
int jobspawn_observe(const struct jobspawn_request *request, struct jobspawn_process *ret,
                     struct jobspawn_observer **ret_observer);

/** A descriptor that becomes readable when the process has ended. Borrowed. */
int jobspawn_observer_fd(const struct jobspawn_observer *observer);

/** How it ended, as waitpid(2) has it: 0, -EAGAIN (it has not), or -EIO (that is not known). */
int jobspawn_get_status(struct jobspawn_observer *observer, int *ret_wait_status);

/** Leave the process alone, and free the observer. NULL is nothing. */
void jobspawn_unobserve(struct jobspawn_observer *observer);

/** In a forked child, which has no such thread: close what was inherited. */
void jobspawn_forget(struct jobspawn_observer *observer);

#endif
