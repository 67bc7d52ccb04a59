/* SPDX-License-Identifier: MIT */
/* badlist.h - the known bad samples of a data set, in a file in the cache folder. */
#ifndef LOADER_DATASET_BADLIST_H
#define LOADER_DATASET_BADLIST_H

#include <stddef.h>
#include <stdint.h>

#include "loader/dataset/dataset.h"

/** A list read from a file. Zero-initialised. */
struct badlist {
    struct dataset_bad *samples; /* [count], ascending; the reasons point into text */
    uint32_t count;
    char *text;
};

/**
 * Read the list at `path` of a data set with this fingerprint and number of samples. Returns 0,
 * with an empty list if there is no file or the file belongs to another data set; -EBADMSG if the
 * file is damaged; -ENOMEM; or another -errno.
 */
int badlist_read(const char *path, const uint8_t fingerprint[16], uint32_t samples,
                 struct badlist *ret);
/** Parse a list of `len` bytes. Takes ownership of `text` (malloc, with room for one more byte).
 * Returns as badlist_read() does. */
int badlist_parse(char *text, size_t len, const uint8_t fingerprint[16], uint32_t samples,
                  struct badlist *ret);
/** Write a list atomically. Returns 0 or -errno. */
int badlist_write(const char *path, const char *name, const uint8_t fingerprint[16],
                  const struct dataset_bad *samples, uint32_t count);
void badlist_fini(struct badlist *list);

/** Remove the samples from the list that pipelines with `junk` show. */
void badlist_forgive_junk(struct badlist *list);

/** Returns the index of a sample in the list, or -1. */
int64_t badlist_find(const struct badlist *list, uint32_t sample);

/** Returns a hash of the samples in the list; 0 for an empty list. */
uint64_t badlist_hash(const struct badlist *list);

#endif
