/* SPDX-License-Identifier: MIT */
/* crop.h - computes which part of an image a sample shows, and its size.
 *
 * Everything is a function of the pipeline, the draw (seed, epoch, position) and the size of the
 * image, in integers. */
#ifndef LOADER_IMAGE_CROP_H
#define LOADER_IMAGE_CROP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/order/philox.h"
#include "common/pipeline/pipeline.h"
#include "loader/image/image.h"
#include "loader/image/rect.h"

/** One axis of a sample that shows more than the image. The image is padded at both ends by `pad`
 * pixels, and then by `more`; output i shows position first + i of the result. */
struct crop_axis {
    uint32_t size; /* size of the resized image */
    uint32_t pad, more, first;
};

/** How an image is processed: `box` is resized to width x height, but only `window` of the result
 * is computed. */
struct crop {
    struct rect box;        /* in the image, in its orientation after EXIF */
    uint32_t width, height; /* size of the whole resized box */
    /* In the resized box: the sample, or the part of it that is visible there. */
    struct rect window;
    bool padded; /* `across` and `down` describe the sample: the window and padding */
    struct crop_axis across, down;
    bool mirror;                 /* swap left and right afterwards */
    enum pipeline_filter filter; /* the resize filter; not PIPELINE_RANDOM */
};

/** Tables that depend only on the pipeline, and boxes. Starts as zeros; kept from image to
 * image. */
struct crop_tables {
    /* The ratios that `root` was computed for; den = 0: none yet. */
    struct rational ratio_min, ratio_max;
    struct image_boxes boxes; /* of this image, for iou_crop */
    uint64_t root[32];        /* (ratio_max / ratio_min) ^ (2^-1 ... 2^-32), times 2^48 */
};

/** Returns n * (low + (high - low) * word / 2^32), rounded down. */
uint64_t crop_scaled(uint64_t n, struct rational low, struct rational high, uint32_t word);

/** Draw the sides of a rectangle that covers a random part of `area` pixels, using the first two
 * words of a draw: `width` is sqrt(area * ratio), `height` sqrt(area / ratio), to the nearest
 * pixel. Either may be too large, or 0. */
void crop_draw_sides(const struct pipeline_shape *shape, uint64_t area,
                     const struct philox_block *draw, struct crop_tables *tables, uint64_t *width,
                     uint64_t *height);

/** Get the area that the sample shows, as left, top, right and bottom in pixels of the image: the
 * nearest floats to the exact positions. */
void crop_shown(const struct crop *crop, const struct pipeline *pipeline, float ret[4]);

/** Map x into 0 ... n - 1 by the rule of `mode`, or return -1. */
static inline int64_t crop_fold(enum pipeline_pad mode, int64_t x, int64_t n)
{
    int64_t period = mode == PIPELINE_REFLECT ? 2 * (n - 1) : 2 * n;

    if (x >= 0 && x < n)
        return x;
    if (mode == PIPELINE_CONSTANT)
        return -1;
    if (mode == PIPELINE_EDGE || period == 0)
        return x < 0 ? 0 : n - 1;
    x = (x % period + period) % period;
    return x < n ? x : period - x - (mode == PIPELINE_SYMMETRIC);
}

/** Returns which pixel of the resized image is shown by output `i` of an axis; -1: the level of the
 * padding. */
static inline int64_t crop_source(enum pipeline_pad mode, const struct crop_axis *axis, uint32_t i)
{
    int64_t size = axis->size, pad = axis->pad, x = (int64_t)axis->first + i - axis->more;

    if (mode != PIPELINE_CONSTANT) /* positions beyond the padding, too */
        x = crop_fold(mode, x, size + 2 * pad);
    return crop_fold(mode, x - pad, size);
}

/** Store crop_source() of outputs 0 ... count - 1 in `ret`, minus `first`, in reverse order if
 * `mirror`. -1 marks an output that shows padding. `first` must not exceed any position shown. */
void crop_places(enum pipeline_pad mode, const struct crop_axis *axis, uint32_t first, bool mirror,
                 uint32_t count, int32_t *ret);

/** Find the longest run begin ... end - 1 in which each position differs by `step` (1 or -1) from
 * the previous one. It is empty if all are padding. */
void crop_longest_run(const int32_t *places, uint32_t count, int32_t step, uint32_t *begin,
                      uint32_t *end);

/**
 * Compute which part of an image of `width` x `height` pixels a sample shows, and its size.
 *
 * `width` and `height` must be 1 ... IMAGE_SIDE_MAX, and their product at most IMAGE_PIXELS_MAX.
 * The pipeline must decode images.
 */
void crop_locate(const struct pipeline *pipeline, const struct image_draw *draw, uint32_t width,
                 uint32_t height, struct crop_tables *tables, struct crop *ret);

#endif
