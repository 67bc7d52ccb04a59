/* SPDX-License-Identifier: MIT */
/* jpeg_own.h - our own JPEG decoder, for nearly all photographs: baseline or progressive, grey,
 * colour or CMYK.
 *
 * It produces exactly the pixels of libjpeg-turbo, or gives up: on an unsupported kind of file, and
 * on a file in whose needed rows libjpeg would find an error (or anywhere, if the file has several
 * scans). The caller then uses libjpeg, which also provides the error message. */
#ifndef LOADER_IMAGE_JPEG_OWN_H
#define LOADER_IMAGE_JPEG_OWN_H

#include <stddef.h>
#include <stdint.h>

#include "loader/image/reader.h"

struct jpeg_own;
struct jpeg_kernels;
struct jpeg_tiles;

/** The functions below return this when libjpeg must decode the file. */
enum { JPEG_OWN_GIVES_UP = 1 };

int jpeg_own_create(struct jpeg_own **ret);
/** NULL is ignored. */
void jpeg_own_destroy(struct jpeg_own *own);

/** Use these loops from the next open() on. jpeg_own_create() has chosen the best ones. */
void jpeg_own_use(struct jpeg_own *own, const struct jpeg_kernels *kernels);

/**
 * Read the header. `bytes` are borrowed until close(). `junk`: skip bytes of the header that belong
 * to no segment.
 *
 * Returns 0, JPEG_OWN_GIVES_UP or -ENOMEM, like all of these functions.
 */
int jpeg_own_open(struct jpeg_own *own, const uint8_t *bytes, size_t len, bool junk,
                  uint32_t *width, uint32_t *height);

/** Use and find tiles until the next open(); a file with several scans has none. `hint`
 * (jpeg_tiles.h, only read here) has tiles that were found earlier; `len` is 0 if there is no
 * hint. */
int jpeg_own_use_hint(struct jpeg_own *own, const uint8_t *hint, size_t len);

/** Choose the region to read. It must lie inside the image, and must not be empty. */
int jpeg_own_seek(struct jpeg_own *own, const struct rect *region);

/** Read the next rows of the region. It must not be called after the region's last row, and after
 * the decoder has given up, only open() may be called. */
int jpeg_own_read(struct jpeg_own *own, struct image_rows *ret);

/** Call it after the last row. Returns the tiles known then, borrowed until open(), or NULL if
 * tiles are not being recorded. */
const struct jpeg_tiles *jpeg_own_get_tiles(const struct jpeg_own *own);

/** Free memory that only a large image needed. */
void jpeg_own_close(struct jpeg_own *own);

#endif
