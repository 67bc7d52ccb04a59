/* SPDX-License-Identifier: MIT */
/* comm_hosts.h - shared by comm_hosts.c (joining), comm_hosts_wait.c (waiting, failures) and
 * comm_phases.c (what moves). */
#ifndef LIBDIST_COLLECTIVES_COMM_HOSTS_H
#define LIBDIST_COLLECTIVES_COMM_HOSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/job/meeting.h"
#include "libdist/collectives/comm_priv.h"
#include "libdist/collectives/comm_tcp.h"
#include "libdist/collectives/comm_tree.h"

/* Half of an instance's rooms, which are adjacent. */
enum { HOSTS_AREA = MEETING_ROOMS / 2 * MEETING_ROOM_BYTES, HOSTS_LINE = 64 };

/** The job: its hosts and their instances. */
struct hosts_world {
    struct meeting *meeting; /* with those on this host */
    uint32_t instances, index, hosts, host;
    uint32_t local, count; /* our index on this host, and its number of instances */
    uint32_t channels;     /* instances of each host that are connected: the first ones */
    uint32_t most;         /* instances of the largest host */
    uint32_t *first;       /* [hosts + 1]: the first instance on each */
    struct comm_tree tree;
    const struct departed *departed; /* or NULL */
    uint64_t number;                 /* of the collective, from 1 */
};
extern struct hosts_world hosts_world;

/** A collective in progress. */
struct hosts_call {
    const char *what;
    uint64_t deadline_ns;
    struct plenum_error *err;
};

/** Wait until all instances of this host have entered a round. Returns 0, or -errno with a message,
 * after telling the others. */
int hosts_await_all(const struct hosts_call *c, uint64_t round);
/** Like comm_tcp_start() and comm_tcp_finish(), but on errors like hosts_await_all(). */
int hosts_start(const struct hosts_call *c, const struct comm_tcp_part *parts);
int hosts_finish(const struct hosts_call *c);
/** Start a move, and finish it; no other is in flight. */
int hosts_move(const struct hosts_call *c, const struct comm_tcp_part *parts);
/** Describe the result of a wait in the connections, and tell the others. `who`: an instance of the
 * job. Returns `r` or another -errno, with a message. */
int hosts_explain(const struct hosts_call *c, int r, uint32_t who);
/** Like hosts_explain(), of a wait in the memory, where `who` is counted from this host's first. */
int hosts_explain_here(const struct hosts_call *c, int r, uint32_t who);
/** Has an instance ended that is not in our memory? */
bool hosts_look_elsewhere(uint32_t *who);
/** Has anything failed? For comm_tcp.c, while it waits. */
bool hosts_look_everywhere(uint32_t *who);
struct hosts_call hosts_begin(const char *what, uint64_t timeout_ns, struct plenum_error *err);

static inline unsigned char *hosts_input(uint32_t local)
{
    return meeting_room(hosts_world.meeting, local, 0);
}

static inline unsigned char *hosts_result(uint32_t local)
{
    return meeting_room(hosts_world.meeting, local, MEETING_ROOMS / 2);
}

/* ---- comm_phases.c ---- */

/** Allocate the buffers, once. Returns 0 or -ENOMEM. */
int phases_open(void);
int phases_broadcast(void *arg, void *buffer, size_t bytes, uint32_t root, uint64_t timeout_ns,
                     struct plenum_error *err);
int phases_allgather(void *arg, const void *send, size_t bytes, void *recv, uint64_t timeout_ns,
                     struct plenum_error *err);
int phases_exchange(const struct comm_exchange *x, struct plenum_error *err);
int phases_allreduce(const struct comm_reduction *x, struct plenum_error *err);
int phases_reduce_scatter(const struct comm_reduction *x, struct plenum_error *err);

#endif
