/* SPDX-License-Identifier: MIT */
/* checksums.h - hashes of files as they were when they were first read, kept in a file beside the index.
 *
 * A file whose time has changed, but not its size, is the same if its hash is: it was touched, or
 * copied back. Without a hash nobody can tell, and it counts as changed. */
#ifndef LOADER_DATASET_CHECKSUMS_H
#define LOADER_DATASET_CHECKSUMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** An open file of hashes. Threads: any, but for close(). */
struct checksums;

/** The hashes of the index with this checksum; those of another are thrown away. 0 or -errno. */
int checksums_open(const char *path, uint64_t index_checksum, struct checksums **ret);
/** NULL is nothing. */
void checksums_close(struct checksums *checksums);

/** The sample's file is what was indexed, and holds this: remembered, if nothing is yet. */
void checksums_record(const struct checksums *checksums, uint32_t sample, const void *bytes,
                      size_t len);
/** Is this what the sample's file held then? false also if that is not known. */
bool checksums_match(const struct checksums *checksums, uint32_t sample, const void *bytes,
                     size_t len);

#endif
