/* SPDX-License-Identifier: MIT */
/* keypoints.h - transforms key points from a picture to an image of it. */
#ifndef LOADER_RENDER_KEYPOINTS_H
#define LOADER_RENDER_KEYPOINTS_H

#include <stdint.h>

#include <plenum/stream.h>

#include "common/data/fields.h"
#include "loader/image/image.h"

/**
 * Transform key points from a picture to an image of it: crop, flips, and operations that move or
 * erase pixels. All objects are kept, in their order. A point that the image does not show becomes
 * (0, 0, 0). docs/pixels.md, 3.9, defines this.
 *
 * @param bytes  the objects: for each, a struct field_pose and its points, in pixels of the
 *               picture; `len` bytes, not aligned. They fit into the shape.
 * @param view   the image, as rendered.
 * @param spec   the pairs of left and right points.
 * @param dst    a struct plenum_poses with room for shape->shape[0] objects of shape->shape[1]
 *               points, not aligned; it is written completely.
 */
void keypoints_show(const uint8_t *bytes, uint32_t len, const struct image_view *view,
                    const struct field_spec *spec, const struct field_shape *shape, uint8_t *dst);

#endif
