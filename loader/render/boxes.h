/* SPDX-License-Identifier: MIT */
/* boxes.h - transforms boxes from a picture to an image of it. */
#ifndef LOADER_RENDER_BOXES_H
#define LOADER_RENDER_BOXES_H

#include <stdbool.h>
#include <stdint.h>

#include <plenum/stream.h>

#include "loader/image/image.h"

struct moves;

/**
 * Transform boxes from a picture to an image of it: crop, flips and other operations that move
 * pixels. A box is dropped if it has no area, if the image does not show it, or if the image shows
 * less than `visible` of it; the others keep their order. docs/pixels.md, 3.8, defines this.
 *
 * @param boxes    [count], in pixels of the picture, not aligned.
 * @param view     the image, as rendered.
 * @param visible  the smallest share of a box that must be shown, in 1/10000.
 * @param dst      a struct plenum_boxes with room for `most`, at least `count`, not aligned; it is
 *                 written completely.
 */
void boxes_show(const uint8_t *boxes, uint32_t count, const struct image_view *view,
                uint32_t visible, uint32_t most, uint8_t *dst);

/** Transform one box, with the operations that moves_draw() has drawn for the image. Returns false
 * if it is dropped. */
bool boxes_show_one(const struct plenum_box *box, const struct image_view *view,
                    const struct moves *moves, uint32_t visible, struct plenum_box *ret);

#endif
