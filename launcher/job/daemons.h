/* SPDX-License-Identifier: MIT */
/* daemons.h - which hosts' daemons of Open MPI have connected to mpirun? */
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
 * Returns their number; 0 where that cannot be told: /proc hides it, an address belongs to no host
 * that we know, or there are so many hosts that daemons connect to one another.
 */
uint32_t daemons_find_late(const struct plan *plan, pid_t mpirun, bool *late);

#endif
