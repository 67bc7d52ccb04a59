/* SPDX-License-Identifier: MIT */
/* bit_packed.h - decodes Parquet's encodings of small integers, from untrusted bytes.
 *
 * Runs ("RLE / bit-packing hybrid") hold definition levels, indices into dictionaries, and
 * booleans. A run is either one repeated value, or groups of eight packed values. Deltas
 * ("DELTA_BINARY_PACKED") hold integers and lengths, each as its difference from the previous
 * one. */
#ifndef LOADER_DATASET_BIT_PACKED_H
#define LOADER_DATASET_BIT_PACKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Take an unsigned integer with 7 bits per byte, the lowest first, and at most 10 bytes. Returns
 * false if it is longer, or the input has ended. */
bool varint_take(const uint8_t **at, const uint8_t *end, uint64_t *ret);
/** Decode a zigzag integer (0, 1, 2, 3 mean 0, -1, 1, -2) to two's complement. */
static inline uint64_t varint_of_zigzag(uint64_t value)
{
    return value >> 1 ^ (0 - (value & 1));
}

struct runs {
    const uint8_t *at, *end;
    unsigned width; /* bits of a value, at most 32 */
    uint64_t left;  /* values left in the current run */
    uint64_t bit;   /* for packed values: the first bit of the next one, counted from `at` */
    uint32_t value; /* the repeated value */
    bool packed;
};

/** Get the next value. Returns false if the bytes are damaged or have ended. */
bool runs_next(struct runs *runs, uint32_t *ret);

struct deltas {
    const uint8_t *at, *end;
    uint64_t left;         /* values left */
    uint64_t value;        /* the next value */
    uint64_t block, minis; /* values in a block, and miniblocks in it */
    const uint8_t *widths; /* [minis]: bits of each value in the current block */
    uint64_t mini;         /* the current miniblock */
    uint64_t mini_left;    /* values left in the current miniblock */
    uint64_t bit;          /* the first bit of the next value, counted from `at` */
    uint64_t min_delta;
};

/** Read the header, and set `left` to the number of values. Returns false if it is damaged. */
bool deltas_begin(struct deltas *deltas, const uint8_t *bytes, size_t len);
/** Get the next value. Returns false if the bytes are damaged or have ended. */
bool deltas_next(struct deltas *deltas, uint64_t *ret);
/** Returns the address after the last value, once all values have been read. */
const uint8_t *deltas_end(const struct deltas *deltas);

#endif
