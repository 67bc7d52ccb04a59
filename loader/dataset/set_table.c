/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/dataset/set_table.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/util/error_set.h"
#include "common/util/util.h"
#include "loader/dataset/selection.h"
#include "loader/dataset/set_table_kept.h"
#include "loader/dataset/weighing.h"

void set_table_fini(struct set_table *table)
{
    free(table->member);
    free(table->start);
    free(table->guide);
    free(table->sums);
    free(table->columns);
    kept_table_close(&table->kept);
    *table = (struct set_table){0};
}

/* ---- weights ---- */

/* Make the columns for independent draws, which need weights of 32 bits: shares of the largest
 * weight. */
static int make_columns(struct set_table *t, const uint64_t *weights, struct plenum_error *err)
{
    uint32_t n = t->table.n, *small = malloc(n * sizeof(*small));
    uint64_t most = 0;
    int r = -ENOMEM;

    t->columns = malloc(n * sizeof(*t->columns));
    for (uint32_t i = 0; i < n; i++)
        most = max_u64(most, weights[i]);
    for (uint32_t i = 0; small && i < n; i++)
        small[i] =
            (uint32_t)(most <= UINT32_MAX ? weights[i]
                                          : (unsigned __int128)weights[i] * UINT32_MAX / most);
    if (small && t->columns)
        r = sampler_fill_columns(t->columns, small, n);
    free(small);
    t->table.kind = SAMPLER_DRAWN;
    t->table.columns = t->columns;
    return r < 0 ? error_set(err, r, "out of memory") : 0;
}

static int weigh_members(const struct orderplan_set *plan, const struct weighing *of,
                         struct set_table *t, struct plenum_error *err)
{
    uint64_t positions = t->table.n;
    int r;

    t->sums = malloc(t->table.n * sizeof(*t->sums));
    if (!t->sums)
        return error_set(err, -ENOMEM, "out of memory");
    r = weighing_make(of, plan->weights, t->sums, &positions, err);
    if (r < 0)
        return r;
    if (plan->epoch > 0)
        positions = plan->epoch;
    if (positions >= UINT32_MAX)
        return error_set(err, -EINVAL, "an epoch would have %llu positions, more than 2^32 - 2",
                         (unsigned long long)positions);
    t->table.positions = (uint32_t)positions;
    if (plan->drawn) {
        r = make_columns(t, t->sums, err);
        free(t->sums);
        t->sums = NULL;
        return r;
    }
    for (uint32_t i = 1; i < t->table.n; i++)
        t->sums[i] += t->sums[i - 1];
    t->table.kind = SAMPLER_QUOTA;
    t->table.sums = t->sums;
    t->guide = sampler_make_guide(&t->table); /* without a guide, the search takes longer */
    return 0;
}

static int select_members(const struct set_table_source *source, struct set_table *t, uint32_t *n,
                          struct plenum_error *err)
{
    struct selection chosen;
    int r = selection_make(source->dataset, source->plan->select, source->options, &chosen, err);

    if (r < 0)
        return r;
    t->member = chosen.sample;
    *n = chosen.count;
    if (source->warn && (chosen.absent > 0 || chosen.scarce > 0))
        source->warn(source->arg, source->plan, &chosen);
    return 0;
}

/* Leave out the samples of classes that have no new class. */
static int leave_out(const struct set_table_source *source, struct set_table *t, uint32_t *n,
                     struct plenum_error *err)
{
    uint32_t *left = t->member, count = 0;

    if (!source->relabel || relabel_left_out(source->relabel) == 0)
        return 0;
    if (!left)
        left = malloc((*n + (size_t)1) * sizeof(*left));
    if (!left)
        return error_set(err, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < *n; i++) {
        uint32_t sample = t->member ? t->member[i] : i;

        if (relabel_get_label(source->relabel, source->dataset, sample) >= 0)
            left[count++] = sample;
    }
    t->member = left;
    *n = count;
    return 0;
}

void set_table_set_plain(struct set_table *table, const struct orderplan_set *plan)
{
    struct sampler_table *t = &table->table;

    t->plain = (struct order){
        .n = t->n, .shuffle = plan->shuffle, .block = plan->block, .repeat = plan->repeat};
}

static int refuse_empty(const struct orderplan_set *plan, struct plenum_error *err)
{
    if (plan->select && plan->relabel)
        return error_set(err, -EINVAL, "no sample is left after select and relabel");
    return plan->relabel ? error_set(err, -EINVAL, "no sample is left after relabel")
                         : error_set(err, -EINVAL, "no sample is left after select");
}

static int make_table(const struct set_table_source *source, struct set_table *ret,
                      struct plenum_error *err)
{
    const struct orderplan_set *plan = source->plan;
    struct set_table *t = ret;
    struct weighing of = {
        .dataset = source->dataset, .relabel = source->relabel, .options = source->options};
    uint32_t n = dataset_get_samples(source->dataset);
    int r = 0;

    *t = (struct set_table){.table = {.kind = SAMPLER_PLAIN}};
    if (plan->select)
        r = select_members(source, t, &n, err);
    if (r == 0)
        r = leave_out(source, t, &n, err);
    if (r < 0)
        return r;
    if (n == 0)
        return refuse_empty(plan, err);
    t->table.member = of.member = t->member;
    t->table.n = of.n = n;
    t->table.plain = (struct order){.shuffle = plan->shuffle, .block = plan->block};
    r = order_init(&t->table.plain, n, &(struct order_subset){0}, plan->repeat, err);
    if (r < 0)
        return r;
    t->table.positions = order_positions(&t->table.plain);
    return plan->weights ? weigh_members(plan, &of, t, err) : 0;
}

int set_table_make(const struct set_table_source *source, struct set_table *ret,
                   struct plenum_error *err)
{
    return set_table_is_kept(source) ? set_table_open_kept(source, make_table, ret, err)
                                     : make_table(source, ret, err);
}

int set_table_reweigh(const struct set_table_source *source, const struct set_table *base,
                      const char *rule, struct set_table *ret, struct plenum_error *err)
{
    struct orderplan_set plan = *source->plan;
    struct weighing of = {.dataset = source->dataset,
                          .member = base->table.member,
                          .n = base->table.n,
                          .relabel = source->relabel,
                          .options = source->options};
    int r;

    plan.weights = (char *)rule;
    *ret = (struct set_table){.table = {.member = base->table.member, .n = base->table.n}};
    r = weigh_members(&plan, &of, ret, err);
    if (r < 0)
        return r;
    return ret->table.positions != base->table.positions
               ? error_set(err, -EINVAL,
                           "a pass with weights=%s would have %u positions, and earlier ones have "
                           "%u: all passes need the same number, which epoch= can set",
                           rule, ret->table.positions, base->table.positions)
               : 0;
}

/* ---- classes ---- */

/* Sort the members by class, and leave out classes without members. */
static int sort_members(const struct set_table_joined *joined, struct set_table *t,
                        struct plenum_error *err)
{
    size_t *at = calloc(joined->classes + (size_t)1, sizeof(*at));
    uint32_t *sorted = malloc(joined->n * sizeof(*sorted)), classes = 0;

    t->start = malloc((joined->classes + (size_t)1) * sizeof(*t->start));
    if (!at || !sorted || !t->start) {
        free(at);
        free(sorted);
        return error_set(err, -ENOMEM, "out of memory");
    }
    for (uint32_t i = 0; i < joined->n; i++)
        at[joined->class_of(joined->arg, joined->member[i]) + 1]++;
    t->start[0] = 0;
    for (uint32_t c = 0; c < joined->classes; c++) {
        if (at[c + 1] > 0)
            t->start[classes + 1] = t->start[classes] + (uint32_t)at[c + 1];
        classes += at[c + 1] > 0;
        at[c + 1] += at[c];
    }
    for (uint32_t i = 0; i < joined->n; i++)
        sorted[at[joined->class_of(joined->arg, joined->member[i])]++] = joined->member[i];
    assert(classes > 0 && t->start[classes] == joined->n);
    free(t->member);
    free(at);
    t->member = sorted;
    t->table.member = sorted;
    t->table.start = t->start;
    t->table.classes = classes;
    return 0;
}

/* Set the number of classes per block: the requested number, or all of them. If a block is too
 * small for all, it has one sample of each of as many classes as fit. */
static int set_balance(const struct orderplan *plan, struct sampler_table *t,
                       struct plenum_error *err)
{
    uint32_t per_block = plan->classes ? plan->classes : plan->block;

    t->positions = plan->epoch > 0 ? plan->epoch : t->n;
    if (plan->classes == 0 && t->classes <= plan->block) {
        t->kind = SAMPLER_BALANCED;
        t->block = plan->block;
        return 0;
    }
    if (per_block > t->classes || (t->classes % per_block != 0 && per_block > t->classes / 3))
        return error_set(err, -EINVAL,
                         "%u classes a batch of %u: classes must be a divisor of them, or at most "
                         "%u",
                         per_block, t->classes, t->classes / 3);
    t->kind = SAMPLER_CLASSES;
    t->per_block = per_block;
    t->each = plan->classes ? plan->each : 1;
    return (uint64_t)t->per_block * t->each >= UINT32_C(1) << 28
               ? error_set(err, -EINVAL, "a block of %u classes and %u samples each is too large",
                           t->per_block, t->each)
               : 0;
}

/* Returns a class that is smaller than what a block shows of it, or UINT32_MAX. */
static uint32_t small_class(const struct sampler_table *t)
{
    for (uint32_t c = 0; t->kind == SAMPLER_CLASSES && c < t->classes; c++)
        if (t->start[c + 1] - t->start[c] < t->each)
            return c;
    return UINT32_MAX;
}

int set_table_join(const struct set_table_joined *joined, struct set_table *ret,
                   uint32_t *ret_small, struct plenum_error *err)
{
    struct set_table *t = ret;
    int r;

    *t = (struct set_table){.member = joined->member};
    t->table =
        (struct sampler_table){.kind = SAMPLER_STRATA, .n = joined->n, .positions = joined->n};
    for (uint32_t i = 0; i < joined->n; i++)
        if (joined->class_of(joined->arg, joined->member[i]) < 0)
            return error_set(err, -EINVAL,
                             "sample %u has no label, which stratify and balance need",
                             joined->member[i]);
    r = sort_members(joined, t, err);
    if (r < 0)
        return r;
    t->table.block = joined->plan->block;
    if (joined->plan->order == ORDERPLAN_BALANCE)
        r = set_balance(joined->plan, &t->table, err);
    *ret_small = r == 0 ? small_class(&t->table) : UINT32_MAX;
    return r;
}

uint64_t set_table_hash(const struct set_table *table)
{
    const struct sampler_table *t = &table->table;
    uint32_t numbers[] = {(uint32_t)t->kind,          t->n,           t->positions,
                          (uint32_t)t->plain.shuffle, t->plain.block, t->plain.repeat};
    XXH3_state_t state;

    (void)XXH3_64bits_reset(&state);
    (void)XXH3_64bits_update(&state, numbers, sizeof(numbers));
    if (t->member)
        (void)XXH3_64bits_update(&state, t->member, t->n * sizeof(*t->member));
    if (t->sums)
        (void)XXH3_64bits_update(&state, t->sums, t->n * sizeof(*t->sums));
    if (t->columns)
        (void)XXH3_64bits_update(&state, t->columns, t->n * sizeof(*t->columns));
    return XXH3_64bits_digest(&state);
}
