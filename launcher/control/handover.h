/* SPDX-License-Identifier: MIT */
/* handover.h - the arguments and variables that plenumrun passes to the plenumrun processes it
 * starts. All variables begin with HANDOVER_PREFIX, and none of them reaches a program. */
#ifndef LAUNCHER_HANDOVER_H
#define LAUNCHER_HANDOVER_H

#include <stddef.h>

#define HANDOVER_PREFIX "PLENUM_SHIM_"

/** The argument that makes plenumrun a shim. */
#define SHIM_ARGUMENT "--shim"

/** The argument that shows plenumrun that mpirun calls it instead of ssh. */
#define AGENT_ARGUMENT "--agent"

/** What a shim reads from its environment. */
#define SHIM_ENV_CONTROL "PLENUM_SHIM_CONTROL" /* addresses, for dial_connect() */
#define SHIM_ENV_TOKEN "PLENUM_SHIM_TOKEN"
#define SHIM_ENV_JOB "PLENUM_SHIM_JOB"
#define SHIM_ENV_LOADER "PLENUM_SHIM_LOADER"   /* "1": the host's first shim keeps a loader */
#define SHIM_ENV_STATUS "PLENUM_SHIM_STATUS"   /* port of the loader's status page, or "none" */
#define SHIM_ENV_GRACE "PLENUM_SHIM_GRACE"     /* milliseconds */
#define SHIM_ENV_IGNORED "PLENUM_SHIM_IGNORED" /* signals_get_ignored() of plenumrun */

/* "20500-20999": the program will listen on one of these ports, which the shim reserves; "0-0": on
 * any. Only if programs of different hosts connect (--collectives tcp). */
#define SHIM_ENV_PORTS "PLENUM_SHIM_PORTS"

/* Soft limit on descriptors before plenumrun raised its own; "0": not known. Only where the shim
 * inherits plenumrun's limit. */
#define SHIM_ENV_DESCRIPTORS "PLENUM_SHIM_DESCRIPTORS"

/* The instance's number, set by local.c. Under mpirun, Open MPI's variable has it instead. */
#define SHIM_ENV_INSTANCE "PLENUM_SHIM_RANK"

/** What plenumrun as an agent reads from its environment. */
#define AGENT_ENV_WORDS "PLENUM_SHIM_AGENT"       /* the program that logs in, and its arguments */
#define AGENT_ENV_HOSTS "PLENUM_SHIM_AGENT_HOSTS" /* plus a number from 0: agent_list_hosts() */
#define AGENT_ENV_GATE "PLENUM_SHIM_AGENT_GATE"   /* a file that limits logins: agent_make_gate() */

enum { HANDOVER_LIST_MAX = 48 }; /* size of the name of a list of hosts */

/** Write the name of the variable that holds list `number` of the agent's hosts. Returns `ret`. */
const char *handover_name_list(unsigned number, char ret[HANDOVER_LIST_MAX]);

/** Remove the agent's variables from the environment, because no other process may see them. */
void handover_clear_agent(void);

#endif
