/* SPDX-License-Identifier: MIT */
/* splice.h - builds a small JPEG from the part of a packed JPEG that contains a region. */
#ifndef LOADER_IMAGE_SPLICE_H
#define LOADER_IMAGE_SPLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/image/pack/pack.h"
#include "loader/image/rect.h"
#include "loader/image/scratch.h"

/** Restart intervals [left, right) of the rows [top, bottom). */
struct splice {
    uint32_t left, right, top, bottom;
};

/** Returns the part of the image that the intervals show. */
struct rect splice_pixels(const struct splice *splice, const struct pack_layout *layout);

/**
 * Find the intervals that contain `region`.
 *
 * Returns false if they are such a large part of the file that decoding the whole file is as fast.
 */
bool splice_plan(const struct pack_layout *layout, const struct rect *region, struct splice *ret);

/** Write the small JPEG into `scratch`; `*ret_len` receives its length. Returns 0 or -ENOMEM. */
int splice_write(const struct splice *splice, const struct pack_layout *layout,
                 const uint8_t *bytes, size_t len, struct scratch *scratch, size_t *ret_len);

#endif
