/* SPDX-License-Identifier: MIT */
/* augment_text.h - describes the operations applied to a sample, in words. */
#ifndef LOADER_IMAGE_AUGMENT_TEXT_H
#define LOADER_IMAGE_AUGMENT_TEXT_H

#include <stddef.h>

#include "common/pipeline/pipeline.h"
#include "loader/image/image.h"

enum { AUGMENT_TEXT_MAX = 2048 }; /* bytes that suffice for any sample */

/** Write the operations drawn for a sample, with their strengths, and its mixing into `ret` [size >
 * 0], such as "flip, brightness 1.31, erase 31x40"; "" if there are none. The text ends before the
 * first operation that does not fit. */
void augment_describe(const struct pipeline *pipeline, const struct image_draw *draw, char *ret,
                      size_t size);

#endif
