/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/dataset/annotated.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/util/error_set.h"
#include "common/util/parallel.h"
#include "common/util/util.h"

enum { PICTURES_A_TURN = 1024 };

int annotated_add(struct annotated_pictures *p, char *path)
{
    int r = path ? index_memory_charge(p->memory, strlen(path) + 17) : -ENOMEM;

    if (r == 0)
        r = index_memory_grow(p->memory, &p->all, &p->cap, p->count, sizeof(*p->all));
    if (r < 0)
        free(path);
    else
        p->all[p->count++] = (struct annotated_picture){.path = path};
    return r;
}

void annotated_fini(struct annotated_pictures *p)
{
    for (size_t i = 0; i < p->count; i++)
        free(p->all[i].path);
    free(p->all);
    *p = (struct annotated_pictures){.memory = p->memory};
}

static int by_path(const void *a, const void *b)
{
    const struct annotated_picture *x = a, *y = b;

    return strcmp(x->path, y->path);
}

void annotated_sort(struct annotated_pictures *p)
{
    if (p->count > 1)
        qsort(p->all, p->count, sizeof(*p->all), by_path);
}

/* ---- the files ---- */

struct annotated_scan {
    const struct dataset *dataset;
    const struct dataset_options *options;
    struct annotated_pictures *pictures;
};

static int look_at_some(void *arg, uint64_t turn, unsigned thread)
{
    struct annotated_scan *s = arg;
    size_t end = min_u64((turn + 1) * PICTURES_A_TURN, s->pictures->count);
    struct stat st;

    (void)thread;
    for (size_t i = turn * PICTURES_A_TURN; i < end; i++) {
        struct annotated_picture *p = &s->pictures->all[i];

        p->code = scope_stat(&s->dataset->scope, p->path, &st);
        if (p->code == 0 && !S_ISREG(st.st_mode))
            p->code = -EINVAL;
        if (p->code < 0)
            continue;
        p->size = (uint64_t)st.st_size;
        p->mtime_ns = dataset_mtime(&st);
    }
    return 0;
}

static void tell_progress(void *arg, uint64_t done, uint64_t total)
{
    struct annotated_scan *s = arg;

    (void)total;
    s->options->progress(s->options->progress_arg, "pictures",
                         min_u64(done * PICTURES_A_TURN, s->pictures->count), s->pictures->count);
}

/* Set the error for the first unusable picture. */
static int refuse(const struct dataset *d, const struct annotated_pictures *p, size_t first,
                  struct plenum_error *err)
{
    const struct annotated_picture *picture = &p->all[first];
    size_t others = 0;
    int r;

    for (size_t i = first + 1; i < p->count; i++)
        others += p->all[i].code < 0;
    if (picture->code == -EINVAL)
        r = error_set(err, -EBADMSG, "'%.400s' is not a file", picture->path);
    else
        r = scope_error(&d->scope, err, picture->code, picture->path);
    if (others > 0)
        r = error_prefix(err, r, "%zu of %zu pictures cannot be found or used, the first",
                         others + 1, p->count);
    return r;
}

int annotated_look(const struct dataset *d, const struct dataset_options *options,
                   struct annotated_pictures *p, struct plenum_error *err)
{
    struct annotated_scan s = {.dataset = d, .options = options, .pictures = p};
    struct parallel loop = {.count = (p->count + PICTURES_A_TURN - 1) / PICTURES_A_TURN,
                            .threads = options->threads,
                            .turn = look_at_some,
                            .progress = options->progress ? tell_progress : NULL,
                            .cancel = options->cancel,
                            .arg = &s};
    int r = parallel_run(&loop);

    for (size_t i = 0; i < p->count && r == 0; i++)
        if (p->all[i].code < 0)
            return refuse(d, p, i, err);
    return r;
}

char *annotated_folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    assert(slash);
    return strndup(path, slash > path ? (size_t)(slash - path) : 1);
}

/* ---- samples ---- */

int annotated_add_sample(const struct annotated_picture *picture, const char *note,
                         struct index_builder *b, struct plenum_error *err)
{
    struct index_sample sample = {.where = picture->mtime_ns,
                                  .len = (uint32_t)min_u64(picture->size, UINT32_MAX),
                                  .extra = (uint32_t)XXH3_64bits(note, strlen(note))};
    int64_t r;

    assert(picture->path[0]); /* otherwise the name might be that of another sample */
    r = index_builder_add_sample(b, &sample, picture->path);
    if (r >= 0)
        r = index_builder_add_name(b, note, strlen(note));
    if (r < 0)
        return error_set(err, (int)r, "%s",
                         r == -EOVERFLOW ? "more samples than an index can hold" : "out of memory");
    return 0;
}

const char *annotated_note(const struct dataset *d, const struct index_sample *sample)
{
    const char *name = index_name(&d->index, sample->name);

    return name + strlen(name) + 1;
}

void annotated_file(const struct dataset *d, const struct index_sample *sample, char *ret,
                    size_t size)
{
    (void)snprintf(ret, size, "%s", index_name(&d->index, sample->name));
}

void annotated_describe(const struct dataset *d, const struct index_sample *sample, char *ret,
                        size_t size)
{
    (void)scope_name(&d->scope, index_name(&d->index, sample->name), ret, size);
}

/* ---- files beside pictures ---- */

enum {
    BESIDE_MAX = 16 << 20, /* bytes of a file of annotations of one picture */
    TEXT_MAX = 256 << 20,  /* bytes of a list */
};

int annotated_read_text(const struct dataset *d, const char *path, char **ret, struct stamp *stamp,
                        struct plenum_error *err)
{
    int fd = scope_open(&d->scope, path, 0), r = 0;
    struct stat st;

    if (fd < 0)
        return scope_error(&d->scope, err, fd, path);
    if (fstat(fd, &st) < 0)
        r = -errno;
    else if (!S_ISREG(st.st_mode))
        r = -EINVAL;
    else
        r = st.st_size > TEXT_MAX ? -EFBIG : stamp_read(fd, &st, ret, stamp);
    (void)close(fd);
    return r < 0 ? scope_error(&d->scope, err, r == -ENODATA ? -ESTALE : r, path) : 0;
}

/* Check why a path does not exist: a symbolic link on the way may lead nowhere. */
static int check_links(const struct dataset *d, const char *path, struct plenum_error *err)
{
    char part[DATASET_PATH_MAX];
    struct stat st;

    for (const char *end = path; *end;) {
        end += strspn(end, "/");
        end += strcspn(end, "/");
        if ((size_t)(end - path) >= sizeof(part))
            return 0;
        (void)snprintf(part, sizeof(part), "%.*s", (int)(end - path), path);
        if (scope_stat(&d->scope, part, &st) == 0)
            continue;
        return scope_is_link(&d->scope, part)
                   ? error_set(err, -EBADMSG, "%.400s: the symbolic link leads nowhere", part)
                   : 0;
    }
    return 0;
}

int annotated_stamp_folder(const struct dataset *d, const char *path, struct stamp *ret,
                           struct plenum_error *err)
{
    struct dirent *entry;
    struct stat st;
    DIR *dir;
    int r = scope_open_folder(&d->scope, path, &dir);

    *ret = stamp_absent();
    if (r < 0)
        return r == -ENOENT ? check_links(d, path, err) : scope_error(&d->scope, err, r, path);
    if (fstat(dirfd(dir), &st) == 0) {
        *ret = stamp_of(dirfd(dir), &st);
        while (errno = 0, entry = readdir(dir))
            ret->content += stamp_hash_entry(dirfd(dir), entry);
    }
    r = errno ? scope_error(&d->scope, err, -errno, path) : 0;
    (void)closedir(dir);
    return r;
}

/* Set the facts of a file without its hash. */
static int find_file(const struct dataset *d, const char *path, struct annotated_beside *ret,
                     struct plenum_error *err)
{
    struct stat st;
    int r = scope_stat(&d->scope, path, &st);

    *ret = (struct annotated_beside){.exists = r == 0};
    if (r == -ENOENT || r == -ENOTDIR)
        return check_links(d, path, err);
    if (r == 0 && !S_ISREG(st.st_mode))
        return error_set(err, -EBADMSG, "'%.400s' is not a file", path);
    if (r < 0)
        return scope_error(&d->scope, err, r, path);
    ret->size = (uint64_t)st.st_size;
    return 0;
}

int annotated_load(const struct dataset *d, const char *path, struct annotated_beside *facts,
                   char **ret, struct plenum_error *err)
{
    int fd, r = find_file(d, path, facts, err);

    *ret = NULL;
    if (r < 0 || !facts->exists || facts->size > BESIDE_MAX)
        return r;
    fd = scope_open(&d->scope, path, 0);
    if (fd < 0)
        return scope_error(&d->scope, err, fd, path);
    *ret = malloc(facts->size + 1);
    r = *ret ? io_pread_all(fd, *ret, facts->size, 0) : -ENOMEM;
    (void)close(fd);
    if (r == 0) {
        (*ret)[facts->size] = '\0';
        facts->hash = XXH3_64bits(*ret, facts->size);
        return 0;
    }
    free(*ret);
    *ret = NULL;
    return r == -ENODATA ? dataset_has_changed(d, path, err)
                         : scope_error(&d->scope, err, r == -EBADMSG ? -EIO : r, path);
}

int annotated_read(const struct dataset *d, const char *path, const struct annotated_beside *was,
                   char **ret, struct plenum_error *err)
{
    struct annotated_beside now;
    int r = annotated_load(d, path, &now, ret, err);

    if (r < 0)
        return r;
    if (now.exists == was->exists && now.size == was->size && now.hash == was->hash)
        return now.exists && !*ret ? error_set(err, -EBADMSG, "%.400s has more than 16 MiB", path)
                                   : 0;
    free(*ret);
    *ret = NULL;
    return dataset_has_changed(d, path, err);
}

void annotated_put_facts(const struct annotated_beside *facts, char *ret, size_t size)
{
    (void)snprintf(ret, size, "%" PRId64 " %" PRIu64, facts->exists ? (int64_t)facts->size : -1,
                   facts->hash);
}

struct annotated_beside annotated_get_facts(const char **at)
{
    struct annotated_beside ret = {.exists = **at != '-'};
    char *end;

    ret.size = ret.exists ? strtoull(*at, NULL, 10) : 0;
    *at = strchr(*at, ' ');
    assert(*at);
    ret.hash = strtoull(*at, &end, 10);
    *at = end;
    return ret;
}

char *annotated_next_line(char **rest)
{
    char *line = strsep(rest, "\n");

    if (!line)
        return NULL;
    line += strspn(line, " \t");
    for (size_t n = strlen(line); n > 0 && strchr(" \t\r", line[n - 1]); n--)
        line[n - 1] = '\0';
    return line;
}

bool annotated_is_fresh(const struct dataset *d, const char *first)
{
    for (uint32_t i = 0; i < d->index.header->containers; i++) {
        const struct index_container *c = &d->index.containers[i];

        if (!stamp_holds(&d->scope, i == 0 && first ? first : index_name(&d->index, c->name),
                         &c->stamp))
            return false;
    }
    return d->index.header->containers > 0;
}

/* ---- classes ---- */

/* Let ids be class numbers. */
static int number_by_ids(const struct annotated_categories *c, int32_t *ret,
                         struct plenum_error *err)
{
    int64_t first = c->ids ? c->ids[0] : 0;
    int64_t last = c->ids ? c->ids[c->count - 1] : (int64_t)c->count - 1;

    if (last >= CLASS_LIST_MAX || first < 0)
        return error_set(err, -EBADMSG,
                         "with classes=numbers, ids of categories must be 0 to %d, not %lld",
                         CLASS_LIST_MAX - 1, (long long)(last >= CLASS_LIST_MAX ? last : first));
    for (uint32_t i = 0; i < c->count; i++)
        ret[i] = c->ids ? (int32_t)c->ids[i] : (int32_t)i;
    return 0;
}

int annotated_number_classes(const struct dataset *d, const struct annotated_categories *categories,
                             int32_t *ret, struct plenum_error *err)
{
    struct label label;

    if (categories->count > 0 && d->classes && d->classes->numbers)
        return number_by_ids(categories, ret, err);
    for (uint32_t i = 0; i < categories->count; i++) {
        const char *name = categories->names[i];
        int r =
            d->classes ? label_read(&d->labels, LABEL_FOLDER, name, strlen(name), &label, err) : 0;

        if (r < 0)
            return r;
        ret[i] = d->classes ? label.class : (int32_t)i;
    }
    return 0;
}

/* Name the classes from 0 to the highest. Those of no category have no name. */
static int name_all(const struct annotated_categories *c, const int32_t *classes,
                    struct index_builder *b)
{
    int32_t count = classes[c->count - 1] + 1; /* the ids, or indices, ascend */
    const char **names = calloc((size_t)count, sizeof(*names));
    int r;

    if (!names)
        return -ENOMEM;
    for (int32_t i = 0; i < count; i++)
        names[i] = "";
    for (uint32_t i = 0; i < c->count; i++)
        names[classes[i]] = c->names[i];
    r = index_builder_name_classes(b, names, (uint32_t)count);
    free(names);
    return r;
}

int annotated_add_classes(const struct dataset *d, const struct annotated_categories *categories,
                          const int32_t *classes, struct index_builder *b, struct plenum_error *err)
{
    int r = 0;

    if (d->classes && !d->classes->numbers) {
        r = index_builder_add_listed(b, 0);
    } else if (categories->count > 0) {
        r = name_all(categories, classes, b);
    } else { /* the labels still need a class */
        b->num_classes = 1;
        b->unnamed = true;
    }
    return r < 0 ? error_set(err, r, "out of memory") : 0;
}
