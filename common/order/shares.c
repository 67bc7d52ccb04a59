/* SPDX-License-Identifier: MIT */
/* shares.c - shares of a block by a common phase.
 *
 * The edges of all parts in a block are moved by the same phase U_b and then rounded down. If two
 * numbers with distance q are moved together, their distance after rounding is floor(q) or ceil(q),
 * so each part gets one of the two. U_b is the bit-reversed block number. In an aligned group of
 * 2^k blocks, the phases are at equal distances on the circle of 2^32, so the sum over the group is
 * also rounded down or up.
 *
 * tests/common/order/test_shares_small.c compiles this file with phases of 8 bits and tries all of
 * them. */
#include "config.h"

#include "common/order/shares.h"

#include <assert.h>

#ifndef SHARES_BITS
#define SHARES_BITS 32
#endif

static const uint32_t phase_mask = (uint32_t)((UINT64_C(1) << SHARES_BITS) - 1);

/* Returns the lowest `bits` bits of x, reversed. */
static uint32_t reverse(uint32_t x, unsigned bits)
{
    x = (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
    x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
    x = (x >> 4 & 0x0F0F0F0F) | (x & 0x0F0F0F0F) << 4;
    return __builtin_bswap32(x) >> (32 - bits);
}

void shares_fill(uint64_t *edges, uint32_t places, const uint32_t *weights, uint32_t parts)
{
    uint64_t all = 0, sum = 0;

    for (uint32_t i = 0; i < parts; i++)
        all += weights ? weights[i] : 1;
    assert(all > 0 && all <= UINT32_MAX && places > 0);
    edges[0] = 0;
    for (uint32_t i = 0; i < parts; i++) {
        sum += weights ? weights[i] : 1;
        edges[i + 1] = (uint64_t)((((unsigned __int128)places * sum) << SHARES_BITS) / all);
    }
    assert(edges[parts] == (uint64_t)places << SHARES_BITS);
}

uint32_t shares_phase(uint64_t b, uint32_t shift)
{
    return reverse((uint32_t)b & phase_mask, SHARES_BITS) ^ (shift & phase_mask);
}

static uint64_t edge_at(uint64_t edge, uint32_t phase)
{
    return (edge + phase) >> SHARES_BITS;
}

uint32_t shares_edge(const struct shares *shares, uint32_t i, uint64_t b)
{
    assert(i <= shares->parts);
    return (uint32_t)edge_at(shares->edges[i], shares_phase(b, shares->shift));
}

/* Returns how many of the phases of blocks 0 ... b - 1 are at least 2^32 - f: the sum over the
 * dyadic intervals that [0, f) consists of, one for each bit of f that is 1. */
static uint64_t count_high(uint64_t b, uint32_t f, uint32_t shift)
{
    uint32_t mask = ~shift & phase_mask;
    uint64_t total = 0;

    for (uint32_t left = f; left > 0; left &= left - 1) {
        unsigned zeros = (unsigned)__builtin_ctz(left), j = SHARES_BITS - zeros;
        uint32_t top = left & (left - 1); /* the bits of f above this one */
        uint32_t low = reverse((top ^ mask) >> zeros, j);

        total += (b + (UINT64_C(1) << j) - 1 - low) >> j;
    }
    return total;
}

static uint64_t edges_before(const struct shares *shares, uint32_t i, uint64_t b)
{
    uint64_t edge = shares->edges[i];

    return b * (edge >> SHARES_BITS) + count_high(b, (uint32_t)edge & phase_mask, shares->shift);
}

uint64_t shares_before(const struct shares *shares, uint32_t i, uint64_t b)
{
    assert(i < shares->parts);
    return edges_before(shares, i + 1, b) - edges_before(shares, i, b);
}

uint32_t shares_part(const struct shares *shares, uint64_t b, uint32_t x)
{
    uint32_t phase = shares_phase(b, shares->shift), low = 0, high = shares->parts - 1;

    while (low < high) { /* edges never fall */
        uint32_t middle = low + (high - low) / 2;

        if (edge_at(shares->edges[middle + 1], phase) > x)
            high = middle;
        else
            low = middle + 1;
    }
    assert(edge_at(shares->edges[low], phase) <= x && x < edge_at(shares->edges[low + 1], phase));
    return low;
}

uint64_t shares_block(const struct shares *shares, uint32_t i, uint64_t t)
{
    uint64_t low = 0, high = 1;

    assert(shares->edges[i + 1] > shares->edges[i]);
    while (shares_before(shares, i, high) <= t)
        high *= 2;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;

        if (shares_before(shares, i, middle) <= t)
            low = middle;
        else
            high = middle;
    }
    return low;
}
