/* SPDX-License-Identifier: MIT */
/* claim.h - ensures that each instance of a job is a single process. */
#ifndef LIBDIST_CLAIM_H
#define LIBDIST_CLAIM_H

#include <plenum/error.h>

#include "libdist/job_priv.h"

/**
 * Make this process the instance that `job` describes, until the process ends. Call it before the
 * process receives samples. Calling it again has no effect. A job of one instance is never claimed,
 * because each of its processes sees all samples.
 *
 * Errors: -EBUSY if another process already is this instance, or started this one; -ENOMEM.
 * Threads: under job.c's lock.
 */
int claim_instance(const struct plenum_job *job, struct plenum_error *err);

#endif
