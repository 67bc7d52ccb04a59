/* SPDX-License-Identifier: MIT */
/* sweep.h - removes files that Open MPI leaves behind when it, or a program under it, is killed. */
#ifndef LAUNCHER_SWEEP_H
#define LAUNCHER_SWEEP_H

#include <stdbool.h>
#include <sys/types.h>

/** Remove the session folder of an mpirun of this host that has ended. */
void sweep_after_mpirun(pid_t mpirun);

/**
 * Remove the session folder of a daemon of Open MPI on this host that has ended. `command` is the
 * command line that started it; with Open MPI 4.1, it contains the job's number.
 */
void sweep_after_daemon(pid_t daemon, const char *command);

/**
 * Clean up after a shim's program: the shared memory that it created for MPI; and, if the Open MPI
 * process that started the shim (`starter`) has gone without cleaning up, the job's session folder
 * on this host. Uses Open MPI's variables in the environment.
 */
void sweep_after_program(pid_t starter, bool starter_gone);

#endif
