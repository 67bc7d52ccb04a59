/* SPDX-License-Identifier: MIT */
/* mpirun.h - Open MPI's mpirun, which starts the shims: its command line and its settings. */
#ifndef LAUNCHER_MPIRUN_H
#define LAUNCHER_MPIRUN_H

#include <plenum/error.h>

#include "launcher/job/starter.h"
#include "launcher/plan/plan.h"
#include "launcher/plan/settings.h"

/** Which mpirun is there? Open MPI 4 has daemons of its own; from 5 on they are PRRTE's. */
struct mpirun_program {
    char path[4096];
    unsigned major; /* of Open MPI's version, 4 at least */
};

/** Look for it in PATH and ask it. 0, or a negative errno with the beginning of a sentence: there
 * is none, it cannot be executed (-EACCES), does not answer, or is another MPI's (-ENOTSUP). */
int mpirun_find(struct mpirun_program *ret, struct plenum_error *err);

/** mpirun's command line, to start `self` as the shim of each instance. */
int mpirun_arguments(const struct plan *plan, const struct starter_job *job, const char *self,
                     struct starter_words *ret);

/** Do these instances take several applications of mpirun's, as some have arguments of their
 * own? */
bool mpirun_has_several(const struct plan *plan, const struct mpi_settings *mpi);

/** Are these arguments of mpirun variables alone: -x NAME=value, -x NAME? */
bool mpirun_are_exports(const struct texts *words);

/** mpirun's environment: ours, with Open MPI settings that nobody has set otherwise. */
int mpirun_environment(const struct plan *plan, const struct starter_job *job,
                       char *const *environment, struct starter_words *ret);

#endif
