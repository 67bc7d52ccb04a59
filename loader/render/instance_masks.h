/* SPDX-License-Identifier: MIT */
/* instance_masks.h - draws the masks of objects in an image of their picture. */
#ifndef LOADER_RENDER_INSTANCE_MASKS_H
#define LOADER_RENDER_INSTANCE_MASKS_H

#include <stdint.h>

#include "common/data/fields.h"
#include "loader/image/image.h"
#include "loader/image/scratch.h"

/** The outlines of a sample's objects. */
struct instance_outlines {
    const uint8_t *bytes; /* [len], as field_make_instances() writes them; borrowed, not aligned */
    uint32_t len;
    uint32_t visible; /* the smallest share of a box that must be shown, in 1/10000 */
    uint32_t most;    /* objects for which there is room */
};

/**
 * Draw the mask of each object whose box boxes_show() keeps, in the same order. docs/pixels.md,
 * 3.10, defines this.
 *
 * @param decoder  for image_find_places().
 * @param view     the image, as rendered.
 * @param scratch  its contents are lost.
 * @param dst      a struct plenum_instances with room for `most` objects, not aligned; it is
 *                 written completely.
 *
 * Returns 0; -EBADMSG if an encoded mask has not the size of its picture; or -ENOMEM.
 */
int instance_masks_show(const struct instance_outlines *outlines, struct image_decoder *decoder,
                        const struct image_view *view, struct scratch *scratch, uint8_t *dst,
                        struct plenum_error *err);

#endif
