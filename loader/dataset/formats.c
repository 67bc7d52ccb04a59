/* SPDX-License-Identifier: MIT */
/* formats.c - lists the data set formats, and detects the format of a plain path.
 *
 * A file's format is detected from its first bytes or its name. A folder with sub-folders is a
 * "folder" data set, whose classes they are; in any other folder, the first archive decides. */
#include "config.h"

#include "loader/dataset/dataset_priv.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/data/stand_in.h"
#include "common/util/error_set.h"
#include "common/util/util.h"

static const struct format *const formats[] = {
    &format_folder, &format_tar,  &format_tfrecord, &format_parquet, &format_mds,
    &format_list,   &format_coco, &format_yolo,     &format_voc,     &format_generated,
};

enum { HEAD_BYTES = 4096 }; /* bytes of a file that are read to detect its format */

const struct format *format_find(const char *name, size_t len)
{
    for (size_t i = 0; i < ARRAY_LEN(formats); i++)
        if (strlen(formats[i]->name) == len && memcmp(name, formats[i]->name, len) == 0)
            return formats[i];
    return NULL;
}

void format_names(char *ret, size_t size)
{
    ret[0] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(formats); i++)
        (void)snprintf(ret + strlen(ret), size - strlen(ret), "%s%s:", i ? ", " : "",
                       formats[i]->name);
}

/* Returns the program that compressed a file, detected from its first bytes, or NULL. */
static const char *compression_of(const struct path_probe *probe)
{
    static const struct {
        const char *name, *magic;
        size_t len;
    } known[] = {{"gzip", "\x1f\x8b", 2},
                 {"zstd", "\x28\xb5\x2f\xfd", 4},
                 {"xz",
                  "\xfd"
                  "7zXZ",
                  5},
                 {"bzip2", "BZh", 3},
                 {"zip", "PK\3\4", 4}};

    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (probe->head_len >= known[i].len &&
            memcmp(probe->head, known[i].magic, known[i].len) == 0)
            return known[i].name;
    return NULL;
}

/* Stat a path and read its first bytes into `head` [size]. Returns 0 or -errno. */
static int look_at(const struct scope *p, const char *path, uint8_t *head, size_t size,
                   struct path_probe *ret)
{
    int64_t n;
    int fd, r;

    *ret = (struct path_probe){.path = path, .head = head};
    r = scope_stat(p, path, &ret->st);
    if (r < 0 || !S_ISREG(ret->st.st_mode))
        return r;
    fd = scope_open(p, path, 0);
    if (fd < 0)
        return fd;
    n = io_pread_some(fd, head, size, 0);
    if (n > 0)
        ret->head_len = (size_t)n;
    (void)close(fd);
    return n < 0 ? (int)n : 0;
}

/* Returns whether an entry with this error may be skipped, because it does not exist or we may not
 * read it. An entry with any other error, such as EIO, might be the one that decides the format. */
static bool may_skip(int code)
{
    return code == -ENOENT || code == -EACCES || code == -EPERM || code == -ELOOP || code == -EXDEV;
}

bool format_has_name(const struct format *format, const char *name)
{
    for (unsigned i = 0; i < format->num_patterns; i++)
        if (!dataset_skips_name(name) && fnmatch(format->patterns[i], name, 0) == 0)
            return true;
    return false;
}

/* Set `*ret` to the format whose archives have such names, if the file is one of these. */
static int probe_archive(const struct scope *p, const char *path, const char *name,
                         const struct format **ret)
{
    struct path_probe probe;
    uint8_t head[HEAD_BYTES];

    for (size_t i = 0; i < ARRAY_LEN(formats) && !*ret; i++) {
        int r =
            format_has_name(formats[i], name) ? look_at(p, path, head, sizeof(head), &probe) : 1;

        if (r < 0)
            return r;
        if (r == 0 && formats[i]->recognise(&probe))
            *ret = formats[i];
    }
    return 0;
}

/* Examine an entry of a folder. Returns 1 for a sub-folder, because the folder then has classes,
 * whatever else is in it. The first archive sets `*format`. */
static int probe_entry(const struct scope *p, int fd, const char *folder, const char *name,
                       const struct format **format, struct plenum_error *err)
{
    char path[SCOPE_NAME_MAX];
    struct stat st;
    int r = scope_stat_entry(p, fd, folder, name, &st);

    if (r == 0 && S_ISDIR(st.st_mode)) { /* a class */
        *format = NULL;
        return 1;
    }
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    if (r == 0 && !*format)
        r = probe_archive(p, path, name, format);
    return r == 0 || may_skip(r) ? 0 : scope_error(p, err, r, path);
}

/* Find the format of the first archive in a folder without sub-folders; NULL: none. */
static int archives_of(const struct scope *p, const char *folder, const struct format **ret,
                       struct plenum_error *err)
{
    struct dirent *entry;
    DIR *dir;
    int r = scope_open_folder(p, folder, &dir);

    *ret = NULL;
    if (r < 0) /* the format will report why it cannot be read */
        return may_skip(r) ? 0 : scope_error(p, err, r, folder);
    while (errno = 0, entry = readdir(dir)) {
        if (dataset_skips_name(entry->d_name))
            continue;
        r = probe_entry(p, dirfd(dir), folder, entry->d_name, ret, err);
        if (r != 0)
            goto out;
    }
    if (errno)
        r = scope_error(p, err, -errno, folder);

out:
    (void)closedir(dir);
    return r < 0 ? r : 0;
}

/* Find the first file that matches a pattern; its path is `*ret` (malloc). */
static int first_of(const struct scope *p, const char *pattern, char **ret,
                    struct plenum_error *err)
{
    struct pattern_list list = {0};
    size_t len = strcspn(pattern, "{*?[");
    char *folder;
    int r;

    while (len > 0 && pattern[len - 1] != '/')
        len--;
    folder = len > 1 ? strndup(pattern, len - 1) : strdup(len ? "" : ".");
    r = folder ? pattern_expand(p, folder, pattern + len, &list, err) : -ENOMEM;
    if (r == 0 && list.count > 0)
        *ret = strdup(list.paths[0]);
    if (r == 0 && !*ret)
        r = -ENOMEM;
    if (r == -ENOMEM)
        (void)error_set(err, r, "out of memory");
    pattern_list_fini(&list);
    free(folder);
    return r;
}

/* Examine a plain path, or the first file that matches it as a pattern. */
static int look_at_plain(const struct scope *p, const char *name, uint8_t *head, size_t size,
                         struct path_probe *ret, struct plenum_error *err)
{
    int r = look_at(p, name, head, size, ret);
    char *first = NULL;

    if (r == 0)
        return 0;
    if (r != -ENOENT || !pattern_is_magic(name))
        return r == -EXDEV ? scope_error(p, err, r, name) : error_set(err, r, "%s", strerror(-r));
    r = first_of(p, name, &first, err);
    if (r < 0)
        return r;
    r = look_at(p, first, head, size, ret);
    ret->path = name;
    if (r < 0)
        r = scope_error(p, err, r, first);
    free(first);
    return r;
}

int format_recognise_remote(const char *name, const struct format **ret, struct plenum_error *err)
{
    const char *base = strrchr(name, '/') + 1;

    for (size_t i = 0; i < ARRAY_LEN(formats); i++)
        if (formats[i]->remote && format_has_name(formats[i], base)) {
            *ret = formats[i];
            return 0;
        }
    return error_set(
        err, -EINVAL,
        "its name does not tell its format: write tar:, tfrecord:, parquet:, mds: or list: in "
        "front of it");
}

int format_recognise(const struct scope *p, const char *name, const struct format **ret,
                     struct plenum_error *err)
{
    const struct format *format = NULL;
    struct path_probe probe;
    uint8_t head[HEAD_BYTES];
    const char *what;
    int r = look_at_plain(p, name, head, sizeof(head), &probe, err);

    if (r < 0)
        return r;
    if (S_ISDIR(probe.st.st_mode))
        r = archives_of(p, name, &format, err);
    if (r < 0)
        return r;
    if (stand_in_refuse(probe.head, probe.head_len, -EINVAL, err) < 0)
        return -EINVAL;
    for (size_t i = 0; i < ARRAY_LEN(formats) && !format; i++)
        if (formats[i]->recognise && formats[i]->recognise(&probe))
            format = formats[i];
    if ((!format || format == &format_list) && detection_refuse_file(&probe, err) < 0)
        return -EINVAL;
    *ret = format;
    if (format)
        return 0;
    what = compression_of(&probe);
    if (what)
        return error_set(err, -EINVAL,
                         "it is compressed (%s), so samples cannot be read from the middle of it: "
                         "decompress it, because the images are already compressed",
                         what);
    if (probe.head_len >= 6 && memcmp(probe.head, "\x93NUMPY", 6) == 0)
        return error_set(err, -EINVAL,
                         "it is a NumPy array, not a data set of images: write the images into an "
                         "archive (the guide's page \"Preparing data\" shows how)");
    return error_set(err, -EINVAL,
                     "its format is unknown: name a folder with one sub-folder per class, "
                     "archives, a list of files with their labels, or FORMAT:PATH; "
                     "list,label=none:PATH is a list of files without labels");
}
