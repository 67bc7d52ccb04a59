/* SPDX-License-Identifier: MIT */
/* fixed.h - fixed-point numbers. */
#ifndef LOADER_IMAGE_FIXED_H
#define LOADER_IMAGE_FIXED_H

#include <stdint.h>

/** Returns num / den times 2^bits, rounded to the nearest integer, halves up. |num| < 2^(61 -
 * bits), 0 < den < 2^61. */
static inline int64_t fixed_of(int64_t num, int64_t den, unsigned bits)
{
    int64_t twice = num * (INT64_C(2) << bits) + den, by = 2 * den;

    return twice / by - (twice % by < 0);
}

#endif
