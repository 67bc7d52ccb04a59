/* SPDX-License-Identifier: MIT */
/* remote_loaders.h - loaders on hosts without instances (--loader-host): each runs for as long as
 * the job, with a key created for this job. */
#ifndef LAUNCHER_REMOTE_LOADERS_H
#define LAUNCHER_REMOTE_LOADERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

#include "launcher/control/environ.h"
#include "launcher/plan/plan.h"
#include "launcher/remote/agent.h"

/** All remote loaders of a job. Opaque. Threads: one. NULL is a job without remote loaders. */
struct remote_loaders;

/** What remote loaders need. Borrowed for their life. */
struct remote_loaders_request {
    const struct plan *plan;
    const struct agent_settings *agent;
    const struct environ_list *environment; /* changes to each loader's environment */
};

/**
 * Log in to each of the plan's loader hosts, and keep a loader there. Does not block.
 *
 * Loaders' output and state changes are logged. `*ret` is NULL if the plan has no loader hosts.
 * Returns 0, or a negative errno with a message.
 */
int remote_loaders_create(const struct remote_loaders_request *request, struct remote_loaders **ret,
                          struct plenum_error *err);

/** Returns a descriptor that becomes readable when remote_loaders_dispatch() has something to do;
 * -1 if there are no loaders. Borrowed. */
int remote_loaders_get_fd(const struct remote_loaders *loaders);
/** Handle output and ended logins. Call this after SIGCHLD, too. */
void remote_loaders_dispatch(struct remote_loaders *loaders);

/** Is this process a login to one of the hosts? */
bool remote_loaders_own(const struct remote_loaders *loaders, pid_t pid);

/** Send heartbeats, and restart lost loaders when due. Call this once a second. */
void remote_loaders_beat(struct remote_loaders *loaders, uint64_t now_ns);
/** Announce that heartbeats will stop (`suspend`), or have resumed. */
void remote_loaders_suspend(struct remote_loaders *loaders, bool suspend);

/** Has each loader listened at least once? */
bool remote_loaders_are_ready(const struct remote_loaders *loaders);
/** Returns the name of the first host whose loader never listened and whose login has ended, and
 * writes the reason to `why`; NULL if there is none. */
const char *remote_loaders_get_failed(const struct remote_loaders *loaders, char *why, size_t size);
/** List the loaders that have never listened: "the loader on host a, the loader on host b". */
void remote_loaders_list_missing(const struct remote_loaders *loaders, char *ret, size_t size);

/** Returns the programs' key, or "" if there are no loaders. Borrowed. */
const char *remote_loaders_get_key(const struct remote_loaders *loaders);
/** Append the addresses that an instance should use to a list (or to ""): all of them or, if there
 * are more than a stream accepts, different ones for each instance. */
void remote_loaders_add_addresses(const struct remote_loaders *loaders, uint32_t instance,
                                  char *list, size_t size);

/** Notify the hosts that the job is over, so that they end their loaders. */
void remote_loaders_end(struct remote_loaders *loaders);
/** Have all logins ended? */
bool remote_loaders_are_gone(const struct remote_loaders *loaders);

/** Kill the logins that are still running, and free everything. */
void remote_loaders_destroy(struct remote_loaders *loaders);

#endif
