/* SPDX-License-Identifier: MIT */
/* jpeg_own.h - a JPEG decoder of our own, for what nearly all photographs are: baseline or
 * progressive, grey or three components.
 *
 * It gives exactly the pixels of libjpeg-turbo, or gives up: for a file of another kind, and for a
 * file in whose needed rows libjpeg would find an error; of a file with several scans, anywhere.
 * The caller then uses libjpeg, which has the error message, too. */
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
/** NULL is nothing. */
void jpeg_own_destroy(struct jpeg_own *own);

/** Use these loops from the next open() on; create() chose the best ones. */
void jpeg_own_use(struct jpeg_own *own, const struct jpeg_kernels *kernels);

/**
 * Read the header. `bytes` are borrowed until close(). `junk`: those that belong to no segment of
 * it are skipped.
 *
 * 0, JPEG_OWN_GIVES_UP or -ENOMEM, like all of them.
 */
int jpeg_own_open(struct jpeg_own *own, const uint8_t *bytes, size_t len, bool junk,
                  uint32_t *width, uint32_t *height);

/** Use and find tiles from now until close(). `hint` (jpeg_tiles.h) has tiles that were found
 * before; `len` 0: there is none. */
int jpeg_own_use_hint(struct jpeg_own *own, const uint8_t *hint, size_t len);

/** `region` lies inside the image and is not empty. */
int jpeg_own_seek(struct jpeg_own *own, const struct rect *region);

/** Some further rows of the region; not to be called after its last one. Once it gave up, only
 * open() may be called. */
int jpeg_own_read(struct jpeg_own *own, struct image_rows *ret);

/** After the last row: the tiles that are known now. Borrowed until open(). NULL: none is looked
 * for. */
const struct jpeg_tiles *jpeg_own_get_tiles(const struct jpeg_own *own);

/** Give back memory that only a large image needed. */
void jpeg_own_close(struct jpeg_own *own);

#endif
