/* SPDX-License-Identifier: MIT */
/* hint_cache.h - stores a few bytes per sample that speed up its next use, also in later runs, in a
 * file beside the index. This file does not interpret hints.
 *
 * Any number of threads and processes may use a file at once. A reader gets the hint that was
 * written for the sample, or none: hints can be lost, so callers must not depend on them. */
#ifndef LOADER_DATASET_HINT_CACHE_H
#define LOADER_DATASET_HINT_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/dataset/dataset.h"

/** The file has this header, then the offset of each sample's record (u64; 0: none), then
 * records. */
struct hint_cache_header {
    uint8_t magic[8];
    uint32_t version, samples;
    uint8_t fingerprint[16];
    uint64_t reserved[3];
    uint64_t checksum; /* XXH3-64 of the fields before it */
};

struct hint_record {
    uint64_t checksum; /* XXH3-64 of the other fields and the bytes */
    uint32_t sample;
    uint32_t len, room; /* bytes that follow, and room for them */
    uint32_t reserved;
};

/** An open hint cache. Threads: any; only hint_cache_close() needs exclusive access. */
struct hint_cache;

/** Identifies the index that the hints belong to. */
struct hint_cache_key {
    uint8_t fingerprint[16]; /* the index's; hints of another index are deleted */
    uint32_t samples;
    uint64_t bytes; /* size of all samples; hints take at most a 25th of it */
};

/**
 * Open a file of hints, for reading only if it is not writable.
 *
 * Errors: -EFBIG the samples are too small to be worth hints; -ENOENT there is no file; -ESTALE it
 * belongs to another index or is damaged; another -errno of the file system; -ENOMEM.
 */
int hint_cache_open(const char *path, const struct hint_cache_key *key, struct hint_cache **ret);
/** Like hint_cache_open(), but create an empty file instead of returning -ENOENT or -ESTALE. Only
 * one process at a time may do so; otherwise one could write to a file that another has
 * replaced. */
int hint_cache_make(const char *path, const struct hint_cache_key *key, struct hint_cache **ret);
/** NULL is ignored. */
void hint_cache_close(struct hint_cache *hints);

/** Returns 0 if every hint that was put is stored; -EROFS if the file is not writable; -ENOSPC if
 * the hints have reached their size limit; or the -errno of a failed write, after which hints are
 * no longer written. */
int hint_cache_state(struct hint_cache *hints);

/** Returns the number of bytes written since hint_cache_open(). */
uint64_t hint_cache_written(const struct hint_cache *hints);

/**
 * Read the hint of a sample into `buffer`; `*ret` points to its `*ret_len` bytes there. Returns
 * false if there is none.
 */
bool hint_cache_get(struct hint_cache *hints, uint32_t sample, struct dataset_buffer *buffer,
                    const uint8_t **ret, size_t *ret_len);

/**
 * Write the hint of a sample, replacing the previous one. `max`: the length to which the hint may
 * grow; that much room is reserved for it. `had`: the length of the hint that this one was derived
 * from, 0 without one. If another thread has since written a hint that is at least as long, that
 * one is kept, so that hints only grow.
 *
 * Errors: those of hint_cache_state(); -ENOSPC no room is left for its record; -ENOMEM.
 */
int hint_cache_put(struct hint_cache *hints, uint32_t sample, const void *bytes, size_t len,
                   size_t max, size_t had);

#endif
