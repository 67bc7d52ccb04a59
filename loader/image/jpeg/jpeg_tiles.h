/* SPDX-License-Identifier: MIT */
/* jpeg_tiles.h - where the tiles of one JPEG begin, and the hints that store this.
 *
 * A tile is a run of MCUs in a row of the image. Nothing in the entropy-coded data marks where it
 * begins: a decoder finds that only by decoding everything before it. With the bit position of its
 * beginning and its DC predictions a tile can be decoded alone. So a decoder that has read rows
 * from the top records where their tiles begin, and the next one goes directly to the tiles that it
 * needs.
 *
 * A hint depends only on the bytes of the file and on the number of rows that were read. It holds a
 * hash of the whole file and is used for no other file. Rows are recorded only after they were read
 * from the top without an error. So a file that is damaged above a crop is a bad sample with a
 * hint, too. */
#ifndef LOADER_IMAGE_JPEG_TILES_H
#define LOADER_IMAGE_JPEG_TILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/image/jpeg/jpeg_frame.h"
#include "loader/image/jpeg/jpeg_scan.h"
#include "loader/image/scratch.h"

/** Starts as zeros. */
struct jpeg_tiles {
    uint32_t mcus;           /* per tile; the last one of a row may have fewer; 0: no tiles */
    uint32_t across;         /* tiles in a row */
    uint32_t rows;           /* rows from the top whose tiles are known */
    uint32_t known;          /* of which this many are known from a hint */
    uint32_t rows_max;       /* MCU rows of the image */
    uint32_t components;     /* components of the image */
    uint32_t len;            /* bytes of the file */
    uint64_t hash;           /* hash of the file */
    struct jpeg_tile *tiles; /* [rows * across + 1]: the last one is where the next row begins */
    struct scratch room;     /* memory for `tiles` */
};

void jpeg_tiles_fini(struct jpeg_tiles *tiles);

/**
 * Start with a new file. The tiles in `hint` are used if it is a hint of this file; it may contain
 * arbitrary bytes.
 *
 * `tiles->mcus` stays 0 if the image is too small for tiles, or if a hint would be too large.
 * Returns 0 or -ENOMEM.
 */
int jpeg_tiles_begin(struct jpeg_tiles *tiles, const struct jpeg_frame *frame, const uint8_t *bytes,
                     size_t len, const uint8_t *hint, size_t hint_len);

/** Returns the bytes of a hint for all rows. */
size_t jpeg_tiles_hint_max(const struct jpeg_tiles *tiles);

/** Write a hint with all known tiles into `to` [jpeg_tiles_hint_max()]. Returns its length, or 0 if
 * it has no more tiles than the one that was passed in. */
size_t jpeg_tiles_hint(const struct jpeg_tiles *tiles, uint8_t *to);

#endif
