/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "common/pipeline/identity.h"

#include <stdbool.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/order/orderplan.h"

/* Normalise options that give the same order for this number of samples. With 0 (unknown), leave
 * them as requested. */
static void canonical(const struct wire_open *open, uint32_t samples, struct order *order,
                      uint32_t *end)
{
    uint32_t n;

    *order = (struct order){.shuffle = open->shuffle,
                            .block = open->shuffle == ORDER_BLOCK ? open->block : 0,
                            .first = open->subset.first,
                            .repeat = open->repeat ? open->repeat : 1};
    *end = open->subset.end;
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

void identity_of(const uint8_t fingerprint[16], uint32_t samples, const struct wire_open *open,
                 uint8_t ret[16])
{
    uint8_t text[96 + WIRE_PIPELINE_MAX];
    uint32_t some[3], words[3], end;
    size_t n = 0, len = strlen(open->pipeline);
    XXH128_canonical_t hash;
    struct order order;

    canonical(open, samples, &order, &end);
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
    XXH128_canonicalFromHash(&hash, XXH3_128bits(text, n));
    memcpy(ret, hash.digest, 16);
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
    XXH3_state_t base, weights, sets;

    (void)XXH3_64bits_reset(&base);
    (void)XXH3_64bits_reset(&weights);
    (void)XXH3_64bits_reset(&sets);
    (void)XXH3_64bits_update(&base, of->open->pipeline, strlen(of->open->pipeline));
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
