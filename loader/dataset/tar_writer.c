/* SPDX-License-Identifier: MIT */
/* tar_writer.c - writes archives in the ustar format, which all programs read. A name that does not
 * fit into the header is stored in a GNU record before it, which tar, Python and libarchive
 * support. */
#include "config.h"

#include "loader/dataset/tar_writer.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/util/error_set.h"
#include "common/util/util.h"

enum { BLOCK = 512, BUFFER = 1 << 20, NAME = 100, PREFIX = 155 };

struct tar_writer {
    FILE *file;
    char *path;
    uint64_t bytes;
    XXH3_state_t *hash;
};

/* The ustar header of POSIX.1-1988. */
struct tar_header {
    char name[NAME], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100];
    char magic[6], version[2], uname[32], gname[32], major[8], minor[8], prefix[PREFIX], rest[12];
};

_Static_assert(sizeof(struct tar_header) == BLOCK, "a header is a block");

static int put(struct tar_writer *w, const void *bytes, size_t len, struct plenum_error *err)
{
    if (len > 0 && fwrite(bytes, 1, len, w->file) != len)
        return error_set(err, -errno, "cannot write %s: %s", w->path, strerror(errno));
    (void)XXH3_128bits_update(w->hash, bytes, len);
    w->bytes += len;
    return 0;
}

/* Write bytes, padded to whole blocks. */
static int put_blocks(struct tar_writer *w, const void *bytes, size_t len, struct plenum_error *err)
{
    static const char zeros[BLOCK];
    int r = put(w, bytes, len, err);

    return r < 0 ? r : put(w, zeros, (size_t)(align_up(len, BLOCK) - len), err);
}

/* Write a number in octal, with leading zeros and a trailing NUL. */
static void set_number(char *field, size_t size, uint64_t value)
{
    field[--size] = 0;
    while (size > 0) {
        field[--size] = (char)('0' + (value & 7));
        value >>= 3;
    }
}

static void set_checksum(struct tar_header *h)
{
    const unsigned char *p = (const unsigned char *)h;
    uint32_t sum = 0;

    memset(h->checksum, ' ', sizeof(h->checksum));
    for (size_t i = 0; i < sizeof(*h); i++)
        sum += p[i];
    set_number(h->checksum, 7, sum); /* a NUL and a space follow it */
}

/* Store the name in the header's fields, if it fits. */
static bool set_name(struct tar_header *h, const char *name)
{
    size_t len = strlen(name);

    if (len <= NAME) {
        memcpy(h->name, name, len);
        return true;
    }
    for (size_t at = len > NAME + 1 ? len - NAME - 1 : 0; at < len - 1 && at <= PREFIX; at++)
        if (name[at] == '/' && at > 0) {
            memcpy(h->prefix, name, at);
            memcpy(h->name, name + at + 1, len - at - 1);
            return true;
        }
    return false;
}

static struct tar_header make_header(char type, uint64_t size)
{
    struct tar_header h = {.type = type};

    set_number(h.mode, sizeof(h.mode), 0644);
    set_number(h.uid, sizeof(h.uid), 0);
    set_number(h.gid, sizeof(h.gid), 0);
    set_number(h.size, sizeof(h.size), size);
    set_number(h.mtime, sizeof(h.mtime), 0);
    memcpy(h.magic, "ustar", sizeof(h.magic));
    memcpy(h.version, "00", sizeof(h.version));
    return h;
}

static int put_long_name(struct tar_writer *w, const char *name, struct plenum_error *err)
{
    struct tar_header h = make_header('L', strlen(name) + 1);
    int r;

    (void)set_name(&h, "././@LongLink");
    set_checksum(&h);
    r = put(w, &h, sizeof(h), err);
    return r < 0 ? r : put_blocks(w, name, strlen(name) + 1, err);
}

int tar_writer_create(const char *path, struct tar_writer **ret, struct plenum_error *err)
{
    struct tar_writer *w = malloc(sizeof(*w));
    int r;

    if (!w)
        return error_set(err, -ENOMEM, "out of memory");
    *w = (struct tar_writer){.path = strdup(path), .hash = XXH3_createState()};
    if (!w->path || !w->hash) {
        r = error_set(err, -ENOMEM, "out of memory");
        goto fail;
    }
    w->file = fopen(path, "we");
    if (!w->file) {
        r = error_set(err, -errno, "cannot write %s: %s", path, strerror(errno));
        goto fail;
    }
    (void)setvbuf(w->file, NULL, _IOFBF, BUFFER);
    (void)XXH3_128bits_reset(w->hash);
    *ret = w;
    return 0;

fail:
    tar_writer_destroy(w);
    return r;
}

int tar_writer_add(struct tar_writer *w, const char *name, const void *bytes, size_t len,
                   struct plenum_error *err)
{
    struct tar_header h = make_header('0', len);
    int r;

    if (!set_name(&h, name)) {
        r = put_long_name(w, name, err);
        if (r < 0)
            return r;
        memcpy(h.name, name, NAME); /* for readers that do not support the record */
    }
    set_checksum(&h);
    r = put(w, &h, sizeof(h), err);
    return r < 0 ? r : put_blocks(w, bytes, len, err);
}

int tar_writer_finish(struct tar_writer *w, struct tar_written *ret, struct plenum_error *err)
{
    static const char end[2 * BLOCK];
    XXH128_canonical_t canonical;
    int r = put(w, end, sizeof(end), err);

    if (r < 0)
        return r;
    if (fflush(w->file) != 0 || fsync(fileno(w->file)) < 0)
        return error_set(err, -errno, "cannot write %s: %s", w->path, strerror(errno));
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(w->hash));
    ret->bytes = w->bytes;
    memcpy(ret->hash, canonical.digest, sizeof(ret->hash));
    return 0;
}

void tar_writer_destroy(struct tar_writer *w)
{
    if (!w)
        return;
    if (w->file)
        (void)fclose(w->file);
    if (w->hash)
        (void)XXH3_freeState(w->hash);
    free(w->path);
    free(w);
}
