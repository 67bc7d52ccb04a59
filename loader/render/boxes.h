/* SPDX-License-Identifier: MIT */
/* boxes.h - transforms boxes from a picture to an image of it. */
#ifndef LOADER_RENDER_BOXES_H
#define LOADER_RENDER_BOXES_H

#include <stdbool.h>
#include <stdint.h>

#include <plenum/stream.h>

#include "loader/image/image.h"
#include "loader/render/moves.h"

/** Where boxes are added. */
struct boxes_target {
    const struct image_view *view; /* the image, as rendered */
    struct moves_whole whole;      /* if `view` is a part of an image */
    struct moves_area area;        /* the part of the image that shows the boxes' picture */
    uint32_t visible;              /* the smallest share of a box that must be shown, in 1/10000 */
    uint32_t most;                 /* boxes that `dst` has room for */
    uint8_t *dst; /* a struct plenum_boxes with its boxes, and zeros behind them; not aligned */
};

/**
 * Transform boxes from a picture to an image of it: crop, flips and other operations that move
 * pixels; and add them to those that the image already has. A box is dropped if it has no area, if
 * the image does not show it, or if the image shows too little of it; the others keep their order.
 * docs/pixels.md, 3.8, defines this.
 *
 * @param boxes  [count], in pixels of the picture, not aligned. They fit into the target.
 */
void boxes_add(const uint8_t *boxes, uint32_t count, const struct boxes_target *to);

/** Transform one box, with the operations that moves_draw() has drawn for the image. Returns false
 * if it is dropped. */
bool boxes_show_one(const struct plenum_box *box, const struct boxes_target *to,
                    const struct moves *moves, struct plenum_box *ret);

#endif
