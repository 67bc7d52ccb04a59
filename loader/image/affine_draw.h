/* SPDX-License-Identifier: MIT */
/* affine_draw.h - what is drawn for an operation that moves pixels. */
#ifndef LOADER_IMAGE_AFFINE_DRAW_H
#define LOADER_IMAGE_AFFINE_DRAW_H

#include "common/pipeline.h"
#include "loader/image/affine.h"
#include "loader/image/image.h"

/** The map of a window of width x height by the draws from number `first` on, of which the first
 * word is spent. False: nothing is done. */
bool affine_draw(const struct pipeline_op *op, uint32_t first, const struct image_draw *draw,
                 uint32_t width, uint32_t height, struct affine *ret);

#endif
