/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/dataset/cache.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/util/util.h"
#include "loader/dataset/dataset.h"

/* Like mkdir -p, with mode 0700. Returns 0 or -errno. */
static int make_folders(const char *path)
{
    char part[4096];
    size_t len = strlen(path);
    struct stat st;

    if (len >= sizeof(part))
        return -ENAMETOOLONG;
    memcpy(part, path, len + 1);
    for (char *p = part + 1; *p; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        (void)mkdir(part, 0700);
        *p = '/';
    }
    if (mkdir(part, 0700) < 0 && errno != EEXIST)
        return -errno;
    return stat(part, &st) < 0 ? -errno : S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
}

int cache_folder(const char *given, char *ret, size_t size)
{
    int r = 0;

    if (!given)
        r = dataset_default_cache(ret, size);
    else if (snprintf(ret, size, "%s", given) >= (int)size)
        r = -ENAMETOOLONG;
    return r < 0 ? r : make_folders(ret);
}

uid_t cache_owner(const char *folder)
{
    struct stat st;

    return geteuid() == 0 && stat(folder, &st) == 0 ? st.st_uid : geteuid();
}

/* Returns `fd` if this is a regular file of ours or root's that no other user can write. Otherwise
 * closes it, and returns -errno. */
static int check_owner(int fd)
{
    struct stat st;
    int r = 0;

    if (fstat(fd, &st) < 0)
        r = -errno;
    else if (!S_ISREG(st.st_mode) || (st.st_uid != geteuid() && st.st_uid != 0) ||
             (st.st_mode & (S_IWGRP | S_IWOTH)))
        r = -EPERM;
    if (r < 0)
        (void)close(fd);
    return r < 0 ? r : fd;
}

static int open_ours(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK, 0600);

    return fd < 0 ? -errno : check_owner(fd);
}

int cache_open(const char *path)
{
    return open_ours(path, O_RDONLY);
}

int cache_open_writable(const char *path)
{
    return open_ours(path, O_RDWR);
}

int cache_open_lock(const char *path)
{
    return open_ours(path, O_RDWR | O_CREAT | O_NOFOLLOW);
}

bool cache_may_map(int fd)
{
    /* ext4, XFS, Btrfs, tmpfs, overlayfs, ZFS, F2FS, bcachefs */
    static const uint32_t local[] = {0xEF53,     0x58465342, 0x9123683E, 0x01021994,
                                     0x794C7630, 0x2FC12FC1, 0xF2F52010, 0xCA451A4E};
    struct statfs fs;

    if (fstatfs(fd, &fs) < 0)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(local); i++)
        if ((uint32_t)fs.f_type == local[i])
            return true;
    return false;
}

/* Change the owner of a file that root has created to the owner of the folder. */
static int give_away(int fd, const char *path)
{
    char *folder = io_folder_of(path);
    struct stat st;
    int r = 0;

    if (!folder)
        return -ENOMEM;
    if (stat(folder, &st) < 0 || (st.st_uid != 0 && fchown(fd, st.st_uid, st.st_gid) < 0))
        r = -errno;
    free(folder);
    return r;
}

static int fill(int fd, const char *path, const void *bytes, size_t len)
{
    int r = io_write_all(fd, bytes, len);

    if (r < 0)
        return r;
    if (geteuid() == 0) {
        r = give_away(fd, path);
        if (r < 0)
            return r;
    }
    return fsync(fd) < 0 ? -errno : 0;
}

int cache_write(const char *path, const void *bytes, size_t len)
{
    char *temporary;
    int r = io_name_temporary(path, &temporary), fd;

    if (r < 0)
        return r;
    fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        r = -errno;
        free(temporary);
        return r;
    }
    r = fill(fd, path, bytes, len);
    if (close(fd) < 0 && r >= 0)
        r = -errno;
    if (r < 0)
        goto fail;
    if (rename(temporary, path) < 0) {
        r = -errno;
        goto fail;
    }
    free(temporary);
    return 0;

fail:
    (void)unlink(temporary);
    free(temporary);
    return r;
}

uint64_t cache_checksum(const void *bytes, size_t len, size_t at)
{
    static const uint64_t zero;
    const uint8_t *p = bytes;
    XXH3_state_t state;

    assert(len >= sizeof(zero) && at <= len - sizeof(zero));
    (void)XXH3_64bits_reset(&state);
    (void)XXH3_64bits_update(&state, p, at);
    (void)XXH3_64bits_update(&state, &zero, sizeof(zero));
    (void)XXH3_64bits_update(&state, p + at + sizeof(zero), len - at - sizeof(zero));
    return XXH3_64bits_digest(&state);
}

int cache_load(int fd, size_t len, bool map, void **ret)
{
    struct stat st;
    int r;

    if (fstat(fd, &st) < 0)
        return -errno;
    if (st.st_size < 0 || (size_t)st.st_size != len)
        return -EBADMSG;
    if (map) {
        /* The checksum reads all pages anyway. */
        *ret = mmap(NULL, len, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
        return *ret == MAP_FAILED ? -errno : 0;
    }
    *ret = malloc(len);
    r = *ret ? io_pread_all(fd, *ret, len, 0) : -ENOMEM;
    if (r < 0)
        free(*ret);
    return r == -ENODATA ? -EBADMSG : r;
}

void cache_unload(void *bytes, size_t len, bool mapped)
{
    if (bytes && mapped)
        (void)munmap(bytes, len);
    else
        free(bytes);
}

int cache_remove(const char *path)
{
    return unlink(path) < 0 ? -errno : 0;
}

void cache_remove_leftovers(const char *path)
{
    const char *name = io_base_name(path);
    char *folder = io_folder_of(path);
    DIR *dir = folder ? opendir(folder) : NULL;
    size_t len = strlen(name);
    struct dirent *entry;

    while (dir && (entry = readdir(dir)))
        if (strncmp(entry->d_name, name, len) == 0 && io_is_temporary(entry->d_name + len))
            (void)unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir)
        (void)closedir(dir);
    free(folder);
}

int dataset_default_cache(char *ret, size_t size)
{
    const char *cache = getenv("PLENUM_CACHE_DIR"), *home;

    if (cache && *cache)
        return snprintf(ret, size, "%s", cache) < (int)size ? 0 : -ENAMETOOLONG;
    cache = getenv("XDG_CACHE_HOME");
    if (cache && *cache)
        return snprintf(ret, size, "%s/plenum", cache) < (int)size ? 0 : -ENAMETOOLONG;
    home = getenv("HOME");
    if (home && *home)
        return snprintf(ret, size, "%s/.cache/plenum", home) < (int)size ? 0 : -ENAMETOOLONG;
    return -ENOENT;
}
