/* SPDX-License-Identifier: MIT */
/* jpeg_planes.h - keeps the samples of a JPEG's components under one region, and makes rows of
 * pixels from them.
 *
 * The samples of three MCU rows are in memory, in rings of rows, because two MCU rows may be
 * written at once, and upsampling a row may need the row above or below it. */
#ifndef LOADER_IMAGE_JPEG_PLANES_H
#define LOADER_IMAGE_JPEG_PLANES_H

#include <stddef.h>
#include <stdint.h>

#include "loader/image/jpeg/jpeg_frame.h"
#include "loader/image/jpeg/jpeg_pixels.h"
#include "loader/image/rect.h"
#include "loader/image/scratch.h"

/** A component's samples under the region. */
struct jpeg_plane {
    uint32_t left, right; /* range of blocks, horizontally */
    uint32_t top, bottom; /* range of blocks, vertically */
    uint32_t rows;        /* rows in memory: those of three MCU rows */
    size_t pitch;
    uint8_t *samples; /* row 0 of block `left`; JPEG_PAD bytes before and after each row */
    uint8_t *wide;    /* room for one enlarged row */
};

/** Starts as zeros. */
struct jpeg_planes {
    const struct jpeg_frame *frame; /* borrowed */
    struct rect region;
    struct jpeg_plane of[JPEG_COMPONENTS];
    struct scratch samples;
};

void jpeg_planes_fini(struct jpeg_planes *planes);

/** Determine which blocks of each component a region needs. The region must lie inside the
 * image. */
void jpeg_planes_locate(struct jpeg_planes *planes, const struct jpeg_frame *frame,
                        const struct rect *region);

/** Reserve memory for the samples. Returns 0 or -ENOMEM. */
int jpeg_planes_make_room(struct jpeg_planes *planes);

/** Returns the beginning of a component's row of samples. The row must be within the plane's
 * blocks. */
static inline uint8_t *jpeg_plane_row(const struct jpeg_plane *plane, uint32_t y)
{
    return plane->samples + y % plane->rows * plane->pitch;
}

/** Call this for each MCU row whose samples have been written, before its pixels are produced:
 * fancy upsampling weights samples with their neighbours, and at the edges of the image a sample is
 * its own neighbour. */
void jpeg_planes_pad_edges(struct jpeg_planes *planes, uint32_t row_of_mcus);

/** Write row `y` of the image, as wide as the region, as RGBX. */
void jpeg_planes_make_row(struct jpeg_planes *planes, const struct jpeg_kernels *kernels,
                          uint32_t y, uint8_t *to);

#endif
