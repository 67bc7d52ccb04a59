/* SPDX-License-Identifier: MIT */
/* comm_hosts.c - carries collectives between several hosts without MPI.
 *
 * The instances of a host share memory, as in comm_local.c. The first instances of each host, as
 * many as the smallest host has, each have a connection with the instance of equal local index on
 * every other host (comm_tcp.c). comm_phases.c moves the data, comm_hosts_wait.c waits and
 * handles failures; this file joins the world, and lets all instances meet. */
#include "config.h"

#include "libdist/collectives/comm_hosts.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/job/departed.h"
#include "common/net/tls.h"
#include "common/util/error_set.h"
#include "common/util/util.h"
#include "libdist/collectives/missing.h"

static bool left;        /* the program has called MPI_Finalize() */
static char *text;       /* the variable's, cut at the addresses */
static char **addresses; /* [hosts] */
static uint32_t *peers;  /* [hosts] */

#define W hosts_world

/* ---- joining ---- */

static const char first_collective[] = "the first collective";

MESSAGE static int refuse(struct plenum_error *err, const char *why)
{
    return error_set(err, -ENOTSUP, "collectives: PLENUM_COLLECTIVES_HOSTS: %s", why);
}

/* Parse the variable into W.first and `addresses`. */
static int parse(struct plenum_error *err)
{
    const char *at;
    uint32_t hosts = 1, all = 0;

    free(text);
    text = strdup(getenv(MEETING_HOSTS_VARIABLE));
    for (const char *c = text; c && *c; c++)
        hosts += *c == ';';
    W.first = calloc(hosts + (size_t)1, sizeof(*W.first));
    addresses = calloc(hosts, sizeof(*addresses));
    peers = calloc(hosts, sizeof(*peers));
    if (!text || !W.first || !addresses || !peers)
        return error_set(err, -ENOMEM, "out of memory");
    at = text;
    for (W.hosts = 0; W.hosts < hosts; W.hosts++) {
        uint64_t count;
        char *end;

        if (parse_next_u64(&at, UINT32_MAX, &count) < 0 || count == 0 || *at != '=' ||
            count > W.instances - all)
            return refuse(err, "plenumrun did not set this value");
        addresses[W.hosts] = (char *)(uintptr_t)++at;
        end = strchr(at, ';');
        if (end)
            *end = '\0';
        at = end ? end + 1 : at;
        all += (uint32_t)count;
        W.first[W.hosts + 1] = all;
    }
    return all == W.instances ? 0 : refuse(err, "it belongs to a job of another size");
}

/* Find out who is where. */
static int find_hosts(struct plenum_error *err)
{
    int r = parse(err);

    if (r < 0)
        return r;
    for (W.host = 0; W.first[W.host + 1] <= W.index; W.host++)
        ;
    W.local = W.index - W.first[W.host];
    W.count = W.first[W.host + 1] - W.first[W.host];
    W.channels = W.count;
    W.most = 0;
    for (uint32_t g = 0; g < W.hosts; g++) {
        W.channels = (uint32_t)min_u64(W.channels, W.first[g + 1] - W.first[g]);
        W.most = (uint32_t)max_u64(W.most, W.first[g + 1] - W.first[g]);
    }
    for (uint32_t g = 0; g < W.hosts; g++)
        peers[g] = W.first[g] + W.local;
    if ((uint64_t)W.instances * W.most * HOSTS_LINE > HOSTS_AREA ||
        (uint64_t)W.instances * MEETING_SAID_BYTES > HOSTS_AREA)
        return refuse(err, "the job has too many instances for this carrier: use MPI");
    if (comm_tree_create(W.first, W.hosts, &W.tree) < 0)
        return error_set(err, -ENOMEM, "out of memory");
    return 0;
}

/* Allocate all memory before any collective begins. */
static int reserve(struct plenum_error *err)
{
    if (meeting_reserve(W.meeting, MEETING_ROOMS, MEETING_ROOM_BYTES) == 0 &&
        (W.local >= W.channels || phases_open() == 0))
        return 0;
    return error_set(err, -ENOMEM,
                     "%s: no memory is left for the data that the instances of this host exchange; "
                     "free some, or raise the memory limit",
                     first_collective);
}

static int connect_hosts(const struct hosts_call *c, const unsigned char *secret)
{
    static const unsigned char none[MEETING_SECRET_BYTES];
    const struct comm_tcp_world world = {.instances = W.instances,
                                         .hosts = W.hosts,
                                         .host = W.host,
                                         .peers = peers,
                                         .addresses = (const char *const *)addresses,
                                         .secret =
                                             memcmp(secret, none, sizeof(none)) ? secret : NULL,
                                         .look = hosts_look_everywhere};
    uint32_t who = 0;
    int r;

    assert((int)MEETING_SECRET_BYTES == (int)TLS_KEY_BYTES);
    if (W.local >= W.channels)
        return 0;
    r = comm_tcp_open(&world, c->deadline_ns, &who, c->err);
    if (r == -ECANCELED || r == -ETIMEDOUT)
        return hosts_explain(c, r, who);
    if (r < 0)
        meeting_give_up(W.meeting, W.index);
    return r;
}

/* MPI_Finalize() waits for the other instances. They must not wait for this one meanwhile. */
static void leave(void)
{
    left = true;
    meeting_leave(W.meeting);
    comm_tcp_leave(UINT32_MAX);
}

static int backend_open(uint32_t instances, uint32_t index, uint64_t timeout_ns,
                        struct plenum_error *err)
{
    const struct hosts_call c = hosts_begin(first_collective, timeout_ns, err);
    const char *job = getenv("PLENUM_JOB_ID");
    unsigned char secret[MEETING_SECRET_BYTES] = {0};
    struct meeting_member self = {.address = getenv(MEETING_VARIABLE),
                                  .job = job ? job : "",
                                  .patient = true,
                                  .secret = secret};
    uint32_t who = 0;
    int r;

    W.instances = instances;
    W.index = index;
    r = find_hosts(err);
    if (r < 0)
        return r;
    W.departed = departed_open(instances);
    departed_reach(W.departed, DEPARTED_FIRST);
    self.instances = W.count;
    self.index = W.local;
    r = meeting_join(&self, c.deadline_ns, &W.meeting, err);
    if (r < 0)
        return r;
    meeting_set_look(W.meeting, hosts_look_elsewhere);
    r = reserve(err);
    if (r == 0) {
        r = meeting_come(W.meeting, c.deadline_ns, &who);
        r = r < 0 ? hosts_explain_here(&c, r, who) : connect_hosts(&c, secret);
    }
    explicit_bzero(secret, sizeof(secret));
    return r < 0 ? r : comm_watch_mpi(leave, err);
}

static void backend_close(bool broken)
{
    if (broken)
        return;
    comm_tcp_leave(UINT32_MAX);
    comm_tcp_close();
}

/* ---- meeting ---- */

/* Exchange the hosts' bytes with the first instances of the other hosts. */
static int meet_hosts(const struct hosts_call *c, unsigned char *all, size_t bytes)
{
    struct comm_tcp_part *parts = calloc(W.hosts, sizeof(*parts));
    int r;

    if (!parts)
        return error_set(c->err, -EIO, "out of memory");
    for (uint32_t g = 0; g < W.hosts; g++)
        parts[g] =
            (struct comm_tcp_part){all + W.first[W.host] * bytes, W.count * bytes,
                                   all + W.first[g] * bytes, (W.first[g + 1] - W.first[g]) * bytes};
    r = hosts_move(c, parts);
    free(parts);
    if (r == 0)
        memcpy(hosts_result(0), all, W.instances * bytes);
    return r;
}

static int backend_meet(const char *what, const void *mine, size_t bytes, void *all,
                        uint64_t timeout_ns, struct plenum_error *err)
{
    const struct hosts_call c = hosts_begin(what, timeout_ns, err);
    unsigned char *own = (unsigned char *)all + W.first[W.host] * bytes;
    uint32_t who = 0;
    int r;

    if (left)
        return comm_finalised(err);
    departed_reach(W.departed, DEPARTED_FIRST + ++W.number);
    comm_tcp_begin(W.number);
    r = meeting_meet(W.meeting, mine, bytes, own, c.deadline_ns, &who);
    if (r < 0)
        return hosts_explain_here(&c, r, who);
    meeting_begin(W.meeting, 1);
    if (W.local == 0) {
        r = meet_hosts(&c, all, bytes);
        if (r == 0)
            meeting_enter(W.meeting);
        return r;
    }
    meeting_enter(W.meeting);
    r = meeting_await(W.meeting, 0, 1, c.deadline_ns, &who);
    if (r < 0)
        return hosts_explain_here(&c, r, who);
    memcpy(all, hosts_result(0), W.instances * bytes);
    return 0;
}

const struct comm_backend comm_hosts = {
    .version = COMM_BACKEND_VERSION,
    .open = backend_open,
    .close = backend_close,
    .meet = backend_meet,
    .carrier = {.broadcast = phases_broadcast, .allgather = phases_allgather},
    .exchange = phases_exchange,
    .allreduce = phases_allreduce,
    .reduce_scatter = phases_reduce_scatter,
};
