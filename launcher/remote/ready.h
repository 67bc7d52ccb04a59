/* SPDX-License-Identifier: MIT */
/* ready.h - what is looked at before a job starts: this host, the others, the network between. */
#ifndef LAUNCHER_READY_H
#define LAUNCHER_READY_H

#include "launcher/network.h"
#include "launcher/plan/plan.h"
#include "launcher/remote/agent.h"

/** What a job needs of its hosts. Borrowed. */
struct ready_request {
    const struct agent_settings *agent;
    const char *program, *directory; /* what runs, and where */
    const char *path;                /* where programs are looked for; NULL: as it is there */
    const char *host_subnet;         /* the network that the person named; NULL: none */
    const struct ports *ports;       /* on which plenumrun may listen */
    bool allow_root;
    bool no_host_check; /* other hosts are not asked */
};

/** What was found out. A text is "" where nothing is known. */
struct ready {
    char subnet[SUBNET_TEXT_MAX]; /* the network that the hosts with instances share */
    /* The network as Open MPI is told of it: by its numbers, or, for IPv6, by the name of an
     * interface. The programs use the first. The daemons use the second, which includes this host,
     * since mpirun runs here. */
    char program_include[SUBNET_TEXT_MAX], daemon_include[SUBNET_TEXT_MAX];
    char excluded[256];            /* interfaces of containers and the like: "docker0,virbr0" */
    char master[INET6_ADDRSTRLEN]; /* address of instance 0's host */
    uint64_t stopped_ns;           /* how long we were stopped while we asked: not counted */
};

/**
 * Ask all other hosts (unless --no-host-check, or where srun starts processes), and choose the
 * network; the plan's hosts get their interfaces.
 *
 * Prints what is wrong. 0, or the exit status.
 */
int ready_check(const struct ready_request *request, struct plan *plan, struct ready *ret);

#endif
