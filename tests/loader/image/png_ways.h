/* SPDX-License-Identifier: MIT */
/* png_ways.h - our own PNG decoder and libpng side by side, and files that are damaged where a
 * checksum does not tell. */
#ifndef TESTS_LOADER_IMAGE_PNG_WAYS_H
#define TESTS_LOADER_IMAGE_PNG_WAYS_H

#include "loader/image/reader.h"
#include "tests/loader/image/made.h"

/** Ends the program when there is no memory. */
struct png_ways *png_ways_create(void);
void png_ways_destroy(struct png_ways *ways);

/**
 * Read a region both ways and compare: header, decision and sentence; of a good one the pixels.
 *
 * @param dice  Choose the region.
 * @param mask  As in struct image_reader.
 * @param why   What differs, for a message; [300].
 *
 * Images of more than 2^20 pixels are left out.
 */
bool png_ways_agree(struct png_ways *ways, const uint8_t *bytes, size_t len, uint32_t mask,
                    const uint32_t dice[4], char why[300]);
/** Whether libpng found the last file good, and whether our own decoder did not give up on it. */
bool png_ways_were_good(const struct png_ways *ways);
bool png_ways_were_own(const struct png_ways *ways);

/** Make all checksums right: of chunks, and, where `data`, of what the IDATs hold, as far as it can
 * be inflated. */
void png_mend(uint8_t *bytes, size_t len, bool data);

/** The same file with its IDATs cut into others of 0 to `most` bytes. Ownership: free(). */
struct made png_cut(const struct made *file, uint32_t most, uint32_t seed);

/** CRC-32, bit by bit. */
uint32_t png_slow_crc(const uint8_t *bytes, size_t len);

#endif
