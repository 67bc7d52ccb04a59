/* SPDX-License-Identifier: MIT */
/* claim.h - each instance of a job is one process. */
#ifndef LIBDIST_CLAIM_H
#define LIBDIST_CLAIM_H

#include <plenum/error.h>

#include "libdist/job_priv.h"

/**
 * Make this process the instance that `job` describes, until the process ends. Call it before the
 * process takes samples. Calling it again has no effect. A job of one instance is never claimed:
 * each of its processes sees all samples.
 *
 * Errors: -EBUSY when another process is this instance already, or started this one; -ENOMEM.
 * Threads: under job.c's lock.
 */
int claim_instance(const struct plenum_job *job, struct plenum_error *err);

#endif
