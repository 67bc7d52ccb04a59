/* SPDX-License-Identifier: MIT */
/* png_rows.c - undoes the five filters of PNG.
 *
 * Whole pixels are processed one after the other, because each needs the one on its left. The four
 * bytes of a pixel are processed at once, in vectors that gcc and clang support on any
 * processor. */
#include "config.h"

#include "loader/image/png/png_rows.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

enum { NONE, SUB, UP, AVERAGE, PAETH };

/* --- pixels --- */

/* The four bytes of a pixel, widened to words, and four lanes that are ignored. */
typedef int16_t wide __attribute__((vector_size(16)));
typedef uint8_t bytes __attribute__((vector_size(16)));

static inline uint32_t load(const uint8_t *at)
{
    uint32_t x;

    memcpy(&x, at, 4);
    return x;
}

static inline void store(uint8_t *to, uint32_t x)
{
    memcpy(to, &x, 4);
}

#if defined(__SSE2__)
static inline wide widen(uint32_t x)
{
    return (wide)_mm_unpacklo_epi8(_mm_cvtsi32_si128((int)x), _mm_setzero_si128());
}

static inline uint32_t narrow(wide x)
{
    return (uint32_t)_mm_cvtsi128_si32(_mm_packus_epi16((__m128i)x, (__m128i)x));
}

static inline wide least(wide a, wide b)
{
    return (wide)_mm_min_epi16((__m128i)a, (__m128i)b);
}

static inline wide most(wide a, wide b)
{
    return (wide)_mm_max_epi16((__m128i)a, (__m128i)b);
}
#elif defined(__ARM_NEON)
static inline wide widen(uint32_t x)
{
    return (wide)vmovl_u8(vcreate_u8(x));
}

static inline uint32_t narrow(wide x)
{
    return vget_lane_u32(vreinterpret_u32_u8(vmovn_u16((uint16x8_t)x)), 0);
}

static inline wide least(wide a, wide b)
{
    return (wide)vminq_s16((int16x8_t)a, (int16x8_t)b);
}

static inline wide most(wide a, wide b)
{
    return (wide)vmaxq_s16((int16x8_t)a, (int16x8_t)b);
}
#else
static inline wide widen(uint32_t x)
{
    uint64_t halves[2] = {x, 0};
    wide r;

    halves[0] = (halves[0] | halves[0] << 16) & 0x0000FFFF0000FFFF;
    halves[0] = (halves[0] | halves[0] << 8) & 0x00FF00FF00FF00FF;
    memcpy(&r, halves, sizeof(r));
    return r;
}

static inline uint32_t narrow(wide x)
{
    uint64_t half;

    memcpy(&half, &x, sizeof(half));
    half = (half | half >> 8) & 0x0000FFFF0000FFFF;
    return (uint32_t)(half | half >> 16);
}

static inline wide least(wide a, wide b)
{
    wide m = a < b;

    return (a & m) | (b & ~m);
}

static inline wide most(wide a, wide b)
{
    return least(~a, ~b) ^ -1;
}
#endif

/* Returns the sums of the bytes, modulo 256. */
static inline uint32_t add(uint32_t a, uint32_t b)
{
    return ((a & 0x7F7F7F7F) + (b & 0x7F7F7F7F)) ^ ((a ^ b) & 0x80808080);
}

/* Returns the means of the bytes, rounded down. */
static inline uint32_t mean(uint32_t a, uint32_t b)
{
    return (a & b) + (((a ^ b) & 0xFEFEFEFE) >> 1);
}

/* Returns which of a (left), b (above) and c (above on the left) is nearest to a + b - c; if
 * several are, the first of these. With n = 3c - a - b, it is the smaller one of a and b if n is
 * not below the larger one, the larger one if n is not above the smaller one, and otherwise c. This
 * takes fewer steps from one pixel to the next than comparing distances. */
static inline wide paeth(wide a, wide b, wide c)
{
    wide n = (3 * c - b) - a, low = least(a, b), high = most(a, b);
    wide below = high > n, above = n > low;

    return (low & ~below) | (high & ~above) | (c & below & above);
}

static inline __attribute__((always_inline)) void filter_pixels(uint32_t filter, uint32_t step,
                                                                const uint8_t *from,
                                                                const uint8_t *above, uint8_t *ret,
                                                                size_t width)
{
    wide left_wide = {0}, corner = {0};
    uint32_t left = 0;

    for (size_t i = 0; i < width; i++, from += step, above += 4, ret += 4) {
        uint32_t x = load(from);

        if (filter == PAETH) {
            wide b = widen(load(above));

            left_wide = (wide)((bytes)widen(x) + (bytes)paeth(left_wide, b, corner));
            corner = b;
            store(ret, narrow(left_wide));
            continue;
        }
        if (filter == SUB)
            left = x = add(x, left);
        else if (filter == UP)
            x = add(x, load(above));
        else if (filter == AVERAGE)
            left = x = add(x, mean(left, load(above)));
        store(ret, x);
    }
}

static inline __attribute__((always_inline)) void choose(uint32_t filter, uint32_t step,
                                                         const uint8_t *from, const uint8_t *above,
                                                         uint8_t *ret, size_t width)
{
    switch (filter) {
    case NONE:
        filter_pixels(NONE, step, from, above, ret, width);
        break;
    case SUB:
        filter_pixels(SUB, step, from, above, ret, width);
        break;
    case UP:
        filter_pixels(UP, step, from, above, ret, width);
        break;
    case AVERAGE:
        filter_pixels(AVERAGE, step, from, above, ret, width);
        break;
    default:
        filter_pixels(PAETH, step, from, above, ret, width);
        break;
    }
}

void png_rows_pixels(uint32_t filter, uint32_t step, const uint8_t *filtered, const uint8_t *above,
                     uint8_t *ret, size_t width)
{
    assert(filter < PNG_ROWS_FILTERS && (step == 3 || step == 4));
    if (step == 3)
        choose(filter, 3, filtered, above, ret, width);
    else
        choose(filter, 4, filtered, above, ret, width);
}

/* --- bytes --- */

static inline uint8_t paeth_byte(int a, int b, int c)
{
    int p = abs(b - c), q = abs(a - c), r = abs(a + b - 2 * c);

    return (uint8_t)(p <= q && p <= r ? a : q <= r ? b : c);
}

void png_rows_bytes(uint32_t filter, uint32_t step, const uint8_t *filtered, const uint8_t *above,
                    uint8_t *ret, size_t len)
{
    size_t first = step < len ? step : len;

    assert(filter < PNG_ROWS_FILTERS && step > 0);
    switch (filter) {
    case NONE:
        memcpy(ret, filtered, len);
        break;
    case SUB:
        memcpy(ret, filtered, first);
        for (size_t i = first; i < len; i++)
            ret[i] = (uint8_t)(filtered[i] + ret[i - step]);
        break;
    case UP:
        for (size_t i = 0; i < len; i++)
            ret[i] = (uint8_t)(filtered[i] + above[i]);
        break;
    case AVERAGE:
        for (size_t i = 0; i < first; i++)
            ret[i] = (uint8_t)(filtered[i] + above[i] / 2);
        for (size_t i = first; i < len; i++)
            ret[i] = (uint8_t)(filtered[i] + (ret[i - step] + above[i]) / 2);
        break;
    default:
        for (size_t i = 0; i < first; i++)
            ret[i] = (uint8_t)(filtered[i] + above[i]);
        for (size_t i = first; i < len; i++)
            ret[i] = (uint8_t)(filtered[i] + paeth_byte(ret[i - step], above[i], above[i - step]));
        break;
    }
}
