/* SPDX-License-Identifier: MIT */
/* png_own.h - our own decoder of PNGs, for the common ones without any fault.
 *
 * What it decodes has the pixels that libpng gives, and libpng has no error to report. It gives up
 * on all else, also in the middle of an image, and says nothing of it: whoever asked has libpng
 * decode the file, and judge it. */
#ifndef LOADER_IMAGE_PNG_OWN_H
#define LOADER_IMAGE_PNG_OWN_H

#include "loader/image/reader.h"

struct png_own;

/** Ownership: `*ret` ends with png_own_destroy(). -ENOMEM. */
int png_own_create(struct png_own **ret);
/** NULL is nothing. */
void png_own_destroy(struct png_own *o);

/** `mask` as in struct image_reader; `bytes` are borrowed until png_own_close(). -ENOTSUP: it gives
 * up, like all of these. */
int png_own_open(struct png_own *o, const uint8_t *bytes, size_t len, uint32_t mask,
                 struct image_header *ret);
/** -ENOTSUP, -ENOMEM. */
int png_own_seek(struct png_own *o, const struct rect *region);
int png_own_read(struct png_own *o, struct image_rows *ret);
void png_own_close(struct png_own *o);

#endif
