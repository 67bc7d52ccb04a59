/* SPDX-License-Identifier: MIT */
/* png_sums.h - computes a PNG's two checksums: that of a chunk, and that of the decompressed
 * data. */
#ifndef LOADER_IMAGE_PNG_SUMS_H
#define LOADER_IMAGE_PNG_SUMS_H

#include <stddef.h>
#include <stdint.h>

/** Returns the CRC-32 of `bytes` [len]. */
uint32_t png_crc32(const uint8_t *bytes, size_t len);
/** Like png_crc32(), with plain loops. */
uint32_t png_crc32_portable(const uint8_t *bytes, size_t len);

/** Extend an Adler-32 by these bytes; start with 1. */
uint32_t png_adler32(uint32_t adler, const uint8_t *bytes, size_t len);

#endif
