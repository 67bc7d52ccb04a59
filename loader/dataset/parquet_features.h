/* SPDX-License-Identifier: MIT */
/* parquet_features.h - reads the metadata that the library `datasets` (Hugging Face) stores in
 * Parquet files: which columns are images and classes, and the names of classes. */
#ifndef LOADER_DATASET_PARQUET_FEATURES_H
#define LOADER_DATASET_PARQUET_FEATURES_H

#include "loader/dataset/parquet_file.h"

/** Write the name of the only top-level column with this type ("Image", "ClassLabel") in the
 * metadata to `ret`. Returns false if there is none, or if there are several. */
bool features_find(const struct parquet_file *file, const char *type, char *ret, size_t size);

/** Names of classes, in order. */
struct feature_names {
    char *text; /* owned: the names, each followed by a NUL; NULL: the file has none */
    size_t len;
    uint32_t count;
};

/** Read the names of a column's classes. Returns 0; or -EBADMSG (they are damaged) or -ENOMEM with
 * `err` set. */
int features_read_names(const struct parquet_file *file, const char *column,
                        struct feature_names *ret, struct plenum_error *err);

#endif
