/* SPDX-License-Identifier: MIT */
/* ready.h - checks this host, the other hosts and their network before a job starts. */
#ifndef LAUNCHER_READY_H
#define LAUNCHER_READY_H

#include "launcher/host/health.h"
#include "launcher/host/network.h"
#include "launcher/plan/plan.h"
#include "launcher/remote/agent.h"
#include "launcher/remote/probe.h"

/** Does the job need accelerators? */
enum ready_devices {
    READY_DEVICES_NEEDED,
    READY_DEVICES_UNKNOWN, /* warn if one does not answer */
    READY_DEVICES_UNUSED,
};

/** What a job needs of its hosts. Borrowed. */
struct ready_request {
    const struct agent_settings *agent;
    const char *program, *directory; /* the program and its working directory */
    const char *path;                /* search path for programs; NULL: the host's own */
    const char *host_subnet;         /* the network that the user named; NULL: none */
    const struct ports *ports;       /* ports on which plenumrun may listen */
    const char *health;              /* the user's command that checks a host; NULL: none */
    const char *earlier;             /* kill the remaining processes of this job; NULL: of no job */
    int (*interrupted)(void);        /* returns the signal with which the user ends the job during
                                      * the queries, or 0; NULL: never */
    enum ready_devices devices;
    bool allow_root;
    bool no_host_check; /* do not query other hosts */
};

/** The results. Unknown strings are "". */
struct ready {
    char subnet[SUBNET_TEXT_MAX]; /* the network that the hosts with instances share */
    /* The programs' network as Open MPI needs it: 10.1.0.0/16 or, for IPv6, an interface's name. */
    char program_include[SUBNET_TEXT_MAX];
    /* The network of Open MPI's daemons, in the same form. mpirun on this host uses it, too. */
    char daemon_include[SUBNET_TEXT_MAX];
    char excluded[256];            /* interfaces of containers and similar: "docker0,virbr0" */
    char master[INET6_ADDRSTRLEN]; /* address of instance 0's host */
    uint64_t stopped_ns;           /* how long this process was stopped during the queries */
};

/**
 * Check this host, query all others (unless --no-host-check is given or srun starts processes) and
 * choose the network. Sets the interfaces of the plan's hosts.
 *
 * Returns 0, or an exit status after messages about all problems.
 */
int ready_check(const struct ready_request *request, struct plan *plan, struct ready *ret);

/* ---- ready_check() in steps, for jobs that choose among the hosts that answer ---- */

/** Hosts and their answers. The caller allocates the probes and sets `host` and `loader` in each.
 * Otherwise zero-initialised. */
struct ready_survey {
    struct probe *probes;
    uint32_t count;
    unsigned port; /* plenumrun's port, to which the hosts tried to connect */
    bool here;     /* check this host's health, because programs run here; set by the caller */
    struct health_report health; /* this host's */
    struct network own;
};

/** Can hosts be queried? Not with --no-host-check, and not if srun starts processes. */
bool ready_can_ask(const struct ready_request *request);

/**
 * Query the hosts of the survey, and check this host's health if `survey->here`.
 *
 * @param connect  the hosts also try to connect to this one
 * @param ret_stopped_ns  for how long we were stopped during the queries
 *
 * Returns 0, or an exit status after an error message.
 */
int ready_ask(const struct ready_request *request, bool connect, struct ready_survey *survey,
              uint64_t *ret_stopped_ns);
/** Check this host, choose the network of the plan's hosts, and mark the hosts of the survey that
 * cannot use it, or cannot encrypt, as failed. Returns 0, or an exit status after an error
 * message. If hosts have failed, call it again with another plan. */
int ready_settle(const struct ready_request *request, struct plan *plan,
                 struct ready_survey *survey, struct ready *ret);
/** Print warnings about hosts, and a table of those that failed. Returns 0, or the exit status for
 * a job that needs all of them. */
int ready_report(const struct ready_survey *survey);
/** Log the network that was chosen. */
void ready_tell(const struct ready *ready);
void ready_survey_fini(struct ready_survey *survey);

#endif
