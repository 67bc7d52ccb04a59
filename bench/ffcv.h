/* SPDX-License-Identifier: MIT */
/* ffcv.h - renders a training image by FFCV's method, with the libraries that FFCV uses: TurboJPEG
 * decodes the whole image with its fast inverse DCT (TJFLAG_FASTDCT), and OpenCV shrinks the crop
 * (INTER_AREA).
 *
 * Only available if configure found both libraries (HAVE_FFCV_WAY). FFCV also copies the pixels to
 * its batch and flips images from JPEGs, which this code leaves out. */
#ifndef BENCH_FFCV_H
#define BENCH_FFCV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/image/rect.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ffcv_way;

/** Returns 0 or -ENOMEM. */
int ffcv_way_create(struct ffcv_way **ret);
void ffcv_way_destroy(struct ffcv_way *way);

/** Render a JPEG to `dst`, [side][side][3] RGB. Returns 0, or -EBADMSG if it cannot be decoded. */
int ffcv_way_render(struct ffcv_way *way, const uint8_t *bytes, size_t len, const struct rect *box,
                    uint32_t side, uint8_t *dst);

struct ffcv_raw {
    const uint8_t *pixels; /* [height][width][3] RGB */
    uint32_t width, height;
};

/** Render raw pixels by FFCV's method for a data set written with write_mode="raw". `mirror`: also
 * flip the image. */
void ffcv_way_render_raw(const struct ffcv_raw *raw, const struct rect *box, bool mirror,
                         uint32_t side, uint8_t *dst);

#ifdef __cplusplus
}
#endif

#endif
