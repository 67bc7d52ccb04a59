/* SPDX-License-Identifier: MIT */
/* skipped.h - recognises names of files and folders that are never part of a data set. */
#ifndef LOADER_DATASET_SKIPPED_H
#define LOADER_DATASET_SKIPPED_H

#include <stdbool.h>

/** Returns whether an entry of a folder is skipped: its name begins with a dot, or operating
 * systems, network storage or tools create such entries (Thumbs.db, __MACOSX, lost+found ...).
 * Ignores case. */
bool dataset_skips_name(const char *name);

/** Returns whether a member of an archive is skipped: its last part begins with a dot, or systems
 * or tools create entries with the name of any part. Folders that begin with a dot are not skipped
 * here: paths in archives may begin with "./", "../" or the name of the archived folder. */
bool dataset_skips_path(const char *path);

#endif
