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
/** Returns the number of valid samples that are substitutes. Without a plan, the samples are
 * compared with the order. Only loaders know the order of a plan; with one, the result is the
 * number that the loader has `told`, or the number of valid samples if that is lower. */
uint32_t batch_count_substituted(const struct plenum_stream *s, const struct plenum_batch *b,
                                 uint32_t told);

#endif
