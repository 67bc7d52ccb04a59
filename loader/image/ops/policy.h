/* SPDX-License-Identifier: MIT */
/* policy.h - RandAugment, TrivialAugment, AutoAugment and AugMix: draws their operations for a
 * sample.
 *
 * A policy adds ordinary steps to a plan, so its pixels are those of plain operations
 * (docs/pixels.md, 10.2). */
#ifndef LOADER_IMAGE_POLICY_H
#define LOADER_IMAGE_POLICY_H

#include <stdint.h>

#include "common/pipeline/pipeline.h"
#include "loader/image/ops/augment.h"

/** Draw the policy that is operation `at` of the text, for a window of this size. */
void policy_draw(const struct pipeline_op *op, uint32_t at, const struct image_draw *draw,
                 uint32_t width, uint32_t height, struct augment_plan *plan);

#endif
