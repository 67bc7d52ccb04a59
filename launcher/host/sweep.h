/* SPDX-License-Identifier: MIT */
/* sweep.h - removes files that Open MPI leaves behind when it, or a program under it, is killed. */
#ifndef LAUNCHER_SWEEP_H
#define LAUNCHER_SWEEP_H

#include <stdbool.h>
#include <sys/types.h>

/** Remove the session folder of an mpirun that has ended on this host, and the shared memory that
 * the job's programs there created for MPI. */
void sweep_after_mpirun(pid_t mpirun);

/**
 * Like sweep_after_mpirun(), for an Open MPI daemon that has ended on this host. `command` is the
 * command line that started it; with Open MPI 4.1, it contains the job ID.
 */
void sweep_after_daemon(pid_t daemon, const char *command);

/**
 * Clean up after a shim's program. Remove the shared memory that it created for MPI. If the Open
 * MPI process that started the shim (`starter`) is gone and has not cleaned up, remove the job's
 * session folder on this host, too. Uses Open MPI's variables in the environment.
 */
void sweep_after_program(pid_t starter, bool starter_gone);

#endif
