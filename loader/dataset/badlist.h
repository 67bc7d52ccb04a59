/* SPDX-License-Identifier: MIT */
/* badlist.h - the samples of a data set that are known to be bad, in a file in the cache folder. */
#ifndef LOADER_DATASET_BADLIST_H
#define LOADER_DATASET_BADLIST_H

#include <stddef.h>
#include <stdint.h>

#include "loader/dataset/dataset.h"

/** Read from a file. Starts as zeros. */
struct badlist {
    struct dataset_bad *samples; /* [count], ascending; the reasons lie in text */
    uint32_t count;
    char *text;
};

/**
 * Read the list at `path` that was made of a data set with this fingerprint and so many samples: 0
 * with an empty list when there is none, or it is another data set's; -EBADMSG a damaged one;
 * -ENOMEM; or another -errno.
 */
int badlist_read(const char *path, const uint8_t fingerprint[16], uint32_t samples,
                 struct badlist *ret);
/** Parse a list of `len` bytes in memory, which it takes (malloc, with room for one byte more). */
int badlist_parse(char *text, size_t len, const uint8_t fingerprint[16], uint32_t samples,
                  struct badlist *ret);
/** Write a list, as a whole or not at all: 0 or -errno. */
int badlist_write(const char *path, const char *name, const uint8_t fingerprint[16],
                  const struct dataset_bad *samples, uint32_t count);
void badlist_fini(struct badlist *list);

/** Leave out the samples that pipelines with `junk` show. */
void badlist_forgive_junk(struct badlist *list);

/** Number of the sample in the list, or -1. */
int64_t badlist_find(const struct badlist *list, uint32_t sample);

/** A hash of which samples are in it; 0 for none. */
uint64_t badlist_hash(const struct badlist *list);

#endif
