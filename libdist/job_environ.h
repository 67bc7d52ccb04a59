/* SPDX-License-Identifier: MIT */
/* job_environ.h - a process's place in its job, from the variables of launchers. */
#ifndef LIBDIST_JOB_ENVIRON_H
#define LIBDIST_JOB_ENVIRON_H

#include "libdist/job_priv.h"

/** getenv(), or a replacement. */
typedef const char *(*job_getenv)(const char *name);

/** Read the place: 0 or -EINVAL. `job` begins as zeros. */
int job_from_environment(job_getenv get, struct plenum_job *job, struct plenum_error *err);
/** Take the place that the program has chosen, and only its surroundings from the environment. */
int job_from_info(job_getenv get, const struct plenum_job_info *info, struct plenum_job *job,
                  struct plenum_error *err);

#endif
