/* SPDX-License-Identifier: MIT */
/* comm_local.c - carries collectives between instances that plenumrun itself started on this host,
 * through shared memory (common/job/meeting.h). MPI is not needed.
 *
 * A collective moves its bytes in pieces, one per round: instances with data write it to their
 * buffers, wait until all have done so, and instances that want data read it. Sums are computed by
 * all instances together. Each adds an equal part of the piece, always in the order of the
 * instances, so that every run gives the same bits.
 *
 * A round carries no description of its purpose: comm.c has checked that all instances make the
 * same call. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/job/meeting.h"
#include "common/util/error_set.h"
#include "common/util/util.h"
#include "libdist/collectives/combine.h"
#include "libdist/collectives/comm_priv.h"
#include "libdist/collectives/missing.h"

static struct {
    struct meeting *meeting;
    uint32_t instances, index;
} world;

/* A collective in progress. */
struct local_call {
    const char *what; /* name of the collective, for messages */
    uint64_t deadline_ns;
    struct plenum_error *err;
};

static struct local_call begin(const char *what, uint64_t timeout_ns, struct plenum_error *err)
{
    return (struct local_call){.what = what,
                               .deadline_ns = timeout_ns ? sum_u64(time_now_ns(), timeout_ns) : 0,
                               .err = err};
}

static int not_in_time(const struct local_call *c)
{
    bool *came = calloc(world.instances, sizeof(*came));
    int r;

    if (!came)
        return error_set(c->err, -ETIMEDOUT, "%s: the time limit has passed", c->what);
    for (uint32_t i = 0; i < world.instances; i++)
        came[i] = meeting_has_come(world.meeting, i);
    r = missing_in_time(c->what, came, world.instances, c->err);
    free(came);
    return r;
}

/* Run one round: wait until all instances have entered it. */
static int come(const struct local_call *c)
{
    uint32_t who = 0;

    switch (meeting_come(world.meeting, c->deadline_ns, &who)) {
    case 0:
        return 0;
    case -ETIMEDOUT:
        return not_in_time(c);
    case -EPIPE:
        return missing_ended(c->what, who, c->err);
    default:
        return error_set(c->err, -EIO,
                         "%s: instance %u belongs to another run of the program, or has restarted",
                         c->what, who);
    }
}

static const char first_collective[] = "the first collective";

static int backend_open(uint32_t instances, uint32_t index, uint64_t timeout_ns,
                        struct plenum_error *err)
{
    struct local_call c = begin(first_collective, timeout_ns, err);
    const char *job = getenv("PLENUM_JOB_ID");
    const struct meeting_member self = {getenv(MEETING_VARIABLE), job ? job : "", instances, index};
    int r;

    r = meeting_join(&self, c.deadline_ns, &world.meeting, err);
    if (r < 0)
        return r;
    world.instances = instances;
    world.index = index;
    /* A script may run several programs one after another. From here on, no instance is still in a
     * round of the previous program. */
    r = come(&c);
    if (r < 0) {
        meeting_destroy(world.meeting);
        world.meeting = NULL;
    }
    return r;
}

/* Leave the world. Nothing has to be announced: no instance waits for one that has ended, and its
 * data stays while others map the memory. */
static void backend_close(bool broken)
{
    (void)broken;
}

static unsigned char *room_of(unsigned char *rooms, uint32_t instance)
{
    return rooms + (size_t)instance * MEETING_ROOM_BYTES;
}

/* Write to this instance's buffer for this round. */
static int fill_room(const struct local_call *c, unsigned char *rooms, const void *from,
                     size_t bytes)
{
    int r = meeting_reserve(world.meeting, bytes);

    if (r < 0)
        return error_set(c->err, r,
                         "%s: no memory is left for the data that the instances of this host "
                         "exchange; free some, or raise the memory limit",
                         c->what);
    memcpy(room_of(rooms, world.index), from, bytes);
    return 0;
}

static int backend_broadcast(void *arg, void *buffer, size_t bytes, uint32_t root,
                             uint64_t timeout_ns, struct plenum_error *err)
{
    const struct local_call c = begin("broadcast", timeout_ns, err);

    (void)arg;
    for (size_t at = 0; at < bytes; at += MEETING_ROOM_BYTES) {
        unsigned char *rooms = meeting_next_rooms(world.meeting);
        size_t n = min_u64(MEETING_ROOM_BYTES, bytes - at);
        int r = 0;

        if (world.index == root)
            r = fill_room(&c, rooms, (unsigned char *)buffer + at, n);
        if (r < 0 || (r = come(&c)) < 0)
            return r;
        if (world.index != root)
            memcpy((unsigned char *)buffer + at, room_of(rooms, root), n);
    }
    return 0;
}

static int gather(const struct local_call *c, const void *send, size_t bytes, void *recv)
{
    for (size_t at = 0; at < bytes; at += MEETING_ROOM_BYTES) {
        unsigned char *rooms = meeting_next_rooms(world.meeting);
        size_t n = min_u64(MEETING_ROOM_BYTES, bytes - at);
        int r = fill_room(c, rooms, (const unsigned char *)send + at, n);

        if (r < 0 || (r = come(c)) < 0)
            return r;
        for (uint32_t i = 0; i < world.instances; i++)
            memcpy((unsigned char *)recv + i * bytes + at, room_of(rooms, i), n);
    }
    return 0;
}

static int backend_allgather(void *arg, const void *send, size_t bytes, void *recv,
                             uint64_t timeout_ns, struct plenum_error *err)
{
    const struct local_call c = begin("allgather", timeout_ns, err);

    (void)arg;
    return gather(&c, send, bytes, recv);
}

static int backend_meet(const char *what, const void *mine, size_t bytes, void *all,
                        uint64_t timeout_ns, struct plenum_error *err)
{
    const struct local_call c = begin(what, timeout_ns, err);

    return gather(&c, mine, bytes, all);
}

/* Returns the first element of a piece that an instance adds; its part ends where the next
 * instance's begins. */
static size_t part_of(size_t count, uint32_t instance)
{
    return (size_t)((uint64_t)count * instance / world.instances);
}

static int backend_allreduce(void *arg, void *buffer, size_t count, enum plenum_type type,
                             enum plenum_op op, uint64_t timeout_ns, struct plenum_error *err)
{
    const size_t size = combine_size(type), piece = MEETING_ROOM_BYTES / size;
    const struct local_call c = begin("allreduce", timeout_ns, err);

    (void)arg;
    for (size_t at = 0; at < count; at += piece) {
        unsigned char *rooms = meeting_next_rooms(world.meeting);
        unsigned char *here = (unsigned char *)buffer + at * size;
        size_t n = min_u64(piece, count - at);
        size_t from = part_of(n, world.index), to = part_of(n, world.index + 1);
        int r = fill_room(&c, rooms, here, n * size);

        if (r < 0 || (r = come(&c)) < 0)
            return r;
        /* The sum replaces instance 0's data; no other instance reads this part. */
        for (uint32_t i = 1; i < world.instances; i++)
            combine(rooms + from * size, room_of(rooms, i) + from * size, to - from, type, op);
        if (op == PLENUM_MEAN)
            combine_divide(rooms + from * size, to - from, type, world.instances);
        r = come(&c);
        if (r < 0)
            return r;
        memcpy(here, rooms, n * size);
    }
    return 0;
}

const struct comm_backend comm_local = {
    .version = COMM_BACKEND_VERSION,
    .open = backend_open,
    .close = backend_close,
    .meet = backend_meet,
    .carrier = {.broadcast = backend_broadcast,
                .allreduce = backend_allreduce,
                .allgather = backend_allgather},
};
