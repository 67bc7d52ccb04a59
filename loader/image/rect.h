/* SPDX-License-Identifier: MIT */
/* rect.h - a rectangle of pixels, and how EXIF turns an image. */
#ifndef LOADER_IMAGE_RECT_H
#define LOADER_IMAGE_RECT_H

#include <stdint.h>

struct rect {
    uint32_t left, top, width, height;
};

#endif
