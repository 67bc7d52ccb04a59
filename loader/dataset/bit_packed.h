/* SPDX-License-Identifier: MIT */
/* bit_packed.h - Parquet's encodings of small integers, read from untrusted bytes.
 *
 * Runs ("RLE / bit-packing hybrid") hold definition levels, indices into dictionaries and booleans:
 * either one value that is repeated, or groups of eight packed values. Deltas
 * ("DELTA_BINARY_PACKED") hold integers and lengths as differences to the previous one. */
#ifndef LOADER_DATASET_BIT_PACKED_H
#define LOADER_DATASET_BIT_PACKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Take an unsigned integer of 7 bits per byte, the lowest first, at most 10 bytes. False: it is
 * longer, or the bytes have ended. */
bool varint_take(const uint8_t **at, const uint8_t *end, uint64_t *ret);
/** The signed integer, in two's complement, of a zigzag one: 0, -1, 1, -2 ... */
static inline uint64_t varint_of_zigzag(uint64_t value)
{
    return value >> 1 ^ (0 - (value & 1));
}

struct runs {
    const uint8_t *at, *end;
    unsigned width; /* bits of a value, at most 32 */
    uint64_t left;  /* values of the current run */
    uint64_t bit;   /* of packed values: the next one's first bit, counted from `at` */
    uint32_t value; /* that is repeated */
    bool packed;
};

/** The next value; false: the bytes are damaged or have ended. */
bool runs_next(struct runs *runs, uint32_t *ret);

struct deltas {
    const uint8_t *at, *end;
    uint64_t left;         /* values */
    uint64_t value;        /* the next one */
    uint64_t block, minis; /* values in a block, and miniblocks in it */
    const uint8_t *widths; /* [minis]: bits of each value in the current block */
    uint64_t mini;         /* the current miniblock */
    uint64_t mini_left;    /* values in it */
    uint64_t bit;          /* of the next one, counted from `at` */
    uint64_t min_delta;
};

/** Read the head, which has the number of values (`left`). False: it is damaged. */
bool deltas_begin(struct deltas *deltas, const uint8_t *bytes, size_t len);
/** The next value; false: the bytes are damaged or have ended. */
bool deltas_next(struct deltas *deltas, uint64_t *ret);
/** The bytes after the last value, once all have been read. */
const uint8_t *deltas_end(const struct deltas *deltas);

#endif
