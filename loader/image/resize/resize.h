/* SPDX-License-Identifier: MIT */
/* resize.h - resizes rows of pixels, and mirrors and stores the sample.
 *
 * The rule (docs/pixels.md, "Resize") is in integers, so that every implementation gives the same
 * bytes. Rows are pushed from the top. An output row is written as soon as its last source row has
 * arrived, so that only a few rows are in memory, however large the image is. */
#ifndef LOADER_IMAGE_RESIZE_H
#define LOADER_IMAGE_RESIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/image/image.h"
#include "loader/image/rect.h"
#include "loader/image/resize/crop.h"

/** Loops for one kind of processor: see resize_kernels.h. */
struct resize_kernels;

/** Best first; the last one is usable everywhere. Ends with NULL. */
extern const struct resize_kernels *const resize_kernels[];

/** Tables and rows, kept from image to image. Opaque. */
struct resize;

int resize_create(struct resize **ret);
void resize_destroy(struct resize *resize);

/** Use these loops from the next resize_begin() on. resize_create() chose the first usable ones. */
void resize_use(struct resize *resize, const struct resize_kernels *kernels);

/** Bytes that may be read after a row whose pixels have three bytes. */
enum { RESIZE_BEHIND = 4 };

/**
 * Prepare for one sample.
 *
 * @param pixel   Bytes of a pixel in the pushed rows: 4 (R, G, B, and one that is ignored), or 3.
 * @param dst     crop->window's pixels in the format of `store`; written by resize_push().
 * @param needed  Receives the pixels of the image that have weight: push their rows.
 *
 * Returns 0 or -ENOMEM.
 */
int resize_begin(struct resize *resize, const struct crop *crop, uint32_t pixel,
                 const struct image_store *store, void *dst, struct rect *needed);

/** Push the next `count` rows of needed->width pixels each, `pitch` bytes apart. */
void resize_push(struct resize *resize, const uint8_t *rows, size_t pitch, uint32_t count);

/** Returns whether all rows of the sample are written. */
bool resize_done(const struct resize *resize);

#endif
