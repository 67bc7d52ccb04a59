/* SPDX-License-Identifier: MIT */
/* block_cache.c - keeps a hash table of blocks, and a list of unused ones, oldest first.
 *
 * A block is made outside the lock. Threads that need it wait instead of making it again. A thread
 * waits for memory only while it holds no block, so threads cannot wait for each other: a thread
 * that holds a block never waits for memory, and will release the block. */
#include "config.h"

#include "loader/dataset/block_cache.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/util/error_set.h"
#include "common/util/list.h"
#include "common/util/lock.h"
#include "common/util/util.h"

enum {
    BUCKETS = 1024,
    OVERHEAD = 4096, /* counted for each block, which limits their number */
};

struct block {
    struct list in_bucket, unused; /* `unused` is linked while `users` is 0 */
    uint32_t container;
    uint64_t at, use;
    size_t bytes;
    void (*destroy)(void *data);
    void *data; /* NULL: it is being made */
    unsigned users;
};

struct block_cache {
    size_t limit; /* constant */
    struct lock mu;
    pthread_cond_t changed; /* a block was made, or released, or could not be made */
    struct list buckets[BUCKETS];
    struct list unused;
    size_t bytes, peak;
    unsigned in_use; /* number of blocks with users */
};

/* The number of blocks that this thread holds or is making. */
static _Thread_local unsigned held;

struct block_cache *block_cache_create(size_t limit)
{
    struct block_cache *c = calloc(1, sizeof(*c));

    if (!c)
        return NULL;
    c->limit = limit;
    lock_init(&c->mu);
    (void)pthread_cond_init(&c->changed, NULL);
    for (size_t i = 0; i < BUCKETS; i++)
        list_init(&c->buckets[i]);
    list_init(&c->unused);
    return c;
}

static struct list *bucket_of(struct block_cache *c, uint32_t container, uint64_t at)
{
    uint64_t hash = (at + container) * UINT64_C(0x9e3779b97f4a7c15);

    return &c->buckets[hash >> 54];
}

static struct block *find(struct block_cache *c, const struct block_recipe *recipe)
{
    struct list *bucket = bucket_of(c, recipe->container, recipe->at);

    assert(lock_is_held(&c->mu));
    for (struct list *at = list_first(bucket); at; at = list_next(bucket, at)) {
        struct block *b = container_of(at, struct block, in_bucket);

        if (b->container == recipe->container && b->at == recipe->at && b->use == recipe->use)
            return b;
    }
    return NULL;
}

/* Remove an unused block from the table. The caller destroys it, outside the lock. */
static void forget(struct block_cache *c, struct block *b)
{
    assert(lock_is_held(&c->mu) && b->users == 0 && c->bytes >= b->bytes);
    list_remove(&b->in_bucket);
    c->bytes -= b->bytes;
}

static void destroy_block(struct block *b)
{
    if (b->data)
        b->destroy(b->data);
    free(b);
}

/* Make room for `bytes` by removing unused blocks. Returns false if blocks in use must be released
 * first. */
static bool make_room(struct block_cache *c, size_t bytes)
{
    while (c->bytes + bytes > c->limit && !list_is_empty(&c->unused)) {
        struct block *b = container_of(list_first(&c->unused), struct block, unused);

        list_remove(&b->unused);
        forget(c, b);
        lock_release(&c->mu);
        destroy_block(b);
        lock_acquire(&c->mu);
    }
    return c->bytes + bytes <= c->limit || c->in_use == 0 || held > 0;
}

static void use(struct block_cache *c, struct block *b)
{
    if (b->users++ == 0) {
        c->in_use++;
        if (list_is_linked(&b->unused))
            list_remove(&b->unused);
    }
    held++;
}

static void unuse(struct block_cache *c, struct block *b)
{
    assert(lock_is_held(&c->mu) && b->users > 0 && c->in_use > 0 && held > 0);
    held--;
    if (--b->users == 0) {
        c->in_use--;
        list_add_last(&c->unused, &b->unused);
        (void)pthread_cond_broadcast(&c->changed);
    }
}

/* Add a block, which the caller must make. Returns NULL if memory runs out. */
static struct block *add(struct block_cache *c, const struct block_recipe *recipe)
{
    struct block *b = calloc(1, sizeof(*b));

    if (!b)
        return NULL;
    *b = (struct block){.container = recipe->container,
                        .at = recipe->at,
                        .use = recipe->use,
                        .bytes = recipe->bytes + OVERHEAD,
                        .destroy = recipe->destroy};
    list_add_first(bucket_of(c, b->container, b->at), &b->in_bucket);
    c->bytes += b->bytes;
    c->peak = c->bytes > c->peak ? c->bytes : c->peak;
    use(c, b);
    return b;
}

static int make(struct block_cache *c, struct block *b, const struct block_recipe *recipe,
                struct plenum_error *err)
{
    void *data = NULL;
    int r;

    lock_release(&c->mu);
    r = recipe->make(recipe, &data, err);
    lock_acquire(&c->mu);
    b->data = data;
    (void)pthread_cond_broadcast(&c->changed);
    if (r == 0)
        return 0;
    unuse(c, b); /* threads that wait for it do not count as users */
    list_remove(&b->unused);
    forget(c, b);
    free(b);
    return r;
}

int block_cache_get(struct block_cache *c, const struct block_recipe *recipe, struct block **ret,
                    struct plenum_error *err)
{
    struct block *b;
    int r = 0;

    lock_acquire(&c->mu);
    for (;;) {
        b = find(c, recipe);
        if (b && b->data) {
            use(c, b);
            break;
        }
        if (b || !make_room(c, recipe->bytes + OVERHEAD)) { /* b: another thread is making it */
            lock_wait(&c->mu, &c->changed);
            continue;
        }
        if (find(c, recipe)) /* make_room() may have released the lock */
            continue;
        b = add(c, recipe);
        r = b ? make(c, b, recipe, err) : error_set(err, -ENOMEM, "out of memory");
        break;
    }
    lock_release(&c->mu);
    if (r == 0)
        *ret = b;
    return r;
}

struct block *block_cache_find(struct block_cache *c, const struct block_recipe *recipe)
{
    struct block *b;

    lock_acquire(&c->mu);
    b = find(c, recipe);
    if (b && b->data)
        use(c, b);
    else
        b = NULL;
    lock_release(&c->mu);
    return b;
}

void block_cache_release(struct block_cache *c, struct block *block)
{
    lock_acquire(&c->mu);
    unuse(c, block);
    lock_release(&c->mu);
}

void *block_get_data(const struct block *block)
{
    assert(block->data);
    return block->data;
}

size_t block_get_bytes(const struct block *block)
{
    return block->bytes - OVERHEAD;
}

size_t block_cache_get_peak(struct block_cache *c)
{
    size_t peak;

    lock_acquire(&c->mu);
    peak = c->peak;
    lock_release(&c->mu);
    return peak;
}

void block_cache_destroy(struct block_cache *c)
{
    if (!c)
        return;
    assert(c->in_use == 0);
    while (!list_is_empty(&c->unused)) {
        struct block *b = container_of(list_first(&c->unused), struct block, unused);

        list_remove(&b->unused);
        list_remove(&b->in_bucket);
        destroy_block(b);
    }
    lock_fini(&c->mu);
    (void)pthread_cond_destroy(&c->changed);
    free(c);
}
