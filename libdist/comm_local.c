/* SPDX-License-Identifier: MIT */
/* comm_local.c - the carrier of collectives between instances that plenumrun itself has started on
 * this host: by memory that they share (common/meeting.h). No MPI is needed.
 *
 * A collective moves its bytes in pieces, a turn each: who has some writes them to its room, all
 * come, and who wants some reads them. Sums are formed by all together, of each piece an equal part
 * by each instance, always in the order of the instances, so that they are the same bits in every
 * run.
 *
 * Instances that do not call the same are told so: what each called is compared at every round. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/meeting.h"
#include "common/util.h"
#include "libdist/comm_priv.h"
#include "libdist/missing.h"

enum what { BEGIN, BROADCAST, ALLREDUCE, ALLGATHER, BARRIER, WHATS };

static const char *const names[] = {[BEGIN] = "the first collective",
                                    [BROADCAST] = "broadcast",
                                    [ALLREDUCE] = "allreduce",
                                    [ALLGATHER] = "allgather",
                                    [BARRIER] = "barrier"};

static struct {
    struct meeting *meeting;
    uint32_t instances, index;
} world;

/* A collective under way. */
struct call {
    struct meeting_topic topic;
    uint64_t deadline_ns;
    struct plenum_error *err;
};

static struct call begin(enum what what, uint32_t detail, uint64_t bytes, uint64_t timeout_ns,
                         struct plenum_error *err)
{
    return (struct call){.topic = {.what = what, .detail = detail, .bytes = bytes},
                         .deadline_ns = timeout_ns ? sum_u64(time_now_ns(), timeout_ns) : 0,
                         .err = err};
}

static int not_in_time(const struct call *c)
{
    bool *came = calloc(world.instances, sizeof(*came));
    int r;

    if (!came)
        return error_set(c->err, -ETIMEDOUT, "%s: the time limit has passed", names[c->topic.what]);
    for (uint32_t i = 0; i < world.instances; i++)
        came[i] = meeting_has_come(world.meeting, i);
    r = missing_in_time(names[c->topic.what], came, world.instances, c->err);
    free(came);
    return r;
}

static int not_the_same(const struct call *c, uint32_t who)
{
    const struct meeting_topic theirs = meeting_get_topic(world.meeting, who), *ours = &c->topic;

    if (theirs.what >= WHATS || memcmp(&theirs, ours, sizeof(theirs)) == 0)
        return error_set(c->err, -EIO,
                         "%s: instance %u belongs to another run of the program, or has begun anew",
                         names[ours->what], who);
    return error_set(
        c->err, -EIO,
        "this instance calls %s (%llu bytes) while instance %u calls %s (%llu bytes)%s: "
        "all must call the same, in the same order",
        names[ours->what], (unsigned long long)ours->bytes, who, names[theirs.what],
        (unsigned long long)theirs.bytes,
        theirs.what == ours->what && theirs.bytes == ours->bytes
            ? " with another root, type or operation"
            : "");
}

/* One round: wait for all. */
static int come(const struct call *c)
{
    uint32_t who = 0;

    switch (meeting_come(world.meeting, &c->topic, c->deadline_ns, &who)) {
    case 0:
        return 0;
    case -ETIMEDOUT:
        return not_in_time(c);
    case -EPIPE:
        return error_set(c->err, -EIO, "%s: instance %u has ended, and will not come",
                         names[c->topic.what], who);
    default:
        return not_the_same(c, who);
    }
}

static int backend_open(uint32_t instances, uint32_t index, uint64_t timeout_ns,
                        struct plenum_error *err)
{
    struct call c = begin(BEGIN, 0, 0, timeout_ns, err);
    const char *job = getenv("PLENUM_JOB_ID");
    int r;

    r = meeting_join(getenv(MEETING_VARIABLE), job ? job : "", instances, index, c.deadline_ns,
                     &world.meeting, err);
    if (r < 0)
        return r;
    world.instances = instances;
    world.index = index;
    /* A script may run several programs. From here on no instance is in a round of the one
     * before. */
    r = come(&c);
    if (r < 0) {
        meeting_destroy(world.meeting);
        world.meeting = NULL;
    }
    return r;
}

/* Nobody waits for an instance that ends. What it has written stays while others map the memory. */
static void backend_close(bool broken)
{
    (void)broken;
}

static unsigned char *room_of(unsigned char *rooms, uint32_t instance)
{
    return rooms + (size_t)instance * MEETING_ROOM_BYTES;
}

static int backend_broadcast(void *arg, void *buffer, size_t bytes, uint32_t root,
                             uint64_t timeout_ns, struct plenum_error *err)
{
    const struct call c = begin(BROADCAST, root, bytes, timeout_ns, err);

    (void)arg;
    for (size_t at = 0; at < bytes; at += MEETING_ROOM_BYTES) {
        unsigned char *room = room_of(meeting_next_rooms(world.meeting), root);
        size_t n = min_u64(MEETING_ROOM_BYTES, bytes - at);
        int r;

        if (world.index == root)
            memcpy(room, (unsigned char *)buffer + at, n);
        r = come(&c);
        if (r < 0)
            return r;
        if (world.index != root)
            memcpy((unsigned char *)buffer + at, room, n);
    }
    return 0;
}

static int backend_allgather(void *arg, const void *send, size_t bytes, void *recv,
                             uint64_t timeout_ns, struct plenum_error *err)
{
    const struct call c = begin(ALLGATHER, 0, bytes, timeout_ns, err);

    (void)arg;
    for (size_t at = 0; at < bytes; at += MEETING_ROOM_BYTES) {
        unsigned char *rooms = meeting_next_rooms(world.meeting);
        size_t n = min_u64(MEETING_ROOM_BYTES, bytes - at);
        int r;

        memcpy(room_of(rooms, world.index), (const unsigned char *)send + at, n);
        r = come(&c);
        if (r < 0)
            return r;
        for (uint32_t i = 0; i < world.instances; i++)
            memcpy((unsigned char *)recv + i * bytes + at, room_of(rooms, i), n);
    }
    return 0;
}

/* Integers wrap, as MPI's do: they are added up as unsigned ones. */
#define COMBINE(type, sum)                                             \
    do {                                                               \
        type *a = (type *)to;                                          \
        const type *b = (const type *)from;                            \
                                                                       \
        for (size_t i = 0; i < count; i++)                             \
            a[i] = op == PLENUM_MIN   ? (b[i] < a[i] ? b[i] : a[i])    \
                   : op == PLENUM_MAX ? (b[i] > a[i] ? b[i] : a[i])    \
                                      : (type)((sum)a[i] + (sum)b[i]); \
    } while (0)

static void combine(void *to, const void *from, size_t count, enum plenum_type type,
                    enum plenum_op op)
{
    switch (type) {
    case PLENUM_INT32:
        COMBINE(int32_t, uint32_t);
        break;
    case PLENUM_INT64:
        COMBINE(int64_t, uint64_t);
        break;
    case PLENUM_FLOAT32:
        COMBINE(float, float);
        break;
    case PLENUM_FLOAT64:
        COMBINE(double, double);
        break;
    }
}

static void divide(void *values, size_t count, enum plenum_type type)
{
    for (size_t i = 0; i < count; i++)
        switch (type) {
        case PLENUM_INT32:
            ((int32_t *)values)[i] /= (int32_t)world.instances;
            break;
        case PLENUM_INT64:
            ((int64_t *)values)[i] /= (int64_t)world.instances;
            break;
        case PLENUM_FLOAT32:
            ((float *)values)[i] /= (float)world.instances;
            break;
        case PLENUM_FLOAT64:
            ((double *)values)[i] /= (double)world.instances;
            break;
        }
}

/* Which elements of a piece an instance adds up: from this one to that of the next instance. */
static size_t part_of(size_t count, uint32_t instance)
{
    return (size_t)((uint64_t)count * instance / world.instances);
}

static int backend_allreduce(void *arg, void *buffer, size_t count, enum plenum_type type,
                             enum plenum_op op, uint64_t timeout_ns, struct plenum_error *err)
{
    const size_t size = type == PLENUM_INT32 || type == PLENUM_FLOAT32 ? 4 : 8;
    const size_t piece = MEETING_ROOM_BYTES / size;
    const struct call c =
        begin(ALLREDUCE, (uint32_t)type << 8 | (uint32_t)op, count * size, timeout_ns, err);

    (void)arg;
    for (size_t at = 0; at < count; at += piece) {
        unsigned char *rooms = meeting_next_rooms(world.meeting),
                      *own = room_of(rooms, world.index);
        unsigned char *here = (unsigned char *)buffer + at * size;
        size_t n = min_u64(piece, count - at);
        size_t from = part_of(n, world.index), to = part_of(n, world.index + 1);
        int r;

        memcpy(own, here, n * size);
        r = come(&c);
        if (r < 0)
            return r;
        /* The sum replaces what instance 0 gave; nobody else reads this part. */
        for (uint32_t i = 1; i < world.instances; i++)
            combine(rooms + from * size, room_of(rooms, i) + from * size, to - from, type, op);
        if (op == PLENUM_MEAN)
            divide(rooms + from * size, to - from, type);
        r = come(&c);
        if (r < 0)
            return r;
        memcpy(here, rooms, n * size);
    }
    return 0;
}

static int backend_barrier(void *arg, uint64_t timeout_ns, struct plenum_error *err)
{
    const struct call c = begin(BARRIER, 0, 0, timeout_ns, err);

    (void)arg;
    return come(&c);
}

const struct comm_backend comm_local = {
    .version = COMM_BACKEND_VERSION,
    .open = backend_open,
    .close = backend_close,
    .carrier = {.broadcast = backend_broadcast,
                .allreduce = backend_allreduce,
                .allgather = backend_allgather,
                .barrier = backend_barrier},
};
