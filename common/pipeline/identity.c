/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "common/pipeline/identity.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

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
