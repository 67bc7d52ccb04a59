/* SPDX-License-Identifier: MIT */
/* picture_size.h - finds the width and height of encoded images in their first bytes. */
#ifndef LOADER_DATASET_PICTURE_SIZE_H
#define LOADER_DATASET_PICTURE_SIZE_H

#include <stddef.h>
#include <stdint.h>

#include "loader/dataset/dataset.h"
#include "loader/dataset/kept_table.h"

/** A size in pixels, as stored: EXIF's orientation is not applied. 0 x 0: not an image, or
 * damaged. */
struct picture_size {
    uint16_t width, height;
};

/** Find the size of a JPEG, PNG, WebP, AVIF or PPM. Returns 0 x 0 if these bytes do not contain
 * it. */
struct picture_size picture_size_find(const uint8_t *bytes, size_t len);

/**
 * Open the sizes of all samples: struct picture_size [samples] in `ret->bytes`. The first time,
 * this reads the beginning of every sample. Errors: those of kept_table_open() and dataset_read().
 */
int picture_size_open_all(const struct dataset *dataset, const struct dataset_options *options,
                          struct kept_table *ret, struct plenum_error *err);

#endif
