/* SPDX-License-Identifier: MIT */
/* datasum.h - a summary of a data set in parts, to report in which part two data sets differ. */
#ifndef COMMON_DATASUM_H
#define COMMON_DATASUM_H

#include <stddef.h>
#include <stdint.h>

enum { DATASUM_SEGMENTS = 64 };

/** Hashes of one segment: the samples [i * N / 64, (i + 1) * N / 64). */
struct datasum_segment {
    uint64_t names, sizes, labels;
};

/** Plain numbers without padding: it is hashed, stored and sent as it is. */
struct datasum {
    uint64_t samples, classes, bytes;
    uint64_t class_names; /* hash; 0 if classes have no names */
    uint64_t heads;       /* hash of the first bytes of some samples */
    uint64_t bad;         /* hash of the list of bad samples; 0: none */
    struct datasum_segment segments[DATASUM_SEGMENTS];
};

/** Returns the first sample of a segment. */
static inline uint32_t datasum_segment_begin(uint64_t samples, unsigned segment)
{
    return (uint32_t)(samples * segment / DATASUM_SEGMENTS);
}

/** Write the fingerprint: XXH3-128 of the sum. It identifies a data set and never seeds random
 * numbers. */
void datasum_fingerprint(const struct datasum *sum, uint8_t ret[16]);

/** Write a fingerprint as 32 hexadecimal digits; returns `ret`. */
char *datasum_hex(const uint8_t fingerprint[16], char ret[33]);

/**
 * Describe the first difference between two sums as a clause, such as "one has 1000 samples, the
 * other 999" or "the names of samples differ, first within samples 16 to 31". Returns `ret`; empty
 * if they are equal.
 */
char *datasum_difference(const struct datasum *a, const struct datasum *b, char *ret, size_t size);

#endif
