/* SPDX-License-Identifier: MIT */
/* sidecar.h - an index in a store, beside the archives: one host builds and uploads it, and others
 * need not read the headers of all archives. */
#ifndef LOADER_DATASET_SIDECAR_H
#define LOADER_DATASET_SIDECAR_H

#include <stdbool.h>

#include <plenum/error.h>

struct dataset;

/** Set dataset->sidecar, the subject of an uploaded index, if the data set can have one: 0 or
 * -ENOMEM. */
int sidecar_init(struct dataset *dataset);

/** Fetch the index of a data set that is being opened, if there is one, into dataset->index_path.
 * Returns whether it was written; whether it is fresh is not known yet. */
bool sidecar_fetch(const struct dataset *dataset);

/** Does an index with this subject belong to the data set as it is uploaded? Unlike the subject of
 * an index that a loader builds, it names neither the user nor the roots. */
bool sidecar_is_subject(const struct dataset *dataset, const char *subject);

/**
 * Upload the index of an open data set: 0 with its name, malloc, in `*ret`.
 *
 * Errors: -EINVAL the data set is not in S3, or consists of images in a list; those of
 * store_write(); `err` is set.
 */
int sidecar_upload(const struct dataset *dataset, char **ret, struct plenum_error *err);

#endif
