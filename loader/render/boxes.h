/* SPDX-License-Identifier: MIT */
/* boxes.h - the boxes of a picture, as an image shows them. */
#ifndef LOADER_RENDER_BOXES_H
#define LOADER_RENDER_BOXES_H

#include <stdint.h>

#include <plenum/stream.h>

#include "loader/image/image.h"

/**
 * Move boxes of a picture to an image of it, and cut them off at its edges. Those without an area,
 * of which the image shows nothing, or a smaller share than asked for, are left out; the others
 * keep their order. docs/pixels.md, 3.8.
 *
 * @param boxes    [count], in pixels of the picture, not aligned.
 * @param shown    what the image shows.
 * @param width    of the image.
 * @param visible  the least share of a box that must be shown, in 1/10000.
 * @param dst      a struct plenum_boxes with room for `most`, at least `count`, not aligned; all of
 *                 it is written.
 */
void boxes_show(const uint8_t *boxes, uint32_t count, const struct image_shown *shown,
                uint32_t width, uint32_t height, uint32_t visible, uint32_t most, uint8_t *dst);

#endif
