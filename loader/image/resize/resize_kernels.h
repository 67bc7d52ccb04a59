/* SPDX-License-Identifier: MIT */
/* resize_kernels.h - the loops of the resize, one set for each kind of processor.
 *
 * Source rows are processed two at a time: `across` turns them into a *pair*, two narrow rows in
 * whatever order suits the set; `down` combines some pairs into one output row and stores it. So a
 * set may keep the levels of both rows side by side, which suits instructions that multiply and add
 * pairs. */
#ifndef LOADER_IMAGE_RESIZE_KERNELS_H
#define LOADER_IMAGE_RESIZE_KERNELS_H

#include "loader/image/resize/resize.h"

/** The fraction bits of a coefficient, and one half for rounding. */
enum { RESIZE_BITS = 14, RESIZE_HALF = 1 << (RESIZE_BITS - 1) };

/** One axis: output i is the sum of taps[i] source pixels, starting at first[i], times coef. */
struct resize_axis {
    uint32_t count;      /* outputs */
    uint32_t stride;     /* coefficients reserved per output: at least all of taps[] */
    uint32_t begin, end; /* source pixels with any weight; first[] counts from `begin` */
    uint32_t *first;     /* [count] */
    uint32_t *taps;      /* [count], 1 ... stride */
    int16_t *coef;       /* [count][stride], taps[i] of these are set, and sum up to 2^14 */
    bool negative;       /* some coefficients are below 0, so sums must be clamped to 0 ... 255 */
    uint32_t pixel;      /* bytes of a source pixel: 4, or 3 if the set supports that */
};

/** How a row of output pixels is laid out. */
struct resize_store {
    bool planes;  /* NCHW */
    bool fourth;  /* there is a channel for the zero point */
    uint8_t zero; /* the zero point */
    uint8_t flip; /* XORed with each of the other bytes at the end */
    size_t plane; /* distance of the planes in bytes */
    size_t pitch; /* distance of the rows in bytes (within a plane) */
};

/** One output row for `down`. */
struct resize_line {
    const void *const *pairs; /* [count of pairs] written by `across` */
    const int16_t *coef; /* [count of pairs][2]: for the first row of a pair, and for the second */
    uint32_t pairs_count;
    uint32_t width; /* outputs */
    const struct resize_store *store;
    uint8_t *out;
};

struct resize_kernels {
    const char *name;
    bool takes_rgb; /* `across` takes pixels of three bytes; otherwise a fourth byte is added */
    bool (*usable)(void); /* on this processor */
    /** Returns whether the set can process this sample. If not, the portable set does. */
    bool (*suits)(const struct resize_axis *across, const struct resize_axis *down);
    /** Returns the bytes of the set's own form of the horizontal table. */
    size_t (*table_bytes)(const struct resize_axis *across);
    /** Returns the bytes of a pair. */
    size_t (*pair_bytes)(uint32_t width);
    void (*prepare)(const struct resize_axis *across, void *table);
    /** Process two rows of axis->end - axis->begin pixels of axis->pixel bytes. With three bytes,
     * RESIZE_BEHIND bytes after a row may be read. */
    void (*across)(const struct resize_axis *axis, const void *table, const uint8_t *row,
                   const uint8_t *next, void *pair);
    void (*down)(const struct resize_line *line);
};

/** Store `count` pixels of 4 bytes, starting at output `at` of the row, XORed with the flip and
 * with the fourth byte set. */
void resize_store_pixels(const struct resize_line *line, size_t at, size_t count,
                         const uint8_t *pixels);

extern const struct resize_kernels resize_portable;
#ifdef __x86_64__
extern const struct resize_kernels resize_avx2;
#endif
#ifdef __aarch64__
extern const struct resize_kernels resize_neon;
#endif

#endif
