/* SPDX-License-Identifier: MIT */
/* checksums.h - a hash of each file as it was when it was first read, in a file beside the index.
 *
 * A file whose time has changed, but not its size, is the same if its hash is the same: it was
 * touched, or copied back. Without a hash it counts as changed. A file with another hash has
 * changed, whatever its time: times can be put back. */
#ifndef LOADER_DATASET_CHECKSUMS_H
#define LOADER_DATASET_CHECKSUMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** An open file of hashes. Threads: any, but for close(). */
struct checksums;

/** Open the hashes of the index with this checksum; those of another index are deleted. 0 or
 * -errno. */
int checksums_open(const char *path, uint64_t index_checksum, struct checksums **ret);
/** NULL is nothing. */
void checksums_close(struct checksums *checksums);

/** Are these the bytes whose hash was recorded? Where none was, it is recorded if `record` says so;
 * otherwise false. */
bool checksums_agree(const struct checksums *checksums, uint32_t sample, const void *bytes,
                     size_t len, bool record);

#endif
