/* SPDX-License-Identifier: MIT */
/* pad.h - adds padding to a sample that shows more than the image (docs/pixels.md, 3.5). */
#ifndef LOADER_IMAGE_PAD_H
#define LOADER_IMAGE_PAD_H

#include "common/pipeline/pipeline.h"
#include "loader/image/resize/crop.h"
#include "loader/image/scratch.h"

/** Tables and pixels, kept from image to image. Starts as zeros. */
struct pad {
    struct scratch seen; /* [3][crop->window.height][crop->window.width] */
    /* int32 [width]: the column of `seen` for each output; -1: the level of the padding */
    struct scratch columns;
};

void pad_fini(struct pad *pad);

/** Returns room for the window's pixels of a padded crop, which are mirrored if crop->mirror is
 * set; or NULL if memory runs out. */
uint8_t *pad_window(struct pad *pad, const struct pipeline *pipeline, const struct crop *crop);

/** Build the whole sample, planes[3][height][width], from the window's pixels. */
void pad_finish(struct pad *pad, const struct pipeline *pipeline, const struct crop *crop,
                uint8_t *planes);

/** Free the window if it has more than `keep` bytes. */
void pad_trim(struct pad *pad, size_t keep);

#endif
