/* SPDX-License-Identifier: MIT */
/* plan_shares.h - computes in advance what an epoch of a plan (common/order/orderplan.h) shows of
 * each set. */
#ifndef LOADER_CTL_PLAN_SHARES_H
#define LOADER_CTL_PLAN_SHARES_H

#include "common/order/mixture.h"
#include "common/order/orderplan.h"
#include "common/util/json.h"
#include "loader/dataset/dataset.h"

/** What an epoch shows of one set, or of all sets if they share one order. */
struct plan_part {
    char name[ORDERPLAN_NAME_MAX];
    uint64_t samples;     /* samples of the data set */
    uint64_t selected;    /* samples that the selection keeps */
    uint64_t positions;   /* positions of one pass */
    uint64_t shown;       /* positions of the epoch, without those that the plan skips */
    uint64_t first_pass;  /* first pass of which the epoch shows a position */
    uint64_t table_bytes; /* memory of the set's tables in a loader */
    /* The minimum and the maximum expected number of times that the epoch shows a sample. */
    double least, most;
};

struct plan_shares {
    char name[400];
    uint64_t epoch, epoch_positions, block;
    uint64_t skipped; /* positions of the epoch that the plan skips */
    struct plan_part parts[MIXTURE_SETS_MAX];
    uint32_t num_parts;
    const struct orderplan *plan; /* borrowed, like the next */
    const char *warning;          /* the data set's, or "" */
};

/** Compute the shares. Returns 0, or an error of dataset_set_order() with `err` set. */
int plan_shares_find(const struct dataset *dataset, uint64_t seed, uint64_t epoch,
                     struct plan_shares *ret, struct plenum_error *err);

void plan_shares_print(const struct plan_shares *shares);
/** Write the shares as members of a JSON object that has begun. */
void plan_shares_print_json(struct json *j, const struct plan_shares *shares);

#endif
