/* SPDX-License-Identifier: MIT */
/* png_rows.h - rows of a PNG that were filtered become pixels of four bytes. */
#ifndef LOADER_IMAGE_PNG_ROWS_H
#define LOADER_IMAGE_PNG_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PNG_ROWS_FILTERS = 5,
    /* Readable behind a filtered row. */
    PNG_ROWS_BEHIND = 1,
};

/** R, G and B of 8 bits, and maybe alpha: `step` 3 or 4.
 *
 * @param above  [width][4] the row above; zeros above the first one.
 * @param ret    [width][4]; may not overlap. */
void png_rows_pixels(uint32_t filter, uint32_t step, const uint8_t *filtered, const uint8_t *above,
                     uint8_t *ret, size_t width);

/** Bytes of any form; a pixel has `step` of them, or is less than one, and `step` is 1. */
void png_rows_bytes(uint32_t filter, uint32_t step, const uint8_t *filtered, const uint8_t *above,
                    uint8_t *ret, size_t len);

#endif
