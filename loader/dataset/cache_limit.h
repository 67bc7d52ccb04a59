/* SPDX-License-Identifier: MIT */
/* cache_limit.h - how large the cache folder may become.
 *
 * Clients choose which data sets and fields a loader keeps indices and tables of, so their number
 * is theirs. Each such file has the time of its last use (atime), set here, as file systems
 * may be mounted without; and the user for whom it was made, in an extended attribute. Where the
 * file system has none of these, it is nobody's, and only the limit of the folder counts. */
#ifndef LOADER_DATASET_CACHE_LIMIT_H
#define LOADER_DATASET_CACHE_LIMIT_H

#include <stdbool.h>

#include "loader/dataset/dataset.h"

/**
 * This index or table of fields is in use from now on: no process removes it until the descriptor
 * that is returned is closed. -1: it cannot be held.
 *
 * @param user  for whom it has just been made; NULL: it was there
 */
int cache_hold(const char *path, const char *user);

/**
 * Remove what is too old, then what goes beyond the limits, what was used longest ago first, and
 * nothing that is in use or being made, by whatever process. Where that is not enough, this file
 * itself, which was written last, is removed: whoever holds it has it in memory. Files that belong
 * to an index that is gone are always removed, and so are temporary files of killed processes.
 *
 * @param path  of the index or table that was written
 * @return      false: that file was removed, so nothing may be written beside it
 */
bool cache_trim(const char *path, const struct dataset_cache_limits *limits, const char *user);

#endif
