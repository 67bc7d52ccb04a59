/* SPDX-License-Identifier: MIT */
/* iou.h - draws crops that keep enough of a box, like SSD's. */
#ifndef LOADER_IMAGE_IOU_H
#define LOADER_IMAGE_IOU_H

#include <stdbool.h>
#include <stdint.h>

#include "common/pipeline/pipeline.h"
#include "loader/image/image.h"
#include "loader/image/rect.h"

/** A canvas, and where the picture lies on it. */
struct iou_canvas {
    uint32_t width, height;
    struct rect picture;
};

/** Draw a crop of a canvas, of which a box's centre and some share are inside. Returns false if all
 * of the canvas is to be shown. */
bool iou_draw(const struct pipeline *pipeline, const struct image_draw *draw,
              const struct image_boxes *boxes, const struct iou_canvas *canvas, struct rect *ret);

#endif
