/* SPDX-License-Identifier: MIT */
/* ahead.h - the look-ahead. It fetches ranges before they are read: many at once, and neighbouring
 * ranges of one object with one request. A late request is sent once more. Threads: any. */
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
    struct fetch_moved *moved; /* the object's redirection, or NULL */
    uint64_t offset, len;
};

/** Fetch a range soon. Has no effect if the range has more than 16 MiB or the memory for the
 * look-ahead is used up. Errors are not reported: the reader of the range repeats a request that
 * failed. */
void ahead_announce(const struct ahead_range *range);

/**
 * Copy an announced range to `dst`, and wait for it if its request is in flight. Returns false if
 * the caller has to fetch it. Each call uses up one announcement.
 */
bool ahead_take(const struct ahead_range *range, uint8_t *dst, const atomic_bool *cancel);

/** Drop all announced ranges of an owner, apart from those that are being read. */
void ahead_forget(const void *owner);

enum { AHEAD_BYTES = 256 << 20 }; /* the default of ahead_set_memory() */

/** Limit the memory of all ranges together, from their announcement until they are read. */
void ahead_set_memory(uint64_t bytes);

/** Totals since the start, except `bytes`. */
struct ahead_counts {
    uint64_t requests; /* started requests */
    uint64_t ranges;   /* ranges that these requests covered */
    uint64_t hedges;   /* requests that were late and sent once more */
    uint64_t bytes;    /* memory that ranges take now */
};
void ahead_count(struct ahead_counts *ret);

#endif
