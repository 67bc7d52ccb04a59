/* SPDX-License-Identifier: MIT */
/* together.h - what instances exchange when they open a stream, and what follows from it. */
#ifndef LIBDIST_TOGETHER_H
#define LIBDIST_TOGETHER_H

#include <stdint.h>

#include <plenum/stream.h>

#include "common/data/datasum.h"
#include "common/order/order.h"

/** One instance's message. Sent as it is in memory: all instances must run the same build, which
 * nothing checks. */
struct together {
    int32_t code; /* result of opening its stream; negative: with a message */
    char text[256];
    char host[64];
    uint8_t choices[16]; /* hash of all options that determine the samples */
    enum plenum_split split;
    enum order_last last;
    uint32_t per_step, deal;
    uint64_t steps, epochs; /* steps per epoch; epochs of the stream */
    struct datasum sum;
    uint8_t fields[16]; /* hash of all fields of all samples */
};

/** The values that all instances use with split = file, when each has one part of the data set. */
struct together_result {
    uint64_t steps; /* steps per epoch */
    uint32_t classes;
};

/** Check that the streams of all instances fit together. Returns 0, or an error for all instances.
 *  This is a pure function, so all instances get the same result. */
int together_agree(const struct together *all, uint32_t count, struct together_result *ret,
                   struct plenum_error *err);

#endif
