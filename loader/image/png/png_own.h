/* SPDX-License-Identifier: MIT */
/* png_own.h - Plenum's own decoder for common PNGs that have no errors.
 *
 * It decodes only files for which libpng gives the same pixels and reports no error. For any other
 * file it gives up, even in the middle of an image, without a reason: the caller then uses libpng,
 * which decodes the file and reports errors. */
#ifndef LOADER_IMAGE_PNG_OWN_H
#define LOADER_IMAGE_PNG_OWN_H

#include "loader/image/reader.h"

struct png_own;

/** Create a decoder. Free it with png_own_destroy(). Returns 0 or -ENOMEM. */
int png_own_create(struct png_own **ret);
/** NULL is ignored. */
void png_own_destroy(struct png_own *o);

/** Read the header. `mask`: as in struct image_reader; `bytes` are borrowed until png_own_close().
 * Returns -ENOTSUP if the decoder gives up, like all of these functions. */
int png_own_open(struct png_own *o, const uint8_t *bytes, size_t len, uint32_t mask,
                 struct image_header *ret);
/** Choose the region to read, and check the compressed data. Returns 0, -ENOTSUP (libpng must
 * decode this file, or report its damage) or -ENOMEM. */
int png_own_seek(struct png_own *o, const struct rect *region);
int png_own_read(struct png_own *o, struct image_rows *ret);
void png_own_close(struct png_own *o);

#endif
