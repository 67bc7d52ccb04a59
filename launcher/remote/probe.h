/* SPDX-License-Identifier: MIT */
/* probe.h - asks other hosts, all at once, whether a job can run there. */
#ifndef LAUNCHER_PROBE_H
#define LAUNCHER_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include <plenum/error.h>

#include "common/util/message.h"
#include "launcher/host/network.h"
#include "launcher/plan/plan.h"
#include "launcher/remote/agent.h"
#include "launcher/values/texts.h"

/** The argument that makes plenumrun answer a query, on another host. */
#define PROBE_ARGUMENT "--probe"

struct probe_question {
    const struct agent_settings *agent;
    const char *program;   /* the job's program */
    const char *path;      /* search path for programs; NULL: the host's own */
    const char *self;      /* plenumrun's own file */
    const char *directory; /* the programs' working directory */
    const char *job;       /* kill the remaining processes of this job; NULL: of no job */
    const char *health;    /* the user's command that checks a host; NULL: none */
    bool healthy;          /* check the health of hosts */
    bool no_devices;       /* ... but not of their accelerators */
    const char *back; /* plenumrun's address (dial_listen()); NULL: hosts do not try to connect */
    int listener;     /* probe_hosts() closes its incoming connections; -1: they stay queued */
    int (*interrupted)(void); /* called often: not 0 ends the waiting; NULL: never */
    int limit_ms; /* for all answers, not counting time during which this process is stopped */
};

/** One host and its answer. */
struct probe {
    const struct plan_host *host;
    bool loader; /* only a loader will run there, no program of the job */
    bool failed;
    char step[32];       /* the step that failed, such as "log in" */
    char what[512];      /* the reason */
    bool not_executable; /* the program is there, but cannot be executed */
    bool blameless;      /* nothing shows that the failure is the host's fault */
    char device[400];    /* the accelerator that does not answer; "": all do */
    /* Set if the host has not failed. */
    uint64_t memory_free, memory_total; /* bytes; 0: not reported */
    int64_t clock_ns;                   /* the host's clock is at least this far ahead of ours,
                                         * or, if negative, behind it; 0: not known to differ */
    uint64_t took_ns;
    char no_tls[200];  /* why TLS cannot be used there; "": it can, or the host did not report it */
    struct texts back; /* "10.1.2.3 0" or "10.1.2.3 REASON": results of connecting to us */
    struct network network;
};

/**
 * Log in to each host as mpirun would, and let plenumrun there check what the job needs, such as
 * the same version of plenumrun, the working directory, the program, memory, TLS and, if requested,
 * the host's health. Remaining processes of question->job are killed there.
 *
 * Returns the number of hosts that failed, or -ENOMEM before any query was sent. `*ret_stopped_ns`
 * is the time for which this process was stopped during the queries. Call probe_fini() for each
 * host.
 */
int probe_hosts(const struct probe_question *question, struct probe *probes, uint32_t count,
                uint64_t *ret_stopped_ns);
void probe_fini(struct probe *probe);

/** Returns the time in ms for a host's health checks if its whole answer may take `limit_ms`. */
uint64_t probe_get_health_ms(int limit_ms);

/** Record a host's failure, unless it has failed already. */
MESSAGE_FORMAT(3, 4)
void probe_fail(struct probe *probe, const char *step, const char *format, ...);

/** Record a failure if the host could not connect to plenumrun at the address `own` or, if it is
 * NULL, at any address. A host that did not try, or did not report the result, has not failed.
 * `port` is plenumrun's, for the message. */
void probe_check_back(struct probe *probe, const char *own, unsigned port);

/** Returns a table of the hosts that failed, owned by the caller; NULL if out of memory. `title`
 * receives its title, such as "2 of 3 other hosts are not ready". */
char *probe_table(const struct probe *probes, uint32_t count, char *title, size_t size);

/** Parse as much of one host's output as possible into `ret` (for the tests). */
void probe_read_answer(char *text, uint64_t asked_ns, uint64_t heard_ns, struct probe *ret);

/** Print the answer of this host: "plenumrun --probe VERSION DIRECTORY PROGRAM PATH [ADDRESSES MS
 * [JOB [MS COMMAND]]]". Returns an exit status. */
int probe_answer(int argc, char **argv);

#endif
