/* SPDX-License-Identifier: MIT */
/* comm_phases.c - collectives between hosts, in three phases for each piece of the data:
 *
 *     copy in   every instance copies its piece to its input area;               enter 2k+1
 *     between   the first `channels` instances of each host, each for its slice: read the input
 *               areas, exchange with their peers, write to their result areas;   enter 2k+2
 *     copy out  every instance copies from the result areas
 *
 * Between two phases, each waits for all instances of its host. So an input area is not written
 * while others read it, and a result area is not written before all have read the last piece.
 *
 * An allreduce has two moves between hosts for each piece. In order to keep the network busy, it
 * has three pieces in progress (do_step()), which use the two halves of the areas in turn. */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/util.h"
#include "libdist/collectives/combine.h"
#include "libdist/collectives/comm_hosts.h"

enum {
    BLOCK = 2048,          /* elements that are widened at once */
    HALF = HOSTS_AREA / 2, /* a piece of an allreduce */
};

/* The moves of piece k use phases.parts[kind + k % 2]. */
enum { SUBTREES, RUNS = 2 };

#define W hosts_world

struct byte_run {
    size_t at, bytes;
};

static struct {
    struct comm_tcp_part *parts;       /* [COMM_TCP_MOVES][hosts] */
    struct byte_run *runs;             /* [hosts] */
    unsigned char *sent[2];            /* data of subtrees or exchanges */
    unsigned char *received[2];        /* data of subtrees */
    unsigned char *subtrees, *widened; /* [subtrees][room]; [most][BLOCK] float32 */
    const void **inputs;               /* [most] */
    size_t room;                       /* for our data of a subtree */
    size_t base;                       /* where the piece begins in the areas */
} phases;

/* Part i of n equal ones, cut at lines. */
static struct byte_run cut(size_t bytes, uint32_t i, uint32_t n)
{
    size_t lines = bytes / HOSTS_LINE, from = lines * i / n * HOSTS_LINE;
    size_t to = i + 1 == n ? bytes : lines * (i + (size_t)1) / n * HOSTS_LINE;

    return (struct byte_run){from, to - from};
}

static uint32_t count_of(uint32_t host)
{
    return W.first[host + 1] - W.first[host];
}

static bool has_channel(void)
{
    return W.local < W.channels;
}

static uint32_t own_subtrees(void)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < W.tree.count; i++)
        n += W.tree.subtrees[i].host == W.host;
    return n;
}

static size_t part_bytes(uint32_t parts)
{
    return (size_t)HOSTS_AREA / parts / HOSTS_LINE * HOSTS_LINE;
}

int phases_open(void)
{
    size_t slices = HOSTS_AREA / W.channels + HOSTS_LINE * 2 * ((size_t)W.hosts + 1);
    size_t own = part_bytes(W.instances) * W.count / W.channels;

    phases.room = 2 * (max_u64(own, HOSTS_AREA / W.channels / W.hosts) + HOSTS_LINE * 4);
    phases.parts = calloc((size_t)COMM_TCP_MOVES * W.hosts, sizeof(*phases.parts));
    phases.runs = calloc(W.hosts, sizeof(*phases.runs));
    phases.inputs = calloc(W.most, sizeof(*phases.inputs));
    phases.widened = calloc(W.most, BLOCK * sizeof(float));
    for (unsigned i = 0; i < 2; i++) {
        phases.sent[i] = malloc(2 * slices * own_subtrees());
        phases.received[i] = malloc(phases.room * W.tree.count);
    }
    phases.subtrees = malloc(phases.room * W.tree.count);
    return phases.parts && phases.runs && phases.inputs && phases.widened && phases.sent[0] &&
                   phases.sent[1] && phases.received[0] && phases.received[1] && phases.subtrees
               ? 0
               : -ENOMEM;
}

static struct comm_tcp_part *parts_of(unsigned kind, uint64_t piece)
{
    return phases.parts + (kind + piece % 2) * W.hosts;
}

static unsigned char *input_at(uint32_t local, size_t at)
{
    return hosts_input(local) + phases.base + at;
}

static void clear_parts(void)
{
    memset(phases.parts, 0, W.hosts * sizeof(*phases.parts));
}

/* Copy a part of a region from the result areas, where it begins at `base`: each instance with a
 * channel has its slice of the region. */
static void copy_out(size_t base, size_t region, struct byte_run part, void *to)
{
    for (uint32_t i = 0; i < W.channels; i++) {
        struct byte_run slice = cut(region, i, W.channels);
        size_t from = max_u64(part.at, slice.at);
        size_t end = min_u64(part.at + part.bytes, slice.at + slice.bytes);

        if (from < end)
            memcpy((unsigned char *)to + (from - part.at), hosts_result(i) + base + from,
                   end - from);
    }
}

/* Copy a slice of what all instances here have together: `each` bytes at `at` of each input
 * area. */
static void gather(struct byte_run slice, size_t each, size_t at, unsigned char *to)
{
    for (uint32_t i = 0; i < W.count; i++) {
        size_t from = max_u64(slice.at, i * each);
        size_t end = min_u64(slice.at + slice.bytes, (i + 1) * each);

        if (from < end)
            memcpy(to + (from - slice.at), hosts_input(i) + at + (from - i * each), end - from);
    }
}

/* ---- reductions ---- */

struct reducing {
    struct hosts_call call;
    const struct comm_reduction *x;
    size_t size; /* of an element */
    bool wide;
};

static struct reducing begin_reducing(const char *what, const struct comm_reduction *x,
                                      struct plenum_error *err)
{
    return (struct reducing){.call = hosts_begin(what, x->timeout_ns, err),
                             .x = x,
                             .size = combine_size(x->type),
                             .wide = combine_is_wide(x->type, x->op)};
}

/* Returns the bytes of a subtree's data, given those of its elements. */
static size_t data_bytes(const struct reducing *d, const struct comm_subtree *t, size_t bytes)
{
    return d->wide && t->last - t->first > 1 ? 2 * bytes : bytes;
}

/* Combine a subtree of this host, for a run of the input areas. */
static void make_subtree(const struct reducing *d, const struct comm_subtree *t,
                         struct byte_run run, unsigned char *to)
{
    const uint32_t leaves = t->last - t->first, base = t->first - W.first[W.host];
    const size_t count = run.bytes / d->size;
    const struct combine_inputs node = {.from = phases.inputs, .inputs = leaves};

    if (leaves == 1) {
        memcpy(to, input_at(base, run.at), run.bytes);
        return;
    }
    for (uint32_t i = 0; i < leaves; i++)
        phases.inputs[i] = input_at(base + i, run.at);
    if (!d->wide) {
        combine_node(to, &node, count, d->x->type, d->x->op);
        return;
    }
    for (size_t at = 0; at < count; at += BLOCK) {
        size_t n = min_u64(BLOCK, count - at);

        for (uint32_t i = 0; i < leaves; i++) {
            unsigned char *wide = phases.widened + i * BLOCK * sizeof(float);

            combine_widen(wide, input_at(base + i, run.at + at * d->size), n, d->x->type);
            phases.inputs[i] = wide;
        }
        combine_node(to + at * sizeof(float), &node, n, PLENUM_FLOAT32, PLENUM_SUM);
    }
}

/* Begin to send our subtrees' data of each host's run to that host, and to receive that of our
 * run. */
static int start_subtrees(const struct reducing *d, uint64_t piece)
{
    unsigned char *to = phases.sent[piece % 2], *from = phases.received[piece % 2];

    for (uint32_t g = 0; g < W.hosts; g++) {
        struct comm_tcp_part *part = &parts_of(SUBTREES, piece)[g];

        *part = (struct comm_tcp_part){.send = to, .recv = from};
        for (uint32_t k = 0; k < W.tree.count && g != W.host; k++) {
            const struct comm_subtree *t = &W.tree.subtrees[k];

            if (t->host == W.host) {
                make_subtree(d, t, phases.runs[g], to);
                to += data_bytes(d, t, phases.runs[g].bytes);
            } else if (t->host == g) {
                from += data_bytes(d, t, phases.runs[W.host].bytes);
            }
        }
        part->sent = (size_t)(to - (const unsigned char *)part->send);
        part->received = (size_t)(from - (const unsigned char *)part->recv);
    }
    return hosts_start(&d->call, parts_of(SUBTREES, piece));
}

/* Find the other hosts' subtrees in what start_subtrees() has received. */
static void find_received(const struct reducing *d, uint64_t piece)
{
    unsigned char *from = phases.received[piece % 2];

    for (uint32_t g = 0; g < W.hosts; g++)
        for (uint32_t k = 0; k < W.tree.count && g != W.host; k++)
            if (W.tree.subtrees[k].host == g) {
                W.tree.subtrees[k].data = from;
                from += data_bytes(d, &W.tree.subtrees[k], phases.runs[W.host].bytes);
            }
}

/* Reduce our host's run to `to`, once the subtrees have been received. All hosts do this for all
 * runs. */
static void reduce_run(const struct reducing *d, uint64_t piece, unsigned char *to)
{
    const struct byte_run own = phases.runs[W.host];
    const unsigned char *all;

    if (own.bytes == 0)
        return;
    find_received(d, piece);
    for (uint32_t k = 0; k < W.tree.count; k++) {
        struct comm_subtree *t = &W.tree.subtrees[k];
        unsigned char *room = phases.subtrees + k * phases.room, *raw = t->data;
        bool leaf = t->last - t->first == 1;

        if (t->host == W.host) {
            raw = d->wide && leaf ? input_at(t->first - W.first[W.host], own.at) : room;
            if (raw == room)
                make_subtree(d, t, own, room);
        }
        t->data = raw;
        if (d->wide && leaf) {
            combine_widen(room, raw, own.bytes / d->size, d->x->type);
            t->data = room;
        }
    }
    all = comm_tree_finish(&W.tree, own.bytes / d->size, d->x->type, d->x->op);
    if (d->wide)
        combine_narrow(to, all, own.bytes / d->size, d->x->type);
    else
        memcpy(to, all, own.bytes);
}

/* The second phase of piece k: only for instances with a channel. */
#define BETWEEN(call, k, r, what)                   \
    do {                                            \
        meeting_enter(W.meeting);                   \
        (r) = hosts_await_all((call), 2 * (k) + 1); \
        if ((r) == 0 && has_channel())              \
            (r) = (what);                           \
    } while (0)

static int begin_copying_out(const struct hosts_call *c, uint64_t k, int r)
{
    if (r < 0)
        return r;
    meeting_enter(W.meeting);
    return hosts_await_all(c, 2 * k + 2);
}

static uint64_t begin_pieces(size_t bytes, size_t piece)
{
    uint64_t count = (bytes + piece - 1) / piece;

    meeting_begin(W.meeting, 2 * count);
    return count;
}

/* ---- allreduce ---- */

/* An allreduce in progress. */
struct piece_pipeline {
    struct reducing d;
    size_t bytes;
    uint64_t count; /* of pieces */
    uint64_t round; /* the last one that we entered */
};

static size_t piece_bytes(const struct piece_pipeline *p, uint64_t piece)
{
    return min_u64(HALF, p->bytes - piece * HALF);
}

static int pass_round(struct piece_pipeline *p)
{
    meeting_enter(W.meeting);
    return hosts_await_all(&p->d.call, ++p->round);
}

/* Find our slice of a piece, and each host's run of that. */
static void select_piece(const struct piece_pipeline *p, uint64_t piece)
{
    struct byte_run slice = cut(piece_bytes(p, piece), W.local, W.channels);

    phases.base = piece % 2 * HALF;
    for (uint32_t g = 0; g < W.hosts; g++) {
        phases.runs[g] = cut(slice.bytes, g, W.hosts);
        phases.runs[g].at += slice.at;
    }
}

/* Reduce our run of a piece whose subtrees are in flight, and begin to gather the other hosts'
 * runs. */
static int reduce_piece(const struct piece_pipeline *p, uint64_t piece)
{
    struct comm_tcp_part *parts = parts_of(RUNS, piece);
    unsigned char *result;
    int r = hosts_finish(&p->d.call);

    if (r < 0)
        return r;
    select_piece(p, piece);
    result = hosts_result(W.local) + phases.base;
    reduce_run(&p->d, piece, result + phases.runs[W.host].at);
    for (uint32_t g = 0; g < W.hosts; g++)
        parts[g] =
            (struct comm_tcp_part){result + phases.runs[W.host].at, phases.runs[W.host].bytes,
                                   result + phases.runs[g].at, phases.runs[g].bytes};
    return hosts_start(&p->d.call, parts);
}

/* Begin the moves of piece s, continue those of s-1, and finish those of s-2. */
static int move_pieces(const struct piece_pipeline *p, uint64_t s)
{
    int r = 0;

    if (s < p->count) {
        select_piece(p, s);
        r = start_subtrees(&p->d, s);
    }
    if (r == 0 && s >= 1 && s - 1 < p->count)
        r = reduce_piece(p, s - 1);
    if (r == 0 && s >= 2)
        r = hosts_finish(&p->d.call);
    return r;
}

/* Copy piece s in, and piece s-2 out. Our host's instances meet twice in each step: between copying
 * in and moving, which also separates the results of s-1 from copying out s-3 in the same half; and
 * between moving and copying out, which separates reading the input of s-1 from copying in s+1.
 * With fewer than three pieces, no half is used twice. */
static int do_step(struct piece_pipeline *p, uint64_t s)
{
    const bool reused = p->count > 2;
    int r = 0;

    if (s < p->count)
        memcpy(hosts_input(W.local) + s % 2 * HALF, p->d.x->send + s * HALF, piece_bytes(p, s));
    if (s < p->count || (s == p->count && reused))
        r = pass_round(p);
    if (r == 0 && has_channel())
        r = move_pieces(p, s);
    if (r == 0 && (s >= 2 || (s == 1 && reused)))
        r = pass_round(p);
    if (r == 0 && s >= 2) {
        size_t n = piece_bytes(p, s - 2);

        copy_out(s % 2 * HALF, n, (struct byte_run){0, n}, p->d.x->recv + (s - 2) * HALF);
    }
    return r;
}

int phases_allreduce(const struct comm_reduction *x, struct plenum_error *err)
{
    struct piece_pipeline p = {.d = begin_reducing("allreduce", x, err)};
    int r = 0;

    p.bytes = x->count * p.d.size;
    p.count = (p.bytes + HALF - 1) / HALF;
    if (p.count == 0)
        return 0;
    meeting_begin(W.meeting, 2 * p.count + (p.count > 2 ? 2 : 0));
    for (uint64_t s = 0; s < p.count + 2 && r == 0; s++)
        r = do_step(&p, s);
    return r;
}

/* ---- reduce_scatter ---- */

/* Reduce our slice of what the instances of each host want; `step`: bytes for each. */
static int reduce_parts(const struct reducing *d, size_t step)
{
    const size_t base = W.first[W.host] * step;
    int r;

    phases.base = 0;
    for (uint32_t g = 0; g < W.hosts; g++) {
        phases.runs[g] = cut(count_of(g) * step, W.local, W.channels);
        phases.runs[g].at += W.first[g] * step;
    }
    r = start_subtrees(d, 0);
    if (r == 0)
        r = hosts_finish(&d->call);
    if (r == 0)
        reduce_run(d, 0, hosts_result(W.local) + (phases.runs[W.host].at - base));
    return r;
}

int phases_reduce_scatter(const struct comm_reduction *x, struct plenum_error *err)
{
    const struct reducing d = begin_reducing("reduce_scatter", x, err);
    const size_t bytes = x->count * d.size, piece = part_bytes(W.instances);
    const uint64_t count = begin_pieces(bytes, piece);
    int r = 0;

    for (uint64_t k = 0; k < count && r == 0; k++) {
        size_t at = k * piece, n = min_u64(piece, bytes - at), step = align_up(n, HOSTS_LINE);

        for (uint32_t i = 0; i < W.instances; i++)
            memcpy(hosts_input(W.local) + i * step, x->send + i * bytes + at, n);
        BETWEEN(&d.call, k, r, reduce_parts(&d, step));
        r = begin_copying_out(&d.call, k, r);
        if (r == 0)
            copy_out(0, W.count * step, (struct byte_run){W.local * step, n}, x->recv + at);
    }
    return r;
}

/* ---- moving bytes ---- */

static int spread(const struct hosts_call *c, uint32_t host, uint32_t local, size_t bytes)
{
    struct byte_run slice = cut(bytes, W.local, W.channels);
    unsigned char *result = hosts_result(W.local) + slice.at;

    clear_parts();
    if (W.host == host)
        memcpy(result, hosts_input(local) + slice.at, slice.bytes);
    for (uint32_t g = 0; g < W.hosts; g++) {
        if (W.host == host)
            phases.parts[g] = (struct comm_tcp_part){.send = result, .sent = slice.bytes};
        else if (g == host)
            phases.parts[g] = (struct comm_tcp_part){.recv = result, .received = slice.bytes};
    }
    return hosts_move(c, phases.parts);
}

int phases_broadcast(void *arg, void *buffer, size_t bytes, uint32_t root, uint64_t timeout_ns,
                     struct plenum_error *err)
{
    const struct hosts_call c = hosts_begin("broadcast", timeout_ns, err);
    const uint64_t count = begin_pieces(bytes, HOSTS_AREA);
    uint32_t host = 0;
    int r = 0;

    (void)arg;
    while (W.first[host + 1] <= root)
        host++;
    for (uint64_t k = 0; k < count && r == 0; k++) {
        size_t at = k * HOSTS_AREA, n = min_u64(HOSTS_AREA, bytes - at);

        if (W.index == root)
            memcpy(hosts_input(W.local), (const unsigned char *)buffer + at, n);
        BETWEEN(&c, k, r, spread(&c, host, root - W.first[host], n));
        r = begin_copying_out(&c, k, r);
        if (r == 0 && W.index != root)
            copy_out(0, n, (struct byte_run){0, n}, (unsigned char *)buffer + at);
    }
    return r;
}

static int gather_slices(const struct hosts_call *c, size_t step)
{
    unsigned char *result = hosts_result(W.local);
    struct byte_run own = cut(W.count * step, W.local, W.channels);
    unsigned char *mine = result + W.first[W.host] * step + own.at;

    gather(own, step, 0, mine);
    for (uint32_t g = 0; g < W.hosts; g++) {
        struct byte_run theirs = cut(count_of(g) * step, W.local, W.channels);

        phases.parts[g] = (struct comm_tcp_part){
            mine, own.bytes, result + W.first[g] * step + theirs.at, theirs.bytes};
    }
    return hosts_move(c, phases.parts);
}

int phases_allgather(void *arg, const void *send, size_t bytes, void *recv, uint64_t timeout_ns,
                     struct plenum_error *err)
{
    const struct hosts_call c = hosts_begin("allgather", timeout_ns, err);
    const size_t piece = part_bytes(W.instances);
    const uint64_t count = begin_pieces(bytes, piece);
    int r = 0;

    (void)arg;
    for (uint64_t k = 0; k < count && r == 0; k++) {
        size_t at = k * piece, n = min_u64(piece, bytes - at), step = align_up(n, HOSTS_LINE);

        memcpy(hosts_input(W.local), (const unsigned char *)send + at, n);
        BETWEEN(&c, k, r, gather_slices(&c, step));
        r = begin_copying_out(&c, k, r);
        for (uint32_t g = 0; g < W.hosts && r == 0; g++)
            for (uint32_t i = W.first[g]; i < W.first[g + 1]; i++)
                copy_out(W.first[g] * step, count_of(g) * step,
                         (struct byte_run){(i - W.first[g]) * step, n},
                         (unsigned char *)recv + i * bytes + at);
    }
    return r;
}

/* Exchange our slices with the other hosts. What comes from host g lies in the result areas behind
 * what comes from earlier hosts. */
static int exchange_slices(const struct hosts_call *c, size_t step)
{
    unsigned char *to = phases.sent[0];

    for (uint32_t g = 0; g < W.hosts; g++) {
        struct byte_run ours = cut(W.count * count_of(g) * step, W.local, W.channels);

        phases.parts[g] = (struct comm_tcp_part){
            to, ours.bytes, hosts_result(W.local) + W.first[g] * W.count * step + ours.at,
            ours.bytes};
        if (g == W.host)
            continue;
        gather(ours, count_of(g) * step, W.first[g] * step, to);
        to += ours.bytes;
    }
    return hosts_move(c, phases.parts);
}

static void copy_received(const struct comm_exchange *x, size_t at, size_t n, size_t step)
{
    for (uint32_t g = 0; g < W.hosts; g++)
        for (uint32_t i = W.first[g]; i < W.first[g + 1]; i++)
            if (g != W.host)
                copy_out(W.first[g] * W.count * step, count_of(g) * W.count * step,
                         (struct byte_run){((i - W.first[g]) * W.count + W.local) * step, n},
                         x->recv + i * x->recv_step + at);
            else
                memcpy(x->recv + i * x->recv_step + at,
                       hosts_input(i - W.first[g]) + W.index * step, n);
}

int phases_exchange(const struct comm_exchange *x, struct plenum_error *err)
{
    const struct hosts_call c = hosts_begin(x->what, x->timeout_ns, err);
    const size_t piece = part_bytes(W.instances * W.most);
    const uint64_t count = (x->bytes + piece - 1) / piece;
    int r = 0;

    meeting_begin(W.meeting, 3 * count); /* one more: others read the input areas to the end */
    for (uint64_t k = 0; k < count && r == 0; k++) {
        size_t at = k * piece, n = min_u64(piece, x->bytes - at), step = align_up(n, HOSTS_LINE);

        for (uint32_t i = 0; i < W.instances; i++)
            memcpy(hosts_input(W.local) + i * step, x->send + i * x->send_step + at, n);
        for (uint64_t round = 3 * k + 1; round <= 3 * k + 3 && r == 0; round++) {
            meeting_enter(W.meeting);
            r = hosts_await_all(&c, round);
            if (r == 0 && round == 3 * k + 1 && has_channel())
                r = exchange_slices(&c, step);
            if (r == 0 && round == 3 * k + 2)
                copy_received(x, at, n, step);
        }
    }
    return r;
}
