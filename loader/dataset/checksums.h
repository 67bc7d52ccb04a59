/* SPDX-License-Identifier: MIT */
/* checksums.h - records a hash of each file at its first read, in a file beside the index.
 *
 * If a file's mtime has changed but its size has not, an equal hash shows that the file was only
 * touched or restored. Without a hash it counts as changed. A file with a different hash has
 * changed even if its mtime has not, because mtimes can be set back. */
#ifndef LOADER_DATASET_CHECKSUMS_H
#define LOADER_DATASET_CHECKSUMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** An open file of hashes. Threads: any; only checksums_close() needs exclusive access. */
struct checksums;

/** Open the hashes of the index with this checksum. Hashes of another index are deleted. Returns 0
 * or -errno. */
int checksums_open(const char *path, uint64_t index_checksum, struct checksums **ret);
/** NULL is ignored. */
void checksums_close(struct checksums *checksums);

/** Returns whether these bytes have the recorded hash. If none is recorded, the result is `record`,
 * and if that is true, this hash is recorded. */
bool checksums_agree(const struct checksums *checksums, uint32_t sample, const void *bytes,
                     size_t len, bool record);

#endif
