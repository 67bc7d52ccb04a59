/* SPDX-License-Identifier: MIT */
/* ffcv.h - FFCV's way of making a training image, with the libraries that it uses: TurboJPEG
 * decodes the whole image with its fast inverse DCT (TJFLAG_FASTDCT), OpenCV shrinks the crop
 * (INTER_AREA).
 *
 * Only there when both libraries were found by configure (HAVE_FFCV_WAY). No other store, and of
 * JPEGs no flip: that would come on top. */
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

int ffcv_way_create(struct ffcv_way **ret);
void ffcv_way_destroy(struct ffcv_way *way);

/** `dst` is [side][side][3] RGB. 0 or -EBADMSG. */
int ffcv_way_render(struct ffcv_way *way, const uint8_t *bytes, size_t len, const struct rect *box,
                    uint32_t side, uint8_t *dst);

/** The same of raw pixels, [height][width][3] RGB: FFCV's way of a data set written with
 * write_mode="raw". With the flip, where `mirror`. */
void ffcv_way_render_raw(const uint8_t *pixels, uint32_t width, uint32_t height,
                         const struct rect *box, bool mirror, uint32_t side, uint8_t *dst);

#ifdef __cplusplus
}
#endif

#endif
