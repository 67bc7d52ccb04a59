/* SPDX-License-Identifier: MIT */
/* skipped.h - names of files and folders that are never part of a data set. */
#ifndef LOADER_DATASET_SKIPPED_H
#define LOADER_DATASET_SKIPPED_H

#include <stdbool.h>

/** Is an entry of a folder skipped: does its name begin with a dot, or does an operating system, a
 * network storage or a tool leave such a thing behind by itself (Thumbs.db, __MACOSX, lost+found
 * ...)? In any case. */
bool dataset_skips_name(const char *name);

/** Is a member of an archive skipped, since its last part begins with a dot, or any part is left
 * behind? Folders that begin with a dot are not skipped here: paths in archives may begin with
 * "./", "../" or the folder that was archived. */
bool dataset_skips_path(const char *path);

#endif
