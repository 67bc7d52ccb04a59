/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "common/order/mixture.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/order/shares.h"
#include "common/util/util.h"

struct piece {
    uint64_t start;
    struct shares shares;
    const uint64_t *told; /* [sets]: samples that each set has shown in earlier pieces */
};

struct mixture {
    uint64_t seed;
    uint32_t num_sets, num_pieces, block, positions;
    struct sampler *samplers; /* [num_sets] */
    uint32_t *first;          /* [num_sets] */
    struct piece *pieces;     /* [num_pieces] */
    uint64_t *words;          /* the memory of all edges and counts */
};

static uint64_t set_seed(uint64_t seed, const char *name)
{
    uint64_t hash = XXH3_64bits(name, strlen(name));
    struct philox_block block =
        philox_draw(seed, (uint32_t)hash, 0, DRAW_SET_SEED, (uint32_t)(hash >> 32));

    return (uint64_t)block.word[1] << 32 | block.word[0];
}

/* Is there a single set? Then there are no blocks: the set's own order is the mixture's. */
static bool is_single(const struct mixture *m)
{
    return m->num_sets == 1;
}

static int init_samplers(struct mixture *m, const struct mixture_parts *parts)
{
    int r = 0;

    for (uint32_t i = 0; i < parts->num_sets && r == 0; i++) {
        const struct mixture_set *set = &parts->sets[i];

        m->first[i] = set->first;
        r = sampler_init(&m->samplers[i], set->table,
                         is_single(m) ? m->seed : set_seed(m->seed, set->name));
    }
    return r;
}

/* Fill in the pieces. `m->words` has 2 * num_sets + 1 numbers for each piece. */
static void init_pieces(struct mixture *m, const struct mixture_parts *parts)
{
    uint64_t *words = m->words;

    for (uint32_t j = 0; j < parts->num_pieces; j++) {
        struct piece *piece = &m->pieces[j], *last = piece - 1;
        uint64_t *told = words + m->num_sets + 1;

        assert(parts->pieces[j].start % m->block == 0);
        shares_fill(words, m->block, parts->pieces[j].weights, m->num_sets);
        *piece = (struct piece){
            .start = parts->pieces[j].start,
            .shares = {.parts = m->num_sets,
                       .shift = philox_draw(m->seed, j, 0, DRAW_PHASE, 0).word[0],
                       .edges = words},
            .told = told,
        };
        for (uint32_t i = 0; j > 0 && i < m->num_sets; i++)
            told[i] = last->told[i] +
                      shares_before(&last->shares, i, (piece->start - last->start) / m->block);
        words = told + m->num_sets;
    }
}

int mixture_create(const struct mixture_parts *parts, uint64_t seed, struct mixture **ret)
{
    struct mixture *m = calloc(1, sizeof(*m));

    assert(parts->num_sets >= 1 && parts->num_pieces >= 1 && parts->pieces[0].start == 0);
    if (!m)
        return -ENOMEM;
    *m = (struct mixture){.seed = seed,
                          .num_sets = parts->num_sets,
                          .num_pieces = parts->num_pieces,
                          .block = parts->block,
                          .positions = parts->positions};
    m->samplers = calloc(m->num_sets, sizeof(*m->samplers));
    m->first = calloc(m->num_sets, sizeof(*m->first));
    m->pieces = calloc(m->num_pieces, sizeof(*m->pieces));
    m->words = calloc((size_t)m->num_pieces * (2 * (size_t)m->num_sets + 1), sizeof(*m->words));
    if (!m->samplers || !m->first || !m->pieces || !m->words || init_samplers(m, parts) < 0) {
        mixture_destroy(m);
        return -ENOMEM;
    }
    init_pieces(m, parts);
    *ret = m;
    return 0;
}

void mixture_destroy(struct mixture *mixture)
{
    struct mixture *m = mixture;

    if (!m)
        return;
    for (uint32_t i = 0; m->samplers && i < m->num_sets; i++)
        sampler_fini(&m->samplers[i]);
    free(m->samplers);
    free(m->first);
    free(m->pieces);
    free(m->words);
    free(m);
}

/* Returns the last piece that begins at or before g. */
static const struct piece *piece_at(const struct mixture *m, uint64_t g)
{
    uint32_t low = 0, high = m->num_pieces - 1;

    while (low < high) {
        uint32_t middle = low + (high - low + 1) / 2;

        if (m->pieces[middle].start <= g)
            low = middle;
        else
            high = middle - 1;
    }
    return &m->pieces[low];
}

struct mixture_turn mixture_locate(const struct mixture *mixture, uint64_t g)
{
    const struct mixture *m = mixture;
    const struct piece *piece = piece_at(m, g);
    uint64_t b = (g - piece->start) / m->block, block = g / m->block;
    uint32_t x = order_permute(m->seed, (uint32_t)(block >> 32), DRAW_PLACES, (uint32_t)block,
                               m->block, (uint32_t)(g % m->block));
    uint32_t i = shares_part(&piece->shares, b, x);

    return (struct mixture_turn){.set = i,
                                 .t = piece->told[i] + shares_before(&piece->shares, i, b) + x -
                                      shares_edge(&piece->shares, i, b)};
}

uint64_t mixture_before(const struct mixture *mixture, uint32_t set, uint64_t g)
{
    const struct piece *piece = piece_at(mixture, g);

    assert(g % mixture->block == 0);
    return piece->told[set] +
           shares_before(&piece->shares, set, (g - piece->start) / mixture->block);
}

uint32_t mixture_shown(const struct mixture *mixture, uint64_t epoch, uint64_t position,
                       uint64_t ret[MIXTURE_SETS_MAX])
{
    const struct mixture *m = mixture;
    uint64_t g = epoch * m->positions + position;

    if (is_single(m))
        return 0;
    for (uint32_t i = 0; i < m->num_sets; i++)
        ret[i] = mixture_before(m, i, g - g % m->block);
    return m->num_sets;
}

uint32_t mixture_count(const struct mixture *mixture, uint64_t g, uint64_t ret[MIXTURE_SETS_MAX])
{
    const struct mixture *m = mixture;

    if (is_single(m))
        return 0;
    for (uint32_t i = 0; i < m->num_sets; i++)
        ret[i] = mixture_before(m, i, g - g % m->block);
    for (uint64_t at = g - g % m->block; at < g; at++)
        ret[mixture_locate(m, at).set]++;
    return m->num_sets;
}

uint64_t mixture_find(const struct mixture *mixture, const struct mixture_turn *turn)
{
    const struct mixture *m = mixture;
    uint32_t i = turn->set, j = m->num_pieces - 1, x;
    const struct piece *piece;
    uint64_t t, b, block;

    while (m->pieces[j].told[i] > turn->t)
        j--;
    piece = &m->pieces[j];
    if (piece->shares.edges[i] == piece->shares.edges[i + 1])
        return UINT64_MAX;
    t = turn->t - piece->told[i];
    b = shares_block(&piece->shares, i, t);
    x = shares_edge(&piece->shares, i, b) + (uint32_t)(t - shares_before(&piece->shares, i, b));
    block = piece->start / m->block + b;
    return block * m->block + order_unpermute(m->seed, (uint32_t)(block >> 32), DRAW_PLACES,
                                              (uint32_t)block, m->block, x);
}

uint64_t mixture_pass_start(const struct mixture *mixture, uint32_t set, uint64_t pass)
{
    const struct mixture *m = mixture;
    struct mixture_turn turn = {.set = set, .t = pass * m->samplers[set].table->positions};
    const struct piece *last = &m->pieces[m->num_pieces - 1];
    uint64_t quota = last->shares.edges[set + 1] - last->shares.edges[set], g;

    if (is_single(m))
        return turn.t;
    if (turn.t >= last->told[set] &&
        (quota == 0 || ((unsigned __int128)(turn.t - last->told[set]) << 32) / quota >=
                           (UINT64_C(1) << 62) / m->block)) /* beyond what a run may reach */
        return UINT64_MAX;
    g = mixture_find(m, &turn);
    return g - g % m->block;
}

/* A sampler with its pass and position. */
struct spot {
    uint32_t set, position;
    uint64_t pass;
};

static struct spot spot_at(const struct mixture *m, uint64_t epoch, uint32_t position)
{
    struct mixture_turn turn;
    uint32_t n;

    assert(position < m->positions);
    if (is_single(m))
        return (struct spot){.pass = epoch, .position = position};
    turn = mixture_locate(m, epoch * m->positions + position);
    n = m->samplers[turn.set].table->positions;
    return (struct spot){.set = turn.set, .pass = turn.t / n, .position = (uint32_t)(turn.t % n)};
}

uint32_t mixture_sample(const struct mixture *mixture, uint64_t epoch, uint32_t position)
{
    struct spot at = spot_at(mixture, epoch, position);

    return mixture->first[at.set] + sampler_at(&mixture->samplers[at.set], at.pass, at.position);
}

uint32_t mixture_substitute(const struct mixture *mixture, uint64_t epoch, uint32_t position,
                            const struct philox_block *block)
{
    struct spot at = spot_at(mixture, epoch, position);

    return mixture->first[at.set] +
           sampler_substitute(&mixture->samplers[at.set], at.pass, at.position, block);
}

/* Part of a search: a pass of a set, some of whose positions belong to the epoch. */
struct mixture_finding {
    const struct mixture *mixture;
    uint64_t epoch, pass;
    uint32_t set;
    sampler_found *found;
    void *arg;
};

static void found_in_set(void *arg, uint32_t position)
{
    const struct mixture_finding *f = arg;
    const struct mixture *m = f->mixture;
    struct mixture_turn turn = {.set = f->set,
                                .t = f->pass * m->samplers[f->set].table->positions + position};
    uint64_t g = mixture_find(m, &turn), begin = f->epoch * m->positions;

    if (g >= begin && g - begin < m->positions)
        f->found(f->arg, (uint32_t)(g - begin));
}

void mixture_find_sample(const struct mixture *mixture, uint64_t epoch, uint32_t sample,
                         sampler_found *found, void *arg)
{
    const struct mixture *m = mixture;
    struct mixture_finding f = {.mixture = m, .epoch = epoch, .found = found, .arg = arg};
    uint64_t begin, end, n;

    if (is_single(m)) {
        sampler_find(&m->samplers[0], epoch, sample, found, arg);
        return;
    }
    while (f.set + 1 < m->num_sets && m->first[f.set + 1] <= sample)
        f.set++;
    n = m->samplers[f.set].table->positions;
    begin = epoch * m->positions / m->block * m->block;
    end = (epoch + 1) * m->positions + m->block - 1;
    begin = mixture_before(m, f.set, begin);
    end = mixture_before(m, f.set, end / m->block * m->block);
    for (f.pass = begin / n; f.pass * n < end; f.pass++)
        sampler_find(&m->samplers[f.set], f.pass, sample - m->first[f.set], found_in_set, &f);
}

uint32_t mixture_epoch(const struct mixture_parts *parts, uint32_t named, uint64_t seed,
                       uint32_t *ret_set)
{
    const struct mixture_piece *piece = &parts->pieces[0];
    uint64_t edges[MIXTURE_SETS_MAX + 1], most = 0;
    struct shares shares = {.parts = parts->num_sets,
                            .shift = philox_draw(seed, 0, 0, DRAW_PHASE, 0).word[0],
                            .edges = edges};

    shares_fill(edges, parts->block, piece->weights, parts->num_sets);
    for (uint32_t i = 0; i < parts->num_sets; i++) {
        uint64_t blocks;

        if (named == UINT32_MAX ? piece->weights[i] == 0 : i != named)
            continue;
        blocks = shares_block(&shares, i, parts->sets[i].table->positions - (uint64_t)1) + 1;
        if (blocks > (UINT32_MAX - 1) / parts->block) {
            *ret_set = i;
            return 0;
        }
        most = max_u64(most, blocks * parts->block);
    }
    assert(most > 0);
    return (uint32_t)most;
}
