/* SPDX-License-Identifier: MIT */
/* sample_cache.h - caches samples from object stores on the local disk or in memory, for all
 * sessions of a loader.
 *
 * The cache never changes a sample: a range that is missing, damaged or slow to read is fetched
 * from its store. A process has at most one cache; without one, these functions do nothing. The
 * cache does not check whether a reader may read the object: store_open() does. Threads: any. */
#ifndef LOADER_CACHE_SAMPLE_CACHE_H
#define LOADER_CACHE_SAMPLE_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include <plenum/error.h>

#include "loader/cache/course.h"
#include "loader/cache/keep.h"

/** A range of one version of an object. */
struct sample_cache_range {
    struct keep_key object; /* a hash of everything that identifies the version */
    uint64_t offset, len;
    struct keep_sample sample; /* the range's sample; KEEP_NO_SET: the range is not cached */
};

/** Totals since the start, and the present contents. */
struct sample_cache_counts {
    struct keep_counts kept;
    uint64_t hits, hit_bytes;     /* ranges that were read from the cache */
    uint64_t misses, miss_bytes;  /* ranges that were fetched */
    uint64_t writes, write_bytes; /* ranges that were added */
    uint64_t evicted;             /* ranges that were removed to make room */
    uint64_t dropped;             /* ranges that were not added because too many waited to be
                                   * written */
    uint64_t damaged;             /* ranges that could not be read, or whose checksum was wrong */
    bool open, in_memory, paused; /* paused: the disk failed, or is full or slow */
};

/**
 * Open the cache in `folder`, which this process then uses alone, with at most `limit` bytes. If
 * `folder` is NULL, the cache is in memory.
 *
 * If another process uses the folder, the cache has what that process has, and adds nothing. When
 * that process ends, the cache takes the folder over; sample_cache_get_news() reports both.
 *
 * Errors: those of shelf_attach(), shelf_take() (but not -EBUSY) and shelf_load(); -EAGAIN no
 * thread could be started. Everything else also works without a cache.
 */
int sample_cache_open(const char *folder, uint64_t limit, struct plenum_error *err);
/** Stop writing, and close the cache. All streams must be closed. */
void sample_cache_close(void);
void sample_cache_get_counts(struct sample_cache_counts *ret);
/** Get a message about the cache if its state has changed since the last call. Returns whether it
 * has. */
bool sample_cache_get_news(struct plenum_error *ret);

/** Returns whether this range is in the cache. If it is, the kernel starts to read it. */
bool sample_cache_has(const struct sample_cache_range *range);
/** Read a range into `dst` [len]. Returns false if it has to be fetched. */
bool sample_cache_read(const struct sample_cache_range *range, void *dst);
/** Offer a fetched range. The cache copies it if there is room, or if it is needed sooner than the
 * ranges that it would replace. Does not wait for the disk. */
void sample_cache_keep(const struct sample_cache_range *range, const void *bytes);

/** Open a stream (keep_open_stream()). Returns NULL if the next uses of its samples cannot be
 * known. */
struct course_stream *sample_cache_open_stream(const struct course_order *order, uint32_t offset,
                                               uint32_t local);
/** Record that the stream has requested everything from `begin` to `end`. NULL is ignored. */
void sample_cache_advance(struct course_stream *stream, struct order_place begin,
                          struct order_place end);
void sample_cache_close_stream(struct course_stream *stream);

#endif
