/* SPDX-License-Identifier: MIT */
/* between_hosts.h - what carries the collectives of a job on several hosts without MPI: memory on
 * each host, and TCP connections between the programs of different hosts. */
#ifndef LAUNCHER_BETWEEN_HOSTS_H
#define LAUNCHER_BETWEEN_HOSTS_H

#include <stdint.h>

#include "launcher/control/control.h"
#include "launcher/job/supervise_priv.h"

/** Returns MEETING_HOSTS_VARIABLE's value for an instance, which the caller frees; NULL: out of
 * memory. All shims are connected. */
char *between_hosts_format(const struct supervisor *s, uint32_t instance);

/** Write the value of MEETING_VARIABLE for an instance. */
void between_hosts_format_place(const struct supervisor *s, uint32_t instance,
                                char ret[MEETING_ADDRESS_MAX]);

/** If the instance's shim provides its host's memory, complete its plan. `name` receives text
 * that the plan borrows. */
void between_hosts_plan(const struct supervisor *s, uint32_t instance,
                        char name[MEETING_ADDRESS_MAX], struct control_plan *plan);

#endif
