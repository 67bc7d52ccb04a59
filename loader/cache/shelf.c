/* SPDX-License-Identifier: MIT */
/* shelf.c - stores records in sparse files.
 *
 *     file NNNN.samples    header | row 0 | row 1 | ...        | record 0 ...   | record 1 ...
 *                          0        4096                         1 MiB            17 MiB
 *
 * Each record has its own place of SHELF_RECORD_MAX bytes, most of which is a hole. So the file
 * system is the allocator: erasing a record frees its blocks, its place is reused, and records are
 * never moved. A row says which bytes a place holds; at the start, only the rows are read.
 *
 * Nothing is synced. After a crash, a row or a record may be missing or wrong. Checksums show that:
 * a row is bound to its place, and a record to its key. A record is written before its row, and a
 * row is erased before its record.
 *
 * Other processes may read the files at any time, without a lock: to them, a row or a record that
 * is being written has a wrong checksum. */
#include "config.h"

#include "loader/cache/shelf.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/util/error_set.h"
#include "common/util/util.h"

enum {
    FORMAT = 2,
    ROWS_AT = 4096,
    RECORDS_AT = 1 << 20,
    FREE_PART = 20,    /* a twentieth of the disk stays free for others */
    FREE_CHECKED = 32, /* writes between two checks of the free space */
};

struct shelf_header {
    uint8_t magic[8];
    uint32_t version, rows;
    uint64_t record_max;
    uint64_t check; /* checksum of the fields above */
};

struct shelf_row {
    struct keep_key key;
    uint64_t hash, set;
    uint32_t len, number; /* number: the sample's number in its set */
    uint64_t check;       /* checksum of the fields above, with the record's number as the seed */
};

static const struct shelf_row empty;

struct shelf {
    char *name;       /* of the folder, or NULL */
    int folder, lock; /* -1: the files are in memory */
    unsigned writes;  /* writes since the free space was checked; only the writer uses it */
    atomic_int fds[SHELF_FILES]; /* one more than the descriptor; 0: there is no file */
};

_Static_assert(ROWS_AT + SHELF_ROWS * sizeof(struct shelf_row) <= RECORDS_AT, "rows do not fit");

static uint64_t check_row(const struct shelf_row *row, uint32_t number)
{
    return XXH3_64bits_withSeed(row, offsetof(struct shelf_row, check), number);
}

uint64_t shelf_hash(const struct keep_key *key, const void *bytes, uint32_t len)
{
    return XXH3_64bits_withSeed(bytes, len, key->word[1]);
}

static struct shelf_header make_header(void)
{
    struct shelf_header h = {
        .magic = "plenumsc", .version = FORMAT, .rows = SHELF_ROWS, .record_max = SHELF_RECORD_MAX};

    h.check = XXH3_64bits(&h, offsetof(struct shelf_header, check));
    return h;
}

static off_t row_at(uint32_t number)
{
    return (off_t)(ROWS_AT + number % SHELF_ROWS * sizeof(struct shelf_row));
}

static off_t record_at(uint32_t number)
{
    return (off_t)RECORDS_AT + (off_t)(number % SHELF_ROWS) * SHELF_RECORD_MAX;
}

/* Returns the descriptor of the record's file, or -1. */
static int file_of(const struct shelf *s, uint32_t number)
{
    assert(number / SHELF_ROWS < SHELF_FILES);
    return atomic_load(&s->fds[number / SHELF_ROWS]) - 1;
}

static int punch(int fd, off_t at, off_t len)
{
    return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, len) < 0 ? -errno : 0;
}

/* ---- records ---- */

/* Returns whether so little of the disk is free that nothing may be added. Checks this once in
 * FREE_CHECKED calls, and otherwise returns false. */
static bool is_full(struct shelf *s, int fd)
{
    struct statvfs fs;

    if (s->writes++ % FREE_CHECKED != 0 || fstatvfs(fd, &fs) < 0)
        return false;
    return fs.f_bavail < fs.f_blocks / FREE_PART;
}

static void name_file(unsigned file, char ret[32])
{
    (void)snprintf(ret, 32, "%04u.samples", file);
}

/* Create a file, and remove an existing one of this name. Returns its descriptor or -errno. */
static int make_file(const struct shelf *s, const char *name)
{
    int fd;

    if (s->folder < 0)
        fd = memfd_create("plenum-samples", MFD_CLOEXEC);
    else if (unlinkat(s->folder, name, 0) < 0 && errno != ENOENT)
        return -errno;
    else
        fd = openat(s->folder, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    return fd < 0 ? -errno : fd;
}

/* Create a file with a header. Returns its descriptor or -errno. */
static int create_file(struct shelf *s, unsigned file)
{
    struct shelf_header h = make_header();
    char name[32];
    int fd, r;

    name_file(file, name);
    fd = make_file(s, name);
    if (fd < 0)
        return fd;
    r = io_pwrite_all(fd, &h, sizeof(h), 0);
    if (r == 0)
        r = punch(fd, RECORDS_AT, KEEP_BLOCK); /* fails if the file system cannot do this */
    if (r < 0) {
        if (s->folder >= 0)
            (void)unlinkat(s->folder, name, 0);
        (void)close(fd);
        return r;
    }
    atomic_store(&s->fds[file], fd + 1);
    return fd;
}

int shelf_write(struct shelf *s, uint32_t number, const struct keep_bytes *bytes,
                const void *content)
{
    struct shelf_row row = {.key = bytes->key,
                            .hash = bytes->hash,
                            .set = bytes->sample.set,
                            .len = bytes->len,
                            .number = bytes->sample.number};
    int fd = file_of(s, number), r;

    assert(bytes->len > 0 && bytes->len <= SHELF_RECORD_MAX);
    if (fd < 0)
        fd = create_file(s, number / SHELF_ROWS);
    if (fd < 0)
        return fd;
    if (is_full(s, fd)) {
        s->writes = 0;
        return -ENOSPC;
    }
    row.check = check_row(&row, number);
    r = io_pwrite_all(fd, content, bytes->len, (uint64_t)record_at(number));
    return r < 0 ? r : io_pwrite_all(fd, &row, sizeof(row), (uint64_t)row_at(number));
}

int shelf_read(const struct shelf *s, uint32_t number, const struct keep_bytes *bytes, void *dst)
{
    int fd = file_of(s, number), r;

    if (fd < 0)
        return -EBADMSG;
    r = io_pread_all(fd, dst, bytes->len, (uint64_t)record_at(number));
    if (r == -ENODATA || (r == 0 && shelf_hash(&bytes->key, dst, bytes->len) != bytes->hash))
        return -EBADMSG;
    return r;
}

void shelf_announce(const struct shelf *s, uint32_t number, uint32_t len)
{
    int fd = file_of(s, number);

    if (fd >= 0)
        (void)posix_fadvise(fd, record_at(number), (off_t)len, POSIX_FADV_WILLNEED);
}

int shelf_erase(struct shelf *s, uint32_t number)
{
    int fd = file_of(s, number), r, freed;

    if (fd < 0)
        return 0;
    r = io_pwrite_all(fd, &empty, sizeof(empty), (uint64_t)row_at(number));
    freed = punch(fd, record_at(number), SHELF_RECORD_MAX);
    return r < 0 ? r : freed;
}

/* ---- the start ---- */

/* Free the space of records without a row, whose writer was killed. */
static void free_rowless(const struct shelf *s, unsigned file, const struct shelf_row *rows)
{
    int fd = file_of(s, file * SHELF_ROWS);
    off_t at = RECORDS_AT;

    while ((at = lseek(fd, at, SEEK_DATA)) >= RECORDS_AT) {
        uint32_t row = (uint32_t)((at - RECORDS_AT) / SHELF_RECORD_MAX);

        if (row >= SHELF_ROWS)
            return;
        if (rows[row].len == 0)
            (void)punch(fd, record_at(row), SHELF_RECORD_MAX);
        at = record_at(row) + SHELF_RECORD_MAX;
    }
}

/* Read all rows of a file. Returns NULL on failure, with -errno in `*ret_code`. Rows beyond the
 * file's end are empty. */
static struct shelf_row *load_rows(const struct shelf *s, unsigned file, int *ret_code)
{
    struct shelf_row *rows = calloc(SHELF_ROWS, sizeof(*rows));
    int64_t n = rows ? io_pread_some(file_of(s, file * SHELF_ROWS), rows,
                                     SHELF_ROWS * sizeof(*rows), ROWS_AT)
                     : -ENOMEM;

    *ret_code = n < 0 ? (int)n : 0;
    if (n >= 0)
        return rows;
    free(rows);
    return NULL;
}

/* Get what a row says. Returns false if it is empty or damaged. */
static bool get_row(const struct shelf_row *row, uint32_t number, struct keep_bytes *ret)
{
    *ret = (struct keep_bytes){
        .key = row->key, .hash = row->hash, .len = row->len, .sample = {row->set, row->number}};
    return row->check == check_row(row, number) && row->len > 0 && row->len <= SHELF_RECORD_MAX;
}

/* Report the rows of a file, erase those that are damaged or that `found` rejects, and free the
 * space of records without a row. */
static int read_rows(struct shelf *s, unsigned file, shelf_found *found, void *arg)
{
    int r;
    struct shelf_row *rows = load_rows(s, file, &r);

    for (uint32_t i = 0; r == 0 && i < SHELF_ROWS; i++) {
        uint32_t number = file * SHELF_ROWS + i;
        struct keep_bytes bytes;

        if (memcmp(&rows[i], &empty, sizeof(empty)) == 0 ||
            (get_row(&rows[i], number, &bytes) && found(arg, number, &bytes)))
            continue;
        r = shelf_erase(s, number);
        rows[i] = empty;
    }
    if (r == 0)
        free_rowless(s, file, rows);
    free(rows);
    return r;
}

/* Returns whether a file has our format and no other user could have changed it. */
static bool is_ours(int fd)
{
    struct shelf_header h, want = make_header();
    struct stat st;

    return fstat(fd, &st) == 0 && st.st_uid == geteuid() && !(st.st_mode & (S_IWGRP | S_IWOTH)) &&
           io_pread_all(fd, &h, sizeof(h), 0) == 0 && memcmp(&h, &want, sizeof(h)) == 0;
}

/* Open a file of another loader. Returns 0; -ENOENT; -EBADMSG if it is not ours; or another
 * -errno. */
static int open_file(struct shelf *s, unsigned file)
{
    char name[32];
    int fd;

    name_file(file, name);
    fd = openat(s->folder, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    if (!is_ours(fd)) {
        (void)close(fd);
        return -EBADMSG;
    }
    atomic_store(&s->fds[file], fd + 1);
    return 0;
}

/* Take over a file of an earlier loader, if there is one. */
static int take_file(struct shelf *s, unsigned file, shelf_found *found, void *arg)
{
    char name[32];
    int r = file_of(s, file * SHELF_ROWS) < 0 ? open_file(s, file) : 0;

    if (r == 0)
        return read_rows(s, file, found, arg);
    name_file(file, name);
    if (r == -EBADMSG)
        r = unlinkat(s->folder, name, 0) < 0 ? -errno : 0;
    return r == -ENOENT ? 0 : r;
}

/* Returns -EPERM if another user could change the folder's files. */
static int check_folder(const struct shelf *s, struct plenum_error *err)
{
    struct stat st;

    if (fstat(s->folder, &st) < 0)
        return error_set(err, -errno, "%s: %s", s->name, strerror(errno));
    if (st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH)))
        return error_set(err, -EPERM, "%s: other users can write to it: remove it", s->name);
    return 0;
}

static int open_folder(struct shelf *s, struct plenum_error *err)
{
    int r;

    if (mkdir(s->name, 0700) < 0 && errno != EEXIST)
        return error_set(err, -errno, "%s: cannot create it: %s", s->name, strerror(errno));
    s->folder = open(s->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (s->folder < 0 && errno == ENOTDIR)
        return error_set(err, -ENOTDIR, "%s: it is not a folder, or is a symbolic link: remove it",
                         s->name);
    if (s->folder < 0)
        return error_set(err, -errno, "%s: %s", s->name, strerror(errno));
    r = check_folder(s, err);
    if (r < 0)
        return r;
    s->lock = openat(s->folder, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    return s->lock < 0 ? error_set(err, -errno, "%s/lock: %s", s->name, strerror(errno)) : 0;
}

int shelf_attach(const char *folder, struct shelf **ret, struct plenum_error *err)
{
    struct shelf *s = calloc(1, sizeof(*s));
    int r = 0;

    if (s) {
        s->folder = s->lock = -1;
        s->name = folder ? strdup(folder) : NULL;
    }
    if (!s || (folder && !s->name))
        r = error_set(err, -ENOMEM, "out of memory");
    else if (folder)
        r = open_folder(s, err);
    if (r < 0)
        shelf_close(s);
    else
        *ret = s;
    return r;
}

int shelf_follow(struct shelf *s, shelf_found *found, void *arg)
{
    int r = 0;

    /* The files are numbered without gaps, except for those that another process has removed. */
    for (unsigned file = 0; r == 0 && file < SHELF_FILES; file++) {
        struct shelf_row *rows;

        r = file_of(s, file * SHELF_ROWS) < 0 ? open_file(s, file) : 0;
        rows = r == 0 ? load_rows(s, file, &r) : NULL;
        for (uint32_t i = 0; rows && i < SHELF_ROWS; i++) {
            uint32_t number = file * SHELF_ROWS + i;
            struct keep_bytes bytes;

            (void)found(arg, number, get_row(&rows[i], number, &bytes) ? &bytes : NULL);
        }
        free(rows);
    }
    return r == -ENOENT || r == -EBADMSG ? 0 : r;
}

int shelf_take(struct shelf *s, struct plenum_error *err)
{
    int r = s->name ? check_folder(s, err) : 0;

    if (r == 0 && s->name && flock(s->lock, LOCK_EX | LOCK_NB) < 0)
        r = error_set(err, errno == EWOULDBLOCK ? -EBUSY : -errno, "%s: %s", s->name,
                      errno == EWOULDBLOCK ? "another loader uses it" : strerror(errno));
    return r;
}

int shelf_load(struct shelf *s, shelf_found *found, void *arg, struct plenum_error *err)
{
    int r = 0;

    for (unsigned i = 0; s->name && r == 0 && i < SHELF_FILES; i++) {
        r = take_file(s, i, found, arg);
        if (r < 0)
            (void)error_set(err, r, "%s/%04u.samples: %s", s->name, i, strerror(-r));
    }
    if (r < 0)
        (void)flock(s->lock, LOCK_UN);
    return r;
}

void shelf_close(struct shelf *s)
{
    if (!s)
        return;
    for (unsigned i = 0; i < SHELF_FILES; i++)
        if (atomic_load(&s->fds[i]) > 0)
            (void)close(atomic_load(&s->fds[i]) - 1);
    io_close(&s->folder);
    io_close(&s->lock);
    free(s->name);
    free(s);
}
