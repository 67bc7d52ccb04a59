/* SPDX-License-Identifier: MIT */
/* blur.c - Gaussian blur: builds the kernel, and applies it to a plane.
 *
 *     rows of bytes --down--> one row times 2^6, its ends mirrored --across--> one row of bytes
 *
 * The kernel is symmetric, so levels are added in pairs before they are multiplied; therefore the
 * row between the passes has only 14 bits. Coefficients of 0 at the kernel's ends are left out. */
#include "config.h"

#include "loader/image/ops/blur.h"

#include <assert.h>
#include <string.h>

#include "common/util/util.h"

/* Returns 2^30 * 2^-(f / 2^32), from the series of exp(-x ln 2). */
static uint64_t exp2_minus(uint32_t f)
{
    static const int64_t series[] = {1073741824, -744261118, 257941248, -59597083,
                                     10327387,   -1431680,   165394,    -16377,
                                     1419,       -109,       8};
    int64_t sum = 0;

    for (size_t k = ARRAY_LEN(series); k-- > 0;)
        sum = series[k] + ((sum * (f >> 8)) >> 24);
    return (uint64_t)sum;
}

void blur_kernel_make(uint32_t size, uint32_t sigma, struct blur_kernel *ret)
{
    /* log2(e) / 2, times 2^60, divided by sigma^2, times 2^28: the exponent of 2 at distance 1. */
    const uint64_t step = UINT64_C(831657068615270156) / ((uint64_t)sigma * sigma);
    uint64_t weight[BLUR_RADIUS_MAX + 1], sum, outside = 0;
    int32_t before = 0;

    for (uint32_t d = 0; d <= size / 2; d++) {
        uint64_t power = d * d * step;

        weight[d] = power >> 32 > 30 ? 0 : exp2_minus((uint32_t)power) >> (power >> 32);
    }
    sum = weight[0];
    for (uint32_t d = 1; d <= size / 2; d++)
        sum += 2 * weight[d];
    ret->radius = 0;
    for (uint32_t d = size / 2; d > 0; d--) { /* round sums, so that errors do not add up */
        int32_t all;

        outside += weight[d];
        all = (int32_t)(((outside << 15) + sum) / (2 * sum));
        ret->coef[d] = (int16_t)(all - before);
        if (ret->radius == 0 && all > 0)
            ret->radius = d;
        before = all;
    }
    ret->coef[0] = (int16_t)((1 << 14) - 2 * before);
}

const struct blur_loops *blur_loops_find(const char *name)
{
#ifdef __x86_64__
    if (strcmp(blur_avx2.name, name) == 0)
        return &blur_avx2;
#endif
    (void)name;
    return &blur_portable;
}

/* Returns the position `at` after reflection at the first pixel, or at the last of n. */
static size_t mirrored(ptrdiff_t at, size_t n)
{
    if (at < 0)
        return (size_t)-at;
    return (size_t)at < n ? (size_t)at : 2 * (n - 1) - (size_t)at;
}

void blur_plane(const struct blur_loops *loops, const struct blur_kernel *kernel,
                const struct blur_plane *from, int16_t *row, uint8_t *to)
{
    const size_t width = from->width, height = from->height;
    const uint8_t *rows[2 * BLUR_RADIUS_MAX + 1];
    ptrdiff_t radius = (ptrdiff_t)kernel->radius;
    int16_t *middle = row + radius;

    assert(kernel->radius <= BLUR_RADIUS_MAX);
    assert(kernel->radius < width && kernel->radius < height); /* mirrored() reflects only once */
    for (size_t y = 0; y < height; y++, to += width) {
        for (ptrdiff_t d = -radius; d <= radius; d++)
            rows[radius + d] = from->bytes + mirrored((ptrdiff_t)y + d, height) * width;
        loops->down(kernel, rows, width, middle);
        for (ptrdiff_t d = 1; d <= radius; d++) {
            middle[-d] = middle[d];
            middle[(ptrdiff_t)width - 1 + d] = middle[(ptrdiff_t)width - 1 - d];
        }
        loops->across(kernel, row, width, to);
    }
}
