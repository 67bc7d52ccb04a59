/* SPDX-License-Identifier: MIT */
/* augment_loops.h - the loops of the operations, one set for each kind of processor.
 *
 * A window is three planes of bytes. Loops that are simple enough for compilers to vectorise have
 * one source, augment_loops.inc, which is compiled once for each set. */
#ifndef LOADER_IMAGE_AUGMENT_LOOPS_H
#define LOADER_IMAGE_AUGMENT_LOOPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/pipeline/pipeline.h"
#include "loader/image/ops/affine.h"

/** Fraction bits of a factor. */
enum { AUGMENT_BITS = 14 };

/** Fraction bits of a gain of saturation or value. */
enum { AUGMENT_GAIN_BITS = 10 };

/** An operation that changes each pixel by a rule that depends only on that pixel and the step's
 * number. One of the two functions is set; neither, for an operation of another kind. */
struct augment_pointwise {
    void (*levels)(uint8_t *v, size_t n, uint32_t number); /* process one channel */
    /** Process n pixels, whose planes are `plane` bytes apart. */
    void (*pixels)(uint8_t *planes, size_t plane, size_t n, uint32_t number);
};

struct augment_loops {
    const char *name;
    const struct affine_loops *affine;
    struct augment_pointwise pointwise[PIPELINE_OPS];
    /** Replace each value v with level + factor * (v - level). */
    void (*blend_level)(uint8_t *v, size_t n, uint32_t level, uint32_t factor);
    /** Returns the sum of the grey levels of n < 2^24 pixels. */
    uint32_t (*sum_gray)(const uint8_t *planes, size_t plane, size_t n);
    /** Find the smallest and the largest of n > 0 values. */
    void (*find_range)(const uint8_t *v, size_t n, uint8_t *low, uint8_t *high);
    /** Write hashed words of noise: `key`, `key` + `step` and so on. `reversed`: write all bytes in
     * reverse order. */
    void (*noise)(uint32_t *to, size_t n, uint32_t key, uint32_t step, bool reversed);
    /** Blend one plane with its smoothed version (Pillow's SMOOTH). */
    void (*sharpen)(const uint8_t *from, uint8_t *to, size_t width, size_t height, uint32_t factor);
    void (*table)(uint8_t *v, size_t n, const uint8_t *table);
    /** Add up `count` windows of n bytes, stored one after the other, with weights times 2^16 that
     * sum to 2^16. */
    void (*sum_windows)(const uint8_t *from, size_t n, const uint32_t *weights, uint32_t count,
                        uint8_t *to);
    /** Store a row of planes, `plane` bytes apart, as pixels of `channels` bytes. */
    void (*store_pixels)(const uint8_t *from, size_t plane, size_t n, uint32_t channels,
                         uint8_t flip, uint8_t zero, uint8_t *to);
    void (*store_bytes)(const uint8_t *from, size_t n, uint8_t flip, uint8_t *to);
    /** These store like the two above, but past the caches: for whole images that this processor
     * does not read soon. */
    void (*stream_pixels)(const uint8_t *from, size_t plane, size_t n, uint32_t channels,
                          uint8_t flip, uint8_t zero, uint8_t *to);
    void (*stream_bytes)(const uint8_t *from, size_t n, uint8_t flip, uint8_t *to);
    /** Compute one * share + other * (1 - share) of bytes that were XORed with `flip`; `share`,
     * times 2^15, is below 1. */
    void (*mix)(const uint8_t *one, const uint8_t *other, size_t n, uint32_t share, uint8_t flip,
                uint8_t *to);
};

extern const struct augment_loops augment_portable;
#ifdef __x86_64__
extern const struct augment_loops augment_avx2;
#endif

#endif
