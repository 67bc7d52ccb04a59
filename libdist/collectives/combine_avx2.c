/* SPDX-License-Identifier: MIT */
/* combine_avx2.c - the loops of combine() for x86 processors with AVX2 and F16C. */
#include "config.h"

#include "libdist/collectives/combine_loops.h"

#ifdef __x86_64__

#include <cpuid.h>
#include <immintrin.h>
#include <string.h>

#define LOOP __attribute__((target("avx2,f16c")))
#define LOOP_INLINE static inline __attribute__((always_inline, target("avx2,f16c")))
#define VECTOR 32

typedef uint16_t half_words __attribute__((vector_size(VECTOR / 2)));

LOOP_INLINE __m256 half_widen(half_words v)
{
    return _mm256_cvtph_ps((__m128i)v);
}

LOOP_INLINE half_words half_narrow(__m256 v)
{
    return (half_words)_mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

#include "libdist/collectives/combine_loops.inc"

static bool usable(void)
{
    unsigned a, b, c = 0, d;

    /* Not every compiler knows the name "f16c" here. */
    return __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) != 0;
}

const struct combine_loops combine_avx2 = {.name = "AVX2", .usable = usable, .run = ROWS};

#endif
