/* SPDX-License-Identifier: MIT */
/* png_ways.h - compares our own PNG decoder with libpng, and damages files in ways that no checksum
 * reveals. */
#ifndef TESTS_LOADER_IMAGE_PNG_WAYS_H
#define TESTS_LOADER_IMAGE_PNG_WAYS_H

#include "loader/image/reader.h"
#include "tests/loader/image/made.h"

/** Create a comparison. Ends the program if memory runs out. */
struct png_ways *png_ways_create(void);
void png_ways_destroy(struct png_ways *ways);

/**
 * Read a region with both decoders, and compare headers, decisions and messages, and pixels if the
 * file is good.
 *
 * @param dice  Random words that select the region.
 * @param mask  As in struct image_reader.
 * @param why   What differs, for a message; [300].
 *
 * Of images with more than 2^20 pixels, only the headers are compared.
 */
bool png_ways_agree(struct png_ways *ways, const uint8_t *bytes, size_t len, uint32_t mask,
                    const uint32_t dice[4], char why[300]);
/** These return whether libpng accepted the last file, and whether our own decoder did not give up
 * on it. */
bool png_ways_were_good(const struct png_ways *ways);
bool png_ways_were_own(const struct png_ways *ways);

/** Correct the checksums of all chunks, and with `data` also the checksum of the data in the IDATs,
 * as far as they can be inflated. */
void png_mend(uint8_t *bytes, size_t len, bool data);

/** Returns the file with its IDATs split into IDATs of 0 to `most` bytes. Ownership: free(). */
struct made png_cut(const struct made *file, uint32_t most, uint32_t seed);

/** Returns the CRC-32, computed bit by bit. */
uint32_t png_slow_crc(const uint8_t *bytes, size_t len);

#endif
