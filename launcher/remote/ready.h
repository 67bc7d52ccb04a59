/* SPDX-License-Identifier: MIT */
/* ready.h - checks before a job starts: this host, the others, the network between them. */
#ifndef LAUNCHER_READY_H
#define LAUNCHER_READY_H

#include "launcher/host/network.h"
#include "launcher/plan/plan.h"
#include "launcher/remote/agent.h"

/** What a job needs of its hosts. Borrowed. */
struct ready_request {
    const struct agent_settings *agent;
    const char *program, *directory; /* the program and its working directory */
    const char *path;                /* search path for programs; NULL: the host's own */
    const char *host_subnet;         /* the network that the user named; NULL: none */
    const struct ports *ports;       /* ports on which plenumrun may listen */
    bool allow_root;
    bool no_host_check; /* do not query other hosts */
};

/** The results. A string is "" if it is not known. */
struct ready {
    char subnet[SUBNET_TEXT_MAX]; /* the network that the hosts with instances share */
    /* The network in the form that Open MPI needs: its numbers or, for IPv6, the name of an
     * interface. Programs use the first. Daemons use the second, which includes this host, because
     * mpirun runs here. */
    char program_include[SUBNET_TEXT_MAX], daemon_include[SUBNET_TEXT_MAX];
    char excluded[256];            /* interfaces of containers and similar: "docker0,virbr0" */
    char master[INET6_ADDRSTRLEN]; /* address of instance 0's host */
    uint64_t stopped_ns;           /* how long we were stopped during the queries: not counted */
};

/**
 * Query all other hosts (unless --no-host-check is given or srun starts processes) and choose the
 * network. Sets the interfaces of the plan's hosts.
 *
 * Prints any problems. Returns 0 or the exit status.
 */
int ready_check(const struct ready_request *request, struct plan *plan, struct ready *ret);

#endif
