/* SPDX-License-Identifier: MIT */
/* font.h - draws letters for contact sheets, on a canvas. */
#ifndef LOADER_CTL_FONT_H
#define LOADER_CTL_FONT_H

#include <stdint.h>

enum { FONT_WIDTH = 5, FONT_HEIGHT = 9 };

/** A picture to draw on: [height][width][3] RGB, borrowed. */
struct canvas {
    uint8_t *pixels;
    uint32_t width, height;
};

/** Where a line of text begins, and how it looks. */
struct line {
    uint32_t x, y, max_width; /* pixels; letters beyond max_width are omitted */
    uint32_t scale;           /* canvas pixels for each pixel of a letter */
    uint32_t ink;             /* 0xRRGGBB */
};

/** Fill columns [left, right) of rows [top, bottom) with a colour, clipped to the canvas. */
void canvas_fill(const struct canvas *canvas, uint32_t left, uint32_t top, uint32_t right,
                 uint32_t bottom, uint32_t colour);

/** Draw a line of text, clipped to the canvas. Each UTF-8 character that is not ASCII is drawn as
 * one '?'. */
void canvas_write(const struct canvas *canvas, const struct line *at, const char *text);

/** Returns a character's [FONT_HEIGHT] rows, with bit 4 on the left; those of '?' if it is not
 * printable ASCII. */
const uint8_t *font_glyph(char c);

#endif
