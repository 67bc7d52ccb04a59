/* SPDX-License-Identifier: MIT */
/* jpeg_pixels.h - the loops of our JPEG decoder that turn coefficients into pixels, one set for
 * each kind of processor.
 *
 * All sets produce the same bytes as libjpeg-turbo 2.1.5 with its vector instructions, even for
 * coefficients far beyond those that an encoder produces from pixels: the sums of libjpeg-turbo are
 * then modulo 2^16 in some places and clamped to 16 bits in others, and so are those of all sets
 * here. */
#ifndef LOADER_IMAGE_JPEG_PIXELS_H
#define LOADER_IMAGE_JPEG_PIXELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/image/jpeg/jpeg_huff.h"

enum {
    /* Coefficients per block: 64, and room at index 64, which means no coefficient. */
    JPEG_COEF_ROOM = 80,
    JPEG_PAD = 64, /* bytes that loops may read and write after a row's end */
};

/** A block to transform. */
struct jpeg_block {
    const int16_t *coef;  /* [64], natural order; 32-byte aligned */
    const int16_t *quant; /* [64] */
    uint8_t *to;          /* 8 rows of 8 samples */
    size_t pitch;
};

struct jpeg_kernels {
    const char *name;
    bool (*usable)(void);
    bool bmi2; /* the entropy decoder may use these instructions */
    jpeg_huff_fill_fn *fill;
    /** Dequantise and transform blocks. */
    void (*idct)(const struct jpeg_block *blocks, uint32_t count);
    /** Double `count` samples horizontally, from in[0] on; in[-1] and in[count] are their outer
     * neighbours. */
    void (*h2v1)(const uint8_t *in, uint32_t count, uint8_t *out);
    /** Double horizontally and vertically: write the row between `near` and `far` that is closer to
     * `near`. */
    void (*h2v2)(const uint8_t *near, const uint8_t *far, uint32_t count, uint8_t *out);
    /** Double vertically; `bias` is 1 for the upper row of the two, 2 for the lower. */
    void (*h1v2)(const uint8_t *near, const uint8_t *far, uint32_t bias, uint32_t count,
                 uint8_t *out);
    /** Convert to pixels of four bytes. */
    void (*ycc)(const uint8_t *const *planes, uint32_t count, uint8_t *out);
    void (*rgb)(const uint8_t *const *planes, uint32_t count, uint8_t *out);
    void (*grey)(const uint8_t *const *planes, uint32_t count, uint8_t *out);
};

/** Best first; the last one is usable everywhere. Ends with NULL. */
extern const struct jpeg_kernels *const jpeg_kernels[];

extern const struct jpeg_kernels jpeg_portable;
#ifdef __x86_64__
extern const struct jpeg_kernels jpeg_avx2;
#endif
#ifdef __aarch64__
extern const struct jpeg_kernels jpeg_neon;
#endif

/** Returns round(a * b / 255), as Pillow computes it. */
static inline uint8_t jpeg_times_255th(uint32_t a, uint32_t b)
{
    uint16_t t = (uint16_t)(a * b + 128);

    return (uint8_t)((uint16_t)((t >> 8) + t) >> 8);
}

/** Transform a block in which only the first row of coefficients is not zero: all its rows are
 * equal. */
void jpeg_idct_row(const struct jpeg_block *block);

#endif
