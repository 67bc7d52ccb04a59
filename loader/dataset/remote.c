/* SPDX-License-Identifier: MIT */
/* remote.c - finds the objects that a data set names.
 *
 * Sizes and ETags come from listings, with a thousand objects per request, rather than from one
 * request per object. Without the right to list, or behind HTTP, each object is requested instead,
 * many at the same time. This happens whenever a data set is opened, which detects changed objects.
 */
#include "config.h"

#include "loader/dataset/remote.h"

#include <assert.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "common/data/dataname.h"
#include "common/util/error_set.h"
#include "common/util/parallel.h"
#include "loader/store/hugging_face.h"
#include "loader/store/store_place.h"

/* A listing may contain four times as many objects as are named, plus this number. */
enum { LISTED_SPARE = 1000 };

struct remote_file {
    char *name; /* canonical name */
    struct object_facts facts;
};

/* The store's facts about objects, which are sorted by name once they are complete. */
struct remote_list {
    struct remote_file *files;
    size_t count, cap;
};

struct remote {
    struct store_policy policy;
    struct remote_list known;
    struct store_object **objects; /* [dataset->files.count] */
    size_t num_objects;
    uint64_t set; /* the set in the cache of samples */
};

/* Replace a name or pattern on the Hugging Face Hub by its URL. */
static int expand_hub(struct dataset *d, struct plenum_error *err)
{
    enum dataname_scheme scheme;
    char *url;
    int r;

    if (!dataname_after_scheme(d->where, &scheme) || scheme != DATANAME_HF)
        return 0;
    r = hugging_face_url(d->where, &url, err);
    if (r < 0)
        return r;
    free(d->where);
    d->where = url;
    return 0;
}

int remote_create(struct dataset *d, const struct dataset_options *options,
                  struct plenum_error *err)
{
    int r;

    d->remote = calloc(1, sizeof(*d->remote));
    if (!d->remote)
        return error_set(err, -ENOMEM, "out of memory");
    r = expand_hub(d, err);
    if (r < 0)
        return r;
    d->remote->set = KEEP_NO_SET;
    d->remote->policy =
        (struct store_policy){.prefixes = (const char *const *)d->scope.roots,
                              .count = d->scope.num_roots,
                              .anything = d->scope.num_roots == 0 && !options->only_files,
                              .cancel = options->cancel};
    return 0;
}

void remote_end_opening(struct dataset *d)
{
    if (d->remote)
        d->remote->policy.cancel = NULL;
}

static void list_fini(struct remote_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->files[i].name);
    free(list->files);
    *list = (struct remote_list){0};
}

void remote_destroy(struct dataset *d)
{
    struct remote *r = d->remote;

    if (!r)
        return;
    store_forget(d);
    for (size_t i = 0; i < r->num_objects; i++)
        store_close(r->objects[i]);
    free(r->objects);
    list_fini(&r->known);
    free(r);
    d->remote = NULL;
}

/* ---- facts ---- */

static int list_add(struct remote_list *list, const char *name, const struct object_facts *facts)
{
    char *copy = strdup(name);

    if (!copy || array_grow(&list->files, &list->cap, list->count, sizeof(*list->files)) < 0) {
        free(copy);
        return -ENOMEM;
    }
    list->files[list->count++] = (struct remote_file){.name = copy, .facts = *facts};
    return 0;
}

static int by_name(const void *a, const void *b)
{
    const struct remote_file *x = a, *y = b;

    return strcmp(x->name, y->name);
}

static void list_sort(struct remote_list *list)
{
    if (list->count > 1)
        qsort(list->files, list->count, sizeof(*list->files), by_name);
}

/* Find an object's facts in a sorted list. Returns NULL if there are none. */
static const struct object_facts *list_find(const struct remote_list *list, const char *name)
{
    const struct remote_file key = {.name = (char *)(uintptr_t)name}, *found = NULL;

    if (list->count > 0)
        found = bsearch(&key, list->files, list->count, sizeof(key), by_name);
    return found ? &found->facts : NULL;
}

static int keep_found(void *arg, const char *name, const struct object_facts *facts)
{
    return list_add(arg, name, facts);
}

/* ---- patterns ---- */

/* A listing whose matches are added to the data set's files. */
struct remote_match {
    struct dataset *dataset;
    const char *pattern;         /* a canonical name with *, ? or [; or NULL */
    const struct format *format; /* without `pattern`: match this format's names */
    size_t folder_len;           /* without `pattern`: length of their folder's name */
    struct pattern_list *ret;
    struct plenum_error *err;
};

static bool matches(const struct remote_match *m, const char *name)
{
    const char *base = name + m->folder_len;

    if (m->pattern)
        return fnmatch(m->pattern, name, FNM_PATHNAME | FNM_PERIOD) == 0;
    return !strchr(base, '/') && format_has_name(m->format, base);
}

static int add_match(void *arg, const char *name, const struct object_facts *facts)
{
    struct remote_match *m = arg;

    if (!matches(m, name))
        return 0;
    if (m->ret->count == PATTERN_PATHS_MAX)
        return error_set(m->err, -E2BIG, "it matches more than %d objects", PATTERN_PATHS_MAX);
    if (list_add(&m->dataset->remote->known, name, facts) < 0 ||
        pattern_list_add(m->ret, strdup(name)) < 0)
        return error_set(m->err, -ENOMEM, "out of memory");
    return 0;
}

/* Add the objects that match a pattern without braces. */
static int add_glob(void *arg, const char *pattern, struct pattern_list *ret,
                    struct plenum_error *err)
{
    struct dataset *d = arg;
    char *prefix = strndup(pattern, strcspn(pattern, "*?["));
    struct remote_match m = {.dataset = d, .pattern = pattern, .ret = ret, .err = err};
    size_t before = ret->count;
    int r = prefix ? store_list(prefix, 0, &d->remote->policy, add_match, &m, err)
                   : error_set(err, -ENOMEM, "out of memory");

    free(prefix);
    if (r == 0 && ret->count == before)
        r = error_set(err, -ENOENT, "no object matches '%s'", pattern);
    return r;
}

/* Add the format's archives directly below the folder `name`. */
static int add_folder(struct dataset *d, const char *name, struct plenum_error *err)
{
    size_t len = strlen(name);
    char *prefix = str_format("%s%s", name, len > 0 && name[len - 1] == '/' ? "" : "/");
    struct remote_match m = {.dataset = d, .format = d->format, .ret = &d->files, .err = err};
    int r;

    if (!prefix)
        return error_set(err, -ENOMEM, "out of memory");
    m.folder_len = strlen(prefix);
    r = store_list(prefix, 0, &d->remote->policy, add_match, &m, err);
    if (r == 0 && d->files.count == 0)
        r = error_set(err, -ENOENT, "there is no object %s, and no %s below %s", name,
                      d->format->patterns[0], prefix);
    free(prefix);
    return r;
}

/* Add one object, or the archives in a folder. */
static int add_plain(struct dataset *d, struct plenum_error *err)
{
    bool is_folder = d->where[strlen(d->where) - 1] == '/' ||
                     (strncmp(d->where, "s3://", 5) == 0 && !strchr(d->where + 5, '/'));
    struct object_facts facts;
    int r;

    if (is_folder)
        return add_folder(d, d->where, err);
    r = store_stat(d->where, &d->remote->policy, &facts, err);
    if (r == -ENOENT && strncmp(d->where, "s3://", 5) == 0)
        return add_folder(d, d->where, err);
    if (r < 0)
        return r;
    if (list_add(&d->remote->known, d->where, &facts) < 0 ||
        pattern_list_add(&d->files, strdup(d->where)) < 0)
        return error_set(err, -ENOMEM, "out of memory");
    return 0;
}

/* ---- objects that were named ---- */

/* Returns the length of the text that all names begin with. */
static size_t common_length(const struct pattern_list *list)
{
    size_t len = strlen(list->paths[0]);

    for (size_t i = 1; i < list->count; i++)
        for (size_t k = 0; k < len; k++)
            if (list->paths[i][k] != list->paths[0][k])
                len = k;
    return len;
}

/* List the objects with the names' common prefix. A failure does not matter, because objects are
 * then requested one by one. Sets `*complete` if objects that are still unknown do not exist. */
static int list_named(const struct dataset *d, const struct pattern_list *names, bool *complete,
                      struct plenum_error *err)
{
    size_t len = common_length(names), count = names->count;
    char *prefix = strndup(names->paths[0], len);
    struct remote_list found = {0};
    int r;

    *complete = false;
    if (prefix && (place_root_length(prefix) == 0 || strncmp(prefix, "s3://", 5) != 0)) {
        free(prefix); /* the names are in several buckets, or not in S3 */
        return 0;
    }

    if (!prefix)
        return error_set(err, -ENOMEM, "out of memory");
    r = store_list(prefix, 4 * count + LISTED_SPARE, &d->remote->policy, keep_found, &found, err);
    free(prefix);
    *complete = r == 0;
    list_sort(&found);
    for (size_t i = 0; i < count && r != -ENOMEM; i++) {
        const struct object_facts *facts = list_find(&found, names->paths[i]);

        if (facts && list_add(&d->remote->known, names->paths[i], facts) < 0)
            r = error_set(err, -ENOMEM, "out of memory");
    }
    list_fini(&found);
    return r == -ENOMEM || r == -ECANCELED ? r : 0;
}

/* Objects that are requested one by one, at the same time. */
struct remote_stats {
    const struct dataset *dataset;
    const struct pattern_list *names;
    bool optional;
    size_t *missing; /* indices of the names to request */
    struct object_facts *facts;
    bool *absent;
    struct plenum_error *err;
};

/* Returns whether this error means that the object does not exist. If we may not list a bucket, S3
 * forbids access to objects that do not exist. */
static bool is_absent(int code)
{
    return code == -ENOENT || code == -EACCES;
}

static int stat_one(void *arg, uint64_t index, unsigned thread)
{
    struct remote_stats *s = arg;
    int r = store_stat(s->names->paths[s->missing[index]], &s->dataset->remote->policy,
                       &s->facts[index], &s->err[index]);

    (void)thread;
    s->absent[index] = s->optional && is_absent(r);
    return s->absent[index] ? 0 : r;
}

static int stat_all(struct remote_stats *s, size_t count, struct plenum_error *err)
{
    const struct dataset *d = s->dataset;
    struct parallel loop = {.count = count,
                            .threads = REMOTE_THREADS,
                            .turn = stat_one,
                            .cancel = d->remote->policy.cancel,
                            .arg = s};
    int r = parallel_run(&loop);

    for (size_t i = 0; r < 0 && i < count; i++)
        if (s->err[i].text[0])
            return error_set(err, r, "%s", s->err[i].text);
    for (size_t i = 0; r == 0 && i < count; i++)
        if (!s->absent[i] &&
            list_add(&d->remote->known, s->names->paths[s->missing[i]], &s->facts[i]) < 0)
            r = error_set(err, -ENOMEM, "out of memory");
    return r;
}

/* Request all objects about which nothing is known yet. */
static int stat_missing(const struct dataset *d, const struct pattern_list *names, bool optional,
                        struct plenum_error *err)
{
    struct remote_stats s = {.dataset = d, .names = names, .optional = optional};
    size_t count = 0;
    int r = 0;

    s.missing = calloc(names->count + 1, sizeof(*s.missing));
    if (!s.missing)
        return error_set(err, -ENOMEM, "out of memory");
    for (size_t i = 0; i < names->count; i++)
        if (!list_find(&d->remote->known, names->paths[i]))
            s.missing[count++] = i;
    s.facts = calloc(count + 1, sizeof(*s.facts));
    s.err = calloc(count + 1, sizeof(*s.err));
    s.absent = calloc(count + 1, sizeof(*s.absent));
    if (!s.facts || !s.err || !s.absent)
        r = error_set(err, -ENOMEM, "out of memory");
    else if (count > 0)
        r = stat_all(&s, count, err);
    free(s.missing);
    free(s.facts);
    free(s.err);
    free(s.absent);
    list_sort(&d->remote->known);
    return r;
}

int remote_learn(const struct dataset *d, const struct pattern_list *names, bool optional,
                 struct plenum_error *err)
{
    bool complete = false;
    int r = 0;

    if (names->count > 1)
        r = list_named(d, names, &complete, err);
    list_sort(&d->remote->known);
    if (r < 0 || (complete && optional))
        return r;
    return stat_missing(d, names, optional, err);
}

const struct object_facts *remote_facts(const struct dataset *d, const char *name)
{
    return list_find(&d->remote->known, name);
}

void remote_end_finding(const struct dataset *d)
{
    list_fini(&d->remote->known);
}

int remote_join(const char *folder, const char *path, char **ret, struct plenum_error *err)
{
    bool literal = strncmp(folder, "s3://", 5) == 0;
    char *quoted, *whole;
    int r;

    if (dataname_is_remote(path))
        return place_canonical(path, ret, err);
    if (*path == '/')
        return error_set(err, -EINVAL,
                         "'%s' is a path on a disk, but the images of this list are in a store",
                         path);
    while (strncmp(path, "./", 2) == 0)
        path += 2;
    quoted = literal ? strdup(path) : place_encode(path, false);
    whole = quoted ? str_format("%s/%s", folder, quoted) : NULL;
    r = whole ? place_canonical(whole, ret, err) : error_set(err, -ENOMEM, "out of memory");
    free(quoted);
    free(whole);
    return r;
}

/* ---- finding archives ---- */

/* Set `where` to the canonical form of a name or pattern: the canonical bucket or host, and the
 * rest as written. */
static int set_where(struct dataset *d, struct plenum_error *err)
{
    size_t root = place_root_length(d->where);
    bool magic = pattern_is_magic(d->where + root);
    char *first = magic ? strndup(d->where, root - 1) : strdup(d->where), *name = NULL, *whole;
    int r = first ? place_canonical(first, &name, err) : error_set(err, -ENOMEM, "out of memory");

    free(first);
    if (r < 0)
        return r;
    whole = magic ? str_format("%s/%s", name, d->where + root) : strdup(name);
    free(name);
    if (!whole)
        return error_set(err, -ENOMEM, "out of memory");
    free(d->where);
    d->where = whole;
    return 0;
}

/* Make the expanded names canonical. Only the paths of URLs may not be canonical yet. */
static int make_canonical(struct dataset *d, struct plenum_error *err)
{
    for (size_t i = 0; i < d->files.count; i++) {
        char *name;
        int r = place_canonical(d->files.paths[i], &name, err);

        if (r < 0)
            return r;
        free(d->files.paths[i]);
        d->files.paths[i] = name;
    }
    return 0;
}

int remote_find(struct dataset *d, struct plenum_error *err)
{
    size_t root;
    char *folder;
    int r = set_where(d, err);

    if (r < 0)
        return r;
    root = place_root_length(d->where);
    if (root == 0 || !pattern_is_magic(d->where + root)) {
        r = add_plain(d, err);
        list_sort(&d->remote->known);
        return r;
    }
    folder = strndup(d->where, root - 1);
    r = folder ? pattern_expand_names(folder, d->where + root, add_glob, d, &d->files, err)
               : error_set(err, -ENOMEM, "out of memory");
    free(folder);
    list_sort(&d->remote->known);
    if (r == 0)
        r = make_canonical(d, err);
    if (r < 0)
        return r;
    return d->remote->known.count == 0 ? remote_learn(d, &d->files, false, err)
                                       : stat_missing(d, &d->files, false, err);
}

int remote_enter(struct dataset *d, const char *folder, struct plenum_error *err)
{
    struct remote *remote = d->remote;
    size_t len = strlen(folder);

    d->scope.folder = strdup(folder);
    remote->objects = calloc(d->files.count, sizeof(*remote->objects));
    if (!d->scope.folder || !remote->objects)
        return error_set(err, -ENOMEM, "out of memory");
    for (size_t i = 0; i < d->files.count; i++) {
        char *path = d->files.paths[i];
        const struct object_facts *facts = list_find(&remote->known, path);
        int r;

        assert(facts);
        r = store_open(path, facts, d, &remote->policy, &remote->objects[i], err);
        if (r < 0)
            return r;
        remote->num_objects++;
        memmove(path, path + len + 1, strlen(path + len + 1) + 1);
    }
    list_fini(&remote->known);
    return 0;
}

const struct store_object *remote_object(const struct dataset *d, size_t number)
{
    assert(number < d->remote->num_objects);
    return d->remote->objects[number];
}

/* ---- objects by their paths ---- */

int remote_stat(const struct dataset *d, const char *path, struct object_facts *ret,
                struct plenum_error *err)
{
    char *name;
    int r = remote_join(d->scope.folder, path, &name, err);

    if (r < 0)
        return r;
    r = store_stat(name, &d->remote->policy, ret, err);
    free(name);
    return r;
}

static int open_path(const struct dataset *d, const char *path, const struct object_facts *facts,
                     struct store_object **ret, struct plenum_error *err)
{
    char *name;
    int r = remote_join(d->scope.folder, path, &name, err);

    if (r < 0)
        return r;
    r = store_open(name, facts, d, &d->remote->policy, ret, err);
    if (r == 0)
        store_set_cached(*ret, d->remote->set);
    free(name);
    return r;
}

int remote_read(const struct dataset *d, const char *path, const struct object_facts *facts,
                uint32_t sample, uint8_t *dst, struct plenum_error *err)
{
    struct store_object *object;
    int r = open_path(d, path, facts, &object, err);

    if (r < 0)
        return r;
    r = store_read_sample(object, sample, 0, facts->size, dst, err);
    store_close(object);
    return r;
}

void remote_announce(const struct dataset *d, const char *path, const struct object_facts *facts)
{
    struct store_object *object;

    if (open_path(d, path, facts, &object, NULL) < 0)
        return;
    store_announce(object, 0, facts->size);
    store_close(object);
}

void remote_forget_announced(const struct dataset *d)
{
    if (d->remote)
        store_forget(d);
}

/* ---- the cache of samples ---- */

void remote_begin_caching(struct dataset *d)
{
    struct remote *remote = d->remote;

    if (!remote)
        return;
    memcpy(&remote->set, d->index.header->fingerprint, sizeof(remote->set));
    for (size_t i = 0; i < remote->num_objects; i++)
        store_set_cached(remote->objects[i], remote->set);
}

uint64_t remote_get_set(const struct dataset *d)
{
    return d->remote ? d->remote->set : KEEP_NO_SET;
}

/* ---- stamps ---- */

struct stamp remote_stamp(const struct object_facts *facts)
{
    bool is_known = facts->etag[0] || (facts->mtime_s && !facts->racy);

    return (struct stamp){
        .mtime_ns = facts->etag[0] ? 0 : facts->mtime_s * NS_PER_SEC,
        .size = facts->size,
        .content = facts->etag[0] ? stamp_hash_bytes(facts->etag, strlen(facts->etag)) : 0,
        .flags = is_known ? STAMP_SETTLED : 0};
}

bool remote_stamp_is(const struct stamp *stamp, const struct object_facts *facts)
{
    struct stamp now = remote_stamp(facts);

    return (now.flags & STAMP_SETTLED) && stamp->flags == now.flags && stamp->size == now.size &&
           stamp->content == now.content && stamp->mtime_ns == now.mtime_ns;
}

/* Returns the full name of an object (malloc), which is given by that name or by its path below the
 * folder. */
static char *whole_name(const struct dataset *d, const char *name)
{
    return dataname_is_remote(name) ? strdup(name) : str_format("%s/%s", d->scope.folder, name);
}

bool remote_holds(const struct dataset *d, const char *name, const struct stamp *stamp)
{
    char *whole = whole_name(d, name);
    struct object_facts facts;
    int r = whole ? store_stat(whole, &d->remote->policy, &facts, NULL) : -ENOMEM;

    free(whole);
    if (is_absent(r))
        return (stamp->flags & STAMP_ABSENT) != 0;
    return r == 0 && remote_stamp_is(stamp, &facts);
}

int remote_read_whole(const struct dataset *d, const char *name, uint64_t most, char **ret,
                      struct stamp *stamp, struct plenum_error *err)
{
    char *whole = whole_name(d, name);
    struct object_facts facts;
    int r = whole ? store_read_whole(whole, most, &d->remote->policy, ret, &facts, err)
                  : error_set(err, -ENOMEM, "out of memory");

    free(whole);
    if (is_absent(r)) {
        *ret = NULL;
        *stamp = stamp_absent();
        return 0;
    }
    if (r == 0)
        *stamp = remote_stamp(&facts);
    return r;
}

int remote_write(const struct dataset *d, const char *name, const void *bytes, size_t len,
                 char **ret, struct plenum_error *err)
{
    char *whole = whole_name(d, name);
    int r = whole ? store_write(whole, bytes, len, &d->remote->policy, err)
                  : error_set(err, -ENOMEM, "out of memory");

    if (r == 0)
        *ret = whole;
    else
        free(whole);
    return r;
}
