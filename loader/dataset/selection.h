/* SPDX-License-Identifier: MIT */
/* selection.h - finds the samples of a data set that a plan's `select` keeps. docs/sampling.md
 * describes the terms. */
#ifndef LOADER_DATASET_SELECTION_H
#define LOADER_DATASET_SELECTION_H

#include <stdint.h>

#include "loader/dataset/dataset.h"

/**
 * Evaluate a selection. Sets `*ret` [*ret_count] (malloc) to the numbers of the samples that it
 * keeps, in ascending order.
 *
 * @param options the options that the data set was opened with, for terms that read fields and
 * files
 * Errors: -EINVAL the text is malformed; -ENOENT and others for a file of names; those of
 * dataset_open() for fields; -ENOMEM.
 */
int selection_make(const struct dataset *dataset, const char *text,
                   const struct dataset_options *options, uint32_t **ret, uint32_t *ret_count,
                   struct plenum_error *err);

#endif
