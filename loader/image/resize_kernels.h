/* SPDX-License-Identifier: MIT */
/* resize_kernels.h - the loops of the resize, one set for each kind of processor.
 *
 * Source rows are taken two at a time: `across` makes of them a *pair*, two narrow rows in whatever
 * order suits the set; `down` makes of some pairs one output row and stores it. So a set may keep
 * the samples of both rows side by side, as multiply-and-add instructions for pairs want them. */
#ifndef LOADER_IMAGE_RESIZE_KERNELS_H
#define LOADER_IMAGE_RESIZE_KERNELS_H

#include "loader/image/resize.h"

/** The bits behind the point of a coefficient, and its half for rounding. */
enum { RESIZE_BITS = 14, RESIZE_HALF = 1 << (RESIZE_BITS - 1) };

/** One axis: output i is the sum of taps[i] source samples from first[i] on, times coef. */
struct resize_axis {
    uint32_t count;      /* outputs */
    uint32_t stride;     /* coefficients that each output has room for; the largest of taps[] */
    uint32_t begin, end; /* source samples that have any weight; first[] counts from `begin` */
    uint32_t *first;     /* [count] */
    uint32_t *taps;      /* [count], 1 ... stride */
    int16_t *coef;       /* [count][stride], of which taps[i] are set; their sum is 2^14 */
    bool negative;       /* some are below 0: sums may leave 0 ... 255 and must be clamped */
    uint32_t pixel;      /* bytes of a source pixel: 4, or 3 where the set takes these */
};

/** How a row of output pixels is laid out. */
struct resize_store {
    bool planes;  /* NCHW */
    bool fourth;  /* there is a channel of the zero point */
    uint8_t zero; /* the zero point */
    uint8_t flip; /* what each of the other bytes is finally xored with */
    size_t plane; /* bytes from plane to plane */
    size_t pitch; /* from row to row (within a plane) */
};

/** One output row for `down`. */
struct resize_line {
    const void *const *pairs; /* [count of pairs] made by `across` */
    const int16_t *coef;      /* [count of pairs][2]: of the first row of a pair, of the second */
    uint32_t pairs_count;
    uint32_t width; /* outputs */
    const struct resize_store *store;
    uint8_t *out;
};

struct resize_kernels {
    const char *name;
    bool takes_rgb;       /* `across` takes pixels of three bytes; else they are given a fourth */
    bool (*usable)(void); /* on this processor */
    /** Whether the set can do this sample at all; if not, the portable one does. */
    bool (*suits)(const struct resize_axis *across, const struct resize_axis *down);
    /** Bytes of the set's own form of the table across, and of a pair. */
    size_t (*table_bytes)(const struct resize_axis *across);
    size_t (*pair_bytes)(uint32_t width);
    void (*prepare)(const struct resize_axis *across, void *table);
    /** Two rows of axis->end - axis->begin pixels of axis->pixel bytes; of three, RESIZE_BEHIND
     * bytes behind a row may be read. */
    void (*across)(const struct resize_axis *axis, const void *table, const uint8_t *row,
                   const uint8_t *next, void *pair);
    void (*down)(const struct resize_line *line);
};

/** Store `count` pixels of 4 bytes from output `at` of the row on; xors them, and sets the fourth.
 */
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
