/* SPDX-License-Identifier: MIT */
/* keypoints.h - transforms key points from a picture to an image of it. */
#ifndef LOADER_RENDER_KEYPOINTS_H
#define LOADER_RENDER_KEYPOINTS_H

#include <stdint.h>

#include <plenum/stream.h>

#include "common/data/fields.h"
#include "loader/image/image.h"
#include "loader/render/moves.h"

/** Where key points are added. */
struct keypoints_target {
    const struct image_view *view;   /* the image, as rendered */
    struct moves_whole whole;        /* if `view` is a part of an image */
    struct moves_area area;          /* the part of the image that shows the points' picture */
    const struct field_spec *spec;   /* the pairs of left and right points */
    const struct field_shape *shape; /* the most objects, and the most points of an object */
    uint8_t *dst; /* a struct plenum_poses with its objects, and zeros behind them; not aligned */
};

/**
 * Transform key points from a picture to an image of it: crop, flips, and operations that move or
 * erase pixels; and add them to those that the image already has. All objects are kept, in their
 * order. A point that the image does not show becomes (0, 0, 0). docs/pixels.md, 3.9, defines this.
 *
 * @param bytes  the objects: for each, a struct field_pose and its points, in pixels of the
 *               picture; `len` bytes, not aligned. They fit into the target.
 */
void keypoints_add(const uint8_t *bytes, uint32_t len, const struct keypoints_target *to);

#endif
