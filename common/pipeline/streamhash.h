/* SPDX-License-Identifier: MIT */
/* streamhash.h - the hash by which two streams are compared.
 *
 * The hash of a sample is XXH3-64 over u64 epoch, u64 position and i64 label (little-endian); i64
 * second label and f32 weight if the pipeline mixes; the pixels of all images as u8 RGB NHWC; and
 * u64 length and bytes of each field. The hash of a stream is the sum of the hashes of its valid
 * samples, modulo 2^64. It does not depend on which instance received a sample, or when, and the
 * hashes of parts of a stream add up. */
#ifndef COMMON_STREAMHASH_H
#define COMMON_STREAMHASH_H

#include <stdint.h>

#include <plenum/stream.h>

/** Images of one size that are contiguous in memory. */
struct streamhash_image {
    const void *pixels;
    uint32_t count, width, height;
    uint32_t channels; /* 3, or 4; the fourth does not count */
    enum plenum_dtype dtype;
    enum plenum_layout layout;
};

/** What a mixing pipeline adds to a sample. */
struct streamhash_mix {
    int64_t label2;
    float weight;
};

/** One field of a sample. */
struct streamhash_field {
    const void *bytes;
    uint64_t len;
};

/** One sample of a stream. */
struct streamhash_sample {
    uint64_t epoch, position;
    int64_t label;
    const struct streamhash_mix *mix; /* NULL: the pipeline does not mix */
    const struct streamhash_image *images;
    uint32_t views;
    const struct streamhash_field *fields;
    uint32_t num_fields;
};

uint64_t streamhash_of(const struct streamhash_sample *sample);

#endif
