/* SPDX-License-Identifier: MIT */
/* scale_hosts.h - the hosts of a job, simulated for bench/scale: programs that plenumrun takes for
 * mpirun and ssh, and the shims of all instances, in one process.
 *
 * At each event, they add a line to a file: what plenumrun has used so far. */
#ifndef BENCH_SCALE_HOSTS_H
#define BENCH_SCALE_HOSTS_H

#include <stdint.h>

/* Variables that bench/scale sets for them. */
#define SCALE_ENV_EVENTS "SCALE_EVENTS"   /* the file of records */
#define SCALE_ENV_PID "SCALE_PID"         /* plenumrun's process */
#define SCALE_ENV_SECONDS "SCALE_SECONDS" /* how long instances only send heartbeats */
#define SCALE_ENV_ADDRESS "SCALE_ADDRESS" /* an interface and address for all hosts; may be "" */

/** What a process had used when an event happened. */
struct scale_record {
    char event[16];
    uint64_t at_ns;       /* on the monotonic clock */
    uint64_t rss, most;   /* bytes of memory: now; and its own (no pages of files) at most */
    uint64_t cpu_ns;      /* of its process, without children */
    uint64_t descriptors; /* open now */
};

/** Read what a process uses now. */
void scale_measure(int pid, struct scale_record *ret);

/** Act as mpirun: log in to all hosts through the agent, then act as their shims. Returns an exit
 * status. */
int scale_be_mpirun(int argc, char **argv);

/** Act as ssh: answer the query of a host, or take the secret and stay until the job ends. Returns
 * an exit status. */
int scale_be_ssh(int argc, char **argv);

#endif
