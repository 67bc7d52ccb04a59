/* SPDX-License-Identifier: MIT */
/* png_rows.h - turns filtered rows of a PNG into pixels of four bytes. */
#ifndef LOADER_IMAGE_PNG_ROWS_H
#define LOADER_IMAGE_PNG_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PNG_ROWS_FILTERS = 5 };

/** Process R, G and B of 8 bits, and possibly alpha: `step` is 3 or 4.
 *
 * @param filtered A byte after the row must be readable.
 * @param above     [width][4] the row above; zeros above the first one.
 * @param ret       [width][4]; may not overlap. */
void png_rows_pixels(uint32_t filter, uint32_t step, const uint8_t *filtered, const uint8_t *above,
                     uint8_t *ret, size_t width);

/** Process bytes in any format: a pixel has `step` bytes, or less than one byte if `step` is 1. */
void png_rows_bytes(uint32_t filter, uint32_t step, const uint8_t *filtered, const uint8_t *above,
                    uint8_t *ret, size_t len);

#endif
