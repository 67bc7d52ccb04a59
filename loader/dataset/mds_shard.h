/* SPDX-License-Identifier: MIT */
/* mds_shard.h - finds samples and the values of their columns in an MDS shard, which is in a file
 * or in memory.
 *
 *     u32 samples | u32 offsets [samples + 1] | JSON | samples
 *
 * Each offset is the position of a sample in the shard; the last one is the shard's size. A sample
 * begins with a u32 size for each column of varying size; the values of all columns follow. */
#ifndef LOADER_DATASET_MDS_SHARD_H
#define LOADER_DATASET_MDS_SHARD_H

#include "loader/dataset/mds_index.h"
#include "loader/dataset/source.h"

enum { MDS_WINDOW = 4096, MDS_TEXT_MAX = 64 };

/** A part of a file: its bytes starting at `at`. */
struct mds_window {
    uint64_t at;
    size_t len;
    uint8_t bytes[MDS_WINDOW];
};

/** Reads a shard. */
struct mds_reader {
    const struct mds_shard *shard;
    const uint8_t *bytes; /* [shard->bytes]; NULL: the shard is in the file */
    struct source source;
    struct plenum_error *err; /* set by a failed read of an object; or NULL */
    struct mds_window head;   /* a part of the offsets */
    struct mds_window body;
};

/** The bytes of a sample: [begin, end) in the shard. */
struct mds_sample {
    uint64_t begin, end;
};

/** The place of a value in the shard. */
struct mds_value {
    uint64_t at;
    uint32_t len;
};

/** Copy bytes of the shard. Returns 0; -EBADMSG if they are beyond its end; or an error of
 * source_read(). */
int mds_get(struct mds_reader *r, uint64_t at, void *ret, size_t len);

/** Find a sample by its number. Returns 0; -EBADMSG if its offsets are impossible; or an error of
 * mds_get(). */
int mds_find_sample(struct mds_reader *r, uint32_t number, struct mds_sample *ret);
/** Find the values of all columns of a sample; `ret` is [columns]. Errors: those of
 * mds_find_sample(). */
int mds_find_values(struct mds_reader *r, const struct mds_sample *sample, struct mds_value *ret);

/** Write a number, stored in `size` bytes, as text to `ret` [MDS_TEXT_MAX]; returns its length. */
size_t mds_print(const struct mds_column *column, const uint8_t *value, char *ret);

#endif
