/* SPDX-License-Identifier: MIT */
/* sweep.h - files that Open MPI leaves behind when it, or a program under it, was killed. */
#ifndef LAUNCHER_SWEEP_H
#define LAUNCHER_SWEEP_H

#include <stdbool.h>
#include <sys/types.h>

/** The session folder of an mpirun of this host that has ended. */
void sweep_after_mpirun(pid_t mpirun);

/**
 * For a shim whose program has ended: the shared memory that the program made for MPI; and, when
 * the process of Open MPI that started the shim (`starter`) has gone without cleaning up, the
 * session folder of the job on this host. By Open MPI's variables in the environment.
 */
void sweep_after_program(pid_t starter, bool starter_gone);

#endif
