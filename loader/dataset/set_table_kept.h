/* SPDX-License-Identifier: MIT */
/* set_table_kept.h - stores the table of a set in a file beside the index (kept_table.h). */
#ifndef LOADER_DATASET_SET_TABLE_KEPT_H
#define LOADER_DATASET_SET_TABLE_KEPT_H

#include "loader/dataset/set_table.h"

/** Returns whether a set's table should be stored: it takes long to make, and depends only on the
 * index and the set's line of the plan, not on fields or other files, which may change
 * unnoticed. */
bool set_table_is_kept(const struct set_table_source *source);

/** Open the stored table, or make it with `make` and store it. Errors: those of kept_table_open()
 * and of `make`. */
int set_table_open_kept(const struct set_table_source *source,
                        int (*make)(const struct set_table_source *source, struct set_table *ret,
                                    struct plenum_error *err),
                        struct set_table *ret, struct plenum_error *err);

#endif
