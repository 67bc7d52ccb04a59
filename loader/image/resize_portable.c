/* resize_portable.c - the resize loops in plain C, for every machine.
 *
 * The loops have fixed lengths where it matters, so that compilers vectorise them. */
#include "config.h"

#include "loader/image/resize.h"

#include "loader/image/resize_kernels.h"

static bool always(void)
{
    return true;
}

static uint8_t round_to_byte(int32_t sum)
{
    int32_t value = (sum + RESIZE_HALF) >> RESIZE_BITS;

    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

static void across(const struct resize_axis *axis, const uint8_t *row, uint8_t *out)
{
    for (uint32_t i = 0; i < axis->count; i++, out += 3) {
        const uint8_t *p = row + (size_t)axis->first[i] * 3;
        const int16_t *coef = axis->coef + (size_t)i * axis->stride;
        int32_t r = 0, g = 0, b = 0;

        for (uint32_t k = 0; k < axis->taps[i]; k++, p += 3) {
            r += coef[k] * p[0];
            g += coef[k] * p[1];
            b += coef[k] * p[2];
        }
        out[0] = round_to_byte(r);
        out[1] = round_to_byte(g);
        out[2] = round_to_byte(b);
    }
}

enum { BLOCK = 64 };

static inline void down_some(const uint8_t *const *rows, const int16_t *coef, uint32_t taps,
                             size_t at, size_t bytes, uint8_t flip, uint8_t *restrict out)
{
    int32_t sum[BLOCK] = {0};

    for (uint32_t k = 0; k < taps; k++) {
        const uint8_t *row = rows[k] + at;
        int32_t c = coef[k];

        for (size_t j = 0; j < bytes; j++)
            sum[j] += c * row[j];
    }
    for (size_t j = 0; j < bytes; j++)
        out[at + j] = round_to_byte(sum[j]) ^ flip;
}

static void down(const uint8_t *const *rows, const int16_t *coef, uint32_t taps, size_t bytes,
                 uint8_t flip, uint8_t *out)
{
    size_t at = 0;

    for (; at + BLOCK <= bytes; at += BLOCK)
        down_some(rows, coef, taps, at, BLOCK, flip, out);
    if (at < bytes)
        down_some(rows, coef, taps, at, bytes - at, flip, out);
}

const struct resize_kernels resize_portable = {
    .name = "portable",
    .usable = always,
    .across = across,
    .down = down,
};
