/* SPDX-License-Identifier: MIT */
/* tar_reader.c - reads the members of a tar archive with libarchive.
 *
 * libarchive reads all kinds of tar archives: ustar, pax, GNU's long names and sparse files,
 * numbers in base 256, and the format of 1979. Here it reads through a small window by pread(),
 * because only headers are needed; the bytes of members are skipped. In a store, each window is a
 * request, so the window is larger there while members are small.
 *
 * This file adds what libarchive lacks: the offset of a member's bytes, and detection of archives
 * that are truncated after a member or have data after their end mark. */
#include "config.h"

#include "loader/dataset/tar_reader.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <archive.h>
#include <archive_entry.h>

#include "common/util/error_set.h"
#include "common/util/util.h"

enum {
    WINDOW = 4096,          /* enough for the headers between two images, and a label */
    WINDOW_MAX = 256 << 10, /* the window in objects, while members are small */
    /* Members up to this size are small: reading them costs less than another request. */
    SMALL = 64 << 10,
    BLOCK = 512,
    HEADERS = 16384, /* maximum bytes of the headers of a member that is not sparse */
    TAIL = 1 << 20,  /* bytes after the end mark that are checked */
};

struct tar_reader {
    struct archive *archive;
    struct source source;
    uint64_t begin, at, size; /* offsets in the file */
    uint64_t window_at;       /* offset of the window in the file */
    size_t window_len;
    uint64_t next;           /* offset that the next header must have, or 0 after a sparse member */
    int code;                /* -errno of a failed read */
    struct plenum_error why; /* the error, if it is about an object */
    uint64_t skipped;        /* bytes before the window that were not read */
    size_t cap;              /* size of the window */
    uint8_t window[];
};

/* Returns how much to read at once: WINDOW bytes, but as much as fits when an object is read
 * without long skips, because each read of an object is a request. */
static size_t window_of(const struct tar_reader *t)
{
    bool is_far = !t->source.object || t->skipped >= SMALL || t->at == t->begin;

    return is_far && t->cap > WINDOW ? WINDOW : t->cap;
}

static ssize_t on_read(struct archive *a, void *data, const void **bytes)
{
    struct tar_reader *t = data;
    int64_t n;

    t->window_at = t->at;
    t->window_len = 0;
    n = source_read_some(&t->source, t->window, window_of(t), t->at, &t->why);
    t->skipped = 0;
    if (n < 0) {
        t->code = (int)n;
        archive_set_error(a, (int)-n, "%s", strerror((int)-n));
        return -1;
    }
    assert((size_t)n <= t->cap);
    t->at += (uint64_t)n;
    t->window_len = (size_t)n;
    *bytes = t->window;
    return (ssize_t)n;
}

/* Skip bytes. If that leads beyond the end, the next read detects it. */
static la_int64_t on_skip(struct archive *a, void *data, la_int64_t count)
{
    struct tar_reader *t = data;
    uint64_t left = t->size > t->at ? t->size - t->at : 0;
    uint64_t n = min_u64(count > 0 ? (uint64_t)count : 0, left);

    (void)a;
    t->at += n;
    t->skipped += n;
    return (la_int64_t)n;
}

/* Describe an error of libarchive or of reading from the archive. */
static int failed(const struct tar_reader *t, struct plenum_error *err)
{
    const char *text = archive_error_string(t->archive);
    int64_t at = archive_read_header_position(t->archive);

    if (at < 0) /* libarchive has no position after a fatal error */
        at = archive_filter_bytes(t->archive, 0);
    if (t->code < 0)
        return error_set(err, t->code, "%s", t->source.object ? t->why.text : strerror(-t->code));
    if (archive_errno(t->archive) == ENOMEM)
        return error_set(err, -ENOMEM, "out of memory");
    if (archive_format(t->archive) == 0)
        return error_set(err, -EBADMSG, "it is not a tar archive");
    return error_set(err, -EBADMSG, "it is damaged near byte %llu: %s",
                     (unsigned long long)(t->begin + (uint64_t)at),
                     text ? text : "its structure is invalid");
}

/* Returns the program that compressed a file, by its first bytes, or NULL. */
static const char *compressed_by(const uint8_t *bytes, size_t len)
{
    static const struct {
        const char *program;
        size_t len;
        char mark[7];
    } known[] = {
        {"gzip", 2, "\x1F\x8B"},
        {"zstd", 4, "\x28\xB5\x2F\xFD"},
        {"xz", 6,
         "\xFD"
         "7zXZ\0"},
        {"bzip2", 3, "BZh"},
        {"lz4", 4, "\x04\x22\x4D\x18"},
        {"lzip", 4, "LZIP"},
        {"compress", 2, "\x1F\x9D"},
    };

    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (len >= known[i].len && memcmp(bytes, known[i].mark, known[i].len) == 0)
            return known[i].program;
    return NULL;
}

static int check_compression(const struct source *source, struct plenum_error *err)
{
    uint8_t bytes[8] = {0};
    int64_t n = source_read_some(source, bytes, sizeof(bytes), 0, err);
    const char *program = n > 0 ? compressed_by(bytes, (size_t)n) : NULL;

    if (n < 0)
        return source->object ? (int)n : error_set(err, (int)n, "%s", strerror((int)-n));
    if (n == 0)
        return error_set(err, -EBADMSG, "the file is empty (0 bytes)");
    if (!program)
        return 0;
    return error_set(
        err, -EOPNOTSUPP,
        "it is compressed (%s), so that no member can be read by itself; decompress it with '%s "
        "-d', or store it uncompressed, because images are already compressed",
        program, program);
}

int tar_reader_open(const struct source *source, uint64_t begin, uint64_t size,
                    struct tar_reader **ret, struct plenum_error *err)
{
    size_t cap = source->object ? WINDOW_MAX : WINDOW;
    struct tar_reader *t;
    int r = begin == 0 ? check_compression(source, err) : 0;

    if (r < 0)
        return r;
    t = malloc(sizeof(*t) + cap);
    if (!t)
        return error_set(err, -ENOMEM, "out of memory");
    *t = (struct tar_reader){.archive = archive_read_new(),
                             .source = *source,
                             .begin = begin,
                             .at = begin,
                             .size = size,
                             .cap = cap};
    if (!t->archive || archive_read_support_format_tar(t->archive) != ARCHIVE_OK ||
        archive_read_support_filter_none(t->archive) != ARCHIVE_OK) {
        r = error_set(err, -ENOMEM, "out of memory");
    } else if (archive_read_open2(t->archive, t, NULL, on_read, on_skip, NULL) != ARCHIVE_OK) {
        r = failed(t, err);
    }
    if (r < 0)
        tar_reader_close(t);
    else
        *ret = t;
    return r;
}

void tar_reader_close(struct tar_reader *t)
{
    if (!t)
        return;
    if (t->archive)
        (void)archive_read_free(t->archive);
    free(t);
}

/* Check that all bytes in [at, end) are zero. */
static int check_zeros(struct tar_reader *t, uint64_t at, uint64_t end, struct plenum_error *err)
{
    assert(at <= end && end <= t->size);
    while (at < end) {
        size_t n = (size_t)min_u64(end - at, t->cap);
        int r = source_read(&t->source, t->window, n, at, err);

        if (r < 0 && t->source.object)
            return r;
        if (r < 0)
            return error_set(err, r == -ENODATA ? -ESTALE : r, "%s",
                             r == -ENODATA ? "it has become shorter" : strerror(-r));
        t->window_len = 0;
        for (size_t i = 0; i < n; i++)
            if (t->window[i] != 0)
                return error_set(err, -EBADMSG,
                                 "something follows its end mark at byte %llu: join archives with "
                                 "'tar --concatenate', not with cat",
                                 (unsigned long long)(at + i));
        at += n;
    }
    return 0;
}

/* Check, at the end, that there is an end mark and nothing after it. */
static int check_end(struct tar_reader *t, uint64_t at, struct plenum_error *err)
{
    if (at > t->size || t->size - at < BLOCK)
        return error_set(err, -EBADMSG,
                         "it has no end mark: it is cut off after %llu bytes, or its writer was "
                         "stopped",
                         (unsigned long long)t->size);
    return check_zeros(t, at, min_u64(t->size, at + TAIL), err);
}

/* Returns whether the member with these headers may be a sparse file. */
static bool may_have_holes(const uint8_t *bytes, size_t len)
{
    for (size_t at = 0; at + BLOCK <= len; at += BLOCK) {
        const uint8_t *h = bytes + at;

        /* A sparse file has this type, or is in the GNU format with a sparse map or a real size. */
        if (h[156] == 'S' || (memcmp(h + 257, "ustar  ", 8) == 0 && (h[386] != 0 || h[483] != 0)))
            return true;
    }
    return len > BLOCK && /* pax headers precede the member's own */
           (memmem(bytes, len, "GNU.sparse", 10) || memmem(bytes, len, "SUN.holesdata", 13));
}

/* Find whether the member is sparse, so that its bytes are not contiguous. Returns 1, 0 or an
 * error. */
static int look_for_holes(struct tar_reader *t, const struct tar_member *m,
                          struct plenum_error *err)
{
    uint8_t headers[HEADERS];
    size_t len = (size_t)(m->data_at - m->header_at);
    int r;

    if (m->data_at < m->header_at || m->data_at - m->header_at > HEADERS)
        return 1;
    if (m->header_at >= t->window_at && m->data_at <= t->window_at + t->window_len)
        return may_have_holes(t->window + (m->header_at - t->window_at), len); /* the usual case */
    r = source_read(&t->source, headers, len, m->header_at, err);
    if (r < 0 && t->source.object)
        return r;
    if (r < 0)
        return error_set(err, r == -ENODATA ? -EBADMSG : r, "%s",
                         r == -ENODATA ? "it is cut off" : strerror(-r));
    return may_have_holes(headers, len);
}

static void describe(struct archive_entry *entry, struct tar_member *m)
{
    *m = (struct tar_member){
        .name = archive_entry_pathname(entry),
        .target = archive_entry_hardlink(entry),
        .size = archive_entry_size(entry) > 0 ? (uint64_t)archive_entry_size(entry) : 0,
        .sparse = archive_entry_sparse_count(entry) > 0};
    if (!m->name)
        m->name = "";
    if (m->target)
        m->type = TAR_HARD_LINK;
    else if (archive_entry_filetype(entry) == AE_IFREG)
        m->type = TAR_FILE;
    else if (archive_entry_filetype(entry) == AE_IFLNK)
        m->type = TAR_SYMBOLIC_LINK;
    else
        m->type = TAR_OTHER;
}

int tar_reader_next(struct tar_reader *t, struct tar_member *ret, struct plenum_error *err)
{
    struct archive_entry *entry;
    struct tar_member m;
    int r = archive_read_next_header(t->archive, &entry);
    uint64_t header = t->begin + (uint64_t)archive_read_header_position(t->archive);

    if (r != ARCHIVE_EOF && r != ARCHIVE_OK && r != ARCHIVE_WARN)
        return failed(t, err);
    if (t->next && header != t->next)
        return error_set(err, -EBADMSG,
                         "the bytes of the member before byte %llu are not contiguous",
                         (unsigned long long)header);
    t->next = 0;
    if (r == ARCHIVE_EOF)
        return check_end(t, header, err);
    describe(entry, &m);
    m.header_at = header;
    m.data_at = t->begin + (uint64_t)archive_filter_bytes(t->archive, 0);
    if (m.type == TAR_FILE && !m.sparse) {
        r = look_for_holes(t, &m, err);
        if (r < 0)
            return r;
        m.sparse = r > 0;
    }
    if (m.type == TAR_FILE && !m.sparse) {
        if (m.data_at > t->size || m.size > t->size - m.data_at)
            return error_set(
                err, -EBADMSG,
                "it is cut off: '%s' extends to byte %llu, but the archive has only %llu bytes",
                m.name, (unsigned long long)(m.data_at + m.size), (unsigned long long)t->size);
        t->next = m.data_at + align_up(m.size, BLOCK);
    }
    *ret = m;
    return 1;
}

int tar_reader_read(struct tar_reader *t, void *bytes, size_t len, struct plenum_error *err)
{
    char *p = bytes;

    while (len > 0) {
        la_ssize_t n = archive_read_data(t->archive, p, len);

        if (n == 0)
            return error_set(err, -EBADMSG, "it is cut off within a member");
        if (n < 0)
            return failed(t, err);
        p += n;
        len -= (size_t)n;
    }
    return 0;
}
