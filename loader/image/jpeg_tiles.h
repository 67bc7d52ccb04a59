/* SPDX-License-Identifier: MIT */
/* jpeg_tiles.h - where the tiles of one JPEG begin, and the hints that are kept of it.
 *
 * A tile is a run of some MCUs of a row. Where it begins in the entropy-coded data, only he knows
 * who has decoded all that is before it; with that and its DC predictions it can be decoded alone.
 * So a decoder that has read rows from the top records where their tiles began, and the next one
 * that wants a part of them goes there directly.
 *
 * A hint is a function of the file's bytes and of how many rows were read, and says so: it holds a
 * hash over all of the file, and is believed for no other. Rows are recorded only when they were
 * read from the top without a fault; so a file with damage above a crop is bad with a hint as
 * without.
 */
#ifndef LOADER_IMAGE_JPEG_TILES_H
#define LOADER_IMAGE_JPEG_TILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/image/jpeg_frame.h"
#include "loader/image/jpeg_scan.h"
#include "loader/image/scratch.h"

/** Starts as zeros. */
struct jpeg_tiles {
    uint32_t mcus;           /* of a tile; the last one of a row may have fewer; 0: no tiles */
    uint32_t across;         /* tiles in a row */
    uint32_t rows;           /* from the top whose tiles are known */
    uint32_t known;          /* of them, from a hint */
    uint32_t rows_max;       /* of the image */
    uint32_t components;     /* of the image */
    uint32_t len;            /* of the file, bytes */
    uint64_t hash;           /* of the file */
    struct jpeg_tile *tiles; /* [rows * across + 1]: the last one is where the next row begins */
    struct scratch room;     /* for these */
};

void jpeg_tiles_fini(struct jpeg_tiles *tiles);

/**
 * Begin with a file, of whose tiles none is known; or all that `hint` says, if it is one of this
 * file. Any bytes may be in it.
 *
 * `tiles->mcus` stays 0 where tiles are not worth it, or hints of them would be too large.
 * 0 or -ENOMEM.
 */
int jpeg_tiles_begin(struct jpeg_tiles *tiles, const struct jpeg_frame *frame, const uint8_t *bytes,
                     size_t len, const uint8_t *hint, size_t hint_len);

/** Bytes of a hint of all rows. */
size_t jpeg_tiles_hint_max(const struct jpeg_tiles *tiles);

/** Write a hint of all that is known into `to` [jpeg_tiles_hint_max()]; its length. 0: it would say
 * no more than the one that was given. */
size_t jpeg_tiles_hint(const struct jpeg_tiles *tiles, uint8_t *to);

#endif
