/* SPDX-License-Identifier: MIT */
/* folder.c - implements "folder:DIR": each sub-folder is a class, and each image file anywhere
 * below it a sample.
 *
 * Like in torchvision's ImageFolder, classes are numbered in the byte order of their names, samples
 * are ordered by class and then by path in byte order, and links to folders are followed. Entries
 * that operating systems create (skipped.c) are skipped, because they must not become classes. With
 * classes=, the numbers come from a list.
 *
 * A scan costs one readdir and one stat per file; threads scan the classes in parallel. An index is
 * stale when the stamp of any folder has changed, because a file was added, removed or renamed. It
 * is also stale when the target of a skipped link has a different type, because the target may now
 * be a folder. A folder that changed just before it was read may change again within the resolution
 * of its file system's clock, without a change of its times. So such times are not trusted, and the
 * next dataset_open() scans again. The index contains the size and mtime of every file, so a file
 * that was changed in place is detected when it is read. */
#include "config.h"

#include "loader/dataset/format.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/error_set.h"
#include "common/util/parallel.h"
#include "common/util/util.h"

enum { DEPTH_MAX = 32 }; /* levels of folders below a class */

/* One image file of a class, during a scan. */
struct found_file {
    char *path; /* relative to the root: "class/.../file" */
    uint64_t mtime_ns;
    uint64_t size;
    uint32_t folder; /* index in the class's list */
    uint32_t base;   /* offset of the base name in `path` */
};

/* A folder, or a link that was skipped. */
struct found_folder {
    char *path;
    struct stamp stamp;
};

/* One class, filled by one thread. */
struct class_scan {
    char *name;
    struct label label;
    struct found_file *files;
    size_t num_files, cap_files;
    struct found_folder *folders;
    size_t num_folders, cap_folders;
    struct index_builder skipped; /* only counts skipped files */
    struct plenum_error err;
};

/* A folder that is being read. `up` points to the folder that contains it. */
struct level {
    const struct level *up;
    const char *path; /* relative to the root */
    int fd;
    unsigned depth;
    uint32_t folder; /* index in the class's list */
    dev_t dev;       /* `dev` and `ino` detect a link to a folder above */
    ino_t ino;
};

struct folder_scan {
    const struct dataset *dataset;
    const struct dataset_options *options;
    struct class_scan top; /* the data set's own folder, without files */
    struct class_scan *classes;
    size_t num_classes, cap_classes;
    struct index_memory *memory;
};

static int add_file(const struct folder_scan *s, struct class_scan *c, const struct level *level,
                    const char *name, const struct stat *st)
{
    size_t bytes = 2 * sizeof(*c->files) + strlen(level->path) + strlen(name) + 32;
    char *path;

    if (index_memory_charge(s->memory, bytes) < 0)
        return -ENOMEM;
    if (array_grow(&c->files, &c->cap_files, c->num_files, sizeof(*c->files)) < 0)
        return -ENOMEM;
    path = str_format("%s/%s", level->path, name);
    if (!path)
        return -ENOMEM;
    assert(level->folder < c->num_folders && c->num_files < c->cap_files);
    c->files[c->num_files++] = (struct found_file){.path = path,
                                                   .mtime_ns = dataset_mtime(st),
                                                   .size = (uint64_t)st->st_size,
                                                   .folder = level->folder,
                                                   .base = (uint32_t)strlen(level->path) + 1};
    return 0;
}

static int scan_folder(const struct folder_scan *s, struct class_scan *c, const char *path,
                       const struct level *up);

/* Add the stamp of a folder or of a skipped link. */
static int add_stamp(struct class_scan *c, const char *path, const struct stamp *stamp)
{
    struct found_folder found = {.path = strdup(path), .stamp = *stamp};

    if (!found.path ||
        array_grow(&c->folders, &c->cap_folders, c->num_folders, sizeof(*c->folders)) < 0) {
        free(found.path);
        return error_set(&c->err, -ENOMEM, "out of memory");
    }
    assert(c->num_folders < c->cap_folders);
    c->folders[c->num_folders++] = found;
    return 0;
}

static void skip(struct class_scan *c, const char *name)
{
    c->skipped.skipped++;
    index_builder_count_foreign(&c->skipped, name);
}

/* Stamp the target of a skipped link, because no folder of the data set changes when the target
 * becomes a folder. The types of other entries are part of their folder's stamp. */
static int stamp_target(const struct folder_scan *s, struct class_scan *c, const char *folder,
                        const struct dirent *entry, const struct stat *st)
{
    struct stamp stamp = stamp_type(st);
    char *path;
    int r;

    if (entry->d_type != DT_LNK && entry->d_type != DT_UNKNOWN)
        return 0;
    if (index_memory_charge(s->memory, 2 * sizeof(*c->folders) + strlen(folder) +
                                           strlen(entry->d_name) + 32) < 0)
        return error_set(&c->err, -ENOMEM, "out of memory");
    path = str_format("%s/%s", folder, entry->d_name);
    r = path ? add_stamp(c, path, &stamp) : error_set(&c->err, -ENOMEM, "out of memory");
    free(path);
    return r;
}

/* Set the error for an entry of a folder. */
static int entry_error(const struct folder_scan *s, struct plenum_error *err, const char *folder,
                       const char *name, int code)
{
    char *path =
        str_format("%s/%s%s%s", s->dataset->scope.folder, folder, *folder ? "/" : "", name);

    if (!path)
        code = error_set(err, -ENOMEM, "out of memory");
    else if (code == -ELOOP)
        code = error_set(err, code, "%s: symbolic links go in a circle", path);
    else if (code == -ENOENT)
        code = error_set(err, code, "%s: the symbolic link leads nowhere", path);
    else
        code = scope_error(&s->dataset->scope, err, code, path);
    free(path);
    return code;
}

/* Scan an entry: a folder, a file, or a link to one. */
static int scan_entry(const struct folder_scan *s, struct class_scan *c, const struct level *level,
                      const struct dirent *entry)
{
    struct stat st;
    char *path;
    int r;

    if (entry->d_type == DT_REG && !dataset_takes_name(s->dataset, entry->d_name)) {
        skip(c, entry->d_name);
        return 0;
    }
    r = scope_stat_entry(&s->dataset->scope, level->fd, level->path, entry->d_name, &st);
    if (r == -ENOENT && entry->d_type != DT_LNK)
        return 0; /* it has just been removed */
    if (r < 0)
        return entry_error(s, &c->err, level->path, entry->d_name, r);
    if (S_ISDIR(st.st_mode)) {
        path = str_format("%s/%s", level->path, entry->d_name);
        if (!path)
            return error_set(&c->err, -ENOMEM, "out of memory");
        r = scan_folder(s, c, path, level);
        free(path);
        return r;
    }
    if (!S_ISREG(st.st_mode) || !dataset_takes_name(s->dataset, entry->d_name)) {
        skip(c, entry->d_name);
        return stamp_target(s, c, level->path, entry, &st);
    }
    r = add_file(s, c, level, entry->d_name, &st);
    return r < 0 ? error_set(&c->err, r, "out of memory") : 0;
}

/* Record a folder, after checking that it does not contain itself. */
static int enter_folder(const struct folder_scan *s, struct class_scan *c, struct level *level)
{
    struct stamp stamp;
    struct stat st;

    if (fstat(level->fd, &st) < 0)
        return scope_error(&s->dataset->scope, &c->err, -errno, level->path);
    if (level->depth > DEPTH_MAX)
        return error_set(&c->err, -ELOOP, "%s/%s: folders are nested more than %d deep",
                         s->dataset->scope.folder, level->path, DEPTH_MAX);
    for (const struct level *l = level->up; l; l = l->up)
        if (l->dev == st.st_dev && l->ino == st.st_ino)
            return error_set(&c->err, -ELOOP,
                             "%s/%s: a symbolic link leads back into a folder above",
                             s->dataset->scope.folder, level->path);
    level->dev = st.st_dev;
    level->ino = st.st_ino;
    level->folder = (uint32_t)c->num_folders;
    stamp = stamp_of(level->fd, &st);
    return add_stamp(c, level->path, &stamp);
}

static int scan_folder(const struct folder_scan *s, struct class_scan *c, const char *path,
                       const struct level *up)
{
    struct level level = {.up = up, .path = path, .depth = up->depth + 1};
    struct dirent *entry;
    DIR *dir = NULL;
    int r;

    r = scope_open_folder(&s->dataset->scope, path, &dir);
    if (r < 0)
        return entry_error(s, &c->err, "", path, r);
    level.fd = dirfd(dir);
    r = enter_folder(s, c, &level);
    if (r < 0)
        goto out;
    while (errno = 0, entry = readdir(dir)) {
        r = dataset_check_cancel(s->options);
        if (r < 0)
            goto out;
        assert(level.folder < c->num_folders);
        c->folders[level.folder].stamp.content += stamp_hash_entry(level.fd, entry);
        if (dataset_skips_name(entry->d_name))
            continue;
        r = scan_entry(s, c, &level, entry);
        if (r < 0)
            goto out;
    }
    if (errno)
        r = scope_error(&s->dataset->scope, &c->err, -errno, path);

out:
    (void)closedir(dir);
    return r;
}

static int by_path(const void *a, const void *b)
{
    const struct found_file *x = a, *y = b;

    return strcmp(x->path, y->path);
}

/* Compare classes by number if numbers are known (classes=), otherwise by name. */
static int by_class(const void *a, const void *b)
{
    const struct class_scan *x = a, *y = b;

    if (x->label.class != y->label.class)
        return x->label.class < y->label.class ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int scan_class(void *arg, uint64_t index, unsigned thread)
{
    struct folder_scan *s = arg;
    struct class_scan *c = &s->classes[index];
    struct level root = {0};
    struct stat st;
    int r;

    assert(index < s->num_classes);
    (void)thread;
    if (fstat(s->dataset->scope.fd, &st) == 0) {
        root.dev = st.st_dev;
        root.ino = st.st_ino;
    }
    r = scan_folder(s, c, c->name, &root);
    if (r < 0)
        return r;
    if (c->num_files > 1)
        qsort(c->files, c->num_files, sizeof(*c->files), by_path);
    return 0;
}

static void scan_progress(void *arg, uint64_t done, uint64_t total)
{
    struct folder_scan *s = arg;

    if (s->options->progress)
        s->options->progress(s->options->progress_arg, "reading folders", done, total);
}

static int add_class(struct folder_scan *s, const char *name, struct plenum_error *err)
{
    const struct dataset *d = s->dataset;
    struct class_scan *c;
    int r;

    if (array_grow(&s->classes, &s->cap_classes, s->num_classes, sizeof(*s->classes)) < 0)
        return error_set(err, -ENOMEM, "out of memory");
    c = &s->classes[s->num_classes];
    *c = (struct class_scan){.name = strdup(name)};
    if (!c->name)
        return error_set(err, -ENOMEM, "out of memory");
    s->num_classes++;
    r = label_read(&d->labels, LABEL_FOLDER, name, strlen(name), &c->label, err);
    if (r == 0 && c->label.is_open && d->labels.offset != 0)
        return error_set(err, -EINVAL,
                         "folder,label-offset=...: names of folders are not numbers unless "
                         "classes=numbers is set");
    return r < 0 ? error_prefix(err, r, "%s/%s", d->scope.folder, name) : 0;
}

/* Add an entry of the data set's folder: a class, or a stray file. */
static int add_entry(struct folder_scan *s, int fd, const struct dirent *entry, uint64_t *stray,
                     struct plenum_error *err)
{
    struct stat st;
    int r = scope_stat_entry(&s->dataset->scope, fd, ".", entry->d_name, &st);

    if (r == -ENOENT && entry->d_type != DT_LNK)
        return 0; /* it has just been removed */
    if (r < 0)    /* if we skipped this class, another one would get its label */
        return entry_error(s, err, "", entry->d_name, r);
    if (!S_ISDIR(st.st_mode)) {
        *stray += dataset_takes_name(s->dataset, entry->d_name);
        r = stamp_target(s, &s->top, ".", entry, &st);
        return r < 0 ? error_set(err, r, "%s", s->top.err.text) : 0;
    }
    return add_class(s, entry->d_name, err);
}

/* List the data set's folders, each of which is a class. Images beside them are counted as
 * stray. */
static int list_classes(struct folder_scan *s, uint64_t *stray, struct plenum_error *err)
{
    const struct scope *scope = &s->dataset->scope;
    struct dirent *entry;
    DIR *dir;
    int r = scope_open_folder(scope, ".", &dir);

    if (r < 0)
        return scope_error(scope, err, r, scope->folder);
    while (errno = 0, entry = readdir(dir)) {
        assert(s->top.num_folders > 0);
        s->top.folders[0].stamp.content += stamp_hash_entry(dirfd(dir), entry);
        if (dataset_skips_name(entry->d_name))
            continue;
        r = add_entry(s, dirfd(dir), entry, stray, err);
        if (r < 0)
            goto out;
    }
    if (errno) {
        r = scope_error(scope, err, -errno, scope->folder);
        goto out;
    }
    if (s->num_classes > 1)
        qsort(s->classes, s->num_classes, sizeof(*s->classes), by_class);

out:
    (void)closedir(dir);
    return r;
}

/* With classes=, add all listed classes, even those without a folder. */
static int add_listed(const struct folder_scan *s, struct index_builder *b,
                      struct plenum_error *err)
{
    int64_t highest = s->num_classes ? s->classes[s->num_classes - 1].label.class : 0;

    return index_builder_add_listed(b, highest) < 0 ? error_set(err, -ENOMEM, "out of memory") : 0;
}

/* Add a class's folders. Returns the number of the first one, or -errno. */
static int64_t add_folders(const struct class_scan *c, struct index_builder *b)
{
    int64_t first = 0, r = 0;

    for (size_t f = 0; r >= 0 && f < c->num_folders; f++) {
        r = index_builder_add_container(b, c->folders[f].path, &c->folders[f].stamp);
        if (f == 0)
            first = r;
    }
    return r < 0 ? r : first;
}

/* Add the classes, in order, to the index. */
static int add_all(const struct folder_scan *s, struct index_builder *b, struct plenum_error *err)
{
    for (size_t i = 0; i < s->num_classes; i++) {
        const struct class_scan *c = &s->classes[i];
        int64_t label = c->label.is_open ? index_builder_add_class(b, c->name) : c->label.class;
        int64_t first = label < 0 ? label : add_folders(c, b), r = first;

        for (size_t f = 0; r >= 0 && f < c->num_files; f++) {
            const struct found_file *file = &c->files[f];

            r = index_builder_add_sample(
                b,
                &(struct index_sample){.where = file->mtime_ns,
                                       .len = (uint32_t)min_u64(file->size, UINT32_MAX),
                                       .container = (uint32_t)(first + file->folder),
                                       .label = (int32_t)label},
                file->path + file->base);
        }
        if (r < 0)
            return error_set(err, (int)r, "%s: %s", s->dataset->scope.folder,
                             r == -EOVERFLOW ? "more samples or classes than an index can hold"
                                             : "out of memory");
        index_builder_add_skipped(b, &c->skipped);
        if (c->num_files == 0)
            index_builder_count_empty(b, c->name);
    }
    return 0;
}

static void class_fini(struct class_scan *c)
{
    for (size_t f = 0; f < c->num_files; f++)
        free(c->files[f].path);
    for (size_t f = 0; f < c->num_folders; f++)
        free(c->folders[f].path);
    free(c->files);
    free(c->folders);
    free(c->name);
}

static void scan_fini(struct folder_scan *s)
{
    class_fini(&s->top);
    for (size_t i = 0; i < s->num_classes; i++)
        class_fini(&s->classes[i]);
    free(s->classes);
}

/* Set the error for a data set without samples, which describes what was found instead. */
static int no_images(const struct dataset *dataset, const struct index_builder *b,
                     size_t num_folders, uint64_t stray, struct plenum_error *err)
{
    char others[256], why[400] = "", names[80];

    (void)index_builder_describe_foreign(b, others, sizeof(others));
    if (others[0])
        (void)snprintf(why, sizeof(why), "; there %s %s: %s", index_builder_foreign_verb(b), others,
                       index_builder_advise_foreign(b));
    else if (stray)
        (void)snprintf(why, sizeof(why),
                       " (there are images, but none in a sub-folder); if there are no classes, "
                       "write a list of their paths, one per line, and use list,label=none:LIST");
    else if (num_folders == 0)
        (void)snprintf(why, sizeof(why), "; it has no sub-folders");
    else if (b->skipped > 0)
        (void)snprintf(why, sizeof(why), "; there are %llu files with other names",
                       (unsigned long long)b->skipped);
    return error_set(
        err, -EBADMSG, "%s contains no images: put %s into sub-folders, one per class%s",
        dataset->scope.folder, dataset_describe_images(dataset, names, sizeof(names)), why);
}

/* Copy the error of the first class that failed. */
static void first_error(const struct folder_scan *s, int code, struct plenum_error *err)
{
    for (size_t i = 0; i < s->num_classes; i++)
        if (s->classes[i].err.text[0]) {
            (void)error_set(err, code, "%s", s->classes[i].err.text);
            return;
        }
}

static int folder_scan(const struct dataset *dataset, const struct dataset_options *options,
                       struct index_builder *b, struct plenum_error *err)
{
    struct folder_scan s = {.dataset = dataset, .options = options, .memory = b->memory};
    struct parallel loop = {.threads = options->threads,
                            .turn = scan_class,
                            .progress = options->progress ? scan_progress : NULL,
                            .cancel = options->cancel,
                            .arg = &s};
    uint64_t stray = 0;
    struct stamp stamp;
    struct stat st;
    int r;

    if (fstat(dataset->scope.fd, &st) < 0)
        return error_set(err, -errno, "%s: %s", dataset->scope.folder, strerror(errno));
    stamp = stamp_of(dataset->scope.fd, &st);
    r = add_stamp(&s.top, ".", &stamp);
    if (r < 0) {
        r = error_set(err, r, "%s", s.top.err.text);
        goto out;
    }
    r = list_classes(&s, &stray, err);
    if (r < 0)
        goto out;
    if (add_folders(&s.top, b) < 0) {
        r = error_set(err, -ENOMEM, "out of memory");
        goto out;
    }
    loop.count = s.num_classes;
    r = parallel_run(&loop);
    if (r < 0) {
        first_error(&s, r, err);
        goto out;
    }
    r = add_listed(&s, b, err);
    if (r < 0)
        goto out;
    r = add_all(&s, b, err);
    if (r < 0)
        goto out;
    if (b->num_samples == 0)
        r = no_images(dataset, b, s.num_classes, stray, err);
    else
        b->skipped += stray;

out:
    scan_fini(&s);
    return r;
}

static bool folder_fresh(const struct dataset *dataset)
{
    const struct index *index = &dataset->index;

    for (uint32_t i = 0; i < index->header->containers; i++)
        if (!stamp_holds(&dataset->scope, index_name(index, index->containers[i].name),
                         &index->containers[i].stamp))
            return false;
    return true;
}

static void folder_path(const struct dataset *dataset, const struct index_sample *sample, char *ret,
                        size_t size)
{
    const struct index *index = &dataset->index;

    (void)snprintf(ret, size, "%s/%s", index_name(index, index->containers[sample->container].name),
                   index_name(index, sample->name));
}

/* Write the path of the file beside the image with a different extension: for "n01/x.jpg" and
 * "txt", "n01/x.txt". */
static void folder_field_path(const struct dataset *dataset, const struct index_sample *sample,
                              const char *source, char *ret, size_t size)
{
    char path[8192];

    folder_path(dataset, sample, path, sizeof(path));
    (void)snprintf(ret, size, "%.*s.%s", (int)(strrchr(path, '.') - path), path, source);
}

static void folder_describe(const struct dataset *dataset, const struct index_sample *sample,
                            char *ret, size_t size)
{
    int n = snprintf(ret, size, "%s/", dataset->scope.folder);

    if (n > 0 && (size_t)n < size)
        folder_path(dataset, sample, ret + n, size - (size_t)n);
}

static bool folder_recognise(const struct path_probe *probe)
{
    return S_ISDIR(probe->st.st_mode);
}

static int folder_locate(struct dataset *d, const struct dataset_options *options,
                         struct plenum_error *err)
{
    int r = dataset_check_image_extension(d, err);

    (void)options;
    if (r == 0)
        r = dataset_enter(d, d->where, err);
    if (r < 0)
        return r;
    free(d->where);
    d->where = strdup(d->scope.folder);
    return d->where ? 0 : error_set(err, -ENOMEM, "out of memory");
}

static const struct format_setting settings[] = {
    CLASSES_SETTING,
    {"image", "the extension of images, if other files have image extensions, too"},
    {"label-offset", "a whole number to add to every label; only with classes=numbers"},
};

const struct format format_folder = {
    .name = "folder",
    .settings = settings,
    .num_settings = ARRAY_LEN(settings),
    .whole_files = true,
    .recognise = folder_recognise,
    .locate = folder_locate,
    .scan = folder_scan,
    .fresh = folder_fresh,
    .file = folder_path,
    .read = dataset_read_file,
    .announce = dataset_announce_file,
    .path = folder_path,
    .describe = folder_describe,
    .field_path = folder_field_path,
};
