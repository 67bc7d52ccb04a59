/* SPDX-License-Identifier: MIT */
/* identity.h - the hash of everything that must be equal in two runs, so that a cursor of one is
 * valid in the other. */
#ifndef COMMON_IDENTITY_H
#define COMMON_IDENTITY_H

#include <stdint.h>

#include "common/net/wire.h"

struct datasum;
struct orderplan;

/**
 * Compute XXH3-128 of the data set's fingerprint, the pipeline's canonical text, the seed and the
 * order options (shuffle, block, last, subset, repeat); with iou_crop, also of the source of its
 * boxes. How the samples are distributed (R, M, S,
 * I) and how pixels are stored do not matter.
 *
 * Options with the same effect have the same identity: a subset of all samples and no subset, and
 * all blocks that are longer than half of the samples. This depends on the number of samples; if it
 * is still unknown (0), options are hashed as written.
 */
void identity_of(const uint8_t fingerprint[16], uint32_t samples, const struct wire_open *open,
                 uint8_t ret[16]);

/** The parts of the identity of a stream with a plan; all borrowed. */
struct identity_plan {
    const struct orderplan *plan;
    const struct wire_set *sets;         /* [plan->num_sets] */
    const struct wire_reweigh *reweighs; /* [plan->num_reweighs] */
    uint32_t positions;                  /* positions per epoch */
    const struct wire_open *open;
    const struct datasum *sum; /* the data set's sum, if the plan has one set; NULL: unknown */
};

/* The parts of a plan's identity begin at these bytes: pipeline, seed, block and epoch at 0; the
 * weights before the cursor; and the sets that they show. */
enum { IDENTITY_WEIGHTS_AT = 6, IDENTITY_SETS_AT = 11 };

/**
 * Compute the identity, at a place, of a stream with a plan. It covers everything that takes effect
 * before the place, and nothing that begins there or later. So pieces and sets may be added from
 * there on. Where the plan has changed nothing yet, the result is the identity of its data set
 * without a plan, if the sum is known.
 */
void identity_of_plan(const struct identity_plan *of, struct order_place place, uint8_t ret[16]);

#endif
