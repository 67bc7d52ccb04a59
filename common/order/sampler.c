/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "common/order/sampler.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/order/philox.h"
#include "common/order/shares.h"
#include "common/util/util.h"

enum { GUIDE_MAX = 1 << 18 };

typedef unsigned __int128 u128;

static uint32_t member_of(const struct sampler_table *t, uint32_t i)
{
    assert(i < t->n);
    return t->member ? t->member[i] : i;
}

/* ---- weights ---- */

/* Returns the member at unit x of a pass: N points at equal distances on the sum of the weights,
 * shifted by the phase of the pass. */
static uint32_t quota_unit(const struct sampler *s, uint64_t pass, uint32_t x)
{
    const struct sampler_table *t = s->table;
    u128 up = (u128)(((uint64_t)x + 1) << 32) - shares_phase(pass, s->shift);
    u128 down = (u128)t->positions << 32;
    uint64_t y = (uint64_t)((up * t->sums[t->n - 1] + down - 1) / down);
    uint32_t low = 0, high = t->n - 1;

    if (t->guide) {
        low = t->guide[(y - 1) >> t->guide_shift];
        high = t->guide[((y - 1) >> t->guide_shift) + 1];
    }
    while (low < high) { /* the first member whose sum is at least y */
        uint32_t middle = low + (high - low) / 2;

        if (t->sums[middle] >= y)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static uint32_t drawn(const struct sampler_table *t, const struct philox_block *block)
{
    uint32_t i = philox_below(block->word[0], t->n);

    return block->word[1] < t->columns[i].threshold ? i : t->columns[i].other;
}

/* ---- classes ---- */

/* Returns the class that has place y of the sorted members. */
static uint32_t class_of(const struct sampler_table *t, uint32_t y)
{
    uint32_t low = 0, high = t->classes - 1;

    while (low < high) {
        uint32_t middle = low + (high - low + 1) / 2;

        if (t->start[middle] <= y)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static uint32_t class_size(const struct sampler_table *t, uint32_t c)
{
    assert(t->start[c] < t->start[c + 1]);
    return t->start[c + 1] - t->start[c];
}

/* Returns the place among the sorted members that a position of a pass shows, before classes are
 * shuffled. Each whole block takes members at equal distances; the last, incomplete block takes the
 * members that the others leave out. */
static uint32_t stratum(const struct sampler *s, uint32_t pass, uint32_t position)
{
    const struct sampler_table *t = s->table;
    uint32_t blocks = t->n / t->block, rest = t->n % t->block, block = position / t->block;
    uint64_t cut = philox_below(philox_draw(s->seed, 0, pass, DRAW_CUT, 0).word[0], t->n);
    uint32_t len = block < blocks ? t->block : rest;
    uint64_t j = order_permute(s->seed, pass, DRAW_PLACES, block, len, position % t->block);
    uint64_t whole = t->n - rest, k;

    if (block >= blocks)
        return (uint32_t)(((j + 1) * t->n - cut + rest - 1) / rest - 1);
    k = order_permute(s->seed, pass, DRAW_BLOCKS, 0, blocks, block);
    return (uint32_t)(((u128)(j * blocks + k) * t->n + cut) / whole);
}

/* A sample of a class: the class, and the sample's index in the sequence that the class shows. */
struct sampler_turn {
    uint32_t class;
    uint64_t number;
};

static uint32_t class_place(const struct sampler *s, uint64_t epoch, uint32_t place)
{
    return order_permute(s->seed, (uint32_t)epoch, DRAW_CLASSES, 0, s->table->classes, place);
}

/* Is a class among the last `count` of a class epoch? */
static bool is_late(const struct sampler *s, uint64_t epoch, uint32_t count, uint32_t class)
{
    uint32_t place =
        order_unpermute(s->seed, (uint32_t)epoch, DRAW_CLASSES, 0, s->table->classes, class);

    return place >= s->table->classes - count;
}

/* Returns the class at a place of a class epoch that begins within a block, after `old` slots of
 * the previous epoch. A place that would repeat one of their classes is swapped with the next one
 * that would not. */
static uint32_t class_at_seam(const struct sampler *s, uint64_t epoch, uint32_t old, uint32_t place)
{
    uint32_t per_block = s->table->per_block, fresh = per_block - old, spare = fresh;

    for (uint32_t at = 0; at < fresh; at++) {
        if (!is_late(s, epoch - 1, old, class_place(s, epoch, at))) {
            if (at == place)
                break;
            continue;
        }
        while (is_late(s, epoch - 1, old, class_place(s, epoch, spare)))
            spare++;
        assert(spare < 2 * per_block);
        if (place == at)
            return class_place(s, epoch, spare);
        if (place == spare)
            return class_place(s, epoch, at);
        spare++;
    }
    return class_place(s, epoch, place);
}

/* Returns the class of a class slot; `number` is the class epoch. */
static struct sampler_turn class_slot(const struct sampler *s, uint64_t slot)
{
    const struct sampler_table *t = s->table;
    uint64_t epoch = slot / t->classes;
    uint32_t place = (uint32_t)(slot % t->classes);
    uint32_t old = (uint32_t)(((u128)epoch * t->classes) % t->per_block);

    if (epoch == 0 || old == 0 || place >= 2 * t->per_block)
        return (struct sampler_turn){class_place(s, epoch, place), epoch};
    return (struct sampler_turn){class_at_seam(s, epoch, old, place), epoch};
}

static uint32_t shuffle_block(const struct sampler *s, uint64_t block, uint32_t len, uint32_t slot)
{
    return order_permute(s->seed, (uint32_t)(block >> 32), DRAW_PLACES, (uint32_t)block, len, slot);
}

/* Returns the class of the g-th position of all passes; `number`: which of its samples is shown. */
static struct sampler_turn class_turn(const struct sampler *s, uint64_t g)
{
    const struct sampler_table *t = s->table;
    uint32_t len = t->kind == SAMPLER_CLASSES ? t->per_block * t->each : t->block;
    uint64_t block = g / len;
    uint32_t x = shuffle_block(s, block, len, (uint32_t)(g % len));
    struct shares shares = {.parts = t->classes, .shift = s->shift, .edges = s->edges};
    struct sampler_turn turn;

    if (t->kind == SAMPLER_CLASSES) {
        turn = class_slot(s, block * t->per_block + x / t->each);
        turn.number = turn.number * t->each + x % t->each;
        return turn;
    }
    turn.class = shares_part(&shares, block, x);
    turn.number =
        shares_before(&shares, turn.class, block) + x - shares_edge(&shares, turn.class, block);
    return turn;
}

static uint32_t turn_member(const struct sampler *s, const struct sampler_turn *turn)
{
    uint32_t n = class_size(s->table, turn->class);

    return s->table->start[turn->class] + order_permute(s->seed, (uint32_t)(turn->number / n),
                                                        DRAW_MEMBER, turn->class, n,
                                                        (uint32_t)(turn->number % n));
}

static uint32_t stratum_member(const struct sampler *s, uint32_t pass, uint32_t y)
{
    uint32_t class = class_of(s->table, y), begin = s->table->start[class];

    return begin +
           order_permute(s->seed, pass, DRAW_MEMBER, class, class_size(s->table, class), y - begin);
}

/* ---- all kinds ---- */

int sampler_init(struct sampler *sampler, const struct sampler_table *table, uint64_t seed)
{
    assert(table->n > 0 && table->positions > 0);
    *sampler = (struct sampler){.table = table, .seed = seed};
    /* plain orders and independent draws use no phase */
    sampler->shift =
        philox_draw(seed, 0, 0, DRAW_PHASE, table->kind == SAMPLER_QUOTA || table->num_later > 0)
            .word[0];
    if (table->kind != SAMPLER_BALANCED)
        return 0;
    sampler->edges = malloc(((size_t)table->classes + 1) * sizeof(*sampler->edges));
    if (!sampler->edges)
        return -ENOMEM;
    shares_fill(sampler->edges, table->block, NULL, table->classes);
    return 0;
}

void sampler_fini(struct sampler *sampler)
{
    free(sampler->edges);
    *sampler = (struct sampler){0};
}

static struct sampler_turn turn_at(const struct sampler *s, uint64_t pass, uint32_t position)
{
    return class_turn(s, pass * s->table->positions + position);
}

static uint32_t plain_at(const struct sampler *s, uint32_t pass, uint32_t position)
{
    struct order order = s->table->plain;

    order.seed = s->seed;
    return order_sample(&order, pass, position);
}

const struct sampler_table *sampler_table_at(const struct sampler_table *table, uint64_t pass)
{
    uint32_t i = table->num_later;

    while (i > 0 && table->later[i - 1].pass > pass)
        i--;
    return i > 0 ? table->later[i - 1].table : table;
}

/* Returns the sampler with the table for a pass. */
static struct sampler sampler_for(const struct sampler *s, uint64_t pass)
{
    struct sampler made = *s;

    made.table = sampler_table_at(s->table, pass);
    assert(made.table->positions == s->table->positions);
    return made;
}

uint32_t sampler_at(const struct sampler *sampler, uint64_t pass, uint32_t position)
{
    const struct sampler of_pass = sampler_for(sampler, pass), *s = &of_pass;
    const struct sampler_table *t = s->table;
    uint32_t epoch = (uint32_t)pass, i = 0;
    struct philox_block block;
    struct sampler_turn turn;

    assert(position < t->positions);
    switch (t->kind) {
    case SAMPLER_PLAIN:
        i = plain_at(s, epoch, position);
        break;
    case SAMPLER_QUOTA:
        i = quota_unit(s, pass,
                       order_permute(s->seed, epoch, DRAW_WEIGHT, 0, t->positions, position));
        break;
    case SAMPLER_DRAWN:
        block = philox_draw(s->seed, position, epoch, DRAW_WEIGHT, 0);
        i = drawn(t, &block);
        break;
    case SAMPLER_STRATA:
        i = stratum_member(s, epoch, stratum(s, epoch, position));
        break;
    case SAMPLER_BALANCED:
    case SAMPLER_CLASSES:
        turn = turn_at(s, pass, position);
        i = turn_member(s, &turn);
        break;
    }
    return member_of(t, i);
}

/* Returns the class whose share a position belongs to. */
static uint32_t class_at(const struct sampler *s, uint64_t pass, uint32_t position)
{
    if (s->table->kind == SAMPLER_STRATA)
        return class_of(s->table, stratum(s, (uint32_t)pass, position));
    return turn_at(s, pass, position).class;
}

uint32_t sampler_substitute(const struct sampler *sampler, uint64_t pass, uint32_t position,
                            const struct philox_block *block)
{
    const struct sampler of_pass = sampler_for(sampler, pass), *s = &of_pass;
    const struct sampler_table *t = s->table;
    uint32_t i, class;

    switch (t->kind) {
    case SAMPLER_QUOTA:
        i = quota_unit(s, pass, philox_below(block->word[0], t->positions));
        break;
    case SAMPLER_DRAWN:
        i = drawn(t, block);
        break;
    case SAMPLER_PLAIN:
        i = philox_below(block->word[0], t->n);
        break;
    default:
        class = class_at(s, pass, position);
        i = t->start[class] + philox_below(block->word[0], class_size(t, class));
        break;
    }
    return member_of(t, i);
}

/* ---- the inverse ---- */

/* Returns the place of a sample among ascending members, or UINT32_MAX. */
static uint32_t place_of(const struct sampler_table *t, uint32_t sample)
{
    uint32_t low = 0, high = t->n;

    if (!t->member)
        return sample < t->n ? sample : UINT32_MAX;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (t->member[middle] < sample)
            low = middle + 1;
        else
            high = middle;
    }
    return low < t->n && t->member[low] == sample ? low : UINT32_MAX;
}

/* Returns the first unit of a pass that shows member i or a later one. */
static uint32_t first_unit(const struct sampler *s, uint64_t pass, uint32_t i)
{
    uint32_t low = 0, high = s->table->positions;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (quota_unit(s, pass, middle) < i)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void find_plain(const struct sampler *s, uint32_t pass, uint32_t i, sampler_found *found,
                       void *arg)
{
    const struct order *plain = &s->table->plain;
    uint32_t repeat = plain->repeat ? plain->repeat : 1;

    if (plain->shuffle == ORDER_GLOBAL)
        i = order_unpermute(s->seed, pass, DRAW_ORDER, 0, s->table->n, i);
    for (uint32_t k = 0; k < repeat; k++)
        found(arg, i * repeat + k);
}

void sampler_find(const struct sampler *sampler, uint64_t pass, uint32_t sample,
                  sampler_found *found, void *arg)
{
    const struct sampler of_pass = sampler_for(sampler, pass), *s = &of_pass;
    const struct sampler_table *t = s->table;
    uint32_t i;

    if (t->kind == SAMPLER_QUOTA || (t->kind == SAMPLER_PLAIN && t->plain.shuffle != ORDER_BLOCK)) {
        i = place_of(t, sample);
        if (i == UINT32_MAX)
            return;
        if (t->kind == SAMPLER_PLAIN) {
            find_plain(s, (uint32_t)pass, i, found, arg);
            return;
        }
        for (uint32_t x = first_unit(s, pass, i); x < first_unit(s, pass, i + 1); x++)
            found(arg, order_unpermute(s->seed, (uint32_t)pass, DRAW_WEIGHT, 0, t->positions, x));
        return;
    }
    for (uint32_t p = 0; p < t->positions; p++)
        if (sampler_at(s, pass, p) == sample)
            found(arg, p);
}

/* ---- tables ---- */

/* Two stacks in one array: columns with less than the mean grow from the left, others from the
 * right. */
struct stacks {
    uint32_t *at;
    uint32_t small, large, n;
};

static void push(struct stacks *s, uint32_t i, bool small)
{
    if (small)
        s->at[s->small++] = i;
    else
        s->at[s->n - ++s->large] = i;
}

int sampler_fill_columns(struct sampler_column *columns, const uint32_t *weights, uint32_t n)
{
    u128 *left = malloc(n * sizeof(*left));
    struct stacks s = {.at = malloc(n * sizeof(*s.at)), .n = n};
    uint64_t sum = 0;

    if (!left || !s.at) {
        free(left);
        free(s.at);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < n; i++)
        sum += weights[i];
    assert(sum > 0);
    for (uint32_t i = n; i-- > 0;) { /* the lowest column ends on top of its stack */
        left[i] = (u128)weights[i] * n;
        columns[i] = (struct sampler_column){UINT32_MAX, i};
        push(&s, i, left[i] < sum);
    }
    while (s.small > 0 && s.large > 0) {
        uint32_t low = s.at[--s.small], high = s.at[s.n - s.large];

        columns[low] = (struct sampler_column){(uint32_t)((left[low] << 32) / sum), high};
        left[high] -= sum - left[low];
        if (left[high] < sum) {
            s.large--;
            push(&s, high, true);
        }
    }
    free(left);
    free(s.at);
    return 0;
}

uint32_t sampler_guide_entries(const struct sampler_table *table)
{
    return (uint32_t)(((table->sums[table->n - 1] - 1) >> table->guide_shift) + 2);
}

uint32_t *sampler_make_guide(struct sampler_table *table)
{
    uint64_t sum = table->sums[table->n - 1], most = min_u64(2 * (uint64_t)table->n, GUIDE_MAX);
    uint64_t entries;
    unsigned shift = 0;
    uint32_t *guide, i = 0;

    while ((sum - 1) >> shift >= most)
        shift++;
    table->guide_shift = shift;
    entries = sampler_guide_entries(table);
    guide = malloc(entries * sizeof(*guide));
    for (uint64_t k = 0; guide && k < entries; k++) { /* the member that has unit k << shift */
        while (i + 1 < table->n && table->sums[i] <= k << shift)
            i++;
        guide[k] = i;
    }
    table->guide = guide;
    return guide;
}
