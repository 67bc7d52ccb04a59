/* SPDX-License-Identifier: MIT */
/* unscaled.h - a sample whose pixels are those of the image: not resized, but cut, padded, mirrored
 * and stored.
 *
 * The resize would give the same bytes: where a side keeps its length, all weight of an output is
 * on the one sample at its centre. Its tables take longer than all pixels of a small image. */
#ifndef LOADER_IMAGE_UNSCALED_H
#define LOADER_IMAGE_UNSCALED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/image/crop.h"
#include "loader/image/image.h"
#include "loader/image/rect.h"
#include "loader/image/scratch.h"

/** Tables kept from image to image. Starts as zeros. */
struct unscaled {
    struct scratch columns; /* int32 [width]: which sample of a row each output is, -1: padding */
    struct scratch rows;    /* int32 [height]: likewise, of the rows of `needed` */
    /* Of this sample. */
    uint32_t width, height;
    uint32_t run_begin, run_end; /* columns[run_begin ... run_end - 1] are neighbours */
    bool back;                   /* from right to left */
    uint32_t pixel;              /* bytes of one in the rows that are pushed */
    uint32_t rows_in, rows_out;  /* pushed; written */
    uint32_t fill;               /* R, G, B and a fourth byte of the padding, lowest byte first */
    bool planes, fourth;
    uint8_t flip, zero;
    uint8_t *dst;
};

void unscaled_fini(struct unscaled *unscaled);

/** Pixels of a sample beyond which the resize makes planes faster, tables included. */
enum { UNSCALED_PLANES_MAX = 96 * 96 };

/** Does this crop take the pixels as they are, and does it pay to copy them? */
static inline bool unscaled_suits(const struct crop *crop, const struct pipeline *pipeline,
                                  const struct image_store *store)
{
    return crop->box.width == crop->width && crop->box.height == crop->height &&
           (store->layout == PLENUM_NHWC ||
            pipeline->width * pipeline->height <= UNSCALED_PLANES_MAX);
}

/**
 * Prepare for one sample, with its padding.
 *
 * @param pixel   As of resize_begin(): rows may be read up to RESIZE_BEHIND bytes behind their end.
 * @param dst     The sample's pixels as `store` says; written by unscaled_push(), each byte once.
 * @param needed  The pixels of the image that are shown: push their rows.
 *
 * 0 or -ENOMEM.
 */
int unscaled_begin(struct unscaled *unscaled, const struct pipeline *pipeline,
                   const struct crop *crop, uint32_t pixel, const struct image_store *store,
                   void *dst, struct rect *needed);

/** The next `count` rows of needed->width pixels each, `pitch` bytes apart. */
void unscaled_push(struct unscaled *unscaled, const uint8_t *rows, size_t pitch, uint32_t count);

/** Whether all rows of the sample are written. */
static inline bool unscaled_done(const struct unscaled *unscaled)
{
    return unscaled->rows_out == unscaled->height;
}

#endif
