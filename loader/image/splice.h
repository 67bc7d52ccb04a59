/* SPDX-License-Identifier: MIT */
/* splice.h - makes a small JPEG of the part of a packed JPEG that holds a region. */
#ifndef LOADER_IMAGE_SPLICE_H
#define LOADER_IMAGE_SPLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/image/pack.h"
#include "loader/image/rect.h"
#include "loader/image/scratch.h"

/** Restart intervals: [left, right) of the rows [top, bottom). */
struct splice {
    uint32_t left, right, top, bottom;
};

/** The part of the image that they show. */
struct rect splice_pixels(const struct splice *splice, const struct pack_layout *layout);

/**
 * The intervals that hold `region`.
 *
 * false: they are so many that decoding the whole file is as fast.
 */
bool splice_plan(const struct pack_layout *layout, const struct rect *region, struct splice *ret);

/** Write the small JPEG into `scratch`; its length is `*ret_len`. 0 or -ENOMEM. */
int splice_write(const struct splice *splice, const struct pack_layout *layout,
                 const uint8_t *bytes, size_t len, struct scratch *scratch, size_t *ret_len);

#endif
