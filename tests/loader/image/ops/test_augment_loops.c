/* SPDX-License-Identifier: MIT */
/* Compares all sets of loops of the operations with the formulas in docs/pixels.md, 10. Loops
 * that depend on one byte or on one pixel's colour are tested with every value. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/util/util.h"
#include "loader/image/ops/augment_loops.h"

enum {
    FACTOR_MAX = 3 << AUGMENT_BITS,
    BYTES = 256 + 7, /* all bytes; not a multiple of a register's size */
    COLOURS = 1 << 16,
};

static const uint32_t factors[] = {0, 1, 5000, 16383, 16384, 32767, 32768, 40000, FACTOR_MAX};

/* Returns the sets that this processor can use; NULL at the end. */
static const struct augment_loops *const *usable_sets(void)
{
#ifdef __x86_64__
    static const struct augment_loops *const both[] = {&augment_portable, &augment_avx2, NULL};

    if (__builtin_cpu_supports("avx2"))
        return both;
#endif
    static const struct augment_loops *const one[] = {&augment_portable, NULL};

    return one;
}

/* The loop of an operation that changes each channel alone, or each pixel. */
#define LEVELS(loops, kind) (loops)->pointwise[PIPELINE_##kind].levels
#define PIXELS(loops, kind) (loops)->pointwise[PIPELINE_##kind].pixels

#define FOR_SETS(loops)                                                         \
    for (const struct augment_loops *const *at = usable_sets(), *loops = at[0]; \
         (loops = *at) != NULL; at++)

static uint8_t blend(int64_t from, int64_t v, int64_t factor)
{
    int64_t x = from * (1 << AUGMENT_BITS) + factor * (v - from);

    x = x < 0 ? 0 : x >> AUGMENT_BITS;
    return (uint8_t)(x > 255 ? 255 : x);
}

static uint8_t gray(uint32_t r, uint32_t g, uint32_t b)
{
    return (uint8_t)((19595 * r + 38470 * g + 7471 * b + (1 << 15)) / (1 << 16));
}

static void check_blend(const struct augment_loops *loops, uint32_t level, uint32_t factor)
{
    uint8_t v[BYTES];

    for (uint32_t i = 0; i < BYTES; i++)
        v[i] = (uint8_t)i;
    if (level == 0) {
        LEVELS(loops, BRIGHTNESS)(v, BYTES, factor);
        for (uint32_t i = 0; i < BYTES; i++)
            cr_assert(v[i] == blend(0, i % 256, factor), "%s: %u * %u", loops->name, i, factor);
        for (uint32_t i = 0; i < BYTES; i++)
            v[i] = (uint8_t)i;
    }
    loops->blend_level(v, BYTES, level, factor);
    for (uint32_t i = 0; i < BYTES; i++)
        cr_assert(v[i] == blend(level, i % 256, factor), "%s: %u, %u, %u", loops->name, level, i,
                  factor);
}

/* A blend multiplies the difference of two bytes: if one of them is 0 or 255, the other gives every
 * possible difference. */
Test(augment_loops, blends_of_bytes)
{
    FOR_SETS(loops)
    {
        for (uint32_t factor = 0; factor <= FACTOR_MAX; factor++) {
            check_blend(loops, 0, factor);
            check_blend(loops, 255, factor);
        }
        for (size_t i = 0; i < ARRAY_LEN(factors); i++)
            for (uint32_t level = 0; level < 256; level++)
                check_blend(loops, level, factors[i]);
    }
}

static uint8_t planes[3][COLOURS + 9], was[3][COLOURS + 9];

static void fill_colours(uint32_t red, uint32_t step)
{
    uint32_t n = 0;

    for (uint32_t g = 0; g < 256; g += step)
        for (uint32_t b = 0; b < 256; b += step, n++) {
            was[0][n] = (uint8_t)red;
            was[1][n] = (uint8_t)g;
            was[2][n] = (uint8_t)b;
        }
    memcpy(planes, was, sizeof(planes));
}

Test(augment_loops, every_colour_to_grey)
{
    FOR_SETS(loops)
    for (uint32_t red = 0; red < 256; red++) {
        uint32_t sum = 0;

        fill_colours(red, 1);
        for (uint32_t i = 0; i < COLOURS; i++)
            sum += gray(red, was[1][i], was[2][i]);
        cr_assert(eq(u32, loops->sum_gray(planes[0], sizeof(planes[0]), COLOURS), sum));
        PIXELS(loops, GRAYSCALE)(planes[0], sizeof(planes[0]), COLOURS, 0);
        for (uint32_t i = 0; i < COLOURS; i++)
            cr_assert(planes[0][i] == gray(red, was[1][i], was[2][i]), "%s: %u, %u, %u",
                      loops->name, red, was[1][i], was[2][i]);
        cr_assert(memcmp(planes[0], planes[1], COLOURS) == 0);
        cr_assert(memcmp(planes[0], planes[2], COLOURS) == 0);
        cr_assert(planes[0][COLOURS] == was[0][COLOURS]);
    }
}

Test(augment_loops, blends_with_grey)
{
    enum { STEP = 5, COUNT = 52 * 52 };

    FOR_SETS(loops)
    for (size_t f = 0; f < ARRAY_LEN(factors); f++)
        for (uint32_t red = 0; red < 256; red += STEP) {
            fill_colours(red, STEP);
            PIXELS(loops, SATURATION)(planes[0], sizeof(planes[0]), COUNT, factors[f]);
            for (uint32_t i = 0; i < COUNT; i++)
                for (uint32_t c = 0; c < 3; c++)
                    cr_assert(planes[c][i] ==
                                  blend(gray(red, was[1][i], was[2][i]), was[c][i], factors[f]),
                              "%s: %u of %u, %u, %u by %u", loops->name, c, red, was[1][i],
                              was[2][i], factors[f]);
            cr_assert(memcmp(planes[2] + COUNT, was[2] + COUNT, COLOURS - COUNT) == 0);
        }
}

/* Returns a channel of a colour after gains: 8-bit hue, saturation and value, and the share of the
 * value that the distance from the channel's own hue leaves. */
static uint8_t gain(const int rgb[3], int c, uint32_t gains)
{
    int most = rgb[0], least = rgb[0], top, hue = 0, saturation = 0, d, away;

    for (int i = 1; i < 3; i++) {
        most = rgb[i] > most ? rgb[i] : most;
        least = rgb[i] < least ? rgb[i] : least;
    }
    top = rgb[0] == most ? 0 : rgb[1] == most ? 1 : 2;
    d = most - least;
    if (d > 0) { /* the next channel pulls the hue forth, and the one after it pulls it back */
        hue = (60 * (rgb[(top + 1) % 3] - rgb[(top + 2) % 3]) + 120 * d * (top + 3) + d) / (2 * d);
        saturation = (510 * d + most) / (2 * most);
    }
    hue = (hue + (int)(gains >> 24)) % 180;
    saturation = (int)min_u64((uint64_t)saturation * (gains >> 12 & 4095) / 1024, 255);
    most = (int)min_u64((uint64_t)most * (gains & 4095) / 1024, 255);
    away = abs(hue - 60 * c);
    away = away > 90 ? 180 - away : away; /* 0 to 30: all of the value; from 60 on: the least */
    away = away < 30 ? 0 : away > 60 ? 30 : away - 30;
    return (uint8_t)(most * (7650 - saturation * away) / 7650);
}

Test(augment_loops, gains_of_every_colour)
{
    static const uint32_t gains[] = {0, 1u << 24 | 1024 << 12 | 1024, 90u << 24 | 3072 << 12 | 300,
                                     179u << 24 | 1500 << 12 | 3072, 37u << 24 | 717 << 12 | 1433};

    FOR_SETS(loops)
    for (uint32_t red = 0; red < 256; red++) {
        uint32_t by = gains[red % ARRAY_LEN(gains)];

        fill_colours(red, 1);
        PIXELS(loops, HSV)(planes[0], sizeof(planes[0]), COLOURS, by);
        for (uint32_t i = 0; i < COLOURS; i++)
            for (int c = 0; c < 3; c++)
                cr_assert(planes[c][i] == gain((int[3]){(int)red, was[1][i], was[2][i]}, c, by),
                          "%s: %d of %u, %u, %u by %x", loops->name, c, red, was[1][i], was[2][i],
                          by);
        cr_assert(planes[0][COLOURS] == was[0][COLOURS]);
    }
}

Test(augment_loops, bytes_by_tables_and_thresholds)
{
    uint8_t v[BYTES], table[256];

    FOR_SETS(loops)
    for (uint32_t k = 0; k <= 256; k++) {
        for (uint32_t i = 0; i < 256; i++)
            table[i] = (uint8_t)(k == 0 ? i : (uint32_t)rand() >> 8);
        for (uint32_t i = 0; i < BYTES; i++)
            v[i] = (uint8_t)i;
        loops->table(v, BYTES, table);
        for (uint32_t i = 0; i < BYTES; i++)
            cr_assert(v[i] == table[i % 256], "%s: table[%u]", loops->name, i);
        for (uint32_t i = 0; i < BYTES; i++)
            v[i] = (uint8_t)i;
        LEVELS(loops, SOLARIZE)(v, BYTES, k);
        for (uint32_t i = 0; i < BYTES; i++)
            cr_assert(v[i] == (i % 256 >= k ? 255 - i % 256 : i % 256));
        for (uint32_t i = 0; i < BYTES; i++)
            v[i] = (uint8_t)i;
        LEVELS(loops, POSTERIZE)(v, BYTES, k % 9);
        for (uint32_t i = 0; i < BYTES; i++)
            cr_assert(v[i] == (i % 256 >> (8 - k % 9) << (8 - k % 9)));
        LEVELS(loops, INVERT)(v, BYTES, 0);
        for (uint32_t i = 0; i < BYTES; i++)
            cr_assert(v[i] == 255 - (i % 256 >> (8 - k % 9) << (8 - k % 9)));
        for (uint32_t i = 0; i < BYTES; i++)
            v[i] = (uint8_t)i;
        LEVELS(loops, SOLARIZE_ADD)(v, BYTES, k % 128);
        for (uint32_t i = 0; i < BYTES; i++)
            cr_assert(v[i] == (i % 256 < 128 ? i % 256 + k % 128 : i % 256));
    }
}

Test(augment_loops, range_of_values)
{
    uint8_t v[100], low, high;

    FOR_SETS(loops)
    for (uint32_t n = 1; n <= sizeof(v); n++) {
        memset(v, 100, sizeof(v));
        v[n / 2] = (uint8_t)n;
        v[n - 1] = (uint8_t)(200 - n);
        loops->find_range(v, n, &low, &high);
        for (uint32_t i = 0; i < n; i++)
            cr_assert(low <= v[i] && v[i] <= high);
        cr_assert(memchr(v, low, n) && memchr(v, high, n));
    }
}

static void check_sharpen(const struct augment_loops *loops, const uint8_t *v, uint32_t width,
                          uint32_t height, uint32_t factor)
{
    uint8_t *to = malloc((size_t)width * height);

    loops->sharpen(v, to, width, height, factor);
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++) {
            const uint8_t *at = v + y * width + x;
            int32_t sum = 4 * *at, want = *at;

            for (int32_t k = 0; x > 0 && y > 0 && x + 1 < width && y + 1 < height && k < 9; k++)
                sum += at[(k / 3 - 1) * (int32_t)width + k % 3 - 1];
            if (x > 0 && y > 0 && x + 1 < width && y + 1 < height)
                want = blend((2 * sum + 13) / 26, *at, factor);
            cr_assert(to[y * width + x] == want, "%s: %u, %u of %u x %u by %u", loops->name, x, y,
                      width, height, factor);
        }
    free(to);
}

/* Make every possible sum of nine values and four times the middle one, in order. */
static uint8_t *make_sums(uint32_t *width)
{
    uint32_t count = 13 * 255 + 1;
    uint8_t *v = calloc(3 * count, 3);

    *width = 3 * count;
    for (uint32_t sum = 0; sum < count; sum++) {
        uint32_t centre = sum < 5 ? 0 : (sum + 12) / 13, rest = sum - 5 * centre;

        for (uint32_t k = 0; k < 9; k++) {
            uint32_t value = k == 4 ? centre : (uint32_t)min_u64(rest, 255);

            v[k / 3 * *width + 3 * sum + k % 3] = (uint8_t)value;
            rest -= k == 4 ? 0 : value;
        }
        cr_assert(rest == 0);
    }
    return v;
}

Test(augment_loops, sharpness)
{
    uint8_t window[120 * 5], *sums;
    uint32_t width;

    sums = make_sums(&width);
    for (size_t i = 0; i < sizeof(window); i++)
        window[i] = (uint8_t)(rand() >> 8);
    FOR_SETS(loops)
    for (size_t f = 0; f < ARRAY_LEN(factors); f++) {
        check_sharpen(loops, sums, width, 3, factors[f]);
        for (width = 3; width <= 120; width++)
            check_sharpen(loops, window, width, 5, factors[f]);
        width = 3 * (13 * 255 + 1);
    }
    free(sums);
}

/* Store n pixels of 1, 3 or 4 bytes, and check them and the bytes around them. */
static void check_stores(const struct augment_loops *loops, bool past, uint32_t channels,
                         uint32_t n, uint8_t *to)
{
    memset(to - 1, 123, channels * n + 2);
    if (channels == 1)
        (past ? loops->stream_bytes : loops->store_bytes)(was[0], n, 0x80, to);
    else
        (past ? loops->stream_pixels : loops->store_pixels)(was[0], sizeof(was[0]), n, channels,
                                                            0x80, 9, to);
    for (uint32_t i = 0; i < channels * n; i++)
        cr_assert(to[i] == (i % channels == 3 ? 9 : (was[i % channels][i / channels] ^ 0x80)));
    cr_assert(to[-1] == 123 && to[channels * n] == 123);
}

Test(augment_loops, stores)
{
    enum { COUNT = 150, SHIFTS = 33 }; /* a head, groups and a rest, at any alignment */
    static uint8_t bytes[4 * COUNT + SHIFTS + 2];

    for (uint32_t i = 0; i < 3 * COUNT; i++)
        was[i % 3][i / 3] = (uint8_t)(rand() >> 8);
    FOR_SETS(loops)
    for (uint8_t *to = bytes + 1; to <= bytes + SHIFTS; to++)
        for (uint32_t n = 0; n <= COUNT; n++)
            for (uint32_t i = 0; i < 6; i++)
                check_stores(loops, i >= 3, (uint32_t[]){1, 3, 4}[i % 3], n, to);
}
