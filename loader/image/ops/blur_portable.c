/* SPDX-License-Identifier: MIT */
/* blur_portable.c - the loops of blur.h for every processor: blocks of levels, which compilers
 * vectorise. */
#include "config.h"

/* gcc vectorises loops only at -O3. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#include "loader/image/ops/blur.h"

enum { BLOCK = 32 };

static void down(const struct blur_kernel *kernel, const uint8_t *const *rows, size_t width,
                 int16_t *to)
{
    uint32_t radius = kernel->radius;

    for (size_t x = 0; x < width; x += BLOCK) {
        size_t count = width - x < BLOCK ? width - x : BLOCK;
        int32_t sum[BLOCK];

        for (size_t i = 0; i < count; i++)
            sum[i] = kernel->coef[0] * rows[radius][x + i] + (1 << 7);
        for (uint32_t d = 1; d <= radius; d++) {
            const uint8_t *above = rows[radius - d] + x, *below = rows[radius + d] + x;
            int16_t coef = kernel->coef[d];

            for (size_t i = 0; i < count; i++)
                sum[i] += coef * (int16_t)(above[i] + below[i]);
        }
        for (size_t i = 0; i < count; i++)
            to[x + i] = (int16_t)(sum[i] >> 8);
    }
}

static void across(const struct blur_kernel *kernel, const int16_t *from, size_t width, uint8_t *to)
{
    uint32_t radius = kernel->radius;

    for (size_t x = 0; x < width; x += BLOCK) {
        size_t count = width - x < BLOCK ? width - x : BLOCK;
        const int16_t *middle = from + radius + x;
        int32_t sum[BLOCK];

        for (size_t i = 0; i < count; i++)
            sum[i] = kernel->coef[0] * middle[i] + (1 << 19);
        for (uint32_t d = 1; d <= radius; d++) {
            const int16_t *left = middle - d, *right = middle + d;
            int16_t coef = kernel->coef[d];

            for (size_t i = 0; i < count; i++)
                sum[i] += coef * (int16_t)(left[i] + right[i]);
        }
        for (size_t i = 0; i < count; i++)
            to[x + i] = (uint8_t)(sum[i] >> 20);
    }
}

const struct blur_loops blur_portable = {.name = "portable", .down = down, .across = across};
