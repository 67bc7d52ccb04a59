/* SPDX-License-Identifier: MIT */
/* archive.c - the common part of data sets of archives: finds the files, indexes them, and reads by
 * offset.
 *
 * An archive is opened when one of its samples is first read, and stays open, because each open on
 * a network file system is a request to its server. If there are more archives than spare
 * descriptors, the others are opened for each read; a data set keeps at most as many descriptors
 * open as it leaves for other data sets. If another file replaces an archive while it is open, the
 * old one is still read. A change in place is detected, because size and times are compared at
 * every read. If only the ctime has changed, all archives are scanned again, and reading continues
 * if they contain the same samples.
 *
 * Archives of small samples are mapped (mapping.h), and checked for changes once per tick of the
 * kernel's clock, a few milliseconds, which is also the resolution of file times. Archives of large
 * data sets are not mapped, because their page tables would be large. Those with large samples are
 * not mapped either, because a fault per page costs more than pread(). */
#include "config.h"

#include "loader/dataset/archive.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/data/dataname.h"
#include "common/data/stand_in.h"
#include "common/data/text_mode.h"
#include "common/util/error_set.h"
#include "common/util/lock.h"
#include "common/util/parallel.h"
#include "common/util/util.h"
#include "loader/dataset/mapping.h"
#include "loader/dataset/remote.h"

/* In mapped archives: maximum bytes of the mean sample, and of a sample that is copied. */
enum { MAPPED_SAMPLE = 16 << 10 };
enum { EXPLAINED = 8 << 20 }; /* bytes of a damaged archive that are examined */
/* Maximum bytes of all archives of a data set that is mapped: 32 MiB of page tables. */
#define MAPPED_DATASET (UINT64_C(16) << 30)

struct kept_archive {
    atomic_int fd;                    /* -1: not open */
    atomic_uint_fast64_t compared_ns; /* the tick in which it was last found unchanged, or 0 */
    atomic_uint_fast64_t ctime_ns;    /* its ctime when it was last scanned again; 0: never */
    _Atomic(const uint8_t *) mapping; /* a mapping of the indexed size, or NULL */
};

struct archive_fds {
    struct lock mu; /* held while archives are scanned again */
    atomic_uint kept;
    atomic_int small;         /* the result of is_small(): 1 or -1; 0: not known yet */
    struct kept_archive of[]; /* one per archive */
};

/* Parse the setting part=i/k into a range [begin, end) of `count` files. */
static int parse_part(const struct dataset *d, uint32_t count, uint32_t *begin, uint32_t *end,
                      struct plenum_error *err)
{
    const char *text = dataset_setting(d, "part", NULL);
    uint64_t part, parts;
    const char *at;

    *begin = 0;
    *end = count;
    if (!text)
        return 0;
    at = text;
    if (parse_next_u64(&at, UINT32_MAX, &part) < 0 || *at++ != '/' ||
        parse_u64(at, UINT32_MAX, &parts) < 0 || part >= parts)
        return error_set(err, -EINVAL, "part=%s must be i/k with i below k", text);
    if (parts > count)
        return error_set(err, -EINVAL,
                         "%s:%s has %u files, which cannot be split into %lu parts: use more files "
                         "or split = sample",
                         d->format->name, d->where, count, (unsigned long)parts);
    *begin = (uint32_t)((uint64_t)count * part / parts);
    *end = (uint32_t)((uint64_t)count * (part + 1) / parts);
    return 0;
}

static void keep_range(struct pattern_list *list, uint32_t begin, uint32_t end)
{
    assert(begin < end && end <= list->count);
    for (size_t i = 0; i < list->count; i++)
        if (i < begin || i >= end)
            free(list->paths[i]);
    memmove(list->paths, list->paths + begin, (end - begin) * sizeof(*list->paths));
    list->count = end - begin;
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* List the files in a folder whose names match the format, as full paths. */
static int list_folder(const struct dataset *d, const char *folder, struct pattern_list *ret,
                       struct plenum_error *err)
{
    struct dirent *entry;
    DIR *dir;
    int r = scope_open_folder(&d->scope, folder, &dir);

    if (r < 0)
        return scope_error(&d->scope, err, r, folder);
    while (errno = 0, entry = readdir(dir)) {
        if (!format_has_name(d->format, entry->d_name))
            continue;
        if (ret->count == PATTERN_PATHS_MAX) {
            r = error_set(err, -E2BIG, "it matches more than %d files", PATTERN_PATHS_MAX);
            goto out;
        }
        if (pattern_list_add(ret, str_format("%s/%s", folder, entry->d_name)) < 0) {
            r = error_set(err, -ENOMEM, "out of memory");
            goto out;
        }
    }
    if (errno) {
        r = scope_error(&d->scope, err, -errno, folder);
        goto out;
    }
    if (ret->count == 0)
        r = error_set(err, -ENOENT, "there is no %s in %s", d->format->patterns[0], folder);
    else
        qsort(ret->paths, ret->count, sizeof(*ret->paths), compare_paths);

out:
    (void)closedir(dir);
    return r;
}

/* Returns the length of the leading folders of a path that contain no pattern, including the
 * slash. */
static size_t plain_folders(const char *path, bool exists)
{
    size_t len = exists ? strlen(path) : strcspn(path, "{*?[");

    while (len > 0 && path[len - 1] != '/')
        len--;
    return len;
}

/* Find the archives in a folder by the pattern or name at d->where + len, and the canonical form of
 * d->where. */
static int find_in_folder(struct dataset *d, size_t len, char **canonical, struct plenum_error *err)
{
    char *given = len ? strndup(d->where, len) : strdup("."), *folder = NULL;
    int r = given ? scope_resolve(&d->scope, given, &folder) : -ENOMEM;

    if (r < 0) {
        r = scope_error(&d->scope, err, r, given ? given : d->where);
        goto out;
    }
    if (strcmp(folder, "/") == 0)
        *folder = 0;
    *canonical = str_format("%s/%s", folder, d->where + len);
    r = *canonical ? pattern_expand(&d->scope, folder, d->where + len, &d->files, err)
                   : error_set(err, -ENOMEM, "out of memory");

out:
    free(given);
    free(folder);
    return r;
}

/* Find the archives, as full paths, and the canonical form of the pattern. */
static int find_archives(struct dataset *d, struct plenum_error *err)
{
    char *canonical = NULL;
    struct stat st;
    int r = scope_stat(&d->scope, d->where, &st);

    if (r == 0 && S_ISDIR(st.st_mode)) {
        r = scope_resolve(&d->scope, d->where, &canonical);
        r = r < 0 ? scope_error(&d->scope, err, r, d->where)
                  : list_folder(d, canonical, &d->files, err);
    } else if (r < 0 && !pattern_is_magic(d->where)) {
        r = r == -EXDEV ? scope_error(&d->scope, err, r, d->where)
                        : error_set(err, r, "%s", strerror(-r));
    } else {
        r = find_in_folder(d, plain_folders(d->where, r == 0), &canonical, err);
    }
    if (r < 0) {
        free(canonical);
        return r;
    }
    free(d->where);
    d->where = canonical;
    return 0;
}

/* Returns the length of the folder that all paths have in common, without the slash. */
static size_t common_folder(const struct pattern_list *list)
{
    size_t len = (size_t)(strrchr(list->paths[0], '/') - list->paths[0]);

    for (size_t i = 1; i < list->count; i++) {
        const char *path = list->paths[i];

        while (strncmp(path, list->paths[0], len) != 0 || path[len] != '/')
            do
                len--;
            while (list->paths[0][len] != '/');
    }
    return len;
}

/* Reject a file that is named twice: its samples would be shown twice per epoch, probably by
 * mistake. */
static int check_twice(const struct pattern_list *list, struct plenum_error *err)
{
    char **sorted = malloc(list->count * sizeof(*sorted));
    int r = 0;

    if (!sorted)
        return error_set(err, -ENOMEM, "out of memory");
    memcpy(sorted, list->paths, list->count * sizeof(*sorted));
    qsort(sorted, list->count, sizeof(*sorted), compare_paths);
    for (size_t i = 1; i < list->count; i++)
        if (strcmp(sorted[i - 1], sorted[i]) == 0) {
            r = error_set(err, -EINVAL, "%s is given twice", sorted[i]);
            break;
        }
    free(sorted);
    return r;
}

static int keep_descriptors(struct dataset *d, size_t len, struct plenum_error *err)
{
    d->fds = calloc(1, sizeof(*d->fds) + d->files.count * sizeof(d->fds->of[0]));
    if (!d->fds)
        return error_set(err, -ENOMEM, "out of memory");
    lock_init(&d->fds->mu);
    for (size_t i = 0; i < d->files.count; i++) {
        char *path = d->files.paths[i];

        memmove(path, path + len + 1, strlen(path + len + 1) + 1);
        atomic_init(&d->fds->of[i].fd, -1);
        atomic_init(&d->fds->of[i].compared_ns, 0);
        atomic_init(&d->fds->of[i].ctime_ns, 0);
        atomic_init(&d->fds->of[i].mapping, NULL);
    }
    return 0;
}

/* Make the paths relative to their common folder, which becomes the scope's folder. */
static int enter_common_folder(struct dataset *d, struct plenum_error *err)
{
    size_t len = common_folder(&d->files);
    char *folder = len ? strndup(d->files.paths[0], len) : strdup("/");
    int r = -ENOMEM;

    if (!folder)
        (void)error_set(err, r, "out of memory");
    else if (d->remote)
        r = remote_enter(d, folder, err);
    else
        r = dataset_enter(d, folder, err);
    free(folder);
    return r < 0 || d->remote ? r : keep_descriptors(d, len, err);
}

int archive_find(struct dataset *d, const struct dataset_options *options, struct plenum_error *err)
{
    int r = dataname_is_remote(d->where) ? remote_create(d, options, err) : 0;

    if (r == 0)
        r = d->remote ? remote_find(d, err) : find_archives(d, err);
    return r < 0 ? error_prefix(err, r, "data set '%s:%s'", d->format->name, d->where) : 0;
}

int archive_enter(struct dataset *d, uint32_t *first, struct plenum_error *err)
{
    uint32_t end = 0;
    int r = check_twice(&d->files, err);

    if (r == 0)
        r = parse_part(d, (uint32_t)d->files.count, first, &end, err);
    if (r < 0)
        return error_prefix(err, r, "data set '%s:%s'", d->format->name, d->where);
    keep_range(&d->files, *first, end);
    return enter_common_folder(d, err);
}

int archive_locate(struct dataset *d, const struct dataset_options *options,
                   struct plenum_error *err)
{
    uint32_t first = 0;
    int r = archive_find(d, options, err);

    return r < 0 ? r : archive_enter(d, &first, err);
}

/* The state of scanning all archives of a data set. */
struct archive_scan {
    const struct dataset *dataset;
    const struct dataset_options *options;
    const struct archive_work *work;
    struct archive *archives;
    atomic_uint_fast64_t progress;
    uint64_t total;
    struct index_memory *memory;
};

static int open_archive(struct archive *a, struct stat *st)
{
    char head[STAND_IN_HEAD];
    int64_t n;
    int fd = scope_open(&a->dataset->scope, a->name, 0);

    if (fd < 0)
        return scope_error(&a->dataset->scope, &a->err, fd, a->name);
    a->source = source_of_file(fd);
    if (fstat(fd, st) < 0)
        return error_set(&a->err, -errno, "%s: %s", a->path, strerror(errno));
    if (!S_ISREG(st->st_mode))
        return error_set(&a->err, -EINVAL, "%s: it is not a file", a->path);
    a->size = (uint64_t)st->st_size;
    n = io_pread_some(fd, head, sizeof(head), 0);
    if (n > 0 && stand_in_refuse(head, (size_t)n, -EBADMSG, &a->err) < 0)
        return error_prefix(&a->err, -EBADMSG, "%s", a->path);
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    return 0;
}

/* Explain why an archive is damaged, if it was copied in text mode. */
static int explain_damage(struct archive *a)
{
    size_t len = (size_t)min_u64(a->size, EXPLAINED);
    uint8_t *bytes = malloc(len + 1);
    const char *change = NULL;
    struct plenum_error why = a->err;

    if (!bytes || source_read(&a->source, bytes, len, 0, NULL) < 0)
        goto out;
    change = text_mode_archive_change(bytes, len);
    if (change)
        (void)error_set(&a->err, -EBADMSG, "%s: it was copied in text mode (%s): copy it again",
                        a->path, change);
    else if (text_mode_archive_removed(bytes, len))
        (void)error_set(&a->err, -EBADMSG,
                        "%s; the file was probably copied in text mode (each CR LF became LF): "
                        "copy it again",
                        why.text);

out:
    free(bytes);
    return -EBADMSG;
}

/* Scan an object. Its version is compared at each read. */
static int scan_object(struct archive_scan *s, struct archive *a)
{
    const struct object_facts *facts;
    struct stamp stamp;
    int r;

    a->source = (struct source){
        .fd = -1, .object = remote_object(a->dataset, a->number), .sample = STORE_NO_SAMPLE};
    facts = store_get_facts(a->source.object);
    stamp = remote_stamp(facts);
    a->size = facts->size;
    if (index_builder_add_container(&a->builder, a->name, &stamp) < 0)
        return error_set(&a->err, -ENOMEM, "out of memory");
    r = s->work->scan(a);
    return r == -EBADMSG ? explain_damage(a) : r;
}

static int scan_open_archive(struct archive_scan *s, struct archive *a)
{
    struct stat before, after;
    enum stamp_match match;
    struct stamp stamp;
    int r = open_archive(a, &before);

    if (r < 0)
        return r;
    stamp = stamp_of(a->source.fd, &before);
    if (index_builder_add_container(&a->builder, a->name, &stamp) < 0)
        return error_set(&a->err, -ENOMEM, "out of memory");
    r = s->work->scan(a);
    if (r < 0)
        return r == -EBADMSG ? explain_damage(a) : r;
    match = fstat(a->source.fd, &after) < 0 ? STAMP_DIFFERS : stamp_compare(&stamp, &after);
    if (match == STAMP_DIFFERS)
        return error_set(&a->err, -ESTALE,
                         "%s changed while it was read: open the data set again "
                         "when it is complete",
                         a->path);
    if (match == STAMP_MAYBE) /* not settled: the next dataset_open() scans it again */
        a->builder.containers[0].stamp.flags &= ~(uint64_t)STAMP_SETTLED;
    return 0;
}

static int scan_archive(void *arg, uint64_t index, unsigned thread)
{
    struct archive_scan *s = arg;
    struct archive *a = &s->archives[index];
    int r = s->dataset->remote ? scan_object(s, a) : scan_open_archive(s, a);

    (void)thread;
    io_close(&a->source.fd);
    return r;
}

static void tell_progress(void *arg, uint64_t done, uint64_t total)
{
    struct archive_scan *s = arg;

    (void)done;
    (void)total;
    s->options->progress(s->options->progress_arg, "bytes of archives",
                         min_u64(atomic_load(&s->progress), s->total), s->total);
}

static int scan_init(struct archive_scan *s, struct plenum_error *err)
{
    const struct dataset *d = s->dataset;
    const char *folder = d->scope.folder;
    struct stat st;

    if (index_memory_charge(s->memory, d->files.count * sizeof(*s->archives)) == 0)
        s->archives = calloc(d->files.count, sizeof(*s->archives));
    if (!s->archives)
        return error_set(err, -ENOMEM, "out of memory");
    for (size_t i = 0; i < d->files.count; i++) {
        s->archives[i] = (struct archive){.arg = s->work->arg,
                                          .builder = {.memory = s->memory, .rule = &d->labels},
                                          .number = i,
                                          .dataset = d,
                                          .options = s->options,
                                          .name = d->files.paths[i],
                                          .path = str_format("%s/%s", folder, d->files.paths[i]),
                                          .source = {.fd = -1},
                                          .progress = &s->progress};
        if (!s->archives[i].path || /* it is also in the list */
            index_memory_charge(s->memory, 2 * (strlen(s->archives[i].path) + 1)) < 0)
            return error_set(err, -ENOMEM, "out of memory");
        if (d->remote)
            s->total += store_get_facts(remote_object(d, i))->size;
        else if (scope_stat(&d->scope, d->files.paths[i], &st) == 0)
            s->total += (uint64_t)st.st_size;
    }
    return 0;
}

/* Copy the error of the first archive that failed. */
static void first_error(const struct archive_scan *s, int code, struct plenum_error *err)
{
    for (size_t i = 0; i < s->dataset->files.count; i++)
        if (s->archives[i].err.text[0]) {
            (void)error_set(err, code, "%s", s->archives[i].err.text);
            return;
        }
}

unsigned archive_threads(const struct dataset *dataset, const struct dataset_options *options)
{
    return dataset->remote ? REMOTE_THREADS : options->threads;
}

int archive_prefix(struct archive *a, int code)
{
    if (str_after(a->err.text, a->path))
        return code;
    return error_prefix(&a->err, code, "%s", a->path);
}

bool archive_has_labels(const struct dataset *d)
{
    const char *label = dataset_setting(d, "label", dataset_has_images(d) ? "" : "none");

    return strcmp(label, "none") != 0;
}

int archive_append(struct archive *archives, size_t count, struct index_builder *b,
                   struct plenum_error *err)
{
    for (size_t i = 0; i < count; i++) {
        int r = index_builder_append(b, &archives[i].builder);

        index_builder_fini(&archives[i].builder);
        if (r < 0)
            return error_set(err, r, "%s: %s", archives[i].path,
                             r == -EOVERFLOW ? "more samples than an index can hold"
                                             : "out of memory");
    }
    return 0;
}

int archive_scan(const struct dataset *dataset, const struct dataset_options *options,
                 const struct archive_work *work, struct index_builder *b, struct plenum_error *err)
{
    struct archive_scan s = {
        .dataset = dataset, .options = options, .work = work, .memory = b->memory};
    struct parallel loop = {.count = dataset->files.count,
                            .threads = archive_threads(dataset, options),
                            .turn = scan_archive,
                            .progress = options->progress ? tell_progress : NULL,
                            .cancel = options->cancel,
                            .arg = &s};
    int r = scan_init(&s, err);

    if (r < 0)
        goto out;
    r = parallel_run(&loop);
    if (r < 0) {
        first_error(&s, r, err);
        goto out;
    }
    r = work->merge(s.archives, dataset->files.count, b, err);

out:
    for (size_t i = 0; s.archives && i < dataset->files.count; i++) {
        index_builder_fini(&s.archives[i].builder);
        free(s.archives[i].path);
    }
    free(s.archives);
    return r;
}

static bool container_holds(const struct dataset *dataset, uint32_t i, const char *name)
{
    const struct stamp *stamp = &dataset->index.containers[i].stamp;

    if (!dataset->remote)
        return stamp_holds(&dataset->scope, name, stamp);
    if (i >= dataset->files.count)
        return remote_holds(dataset, name, stamp);
    return remote_stamp_is(stamp, store_get_facts(remote_object(dataset, i)));
}

bool archive_fresh(const struct dataset *dataset)
{
    const struct index *index = &dataset->index;

    if (index->header->containers < dataset->files.count)
        return false;
    for (uint32_t i = 0; i < index->header->containers; i++) {
        const struct index_container *c = &index->containers[i];
        const char *name = index_name(index, c->name);

        if ((i < dataset->files.count && strcmp(name, dataset->files.paths[i]) != 0) ||
            !container_holds(dataset, i, name))
            return false;
    }
    return true;
}

uint64_t archive_number(const struct dataset *d, const struct index_sample *sample)
{
    const struct index_sample *all = d->index.samples;
    size_t low = 0, high = (size_t)(sample - all);

    assert(sample >= all && sample < all + d->index.header->samples);
    while (low < high) { /* find the first sample of the archive */
        size_t middle = low + (high - low) / 2;

        if (all[middle].container < sample->container)
            low = middle + 1;
        else
            high = middle;
    }
    return (uint64_t)(sample - all) - low;
}

size_t archive_path(const struct dataset *dataset, const struct index_sample *sample, char *ret,
                    size_t size)
{
    const struct index *index = &dataset->index;
    int n = snprintf(ret, size, "%s/%s", dataset->scope.folder,
                     index_name(index, index->containers[sample->container].name));

    return n < 0 ? 0 : min_u64((uint64_t)n, size - 1);
}

/* Descriptors kept open by all data sets. */
static atomic_uint kept_by_all;

static void unreserve(const struct dataset *dataset)
{
    (void)atomic_fetch_sub(&dataset->fds->kept, 1);
    (void)atomic_fetch_sub(&kept_by_all, 1);
}

/* Count the descriptor, and return true, if the data set may keep it open. A quarter of all
 * descriptors is reserved for clients and other uses, and each data set leaves as many descriptors
 * to others as it keeps. */
static bool reserve(const struct dataset *dataset, int fd)
{
    struct rlimit limit = {0};
    rlim_t own = atomic_fetch_add(&dataset->fds->kept, 1) + 1;
    rlim_t all = atomic_fetch_add(&kept_by_all, 1) + 1;

    (void)getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_cur / 4 * 3;
    if ((rlim_t)fd < limit.rlim_cur && own + all <= limit.rlim_cur)
        return true;
    unreserve(dataset);
    return false;
}

/* Keep the descriptor for its archive, if allowed. Returns the one to use, which may be another
 * thread's. */
static int keep(const struct dataset *dataset, atomic_int *at, int fd)
{
    int none = -1;

    if (!reserve(dataset, fd))
        return fd;
    if (!atomic_compare_exchange_strong(at, &none, fd)) {
        unreserve(dataset);
        (void)close(fd); /* another thread was faster */
        return none;
    }
    return fd;
}

void archive_forget(struct dataset *dataset)
{
    for (size_t i = 0; dataset->fds && i < dataset->files.count; i++) {
        struct kept_archive *a = &dataset->fds->of[i];

        if (a->fd < 0)
            continue;
        (void)close(a->fd);
        (void)atomic_fetch_sub(&kept_by_all, 1);
        if (a->mapping)
            mapping_close(a->mapping, dataset->index.containers[i].stamp.size);
    }
    if (dataset->fds)
        lock_fini(&dataset->fds->mu);
    free(dataset->fds);
    dataset->fds = NULL;
}

static uint64_t tick_now(void)
{
    return time_clock_ns(CLOCK_MONOTONIC_COARSE);
}

/* Returns whether the archives should be mapped: they and their samples are small. Computed once,
 * because a data set may have very many archives. */
static bool is_small(const struct dataset *dataset)
{
    const struct index_header *h = dataset->index.header;
    int known = atomic_load(&dataset->fds->small);
    uint64_t sum = 0;

    if (known != 0)
        return known > 0;
    for (size_t i = 0; i < dataset->files.count; i++)
        sum += dataset->index.containers[i].stamp.size;
    known = sum <= MAPPED_DATASET && h->bytes <= (uint64_t)h->samples * MAPPED_SAMPLE ? 1 : -1;
    atomic_store(&dataset->fds->small, known);
    return known > 0;
}

/* Map an archive that was just opened and is kept open. */
static void map(struct kept_archive *a, int fd, uint64_t size)
{
    const uint8_t *mapping = mapping_open(fd, size), *none = NULL;

    if (!atomic_compare_exchange_strong(&a->mapping, &none, mapping))
        mapping_close(mapping, size); /* another thread was faster */
}

/* Compare an archive with its indexed stamp, or, if it was scanned again, with its ctime at that
 * time. */
static enum stamp_match compare_archive(const struct dataset *dataset, uint32_t archive,
                                        const struct stat *st)
{
    struct stamp stamp = dataset->index.containers[archive].stamp;
    uint64_t ctime_ns = atomic_load(&dataset->fds->of[archive].ctime_ns);

    if (ctime_ns != 0) {
        stamp.ctime_ns = ctime_ns;
        stamp.flags |= STAMP_NO_INODE;
    }
    return stamp_compare(&stamp, st);
}

/* Scan all archives again. Returns whether they still contain the indexed samples and their
 * fields. */
static bool scan_again(const struct dataset *dataset)
{
    struct index_builder b = {0};
    struct index again = {0};
    bool alike =
        dataset->format->scan(dataset, &(struct dataset_options){.again = true}, &b, NULL) == 0 &&
        index_build(&b, 0, &again) == 0 && index_is_alike(&again, &dataset->index) &&
        fields_hold(dataset);

    for (size_t i = 0; alike && i < dataset->files.count; i++) {
        const struct stamp *stamp = &again.containers[i].stamp;

        alike = stamp->mtime_ns == dataset->index.containers[i].stamp.mtime_ns;
        if (alike && (stamp->flags & STAMP_SETTLED)) /* otherwise the next read scans it again */
            atomic_store(&dataset->fds->of[i].ctime_ns, stamp->ctime_ns);
    }
    index_builder_fini(&b);
    index_close(&again);
    return alike;
}

/* Returns whether an open archive is unchanged since it was indexed. If only its ctime differs, it
 * may have been written and its mtime set back; or its mode was changed, or a hard link to it was
 * created, for example by a backup. */
static bool is_as_indexed(const struct dataset *dataset, uint32_t archive, const struct stat *st)
{
    enum stamp_match match = compare_archive(dataset, archive, st);
    bool same = match == STAMP_SAME;

    if (match == STAMP_MAYBE && st->st_nlink == 0)
        return true; /* it was unlinked, and can no longer be opened for writing */
    if (match == STAMP_MAYBE) {
        lock_acquire(&dataset->fds->mu);
        same = compare_archive(dataset, archive, st) == STAMP_SAME || scan_again(dataset);
        lock_release(&dataset->fds->mu);
    }
    return same;
}

static void close_file(const struct dataset *dataset, const struct index_sample *sample, int fd)
{
    if (atomic_load(&dataset->fds->of[sample->container].fd) != fd)
        (void)close(fd);
}

/* Open an archive that is a file. Returns its descriptor. */
static int open_file(const struct dataset *dataset, const struct index_sample *sample,
                     struct plenum_error *err)
{
    const struct index_container *c = &dataset->index.containers[sample->container];
    const char *name = index_name(&dataset->index, c->name);
    struct kept_archive *kept;
    uint64_t tick = tick_now();
    struct stat st;
    bool opened;
    int fd;

    kept = &dataset->fds->of[sample->container];
    fd = atomic_load(&kept->fd);
    opened = fd < 0;
    if (opened) {
        fd = scope_open(&dataset->scope, name, 0);
        if (fd < 0)
            return scope_error(&dataset->scope, err, fd, name);
        fd = keep(dataset, &kept->fd, fd);
    }
    if (fstat(fd, &st) < 0 || !is_as_indexed(dataset, sample->container, &st)) {
        close_file(dataset, sample, fd);
        return dataset_has_changed(dataset, name, err);
    }
    atomic_store(&kept->compared_ns, tick);
    if (opened && atomic_load(&kept->fd) == fd && is_small(dataset))
        map(kept, fd, c->stamp.size);
    return fd;
}

/* Returns the number of a sample, or STORE_NO_SAMPLE if it is not one of the index. */
static uint32_t number_of(const struct dataset *dataset, const struct index_sample *sample)
{
    uintptr_t at = (uintptr_t)sample - (uintptr_t)dataset->index.samples;

    return dataset->index.header && at / sizeof(*sample) < dataset->index.header->samples
               ? (uint32_t)(at / sizeof(*sample))
               : STORE_NO_SAMPLE;
}

int archive_open(const struct dataset *dataset, const struct index_sample *sample,
                 struct source *ret, struct plenum_error *err)
{
    int fd;

    if (sample->container >= dataset->files.count) /* the index is damaged */
        return dataset_has_changed(
            dataset, index_name(&dataset->index, dataset->index.containers[sample->container].name),
            err);
    if (dataset->remote) {
        *ret = (struct source){.fd = -1,
                               .object = remote_object(dataset, sample->container),
                               .sample = number_of(dataset, sample)};
        return 0;
    }
    fd = open_file(dataset, sample, err);
    if (fd < 0)
        return fd;
    *ret = source_of_file(fd);
    return 0;
}

void archive_close(const struct dataset *dataset, const struct index_sample *sample,
                   const struct source *source)
{
    if (!source->object)
        close_file(dataset, sample, source->fd);
}

int archive_read_failed(const struct dataset *dataset, const struct index_sample *sample, int code,
                        const char *shorter, struct plenum_error *err)
{
    char path[8192];

    if (dataset->remote)
        return code;
    (void)archive_path(dataset, sample, path, sizeof(path));
    return error_set(err, code == -ENODATA ? -ESTALE : code, "%s: %s", path,
                     code == -ENODATA ? shorter : strerror(-code));
}

int archive_prefix_read(const struct dataset *dataset, const struct index_sample *sample, int code,
                        struct plenum_error *err)
{
    char path[8192];

    (void)archive_path(dataset, sample, path, sizeof(path));
    if (err && str_after(err->text, path))
        return code;
    return error_prefix(err, code, "%s", path);
}

/* Copy a mapped sample into a buffer with room for it. Returns 0, or a negative value if the caller
 * has to use pread(). */
static int copy_mapped(const struct dataset *dataset, const struct index_sample *sample,
                       uint64_t offset, uint32_t len, uint8_t *dst)
{
    const uint8_t *mapping = atomic_load(&dataset->fds->of[sample->container].mapping);
    uint64_t size = dataset->index.containers[sample->container].stamp.size;

    if (!mapping || len > MAPPED_SAMPLE || offset > size || len > size - offset)
        return -ENODATA;
    return mapping_copy(dst, mapping + offset, len);
}

static int read_open(const struct dataset *dataset, const struct index_sample *sample,
                     uint64_t offset, uint32_t len, uint8_t *dst, struct plenum_error *err)
{
    struct source source;
    int r = archive_open(dataset, sample, &source, err);

    if (r < 0)
        return r;
    r = source.object ? -ENODATA : copy_mapped(dataset, sample, offset, len, dst);
    if (r < 0)
        r = source_read(&source, dst, len, offset, err);
    archive_close(dataset, sample, &source);
    /* Some file systems return -EBADMSG for a bad checksum; to callers, it means a bad image. */
    if (r == -EBADMSG)
        r = -EIO;
    return r < 0 ? archive_read_failed(dataset, sample, r, "the archive has become shorter", err)
                 : 0;
}

int archive_read_range(const struct dataset *dataset, const struct index_sample *sample,
                       uint64_t offset, uint32_t len, struct dataset_buffer *buffer,
                       struct plenum_error *err)
{
    bool known = !dataset->remote && sample->container < dataset->files.count &&
                 atomic_load(&dataset->fds->of[sample->container].compared_ns) == tick_now();

    if (dataset_buffer_reserve(buffer, len) < 0)
        return error_set(err, -ENOMEM, "out of memory for a sample of %u bytes", len);
    if (known && copy_mapped(dataset, sample, offset, len, buffer->bytes) == 0)
        return 0;
    return read_open(dataset, sample, offset, len, buffer->bytes, err);
}

int archive_read(const struct dataset *dataset, const struct index_sample *sample, uint64_t offset,
                 struct dataset_buffer *buffer, struct plenum_error *err)
{
    return archive_read_range(dataset, sample, offset, sample->len, buffer, err);
}

void archive_announce_range(const struct dataset *dataset, const struct index_sample *sample,
                            uint64_t offset, uint64_t len)
{
    struct source source = {.fd = -1};

    if (archive_open(dataset, sample, &source, NULL) < 0)
        return;
    if (source.object)
        store_announce(source.object, offset, len);
    else
        (void)posix_fadvise(source.fd, (off_t)offset, (off_t)len, POSIX_FADV_WILLNEED);
    archive_close(dataset, sample, &source);
}

void archive_announce(const struct dataset *dataset, const struct index_sample *sample)
{
    archive_announce_range(dataset, sample, sample->where, sample->len);
}
