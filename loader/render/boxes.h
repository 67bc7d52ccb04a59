/* SPDX-License-Identifier: MIT */
/* boxes.h - transforms the boxes of a picture to an image that shows part of it. */
#ifndef LOADER_RENDER_BOXES_H
#define LOADER_RENDER_BOXES_H

#include <stdint.h>

#include <plenum/stream.h>

#include "loader/image/image.h"

/**
 * Transform boxes of a picture to an image of it, and clip them at its edges. Boxes are dropped if
 * they have no area, if the image shows none of them, or if it shows less than the requested share;
 * the others keep their order. docs/pixels.md, 3.8.
 *
 * @param boxes    [count], in pixels of the picture, not aligned.
 * @param view     the image, as rendered.
 * @param visible  the smallest share of a box that must be shown, in 1/10000.
 * @param dst      a struct plenum_boxes with room for `most`, at least `count`, not aligned; it is
 *                 written completely.
 */
void boxes_show(const uint8_t *boxes, uint32_t count, const struct image_view *view,
                uint32_t visible, uint32_t most, uint8_t *dst);

#endif
