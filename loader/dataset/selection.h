/* SPDX-License-Identifier: MIT */
/* selection.h - finds the samples of a data set that a plan's `select` keeps. docs/sampling.md
 * describes the terms. */
#ifndef LOADER_DATASET_SELECTION_H
#define LOADER_DATASET_SELECTION_H

#include <stdint.h>

#include "loader/dataset/dataset.h"

/** What a selection keeps. */
struct selection {
    uint32_t *sample; /* [count], ascending; malloc */
    uint32_t count;
    /* The number of file names in the selection that no sample has, and one of these names. */
    uint32_t absent;
    char absent_name[100];
    /* The number of classes, or whole sets, with fewer samples than 'random N' should keep. */
    uint32_t scarce;
    uint64_t scarce_wanted; /* N, for the first of them */
    uint32_t scarce_found;  /* samples that it has */
    int64_t scarce_class;   /* its class; -1: a whole set */
};

/**
 * Evaluate a selection.
 *
 * @param options  the options that the data set was opened with, for terms that read fields and
 *                 files
 * Errors: -EINVAL the text is malformed; -ENOENT and others for a file of names; those of
 * dataset_open() for fields; -ENOMEM.
 */
int selection_make(const struct dataset *dataset, const char *text,
                   const struct dataset_options *options, struct selection *ret,
                   struct plenum_error *err);

#endif
