/* SPDX-License-Identifier: MIT */
/* together.h - what instances tell each other when they open a stream, and what follows from it. */
#ifndef LIBDIST_TOGETHER_H
#define LIBDIST_TOGETHER_H

#include <stdint.h>

#include <plenum/stream.h>

#include "common/datasum.h"
#include "common/order.h"

/** One instance's part. Sent as it is: all instances are of one build. */
struct together {
    int32_t code; /* of its own open; negative: with a sentence */
    char text[256];
    char host[64];
    uint8_t choices[16]; /* hash of all options that decide what is shown */
    enum plenum_split split;
    enum order_last last;
    uint32_t per_step, deal;
    uint64_t steps, epochs; /* steps of an epoch */
    struct datasum sum;
    uint8_t fields[16]; /* hash of all fields of all samples */
};

/** What all go by, where data sets are parts. */
struct together_result {
    uint64_t steps; /* of an epoch */
    uint32_t classes;
};

/** Do all fit together? 0, or an error for all of them. A pure function, so that all instances come
 * to the same answer. */
int together_agree(const struct together *all, uint32_t count, struct together_result *ret,
                   struct plenum_error *err);

#endif
