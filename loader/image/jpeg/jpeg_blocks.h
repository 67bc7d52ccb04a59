/* SPDX-License-Identifier: MIT */
/* jpeg_blocks.h - decodes or skips the coefficients of one block, or of two at once.
 *
 * All functions are inline, so that jpeg_own.c can compile them for several kinds of processors.
 * Each returns false for an invalid code or value; other errors are detected after the MCU
 * (jpeg_scan.h). */
#ifndef LOADER_IMAGE_JPEG_BLOCKS_H
#define LOADER_IMAGE_JPEG_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "loader/image/jpeg/jpeg_huff.h"

#define JPEG_INLINE static inline __attribute__((always_inline))

/* The natural index of each coefficient in zigzag order, then 63 for coefficients after the 64th,
 * then 64, which means no coefficient. An EOB advances the index by JPEG_STEP_EOB, into that last
 * part. */
static const uint8_t jpeg_natural[64 + 16 + JPEG_STEP_EOB] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,

    63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63,

    64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64,
    64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64,
    64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64,
    64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64,
};

/* Read a DC difference and add it to the prediction. Leaves at least 29 bits. */
JPEG_INLINE bool read_dc(struct jpeg_bits *b, const struct jpeg_huff *h, int32_t *dc)
{
    jpeg_entry e;
    int32_t value;

    jpeg_bits_refill(b);
    e = jpeg_bits_look(b, h->one);
    if (__builtin_expect(e == JPEG_RARE, 0)) {
        struct jpeg_bits bits = *b;

        if (jpeg_huff_slow(h, &bits, &value) < 0)
            return false;
        jpeg_bits_refill(&bits);
        *b = bits;
    } else {
        value = jpeg_value(b->word, e >> 16 & 255, e >> 24);
        jpeg_bits_drop(b, e & 255);
    }
    *dc += value;
    return *dc == (int16_t)*dc;
}

/* Read a symbol that is not in the table, and advance the index of the coefficient. Returns false
 * for an invalid code. */
JPEG_INLINE bool read_rare(struct jpeg_bits *bits, const struct jpeg_huff *h, uint32_t *k,
                           int16_t *coef, uint32_t *seen)
{
    struct jpeg_bits b = *bits; /* a copy, so that *bits can stay in registers */
    int32_t value;
    int symbol = jpeg_huff_slow(h, &b, &value);

    if (symbol < 0)
        return false;
    jpeg_bits_refill(&b);
    *bits = b;
    if ((symbol & 15) == 0) {
        *k += symbol == 0xF0 ? 16 : JPEG_STEP_EOB;
        return true;
    }
    *k += (uint32_t)(symbol >> 4) + 1;
    if (coef) {
        coef[jpeg_natural[*k]] = (int16_t)value;
        *seen |= jpeg_natural[*k];
    }
    return true;
}

/* Read two AC coefficients, or only one if the second would be after the 64th. */
JPEG_INLINE bool read_two(struct jpeg_bits *b, const struct jpeg_huff *h, uint32_t *k,
                          int16_t *coef, uint32_t *seen)
{
    jpeg_entry e = jpeg_bits_look(b, h->two);
    uint32_t second = e >> 21 & 127, at = *k + (e >> 14 & 127);

    if (__builtin_expect(e == JPEG_RARE || (at >= 63 && second > 0), 0))
        return read_rare(b, h, k, coef, seen);
    coef[jpeg_natural[at]] = (int16_t)((int32_t)e >> 28);
    *seen |= jpeg_natural[at];
    at += second;
    coef[jpeg_natural[at]] = (int16_t)jpeg_value(b->word, e >> 6 & 15, e >> 10 & 15);
    *seen |= jpeg_natural[at];
    *k = at;
    jpeg_bits_drop(b, e & 63);
    return true;
}

/* Read a block's AC coefficients into `coef`, which must be zero. Their natural indices are ORed
 * into `*seen`. */
JPEG_INLINE bool read_ac(struct jpeg_bits *b, const struct jpeg_huff *h, int16_t *coef,
                         uint32_t *seen)
{
    uint32_t k = 0;

    for (;;) {
        jpeg_bits_refill(b); /* enough bits for two look-ups */
        if (!read_two(b, h, &k, coef, seen))
            return false;
        if (k >= 63)
            return true;
        if (!read_two(b, h, &k, coef, seen))
            return false;
        if (k >= 63)
            return true;
    }
}

JPEG_INLINE bool skip_some(struct jpeg_bits *b, const struct jpeg_huff *h, uint32_t *k)
{
    jpeg_entry e = jpeg_bits_look(b, h->many);
    uint32_t seen;

    if (__builtin_expect(*k + (e >> 16) >= 63 || e == JPEG_RARE, 0)) {
        e = jpeg_bits_look(b, h->one);
        if (e == JPEG_RARE)
            return read_rare(b, h, k, NULL, &seen);
    }
    *k += e >> 8 & 255;
    jpeg_bits_drop(b, e & 255);
    return true;
}

/* Skip the AC coefficients of a block. */
JPEG_INLINE bool skip_ac(struct jpeg_bits *b, const struct jpeg_huff *h)
{
    uint32_t k = 0;

    for (;;) {
        jpeg_bits_refill(b);
        if (!skip_some(b, h, &k))
            return false;
        if (k >= 63)
            return true;
        if (!skip_some(b, h, &k))
            return false;
        if (k >= 63)
            return true;
    }
}

/* Like read_ac(), for two blocks at once, each with its own bits. */
JPEG_INLINE bool read_ac_both(struct jpeg_bits *bits, const struct jpeg_huff *h,
                              int16_t *const *coef, uint32_t *seen)
{
    struct jpeg_bits a = bits[0], b = bits[1];
    uint32_t k = 0, n = 0, seen_a = 0, seen_b = 0;
    bool ok;

    do {
        jpeg_bits_refill(&a);
        jpeg_bits_refill(&b);
        ok = read_two(&a, h, &k, coef[0], &seen_a) && read_two(&b, h, &n, coef[1], &seen_b);
        if (!ok || k >= 63 || n >= 63)
            break;
        ok = read_two(&a, h, &k, coef[0], &seen_a) && read_two(&b, h, &n, coef[1], &seen_b);
    } while (ok && k < 63 && n < 63);
    while (ok && k < 63) {
        jpeg_bits_refill(&a);
        ok = read_two(&a, h, &k, coef[0], &seen_a);
    }
    while (ok && n < 63) {
        jpeg_bits_refill(&b);
        ok = read_two(&b, h, &n, coef[1], &seen_b);
    }
    bits[0] = a;
    bits[1] = b;
    seen[0] = seen_a;
    seen[1] = seen_b;
    return ok;
}

JPEG_INLINE bool skip_ac_both(struct jpeg_bits *bits, const struct jpeg_huff *h)
{
    struct jpeg_bits a = bits[0], b = bits[1];
    uint32_t k = 0, n = 0;
    bool ok;

    do {
        jpeg_bits_refill(&a);
        jpeg_bits_refill(&b);
        ok = skip_some(&a, h, &k) && skip_some(&b, h, &n);
    } while (ok && k < 63 && n < 63);
    while (ok && k < 63) {
        jpeg_bits_refill(&a);
        ok = skip_some(&a, h, &k);
    }
    while (ok && n < 63) {
        jpeg_bits_refill(&b);
        ok = skip_some(&b, h, &n);
    }
    bits[0] = a;
    bits[1] = b;
    return ok;
}

#endif
