/* SPDX-License-Identifier: MIT */
/* output_folder.h - prepares the folder of --output-dir before a job writes to it. */
#ifndef LAUNCHER_OUTPUT_FOLDER_H
#define LAUNCHER_OUTPUT_FOLDER_H

#include <plenum/error.h>

/**
 * Create the folder if it does not exist. Files that an earlier job wrote there are moved to a
 * subfolder, "earlier-1", "earlier-2" and so on, with a warning; otherwise some of them could be
 * taken for this job's.
 *
 * Errors, each with a message: -EINVAL if one of these files is not regular (opening a FIFO would
 * wait for its reader), or another -errno.
 */
int output_folder_prepare(const char *path, struct plenum_error *err);

#endif
