/* SPDX-License-Identifier: MIT */
/* resize_portable.c - the resize loops in plain C, for every machine and every shape.
 *
 * A pair is two rows of [width][4] bytes, one after the other. The important loops have fixed
 * lengths, so that compilers vectorise them; gcc does so from -O3 on. */
#include "config.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#include "loader/image/resize/resize_kernels.h"

#include <assert.h>

static bool always(void)
{
    return true;
}

static bool suits_all(const struct resize_axis *across, const struct resize_axis *down)
{
    (void)across;
    (void)down;
    return true;
}

static size_t no_table(const struct resize_axis *across)
{
    (void)across;
    return 0;
}

static void prepare_nothing(const struct resize_axis *across, void *table)
{
    (void)across;
    (void)table;
}

static size_t pair_bytes(uint32_t width)
{
    return (size_t)width * 8;
}

static uint8_t round_to_byte(int32_t sum)
{
    int32_t value = (sum + RESIZE_HALF) >> RESIZE_BITS;

    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

static void across_one(const struct resize_axis *axis, const uint8_t *row, uint8_t *out)
{
    for (uint32_t i = 0; i < axis->count; i++, out += 4) {
        const uint8_t *p = row + (size_t)axis->first[i] * 4;
        const int16_t *coef = axis->coef + (size_t)i * axis->stride;
        int32_t sum[4] = {0};

        for (uint32_t k = 0; k < axis->taps[i]; k++, p += 4)
            for (uint32_t c = 0; c < 4; c++)
                sum[c] += coef[k] * p[c];
        for (uint32_t c = 0; c < 4; c++)
            out[c] = round_to_byte(sum[c]);
    }
}

static void across(const struct resize_axis *axis, const void *table, const uint8_t *row,
                   const uint8_t *next, void *pair)
{
    uint8_t *out = pair;

    (void)table;
    across_one(axis, row, out);
    across_one(axis, next, out + (size_t)axis->count * 4);
}

/* Number of pixels that are finished and stored together. */
enum { BLOCK = 16 };

void resize_store_pixels(const struct resize_line *line, size_t at, size_t count,
                         const uint8_t *pixels)
{
    const struct resize_store *s = line->store;
    size_t channels = s->fourth ? 4 : 3;
    size_t pixel = s->planes ? 1 : channels, channel = s->planes ? s->plane : 1;
    uint8_t *out = line->out + at * pixel;

    for (size_t x = 0; x < count; x++, out += pixel, pixels += 4) {
        for (size_t c = 0; c < 3; c++)
            out[c * channel] = pixels[c] ^ s->flip;
        if (s->fourth)
            out[3 * channel] = s->zero;
    }
}

static inline void down_block(const struct resize_line *line, size_t at, size_t count)
{
    int32_t sum[BLOCK * 4] = {0};
    uint8_t pixels[BLOCK * 4] = {0};

    assert(count <= BLOCK);
    for (uint32_t k = 0; k < line->pairs_count; k++) {
        const uint8_t *row = (const uint8_t *)line->pairs[k] + 4 * at;
        const uint8_t *next = row + (size_t)line->width * 4;
        int32_t c = line->coef[2 * k], d = line->coef[2 * k + 1];

        for (size_t j = 0; j < 4 * count; j++)
            sum[j] += c * row[j] + d * next[j];
    }
    for (size_t j = 0; j < 4 * count; j++)
        pixels[j] = round_to_byte(sum[j]);
    resize_store_pixels(line, at, count, pixels);
}

static void down(const struct resize_line *line)
{
    size_t at = 0;

    for (; at + BLOCK <= line->width; at += BLOCK)
        down_block(line, at, BLOCK);
    if (at < line->width)
        down_block(line, at, line->width - at);
}

const struct resize_kernels resize_portable = {
    .name = "portable",
    .usable = always,
    .suits = suits_all,
    .table_bytes = no_table,
    .pair_bytes = pair_bytes,
    .prepare = prepare_nothing,
    .across = across,
    .down = down,
};
