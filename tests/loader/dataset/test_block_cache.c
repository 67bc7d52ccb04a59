/* SPDX-License-Identifier: MIT */
/* Checks that cached blocks are not made again, that memory is limited, and that threads that
 * together need more than the limit do not deadlock. */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/util/error_set.h"
#include "loader/dataset/block_cache.h"

enum { BLOCK = 1 << 20, KEYS = 16, THREADS = 8, TURNS = 400 };

static struct block_cache *cache;
static atomic_uint made, destroyed;

static void destroy(void *data)
{
    (void)atomic_fetch_add(&destroyed, 1);
    free(data);
}

/* Make a block, whose data is its key. Blocks with odd keys are made from the preceding block. */
static int make(const struct block_recipe *recipe, void **ret, struct plenum_error *err)
{
    struct block_recipe before = *recipe;
    struct block *block;
    uint64_t *data = malloc(sizeof(*data));

    (void)atomic_fetch_add(&made, 1);
    *data = recipe->at;
    if (recipe->at % 2 == 1) {
        before.at--;
        cr_assert(eq(int, block_cache_get(cache, &before, &block, err), 0));
        *data = *(const uint64_t *)block_get_data(block) + 1;
        block_cache_release(cache, block);
    }
    *ret = data;
    return 0;
}

static int fail(const struct block_recipe *recipe, void **ret, struct plenum_error *err)
{
    (void)recipe;
    (void)ret;
    return error_set(err, -EIO, "no");
}

static void use(uint64_t key)
{
    struct block_recipe recipe = {.at = key, .bytes = BLOCK, .make = make, .destroy = destroy};
    struct block *block;

    cr_assert(eq(int, block_cache_get(cache, &recipe, &block, NULL), 0));
    cr_assert(eq(u64, *(const uint64_t *)block_get_data(block), key));
    block_cache_release(cache, block);
}

static void *use_many(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;

    for (int i = 0; i < TURNS; i++)
        use((uint64_t)rand_r(&seed) % KEYS);
    return NULL;
}

Test(block_cache, a_cached_block_is_not_made_again)
{
    cache = block_cache_create(4 * BLOCK);
    for (int i = 0; i < 10; i++)
        use(2 * (uint64_t)(i % 3));
    cr_expect(eq(u32, atomic_load(&made), 3));
    for (uint64_t key = 0; key < KEYS; key += 2)
        use(key);
    cr_expect(eq(u32, atomic_load(&made), 3 + KEYS / 2 - 3));
    use(0); /* this block was dropped, because it was the oldest */
    cr_expect(eq(u32, atomic_load(&made), KEYS / 2 + 1));
    cr_expect(le(sz, block_cache_get_peak(cache), 4 * BLOCK));
    block_cache_destroy(cache);
    cr_expect(eq(u32, atomic_load(&destroyed), atomic_load(&made)));
}

Test(block_cache, a_block_that_cannot_be_made_is_tried_again)
{
    struct block_recipe recipe = {.bytes = 8 * BLOCK, .make = fail, .destroy = destroy};
    struct plenum_error err = {""};
    struct block *block;

    cache = block_cache_create(BLOCK);
    cr_expect(eq(int, block_cache_get(cache, &recipe, &block, &err), -EIO));
    cr_expect(eq(str, err.text, "no"));
    recipe.make = make; /* a block larger than the limit is alone in memory */
    cr_expect(eq(int, block_cache_get(cache, &recipe, &block, &err), 0));
    block_cache_release(cache, block);
    block_cache_destroy(cache);
}

Test(block_cache, threads_with_too_little_memory_do_not_deadlock)
{
    pthread_t threads[THREADS];

    for (unsigned blocks = 1; blocks <= 4; blocks++) {
        cache = block_cache_create(blocks * (BLOCK + 4096));
        for (uintptr_t i = 0; i < THREADS; i++)
            cr_assert(eq(int, pthread_create(&threads[i], NULL, use_many, (void *)(i + 1)), 0));
        for (int i = 0; i < THREADS; i++)
            cr_assert(eq(int, pthread_join(threads[i], NULL), 0));
        /* Each thread may have one more block: the one from which it is making another. */
        cr_expect(le(sz, block_cache_get_peak(cache), (blocks + THREADS) * (BLOCK + 4096)));
        block_cache_destroy(cache);
    }
    cr_expect(eq(u32, atomic_load(&destroyed), atomic_load(&made)));
}
