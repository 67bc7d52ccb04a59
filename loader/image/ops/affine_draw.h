/* SPDX-License-Identifier: MIT */
/* affine_draw.h - draws the values of operations that move pixels. */
#ifndef LOADER_IMAGE_AFFINE_DRAW_H
#define LOADER_IMAGE_AFFINE_DRAW_H

#include "common/pipeline/pipeline.h"
#include "loader/image/image.h"
#include "loader/image/ops/affine.h"

/** Create the map of a window of width x height from the draws numbered from `first` on, whose
 * first word is already used. Returns false if the window stays unchanged, because no map has the
 * corners that were drawn. */
bool affine_draw(const struct pipeline_op *op, uint32_t first, const struct image_draw *draw,
                 uint32_t width, uint32_t height, struct affine *ret);

#endif
