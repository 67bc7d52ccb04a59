/* SPDX-License-Identifier: MIT */
/* checksums.h - a hash of each file as it was when it was first read, in a file beside the index.
 *
 * A file whose time has changed, but not its size, is the same if its hash is the same: somebody
 * touched it, or copied it back. Without a hash nobody can tell, and the file counts as changed. */
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

/** Record the hash of a file that is as it was when it was indexed, unless there is one. */
void checksums_record(const struct checksums *checksums, uint32_t sample, const void *bytes,
                      size_t len);
/** Are these the bytes whose hash was recorded? False also when there is no hash. */
bool checksums_match(const struct checksums *checksums, uint32_t sample, const void *bytes,
                     size_t len);

#endif
