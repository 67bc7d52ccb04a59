/* SPDX-License-Identifier: MIT */
/* advance.c - decides whether a start has made progress: a checkpoint with new content is progress.
 * So is a reported step, if no earlier start has reached it: a job that repeats the same ten steps
 * makes no progress, even if it writes the same checkpoint again.
 *
 * A checkpoint is read only if it has been written or replaced, and only in part if it is large: a
 * step changes nearly all weights. */
#include "config.h"

#include "launcher/job/advance.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/util/util.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { FIRST_MS = 1000, LAST_MS = 60000, SPREAD_PERCENT = 25 };
enum { SETTLED_S = 3 }; /* file systems note times at least every two seconds */

/* Larger files are compared at this number of blocks, including the first and the last. */
enum { BLOCK_BYTES = 1 << 20, BLOCKS = 16 };

/* Returns a number that changes when the file is written or replaced; 0 if the next change may
 * follow so soon that the time would not show it. */
static uint64_t stamp_of(const struct stat *st)
{
    const uint64_t parts[] = {(uint64_t)st->st_dev, (uint64_t)st->st_ino, (uint64_t)st->st_size,
                              (uint64_t)st->st_mtim.tv_sec, (uint64_t)st->st_mtim.tv_nsec};

    if (st->st_mtim.tv_sec + SETTLED_S > time(NULL))
        return 0;
    return XXH3_64bits(parts, sizeof(parts)) | 1;
}

/* Hash the size of a file and its blocks. Returns 0, or -errno. */
static int hash_blocks(int fd, uint64_t size, uint64_t *ret)
{
    static char block[BLOCK_BYTES];
    bool whole = size <= (uint64_t)BLOCK_BYTES * BLOCKS;
    uint64_t count = whole ? (size + BLOCK_BYTES - 1) / BLOCK_BYTES : BLOCKS;

    *ret = size;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t at = whole ? i * BLOCK_BYTES : (size - BLOCK_BYTES) * i / (BLOCKS - 1);
        size_t len = min_u64(BLOCK_BYTES, size - at);
        int r = io_pread_all(fd, block, len, at);

        if (r < 0)
            return r;
        *ret = XXH3_64bits_withSeed(block, len, *ret);
    }
    return 0;
}

/* Returns a number that changes with the content. If there is none that can be read (in a folder,
 * for example), it changes when an entry is added, or the file is written or replaced. */
static uint64_t content_of(int folder, const char *name, const struct stat *st)
{
    uint64_t content;
    int fd = S_ISREG(st->st_mode) ? openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;

    if (fd < 0 || hash_blocks(fd, (uint64_t)st->st_size, &content) < 0)
        content = XXH3_64bits(&st->st_mtim, sizeof(st->st_mtim)) ^ st->st_ino;
    io_close(&fd);
    return content;
}

/* Is the name FILE, or FILE.N as pyplenum.Checkpoint writes it? */
static bool is_checkpoint(const char *name, const char *file)
{
    size_t len = strlen(file);

    if (strncmp(name, file, len) != 0)
        return false;
    return name[len] == '\0' || (name[len] == '.' && name[len + 1] &&
                                 name[len + 1 + strspn(name + len + 1, "0123456789")] == '\0');
}

static const struct advance_file *find_stamp(const struct advance_list *list, uint64_t stamp)
{
    for (size_t i = 0; i < list->count; i++)
        if (stamp && list->files[i].stamp == stamp)
            return &list->files[i];
    return NULL;
}

static bool has_content(const struct advance_list *list, uint64_t content)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->files[i].content == content)
            return true;
    return false;
}

/* Add a checkpoint to the list. One that is in the list `before` is not read again. */
static int add_file(struct advance_list *list, const struct advance_list *before, int folder,
                    const char *name)
{
    const struct advance_file *same;
    struct stat st;
    int r;

    if (fstatat(folder, name, &st, 0) < 0)
        return 0;
    r = array_grow(&list->files, &list->cap, list->count, sizeof(*list->files));
    if (r < 0)
        return r;
    same = find_stamp(before, stamp_of(&st));
    list->files[list->count++] = (struct advance_file){
        .stamp = stamp_of(&st), .content = same ? same->content : content_of(folder, name, &st)};
    return 0;
}

/* List the checkpoints in the file's folder. Returns 0, or -errno if that cannot be read. */
static int list_files(const char *path, const struct advance_list *before, struct advance_list *ret)
{
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    char *parent = slash ? str_format("%.*s", (int)(slash - path + 1), path) : str_format(".");
    DIR *dir = parent ? opendir(parent) : NULL;
    struct dirent *entry;
    int r = dir ? 0 : -errno;

    free(parent);
    while (r == 0 && (entry = readdir(dir)))
        if (is_checkpoint(entry->d_name, file))
            r = add_file(ret, before, dirfd(dir), entry->d_name);
    if (dir)
        (void)closedir(dir);
    return r;
}

/* Look at the checkpoints. Returns whether one has content that none had before. If they cannot be
 * read, none has. */
static bool look(struct advance *advance)
{
    struct advance_list now = {0};
    bool found = false;

    advance->unread = advance->file ? list_files(advance->file, &advance->seen, &now) : 0;
    if (advance->unread < 0) {
        free(now.files);
        return false;
    }
    for (size_t i = 0; i < now.count; i++)
        found |= !has_content(&advance->seen, now.files[i].content);
    free(advance->seen.files);
    advance->seen = now;
    return found;
}

void advance_begin(struct advance *advance, const char *file)
{
    *advance = (struct advance){.file = file};
    (void)look(advance); /* the program may create the folder */
}

void advance_end(struct advance *advance)
{
    free(advance->seen.files);
    advance->seen = (struct advance_list){0};
}

enum advance_made advance_note(struct advance *advance, uint64_t step)
{
    bool made = look(advance);

    made |= step > advance->furthest;
    advance->furthest = max_u64(advance->furthest, step);
    if (made) {
        advance->idle = 0;
        return ADVANCE_MADE;
    }
    /* A folder that does not exist holds no checkpoint: the program may have to create it. */
    if ((!advance->file || (advance->unread < 0 && advance->unread != -ENOENT)) &&
        advance->furthest == 0)
        return ADVANCE_UNKNOWN;
    advance->idle++;
    return ADVANCE_NONE;
}

uint64_t advance_pause_ms(uint32_t idle, uint64_t draw)
{
    uint64_t ms = idle > 6 ? LAST_MS : (uint64_t)FIRST_MS << (idle - 1);

    assert(idle > 0);
    return ms * (100 - SPREAD_PERCENT + draw % (2 * SPREAD_PERCENT + 1)) / 100;
}
