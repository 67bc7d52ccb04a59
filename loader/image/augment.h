/* SPDX-License-Identifier: MIT */
/* augment.h - the operations behind the crop: a resized window in, the stored sample out.
 *
 * The rules (docs/pixels.md 10) are in integers. What is drawn for a sample depends on the pipeline
 * and the draw alone, so it is known before a pixel is: a sample for which nothing is drawn takes
 * the short way. */
#ifndef LOADER_IMAGE_AUGMENT_H
#define LOADER_IMAGE_AUGMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/pipeline.h"
#include "loader/image/affine.h"
#include "loader/image/crop.h"
#include "loader/image/image.h"
#include "loader/image/rect.h"

/** One operation that is done to a sample. */
struct augment_step {
    enum pipeline_op_kind kind; /* of a jitter, one of its parts */
    uint32_t
        number; /* factor or sigma at 2^14, sixths of a turn at 2^13, threshold, bits or levels */
    uint32_t size;            /* of a blur's kernel */
    struct affine map;        /* PIPELINE_AFFINE, which stands for all that move pixels */
    struct rect rect;         /* what is erased, of the window as it lies in memory */
    enum pipeline_fill fill;  /* of it; `number` is its levels */
    bool mirror, upside_down; /* as its noise is written */
    uint32_t key[2];          /* of the noise */
};

enum {
    AUGMENT_TURN = 6 << 13,                    /* a turn of the hue: sixths at 2^13 */
    AUGMENT_MIXED_MAX = 6,                     /* windows: the original and five chains */
    AUGMENT_STEPS_MAX = 22 * PIPELINE_OPS_MAX, /* augmix: five chains of three, and their mixing */
};

/** What is drawn for one sample. */
struct augment_plan {
    struct augment_step steps[AUGMENT_STEPS_MAX];
    uint32_t count;
    uint32_t mixed;   /* windows that are kept to be mixed */
    bool mirror;      /* left and right: to be done by the resize */
    bool upside_down; /* top and bottom: when it is stored */
};

struct augment_loops;

/** Windows and tables, kept from image to image. Opaque. Threads: one at a time. */
struct augment;

/** 0 or -ENOMEM. It has the portable loops. */
int augment_create(struct augment **ret);
/** NULL is nothing. */
void augment_destroy(struct augment *augment);

/** Use the loops that go with this set of image_kernels(): a set without its own has the portable
 * ones. The pixels are the same. */
void augment_use(struct augment *augment, const char *kernels);

/** The loops that go with this set of image_kernels(). */
const struct augment_loops *augment_loops_of(const char *kernels);

/** What the sample's draw makes of the operations. `ratios`: kept from image to image. */
void augment_draw(const struct pipeline *pipeline, const struct image_draw *draw,
                  struct crop_tables *ratios, struct augment_plan *ret);

/** Whether there is more to do than the resize does. */
static inline bool augment_is_needed(const struct augment_plan *plan)
{
    return plan->count > 0 || plan->upside_down;
}

/** Free each window of more than `keep` bytes. */
void augment_trim(struct augment *augment, size_t keep);

/** The most that is kept for a sample of this pipeline, bytes. */
uint64_t augment_most_bytes(const struct pipeline *pipeline);

/** Room for the window: [3][height][width], uint8, and for what this plan keeps beside it. NULL:
 * memory is short. Borrowed until the next call. */
uint8_t *augment_window(struct augment *augment, const struct augment_plan *plan, uint32_t width,
                        uint32_t height);

/** Do the steps in the window, and store it as `store` says into `dst`, each byte once. */
void augment_finish(struct augment *augment, const struct augment_plan *plan, uint32_t width,
                    uint32_t height, const struct image_store *store, uint8_t *dst);

#endif
