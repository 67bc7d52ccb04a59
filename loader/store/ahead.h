/* SPDX-License-Identifier: MIT */
/* ahead.h - the look-ahead: fetches ranges before they are read, many at once, and neighbours of
 * one object with one request. Threads: any. */
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

/** Forget all ranges of an owner. */
void ahead_forget(const void *owner);

/** The number of requests that were started, and of ranges that they were for; for tests. */
void ahead_count(uint64_t *requests, uint64_t *ranges);

#endif
