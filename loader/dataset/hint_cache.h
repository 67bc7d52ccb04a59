/* SPDX-License-Identifier: MIT */
/* hint_cache.h - some bytes for each sample that make its next use quicker, kept from run to run in
 * a file beside the index. What they mean, their writer knows.
 *
 * Any number of threads and processes may read and write a file of notes at once. What is read is
 * what was written for that sample, or nothing: notes can be lost, and nobody may depend on one. */
#ifndef LOADER_DATASET_HINT_CACHE_H
#define LOADER_DATASET_HINT_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/dataset/dataset.h"

/** How it lies in the file: a header, for each sample the place of its piece (u64; 0: it has none),
 * pieces. */
struct hint_cache_header {
    uint8_t magic[8];
    uint32_t version, samples;
    uint8_t fingerprint[16];
    uint64_t reserved[3];
    uint64_t checksum; /* XXH3-64 of what is before */
};

struct hint_record {
    uint64_t checksum; /* XXH3-64 of what follows, with the bytes */
    uint32_t sample;
    uint32_t len, room; /* bytes that follow, and may */
    uint32_t reserved;
};

/** An open file of notes. Threads: any, but for close(). */
struct hint_cache;

/** What the notes are of. */
struct hint_cache_key {
    uint8_t fingerprint[16]; /* of the index: with another one, notes are thrown away */
    uint32_t samples;
    uint64_t bytes; /* of all samples; notes take a 25th of that, at most */
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
int hint_cache_open(const char *path, const struct hint_cache_key *subject, bool make,
                    struct hint_cache **ret);
/** NULL is nothing. */
void hint_cache_close(struct hint_cache *hints);

/** Whether everything that was put is there: 0; -EROFS nothing can be written; -ENOSPC the notes
 * have all the bytes that they may take; or -errno of a write that failed, after which none is
 * tried. */
int hint_cache_state(struct hint_cache *hints);

/** Bytes of the notes that were put since open(). */
uint64_t hint_cache_written(const struct hint_cache *hints);

/**
 * The note of a sample, into `buffer`: `*ret` points to buffer->len bytes in it. false: there is
 * none.
 */
bool hint_cache_get(struct hint_cache *hints, uint32_t sample, struct dataset_buffer *buffer,
                    const uint8_t **ret, size_t *ret_len);

/**
 * Write the note of a sample, in place of the one before. `max`: how long it may become, so that a
 * longer one later finds room in the same place.
 *
 * Errors: as hint_cache_state(); -ENOMEM.
 */
int hint_cache_put(struct hint_cache *hints, uint32_t sample, const void *bytes, size_t len,
                   size_t max);

#endif
