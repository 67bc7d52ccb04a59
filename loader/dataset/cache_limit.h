/* SPDX-License-Identifier: MIT */
/* cache_limit.h - keeps the cache folder within its limits.
 *
 * Clients choose which data sets and fields a loader indexes, and thereby the number of files. A
 * file's atime is its last use; it is set here, because file systems may be mounted with noatime.
 * An extended attribute names the user for whom the file was built. On file systems without
 * extended attributes, files belong to no user, and only the folder's limit applies. */
#ifndef LOADER_DATASET_CACHE_LIMIT_H
#define LOADER_DATASET_CACHE_LIMIT_H

#include <stdbool.h>

#include "loader/dataset/dataset.h"

/**
 * Mark this index or table as in use: no process removes it until the returned descriptor is
 * closed. Returns -1 if that is not possible.
 *
 * @param user  the user for whom it has just been built; NULL: it already existed
 */
int cache_hold(const char *path, const char *user);

/**
 * Remove files that are too old, then the least recently used ones until the folder is within its
 * limits. Files that any process uses or is writing are kept. If that is not enough, the file at
 * `path`, which was written last, is removed: its users have it in memory. Files that belong to an
 * index that no longer exists, and temporary files of killed processes, are removed in any case.
 * Without limits, this has no effect.
 *
 * @param path  the index or table that was just written
 * @return      false: that file was removed, so nothing may be written beside it
 */
bool cache_trim(const char *path, const struct dataset_cache_limits *limits, const char *user);

#endif
