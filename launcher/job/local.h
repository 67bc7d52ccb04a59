/* SPDX-License-Identifier: MIT */
/* local.h - plenumrun as the starter of all instances on this host, where there is no mpirun. */
#ifndef LAUNCHER_LOCAL_H
#define LAUNCHER_LOCAL_H

#include "launcher/job/starter.h"
#include "launcher/plan/plan.h"

/** The argument that makes plenumrun the starter. The number of shims follows it. */
#define LOCAL_ARGUMENT "--start"

/** Its command line. */
int local_arguments(const struct plan *plan, struct starter_words *ret);

/** Its environment: ours, and settings with which MPI programs fail where each would be alone. */
int local_environment(const struct plan *plan, const struct starter_job *job,
                      char *const *environment, struct starter_words *ret);

/** The program "plenumrun --start COUNT": its exit status. */
int local_main(const char *count);

#endif
