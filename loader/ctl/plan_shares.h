/* SPDX-License-Identifier: MIT */
/* plan_shares.h - what an epoch of a plan (common/order/orderplan.h) shows of each set, before a
 * run. */
#ifndef LOADER_CTL_PLAN_SHARES_H
#define LOADER_CTL_PLAN_SHARES_H

#include "common/order/mixture.h"
#include "common/order/orderplan.h"
#include "common/util/json.h"
#include "loader/dataset/dataset.h"

/** An epoch of one set, or of all sets if they have one order. */
struct plan_part {
    char name[ORDERPLAN_NAME_MAX];
    uint64_t samples;     /* of the data set */
    uint64_t selected;    /* of them, those that are shown at all */
    uint64_t positions;   /* of a pass */
    uint64_t shown;       /* positions of the epoch */
    uint64_t first_pass;  /* that the epoch shows */
    uint64_t table_bytes; /* memory of its tables in a loader */
    /* How often the epoch shows a sample, at least and at most; expected numbers. */
    double least, most;
};

struct plan_shares {
    char name[400];
    uint64_t epoch, epoch_positions, block;
    uint64_t skipped; /* positions of the epoch that are never shown; the parts count them, too */
    struct plan_part parts[MIXTURE_SETS_MAX];
    uint32_t num_parts;
    const struct orderplan *plan; /* borrowed, like the next */
    const char *warning;          /* of the data set, or "" */
};

/** Compute them. 0, or -errno with `err` set: those of dataset_set_order(). */
int plan_shares_find(const struct dataset *dataset, uint64_t seed, uint64_t epoch,
                     struct plan_shares *ret, struct plenum_error *err);

void plan_shares_print(const struct plan_shares *shares);
/** Write fields of an object that has begun. */
void plan_shares_print_json(struct json *j, const struct plan_shares *shares);

#endif
