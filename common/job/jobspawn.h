/* SPDX-License-Identifier: MIT */
/* jobspawn.h - starts and watches the process of a job's own loader. */
#ifndef COMMON_JOBSPAWN_H
#define COMMON_JOBSPAWN_H

#include <sys/types.h>

/** The descriptors that the loader starts with. The first one becomes number JOBSPAWN_FIRST_FD, and
 *  the others follow. */
enum jobspawn_fd {
    JOBSPAWN_LISTEN,
    JOBSPAWN_LIFELINE,
    JOBSPAWN_LEASH,
    JOBSPAWN_PAGE,   /* listens for the status page; optional */
    JOBSPAWN_CLIENT, /* an accepted client; optional */
    JOBSPAWN_FDS
};

enum { JOBSPAWN_FIRST_FD = 3 };

/** What to start. The descriptors are borrowed. */
struct jobspawn_request {
    const char *program;
    char *const *args;
    char *const *environment; /* NULL: this process's own */
    int fds[JOBSPAWN_FDS];    /* the loader's ends; -1: none */
    int stderr_fd;            /* -1: this process's standard error */
};

struct jobspawn_process {
    pid_t pid;
    int pidfd; /* -1: not supported by the kernel */
};

/** Obtains the wait status of a process that is not our child. Opaque. */
struct jobspawn_observer;

/**
 * Start the loader, but not as a child of this process. From its first instruction on, the kernel
 * kills it when the other end of the leash is closed, until the loader itself changes that.
 *
 * Returns 0 or -errno.
 */
int jobspawn_start(const struct jobspawn_request *request, struct jobspawn_process *ret);

/**
 * Like jobspawn_start(), and observe how the process ends. A thread of this process runs until
 * then, or until jobspawn_unobserve(); so use it for a loader whose last start has failed.
 *
 * Returns 0 or -errno; -ENOTSUP: this kernel cannot do it, and nothing was started.
 */
int jobspawn_observe(const struct jobspawn_request *request, struct jobspawn_process *ret,
                     struct jobspawn_observer **ret_observer);

/** Returns a descriptor that becomes readable when the process has ended. Borrowed. */
int jobspawn_observer_fd(const struct jobspawn_observer *observer);

/** Get the process's wait status, as from waitpid(2). Returns 0, -EAGAIN (still running), or -EIO
 * (unknown). */
int jobspawn_get_status(struct jobspawn_observer *observer, int *ret_wait_status);

/** Stop observing, leave the process alone, and free the observer. NULL is ignored. */
void jobspawn_unobserve(struct jobspawn_observer *observer);

/** In a forked child, which does not have the observer's thread: close the inherited descriptors.
 * The observer is not freed. NULL is ignored. */
void jobspawn_forget(struct jobspawn_observer *observer);

#endif
