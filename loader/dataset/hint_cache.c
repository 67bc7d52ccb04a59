/* SPDX-License-Identifier: MIT */
/* hint_cache.c - a file of notes.
 *
 *     header | slots: where the piece of each sample is, 0: nowhere | pieces ...
 *
 * A piece says whose it is, how much room it has, and a checksum over itself, and nothing of it is
 * believed before that is right. So a reader needs no lock: what it meets half-written, or damaged,
 * is no note. Nothing is mapped: a full disk, or a file that somebody cuts, is an error of pread()
 * and pwrite(), and a dead process in a mapping.
 *
 * A writer takes the end of the file for itself, some hundred pieces at once, under a lock that all
 * processes share. Within that, its threads need only their own mutex to find places. What is left
 * of it in the end is a hole that takes no space. */
#include "config.h"

#include "loader/dataset/hint_cache.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/util.h"
#include "loader/dataset/cache.h"
#include "loader/dataset/format.h"

enum {
    HINT_CACHE_VERSION = 1,
    SHARE = 25, /* of the samples' bytes that the file may have */
    EXTENT_MIN = 4 << 10,
    EXTENT_MAX = 1 << 20,
};

static const uint8_t hint_cache_magic[8] = {'p', 'l', 'n', 'N', 'O', 'T', 'E', 'S'};

struct hint_cache {
    int fd;
    bool writable;
    uint32_t samples;
    uint64_t pieces_at, limit; /* where pieces begin, and the file's greatest size */
    atomic_uint_fast64_t written;
    atomic_int state;
    /* Any thread, holding mu. */
    pthread_mutex_t mu;
    uint64_t free_at, free_end; /* of the end of the file, what is ours */
    bool full;                  /* there is no more of it */
};

static uint64_t header_sum(const struct hint_cache_header *h)
{
    return XXH3_64bits(h, offsetof(struct hint_cache_header, checksum));
}

/* Is what is open a file of these notes? 0, -ESTALE or -errno. */
static int check_file(int fd, const struct hint_cache_key *subject, uint64_t pieces_at)
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
        h.version != HINT_CACHE_VERSION || h.samples != subject->samples ||
        memcmp(h.fingerprint, subject->fingerprint, sizeof(h.fingerprint)) != 0 ||
        h.checksum != header_sum(&h) || (uint64_t)st.st_size < pieces_at)
        return -ESTALE;
    return 0;
}

/* Write an empty file in place of whatever is there. */
static int make_file(const char *path, const struct hint_cache_key *subject, uint64_t pieces_at)
{
    struct hint_cache_header *h = calloc(1, pieces_at);
    int r;

    if (!h)
        return -ENOMEM;
    h->version = HINT_CACHE_VERSION;
    h->samples = subject->samples;
    memcpy(h->magic, hint_cache_magic, sizeof(h->magic));
    memcpy(h->fingerprint, subject->fingerprint, sizeof(h->fingerprint));
    h->checksum = header_sum(h);
    r = cache_write(path, h, pieces_at);
    free(h);
    return r;
}

static int open_file(const char *path, const struct hint_cache_key *subject, struct hint_cache *n)
{
    n->fd = cache_open(path, true);
    n->writable = n->fd >= 0;
    if (n->fd < 0 && n->fd != -ENOENT && n->fd != -EPERM)
        n->fd = cache_open(path, false);
    if (n->fd == -EPERM) /* another's: as if it were of something else */
        return -ESTALE;
    return n->fd < 0 ? n->fd : check_file(n->fd, subject, n->pieces_at);
}

int hint_cache_open(const char *path, const struct hint_cache_key *subject, bool make,
                    struct hint_cache **ret)
{
    struct hint_cache *n;
    int r;

    n = malloc(sizeof(*n));
    if (!n)
        return -ENOMEM;
    *n =
        (struct hint_cache){.fd = -1, .samples = subject->samples, .mu = PTHREAD_MUTEX_INITIALIZER};
    n->pieces_at = sizeof(struct hint_cache_header) + subject->samples * (uint64_t)sizeof(uint64_t);
    n->limit = subject->bytes / SHARE;
    r = n->pieces_at > n->limit / 2 ? -EFBIG : open_file(path, subject, n);
    if (make && (r == -ENOENT || r == -ESTALE)) {
        io_close(&n->fd);
        r = make_file(path, subject, n->pieces_at);
        if (r == 0)
            r = open_file(path, subject, n);
    }
    if (r < 0) {
        hint_cache_close(n);
        return r;
    }
    atomic_store(&n->state, n->writable ? 0 : -EROFS);
    *ret = n;
    return 0;
}

void hint_cache_close(struct hint_cache *n)
{
    if (!n)
        return;
    io_close(&n->fd);
    free(n);
}

int hint_cache_state(struct hint_cache *n)
{
    int r = atomic_load(&n->state);

    (void)pthread_mutex_lock(&n->mu);
    if (r == 0 && n->full)
        r = -ENOSPC;
    (void)pthread_mutex_unlock(&n->mu);
    return r;
}

uint64_t hint_cache_written(const struct hint_cache *n)
{
    return atomic_load(&n->written);
}

static uint64_t slot_at(uint32_t sample)
{
    return sizeof(struct hint_cache_header) + sample * (uint64_t)sizeof(uint64_t);
}

/* The place of a sample's piece, and what it says of itself; 0: it has none. */
static uint64_t find_piece(const struct hint_cache *n, uint32_t sample, struct hint_record *ret)
{
    uint64_t at;

    if (io_pread_all(n->fd, &at, sizeof(at), slot_at(sample)) < 0 || at < n->pieces_at ||
        at % 8 != 0 || at > n->limit || io_pread_all(n->fd, ret, sizeof(*ret), at) < 0)
        return 0;
    return ret->sample == sample && ret->len <= ret->room ? at : 0;
}

bool hint_cache_get(struct hint_cache *n, uint32_t sample, struct dataset_buffer *buffer,
                    const uint8_t **ret, size_t *ret_len)
{
    struct hint_record piece;
    uint64_t at = find_piece(n, sample, &piece);
    size_t all;

    if (at == 0)
        return false;
    all = sizeof(piece) + piece.len;
    if (all > n->limit || dataset_buffer_reserve(buffer, all) < 0)
        return false;
    /* It may be written while we look: what counts is what we have got. */
    if (io_pread_all(n->fd, buffer->bytes, all, at) < 0 ||
        memcmp(buffer->bytes, &piece, sizeof(piece)) != 0 ||
        XXH3_64bits(buffer->bytes + sizeof(piece.checksum), all - sizeof(piece.checksum)) !=
            piece.checksum)
        return false;
    *ret = buffer->bytes + sizeof(piece);
    *ret_len = piece.len;
    return true;
}

/* Take some more of the file's end, under the lock of all writers. */
static int allocate_extent(struct hint_cache *n, uint64_t need)
{
    uint64_t extent = n->limit / 64;
    struct stat st;
    int r = 0;

    extent = min_u64(max_u64(extent, EXTENT_MIN), EXTENT_MAX);
    while (flock(n->fd, LOCK_EX) < 0)
        if (errno != EINTR)
            return -errno;
    if (fstat(n->fd, &st) < 0)
        r = -errno;
    if (r == 0) {
        uint64_t at = align_up(max_u64((uint64_t)st.st_size, n->pieces_at), 8);
        uint64_t end = min_u64(at + max_u64(extent, need), n->limit & ~UINT64_C(7));

        if (end < at + need)
            r = -ENOSPC;
        else if (ftruncate(n->fd, (off_t)end) < 0)
            r = -errno;
        n->free_at = r == 0 ? at : 0;
        n->free_end = r == 0 ? end : 0;
    }
    (void)flock(n->fd, LOCK_UN);
    return r;
}

/* A place for a piece with so much room. */
static int allocate(struct hint_cache *n, uint32_t room, uint64_t *ret)
{
    uint64_t need = sizeof(struct hint_record) + room;
    int r = 0;

    (void)pthread_mutex_lock(&n->mu);
    if (n->free_end - n->free_at < need)
        r = n->full ? -ENOSPC : allocate_extent(n, need);
    n->full = n->full || r == -ENOSPC;
    if (r == 0) {
        *ret = n->free_at;
        n->free_at += need;
    }
    (void)pthread_mutex_unlock(&n->mu);
    return r;
}

static int write_at(const struct hint_cache *n, const void *bytes, size_t len, uint64_t at)
{
    ssize_t done;

    do
        done = pwrite(n->fd, bytes, len, (off_t)at);
    while (done < 0 && errno == EINTR);
    return done < 0 ? -errno : (size_t)done < len ? -ENOSPC : 0;
}

static int put(struct hint_cache *n, uint32_t sample, const void *bytes, size_t len, uint32_t room)
{
    size_t all = sizeof(struct hint_record) + len;
    struct hint_record before, *piece;
    uint64_t old = find_piece(n, sample, &before), at = old;
    int r = 0;

    if (old == 0 || before.room != room) {
        r = allocate(n, room, &at);
        if (r < 0)
            return r;
    }
    piece = calloc(1, all);
    if (!piece)
        return -ENOMEM;
    *piece = (struct hint_record){.sample = sample, .len = (uint32_t)len, .room = room};
    memcpy(piece + 1, bytes, len);
    piece->checksum = XXH3_64bits(&piece->sample, all - sizeof(piece->checksum));
    r = write_at(n, piece, all, at);
    free(piece);
    if (r == 0 && at != old)
        r = write_at(n, &at, sizeof(at), slot_at(sample));
    if (r == 0)
        (void)atomic_fetch_add(&n->written, all);
    else
        atomic_store(&n->state, r);
    return r;
}

int hint_cache_put(struct hint_cache *n, uint32_t sample, const void *bytes, size_t len, size_t max)
{
    int r = atomic_load(&n->state);

    if (r < 0)
        return r;
    if (len > max || max > n->limit)
        return -ENOSPC;
    return put(n, sample, bytes, len, (uint32_t)align_up(max, 8));
}
