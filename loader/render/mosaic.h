/* SPDX-License-Identifier: MIT */
/* mosaic.h - joins parts of four pictures to an image, and their masks to a mask.
 *
 * Each picture is rendered straight into its part, as an image of its own, mirrored if the whole
 * image is. The operations are then applied to the image. docs/pixels.md, 3.14, has the rules. */
#ifndef LOADER_RENDER_MOSAIC_H
#define LOADER_RENDER_MOSAIC_H

#include <stdint.h>

#include "common/pipeline/pipeline.h"
#include "loader/image/image.h"

enum { MOSAIC_PARTS = 4 };

/** One part. The first one shows the position's own picture. */
struct mosaic_part {
    struct pipeline pipeline; /* a pipeline that renders only this part */
    uint32_t left, top;       /* its place in the image */
};

/** The image that is being joined, and memory that is kept from image to image. Opaque. Threads:
 * one at a time. */
struct mosaic;

/** Returns 0 or -ENOMEM. */
int mosaic_create(struct mosaic **ret);
/** NULL is ignored. */
void mosaic_destroy(struct mosaic *mosaic);

/** Returns the bytes that a mosaic of this pipeline needs. */
uint64_t mosaic_most_bytes(const struct pipeline *pipeline);

/** Begin an image, and choose its parts. `view` is borrowed until the next one. Returns 0 or
 * -ENOMEM. */
int mosaic_begin(struct mosaic *mosaic, struct image_view *view);

const struct mosaic_part *mosaic_get_part(const struct mosaic *mosaic, uint32_t k);

/** Returns where a part's pixels are rendered, uint8 [3][height][width], or its mask's numbers. */
uint8_t *mosaic_get_room(const struct mosaic *mosaic);

/** Copy the k-th part's pixels to their place. */
void mosaic_put_part(struct mosaic *mosaic, uint32_t k);

/** Apply the operations, and write the image to the view's `dst`. Sets view->shown as if the image
 * showed only its own picture, and padding in place of the other parts. `own`: what the first
 * part's view has as `shown`. */
void mosaic_finish(struct mosaic *mosaic, const struct image_shown *own,
                   const struct image_store *store);

/** Begin a mask of the same image, with `item` bytes per number. Returns 0 or -ENOMEM. */
int mosaic_begin_mask(struct mosaic *mosaic, uint32_t item);
/** Copy the k-th part's mask to its place. */
void mosaic_put_mask(struct mosaic *mosaic, uint32_t k);
/** Move the mask like the image, and write it to `dst`. */
void mosaic_finish_mask(struct mosaic *mosaic, uint8_t *dst);

#endif
