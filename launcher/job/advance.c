/* SPDX-License-Identifier: MIT */
/* advance.c - decides whether a start has made progress: a new checkpoint is progress. So is a
 * reported step, if no earlier start has reached it: a job that repeats the same ten steps makes no
 * progress. */
#include "config.h"

#include "launcher/job/advance.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/util/util.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { FIRST_MS = 1000, LAST_MS = 60000, SPREAD_PERCENT = 25 };

/* Returns a number that changes when the file is written or replaced; 0 if there is none. */
static uint64_t stamp_of(int folder, const char *name)
{
    struct stat st;

    if (fstatat(folder, name, &st, 0) < 0)
        return 0;
    const uint64_t parts[] = {(uint64_t)st.st_dev, (uint64_t)st.st_ino, (uint64_t)st.st_size,
                              (uint64_t)st.st_mtim.tv_sec, (uint64_t)st.st_mtim.tv_nsec};

    return XXH3_64bits(parts, sizeof(parts)) | 1;
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

/* Add up the stamps of the checkpoints in the file's folder. The sum does not depend on the order
 * in which the folder lists them. Returns 0, or -errno if the folder cannot be read. */
static int stamp_all(const char *path, uint64_t *ret)
{
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    char *parent = slash ? str_format("%.*s", (int)(slash - path + 1), path) : str_format(".");
    DIR *dir = parent ? opendir(parent) : NULL;
    struct dirent *entry;
    int r = dir ? 0 : -errno;

    free(parent);
    *ret = 0;
    while (dir && (entry = readdir(dir)))
        if (is_checkpoint(entry->d_name, file))
            *ret += stamp_of(dirfd(dir), entry->d_name);
    if (dir)
        (void)closedir(dir);
    return r;
}

void advance_begin(struct advance *advance, const char *file)
{
    *advance = (struct advance){.file = file};
    if (file)
        (void)stamp_all(file, &advance->stamp); /* the program may create the folder */
}

enum advance_made advance_note(struct advance *advance, uint64_t step)
{
    uint64_t stamp = 0;
    bool made;

    advance->unread = advance->file ? stamp_all(advance->file, &stamp) : 0;
    if (advance->unread < 0)
        stamp = advance->stamp;
    made = stamp != advance->stamp || step > advance->furthest;
    advance->stamp = stamp;
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
