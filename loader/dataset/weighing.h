/* SPDX-License-Identifier: MIT */
/* weighing.h - computes the weights of a set's samples from a rule in a plan. Weights are
 * integers, so every machine computes the same ones. */
#ifndef LOADER_DATASET_WEIGHING_H
#define LOADER_DATASET_WEIGHING_H

#include <stdint.h>

#include "loader/dataset/dataset.h"
#include "loader/dataset/relabel.h"

/** The samples to weigh. */
struct weighing {
    const struct dataset *dataset;
    const uint32_t *member; /* [n]; NULL: all */
    uint32_t n;
    const struct relabel *relabel;         /* new classes, or NULL */
    const struct dataset_options *options; /* the options that the data set was opened with */
};

/**
 * Compute the weights [n] of the members.
 *
 * @param rule       "class", "class:1/2", "lvis:T", "lvis:T:SOURCE", "file:W.npy", "column:NAME" or
 *                   "json.NAME"; "repeat:" before one of the last three
 * @param positions  set to the number of positions of a pass, if the rule determines it; otherwise
 *                   unchanged
 * Errors: -EINVAL the rule is malformed, a weight is below 0, too large or not a number, all
 * weights are 0, there are more or fewer weights than samples, or sums exceed 2^63; those of the
 * file system and of fields; -ENOMEM.
 */
int weighing_make(const struct weighing *of, const char *rule, uint64_t *weights,
                  uint64_t *positions, struct plenum_error *err);

#endif
