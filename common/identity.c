#include "config.h"

#include "common/identity.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

void identity_of(const uint8_t fingerprint[16], const struct wire_open *open, uint8_t ret[16])
{
    uint8_t text[96 + WIRE_PIPELINE_MAX];
    uint32_t some[3] = {open->subset.first, open->subset.end, open->repeat ? open->repeat : 1};
    uint32_t order[3] = {(uint32_t)open->shuffle, open->shuffle == ORDER_BLOCK ? open->block : 0,
                         (uint32_t)open->last};
    size_t n = 0, len = strlen(open->pipeline);
    XXH128_canonical_t hash;

    memcpy(text + n, fingerprint, 16);
    n += 16;
    memcpy(text + n, &open->seed, sizeof(open->seed));
    n += sizeof(open->seed);
    memcpy(text + n, order, sizeof(order));
    n += sizeof(order);
    memcpy(text + n, open->pipeline, len);
    n += len;
    if (some[0] > 0 || some[1] > 0 || some[2] > 1) {
        memcpy(text + n, some, sizeof(some));
        n += sizeof(some);
    }
    XXH128_canonicalFromHash(&hash, XXH3_128bits(text, n));
    memcpy(ret, hash.digest, 16);
}
