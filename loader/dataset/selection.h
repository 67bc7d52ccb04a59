/* SPDX-License-Identifier: MIT */
/* selection.h - which samples of a data set a plan's `select` keeps. docs/sampling.md describes the
 * terms. */
#ifndef LOADER_DATASET_SELECTION_H
#define LOADER_DATASET_SELECTION_H

#include <stdint.h>

#include "loader/dataset/dataset.h"

/**
 * Evaluate a selection: `ret` is the sample numbers that it keeps, ascending, malloc.
 *
 * @param options  those that the data set was opened with, for terms that read fields and files
 * Errors: -EINVAL the text is not understood; -ENOENT and others about a file of names; those of
 * dataset_open() about fields; -ENOMEM.
 */
int selection_make(const struct dataset *dataset, const char *text,
                   const struct dataset_options *options, uint32_t **ret, uint32_t *ret_count,
                   struct plenum_error *err);

#endif
