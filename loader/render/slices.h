/* SPDX-License-Identifier: MIT */
/* slices.h - computes pixels without image files, for generated data sets. */
#ifndef LOADER_RENDER_SLICES_H
#define LOADER_RENDER_SLICES_H

#include "loader/image/image.h"

/**
 * Write `count` pixels into `dst` in the format of `store`: a slice of a fixed table of random
 * numbers, whose start Philox draws for this seed, epoch and position. Returns 0 or -ENOMEM.
 * Threads: any.
 */
int slices_render(const struct image_draw *draw, size_t count, const struct image_store *store,
                  void *dst);

#endif
