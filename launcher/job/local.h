/* SPDX-License-Identifier: MIT */
/* local.h - plenumrun as the starter of all instances on this host, used if there is no mpirun, or
 * with --starter. */
#ifndef LAUNCHER_LOCAL_H
#define LAUNCHER_LOCAL_H

#include "launcher/job/starter.h"
#include "launcher/plan/plan.h"

/** The argument that makes plenumrun the starter. The number of shims follows. */
#define LOCAL_ARGUMENT "--start"

/** Build the starter's command line. */
int local_arguments(const struct plan *plan, struct starter_words *ret);

/** Build the starter's environment: ours, with settings that make MPI programs fail instead of each
 * running alone. */
int local_environment(const struct plan *plan, const struct starter_job *job,
                      char *const *environment, struct starter_words *ret);

/** Run "plenumrun --start COUNT". Returns its exit status. */
int local_main(const char *count);

#endif
