/* SPDX-License-Identifier: MIT */
/* ahead.h - the look-ahead: fetches ranges before they are read, many at once, and neighbours of
 * one object with one request. A request that is late is sent once more. Threads: any. */
#ifndef LOADER_STORE_AHEAD_H
#define LOADER_STORE_AHEAD_H

#include "loader/store/fetch.h"

/** A range of an object. Everything that it points to is copied. */
struct ahead_range {
    struct bucket *bucket;
    const char *key; /* not encoded */
    uint64_t object; /* identifies this version of the object within its owner */
    const void *owner;
    const struct object_facts *facts;
    struct fetch_moved *moved; /* or NULL */
    uint64_t offset, len;
};

/** Fetch a range soon. Has no effect if the memory for the look-ahead is in use; nothing fails
 * here, because the reader of the range repeats a request that failed. */
void ahead_announce(const struct ahead_range *range);

/**
 * Copy a range that was announced to `dst`, after waiting for it if its request is under way: true;
 * false: it has to be fetched. Every announcement is good for one call.
 */
bool ahead_take(const struct ahead_range *range, uint8_t *dst, const atomic_bool *cancel);

/** Forget all ranges of an owner, apart from those that are being read. */
void ahead_forget(const void *owner);

enum { AHEAD_BYTES = 256 << 20 }; /* the default of ahead_set_memory() */

/** Set the most memory that all ranges take, from their request until they are read. */
void ahead_set_memory(uint64_t bytes);

/** What has been done since the start. */
struct ahead_counts {
    uint64_t requests; /* that were started */
    uint64_t ranges;   /* that they were for */
    uint64_t hedges;   /* requests that were late and sent once more */
    uint64_t bytes;    /* of memory that ranges take now */
};
void ahead_count(struct ahead_counts *ret);

#endif
