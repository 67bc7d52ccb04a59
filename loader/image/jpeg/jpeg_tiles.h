/* SPDX-License-Identifier: MIT */
/* jpeg_tiles.h - records where the tiles of one JPEG begin, and stores this in hints.
 *
 * A tile is a run of MCUs in a row of the image. Nothing in the entropy-coded data marks where a
 * tile begins: a decoder finds that only by decoding everything before it. If the bit position of
 * its beginning and its DC predictions are known, a tile can be decoded alone. So a decoder that
 * has read rows from the top records where their tiles begin, and later decoders go directly to the
 * tiles that they need.
 *
 * A hint depends only on the bytes of the file and on the number of rows that were read. It
 * contains a hash of the whole file, and is used only for that file. Rows are recorded only after
 * they were read from the top without an error. So if a file is damaged above a crop, it is a bad
 * sample even with a hint. */
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
    uint32_t mcus;           /* MCUs per tile; the last tile of a row may have fewer; 0: no tiles */
    uint32_t across;         /* tiles in a row */
    uint32_t rows;           /* rows from the top whose tiles are known */
    uint32_t known;          /* rows from the top whose tiles came from a hint */
    uint32_t rows_max;       /* MCU rows of the image */
    uint32_t components;     /* components of the image */
    uint32_t len;            /* bytes of the file */
    uint64_t hash;           /* hash of the file */
    struct jpeg_tile *tiles; /* [rows * across + 1]; the last entry is where the next row begins */
    struct scratch room;     /* memory for `tiles` */
};

void jpeg_tiles_fini(struct jpeg_tiles *tiles);

/**
 * Start with a new file. The tiles in `hint` are used if it is this file's hint; `hint` may contain
 * arbitrary bytes.
 *
 * `tiles->mcus` becomes 0 if the image is too small or the file too large for tiles, if a hint
 * would be too large, or if memory runs out. Returns 0 or -ENOMEM.
 */
int jpeg_tiles_begin(struct jpeg_tiles *tiles, const struct jpeg_frame *frame, const uint8_t *bytes,
                     size_t len, const uint8_t *hint, size_t hint_len);

/** Returns the size in bytes of a hint for all rows. */
size_t jpeg_tiles_hint_max(const struct jpeg_tiles *tiles);

/** Write a hint with the known rows before the first that has a tile of 8 KiB or more into `to`
 * [jpeg_tiles_hint_max()]. Returns its length, or 0 if it has no more rows than the hint that was
 * passed in. */
size_t jpeg_tiles_hint(const struct jpeg_tiles *tiles, uint8_t *to);

#endif
