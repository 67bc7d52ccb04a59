/* SPDX-License-Identifier: MIT */
/* comm_local.c - carries collectives between the instances of a job on one host, through shared
 * memory (common/job/meeting.h). MPI is not needed.
 *
 * Bytes move in pieces of the size of a room, which is a share of the processor's cache. Each
 * instance runs the same steps, and step s works on several pieces:
 *
 *     allreduce, large     copy piece s to my room, but for my own slice of it;       enter 2s+1
 *                          combine my slice of piece s-1 from all rooms to my sum;    enter 2s+2
 *                          copy the others' slices of piece s-2 from their sums
 *     allreduce, small     copy piece s to my room;                                   enter s+1
 *                          combine piece s-1 from all rooms
 *     reduce-scatter       copy the others' parts of piece s to my room;              enter s+1
 *                          combine my part of piece s-1
 *     allgather, exchange  copy piece s to my room;                                   enter s+1
 *                          copy piece s-1 from the others' rooms
 *     broadcast            the root copies piece s to its room, the others copy it;   enter s+1
 *
 * So an instance waits for what the others did one step ago. A piece has a slice for each instance,
 * of whole cache lines. With two instances, every allreduce is "small": it then moves as many bytes
 * between the cores as a large one, and waits half as often.
 *
 * Why four rooms are enough, without a flag that says which are free: before an instance copies
 * piece k to its room, it has waited until all others entered the round of piece k-2, or combined
 * piece k-3 in the large allreduce. They did that after they had finished with piece k-4 of the
 * rooms. An instance that combines piece k has seen all others enter the round of piece k, after
 * they had copied piece k-3 of the sums. The root of a broadcast waits until all others have copied
 * piece k-4. This depends on the order of the statements below.
 *
 * A round carries no description of its purpose: comm.c has checked that all instances make the
 * same call. */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/job/meeting.h"
#include "common/util/error_set.h"
#include "common/util/util.h"
#include "libdist/collectives/combine.h"
#include "libdist/collectives/comm_priv.h"
#include "libdist/collectives/missing.h"

enum { DEEP = MEETING_ROOMS / 2, LINE = 64, SMALL_BYTES = 1 << 20 };

static struct {
    struct meeting *meeting;
    uint32_t instances, index;
    const void **inputs; /* [instances], of combine() */
    bool left;           /* the program has called MPI_Finalize() */
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

/* Turn the result of a wait into 0, or an error with a message. */
static int explain(const struct local_call *c, int r, uint32_t who)
{
    switch (r) {
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

/* Wait until an instance has entered a round. */
static int await(const struct local_call *c, uint32_t instance, uint64_t round)
{
    uint32_t who = 0;
    int r = meeting_await(world.meeting, instance, round, c->deadline_ns, &who);

    return r < 0 ? explain(c, r, who) : 0;
}

static int await_all(const struct local_call *c, uint64_t round)
{
    for (uint32_t i = 0; i < world.instances; i++) {
        int r = await(c, i, round);

        if (r < 0)
            return r;
    }
    return 0;
}

/* MPI_Finalize() waits for the other instances. They must not wait for this one meanwhile. */
static void leave(void)
{
    world.left = true;
    meeting_leave(world.meeting);
}

static const char first_collective[] = "the first collective";

static int backend_open(uint32_t instances, uint32_t index, uint64_t timeout_ns,
                        struct plenum_error *err)
{
    struct local_call c = begin(first_collective, timeout_ns, err);
    const char *job = getenv("PLENUM_JOB_ID");
    const struct meeting_member self = {.address = getenv(MEETING_VARIABLE),
                                        .job = job ? job : "",
                                        .instances = instances,
                                        .index = index};
    uint32_t who = 0;
    int r;

    if (!world.inputs)
        world.inputs = calloc(instances, sizeof(*world.inputs));
    if (!world.inputs)
        return error_set(err, -ENOMEM, "out of memory");
    r = meeting_join(&self, c.deadline_ns, &world.meeting, err);
    if (r < 0)
        return r;
    world.instances = instances;
    world.index = index;
    /* A script may run several programs one after another. From here on, no instance is still in a
     * round of the previous program. */
    r = meeting_come(world.meeting, c.deadline_ns, &who);
    if (r < 0) {
        r = explain(&c, r, who);
        meeting_destroy(world.meeting);
        world.meeting = NULL;
    }
    return r < 0 ? r : comm_watch_mpi(leave, err);
}

/* Leave the world. Nothing has to be announced, because no instance waits for one that has ended,
 * and its data stays while others map the memory. */
static void backend_close(bool broken)
{
    (void)broken;
}

/* Allocate the rooms. If there is no memory, the others do not know of this call yet. */
static int backend_prepare(const char *what, size_t bytes, struct plenum_error *err)
{
    size_t room = meeting_room_bytes(world.meeting);
    unsigned rooms = bytes <= room                                  ? 1
                     : bytes <= SMALL_BYTES || world.instances == 2 ? DEEP
                                                                    : MEETING_ROOMS;

    if (meeting_reserve(world.meeting, rooms, min_u64(bytes, room)) == 0)
        return 0;
    return error_set(err, -ENOMEM,
                     "%s: no memory is left for the data that the instances of this host exchange; "
                     "free some, or raise the memory limit",
                     what);
}

static int backend_meet(const char *what, const void *mine, size_t bytes, void *all,
                        uint64_t timeout_ns, struct plenum_error *err)
{
    const struct local_call c = begin(what, timeout_ns, err);
    uint32_t who = 0;
    int r;

    if (world.left)
        return comm_finalised(err);
    r = meeting_meet(world.meeting, mine, bytes, all, c.deadline_ns, &who);

    return r < 0 ? explain(&c, r, who) : 0;
}

/* ---- pieces ---- */

/* How bytes are cut into pieces. */
struct local_pieces {
    size_t bytes, piece; /* in all; of each piece but the last */
    uint64_t count;
};

static struct local_pieces cut(size_t bytes, size_t piece)
{
    return (struct local_pieces){bytes, piece, (bytes + piece - 1) / piece};
}

static size_t begin_of(const struct local_pieces *p, uint64_t k)
{
    return k * p->piece;
}

static size_t length_of(const struct local_pieces *p, uint64_t k)
{
    return min_u64(p->piece, p->bytes - begin_of(p, k));
}

static unsigned char *room_of(uint32_t instance, uint64_t k)
{
    return meeting_room(world.meeting, instance, (unsigned)(k % DEEP));
}

static unsigned char *sum_of(uint32_t instance, uint64_t k)
{
    return meeting_room(world.meeting, instance, (unsigned)(DEEP + k % DEEP));
}

/* Returns the instance `ahead` places after this one, in a circle, so that instances begin with
 * different ones. */
static uint32_t next(uint32_t ahead)
{
    return (uint32_t)(((uint64_t)world.index + ahead) % world.instances);
}

/* Returns the bytes of each instance's part of a room, if all parts are equal: whole cache lines,
 * or, with thousands of instances, at least 8 bytes. */
static size_t share_of_room(size_t bytes)
{
    size_t share = meeting_room_bytes(world.meeting) / world.instances;

    assert(share >= sizeof(uint64_t));
    share = share >= LINE ? share / LINE * LINE : sizeof(uint64_t);
    return min_u64(share, align_up(bytes, LINE));
}

/* ---- moving bytes ---- */

static int backend_broadcast(void *arg, void *buffer, size_t bytes, uint32_t root,
                             uint64_t timeout_ns, struct plenum_error *err)
{
    const struct local_call c = begin("broadcast", timeout_ns, err);
    const struct local_pieces p = cut(bytes, meeting_room_bytes(world.meeting));

    (void)arg;
    meeting_begin(world.meeting, p.count);
    for (uint64_t k = 0; k < p.count; k++) {
        unsigned char *here = (unsigned char *)buffer + begin_of(&p, k);
        int r = 0;

        if (world.index != root)
            r = await(&c, root, k + 1);
        else if (k >= DEEP)
            r = await_all(&c, k - DEEP + 1);
        if (r < 0)
            return r;
        if (world.index == root)
            memcpy(room_of(root, k), here, length_of(&p, k));
        else
            memcpy(here, room_of(root, k), length_of(&p, k));
        meeting_enter(world.meeting);
    }
    return 0;
}

static int backend_allgather(void *arg, const void *send, size_t bytes, void *recv,
                             uint64_t timeout_ns, struct plenum_error *err)
{
    const struct local_call c = begin("allgather", timeout_ns, err);
    const struct local_pieces p = cut(bytes, meeting_room_bytes(world.meeting));
    unsigned char *own = (unsigned char *)recv + world.index * bytes;

    (void)arg;
    meeting_begin(world.meeting, p.count);
    for (uint64_t s = 0; s <= p.count; s++) {
        if (s < p.count) {
            memcpy(room_of(world.index, s), (const unsigned char *)send + begin_of(&p, s),
                   length_of(&p, s));
            meeting_enter(world.meeting);
        }
        for (uint32_t i = 1; s > 0 && i < world.instances; i++) {
            int r = await(&c, next(i), s);

            if (r < 0)
                return r;
            memcpy((unsigned char *)recv + next(i) * bytes + begin_of(&p, s - 1),
                   room_of(next(i), s - 1), length_of(&p, s - 1));
        }
    }
    if (bytes > 0 && own != send)
        memcpy(own, send, bytes);
    return 0;
}

/* Copy to this instance's room what the other instances get from it: piece k of each part. */
static void fill_parts(const unsigned char *send, size_t step, const struct local_pieces *p,
                       uint64_t k)
{
    for (uint32_t i = 1; i < world.instances; i++)
        memcpy(room_of(world.index, k) + next(i) * p->piece, send + next(i) * step + begin_of(p, k),
               length_of(p, k));
}

static int backend_exchange(const struct comm_exchange *x, struct plenum_error *err)
{
    const struct local_call c = begin(x->what, x->timeout_ns, err);
    const struct local_pieces p = cut(x->bytes, share_of_room(x->bytes));

    meeting_begin(world.meeting, p.count);
    for (uint64_t s = 0; s <= p.count; s++) {
        if (s < p.count) {
            fill_parts(x->send, x->send_step, &p, s);
            meeting_enter(world.meeting);
        }
        for (uint32_t i = 1; s > 0 && i < world.instances; i++) {
            int r = await(&c, next(i), s);

            if (r < 0)
                return r;
            memcpy(x->recv + next(i) * x->recv_step + begin_of(&p, s - 1),
                   room_of(next(i), s - 1) + world.index * p.piece, length_of(&p, s - 1));
        }
    }
    memcpy(x->recv + world.index * x->recv_step, x->send + world.index * x->send_step, x->bytes);
    return 0;
}

/* ---- reductions ---- */

/* A reduction in progress. */
struct local_reduction {
    struct local_call call;
    const struct comm_reduction *x;
    struct local_pieces p;
};

/* A part of a piece. */
struct local_slice {
    size_t at, bytes;
};

/* Combine a part of piece k from all rooms, once all have entered the round. This instance's own
 * bytes are `mine`. */
static int combine_rooms(const struct local_reduction *d, uint64_t k, uint64_t round,
                         struct local_slice part, const unsigned char *mine, unsigned char *to)
{
    int r = await_all(&d->call, round);

    if (r < 0 || part.bytes == 0)
        return r;
    for (uint32_t i = 0; i < world.instances; i++)
        world.inputs[i] = i == world.index ? mine : room_of(i, k) + part.at;
    combine(to, world.inputs, world.instances, part.bytes / combine_size(d->x->type), d->x->type,
            d->x->op);
    return 0;
}

static int reduce_small(const struct local_reduction *d)
{
    const struct local_pieces *p = &d->p;

    meeting_begin(world.meeting, p->count);
    for (uint64_t s = 0; s <= p->count; s++) {
        if (s < p->count) {
            memcpy(room_of(world.index, s), d->x->send + begin_of(p, s), length_of(p, s));
            meeting_enter(world.meeting);
        }
        if (s > 0) {
            size_t at = begin_of(p, s - 1);
            int r = combine_rooms(d, s - 1, s, (struct local_slice){0, length_of(p, s - 1)},
                                  d->x->send + at, d->x->recv + at);

            if (r < 0)
                return r;
        }
    }
    return 0;
}

/* Returns an instance's slice of a piece. */
static struct local_slice slice_of(size_t bytes, uint32_t instance)
{
    size_t lines = bytes / LINE, from = lines * instance / world.instances * LINE;
    size_t to = lines * (instance + (size_t)1) / world.instances * LINE;

    return (struct local_slice){from, (instance + 1 == world.instances ? bytes : to) - from};
}

/* Copy the slices of piece k that other instances combine to this instance's room. */
static void fill_slices(const struct local_reduction *d, uint64_t k)
{
    const unsigned char *from = d->x->send + begin_of(&d->p, k);
    unsigned char *room = room_of(world.index, k);
    size_t length = length_of(&d->p, k);
    struct local_slice own = slice_of(length, world.index);
    size_t end = own.at + own.bytes;

    memcpy(room, from, own.at);
    memcpy(room + end, from + end, length - end);
}

static int combine_slice(const struct local_reduction *d, uint64_t k, uint64_t round)
{
    struct local_slice own = slice_of(length_of(&d->p, k), world.index);
    size_t at = begin_of(&d->p, k) + own.at;
    unsigned char *sum = sum_of(world.index, k) + own.at;
    int r = combine_rooms(d, k, round, own, d->x->send + at, sum);

    if (r == 0)
        memcpy(d->x->recv + at, sum, own.bytes);
    return r;
}

static int copy_slices(const struct local_reduction *d, uint64_t k, uint64_t round)
{
    for (uint32_t i = 1; i < world.instances; i++) {
        struct local_slice slice = slice_of(length_of(&d->p, k), next(i));
        int r = await(&d->call, next(i), round);

        if (r < 0)
            return r;
        memcpy(d->x->recv + begin_of(&d->p, k) + slice.at, sum_of(next(i), k) + slice.at,
               slice.bytes);
    }
    return 0;
}

static int reduce_large(const struct local_reduction *d)
{
    const uint64_t count = d->p.count;
    int r = 0;

    meeting_begin(world.meeting, 2 * (count + 1));
    for (uint64_t s = 0; s < count + 2 && r == 0; s++) {
        if (s < count)
            fill_slices(d, s);
        if (s <= count)
            meeting_enter(world.meeting); /* round 2 s + 1 */
        if (s > 0 && s <= count)
            r = combine_slice(d, s - 1, 2 * s - 1);
        if (r == 0 && s <= count)
            meeting_enter(world.meeting); /* round 2 s + 2 */
        if (r == 0 && s >= 2)
            r = copy_slices(d, s - 2, 2 * s);
    }
    return r;
}

static int backend_allreduce(const struct comm_reduction *x, struct plenum_error *err)
{
    const size_t bytes = x->count * combine_size(x->type);
    const struct local_reduction d = {.call = begin("allreduce", x->timeout_ns, err),
                                      .x = x,
                                      .p = cut(bytes, meeting_room_bytes(world.meeting))};

    return world.instances == 2 || bytes <= SMALL_BYTES ? reduce_small(&d) : reduce_large(&d);
}

static int backend_reduce_scatter(const struct comm_reduction *x, struct plenum_error *err)
{
    const size_t bytes = x->count * combine_size(x->type);
    const struct local_reduction d = {.call = begin("reduce_scatter", x->timeout_ns, err),
                                      .x = x,
                                      .p = cut(bytes, share_of_room(bytes))};
    const struct local_pieces *p = &d.p;

    meeting_begin(world.meeting, p->count);
    for (uint64_t s = 0; s <= p->count; s++) {
        if (s < p->count) {
            fill_parts(x->send, bytes, p, s);
            meeting_enter(world.meeting);
        }
        if (s > 0) {
            struct local_slice part = {world.index * p->piece, length_of(p, s - 1)};
            size_t at = begin_of(p, s - 1);
            int r =
                combine_rooms(&d, s - 1, s, part, x->send + world.index * bytes + at, x->recv + at);

            if (r < 0)
                return r;
        }
    }
    return 0;
}

const struct comm_backend comm_local = {
    .version = COMM_BACKEND_VERSION,
    .open = backend_open,
    .close = backend_close,
    .prepare = backend_prepare,
    .meet = backend_meet,
    .carrier = {.broadcast = backend_broadcast, .allgather = backend_allgather},
    .exchange = backend_exchange,
    .allreduce = backend_allreduce,
    .reduce_scatter = backend_reduce_scatter,
};
