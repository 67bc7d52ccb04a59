/* SPDX-License-Identifier: MIT */
/* variables.h - the environment variables of an instance, and of a loader on another host. */
#ifndef LAUNCHER_VARIABLES_H
#define LAUNCHER_VARIABLES_H

#include <stdint.h>

#include "launcher/control/environ.h"
#include "launcher/plan/plan.h"
#include "launcher/plan/job_settings.h"

/** What all instances of a job have in common. Borrowed. */
struct variables_job {
    const char *id;
    const char *master_address;
    uint16_t master_port;
    uint32_t restart_count;
    const char *interface;          /* the host's interface for communication; NULL: not known */
    const char *meeting;            /* MEETING_VARIABLE (meeting.h), or NULL */
    const char *meeting_hosts;      /* MEETING_HOSTS_VARIABLE, or NULL */
    const struct texts *exports;    /* NAME, NAME=value or PREFIX* */
    const struct mpi_settings *mpi; /* its arguments for single instances may be exports */
    const char *verify;             /* percentage of batches; NULL: use the environment's */
};

/**
 * Compute the changes for one instance: its rank, its tuning, and what the user exports.
 *
 * @param loader  addresses, or NULL: no loader is named (and an inherited one is removed)
 * @return        0 or -ENOMEM
 */
int variables_of_instance(const struct variables_job *job, const struct plan *plan, uint32_t index,
                          const char *loader, struct environ_list *ret);

/** Returns the search path for programs: PATH as the instances have it (-x PATH=...), or NULL.
 * Borrowed. */
const char *variables_get_path(const struct texts *exports);

/** Compute the changes for a loader on a host without instances: the variables that travel, and
 * what the user exports. */
int variables_of_loader(const struct texts *exports, struct environ_list *ret);

/** Warn if a process of another job, such as one of mpirun's, has started this one. Call it before
 * environ_leave_outer(), which removes the signs of it. */
void variables_warn_of_job_around(void);

/** Warn of variables in our own environment that the instances will see with another value, and of
 * exports without a value. */
void variables_warn(const struct plan *plan, const struct texts *exports);

#endif
