/* SPDX-License-Identifier: MIT */
/* kept_table.h - stores a table that is derived from a data set and takes long to make, in a file
 * beside the index ("….index.order-…"). The file is mapped, so its pages count as page cache, and
 * all streams that use the table share them. */
#ifndef LOADER_DATASET_KEPT_TABLE_H
#define LOADER_DATASET_KEPT_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "loader/dataset/dataset.h"

/** An open table. Zeros: there is none. */
struct kept_table {
    const void *bytes; /* [len], 64-byte aligned */
    size_t len;
    void *file; /* the file, or memory with the same contents */
    size_t file_bytes;
    bool mapped;
    int hold; /* from cache_hold(), if there is a file */
};

/** How to make a table. */
struct kept_recipe {
    /* Everything besides the index that determines the contents. */
    const char *key;
    /** Make the contents: at least one byte (malloc). Returns 0, or -errno with `err` set. */
    int (*make)(void *arg, void **ret, size_t *len, struct plenum_error *err);
    /** Returns whether stored contents are valid. Their checksum does not prove that, because any
     * writer can compute it. */
    bool (*holds)(void *arg, const void *bytes, size_t len);
    void *arg;
    /* `make` opens other tables of the data set. So the lock for writing is not held while it runs,
     * and several processes may make the table at once. */
    bool nests;
};

/**
 * Open the table with this key, and make it first unless it is stored. Close it with
 * kept_table_close().
 *
 * Errors: -EINPROGRESS, -EALREADY, -ECANCELED like dataset_open(); those of `make`; -ENOMEM.
 */
int kept_table_open(const struct dataset *dataset, const struct dataset_options *options,
                    const struct kept_recipe *recipe, struct kept_table *ret,
                    struct plenum_error *err);
void kept_table_close(struct kept_table *table);

#endif
