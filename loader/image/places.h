/* SPDX-License-Identifier: MIT */
/* places.h - a reader of made-up images, whose pixels are their own columns or rows. Rendered like
 * a mask, such an image says which pixel of the picture each pixel of a sample shows. */
#ifndef LOADER_IMAGE_PLACES_H
#define LOADER_IMAGE_PLACES_H

#include "loader/image/reader.h"
#include "loader/image/scratch.h"

/** Zero-initialised, except `base.ops`; free `strip` afterwards. */
struct places_reader {
    struct image_reader base;
    bool rows; /* pixels are their rows, not their columns */
    struct rect region;
    uint32_t rows_done;
    struct scratch strip;
};

/** Has only seek() and read(). The low and high bytes of a number are delivered as R and G. */
extern const struct image_reader_ops places_reader_ops;

#endif
