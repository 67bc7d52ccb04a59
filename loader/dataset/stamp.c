/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/dataset/stamp.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/util/util.h"
#include "loader/dataset/scope.h"

enum { PIECE = 256 << 10 }; /* bytes of a file that are hashed at a time */

uint64_t stamp_time(const struct timespec *time)
{
    return (uint64_t)time->tv_sec * NS_PER_SEC + (uint64_t)time->tv_nsec;
}

static int64_t signed_time(const struct timespec *time)
{
    return (int64_t)stamp_time(time);
}

/* Returns the current time of the kernel's clock for file times. The next change gets this time or
 * a later one. */
static int64_t kernel_now(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return signed_time(&now);
}

/* Wait until another change would change the ctime: at most until the next tick of the kernel's
 * clock. */
static void pass_ctime(int64_t ctime_ns)
{
    while (ctime_ns >= kernel_now() && ctime_ns <= (int64_t)time_clock_ns(CLOCK_REALTIME))
        (void)nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
}

/* Returns whether the file's times are older than the clock's resolution. Times in the future are
 * also settled: they come from a wrong clock, and any later change sets a different time. */
static bool is_settled(const struct stat *st)
{
    /* FAT has the coarsest clock of all file systems. */
    const int64_t grain_ns = 2 * (int64_t)NS_PER_SEC;
    int64_t modified = signed_time(&st->st_mtim), changed = signed_time(&st->st_ctim), now;

    pass_ctime(changed);
    now = kernel_now();
    if (modified > now - grain_ns && modified <= now + grain_ns)
        return false;
    if (changed > now + grain_ns)
        return true;
    /* A time without nanoseconds may come from a clock of whole seconds. */
    return st->st_ctim.tv_nsec ? changed < now : changed <= now - grain_ns;
}

/* Returns whether the file system keeps ctimes. */
static bool keeps_ctimes(uint32_t type)
{
    /* ext4, XFS, Btrfs, tmpfs, overlayfs, ZFS, F2FS, bcachefs, NFS, Lustre, CephFS, GPFS, BeeGFS */
    static const uint32_t known[] = {0xEF53,     0x58465342, 0x9123683E, 0x01021994, 0x794C7630,
                                     0x2FC12FC1, 0xF2F52010, 0xCA451A4E, 0x6969,     0x0BD00BD0,
                                     0x00C36400, 0x47504653, 0x19830326};

    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (type == known[i])
            return true;
    return false;
}

/* Returns whether the file system's inode numbers are permanent. FUSE and SMB invent numbers, and
 * forget them. */
static bool keeps_inodes(uint32_t type)
{
    return type != 0x65735546 && type != 0xFF534D42 && type != 0xFE534D42;
}

struct stamp stamp_of(int fd, const struct stat *st)
{
    struct stamp stamp = {.mtime_ns = stamp_time(&st->st_mtim),
                          .ctime_ns = stamp_time(&st->st_ctim),
                          .inode = st->st_ino,
                          .size = S_ISDIR(st->st_mode) ? 0 : (uint64_t)st->st_size,
                          .flags = is_settled(st) ? STAMP_SETTLED : 0};
    struct statfs fs;

    if (fd < 0 || fstatfs(fd, &fs) < 0)
        fs.f_type = 0;
    if (!keeps_ctimes((uint32_t)fs.f_type))
        stamp.flags |= STAMP_NO_CTIME;
    if (!keeps_inodes((uint32_t)fs.f_type))
        stamp.flags |= STAMP_NO_INODE;
    return stamp;
}

struct stamp stamp_absent(void)
{
    return (struct stamp){.flags = STAMP_SETTLED | STAMP_ABSENT};
}

struct stamp stamp_type(const struct stat *st)
{
    return (struct stamp){.content = st->st_mode & S_IFMT, .flags = STAMP_SETTLED | STAMP_TYPE};
}

enum stamp_match stamp_compare(const struct stamp *stamp, const struct stat *st)
{
    uint64_t size = st && !S_ISDIR(st->st_mode) ? (uint64_t)st->st_size : 0;

    if (!st || (stamp->flags & STAMP_ABSENT))
        return !st == !!(stamp->flags & STAMP_ABSENT) ? STAMP_SAME : STAMP_DIFFERS;
    if (stamp->flags & STAMP_TYPE)
        return stamp->content == (st->st_mode & S_IFMT) ? STAMP_SAME : STAMP_DIFFERS;
    if (stamp->mtime_ns != stamp_time(&st->st_mtim) || stamp->size != size)
        return STAMP_DIFFERS;
    if (stamp->ctime_ns != stamp_time(&st->st_ctim) ||
        (!(stamp->flags & STAMP_NO_INODE) && stamp->inode != st->st_ino))
        return STAMP_MAYBE;
    return S_ISDIR(st->st_mode) && (stamp->flags & STAMP_NO_CTIME) ? STAMP_MAYBE : STAMP_SAME;
}

uint64_t stamp_hash_entry(int fd, const struct dirent *entry)
{
    const char *name = entry->d_name;

    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return 0;
    return XXH3_64bits_withSeed(name, strlen(name), scope_entry_type(fd, entry));
}

uint64_t stamp_hash_bytes(const void *bytes, size_t len)
{
    return max_u64(XXH3_64bits(bytes, len), 1);
}

static bool has_entries(const struct scope *scope, const char *path, uint64_t content)
{
    struct dirent *entry;
    uint64_t sum = 0;
    DIR *dir;

    if (scope_open_folder(scope, path, &dir) < 0)
        return false;
    while (errno = 0, entry = readdir(dir))
        sum += stamp_hash_entry(dirfd(dir), entry);
    if (errno)
        sum = ~content;
    (void)closedir(dir);
    return sum == content;
}

static bool has_bytes(const struct scope *scope, const char *path, const struct stamp *stamp)
{
    int fd = scope_open(scope, path, 0), r = 0;
    XXH3_state_t state;
    uint8_t *piece = malloc(PIECE);

    assert(stamp->content != 0); /* it was read when it was indexed */
    (void)XXH3_64bits_reset(&state);
    if (fd < 0 || !piece)
        r = -ENOMEM;
    for (uint64_t at = 0; r == 0 && at < stamp->size; at += PIECE) {
        size_t len = min_u64(stamp->size - at, PIECE);

        r = io_pread_all(fd, piece, len, at);
        if (r == 0)
            (void)XXH3_64bits_update(&state, piece, len);
    }
    io_close(&fd);
    free(piece);
    return r == 0 && max_u64(XXH3_64bits_digest(&state), 1) == stamp->content;
}

int stamp_read(int fd, const struct stat *st, char **text, struct stamp *ret)
{
    size_t len = (size_t)st->st_size;
    char *bytes = malloc(len + 1);
    int r;

    *ret = stamp_of(fd, st);
    r = bytes ? io_pread_all(fd, bytes, len, 0) : -ENOMEM;
    if (r < 0) {
        free(bytes);
        return r;
    }
    bytes[len] = '\0';
    ret->content = stamp_hash_bytes(bytes, len);
    *text = bytes;
    return 0;
}

bool stamp_holds(const struct scope *scope, const char *path, const struct stamp *stamp)
{
    struct stat st;
    int r = scope_stat(scope, path, &st);

    if (!(stamp->flags & STAMP_SETTLED) || (r < 0 && r != -ENOENT))
        return false;
    switch (stamp_compare(stamp, r < 0 ? NULL : &st)) {
    case STAMP_SAME:
        return true;
    case STAMP_MAYBE:
        return S_ISDIR(st.st_mode) ? has_entries(scope, path, stamp->content)
                                   : stamp->content && has_bytes(scope, path, stamp);
    default:
        return false;
    }
}
