/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/dataset/kept_table.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/util/error_set.h"
#include "common/util/util.h"
#include "loader/dataset/cache.h"
#include "loader/dataset/cache_limit.h"
#include "loader/dataset/dataset_priv.h"

enum { KEPT_VERSION = 1, KEPT_ALIGN = 64 };

static const uint8_t kept_magic[8] = {'p', 'l', 'n', 'O', 'R', 'D', 'R', '1'};

/** The file has this header, then the key with its NUL, zeros up to a multiple of 64, and the
 * contents. */
struct kept_header {
    uint8_t magic[8];
    uint32_t version, key_bytes;
    uint64_t file_bytes;
    uint64_t checksum; /* XXH3-64 of the file with this field zero */
    uint64_t index_checksum;
};

static size_t start_of(const char *key)
{
    size_t bytes = sizeof(struct kept_header) + strlen(key) + 1;

    return (bytes + KEPT_ALIGN - 1) / KEPT_ALIGN * KEPT_ALIGN;
}

static uint64_t checksum_of(const void *file, size_t len)
{
    return cache_checksum(file, len, offsetof(struct kept_header, checksum));
}

static void set_file(struct kept_table *table, void *file, size_t len, size_t start)
{
    assert(len > start);
    *table = (struct kept_table){.bytes = (uint8_t *)file + start,
                                 .len = len - start,
                                 .file = file,
                                 .file_bytes = len,
                                 .hold = -1};
}

static bool is_valid(const struct dataset *d, const struct kept_recipe *recipe, const void *file,
                     size_t len)
{
    const struct kept_header *h = file;
    size_t start = start_of(recipe->key);

    return len > start && memcmp(h->magic, kept_magic, sizeof(h->magic)) == 0 &&
           h->version == KEPT_VERSION && h->file_bytes == len &&
           h->index_checksum == d->index.header->checksum &&
           h->key_bytes == strlen(recipe->key) + 1 &&
           memcmp(h + 1, recipe->key, h->key_bytes) == 0 && checksum_of(file, len) == h->checksum &&
           recipe->holds(recipe->arg, (const uint8_t *)file + start, len - start);
}

/* Open the stored table. Returns false if there is none, or it does not match. */
static bool open_kept(const struct dataset *d, const struct kept_recipe *recipe, const char *path,
                      struct kept_table *ret)
{
    int fd = path ? cache_open(path) : -1;
    bool mapped = fd >= 0 && cache_may_map(fd);
    size_t start = start_of(recipe->key);
    void *file = NULL;
    struct stat st;

    if (fd < 0)
        return false;
    if (fstat(fd, &st) < 0 || st.st_size <= (off_t)start ||
        cache_load(fd, (size_t)st.st_size, mapped, &file) < 0)
        file = NULL;
    (void)close(fd);
    if (!file)
        return false;
    if (!is_valid(d, recipe, file, (size_t)st.st_size)) {
        cache_unload(file, (size_t)st.st_size, mapped);
        return false;
    }
    set_file(ret, file, (size_t)st.st_size, start);
    ret->mapped = mapped;
    ret->hold = cache_hold(path, NULL);
    return true;
}

/* Make the table in memory, in the form of its file. */
static int make_table(const struct dataset *d, const struct kept_recipe *recipe,
                      struct kept_table *ret, struct plenum_error *err)
{
    size_t start = start_of(recipe->key), len;
    struct kept_header *h;
    void *contents;
    int r = recipe->make(recipe->arg, &contents, &len, err);

    if (r < 0)
        return r;
    assert(len > 0);
    h = aligned_alloc(KEPT_ALIGN, (start + len + KEPT_ALIGN - 1) / KEPT_ALIGN * KEPT_ALIGN);
    if (!h) {
        free(contents);
        return error_set(err, -ENOMEM, "out of memory");
    }
    memset(h, 0, start);
    *h = (struct kept_header){.version = KEPT_VERSION,
                              .key_bytes = (uint32_t)strlen(recipe->key) + 1,
                              .file_bytes = start + len,
                              .index_checksum = d->index.header->checksum};
    memcpy(h->magic, kept_magic, sizeof(h->magic));
    memcpy(h + 1, recipe->key, h->key_bytes);
    memcpy((uint8_t *)h + start, contents, len);
    free(contents);
    h->checksum = checksum_of(h, start + len);
    set_file(ret, h, start + len, start);
    return 0;
}

/* Store the table and use its file instead of the memory, if it can be mapped. */
static void keep(const struct dataset *d, const struct dataset_options *options,
                 const struct kept_recipe *recipe, const char *path, int *lock,
                 struct kept_table *table)
{
    struct kept_table stored;

    if (*lock < 0 || cache_write(path, table->file, table->file_bytes) < 0)
        return;
    table->hold = cache_hold(path, options->user);
    io_close(lock);
    if (!cache_trim(path, &options->limits, options->user) || !open_kept(d, recipe, path, &stored))
        return;
    kept_table_close(table);
    *table = stored;
}

static int open_table(const struct dataset *d, const struct dataset_options *options,
                      const struct kept_recipe *recipe, const char *path, struct kept_table *ret,
                      struct plenum_error *err)
{
    bool waits = options->how != DATASET_NO_WAITING;
    int lock = -1, r;

    if (!options->rebuild && open_kept(d, recipe, path, ret))
        return 0;
    if (options->how == DATASET_IF_FRESH)
        return error_set(err, -EINPROGRESS, "%s has no up-to-date table for this plan", d->name);
    if (path && !recipe->nests) {
        r = indexing_lock(d, options, waits ? UINT_MAX : 1, &lock);
        if (r < 0)
            return error_set(err, r, "another process is indexing %s", d->name);
        if (!options->rebuild && open_kept(d, recipe, path, ret)) {
            io_close(&lock);
            return 0;
        }
    }
    r = make_table(d, recipe, ret, err);
    if (r == 0 && path && recipe->nests && indexing_lock(d, options, 1, &lock) < 0)
        lock = -1; /* the next process stores it */
    if (r == 0)
        keep(d, options, recipe, path, &lock, ret);
    io_close(&lock);
    return r;
}

int kept_table_open(const struct dataset *dataset, const struct dataset_options *options,
                    const struct kept_recipe *recipe, struct kept_table *ret,
                    struct plenum_error *err)
{
    uint64_t hash = XXH3_64bits(recipe->key, strlen(recipe->key));
    char *path = NULL;
    int r;

    if (dataset->index_path) {
        path = str_format("%s.order-%016llx", dataset->index_path, (unsigned long long)hash);
        if (!path)
            return error_set(err, -ENOMEM, "out of memory");
    }
    r = open_table(dataset, options, recipe, path, ret, err);
    free(path);
    return r;
}

void kept_table_close(struct kept_table *table)
{
    if (!table->file)
        return;
    cache_unload(table->file, table->file_bytes, table->mapped);
    io_close(&table->hold);
    *table = (struct kept_table){0};
}
