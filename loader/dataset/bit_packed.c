/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/dataset/bit_packed.h"

#include <assert.h>

enum { BLOCK_MAX = 1 << 20 }; /* values in a block; writers use 128 or 256 */

bool varint_take(const uint8_t **at, const uint8_t *end, uint64_t *ret)
{
    *ret = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t byte;

        if (*at == end)
            return false;
        byte = *(*at)++;
        *ret |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

/* Get `width` bits starting at this bit, the lowest first. Returns false if some are missing. */
static bool get_bits(const uint8_t *at, const uint8_t *end, uint64_t bit, unsigned width,
                     uint64_t *ret)
{
    uint64_t value = 0;

    assert(width <= 64);
    if (bit + width > (uint64_t)(end - at) * 8)
        return false;
    for (unsigned have = 0; have < width;) {
        unsigned skip = (unsigned)((bit + have) % 8);
        unsigned take = width - have < 8 - skip ? width - have : 8 - skip;
        uint64_t part = (unsigned)at[(bit + have) / 8] >> skip & ((1U << take) - 1);

        value |= part << have;
        have += take;
    }
    *ret = value;
    return true;
}

/* ---- runs ---- */

static bool begin_run(struct runs *r)
{
    uint64_t head, value;

    if (r->packed) /* skip the run that has ended, which is padded to whole groups */
        r->at += (r->bit + 7) / 8;
    r->packed = false;
    r->bit = 0;
    if (!varint_take(&r->at, r->end, &head))
        return false;
    r->left = head >> 1;
    if (head & 1) {
        if (r->left > (UINT64_MAX >> 9) / (r->width + 1))
            return false;
        r->left *= 8;
        r->packed = true;
        return true;
    }
    if (!get_bits(r->at, r->end, 0, (r->width + 7) / 8 * 8, &value))
        return false;
    r->at += (r->width + 7) / 8;
    r->value = (uint32_t)value;
    return true;
}

bool runs_next(struct runs *r, uint32_t *ret)
{
    uint64_t value;

    assert(r->width <= 32 && r->at <= r->end);
    while (r->left == 0)
        if (!begin_run(r))
            return false;
    r->left--;
    *ret = r->value;
    if (!r->packed)
        return true;
    if (!get_bits(r->at, r->end, r->bit, r->width, &value))
        return false;
    r->bit += r->width;
    *ret = (uint32_t)value;
    return true;
}

/* ---- deltas ---- */

bool deltas_begin(struct deltas *d, const uint8_t *bytes, size_t len)
{
    uint64_t first = 0;

    *d = (struct deltas){.at = bytes, .end = bytes + len};
    if (!varint_take(&d->at, d->end, &d->block) || !varint_take(&d->at, d->end, &d->minis) ||
        !varint_take(&d->at, d->end, &d->left) || !varint_take(&d->at, d->end, &first))
        return false;
    d->value = varint_of_zigzag(first);
    d->mini = d->minis;
    return d->block > 0 && d->block <= BLOCK_MAX && d->minis > 0 && d->block % d->minis == 0 &&
           d->block / d->minis % 8 == 0;
}

static bool begin_block(struct deltas *d)
{
    uint64_t delta;

    if (!varint_take(&d->at, d->end, &delta) || (uint64_t)(d->end - d->at) < d->minis)
        return false;
    d->min_delta = varint_of_zigzag(delta);
    d->widths = d->at;
    d->at += d->minis;
    d->mini = 0;
    return true;
}

/* Begin the next miniblock. In the last block, the last miniblocks may have no bytes. */
static bool begin_mini(struct deltas *d)
{
    if (d->widths) {
        d->at += (d->bit + 7) / 8;
        d->mini++;
    }
    d->bit = 0;
    if (d->mini >= d->minis && !begin_block(d))
        return false;
    d->mini_left = d->block / d->minis;
    return d->widths[d->mini] <= 64;
}

bool deltas_next(struct deltas *d, uint64_t *ret)
{
    uint64_t delta;

    if (d->left == 0)
        return false;
    *ret = d->value;
    if (--d->left == 0)
        return true;
    if (d->mini_left == 0 && !begin_mini(d))
        return false;
    assert(d->mini < d->minis && d->widths);
    if (!get_bits(d->at, d->end, d->bit, d->widths[d->mini], &delta))
        return false;
    d->bit += d->widths[d->mini];
    d->mini_left--;
    d->value += d->min_delta + delta;
    return true;
}

const uint8_t *deltas_end(const struct deltas *d)
{
    uint64_t rest = d->widths ? d->mini_left * d->widths[d->mini] : 0;
    uint64_t bytes = (d->bit + rest + 7) / 8;

    assert(d->left == 0);
    return bytes > (uint64_t)(d->end - d->at) ? d->end : d->at + bytes;
}
