/* SPDX-License-Identifier: MIT */
/* job_environ.h - a process's rank in its job, and the job's size, from launchers' variables. */
#ifndef LIBDIST_JOB_ENVIRON_H
#define LIBDIST_JOB_ENVIRON_H

#include "libdist/job_priv.h"

/** getenv(), or a replacement. */
typedef const char *(*job_getenv)(const char *name);

/** Read rank and counts. Returns 0 or -EINVAL. `job` begins as zeros. */
int job_from_environment(job_getenv get, struct plenum_job *job, struct plenum_error *err);
/** Use the rank and counts that the program has chosen, and read only the rest from the
 * environment. */
int job_from_info(job_getenv get, const struct plenum_job_info *info, struct plenum_job *job,
                  struct plenum_error *err);

#endif
