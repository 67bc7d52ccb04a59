/* SPDX-License-Identifier: MIT */
/* blur.h - blurs a plane with a Gaussian kernel, in integers: docs/pixels.md, 10. */
#ifndef LOADER_IMAGE_BLUR_H
#define LOADER_IMAGE_BLUR_H

#include <stddef.h>
#include <stdint.h>

#include "common/pipeline/pipeline.h"

enum { BLUR_RADIUS_MAX = PIPELINE_KERNEL_MAX / 2 };

/** One half of a symmetric kernel. The coefficients of the whole kernel add up to 2^14. */
struct blur_kernel {
    uint32_t radius; /* index of the last coefficient that is not 0 */
    int16_t coef[BLUR_RADIUS_MAX + 1];
};

/** Build a kernel of `size` taps (odd). `sigma` has 14 fraction bits, and is at least 2^7. */
void blur_kernel_make(uint32_t size, uint32_t sigma, struct blur_kernel *ret);

struct blur_loops {
    const char *name;
    /** Blur vertically: compute one row of levels, times 2^6, from the 2 radius + 1 rows starting
     * at rows[0]. */
    void (*down)(const struct blur_kernel *kernel, const uint8_t *const *rows, size_t width,
                 int16_t *to);
    /** Blur horizontally: compute one row of levels. `from` begins with `radius` extra levels, and
     * ends with as many. */
    void (*across)(const struct blur_kernel *kernel, const int16_t *from, size_t width,
                   uint8_t *to);
};

extern const struct blur_loops blur_portable;
#ifdef __x86_64__
extern const struct blur_loops blur_avx2;
#endif

/** Returns the loops of this name, or the portable ones. */
const struct blur_loops *blur_loops_find(const char *name);

/** Returns the number of int16 levels that blur_plane() needs for a row. */
static inline size_t blur_row_samples(size_t width)
{
    return width + 2 * (size_t)BLUR_RADIUS_MAX;
}

struct blur_plane {
    const uint8_t *bytes; /* [height][width] */
    size_t width, height;
};

/** Blur a plane into another one. The radius must be smaller than both sides; `row` has room for
 * blur_row_samples(). */
void blur_plane(const struct blur_loops *loops, const struct blur_kernel *kernel,
                const struct blur_plane *from, int16_t *row, uint8_t *to);

#endif
