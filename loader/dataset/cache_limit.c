/* SPDX-License-Identifier: MIT */
/* cache_limit.c - removes files from the cache folder. */
#include "config.h"

#include "loader/dataset/cache_limit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "common/util/util.h"
#include "loader/dataset/cache.h"

static const char attribute[] = "user.plenum.user", index_end[] = ".index";
/* Within the names of tables beside an index (field_table.h, kept_table.h). */
static const char *const table_marks[] = {".index.fields-", ".index.order-"};
/* Suffixes of files that belong to an index. */
static const char *const companions[] = {".sums", ".notes", ".lock"};

/* An index with its companions, or a table beside it. */
struct cache_unit {
    char *name;
    uint64_t bytes, used_s;
    bool of_user; /* it was built for the user whose share is checked */
};

struct units {
    int folder_fd;
    struct cache_unit *all;
    size_t count, cap;
    uint64_t bytes, user_bytes;
};

int cache_hold(const char *path, const char *user)
{
    const struct timespec times[] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_OMIT}};
    int fd = cache_open(path);

    if (fd < 0)
        return -1;
    (void)futimens(fd, times);
    if (user)
        (void)fsetxattr(fd, attribute, user, strlen(user), 0);
    (void)flock(fd, LOCK_SH | LOCK_NB); /* fails if the file is being removed; then only we have
                                         * it */
    return fd;
}

static uint64_t bytes_of(int folder_fd, const char *name, const char *suffix)
{
    struct stat st = {0};
    char *path = str_format("%s%s", name, suffix);
    bool there = path && fstatat(folder_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0;

    free(path);
    return there ? (uint64_t)st.st_blocks * 512 : 0;
}

static bool is_of_user(int fd, const char *user)
{
    char text[64];
    ssize_t n = fgetxattr(fd, attribute, text, sizeof(text));

    return user && n >= 0 && (size_t)n == strlen(user) && memcmp(text, user, (size_t)n) == 0;
}

static void add_unit(struct units *u, const char *name, const char *user)
{
    bool is_index = str_ends_with(name, index_end);
    struct stat st;
    struct cache_unit *unit;
    int fd = openat(u->folder_fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
        array_grow(&u->all, &u->cap, u->count, sizeof(*u->all)) < 0)
        goto out;
    unit = &u->all[u->count];
    *unit = (struct cache_unit){.name = strdup(name),
                                .bytes = (uint64_t)st.st_blocks * 512,
                                .used_s = (uint64_t)st.st_atim.tv_sec,
                                .of_user = is_of_user(fd, user)};
    if (!unit->name)
        goto out;
    if (is_index)
        unit->bytes +=
            bytes_of(u->folder_fd, name, ".sums") + bytes_of(u->folder_fd, name, ".notes");
    u->bytes += unit->bytes;
    u->user_bytes += unit->of_user ? unit->bytes : 0;
    u->count++;
out:
    io_close(&fd);
}

static char *index_of(const char *name)
{
    return str_format("%.*s", (int)(strstr(name, index_end) + strlen(index_end) - name), name);
}

static bool is_companion(const char *name)
{
    const char *mark = strstr(name, index_end);

    for (size_t i = 0; mark && i < ARRAY_LEN(companions); i++)
        if (strcmp(mark + strlen(index_end), companions[i]) == 0)
            return true;
    return false;
}

static bool is_own_file(int folder_fd, const char *name)
{
    struct stat st;

    return fstatat(folder_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
           st.st_uid == geteuid();
}

/* Returns whether this is a companion whose index no longer exists, or a temporary file of a killed
 * process. */
static bool is_orphan(int folder_fd, const char *name)
{
    char *index;
    bool gone;

    if (strstr(name, index_end) && io_is_temporary(name))
        return io_is_abandoned(folder_fd, name);
    if (!is_companion(name) || !is_own_file(folder_fd, name))
        return false;
    index = index_of(name);
    gone = index && faccessat(folder_fd, index, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
    free(index);
    return gone;
}

static int by_use(const void *a, const void *b)
{
    const struct cache_unit *x = a, *y = b;

    return (x->used_s > y->used_s) - (x->used_s < y->used_s);
}

/* Open and lock a file, which is created if `flags` say so. Returns a descriptor, or -1 if that
 * fails or the file is locked. */
static int lock_file(int folder_fd, const char *name, int flags)
{
    int fd = openat(folder_fd, name, O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | flags, 0600);

    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0)
        io_close(&fd);
    return fd;
}

static void unlink_companions(int folder_fd, const char *index)
{
    for (size_t i = 0; i < ARRAY_LEN(companions); i++) {
        char *path = str_format("%s%s", index, companions[i]);

        if (path)
            (void)unlinkat(folder_fd, path, 0);
        free(path);
    }
}

/* Remove an orphan, unless its index is being built. */
static void remove_orphan(int folder_fd, const char *name)
{
    char *index = index_of(name), *lock_name = index ? str_format("%s.lock", index) : NULL;
    int lock = lock_name ? lock_file(folder_fd, lock_name, O_RDWR | O_CREAT) : -1;

    if (lock >= 0 && is_orphan(folder_fd, name))
        (void)unlinkat(folder_fd, name, 0);
    if (lock >= 0 && is_orphan(folder_fd, lock_name))
        (void)unlinkat(folder_fd, lock_name, 0);
    io_close(&lock);
    free(lock_name);
    free(index);
}

static bool is_table(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(table_marks); i++)
        if (strstr(name, table_marks[i]))
            return !io_is_temporary(name);
    return false;
}

static int list_units(struct units *u, const char *folder, const char *user)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;

    if (!dir)
        return -errno;
    u->folder_fd = fcntl(dirfd(dir), F_DUPFD_CLOEXEC, 0);
    while (u->folder_fd >= 0 && (entry = readdir(dir)))
        if (is_orphan(u->folder_fd, entry->d_name))
            remove_orphan(u->folder_fd, entry->d_name);
        else if (str_ends_with(entry->d_name, index_end) || is_table(entry->d_name))
            add_unit(u, entry->d_name, user);
    (void)closedir(dir);
    if (u->count > 1)
        qsort(u->all, u->count, sizeof(*u->all), by_use);
    return u->folder_fd < 0 ? -EMFILE : 0;
}

/* Remove a unit, unless it is in use or its index is being built. The lock file is removed, too: if
 * a process still holds it while another creates a new one, the index is at worst built twice, and
 * each is renamed atomically. */
static bool remove_unit(struct units *u, const struct cache_unit *unit)
{
    const char *mark = strstr(unit->name, index_end);
    char *lock_name =
        str_format("%.*s.lock", (int)(mark - unit->name + (int)strlen(index_end)), unit->name);
    int lock = lock_name ? lock_file(u->folder_fd, lock_name, O_RDWR | O_CREAT) : -1;
    int file = lock >= 0 ? lock_file(u->folder_fd, unit->name, O_RDONLY) : -1;
    bool removed = file >= 0 && unlinkat(u->folder_fd, unit->name, 0) == 0;

    if (removed && str_ends_with(unit->name, index_end))
        unlink_companions(u->folder_fd, unit->name);
    if (removed) {
        u->bytes -= unit->bytes;
        u->user_bytes -= unit->of_user ? unit->bytes : 0;
    }
    io_close(&file);
    io_close(&lock);
    free(lock_name);
    return removed;
}

static bool is_over(const struct units *u, const struct dataset_cache_limits *limits)
{
    return (limits->bytes > 0 && u->bytes > limits->bytes) ||
           (limits->user_bytes > 0 && u->user_bytes > limits->user_bytes);
}

static bool must_go(const struct units *u, const struct cache_unit *unit,
                    const struct dataset_cache_limits *limits)
{
    uint64_t now_s = (uint64_t)time(NULL);

    if (limits->age_ns > 0 && now_s > unit->used_s &&
        now_s - unit->used_s > limits->age_ns / NS_PER_SEC)
        return true;
    if (limits->user_bytes > 0 && u->user_bytes > limits->user_bytes && unit->of_user)
        return true;
    return limits->bytes > 0 && u->bytes > limits->bytes;
}

bool cache_trim(const char *path, const struct dataset_cache_limits *limits, const char *user)
{
    struct units u = {.folder_fd = -1};
    bool kept = true;
    char *folder;

    if (limits->bytes == 0 && limits->user_bytes == 0 && limits->age_ns == 0)
        return true;
    folder = io_folder_of(path);
    if (folder && list_units(&u, folder, user) == 0) {
        for (size_t i = 0; i < u.count; i++)
            if (must_go(&u, &u.all[i], limits))
                (void)remove_unit(&u, &u.all[i]);
        if (is_over(&u, limits))
            kept = unlink(path) < 0 && errno != ENOENT;
        if (!kept && str_ends_with(path, index_end))
            unlink_companions(u.folder_fd, io_base_name(path));
    }
    for (size_t i = 0; i < u.count; i++)
        free(u.all[i].name);
    free(u.all);
    io_close(&u.folder_fd);
    free(folder);
    return kept;
}
