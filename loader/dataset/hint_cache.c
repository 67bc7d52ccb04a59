/* SPDX-License-Identifier: MIT */
/* hint_cache.c - reads and writes a file of hints.
 *
 *     header | slots: the offset of each sample's record, or 0 | records ...
 *
 * A record contains the number of its sample, its capacity, and a checksum of itself. A reader
 * verifies the checksum before it uses anything else. So a reader needs no lock: a record that is
 * partly written or damaged is ignored. The file is not mapped: with pread() and pwrite(), a full
 * disk or a truncated file is an error; with a mapping, it would kill the process (SIGBUS).
 *
 * A writer reserves an extent at the end of the file, large enough for a few hundred records, under
 * a lock shared by all processes. Within the extent, the threads of the process need only their
 * mutex to allocate records. The unused part of an extent is a hole in the file, which takes no
 * space. */
#include "config.h"

#include "loader/dataset/hint_cache.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/util/lock.h"
#include "common/util/util.h"
#include "loader/dataset/cache.h"
#include "loader/dataset/format.h"

enum {
    HINT_CACHE_VERSION = 1,
    SHARE = 25, /* the file may take 1/25 of the samples' bytes */
    EXTENT_MIN = 4 << 10,
    EXTENT_MAX = 1 << 20,
    WRITING = 16, /* number of locks */
};

static const uint8_t hint_cache_magic[8] = {'p', 'l', 'n', 'N', 'O', 'T', 'E', 'S'};

struct hint_cache {
    int fd;
    bool writable;
    uint32_t samples;
    uint64_t records_at, limit; /* offset of the first record, and the maximum size of the file */
    atomic_uint_fast64_t written;
    atomic_int state;
    /* mu protects the fields below, except `writing`. */
    struct lock mu;
    uint64_t free_at, free_end; /* unused part of this process's extent */
    bool full;                  /* the file has its maximum size */
    /* Held while a sample's record is written, indexed by its number modulo WRITING. Taken before
     * mu. */
    struct lock writing[WRITING];
};

static uint64_t header_sum(const struct hint_cache_header *h)
{
    return XXH3_64bits(h, offsetof(struct hint_cache_header, checksum));
}

/* Check that the open file is a cache for this key. Returns 0, -ESTALE or -errno. */
static int check_file(int fd, const struct hint_cache_key *key, uint64_t records_at)
{
    struct hint_cache_header h;
    struct stat st;
    int r;

    if (fstat(fd, &st) < 0)
        return -errno;
    r = io_pread_all(fd, &h, sizeof(h), 0);
    if (r == -ENODATA)
        return -ESTALE;
    if (r < 0)
        return r;
    if (memcmp(h.magic, hint_cache_magic, sizeof(h.magic)) != 0 ||
        h.version != HINT_CACHE_VERSION || h.samples != key->samples ||
        memcmp(h.fingerprint, key->fingerprint, sizeof(h.fingerprint)) != 0 ||
        h.checksum != header_sum(&h) || (uint64_t)st.st_size < records_at)
        return -ESTALE;
    return 0;
}

/* Create an empty file, replacing any existing one. */
static int make_file(const char *path, const struct hint_cache_key *key, uint64_t records_at)
{
    struct hint_cache_header *h = calloc(1, records_at);
    int r;

    assert(records_at >= sizeof(*h));
    if (!h)
        return -ENOMEM;
    h->version = HINT_CACHE_VERSION;
    h->samples = key->samples;
    memcpy(h->magic, hint_cache_magic, sizeof(h->magic));
    memcpy(h->fingerprint, key->fingerprint, sizeof(h->fingerprint));
    h->checksum = header_sum(h);
    r = cache_write(path, h, records_at);
    free(h);
    return r;
}

static int open_file(const char *path, const struct hint_cache_key *key, struct hint_cache *hints)
{
    hints->fd = cache_open_writable(path);
    hints->writable = hints->fd >= 0;
    if (hints->fd < 0 && hints->fd != -ENOENT && hints->fd != -EPERM)
        hints->fd = cache_open(path);
    if (hints->fd == -EPERM) /* another user's file counts as stale */
        return -ESTALE;
    return hints->fd < 0 ? hints->fd : check_file(hints->fd, key, hints->records_at);
}

enum on_missing { FAIL, MAKE };

static int open_hints(const char *path, const struct hint_cache_key *key,
                      enum on_missing on_missing, struct hint_cache **ret)
{
    struct hint_cache *hints;
    int r;

    hints = malloc(sizeof(*hints));
    if (!hints)
        return -ENOMEM;
    *hints = (struct hint_cache){.fd = -1, .samples = key->samples, .mu = LOCK_INITIALIZER};
    for (int i = 0; i < WRITING; i++)
        hints->writing[i] = (struct lock)LOCK_INITIALIZER;
    hints->records_at =
        sizeof(struct hint_cache_header) + key->samples * (uint64_t)sizeof(uint64_t);
    hints->limit = key->bytes / SHARE;
    r = hints->records_at > hints->limit / 2 ? -EFBIG : open_file(path, key, hints);
    if (on_missing == MAKE && (r == -ENOENT || r == -ESTALE)) {
        io_close(&hints->fd);
        r = make_file(path, key, hints->records_at);
        if (r < 0)
            goto fail;
        r = open_file(path, key, hints);
    }
    if (r < 0)
        goto fail;
    assert(hints->fd >= 0 && hints->records_at <= hints->limit);
    atomic_store(&hints->state, hints->writable ? 0 : -EROFS);
    *ret = hints;
    return 0;

fail:
    hint_cache_close(hints);
    return r;
}

int hint_cache_open(const char *path, const struct hint_cache_key *key, struct hint_cache **ret)
{
    return open_hints(path, key, FAIL, ret);
}

int hint_cache_make(const char *path, const struct hint_cache_key *key, struct hint_cache **ret)
{
    return open_hints(path, key, MAKE, ret);
}

void hint_cache_close(struct hint_cache *hints)
{
    if (!hints)
        return;
    io_close(&hints->fd);
    free(hints);
}

int hint_cache_state(struct hint_cache *hints)
{
    int r = atomic_load(&hints->state);

    lock_acquire(&hints->mu);
    if (r == 0 && hints->full)
        r = -ENOSPC;
    lock_release(&hints->mu);
    return r;
}

uint64_t hint_cache_written(const struct hint_cache *hints)
{
    return atomic_load(&hints->written);
}

static uint64_t slot_at(uint32_t sample)
{
    return sizeof(struct hint_cache_header) + sample * (uint64_t)sizeof(uint64_t);
}

/* Find the offset and the header of a sample's record. Returns 0 if it has none. */
static uint64_t find_record(const struct hint_cache *hints, uint32_t sample,
                            struct hint_record *ret)
{
    uint64_t at;

    if (io_pread_all(hints->fd, &at, sizeof(at), slot_at(sample)) < 0 || at < hints->records_at ||
        at % 8 != 0 || at > hints->limit || io_pread_all(hints->fd, ret, sizeof(*ret), at) < 0)
        return 0;
    return ret->sample == sample && ret->len <= ret->room ? at : 0;
}

bool hint_cache_get(struct hint_cache *hints, uint32_t sample, struct dataset_buffer *buffer,
                    const uint8_t **ret, size_t *ret_len)
{
    struct hint_record record;
    uint64_t at;
    size_t all;

    assert(sample < hints->samples);
    at = find_record(hints, sample, &record);
    if (at == 0)
        return false;
    all = sizeof(record) + record.len;
    if (all > hints->limit || dataset_buffer_reserve(buffer, all) < 0)
        return false;
    /* The record may be overwritten at any time, so use only the bytes that were read. */
    if (io_pread_all(hints->fd, buffer->bytes, all, at) < 0 ||
        memcmp(buffer->bytes, &record, sizeof(record)) != 0 ||
        XXH3_64bits(buffer->bytes + sizeof(record.checksum), all - sizeof(record.checksum)) !=
            record.checksum)
        return false;
    assert(all <= buffer->cap);
    *ret = buffer->bytes + sizeof(record);
    *ret_len = record.len;
    return true;
}

/* Reserve an extent at the end of the file, under the lock of all writers. */
static int allocate_extent(struct hint_cache *hints, uint64_t need)
{
    uint64_t extent = hints->limit / 64;
    uint64_t at, end;
    struct stat st;
    int r = 0;

    extent = min_u64(max_u64(extent, EXTENT_MIN), EXTENT_MAX);
    while (flock(hints->fd, LOCK_EX) < 0)
        if (errno != EINTR)
            return -errno;
    if (fstat(hints->fd, &st) < 0) {
        r = -errno;
        goto out;
    }
    hints->free_at = hints->free_end = 0;
    at = align_up(max_u64((uint64_t)st.st_size, hints->records_at), 8);
    end = min_u64(at + max_u64(extent, need), hints->limit & ~UINT64_C(7));
    if (end < at + need) {
        r = -ENOSPC;
        goto out;
    }
    if (ftruncate(hints->fd, (off_t)end) < 0) {
        r = -errno;
        goto out;
    }
    assert(at % 8 == 0 && at >= hints->records_at && end <= hints->limit);
    hints->free_at = at;
    hints->free_end = end;

out:
    (void)flock(hints->fd, LOCK_UN);
    return r;
}

/* Allocate a record with room for this many bytes. */
static int allocate(struct hint_cache *hints, uint32_t room, uint64_t *ret)
{
    uint64_t need = sizeof(struct hint_record) + room;
    int r = 0;

    lock_acquire(&hints->mu);
    if (hints->free_end - hints->free_at < need)
        r = hints->full ? -ENOSPC : allocate_extent(hints, need);
    hints->full = hints->full || r == -ENOSPC;
    if (r >= 0) {
        assert(hints->free_end - hints->free_at >= need && hints->free_at % 8 == 0);
        *ret = hints->free_at;
        hints->free_at += need;
    }
    lock_release(&hints->mu);
    return r;
}

/* Returns whether `record` was written after a hint of `had` bytes was read, and is at least `len`
 * bytes long. */
static bool is_surpassed(struct hint_cache *hints, const struct hint_record *record, size_t len,
                         size_t had)
{
    struct dataset_buffer buffer = {0};
    const uint8_t *there;
    size_t there_len = 0;
    bool surpassed = false;

    if (record->len != had && record->len >= len) /* the record may be damaged */
        surpassed = hint_cache_get(hints, record->sample, &buffer, &there, &there_len);
    dataset_buffer_fini(&buffer);
    return surpassed && there_len >= len;
}

static int put(struct hint_cache *hints, uint32_t sample, const void *bytes, size_t len,
               uint32_t room, size_t had)
{
    size_t all = sizeof(struct hint_record) + len;
    struct hint_record before, *record;
    uint64_t old = find_record(hints, sample, &before), at = old;
    int r = 0;

    assert(len <= room && room % 8 == 0);
    if (old != 0 && is_surpassed(hints, &before, len, had))
        return 0;
    if (old == 0 || before.room != room) {
        r = allocate(hints, room, &at);
        if (r < 0)
            return r;
    }
    record = calloc(1, all);
    if (!record)
        return -ENOMEM;
    *record = (struct hint_record){.sample = sample, .len = (uint32_t)len, .room = room};
    memcpy(record + 1, bytes, len);
    record->checksum = XXH3_64bits(&record->sample, all - sizeof(record->checksum));
    r = io_pwrite_all(hints->fd, record, all, at);
    free(record);
    if (r < 0)
        goto fail;
    if (at != old) {
        r = io_pwrite_all(hints->fd, &at, sizeof(at), slot_at(sample));
        if (r < 0)
            goto fail;
    }
    (void)atomic_fetch_add(&hints->written, all);
    return 0;

fail:
    atomic_store(&hints->state, r);
    return r;
}

int hint_cache_put(struct hint_cache *hints, uint32_t sample, const void *bytes, size_t len,
                   size_t max, size_t had)
{
    struct lock *writing = &hints->writing[sample % WRITING];
    int r = atomic_load(&hints->state);

    assert(sample < hints->samples);
    if (r < 0)
        return r;
    if (len > max || max > hints->limit)
        return -ENOSPC;
    lock_acquire(writing);
    r = put(hints, sample, bytes, len, (uint32_t)align_up(max, 8), had);
    lock_release(writing);
    return r;
}
