/* SPDX-License-Identifier: MIT */
/* filter.h - computes the weights of the resize filters, in integers (docs/pixels.md, 5). */
#ifndef LOADER_IMAGE_FILTER_H
#define LOADER_IMAGE_FILTER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/pipeline/pipeline.h"

/** Fraction bits of a distance and of a weight. */
enum { FILTER_BITS = 18 };

/** Returns a filter's support, in pixels of the source or of the output, whichever are wider; 0: it
 * uses only the nearest pixel. */
uint32_t filter_support(enum pipeline_filter filter);

/** Returns whether some weights are below 0, so that a sum may leave 0 ... 255. */
bool filter_has_negative(enum pipeline_filter filter);

/**
 * Returns the weight at `distance`, both times 2^FILTER_BITS; 0 from the support on. Only for
 * BICUBIC and LANCZOS: the others are simple enough for the resize itself.
 */
int64_t filter_weight(enum pipeline_filter filter, uint64_t distance);

/** The source pixels under one output. The unit of distance is arbitrary. */
struct filter_window {
    int64_t first;  /* signed distance of the first one from the output's centre */
    int64_t apart;  /* distance between pixels */
    uint64_t scale; /* 2^(32 + FILTER_BITS) divided by the distance that equals 1 for the filter */
    uint32_t taps;
};

/** Compute the weights of a window, [taps]. Returns their sum, which is above 0. Only for BICUBIC
 * and LANCZOS. */
int64_t filter_weights(enum pipeline_filter filter, const struct filter_window *w,
                       int32_t *weights);

#endif
