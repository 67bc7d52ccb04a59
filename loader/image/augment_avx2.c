/* SPDX-License-Identifier: MIT */
/* augment_avx2.c - the loops of augment_loops.inc for x86 processors with AVX2. */
#include "config.h"

#ifdef __x86_64__ /* gcc vectorises loops from -O3 on. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#include "loader/image/augment_loops.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "loader/image/avx2.h"

#define LOOP AVX2
#include "loader/image/augment_hue.inc"
#include "loader/image/augment_loops.inc"

const struct augment_loops augment_avx2 = LOOPS_TABLE("avx2");

#endif
