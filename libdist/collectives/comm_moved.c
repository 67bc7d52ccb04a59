/* SPDX-License-Identifier: MIT */
/* comm_moved.c - reductions over carriers that only move bytes, such as MPI.
 *
 * A carrier's own sum depends on its algorithm, which depends on the size and the number of
 * instances. So the bytes are moved, and combine() adds them:
 *
 *     gathered   each instance gets the bytes of all, and combines them all: one transfer. For few
 *                bytes, for two instances, and for carriers without an exchange
 *     exchanged  each instance gets the others' bytes of its slice, combines them, and all gather
 *                the slices: as many bytes as in a ring
 *
 * Both work on pieces of limited size, because they need memory for them. */
#include "config.h"

#include "libdist/collectives/comm_moved.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/util.h"
#include "libdist/collectives/combine.h"

enum {
    PIECE_BYTES = 16 << 20,     /* maximum in memory, of all instances together */
    GATHERED_BYTES = 128 << 10, /* maximum that is gathered, of all instances together */
    UNIT = 64,                  /* a whole number of elements */
};

/* A reduction or exchange in progress. */
struct moving {
    const struct comm_mover *by;
    const struct comm_reduction *x; /* NULL in an exchange */
    size_t size;                    /* of an element */
    unsigned char *room;            /* for a piece of each instance */
    const void **inputs;            /* [instances], of combine() */
    uint64_t deadline_ns;           /* 0: none */
    struct plenum_error *err;
};

/* Memory of a transfer that never ended, to which the carrier may still write. No transfer
 * follows. */
static void *lost[2];

static int start(struct moving *m, size_t room_bytes, uint64_t timeout_ns)
{
    m->deadline_ns = timeout_ns ? sum_u64(time_now_ns(), timeout_ns) : 0;
    m->room = malloc(room_bytes);
    m->inputs = calloc(m->by->instances, sizeof(*m->inputs));
    if (m->room && m->inputs)
        return 0;
    free(m->room);
    free(m->inputs);
    return error_set(m->err, -ENOMEM, "out of memory");
}

static int end(struct moving *m, int r)
{
    free(m->inputs);
    if (r < 0)
        lost[0] = m->room;
    else
        free(m->room);
    return r;
}

static int gather(const struct moving *m, const void *send, size_t bytes, void *recv)
{
    return m->by->carrier->allgather(m->by->carrier->arg, send, bytes, recv,
                                     comm_time_left(m->deadline_ns), m->err);
}

/* Combine what all instances have sent to the room. */
static void combine_room(const struct moving *m, size_t bytes, void *to)
{
    for (uint32_t i = 0; i < m->by->instances; i++)
        m->inputs[i] = m->room + i * bytes;
    combine(to, m->inputs, m->by->instances, bytes / m->size, m->x->type, m->x->op);
}

/* Returns how many bytes of each instance are moved at a time. */
static size_t piece_of(const struct comm_mover *by, size_t all, size_t bytes)
{
    size_t piece = all / by->instances / UNIT * UNIT;

    return min_u64(piece > UNIT ? piece : UNIT, align_up(bytes, UNIT));
}

static int reduce_gathered(const struct moving *m, const unsigned char *send, unsigned char *recv,
                           size_t bytes)
{
    int r = gather(m, send, bytes, m->room);

    if (r == 0)
        combine_room(m, bytes, recv);
    return r;
}

static int reduce_exchanged(const struct moving *m, const unsigned char *send, unsigned char *recv,
                            size_t slice)
{
    const struct comm_exchange x = {.what = "allreduce",
                                    .send = send,
                                    .send_step = slice,
                                    .recv = m->room,
                                    .recv_step = slice,
                                    .bytes = slice,
                                    .timeout_ns = comm_time_left(m->deadline_ns)};
    int r = m->by->exchange(&x, m->err);

    if (r < 0)
        return r;
    combine_room(m, slice, m->room);
    return gather(m, m->room, slice, recv);
}

int comm_moved_allreduce(const struct comm_mover *by, const struct comm_reduction *x,
                         struct plenum_error *err)
{
    struct moving m = {.by = by, .x = x, .size = combine_size(x->type), .err = err};
    const size_t bytes = x->count * m.size;
    const bool gathered =
        !by->exchange || by->instances == 2 || bytes <= GATHERED_BYTES / by->instances;
    const size_t part = piece_of(by, PIECE_BYTES, bytes);
    int r = start(&m, part * by->instances, x->timeout_ns);

    if (r < 0)
        return r;
    for (size_t at = 0, n = 0; at < bytes && r == 0; at += n) {
        size_t left = bytes - at, slice = min_u64(left / m.size / by->instances * m.size, part);

        if (!gathered && slice > 0) {
            n = slice * by->instances;
            r = reduce_exchanged(&m, x->send + at, x->recv + at, slice);
        } else { /* what cannot be divided comes last */
            n = min_u64(left, part);
            r = reduce_gathered(&m, x->send + at, x->recv + at, n);
        }
    }
    return end(&m, r);
}

int comm_moved_reduce_scatter(const struct comm_mover *by, const struct comm_reduction *x,
                              struct plenum_error *err)
{
    struct moving m = {.by = by, .x = x, .size = combine_size(x->type), .err = err};
    const size_t bytes = x->count * m.size, part = piece_of(by, PIECE_BYTES, bytes);
    int r = start(&m, part * by->instances, x->timeout_ns);

    if (r < 0)
        return r;
    for (size_t at = 0; at < bytes && r == 0; at += part) {
        const struct comm_exchange step = {.what = "reduce_scatter",
                                           .send = x->send + at,
                                           .send_step = bytes,
                                           .recv = m.room,
                                           .recv_step = min_u64(part, bytes - at),
                                           .bytes = min_u64(part, bytes - at),
                                           .timeout_ns = comm_time_left(m.deadline_ns)};

        r = comm_moved_exchange(by, &step, err);
        if (r == 0)
            combine_room(&m, step.bytes, x->recv + at);
    }
    return end(&m, r);
}

/* Gather the bytes that all send to all, and take out those for this instance. */
static int exchange_gathered(const struct moving *m, const struct comm_exchange *x, size_t at,
                             size_t bytes)
{
    const uint32_t instances = m->by->instances;
    unsigned char *all = m->room + instances * bytes;
    int r;

    for (uint32_t i = 0; i < instances; i++)
        memcpy(m->room + i * bytes, x->send + i * x->send_step + at, bytes);
    r = gather(m, m->room, instances * bytes, all);
    for (uint32_t i = 0; i < instances && r == 0; i++)
        memcpy(x->recv + i * x->recv_step + at,
               all + ((size_t)i * instances + m->by->index) * bytes, bytes);
    return r;
}

int comm_moved_exchange(const struct comm_mover *by, const struct comm_exchange *x,
                        struct plenum_error *err)
{
    struct moving m = {.by = by, .err = err};
    size_t part = piece_of(by, PIECE_BYTES / by->instances, x->bytes);
    int r;

    if (by->exchange)
        return by->exchange(x, err);
    r = start(&m, part * by->instances * (by->instances + (size_t)1), x->timeout_ns);
    if (r < 0)
        return r;
    for (size_t at = 0; at < x->bytes && r == 0; at += part)
        r = exchange_gathered(&m, x, at, min_u64(part, x->bytes - at));
    free(m.inputs);
    m.inputs = NULL;
    if (r < 0)
        lost[1] = m.room; /* that of a reduce-scatter may be lost, too */
    else
        free(m.room);
    return r;
}
