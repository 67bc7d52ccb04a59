/* SPDX-License-Identifier: MIT */
/* keep.h - decides which samples a cache of limited size keeps: an index of its entries, and the
 * choice of victims. It does not know about files. Threads: the caller's lock protects
 * everything. */
#ifndef LOADER_CACHE_KEEP_H
#define LOADER_CACHE_KEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "loader/cache/course.h"

/** Opaque. */
struct keep;

#define KEEP_NONE UINT32_MAX

/** Space is counted in blocks of this size, as on a disk. */
enum { KEEP_BLOCK = 4096 };

/** A hash that identifies bytes in a store. */
struct keep_key {
    uint64_t word[2];
};

/** Returns the key of something that `bytes` [len] identify. */
struct keep_key keep_hash(const void *bytes, size_t len);

/** Identifies no set. */
#define KEEP_NO_SET UINT64_MAX

/** The sample that an entry's bytes belong to. */
struct keep_sample {
    uint64_t set; /* a hash of its data set, or KEEP_NO_SET */
    uint32_t number;
};

/** Describes an entry's bytes. */
struct keep_bytes {
    struct keep_key key;
    uint64_t hash; /* a checksum of the bytes */
    uint32_t len;
    struct keep_sample sample; /* the sample that last used the bytes */
};

struct keep_counts {
    uint64_t entries, known; /* known: samples whose next use is known */
    uint64_t bytes, limit;   /* bytes: multiples of KEEP_BLOCK */
};

/** Create an empty cache of `limit` bytes. Returns NULL if memory runs out. */
struct keep *keep_create(uint64_t limit);
void keep_destroy(struct keep *keep);
void keep_get_counts(const struct keep *keep, struct keep_counts *ret);

/* ---- entries ---- */

/** Returns the number of an entry, or KEEP_NONE. Numbers are small; those of removed entries are
 * reused. */
uint32_t keep_find(const struct keep *keep, const struct keep_key *key);
/** Copy the description of an entry's bytes. Returns false if the entry is still new. */
bool keep_get(const struct keep *keep, uint32_t entry, struct keep_bytes *ret);

/**
 * Decide whether bytes that are not in the cache become an entry, and remove other entries to make
 * room. Returns the new entry's number, or KEEP_NONE. `evict` is called for each removed entry.
 *
 * The entry is new until keep_settle(): it takes up room, but cannot be a victim.
 */
uint32_t keep_admit(struct keep *keep, const struct keep_bytes *bytes, uint64_t now_ns,
                    void (*evict)(void *arg, uint32_t entry), void *arg);
void keep_settle(struct keep *keep, uint32_t entry, uint64_t hash, uint64_t now_ns);
/** Add an entry that an earlier process kept, under its old number. Returns false if there is no
 * room or memory, the number is too large, or another entry has the key. */
bool keep_restore(struct keep *keep, uint32_t entry, const struct keep_bytes *bytes);
/** End the calls of keep_restore(): numbers that it was not called for become available. */
void keep_restored(struct keep *keep);
/** Remove an entry. */
void keep_remove(struct keep *keep, uint32_t entry);
/** Remove all entries. */
void keep_remove_all(struct keep *keep);
/** Make an entry match the one that another process has under this number: `bytes`, or no entry if
 * it is NULL. Call keep_remove_all() and keep_restored() before the next keep_admit(). */
void keep_follow(struct keep *keep, uint32_t entry, const struct keep_bytes *bytes);

/** Record that an entry has been read, and compute when it is used next. Removes it if memory runs
 * out. */
void keep_use(struct keep *keep, uint32_t entry, const struct keep_sample *sample, uint64_t now_ns);

/* ---- streams ---- */

/** Open a stream, which uses the indices [offset, offset + local) of each step. NULL: there are too
 * many different orders, or no memory; its samples then have no known use. */
struct course_stream *keep_open_stream(struct keep *keep, const struct course_order *order,
                                       uint32_t offset, uint32_t local, uint64_t now_ns);
void keep_close_stream(struct keep *keep, struct course_stream *stream, uint64_t now_ns);

/** Returns whether the index and the heaps are consistent; for tests. */
bool keep_is_sound(const struct keep *keep);

#endif
