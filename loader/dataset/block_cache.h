/* SPDX-License-Identifier: MIT */
/* block_cache.h - keeps decompressed blocks, such as pages of Parquet files and MDS shards, because
 * reading one sample takes a whole block.
 *
 * The cache's size is limited. At the limit, a thread that needs another block waits until other
 * threads have released some, so memory does not grow with the number of threads. A block that is
 * larger than the limit is alone in memory. Threads: any. */
#ifndef LOADER_DATASET_BLOCK_CACHE_H
#define LOADER_DATASET_BLOCK_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

enum { BLOCK_CACHE_BYTES = 256 << 20 };

struct block_cache;
struct block;

/** Identifies a block, and describes how to make it. */
struct block_recipe {
    uint32_t container;
    uint64_t at;  /* identifies the block in its container, together with `use` */
    uint64_t use; /* how the bytes there are interpreted: parts of a hostile file may overlap */
    size_t bytes; /* the block's size in memory */
    /** Make the block's data. Returns 0, or -errno with `err` set. */
    int (*make)(const struct block_recipe *recipe, void **ret, struct plenum_error *err);
    void (*destroy)(void *data);
    void *arg;
};

/** Create an empty cache of `limit` bytes. Returns NULL if memory runs out. */
struct block_cache *block_cache_create(size_t limit);
/** Destroy a cache whose blocks have all been released. NULL is ignored. */
void block_cache_destroy(struct block_cache *cache);

/** Find a block, or make it. Returns 0, an error of `make`, or -ENOMEM. Release it with
 * block_cache_release(). `make` may call this function; such a call does not wait for memory. */
int block_cache_get(struct block_cache *cache, const struct block_recipe *recipe,
                    struct block **ret, struct plenum_error *err);
/** Find a block that has been made. Returns NULL if there is none. Release it with
 * block_cache_release(). */
struct block *block_cache_find(struct block_cache *cache, const struct block_recipe *recipe);
void block_cache_release(struct block_cache *cache, struct block *block);
/** Returns the data that `make` returned. Borrowed until the block is released. */
void *block_get_data(const struct block *block);
/** Returns the `bytes` of the recipe that made the block. A later recipe for the same block may
 * give another size. */
size_t block_get_bytes(const struct block *block);

/** Returns the maximum number of bytes that all blocks have taken together. */
size_t block_cache_get_peak(struct block_cache *cache);

#endif
