/* SPDX-License-Identifier: MIT */
/* font.h - letters for contact sheets. */
#ifndef LOADER_CTL_FONT_H
#define LOADER_CTL_FONT_H

#include <stdint.h>

enum { FONT_WIDTH = 5, FONT_HEIGHT = 9 };

/** [FONT_HEIGHT] rows, bit 4 on the left; '?' for what is not printable ASCII. */
const uint8_t *font_glyph(char c);

#endif
