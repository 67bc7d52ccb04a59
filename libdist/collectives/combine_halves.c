/* SPDX-License-Identifier: MIT */
/* combine_halves.c - converts float16 and bfloat16 to float32 and back, with integers only, so that
 * the floating-point mode of the program does not matter. The results have the bits of the loops in
 * combine_loops.inc. */
#include "config.h"

#include "libdist/collectives/combine.h"

#include <assert.h>
#include <string.h>

bool combine_is_wide(enum plenum_type type, enum plenum_op op)
{
    return (type == PLENUM_FLOAT16 || type == PLENUM_BFLOAT16) &&
           (op == PLENUM_SUM || op == PLENUM_MEAN);
}

static uint32_t widen_half(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, number = half & 0x7fff;
    uint32_t exponent = 113;

    if (number >= 0x7c00)
        return sign | 0x7f800000 | number << 13;
    if (number >= 0x400)
        return sign | ((number << 13) + (112U << 23));
    if (number == 0)
        return sign;
    for (; number < 0x400; exponent--) /* a subnormal number becomes a normal one */
        number <<= 1;
    return sign | exponent << 23 | (number & 0x3ff) << 13;
}

/* Round to nearest, ties to even. */
static uint32_t shift_rounded(uint32_t x, uint32_t by)
{
    return (x + (1U << (by - 1)) - 1 + (x >> by & 1)) >> by;
}

static uint16_t narrow_half(uint32_t x)
{
    uint32_t sign = x >> 16 & 0x8000, number = x & 0x7fffffff, result;

    if (number > 0x7f800000)
        result = 0x7e00;
    else if (number >= 0x477ff000) /* rounds to infinity */
        result = 0x7c00;
    else if (number >= 0x38800000)
        result = shift_rounded(number - 0x38000000, 13);
    else if (number < 0x33000000) /* less than half of the smallest one */
        result = 0;
    else
        result = shift_rounded((number & 0x7fffff) | 0x800000, 126 - (number >> 23));
    return (uint16_t)(sign | result);
}

static uint16_t narrow_brain(uint32_t x)
{
    return (x & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : (uint16_t)shift_rounded(x, 16);
}

void combine_widen(void *to, const void *from, size_t count, enum plenum_type type)
{
    assert(type == PLENUM_FLOAT16 || type == PLENUM_BFLOAT16);
    for (size_t i = 0; i < count; i++) {
        uint32_t wide;
        uint16_t half;

        memcpy(&half, (const unsigned char *)from + 2 * i, sizeof(half));
        wide = type == PLENUM_FLOAT16 ? widen_half(half) : (uint32_t)half << 16;
        memcpy((unsigned char *)to + 4 * i, &wide, sizeof(wide));
    }
}

void combine_narrow(void *to, const void *from, size_t count, enum plenum_type type)
{
    assert(type == PLENUM_FLOAT16 || type == PLENUM_BFLOAT16);
    for (size_t i = 0; i < count; i++) {
        uint32_t wide;
        uint16_t half;

        memcpy(&wide, (const unsigned char *)from + 4 * i, sizeof(wide));
        half = type == PLENUM_FLOAT16 ? narrow_half(wide) : narrow_brain(wide);
        memcpy((unsigned char *)to + 2 * i, &half, sizeof(half));
    }
}
