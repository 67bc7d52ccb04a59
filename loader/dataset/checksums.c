/* SPDX-License-Identifier: MIT */
/* checksums.c - reads and writes the hashes. The file has a header, then one entry per sample. An
 * entry that is 0, or beyond the end of the file, does not exist yet.
 *
 * Any number of processes read and write the file by pread() and pwrite() without locks. All of
 * them write the same entries. An entry that is damaged or partly written does not match its
 * checksum, and is ignored, because a good file must not be reported as changed. */
#include "config.h"

#include "loader/dataset/checksums.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/util.h"
#include "loader/dataset/cache.h"
#include "loader/dataset/stamp.h"

static const uint8_t checksums_magic[8] = {'p', 'l', 'n', 'S', 'U', 'M', 'S', '2'};

struct checksums {
    int fd;
};

struct checksums_header {
    uint8_t magic[8];
    uint64_t index_checksum;
};

struct checksums_entry {
    uint64_t hash;
    uint64_t check; /* covers the hash and the sample */
};

/* Returns a descriptor, or -ESTALE if the file belongs to a different index. */
static int open_file(const char *path, uint64_t index_checksum)
{
    struct checksums_header h;
    int fd = cache_open_writable(path), r;

    if (fd < 0)
        return fd == -EPERM ? -ESTALE : fd;
    r = io_pread_all(fd, &h, sizeof(h), 0);
    if (r == 0 && memcmp(h.magic, checksums_magic, sizeof(h.magic)) == 0 &&
        h.index_checksum == index_checksum)
        return fd;
    (void)close(fd);
    return r < 0 && r != -ENODATA ? r : -ESTALE;
}

int checksums_open(const char *path, uint64_t index_checksum, struct checksums **ret)
{
    struct checksums_header h = {.index_checksum = index_checksum};
    struct checksums *s;
    int fd = open_file(path, index_checksum), r;

    if (fd == -ENOENT || fd == -ESTALE) {
        memcpy(h.magic, checksums_magic, sizeof(h.magic));
        r = cache_write(path, &h, sizeof(h));
        fd = r < 0 ? r : open_file(path, index_checksum);
    }
    if (fd < 0)
        return fd;
    s = malloc(sizeof(*s));
    if (!s) {
        (void)close(fd);
        return -ENOMEM;
    }
    *s = (struct checksums){.fd = fd};
    *ret = s;
    return 0;
}

void checksums_close(struct checksums *s)
{
    if (!s)
        return;
    (void)close(s->fd);
    free(s);
}

static uint64_t offset_of(uint32_t sample)
{
    return sizeof(struct checksums_header) + sample * (uint64_t)sizeof(struct checksums_entry);
}

static struct checksums_entry entry_of(uint32_t sample, uint64_t hash)
{
    const uint64_t subject[] = {hash, sample};

    return (struct checksums_entry){hash, stamp_hash_bytes(subject, sizeof(subject))};
}

/* Returns the recorded hash of a sample, or 0 if there is none. */
static uint64_t get(const struct checksums *s, uint32_t sample)
{
    struct checksums_entry entry;

    if (io_pread_all(s->fd, &entry, sizeof(entry), offset_of(sample)) < 0 ||
        entry.check != entry_of(sample, entry.hash).check)
        return 0;
    return entry.hash;
}

bool checksums_agree(const struct checksums *s, uint32_t sample, const void *bytes, size_t len,
                     bool record)
{
    uint64_t had = get(s, sample), hash = stamp_hash_bytes(bytes, len);
    struct checksums_entry entry = entry_of(sample, hash);

    if (had == 0 && record)
        (void)io_pwrite_all(s->fd, &entry, sizeof(entry),
                            offset_of(sample)); /* if this fails, the hash stays missing */
    return had == hash || (had == 0 && record);
}
