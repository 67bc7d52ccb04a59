/* SPDX-License-Identifier: MIT */
/* batch.h - what a batch contains. Callers hold the stream's lock. */
#ifndef LIBDIST_BATCH_H
#define LIBDIST_BATCH_H

#include <stdint.h>

#include <plenum/stream.h>

#include "libdist/schedule.h"
#include "libdist/stream_core.h"

/** Describe a READY batch: pointers into its slot, its shape, each sample's position, and whether
 *  the sample counts. */
void batch_describe(const struct plenum_stream *s, const struct made_batch *made,
                    struct plenum_batch *b);
/** Count the valid samples that replace the ones that the order names. Only needed if the loader
 * has reported any: their number is `told`. Only loaders know the order of a plan, so with a plan
 * this is `told`, or the number of valid samples if that is lower. */
uint32_t batch_count_substituted(const struct plenum_stream *s, const struct plenum_batch *b,
                                 uint32_t told);

#endif
