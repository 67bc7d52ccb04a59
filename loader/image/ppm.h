/* SPDX-License-Identifier: MIT */
/* ppm.h - writes the header of raw pixels for plenumctl pack. */
#ifndef LOADER_IMAGE_PPM_H
#define LOADER_IMAGE_PPM_H

#include <stddef.h>
#include <stdint.h>

/** A line of the header, followed by 1 ... 8: other programs treat it as a comment. */
#define PPM_ORIENTATION "# EXIF orientation "

enum { PPM_HEADER_MAX = 64 };

/** Write the header of an image whose pixels follow as [height][width][3] RGB. Returns its length.
 * It contains no zero byte. */
size_t ppm_write_header(uint32_t width, uint32_t height, uint8_t orientation,
                        char ret[PPM_HEADER_MAX]);

#endif
