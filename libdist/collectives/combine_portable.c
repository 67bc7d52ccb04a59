/* SPDX-License-Identifier: MIT */
/* combine_portable.c - the loops of combine() for any processor. The compiler turns vectors of 16
 * bytes into SSE2 or NEON. */
#include "config.h"

#include "libdist/collectives/combine_loops.h"

#include <string.h>

#define LOOP
#define LOOP_INLINE static inline __attribute__((always_inline))
#define VECTOR 16

typedef float half_floats __attribute__((vector_size(VECTOR)));
typedef uint32_t half_bits __attribute__((vector_size(VECTOR)));
typedef uint16_t half_words __attribute__((vector_size(VECTOR / 2)));

LOOP_INLINE half_bits pick(half_bits mask, half_bits yes, half_bits no)
{
    return (mask & yes) | (~mask & no);
}

/* Convert float16 to float32. A float32's exponent has a bias of 127 instead of 15: the product
 * with 2^112 adds the difference, also for subnormal numbers. */
LOOP_INLINE half_floats half_widen(half_words v)
{
    half_bits x = __builtin_convertvector(v, half_bits), number = x & 0x7fff;
    half_bits shifted = number << 13, sign = (x & 0x8000) << 16;
    half_bits finite = (half_bits)((half_floats)shifted * 0x1p112f);

    return (half_floats)(sign | pick((half_bits)(number >= 0x7c00), shifted | 0x7f800000, finite));
}

/* Convert float32 to float16, rounding to nearest, ties to even. In the sum of 0.5 and a number
 * that is subnormal as float16, the last bit is that of float16, so the addition rounds it. */
LOOP_INLINE half_words half_narrow(half_floats v)
{
    half_bits x = (half_bits)v, number = x & 0x7fffffff, result;
    half_bits normal = (number - 0x38000000 + 0xfff + ((number >> 13) & 1)) >> 13;
    half_bits small = (half_bits)((half_floats)number + 0.5f) - 0x3f000000;

    result = pick((half_bits)(number < 0x38800000), small, normal);
    result = pick((half_bits)(number >= 0x477ff000), (half_bits){0} + 0x7c00, result);
    result = pick((half_bits)(number > 0x7f800000), (half_bits){0} + 0x7e00, result);
    return __builtin_convertvector(result | ((x >> 16) & 0x8000), half_words);
}

#include "libdist/collectives/combine_loops.inc"

static bool usable(void)
{
    return true;
}

const struct combine_loops combine_portable = {.name = "portable", .usable = usable, .run = ROWS};
