/* SPDX-License-Identifier: MIT */
/* mix.h - mixup and cutmix: draws the share of a sample's partner, and mixes the pixels of both.
 *
 * The rules are in docs/pixels.md, 11. Everything is drawn before any pixel is known, so a sample
 * that is not mixed costs nothing. loader/render/ chooses the partner's position. */
#ifndef LOADER_IMAGE_MIX_H
#define LOADER_IMAGE_MIX_H

#include <stdbool.h>
#include <stdint.h>

#include "common/pipeline/pipeline.h"
#include "loader/image/image.h"
#include "loader/image/rect.h"

enum {
    MIX_SHARE_BITS = 15,  /* a share of 1 is 2^15 */
    MIX_WEIGHT_BITS = 24, /* a weight of 1 is 2^24: a float holds it exactly */
};

/** The values drawn for one sample. */
struct mix_plan {
    bool mixed;     /* if false, the other fields are not used */
    bool cut;       /* pixels in `rect` are the partner's; otherwise all are blended */
    uint32_t share; /* share of the sample itself in a blend, below 2^15 */
    struct rect rect;
    uint32_t weight; /* weight of the sample's own label, times 2^24 */
};

void mix_draw(const struct pipeline *pipeline, const struct image_draw *draw, struct mix_plan *ret);

/** The format of the images that are mixed. */
struct mix_format {
    uint32_t width, height;
    struct image_store store;
};

/** Write a sample that the plan mixes to `dst`, each byte once, from its own pixels and its
 * partner's, all three in this format, with the loops of this set of image_kernels(). */
void mix_store(const struct mix_plan *plan, const char *kernels, const struct mix_format *format,
               const uint8_t *own, const uint8_t *partner, uint8_t *dst);

/** Draw a share from Beta(alpha, alpha), times 2^15, for alpha from 1/100 to 10. Uses the draws 1,
 * 2, ... of DRAW_MIXUP; if 64 of them are rejected, the share is 1/2. */
uint32_t mix_draw_share(struct rational alpha, const struct image_draw *draw);

#endif
