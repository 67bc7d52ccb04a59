/* archive.c - data sets of archives: their files, their index, reading by offset.
 *
 * Archives are opened when a sample of them is first read, and stay open: a file system across a
 * network asks its server at every open. When there are more archives than descriptors to spare,
 * the rest are opened for each sample. An archive that is replaced under its name while it is open
 * goes on as it was; one that is changed in place shows in its size and time, which are compared at
 * every read. */
#include "config.h"

#include "loader/dataset/archive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/error.h"
#include "common/parallel.h"

/* "i/k" -> the files [begin, end) of `count`. */
static int take_part(const struct dataset *d, uint32_t count, uint32_t *begin, uint32_t *end,
                     struct plenum_error *err)
{
    const char *text = dataset_setting(d, "part", NULL);
    unsigned long part, parts;
    char rest;

    *begin = 0;
    *end = count;
    if (!text)
        return 0;
    if (sscanf(text, "%6lu/%6lu%c", &part, &parts, &rest) != 2 || parts == 0 || part >= parts)
        return error_set(err, -EINVAL, "part=%s is not i/k with i below k", text);
    if (parts > count)
        return error_set(err, -EINVAL,
                         "%s:%s has %u files, which cannot be split into %lu parts: use more files "
                         "or split = sample",
                         d->format->name, d->where, count, parts);
    *begin = (uint32_t)((uint64_t)count * part / parts);
    *end = (uint32_t)((uint64_t)count * (part + 1) / parts);
    return 0;
}

/* Bytes of the folder that all paths have in common, with its '/'. */
static size_t common_folder(const struct notation_paths *p)
{
    size_t len = strlen(p->paths[0]);

    for (uint32_t i = 1; i < p->count; i++)
        for (size_t k = 0; k < len; k++)
            if (p->paths[i][k] != p->paths[0][k])
                len = k;
    while (len > 0 && p->paths[0][len - 1] != '/')
        len--;
    return len;
}

static void keep_range(struct notation_paths *p, uint32_t begin, uint32_t end)
{
    for (uint32_t i = 0; i < p->count; i++)
        if (i < begin || i >= end)
            free(p->paths[i]);
    memmove(p->paths, p->paths + begin, (end - begin) * sizeof(*p->paths));
    p->count = end - begin;
}

/* Without links in the folder that all names are below; the names stay as they are. */
static int canonical_where(struct dataset *d, size_t folder, struct plenum_error *err)
{
    char *where =
        strncmp(d->where, d->files.paths[0], folder) == 0
            ? str_format("%s%s%s", d->root, strcmp(d->root, "/") == 0 ? "" : "/", d->where + folder)
            : strdup(d->where);

    if (!where)
        return error_set(err, -ENOMEM, "out of memory");
    free(d->where);
    d->where = where;
    return 0;
}

static int make_absolute(struct dataset *d, struct plenum_error *err)
{
    char here[4096];
    char *where;

    if (d->where[0] == '/')
        return 0;
    if (!getcwd(here, sizeof(here)))
        return error_set(err, -errno, "the current folder is not known: %s", strerror(errno));
    where = str_format("%s/%s", here, d->where);
    if (!where)
        return error_set(err, -ENOMEM, "out of memory");
    free(d->where);
    d->where = where;
    return 0;
}

int archive_locate(struct dataset *d, const struct dataset_options *options,
                   struct plenum_error *err)
{
    uint32_t begin = 0, end = 0;
    size_t folder = 0;
    char *path = NULL;
    int r = make_absolute(d, err);

    if (r == 0)
        r = notation_expand(d->where, &d->files, err);
    if (r == 0)
        r = take_part(d, d->files.count, &begin, &end, err);
    if (r < 0)
        return r;
    keep_range(&d->files, begin, end);
    folder = common_folder(&d->files);
    path = strndup(d->files.paths[0], folder);
    if (!path)
        return error_set(err, -ENOMEM, "out of memory");
    r = dataset_take_root(d, options, path, err);
    free(path);
    for (uint32_t i = 0; r == 0 && options->num_roots > 0 && i < d->files.count; i++)
        r = dataset_check_root(options, d->files.paths[i], err);
    if (r == 0)
        r = canonical_where(d, folder, err);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < d->files.count; i++)
        memmove(d->files.paths[i], d->files.paths[i] + folder,
                strlen(d->files.paths[i] + folder) + 1);
    d->fds = malloc(d->files.count * sizeof(*d->fds));
    if (!d->fds)
        return error_set(err, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < d->files.count; i++)
        atomic_init(&d->fds[i], -1);
    return 0;
}

/* All archives of a data set while they are scanned. */
struct scan {
    const struct dataset *dataset;
    const struct dataset_options *options;
    int (*scan)(struct archive *archive);
    struct archive *archives;
    atomic_uint_fast64_t progress;
    uint64_t total;
};

static int open_archive(struct archive *a, struct stat *st)
{
    a->fd = openat(a->dataset->root_fd, a->name, O_RDONLY | O_CLOEXEC);
    if (a->fd < 0 || fstat(a->fd, st) < 0)
        return error_set(&a->err, -errno, "%s: %s", a->path, strerror(errno));
    if (!S_ISREG(st->st_mode))
        return error_set(&a->err, -EINVAL, "%s is no file", a->path);
    a->size = (uint64_t)st->st_size;
    (void)posix_fadvise(a->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    return 0;
}

static int scan_archive(void *arg, uint64_t index, unsigned thread)
{
    struct scan *s = arg;
    struct archive *a = &s->archives[index];
    struct stat before, after;
    int64_t r;

    (void)thread;
    r = open_archive(a, &before);
    if (r == 0) {
        r = index_builder_add_container(&a->builder, a->name, dataset_mtime(&before),
                                        (uint64_t)before.st_size, dataset_settled(&before));
        r = r < 0 ? error_set(&a->err, (int)r, "out of memory") : s->scan(a);
    }
    if (r == 0 && (fstat(a->fd, &after) < 0 || after.st_size != before.st_size ||
                   dataset_mtime(&after) != dataset_mtime(&before)))
        r = error_set(&a->err, -ESTALE,
                      "%s changed while it was read: open the data set again "
                      "when it is complete",
                      a->path);
    io_close(&a->fd);
    return (int)r;
}

static void tell_progress(void *arg, uint64_t done, uint64_t total)
{
    struct scan *s = arg;

    (void)done;
    (void)total;
    s->options->progress(s->options->progress_arg, "bytes of archives",
                         min_u64(atomic_load(&s->progress), s->total), s->total);
}

static int scan_init(struct scan *s, struct plenum_error *err)
{
    const struct dataset *d = s->dataset;
    struct stat st;

    s->archives = calloc(d->files.count, sizeof(*s->archives));
    if (!s->archives)
        return error_set(err, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < d->files.count; i++) {
        s->archives[i] = (struct archive){.dataset = d,
                                          .options = s->options,
                                          .name = d->files.paths[i],
                                          .path = str_format("%s/%s", d->root, d->files.paths[i]),
                                          .fd = -1,
                                          .progress = &s->progress};
        if (!s->archives[i].path)
            return error_set(err, -ENOMEM, "out of memory");
        if (fstatat(d->root_fd, d->files.paths[i], &st, 0) == 0)
            s->total += (uint64_t)st.st_size;
    }
    return 0;
}

static int pour(struct scan *s, struct index_builder *b, struct plenum_error *err)
{
    for (uint32_t i = 0; i < s->dataset->files.count; i++) {
        int r = index_builder_append(b, &s->archives[i].builder);

        index_builder_fini(&s->archives[i].builder);
        if (r < 0)
            return error_set(err, r, "%s: %s", s->archives[i].path,
                             r == -EOVERFLOW ? "more samples than an index can hold"
                                             : "out of memory");
    }
    return 0;
}

int archive_scan(const struct dataset *dataset, const struct dataset_options *options,
                 int (*scan)(struct archive *archive), struct index_builder *b,
                 struct plenum_error *err)
{
    struct scan s = {.dataset = dataset, .options = options, .scan = scan};
    struct parallel loop = {.count = dataset->files.count,
                            .threads = options->threads,
                            .turn = scan_archive,
                            .progress = options->progress ? tell_progress : NULL,
                            .arg = &s};
    int64_t offset;
    int r = dataset_setting_number(dataset, "label-offset", 0, &offset, err);

    if (r == 0)
        r = scan_init(&s, err);
    if (r == 0) {
        r = parallel_run(&loop);
        for (uint32_t i = 0; r < 0 && i < dataset->files.count; i++)
            if (s.archives[i].err.text[0]) {
                (void)error_set(err, r, "%s", s.archives[i].err.text);
                break;
            }
    }
    if (r == 0)
        r = pour(&s, b, err);
    if (r == 0)
        r = index_builder_settle_labels(b, offset, err);
    for (uint32_t i = 0; s.archives && i < dataset->files.count; i++) {
        index_builder_fini(&s.archives[i].builder);
        free(s.archives[i].path);
    }
    free(s.archives);
    return r;
}

bool archive_fresh(const struct dataset *dataset)
{
    const struct index *index = &dataset->index;

    if (index->header->containers != dataset->files.count)
        return false;
    for (uint32_t i = 0; i < dataset->files.count; i++) {
        const struct index_container *c = &index->containers[i];
        struct stat st;

        if (!(c->flags & INDEX_SETTLED) ||
            strcmp(index_name(index, c->name), dataset->files.paths[i]) != 0 ||
            fstatat(dataset->root_fd, dataset->files.paths[i], &st, 0) < 0 ||
            dataset_mtime(&st) != c->mtime_ns || (uint64_t)st.st_size != c->size)
            return false;
    }
    return true;
}

size_t archive_path(const struct dataset *dataset, const struct index_sample *sample, char *ret,
                    size_t size)
{
    const struct index *index = &dataset->index;
    int n = snprintf(ret, size, "%s/%s", dataset->root,
                     index_name(index, index->containers[sample->container].name));

    return n < 0 ? 0 : min_u64((uint64_t)n, size - 1);
}

/* May another descriptor be kept? A quarter of what we may have is left to clients and the rest. */
static bool may_keep(int fd)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_NOFILE, &limit) == 0 && (rlim_t)fd < limit.rlim_cur / 4 * 3;
}

int archive_open(const struct dataset *dataset, const struct index_sample *sample,
                 struct plenum_error *err)
{
    const struct index_container *c = &dataset->index.containers[sample->container];
    const char *name = dataset->files.paths[sample->container];
    atomic_int *kept = &dataset->fds[sample->container];
    int fd = atomic_load(kept), none = -1;
    struct stat st;

    if (fd < 0) {
        fd = openat(dataset->root_fd, name, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            return error_set(err, -errno, "%s/%s: %s", dataset->root, name, strerror(errno));
        if (may_keep(fd) && !atomic_compare_exchange_strong(kept, &none, fd)) {
            (void)close(fd); /* another thread was first */
            fd = none;
        }
    }
    if (fstat(fd, &st) < 0 || dataset_mtime(&st) != c->mtime_ns ||
        (uint64_t)st.st_size != c->size) {
        archive_close(dataset, sample, fd);
        return dataset_has_changed(err, dataset->root, name);
    }
    return fd;
}

void archive_close(const struct dataset *dataset, const struct index_sample *sample, int fd)
{
    if (atomic_load(&dataset->fds[sample->container]) != fd)
        (void)close(fd);
}

int archive_read(const struct dataset *dataset, const struct index_sample *sample, uint64_t offset,
                 struct dataset_buffer *buffer, struct plenum_error *err)
{
    char path[8192];
    int fd = archive_open(dataset, sample, err), r;

    if (fd < 0)
        return fd;
    r = dataset_buffer_reserve(buffer, sample->len);
    if (r == 0)
        r = io_pread_all(fd, buffer->bytes, sample->len, offset);
    archive_close(dataset, sample, fd);
    if (r == -EBADMSG) /* some file systems' word for a bad checksum; ours for a bad image */
        r = -EIO;
    if (r < 0) {
        (void)archive_path(dataset, sample, path, sizeof(path));
        return error_set(err, r == -ENODATA ? -ESTALE : r, "%s: %s", path,
                         r == -ENODATA ? "the archive has become shorter" : strerror(-r));
    }
    return 0;
}

void archive_announce(const struct dataset *dataset, const struct index_sample *sample)
{
    int fd = archive_open(dataset, sample, NULL);

    if (fd < 0)
        return;
    (void)posix_fadvise(fd, (off_t)sample->where, sample->len, POSIX_FADV_WILLNEED);
    archive_close(dataset, sample, fd);
}
