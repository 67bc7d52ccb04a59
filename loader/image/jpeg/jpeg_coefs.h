/* SPDX-License-Identifier: MIT */
/* jpeg_coefs.h - reads all scans of a JPEG that has several (most such files are progressive), and
 * stores the coefficients of the needed blocks. */
#ifndef LOADER_IMAGE_JPEG_COEFS_H
#define LOADER_IMAGE_JPEG_COEFS_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/image/jpeg/jpeg_frame.h"
#include "loader/image/jpeg/jpeg_huff.h"
#include "loader/image/jpeg/jpeg_scan.h"
#include "loader/image/scratch.h"

/** The coefficients of one component. */
struct jpeg_coef_plane {
    /* The range of needed blocks, horizontally and vertically. Set it before jpeg_coefs_read(). */
    uint32_t left, right, top, bottom;
    /* For all blocks, including those that pad MCUs: */
    uint32_t pitch;    /* blocks in a row */
    int16_t *dc;       /* DC coefficients */
    uint64_t *nonzero; /* which AC coefficients are not 0: one bit each, in zigzag order */
    /* For the needed blocks: all coefficients, in natural order, except the first, which is in
     * `dc`. Where the bit in `nonzero` is 0, the value is undefined. */
    int16_t *ac; /* [bottom - top][right - left][64] */
};

/** Starts as zeros. */
struct jpeg_coefs {
    struct jpeg_coef_plane planes[JPEG_COMPONENTS];
    struct scratch room;
};

/** Returns the block at (x, y) of a plane, which must be a needed one. */
static inline int16_t *jpeg_coefs_block(const struct jpeg_coef_plane *p, uint32_t x, uint32_t y)
{
    assert(x >= p->left && x < p->right && y >= p->top && y < p->bottom);
    return p->ac + ((size_t)(y - p->top) * (p->right - p->left) + (x - p->left)) * 64;
}

/** The tools used by jpeg_coefs_read(). */
struct jpeg_coefs_tools {
    struct jpeg_huffs *huffs;
    struct jpeg_scan *scan;
    bool bmi2; /* the processor has these instructions */
};

/** Read all scans of `frame`. Returns 0, JPEG_OWN_GIVES_UP or -ENOMEM. */
int jpeg_coefs_read(struct jpeg_coefs *coefs, const struct jpeg_coefs_tools *tools,
                    const struct jpeg_frame *frame, const struct image_file *file);

#endif
