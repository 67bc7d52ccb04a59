/* SPDX-License-Identifier: MIT */
/* mpirun.h - Open MPI's mpirun, which starts the shims: its command line and its settings. */
#ifndef LAUNCHER_MPIRUN_H
#define LAUNCHER_MPIRUN_H

#include <plenum/error.h>

#include "launcher/job/starter.h"
#include "launcher/plan/plan.h"
#include "launcher/plan/job_settings.h"

/** The mpirun in use. Open MPI 4 has its own daemons; from 5 on, they are PRRTE's. */
struct mpirun_program {
    char path[4096];
    unsigned major; /* Open MPI's version, at least 4 */
};

/** Search PATH for mpirun and ask for its version. Returns 0, or a negative errno with the
 * beginning of a sentence: mpirun does not exist, cannot be executed (-EACCES), does not answer, or
 * belongs to another MPI (-ENOTSUP). */
int mpirun_find(struct mpirun_program *ret, struct plenum_error *err);

/** Build mpirun's command line, which starts `self` as the shim of each instance. */
int mpirun_arguments(const struct plan *plan, const struct starter_job *job, const char *self,
                     struct starter_words *ret);

/** Returns whether these instances require several mpirun applications, because some have their own
 * arguments. */
bool mpirun_has_several(const struct plan *plan, const struct mpi_settings *mpi);

/** Returns whether these mpirun arguments only export variables, such as "-x NAME=value -x
 * NAME". */
bool mpirun_are_exports(const struct texts *words);

/** Build mpirun's environment: ours, with Open MPI settings that are not set otherwise. */
int mpirun_environment(const struct plan *plan, const struct starter_job *job,
                       char *const *environment, struct starter_words *ret);

#endif
