/* SPDX-License-Identifier: MIT */
/* slices.h - pixels without images: what generated data sets show. */
#ifndef LOADER_RENDER_SLICES_H
#define LOADER_RENDER_SLICES_H

#include "loader/image/image.h"

/**
 * Write `count` pixels into `dst`, as `store` says: a slice of a fixed table of random numbers,
 * which begins where Philox says for this seed, epoch and position. 0 or -ENOMEM. Threads: any.
 */
int slices_render(const struct image_draw *draw, size_t count, const struct image_store *store,
                  void *dst);

#endif
