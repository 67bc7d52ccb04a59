/* SPDX-License-Identifier: MIT */
/* avx2.h - attributes of functions for x86 processors with AVX2. Included only where such functions
 * are built. */
#ifndef LOADER_IMAGE_AVX2_H
#define LOADER_IMAGE_AVX2_H

#include <immintrin.h>

#define AVX2 __attribute__((target("avx2")))
#define AVX2_INLINE static inline __attribute__((always_inline, target("avx2")))

#endif
