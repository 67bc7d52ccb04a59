/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "common/pipeline/identity.h"

#include <stdbool.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/data/datasum.h"
#include "common/order/orderplan.h"
#include "common/pipeline/views.h"

enum { SOURCES_MAX = VIEWS_MAX * FIELD_SOURCE_MAX }; /* of boxes that decide about pixels */

/* Normalise an order of samples up to `end`, so that options with the same effect are equal. With 0
 * samples (unknown), leave them as requested. */
static void canonical(uint32_t samples, struct order *order, uint32_t *end)
{
    uint32_t n;

    if (order->shuffle != ORDER_BLOCK)
        order->block = 0;
    if (order->repeat == 0)
        order->repeat = 1;
    if (samples == 0)
        return;
    n = (*end ? *end : samples) - order->first;
    if (*end == samples)
        *end = 0;
    if (order->block > n / 2) /* one whole block plus the rest is shuffled like a single block */
        order->block = n;
    if (n == 1) {
        order->shuffle = ORDER_NONE;
        order->block = 0;
    }
}

/* Compute the identity of an order of a data set's samples up to `end`. */
static void identity_of_order(const uint8_t fingerprint[16], uint32_t samples,
                              const struct wire_open *open, struct order order, uint32_t end,
                              uint8_t ret[16])
{
    uint8_t text[96 + WIRE_PIPELINE_MAX + SOURCES_MAX];
    uint32_t some[3], words[3];
    size_t n = 0, len = strlen(open->pipeline);
    XXH128_canonical_t hash;

    canonical(samples, &order, &end);
    words[0] = (uint32_t)order.shuffle;
    words[1] = order.block;
    words[2] = (uint32_t)open->last;
    some[0] = order.first;
    some[1] = end;
    some[2] = order.repeat;
    memcpy(text + n, fingerprint, 16);
    n += 16;
    memcpy(text + n, &open->seed, sizeof(open->seed));
    n += sizeof(open->seed);
    memcpy(text + n, words, sizeof(words));
    n += sizeof(words);
    memcpy(text + n, open->pipeline, len);
    n += len;
    if (some[0] > 0 || some[1] > 0 || some[2] > 1) {
        memcpy(text + n, some, sizeof(some));
        n += sizeof(some);
    }
    n += views_boxes_source(open->pipeline, open->fields, (char *)text + n, SOURCES_MAX);
    XXH128_canonicalFromHash(&hash, XXH3_128bits(text, n));
    memcpy(ret, hash.digest, 16);
}

void identity_of(const uint8_t fingerprint[16], uint32_t samples, const struct wire_open *open,
                 uint8_t ret[16])
{
    struct order order = {.shuffle = open->shuffle,
                          .block = open->block,
                          .first = open->subset.first,
                          .repeat = open->repeat};

    identity_of_order(fingerprint, samples, open, order, open->subset.end, ret);
}

/* Returns whether the plan shows the same samples before g as its data set without a plan. */
static bool is_plain(const struct identity_plan *of, uint64_t g)
{
    const struct orderplan *plan = of->plan;
    const struct orderplan_set *set = &plan->sets[0];

    if (!of->sum || of->sum->heads == 0 || plan->num_sets != 1 || plan->order != ORDERPLAN_MIX ||
        plan->labels != ORDERPLAN_NAMES || set->select || set->weights || set->relabel)
        return false;
    for (uint32_t i = 0; i < plan->num_reweighs; i++)
        if (of->reweighs[i].start < g)
            return false;
    return of->positions == (uint64_t)of->sets[0].samples * set->repeat;
}

static void identity_of_plain(const struct identity_plan *of, uint8_t ret[16])
{
    const struct orderplan_set *set = &of->plan->sets[0];
    struct order order = {.shuffle = set->shuffle, .block = set->block, .repeat = set->repeat};
    uint8_t fingerprint[16];

    datasum_fingerprint(of->sum, fingerprint);
    identity_of_order(fingerprint, of->sets[0].samples, of->open, order, 0, ret);
}

/* Hash the weights of the sets that a piece shows. */
static void add_weights(XXH3_state_t *state, const struct orderplan *plan,
                        const struct mixture_piece *piece)
{
    (void)XXH3_64bits_update(state, &piece->start, sizeof(piece->start));
    for (uint32_t i = 0; i < plan->num_sets; i++) {
        if (piece->weights[i] == 0)
            continue;
        (void)XXH3_64bits_update(state, plan->sets[i].name, strlen(plan->sets[i].name) + 1);
        (void)XXH3_64bits_update(state, &piece->weights[i], sizeof(piece->weights[i]));
    }
}

/* Hash the new weights of samples that were shown before g. */
static void add_reweighs(XXH3_state_t *state, const struct identity_plan *of, uint64_t g)
{
    for (uint32_t i = 0; i < of->plan->num_reweighs; i++) {
        const struct orderplan_reweigh *plan = &of->plan->reweighs[i];
        const char *name = of->plan->sets[plan->set].name;

        if (of->reweighs[i].start >= g)
            continue;
        (void)XXH3_64bits_update(state, name, strlen(name) + 1);
        (void)XXH3_64bits_update(state, &plan->pass, sizeof(plan->pass));
        (void)XXH3_64bits_update(state, &of->reweighs[i].hash, sizeof(of->reweighs[i].hash));
    }
}

void identity_of_plan(const struct identity_plan *of, struct order_place place, uint8_t ret[16])
{
    const struct orderplan *plan = of->plan;
    uint64_t g = place.epoch * of->positions + place.position, hash[3];
    uint32_t numbers[] = {of->positions,
                          plan->block,
                          (uint32_t)of->open->last,
                          (uint32_t)plan->labels,
                          (uint32_t)plan->order,
                          plan->classes,
                          plan->each};
    bool shown[MIXTURE_SETS_MAX] = {false};
    char sources[SOURCES_MAX];
    XXH3_state_t base, weights, sets;

    if (is_plain(of, g)) {
        identity_of_plain(of, ret);
        return;
    }
    (void)XXH3_64bits_reset(&base);
    (void)XXH3_64bits_reset(&weights);
    (void)XXH3_64bits_reset(&sets);
    (void)XXH3_64bits_update(&base, of->open->pipeline, strlen(of->open->pipeline));
    (void)XXH3_64bits_update(
        &base, sources,
        views_boxes_source(of->open->pipeline, of->open->fields, sources, sizeof(sources)));
    (void)XXH3_64bits_update(&base, &of->open->seed, sizeof(of->open->seed));
    (void)XXH3_64bits_update(&base, numbers, sizeof(numbers));
    if (plan->num_sets == 1 && plan->order == ORDERPLAN_MIX) /* it has no blocks: see mixture.h */
        (void)XXH3_64bits_update(&base, "single", sizeof("single"));
    for (uint32_t j = 0; j < plan->num_pieces && plan->pieces[j].start < g; j++) {
        add_weights(&weights, plan, &plan->pieces[j]);
        for (uint32_t i = 0; i < plan->num_sets; i++)
            shown[i] = shown[i] || plan->pieces[j].weights[i] > 0;
    }
    for (uint32_t i = 0; i < plan->num_sets; i++) {
        if (!shown[i])
            continue;
        (void)XXH3_64bits_update(&sets, plan->sets[i].name, strlen(plan->sets[i].name) + 1);
        (void)XXH3_64bits_update(&sets, of->sets[i].hash, sizeof(of->sets[i].hash));
    }
    add_reweighs(&sets, of, g);
    hash[0] = XXH3_64bits_digest(&base);
    hash[1] = XXH3_64bits_digest(&weights);
    hash[2] = XXH3_64bits_digest(&sets);
    memcpy(ret, &hash[0], IDENTITY_WEIGHTS_AT);
    memcpy(ret + IDENTITY_WEIGHTS_AT, &hash[1], IDENTITY_SETS_AT - IDENTITY_WEIGHTS_AT);
    memcpy(ret + IDENTITY_SETS_AT, &hash[2], 16 - IDENTITY_SETS_AT);
}
