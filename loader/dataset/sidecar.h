/* SPDX-License-Identifier: MIT */
/* sidecar.h - fetches and uploads an index in a store, beside the archives. One host builds and
 * uploads it, so that others need not read the headers of all archives. */
#ifndef LOADER_DATASET_SIDECAR_H
#define LOADER_DATASET_SIDECAR_H

#include <stdbool.h>

#include <plenum/error.h>

struct dataset;

/** Set dataset->sidecar, the subject of an uploaded index, if the data set can have one. Returns 0
 * or -ENOMEM. */
int sidecar_init(struct dataset *dataset);

/** Fetch the index of a data set that is being opened to dataset->index_path, if the store has one.
 * Returns whether the file was written. The index may be stale. */
bool sidecar_fetch(const struct dataset *dataset);

/** Returns whether this is the subject of an uploaded index of the data set. Unlike the subject of
 * an index that a loader builds, it names neither the user nor the roots. */
bool sidecar_is_subject(const struct dataset *dataset, const char *subject);

/**
 * Upload the index of an open data set. Returns 0 with the index's name (malloc) in `*ret`.
 *
 * Errors: -EINVAL the data set is not in a store, or consists of images in a list; those of
 * store_write(), such as -EOPNOTSUPP behind HTTP; -ENOMEM. `err` is set.
 */
int sidecar_upload(const struct dataset *dataset, char **ret, struct plenum_error *err);

#endif
