/* SPDX-License-Identifier: MIT */
/* job_hosts.h - the hosts that the user or the batch system has named, and plans for them. */
#ifndef LAUNCHER_JOB_HOSTS_H
#define LAUNCHER_JOB_HOSTS_H

#include <stdbool.h>

#include <plenum/error.h>

#include "common/net/hostlist.h"
#include "launcher/plan/plan.h"

struct cmdline;

/** Hosts for instances and for loaders. `local`: is it this machine? Empty: this host. */
struct job_hosts {
    struct hostlist list;
    bool *local;
    struct hostlist lenders; /* borrowed from the options */
    bool *lenders_local;
};

/**
 * Get the job's hosts: those of the options, or those of the batch system, without those that
 * --exclude names. Takes the list from the options, and sets their number of instances if the batch
 * system gives it.
 */
int job_hosts_init(struct cmdline *options, struct job_hosts *ret, struct plenum_error *err);
void job_hosts_fini(struct job_hosts *hosts);

/** Read the host files again, or the batch system's list. Returns 0, -ENODATA without a message if
 * nothing could have changed, or another -errno with a message. */
int job_hosts_read_again(const struct cmdline *options, struct job_hosts *ret,
                         struct plenum_error *err);

/** Plan the job on these hosts. */
int job_hosts_plan(const struct cmdline *options, const struct job_hosts *hosts, struct plan *ret,
                   struct plenum_error *err);

/** Returns the job's loader: --loader overrides PLENUM_LOADER, which overrides a loader of our
 * own. */
const char *job_hosts_get_loader(const struct cmdline *options);

#endif
