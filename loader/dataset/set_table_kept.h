/* SPDX-License-Identifier: MIT */
/* set_table_kept.h - the table of a set in a file beside the index (kept_table.h). */
#ifndef LOADER_DATASET_SET_TABLE_KEPT_H
#define LOADER_DATASET_SET_TABLE_KEPT_H

#include "loader/dataset/set_table.h"

/** Returns whether a set's table depends only on its index and its line of the plan, and takes long
 * enough to make: not on fields and other files, which may change without a trace. */
bool set_table_is_kept(const struct set_table_source *source);

/** Open the stored table, or make it with `make` and store it. Errors: those of kept_table_open()
 * and of `make`. */
int set_table_open_kept(const struct set_table_source *source,
                        int (*make)(const struct set_table_source *source, struct set_table *ret,
                                    struct plenum_error *err),
                        struct set_table *ret, struct plenum_error *err);

#endif
