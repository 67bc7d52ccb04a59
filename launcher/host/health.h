/* SPDX-License-Identifier: MIT */
/* health.h - checks whether this machine can run a job's programs. */
#ifndef LAUNCHER_HEALTH_H
#define LAUNCHER_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

enum { HEALTH_WHY_MAX = 400, HEALTH_LIMIT_MS = 20000 };

enum health_state {
    HEALTH_GOOD,
    HEALTH_BAD,
    HEALTH_UNKNOWN, /* not to be used either, but nothing shows that the machine is at fault */
};

struct health_report {
    enum health_state state;
    char why[HEALTH_WHY_MAX]; /* "" if the state is HEALTH_GOOD */
    /* The message about an accelerator that does not answer; "" if there is none. Not all jobs use
     * accelerators, so `state` and `why` depend on it only after health_need_devices(). */
    char device[HEALTH_WHY_MAX];
};

/** Borrowed until health_finish(). */
struct health_request {
    const char *command; /* the user's, for sh(1); NULL or "": none */
    const char *root;    /* precedes the names of devices and of /dev/shm, for tests; "": none */
    bool no_devices;     /* leave accelerators alone, because the job uses none */
    uint64_t limit_ns;   /* for each check */
    int (*interrupted)(void); /* not 0: stop waiting; called often; NULL: never */
};

/** Checks in progress. Opaque. */
struct health;

/**
 * Begin to check memory, free space in the folders that programs use (this process's working
 * directory is one), accelerators, and what the user's command checks. All of this runs at once, in
 * separate processes, because a file system or a device may hang.
 *
 * Errors: -errno.
 */
int health_begin(const struct health_request *request, struct health **ret);
/** Wait for the results, and free the checks. */
void health_finish(struct health *health, struct health_report *ret);
/** Count an accelerator that does not answer as the machine's fault. */
void health_need_devices(struct health_report *report);

#endif
