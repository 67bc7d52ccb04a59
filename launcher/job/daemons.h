/* SPDX-License-Identifier: MIT */
/* daemons.h - finds the hosts whose Open MPI daemons have not connected to mpirun. */
#ifndef LAUNCHER_DAEMONS_H
#define LAUNCHER_DAEMONS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "launcher/plan/plan.h"

/**
 * Set `late[host]` for each host of the plan whose daemon has not connected to mpirun, which is
 * process `mpirun` here.
 *
 * Returns their number; 0 if that cannot be determined: /proc hides it, an address belongs to no
 * known host, or the hosts are so numerous that daemons connect to one another.
 */
uint32_t daemons_find_late(const struct plan *plan, pid_t mpirun, bool *late);

#endif
