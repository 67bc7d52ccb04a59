/* SPDX-License-Identifier: MIT */
/* hint_cache.h - some bytes for each sample that make its next use faster, kept from run to run in
 * a file beside the index. Only the writer of a hint knows what it means.
 *
 * Any number of threads and processes may use a file at once. A reader gets what was written for
 * the sample, or nothing: hints can be lost, and nobody may depend on one. */
#ifndef LOADER_DATASET_HINT_CACHE_H
#define LOADER_DATASET_HINT_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/dataset/dataset.h"

/** The file: a header, for each sample the offset of its record (u64; 0: it has none), records. */
struct hint_cache_header {
    uint8_t magic[8];
    uint32_t version, samples;
    uint8_t fingerprint[16];
    uint64_t reserved[3];
    uint64_t checksum; /* XXH3-64 of the fields before it */
};

struct hint_record {
    uint64_t checksum; /* XXH3-64 of what follows, with the bytes */
    uint32_t sample;
    uint32_t len, room; /* bytes that follow, and its capacity */
    uint32_t reserved;
};

/** An open hint cache. Threads: any, but for close(). */
struct hint_cache;

/** What the hints are for. */
struct hint_cache_key {
    uint8_t fingerprint[16]; /* of the index: with another one, the hints are deleted */
    uint32_t samples;
    uint64_t bytes; /* of all samples; hints take a 25th of that, at most */
};

/**
 * Open a file of hints; where it cannot be written, it is only read from.
 *
 * @param make  write an empty one where there is none, or one of something else. One process at a
 *              time may, or one would write into a file that another has put aside.
 *
 * Errors: -EFBIG the samples are too small to be worth hints; -ENOENT there is none, -ESTALE it is
 * of something else or damaged (both without `make`); another -errno of the file system; -ENOMEM.
 */
int hint_cache_open(const char *path, const struct hint_cache_key *key, bool make,
                    struct hint_cache **ret);
/** NULL is nothing. */
void hint_cache_close(struct hint_cache *hints);

/** Is all that was put there: 0; -EROFS nothing can be written; -ENOSPC the file
 * has all the bytes that they may take; or -errno of a write that failed, after which none is
 * tried. */
int hint_cache_state(struct hint_cache *hints);

/** Bytes of the hints that were put since open(). */
uint64_t hint_cache_written(const struct hint_cache *hints);

/**
 * The hint of a sample, into `buffer`: `*ret` points to buffer->len bytes in it. false: there is
 * none.
 */
bool hint_cache_get(struct hint_cache *hints, uint32_t sample, struct dataset_buffer *buffer,
                    const uint8_t **ret, size_t *ret_len);

/**
 * Write the hint of a sample, in place of the one before. `max`: how long it may become, so that a
 * longer one later finds room in the same place. `had`: how long the hint was that it was made
 * from, 0 without one. Where another thread has written one meanwhile that is as long as this or
 * longer, that one stays: hints only grow.
 *
 * Errors: as hint_cache_state(); -ENOMEM.
 */
int hint_cache_put(struct hint_cache *hints, uint32_t sample, const void *bytes, size_t len,
                   size_t max, size_t had);

#endif
