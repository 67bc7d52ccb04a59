/* SPDX-License-Identifier: MIT */
/* streamhash.h - the hash by which two streams are compared.
 *
 * Per sample: XXH3-64 over u64 epoch, u64 position, i64 label (little-endian), where the pipeline
 * mixes i64 second label and f32 weight, and the pixels of all images as u8 RGB NHWC. The hash of a
 * stream is the sum of its valid samples' modulo 2^64: it does not depend on who received what, or
 * when, and parts of a stream add up. */
#ifndef COMMON_STREAMHASH_H
#define COMMON_STREAMHASH_H

#include <stdint.h>

#include <plenum/stream.h>

/** How images of one size lie in memory, one behind the other. */
struct streamhash_image {
    const void *pixels;
    uint32_t count, width, height;
    uint32_t channels; /* 3, or 4 of which the last does not count */
    enum plenum_dtype dtype;
    enum plenum_layout layout;
};

/** What a mixing pipeline adds to a sample. */
struct streamhash_mix {
    int64_t label2;
    float weight;
};

/** `mix` is NULL where the pipeline does not mix. `images`: [views]. */
uint64_t streamhash_sample(uint64_t epoch, uint64_t position, int64_t label,
                           const struct streamhash_mix *mix, const struct streamhash_image *images,
                           uint32_t views);

#endif
