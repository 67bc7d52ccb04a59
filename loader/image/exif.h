/* SPDX-License-Identifier: MIT */
/* exif.h - reads the only field of EXIF that changes pixels. */
#ifndef LOADER_IMAGE_EXIF_H
#define LOADER_IMAGE_EXIF_H

#include <stddef.h>
#include <stdint.h>

#include "loader/image/rect.h"

/** Returns the orientation, 1 ... 8, from a TIFF block (the data after "Exif\0\0"); 1 if it is
 * missing or invalid. */
uint8_t exif_of_tiff(const uint8_t *bytes, size_t len);

/** Returns the orientation of a JPEG file, from its first APP1 segment with EXIF before the first
 * scan; 1 if there is none. */
uint8_t exif_of_jpeg(const uint8_t *bytes, size_t len);

/** Returns whether the orientation swaps width and height. */
static inline int exif_swaps(uint8_t orientation)
{
    return orientation >= 5;
}

/** Returns the position of `seen`, a part of the turned image, in the stored image of width x
 * height. */
struct rect exif_to_stored(uint8_t orientation, struct rect seen, uint32_t width, uint32_t height);

/** Parameters for turning a region of the stored image. */
struct exif_turn {
    uint8_t orientation;
    uint32_t width, height; /* size of the stored region */
    uint32_t pixel;         /* bytes of a stored pixel; a byte after the last one may be read */
    uint8_t *turned;        /* the whole turned region, four bytes per pixel, without gaps */
};

/** Copy row `y` of the stored region to its position in the turned region. */
void exif_turn_row(const struct exif_turn *turn, const uint8_t *row, uint32_t y);

#endif
