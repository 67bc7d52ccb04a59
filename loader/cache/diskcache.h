/* SPDX-License-Identifier: MIT */
/* diskcache.h - caches samples from object stores on the local disk, for all sessions of a loader.
 *
 * The cache never changes a sample: a range that is missing, damaged or slow to read is fetched
 * from its store. A process has at most one cache; without one, these functions do nothing. The
 * cache does not check whether a reader may read the object: store_open() does. Threads: any. */
#ifndef LOADER_CACHE_DISKCACHE_H
#define LOADER_CACHE_DISKCACHE_H

#include <stdbool.h>
#include <stdint.h>

#include <plenum/error.h>

#include "loader/cache/course.h"
#include "loader/cache/keep.h"

/** A range of one version of an object. */
struct diskcache_range {
    struct keep_key object; /* a hash of everything that identifies the version */
    uint64_t offset, len;
    struct keep_sample sample; /* the sample that it belongs to */
};

/** Totals since the start, and the present contents. */
struct diskcache_counts {
    struct keep_counts kept;
    uint64_t hits, hit_bytes;     /* ranges that were read from the cache */
    uint64_t misses, miss_bytes;  /* ranges that were fetched */
    uint64_t writes, write_bytes; /* ranges that were added */
    uint64_t evicted;             /* ranges that were removed to make room */
    uint64_t dropped;             /* ranges that were not added because the disk was too slow */
    uint64_t damaged;             /* ranges whose checksum was wrong */
    bool open, paused;            /* paused: the last use of the disk failed */
};

/**
 * Open the cache in `folder`, which this process then uses alone, with at most `limit` bytes.
 *
 * Errors: those of shelf_open(); without a cache, everything else works.
 */
int diskcache_open(const char *folder, uint64_t limit, struct plenum_error *err);
/** Stop writing, and close the cache. All streams must be closed. */
void diskcache_close(void);
void diskcache_get_counts(struct diskcache_counts *ret);
/** Get a message about the disk if its state has changed since the last call. Returns whether it
 * has. */
bool diskcache_get_news(struct plenum_error *ret);

/** Is this range in the cache? If so, the kernel starts to read it. */
bool diskcache_has(const struct diskcache_range *range);
/** Read a range into `dst` [len]. False: it has to be fetched. */
bool diskcache_read(const struct diskcache_range *range, void *dst);
/** Offer a fetched range: the cache copies it if it is needed sooner than what it would replace.
 * Does not wait for the disk. */
void diskcache_keep(const struct diskcache_range *range, const void *bytes);

/** Get the number of a set. An equal `id` means that the samples are numbered in the same way.
 * KEEP_NONE: there is no cache, or there are too many sets. */
uint32_t diskcache_get_set(const struct keep_key *id);
/** Record which sample a range belongs to, when its data set is opened. */
void diskcache_tell(const struct diskcache_range *range);

/** Open a stream (keep_open_stream()). Returns NULL if the next uses of its samples cannot be
 * known. */
struct course_stream *diskcache_open_stream(const struct course_order *order, uint32_t offset,
                                            uint32_t local);
/** Record that the stream has requested everything from `begin` to `end`. NULL is ignored. */
void diskcache_advance(struct course_stream *stream, struct order_place begin,
                       struct order_place end);
void diskcache_close_stream(struct course_stream *stream);

#endif
