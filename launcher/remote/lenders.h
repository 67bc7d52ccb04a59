/* SPDX-License-Identifier: MIT */
/* lenders.h - hosts that run no instance and lend their cores to the job (--loader-host): each has
 * a loader while the job runs, with a key that was made for this job. */
#ifndef LAUNCHER_LENDERS_H
#define LAUNCHER_LENDERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

#include "launcher/environ.h"
#include "launcher/plan/plan.h"
#include "launcher/remote/agent.h"

/** All of a job's. Opaque. Threads: one. NULL, where functions take one, is a job without any. */
struct lenders;

/** Borrowed for the lenders' life. */
struct lenders_request {
    const struct plan *plan;
    const struct agent_settings *agent;
    const struct environ_list *environment; /* of a loader: changes to what it is there */
};

/**
 * Log in to each of the plan's loader hosts, and have a loader kept there. Does not wait.
 *
 * Lines that loaders print, and what becomes of them, are logged.
 */
int lenders_create(const struct lenders_request *request, struct lenders **ret,
                   struct plenum_error *err);

/** A descriptor that becomes readable when lenders_dispatch() has something to do; -1 where there
 * are none. Borrowed. */
int lenders_get_fd(const struct lenders *lenders);
/** Also after SIGCHLD. */
void lenders_dispatch(struct lenders *lenders);

/** Say that we are here, and try again where that is due: once a second. */
void lenders_beat(struct lenders *lenders, uint64_t now_ns);
/** Heartbeats will be missing, or are back. */
void lenders_suspend(struct lenders *lenders, bool suspend);

/** Do all listen? */
bool lenders_are_ready(const struct lenders *lenders);
/** The first host whose loader could not be started at all, with the reason; NULL when there is
 * none. */
const char *lenders_get_failed(const struct lenders *lenders, char *why, size_t size);
/** "the loader on host a, the loader on host b": those that do not listen yet. */
void lenders_list_missing(const struct lenders *lenders, char *ret, size_t size);

/** The job's key, "" where there are no lenders. Borrowed. */
const char *lenders_get_key(const struct lenders *lenders);
/** Append to a list of addresses (or to "") those that an instance should use: all, unless there
 * are more than a stream takes; then others for each instance. */
void lenders_add_addresses(const struct lenders *lenders, uint32_t instance, char *list,
                           size_t size);

/** Tell them that the job is over. */
void lenders_end(struct lenders *lenders);
bool lenders_are_gone(const struct lenders *lenders);

/** Whoever is still there is killed. */
void lenders_destroy(struct lenders *lenders);

#endif
