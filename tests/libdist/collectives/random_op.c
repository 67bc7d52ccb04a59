/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tests/libdist/collectives/random_op.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __x86_64__
#include <xmmintrin.h>
#endif

#include "common/util/util.h"
#include "libdist/collectives/combine.h"
#include "tests/libdist/collectives/oracle_sum.h"

enum kind { ALLREDUCE, REDUCE_SCATTER, ALLGATHER, ALLTOALL, BROADCAST, BARRIER };

/* A collective, the same in all instances but for `in_place`, `shift` and `flush`. */
struct op {
    enum kind kind;
    enum plenum_type type;
    enum plenum_op op;
    size_t count, size; /* elements of a part, and their bytes */
    uint32_t root, instances, index;
    uint64_t seed; /* of the data */
    bool in_place, flush;
    size_t shift; /* of the buffers, in bytes */
};

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static uint64_t draw(uint64_t *state)
{
    return mix(*state += UINT64_C(0x9e3779b97f4a7c15));
}

/* Returns the bits of an element of an instance's data: often numbers of similar size, so that
 * results depend on the order of additions. */
static uint64_t value_of(const struct op *o, uint32_t instance, size_t k)
{
    uint64_t bits = mix(o->seed + mix(instance + 1) + k * 3);

    if (bits >> 61 != 0)
        bits = (bits & ((UINT64_C(1) << (8 * o->size - 4)) - 1)) | UINT64_C(3) << (8 * o->size - 4);
    return o->size == 8 ? bits : bits & ((UINT64_C(1) << 8 * o->size) - 1);
}

static struct op draw_op(const struct plenum_job_info *me, const struct random_op_limits *limits,
                         uint64_t number)
{
    uint64_t state = mix(limits->seed) + number, own;
    struct op o = {.instances = me->num_instances, .index = me->instance_index};
    unsigned any = (unsigned)(draw(&state) % RANDOM_OP_KINDS);
    bool parts;

    o.kind = (enum kind)(limits->kind < 0 ? (int)any : limits->kind);
    o.type = (enum plenum_type)(draw(&state) % (PLENUM_BFLOAT16 + 1));
    o.op = (enum plenum_op)(draw(&state) % (PLENUM_MEAN + 1));
    o.size = combine_size(o.type);
    parts = o.kind == REDUCE_SCATTER || o.kind == ALLTOALL || o.kind == ALLGATHER;
    /* As many small as large ones: any power of two is as likely as any other. */
    o.count = draw(&state) % ((limits->bytes >> draw(&state) % 20) + 1) / o.size;
    if (parts)
        o.count /= o.instances;
    o.root = (uint32_t)(draw(&state) % o.instances);
    o.seed = draw(&state);
    own = mix(o.seed + o.index);
    o.in_place = own & 1;
    o.flush = (own >> 1 & 7) == 0;
    o.shift = own >> 8 & 1 ? own >> 9 & 15 : 0;
    return o;
}

/* Returns how many parts an instance sends, or receives. */
static size_t parts_of(const struct op *o, bool sent)
{
    bool many = o->kind == ALLTOALL || o->kind == (sent ? REDUCE_SCATTER : ALLGATHER);

    return many ? o->instances : 1;
}

static int call(struct plenum_job *job, const struct op *o, unsigned char *send,
                unsigned char *recv, struct plenum_error *err)
{
    size_t bytes = o->count * o->size;

    switch (o->kind) {
    case ALLREDUCE:
        return plenum_allreduce(job, recv, o->count, o->type, o->op, err);
    case REDUCE_SCATTER:
        return plenum_reduce_scatter(job, send, recv, o->count, o->type, o->op, err);
    case ALLGATHER:
        return plenum_allgather(job, send, bytes, recv, err);
    case ALLTOALL:
        return plenum_alltoall(job, send, bytes, recv, err);
    case BROADCAST:
        return plenum_broadcast(job, recv, bytes, o->root, err);
    case BARRIER:
        break;
    }
    return plenum_barrier(job, err);
}

/* The program may have set another floating-point mode in some instances. */
static int call_in_mode(struct plenum_job *job, const struct op *o, unsigned char *send,
                        unsigned char *recv, struct plenum_error *err)
{
#ifdef __x86_64__
    unsigned before = _mm_getcsr();
    int r;

    if (o->flush)
        _mm_setcsr(before | 0x8040); /* denormals are zero */
    r = call(job, o, send, recv, err);
    _mm_setcsr(before);
    return r;
#else
    return call(job, o, send, recv, err);
#endif
}

static uint64_t wanted(const struct op *o, size_t k)
{
    uint64_t values[64];
    bool scatter = o->kind == REDUCE_SCATTER;

    switch (o->kind) {
    case ALLREDUCE:
    case REDUCE_SCATTER:
        for (uint32_t i = 0; i < o->instances; i++)
            values[i] = value_of(o, i, k + (scatter ? o->index * o->count : 0));
        return oracle_sum(values, o->instances, o->type, o->op);
    case ALLGATHER:
        return value_of(o, (uint32_t)(k / o->count), k % o->count);
    case ALLTOALL:
        return value_of(o, (uint32_t)(k / o->count), o->index * o->count + k % o->count);
    case BROADCAST:
        return value_of(o, o->root, k);
    case BARRIER:
        break;
    }
    return 0;
}

/* Large results are checked at every 7th element, and at both ends. */
static int check(const struct op *o, const unsigned char *recv)
{
    size_t count = o->kind == BARRIER ? 0 : parts_of(o, false) * o->count;

    for (size_t k = 0; k<count; k += count> 5000 && k > 100 && k + 100 < count ? 7 : 1) {
        uint64_t got = oracle_get(recv, k, o->size), want = wanted(o, k);

        if (got == want)
            continue;
        fprintf(stderr,
                "instance %u of %u: kind %d, type %d, operation %d, element %zu of %zu: "
                "%#llx instead of %#llx\n",
                o->index, o->instances, (int)o->kind, (int)o->type, (int)o->op, k, count,
                (unsigned long long)got, (unsigned long long)want);
        return 1;
    }
    return 0;
}

int random_op_run(struct plenum_job *job, const struct random_op_limits *limits, uint64_t number,
                  struct plenum_error *err)
{
    struct op o = draw_op(plenum_job_get_info(job), limits, number);
    size_t bytes = o.count * o.size;
    unsigned char *sent = malloc(bytes * parts_of(&o, true) + 16);
    unsigned char *received = malloc(bytes * parts_of(&o, false) + 16);
    unsigned char *send = sent + o.shift, *recv = received + o.shift;
    int r;

    if (o.in_place && o.kind == ALLGATHER)
        send = recv + o.index * bytes;
    else if ((o.in_place && o.kind == REDUCE_SCATTER) || o.kind == ALLREDUCE || o.kind == BROADCAST)
        recv = send + (o.kind == REDUCE_SCATTER ? o.index * bytes : 0);
    for (size_t k = 0; k < o.count * parts_of(&o, true); k++)
        oracle_put(send, k, o.size, value_of(&o, o.index, k));
    r = call_in_mode(job, &o, send, recv, err);
    if (r == 0)
        r = check(&o, recv);
    free(sent);
    free(received);
    return r;
}
