/* SPDX-License-Identifier: MIT */
/* parquet_set.h - the state of an open data set of Parquet files, shared by parquet.c (the format)
 * and parquet_fields.c (its fields). */
#ifndef LOADER_DATASET_PARQUET_SET_H
#define LOADER_DATASET_PARQUET_SET_H

#include <stdatomic.h>

#include "common/util/lock.h"
#include "loader/dataset/block_cache.h"
#include "loader/dataset/format.h"
#include "loader/dataset/parquet_page.h"

/** A file whose fields are being read. */
struct parquet_opened;

/** The type of dataset->state. */
struct parquet_set {
    struct block_cache *blocks;
    atomic_int packed; /* 1: there are compressed pages; -1: there are none; 0: not known yet */
    struct lock mu;    /* held while a file's metadata is read */
    struct parquet_opened **files; /* [archives]; NULL: not needed yet */
    size_t num_files;
};

/** Returns whether this column's values can be labels, names or fields. */
bool parquet_is_usable(const struct parquet_column *column);

enum { PARQUET_TEXT_MAX = 64 };
/** Write a value that is not a byte string as text to `ret` [PARQUET_TEXT_MAX]; returns its
 * length. */
size_t parquet_print(const struct parquet_column *column, const uint8_t *value, char *ret);

/** Returns the number of the image's column, or -EBADMSG with `err` set, without the file's
 * name. */
int parquet_find_image(const struct dataset *d, const struct parquet_file *file,
                       struct plenum_error *err);

/** Implements struct format's fields. */
int parquet_fields(const struct dataset *dataset, const struct index_sample *sample,
                   dataset_field *field, void *arg, struct field_memory *memory,
                   struct plenum_error *err);
void parquet_opened_free(struct parquet_opened *opened);

#endif
