/* SPDX-License-Identifier: MIT */
/* augment.h - applies the operations after the crop to a resized window, and stores the sample.
 *
 * The rules (docs/pixels.md 10) use integers. The values drawn for a sample depend only on the
 * pipeline and the draw, so they are known before any pixel: a sample without operations takes the
 * short path. */
#ifndef LOADER_IMAGE_AUGMENT_H
#define LOADER_IMAGE_AUGMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/pipeline/pipeline.h"
#include "loader/image/image.h"
#include "loader/image/ops/affine.h"
#include "loader/image/rect.h"
#include "loader/image/resize/crop.h"

/** One operation applied to a sample. */
struct augment_step {
    enum pipeline_op_kind kind; /* for a jitter, one of its parts */
    union {
        /** For all operations except those below: a factor times 2^14, sixths of a turn times 2^13,
         * a threshold, bits, levels to add, a share times 2^16, or augment_gains(). */
        uint32_t number;
        struct {
            uint32_t size;  /* size of the kernel */
            uint32_t sigma; /* times 2^14 */
        } blur;
        struct affine map; /* PIPELINE_AFFINE: used for all operations that move pixels */
        struct {
            struct rect rect; /* the part of the window as stored in memory */
            enum pipeline_fill fill;
            uint8_t levels[3];
            bool mirror, upside_down; /* the orientation in which noise is written */
            uint32_t key[2];          /* for the noise */
        } erase;                      /* also for cutout */
    };
};

enum {
    AUGMENT_HUES = 180,                        /* hues of 8-bit HSV, as in OpenCV */
    AUGMENT_TURN = 6 << 13,                    /* a full turn of the hue: sixths times 2^13 */
    AUGMENT_MIXED_MAX = 6,                     /* windows to mix: the original and five chains */
    AUGMENT_STEPS_MAX = 22 * PIPELINE_OPS_MAX, /* augmix: five chains of three, and their mixing */
};

/** The values drawn for one sample. */
struct augment_plan {
    struct augment_step steps[AUGMENT_STEPS_MAX];
    uint32_t count;
    uint32_t mixed;   /* windows kept for mixing */
    bool mirror;      /* swap left and right, which the resize does */
    bool upside_down; /* swap top and bottom, which the store does */
};

/** Returns the number of a step that shifts 8-bit hues, and multiplies saturation and value by
 * gains times 2^AUGMENT_GAIN_BITS, each below 2^12. */
static inline uint32_t augment_gains(uint32_t hues, uint32_t saturation, uint32_t value)
{
    return hues << 24 | saturation << 12 | value;
}

struct augment_loops;

/** Windows and tables, kept from image to image. Opaque. Threads: one at a time. */
struct augment;

/** Create an instance with the portable loops. Returns 0 or -ENOMEM. */
int augment_create(struct augment **ret);
/** NULL is ignored. */
void augment_destroy(struct augment *augment);

/** Use the loops of this set of image_kernels(), or the portable ones if the set has no loops for
 * operations. The pixels are the same. */
void augment_use(struct augment *augment, const char *kernels);

/** Returns the loops of this set of image_kernels(). */
const struct augment_loops *augment_loops_of(const char *kernels);

/** Draw the operations for a sample. `ratios` are tables that are kept from image to image. */
void augment_draw(const struct pipeline *pipeline, const struct image_draw *draw,
                  struct crop_tables *ratios, struct augment_plan *ret);

/** Keep only the steps that move pixels, for a mask: it is sampled at the nearest pixel, and filled
 * with 255. Flips are not steps. */
void augment_keep_moves(struct augment_plan *plan);

/** Returns whether there is more to do than the resize does. */
static inline bool augment_is_needed(const struct augment_plan *plan)
{
    return plan->count > 0 || plan->upside_down;
}

/** Free each window of more than `keep` bytes. */
void augment_trim(struct augment *augment, size_t keep);

/** Returns the maximum size in bytes of the windows that a sample of this pipeline needs. */
uint64_t augment_most_bytes(const struct pipeline *pipeline);

/** Returns room for the window, uint8 [3][height][width], and reserves the other memory that this
 * plan needs; or returns NULL when out of memory. Borrowed until augment_finish() or the next
 * call. */
uint8_t *augment_window(struct augment *augment, const struct augment_plan *plan, uint32_t width,
                        uint32_t height);

/** Apply the steps to the window, and store it into `dst` in the format of `store`, each byte
 * once. */
void augment_finish(struct augment *augment, const struct augment_plan *plan, uint32_t width,
                    uint32_t height, const struct image_store *store, uint8_t *dst);

#endif
