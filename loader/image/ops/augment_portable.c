/* SPDX-License-Identifier: MIT */
/* augment_portable.c - the loops of augment_loops.inc for every processor. */
#include "config.h"

/* gcc vectorises loops only at -O3. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#include "loader/image/ops/augment_loops.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define LOOP
#include "loader/image/ops/augment_hsv.inc"
#include "loader/image/ops/augment_hue.inc"
#include "loader/image/ops/augment_loops.inc"

const struct augment_loops augment_portable = {
    .name = "portable",
    .affine = &affine_portable,
    .pointwise =
        {PLAIN_POINTWISE, [PIPELINE_BRIGHTNESS] = {.levels = scale},
         [PIPELINE_SATURATION] = {.pixels = blend_gray}, [PIPELINE_GRAYSCALE] = {.pixels = gray}},
    .blend_level = blend_level,
    .sum_gray = sum_gray,
    .find_range = find_range,
    .noise = noise,
    .sharpen = sharpen,
    .table = table,
    .sum_windows = sum_windows,
    .store_pixels = store_pixels,
    .store_bytes = store_bytes,
    .stream_pixels = store_pixels,
    .stream_bytes = store_bytes,
    .mix = mix,
};
