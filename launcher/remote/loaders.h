/* SPDX-License-Identifier: MIT */
/* loaders.h - hosts that run no instance and lend their cores to the job (--loader-host): each has
 * a loader while the job runs, with a key that was made for this job. */
#ifndef LAUNCHER_LOADERS_H
#define LAUNCHER_LOADERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

#include "launcher/environ.h"
#include "launcher/plan/plan.h"
#include "launcher/remote/agent.h"

/** All remote loaders of a job. Opaque. Threads: one. Functions take NULL for a job without any. */
struct loaders;

/** Borrowed for the loaders' life. */
struct loaders_request {
    const struct plan *plan;
    const struct agent_settings *agent;
    const struct environ_list *environment; /* of a loader: changes to what it is there */
};

/**
 * Log in to each of the plan's loader hosts, and have a loader kept there. Does not wait.
 *
 * Lines that loaders print, and what becomes of them, are logged.
 */
int loaders_create(const struct loaders_request *request, struct loaders **ret,
                   struct plenum_error *err);

/** A descriptor that becomes readable when loaders_dispatch() has something to do; -1 where there
 * are none. Borrowed. */
int loaders_get_fd(const struct loaders *loaders);
/** Also after SIGCHLD. */
void loaders_dispatch(struct loaders *loaders);

/** Is this process a login to one of them? */
bool loaders_own(const struct loaders *loaders, pid_t pid);

/** Say that we are here, and try again where that is due: once a second. */
void loaders_beat(struct loaders *loaders, uint64_t now_ns);
/** Heartbeats will be missing, or are back. */
void loaders_suspend(struct loaders *loaders, bool suspend);

/** Do all listen? */
bool loaders_are_ready(const struct loaders *loaders);
/** The first host whose loader could not be started at all, with the reason; NULL when there is
 * none. */
const char *loaders_get_failed(const struct loaders *loaders, char *why, size_t size);
/** "the loader on host a, the loader on host b": those that do not listen yet. */
void loaders_list_missing(const struct loaders *loaders, char *ret, size_t size);

/** The job's key, "" where there are no loaders. Borrowed. */
const char *loaders_get_key(const struct loaders *loaders);
/** Append to a list of addresses (or to "") those that an instance should use: all, unless there
 * are more than a stream takes; then others for each instance. */
void loaders_add_addresses(const struct loaders *loaders, uint32_t instance, char *list,
                           size_t size);

/** Tell them that the job is over. */
void loaders_end(struct loaders *loaders);
bool loaders_are_gone(const struct loaders *loaders);

/** Whoever is still there is killed. */
void loaders_destroy(struct loaders *loaders);

#endif
