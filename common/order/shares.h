/* SPDX-License-Identifier: MIT */
/* shares.h - how the parts of a mixture share the places of a block, exactly and without state.
 *
 * Blocks of K places are numbered b = 0, 1, 2 ... Part i gets the floor or the ceiling of its quota
 * K w_i / W in each block, and in each group of 2^k blocks that begins at a multiple of 2^k. So
 * over b blocks it is less than popcount(b) places away from b K w_i / W. docs/order.md, section 8,
 * has the formulas. */
#ifndef COMMON_SHARES_H
#define COMMON_SHARES_H

#include <stdint.h>

/** The shares of some parts. Plain data; `edges` is borrowed. Threads: any. */
struct shares {
    uint32_t parts;
    uint32_t shift;        /* drawn once from the seed */
    const uint64_t *edges; /* [parts + 1], by shares_fill() */
};

/** Compute edges [parts + 1] for blocks of `places` places. The sum of the weights is 1 to
 *  2^32 - 1; NULL: they are equal. */
void shares_fill(uint64_t *edges, uint32_t places, const uint32_t *weights, uint32_t parts);

/** Returns the phase of block b: van der Corput's sequence in base 2, shifted. */
uint32_t shares_phase(uint64_t b, uint32_t shift);

/** Returns the places of parts 0 ... i - 1 in block b. */
uint32_t shares_edge(const struct shares *shares, uint32_t i, uint64_t b);

/** Returns the places of part i in blocks 0 ... b - 1, in constant time. */
uint64_t shares_before(const struct shares *shares, uint32_t i, uint64_t b);

/** Returns the part that has place x of block b, 0 <= x < K. */
uint32_t shares_part(const struct shares *shares, uint64_t b, uint32_t x);

/** Returns the block in which part i has its t-th place (from 0), which must exist. */
uint64_t shares_block(const struct shares *shares, uint32_t i, uint64_t t);

#endif
