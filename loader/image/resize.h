/* resize.h - rows of a box of pixels in, a resized, mirrored, stored sample out.
 *
 * The rule (docs/pixels.md, "Resize") is in integers, so that every implementation gives the same
 * bytes. Rows are pushed from the top; output rows are written as soon as their last source row is
 * there, so that only a few rows are in memory at any time, however large the image. */
#ifndef LOADER_IMAGE_RESIZE_H
#define LOADER_IMAGE_RESIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/image/crop.h"
#include "loader/image/image.h"
#include "loader/image/rect.h"

/** The bits behind the point of a coefficient, and its half for rounding. */
enum { RESIZE_BITS = 14, RESIZE_HALF = 1 << (RESIZE_BITS - 1) };

/** One axis: output i is the sum of taps[i] source samples from first[i] on, times coef. */
struct resize_axis {
    uint32_t count;      /* outputs */
    uint32_t stride;     /* coefficients that each output has room for */
    uint32_t begin, end; /* source samples that have any weight; first[] counts from `begin` */
    uint32_t *first;     /* [count] */
    uint32_t *taps;      /* [count], 1 ... stride */
    int16_t *coef;       /* [count][stride], of which taps[i] are set; their sum is 2^14 */
};

/** The inner loops, one set for each kind of processor. All give the same bytes. */
struct resize_kernels {
    const char *name;
    bool (*usable)(void); /* on this processor */
    /** One row: out[count][3] from the row's pixels [axis->end - axis->begin][3]. */
    void (*across)(const struct resize_axis *axis, const uint8_t *row, uint8_t *out);
    /** One row of `bytes` bytes from `taps` rows, each byte finally xored with `flip`. */
    void (*down)(const uint8_t *const *rows, const int16_t *coef, uint32_t taps, size_t bytes,
                 uint8_t flip, uint8_t *out);
};

/** Best first; the last one is usable everywhere. Ends with NULL. */
extern const struct resize_kernels *const resize_kernels[];

/** Tables and rows, kept from image to image. Opaque. */
struct resize;

int resize_create(struct resize **ret);
void resize_destroy(struct resize *resize);

/** Use these loops from the next resize_begin() on; resize_create() chose the first usable ones. */
void resize_use(struct resize *resize, const struct resize_kernels *kernels);

/**
 * Prepare for one sample.
 *
 * @param dst     crop->window's pixels as `store` says; written by resize_push().
 * @param needed  The part of crop->box that has weight: its rows are to be pushed. Relative to the
 *                same origin as crop->box.
 *
 * 0 or -ENOMEM.
 */
int resize_begin(struct resize *resize, const struct crop *crop, const struct image_store *store,
                 void *dst, struct rect *needed);

/** The next `count` rows of needed->width RGB pixels each, `pitch` bytes apart. */
void resize_push(struct resize *resize, const uint8_t *rows, size_t pitch, uint32_t count);

/** Whether all rows of the sample are written. */
bool resize_done(const struct resize *resize);

#endif
