/* SPDX-License-Identifier: MIT */
/* rect.h - a rectangle of pixels. */
#ifndef LOADER_IMAGE_RECT_H
#define LOADER_IMAGE_RECT_H

#include <stdint.h>

struct rect {
    uint32_t left, top, width, height;
};

/** Returns the smallest rectangle that contains both. */
static inline struct rect rect_union(struct rect a, struct rect b)
{
    uint32_t left = a.left < b.left ? a.left : b.left, top = a.top < b.top ? a.top : b.top;
    uint32_t right = a.left + a.width > b.left + b.width ? a.left + a.width : b.left + b.width;
    uint32_t bottom = a.top + a.height > b.top + b.height ? a.top + a.height : b.top + b.height;

    return (struct rect){left, top, right - left, bottom - top};
}

#endif
