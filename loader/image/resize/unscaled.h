/* SPDX-License-Identifier: MIT */
/* unscaled.h - produces a sample whose pixels need no resizing: crops, pads, mirrors and stores
 * them.
 *
 * The resize would give the same bytes: if a side keeps its length, all weight of an output is on
 * the one pixel at its centre. But building its tables takes longer than processing all pixels of a
 * small image. */
#ifndef LOADER_IMAGE_UNSCALED_H
#define LOADER_IMAGE_UNSCALED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/image/image.h"
#include "loader/image/rect.h"
#include "loader/image/resize/crop.h"
#include "loader/image/scratch.h"

/** Tables kept from image to image. Starts as zeros. */
struct unscaled {
    /* int32 [width]: the pixel of a row that each output shows; -1: padding */
    struct scratch columns;
    /* int32 [height]: the row of `needed` that each output row shows; -1: padding */
    struct scratch rows;
    /* For the current sample. */
    uint32_t width, height;
    uint32_t run_begin, run_end; /* columns[run_begin ... run_end - 1] are neighbours */
    bool back;                   /* neighbours run from right to left */
    uint32_t pixel;              /* bytes of a pixel in the pushed rows */
    uint32_t rows_in, rows_out;  /* number of rows pushed, and of rows written */
    uint32_t fill;               /* R, G, B and a fourth byte of the padding, lowest byte first */
    bool planes, fourth;
    uint8_t flip, zero;
    uint8_t *dst;
};

void unscaled_fini(struct unscaled *unscaled);

/** For samples with more pixels than this, the resize writes planes faster, even if it has to build
 * its tables. */
enum { UNSCALED_PLANES_MAX = 96 * 96 };

/** Returns whether this crop uses the pixels unchanged, and copying them is worthwhile. */
static inline bool unscaled_suits(const struct crop *crop, const struct pipeline *pipeline,
                                  const struct image_store *store)
{
    return crop->box.width == crop->width && crop->box.height == crop->height &&
           (store->layout == PLENUM_NHWC ||
            pipeline->width * pipeline->height <= UNSCALED_PLANES_MAX);
}

/** Returns the pixels of the image that are shown. */
static inline struct rect unscaled_region(const struct crop *crop)
{
    return (struct rect){
        .left = crop->box.left + crop->window.left,
        .top = crop->box.top + crop->window.top,
        .width = crop->window.width,
        .height = crop->window.height,
    };
}

/**
 * Prepare for one sample, with its padding. Then push all rows of its unscaled_region().
 *
 * @param pixel   As for resize_begin(). RESIZE_BEHIND bytes after the end of a row may be read.
 * @param dst The sample's pixels, in the format of `store`; written by unscaled_push().
 *
 * Returns 0 or -ENOMEM.
 */
int unscaled_begin(struct unscaled *unscaled, const struct pipeline *pipeline,
                   const struct crop *crop, uint32_t pixel, const struct image_store *store,
                   void *dst);

/** Push the next `count` rows of the region, `pitch` bytes apart. */
void unscaled_push(struct unscaled *unscaled, const uint8_t *rows, size_t pitch, uint32_t count);

/** Returns whether all rows of the sample are written. */
static inline bool unscaled_done(const struct unscaled *unscaled)
{
    return unscaled->rows_out == unscaled->height;
}

#endif
