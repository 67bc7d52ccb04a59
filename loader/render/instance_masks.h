/* SPDX-License-Identifier: MIT */
/* instance_masks.h - draws the masks of objects in an image of their picture. */
#ifndef LOADER_RENDER_INSTANCE_MASKS_H
#define LOADER_RENDER_INSTANCE_MASKS_H

#include <stdint.h>

#include "common/data/fields.h"
#include "loader/image/image.h"
#include "loader/image/scratch.h"
#include "loader/render/boxes.h"

/**
 * Draw the mask of each object whose box boxes_add() adds, in the same order, and add the objects
 * to those that the image already has. docs/pixels.md, 3.13, defines this.
 *
 * @param outlines  as field_make_instances() writes them, not aligned.
 * @param to        `dst` is a struct plenum_instances with its objects, and zeros behind them.
 * @param decoder   for image_find_places().
 * @param scratch   its contents are lost.
 *
 * Returns 0; -EBADMSG if an encoded mask has not the size of its picture; or -ENOMEM.
 */
int instance_masks_add(const struct image_file *outlines, const struct boxes_target *to,
                       struct image_decoder *decoder, struct scratch *scratch,
                       struct plenum_error *err);

#endif
