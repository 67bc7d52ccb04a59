/* SPDX-License-Identifier: MIT */
/* png_sums.h - the two checksums of a PNG: of chunks, and of what its zlib stream holds. */
#ifndef LOADER_IMAGE_PNG_SUMS_H
#define LOADER_IMAGE_PNG_SUMS_H

#include <stddef.h>
#include <stdint.h>

/** CRC-32 of [len] bytes. */
uint32_t png_crc32(const uint8_t *bytes, size_t len);
/** The same, by plain loops. */
uint32_t png_crc32_portable(const uint8_t *bytes, size_t len);

/** Adler-32 of these behind others; 1: of none. */
uint32_t png_adler32(uint32_t adler, const uint8_t *bytes, size_t len);

#endif
