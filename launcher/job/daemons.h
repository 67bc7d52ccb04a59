/* SPDX-License-Identifier: MIT */
/* daemons.h - finds the hosts whose Open MPI daemons cannot run, or have not connected to
 * mpirun. */
#ifndef LAUNCHER_DAEMONS_H
#define LAUNCHER_DAEMONS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "launcher/control/control.h"
#include "launcher/plan/plan.h"

/** A daemon's failure, as the lines that mpirun prints reveal it. Zero-initialised: none. */
struct daemon_failure {
    char reason[160];            /* why it cannot be executed: "orted: Permission denied"; or "" */
    char hosts[96];              /* where a task of srun ended, in srun's notation; or "" */
    char host[256];              /* where a login could not execute it; or "" */
    char end[96];                /* how that task ended: "Exited with exit code 2" */
    char text[CONTROL_TEXT_MAX]; /* the message that names the host; "": no failure yet */
};

/**
 * Look for a failure in the next line that mpirun prints: agent.c prints that a login could not
 * execute the daemon, and srun prints how its tasks end.
 *
 * Returns true if this line completes `failure->text`. Only the first failure counts, because srun
 * ends the other daemons after it; a reason that is printed later is still added to the text.
 */
bool daemons_read_line(struct daemon_failure *failure, const char *line);

/** Returns whether it was this host's daemon that failed. */
bool daemons_names_host(const struct daemon_failure *failure, const char *host);

/**
 * Set `late[host]` for each host of the plan whose daemon has not connected to mpirun, which is
 * process `mpirun` here.
 *
 * Returns their number; 0 if that cannot be determined, because /proc hides it, an address belongs
 * to no known host, or the hosts are so numerous that daemons connect to one another. `late` is
 * then undefined.
 */
uint32_t daemons_find_late(const struct plan *plan, pid_t mpirun, bool *late);

#endif
