/* SPDX-License-Identifier: MIT */
/* augment_draw.h - definitions shared by drawing operations and drawing policies. */
#ifndef LOADER_IMAGE_AUGMENT_DRAW_H
#define LOADER_IMAGE_AUGMENT_DRAW_H

#include <assert.h>

#include "common/order/philox.h"
#include "loader/image/ops/augment.h"

enum { DRAWS = 16 }; /* draws per operation: operation i of the text uses draws from DRAWS * i on */

static inline struct philox_block draw_words(const struct image_draw *d, uint32_t op, uint32_t draw)
{
    return image_draw_words(d, DRAW_OPERATION, DRAWS * op + draw);
}

/* Add a step. Returns it, so that the caller can replace the number with other values. */
static inline struct augment_step *add_step(struct augment_plan *plan, enum pipeline_op_kind kind,
                                            uint32_t number)
{
    assert(plan->count < AUGMENT_STEPS_MAX);
    plan->steps[plan->count] = (struct augment_step){.kind = kind, .number = number};
    return &plan->steps[plan->count++];
}

#endif
