/* SPDX-License-Identifier: MIT */
/* yuv.h - converts planes of luma and chroma, the form in which video codecs store an image, to
 * 8-bit RGB.
 *
 * Uses integers, so that every compiler and processor produces the same bytes (docs/pixels.md,
 * 4.6). */
#ifndef LOADER_IMAGE_YUV_H
#define LOADER_IMAGE_YUV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Planes Y, Cb, Cr. Samples are bytes at a depth of 8, otherwise 16 bits in this machine's byte
 * order. */
struct yuv_image {
    const uint8_t *planes[3]; /* borrowed */
    size_t pitches[3];        /* distances of rows in bytes */
    uint32_t width, height;   /* size of the first plane */
    uint32_t depth;           /* 8, 10 or 12 */
    bool mono;                /* only the first plane exists */
    bool half_x, half_y;      /* chroma has half the columns, or half the rows */
    bool full_range;          /* levels range from 0 to 2^depth - 1 */
    uint32_t matrix;          /* MatrixCoefficients of ITU-T H.273 */
};

/** The constants for all pixels of an image. */
struct yuv_rule {
    int32_t zero_y, zero_uv; /* the samples that represent 0 */
    /* Contributions to R, G and B, times 2^32: y of a sample of Y, u and v of a sixteenth of a
     * sample of Cb and Cr. */
    int64_t y[3], u[3], v[3];
};

/** Find the constants for an image. Returns false if its matrix is not supported. */
bool yuv_find_rule(const struct yuv_image *image, struct yuv_rule *ret);

/** Returns the number of integers that yuv_convert() needs as working memory. */
static inline size_t yuv_room(uint32_t width)
{
    return 4 * ((size_t)width + 2);
}

/** Some pixels of a row, within the image. */
struct yuv_run {
    uint32_t y, left, width;
};

/** Convert some pixels of a row: `ret` [width][4] receives R, G, B and 255. `room` has
 * yuv_room(width) numbers. */
void yuv_convert(const struct yuv_image *image, const struct yuv_rule *rule, struct yuv_run run,
                 int32_t *room, uint8_t *ret);

#endif
