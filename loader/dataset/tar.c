/* SPDX-License-Identifier: MIT */
/* tar.c - implements "tar:ARCHIVES": WebDataset archives, read in place.
 *
 * ARCHIVES is a tar archive, a folder of them (*.tar, in byte order), or a pattern with braces and
 * globs (pattern.h). The members of a sample are consecutive and have the same key: their path up
 * to the first dot of the last part. A sample is an image (.jpg, .jpeg, .png, .webp, .avif, .ppm,
 * .pnm; with "tar,image=EXTENSION:" only that extension) with a label:
 *
 *     tar:                 .cls, an integer; otherwise "label" of .json; otherwise .txt, an integer
 *     tar,label=cls:       only .cls. label=txt: only .txt, which may be the name of a class. Any
 *                          other extension: read like cls if it ends in .cls, otherwise like txt
 *     tar,label=json.A.B:  member B of member A of the .json: a number, or the name of a class
 *     tar,label=folder:    the class is the image's folder in the archive; each image is a sample
 *                          by itself, whatever dots its name contains
 *     tar,label=none:      0
 *
 * Labels are either all numbers or all names; names are numbered in byte order. A file classes.txt
 * beside the archives, with one name per line, names the classes of numbered labels.
 *
 * Samples are in the order of the archives and of their members. All headers are read once, by
 * several threads, one archive per turn; after that, a sample is one pread() at its offset.
 * Descriptors of archives are kept open (archive.c).
 *
 * Truncated or damaged archives, samples without a label, and duplicate names are reported when the
 * data set is opened, while they can still be fixed. */
#include "config.h"

#include "loader/dataset/archive.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/error_set.h"
#include "common/util/util.h"
#include "loader/dataset/json_find.h"
#include "loader/dataset/pattern.h"
#include "loader/dataset/remote.h"
#include "loader/dataset/tar_fields.h"
#include "loader/dataset/tar_reader.h"

enum {
    CLASSES_MAX = 1 << 24,     /* maximum number of classes in classes.txt */
    CLASS_NAME_MAX = 255,      /* bytes */
    LABEL_BYTES_MAX = 1 << 20, /* maximum bytes of a member that contains a label */
    CLASSES_FILE_MAX = 1 << 28,
    FLAG_SPARSE = 1, /* indexed sample: `where` is the offset of its header */
    FLAG_LINK = 2,   /* during a scan: `where` is the offset of the target's name */
};

static const char classes_file[] = "classes.txt";

enum label_from {
    FROM_CLS,
    FROM_JSON,
    FROM_TXT,
    FROM_TYPES,
    FROM_FOLDER = FROM_TYPES,
    FROM_NONE,
    FROM_ANY
};

/* The settings of a data set: the type of dataset->state. */
struct tar_set {
    enum label_from from;
    const char *field;  /* with FROM_JSON and FROM_ANY */
    char extension[64]; /* extension of the label's member, if `from` is one type */
    bool no_images;     /* image=none: each key is a sample */
};

/* The members with one key, during a scan. */
struct tar_group {
    char *key;
    size_t key_len, cap;
    bool any;
    char image[64];   /* the image's extension; "": none yet */
    char dotted[128]; /* a member with a dot before the extension of an image; "": none */
    bool several;     /* there are such members with several extensions */
    struct index_sample sample;
    char *name; /* name of the image */
    struct {
        bool there;
        char *text; /* NUL-terminated */
        size_t len, cap;
    } labels[FROM_TYPES];
    uint64_t large; /* size of a member that would be a label if it were smaller; 0: none */
    uint64_t files;
};

static int out_of_memory(struct plenum_error *err)
{
    return error_set(err, -ENOMEM, "out of memory");
}

/* --- labels --- */

/* A label as written, and where it was found. */
struct written {
    const char *text;
    size_t len;
    enum label_source source;
    bool may_be_name;
    char what[200]; /* names the member */
    struct json_value json;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n'; /* not NUL */
}

/* Remove the whitespace around a string. */
static void trim(const char **text, size_t *len)
{
    while (*len > 0 && is_blank((*text)[*len - 1]))
        (*len)--;
    while (*len > 0 && is_blank(**text)) {
        (*text)++;
        (*len)--;
    }
}

/* Reject text that cannot be a label of any kind. */
static int check_written(const struct written *w, struct plenum_error *err)
{
    if (w->len > 0 && w->len <= CLASS_NAME_MAX && !memchr(w->text, 0, w->len))
        return 0;
    return error_set(err, -EBADMSG, "the label in '%s' %s", w->what,
                     w->len == 0               ? "is empty"
                     : w->len > CLASS_NAME_MAX ? "has more than 255 bytes"
                                               : "contains a zero byte");
}

static int label_of_json(const char *text, size_t len, const char *field, struct written *ret,
                         struct plenum_error *err)
{
    int r = json_find(text, len, field, &ret->json, err);

    if (r < 0)
        return error_prefix(err, r, "'%s'", ret->what);
    if (ret->json.type != JSON_AT_TEXT && ret->json.type != JSON_AT_NUMBER)
        return error_set(err, -EBADMSG, "'%s' in '%s' is neither a number nor a string", field,
                         ret->what);
    ret->text = ret->json.text;
    ret->len = strlen(ret->json.text);
    ret->may_be_name = true;
    return 0;
}

/* Get the label from the last folder of a member's path. */
static int label_of_folder(const char *name, struct written *ret, struct plenum_error *err)
{
    const char *end = strrchr(name, '/'), *begin = end;

    if (!end)
        return error_set(err, -EBADMSG, "'%s' is not in a folder that could be its class", name);
    while (begin > name && begin[-1] != '/')
        begin--;
    assert(name <= begin && begin <= end);
    ret->text = begin;
    ret->len = (size_t)(end - begin);
    ret->source = LABEL_FOLDER;
    ret->may_be_name = true;
    (void)snprintf(ret->what, sizeof(ret->what), "%.190s", name);
    return 0;
}

/* Returns the extension of the member that contains a label of this type. */
static const char *extension_of(const struct tar_set *set, enum label_from from)
{
    static const char *const extensions[FROM_TYPES] = {"cls", "json", "txt"};

    assert(from < FROM_TYPES);
    return set->from == from ? set->extension : extensions[from];
}

/* Find the label, as written, of a group with an image; `ret->text` is NULL if there is none. */
static int find_label(const struct tar_set *set, const struct tar_group *g, struct written *ret,
                      struct plenum_error *err)
{
    int r;

    *ret = (struct written){.may_be_name = set->from == FROM_TXT};
    if (set->from == FROM_NONE)
        return 0;
    if (set->from == FROM_FOLDER)
        return label_of_folder(g->name, ret, err);
    for (enum label_from from = FROM_CLS; from < FROM_TYPES; from++) {
        if (!g->labels[from].there || (set->from != FROM_ANY && set->from != from))
            continue;
        (void)snprintf(ret->what, sizeof(ret->what), "%.130s.%s", g->key, extension_of(set, from));
        if (from != FROM_JSON) {
            ret->text = g->labels[from].text;
            ret->len = g->labels[from].len;
            trim(&ret->text, &ret->len);
            return 0;
        }
        r = label_of_json(g->labels[from].text, g->labels[from].len, set->field, ret, err);
        if (r != -ENOENT || set->from != FROM_ANY)
            return r == -ENOENT ? -EBADMSG : r;
    }
    if (set->from == FROM_ANY && g->large > 0)
        return error_set(err, -EBADMSG,
                         "'%s' has no label: there is no .cls, and a file next to it has %llu "
                         "bytes: that is not a label",
                         g->name, (unsigned long long)g->large);
    if (set->from == FROM_ANY)
        return error_set(
            err, -EBADMSG,
            "'%s' has no label: there is no .cls, no .json with a \"label\" and no .txt with a "
            "number next to it; name the source with tar,label=...:, or use tar,label=none: if "
            "there are no labels",
            g->name);
    return error_set(err, -EBADMSG, "'%s' has no label: there is no .%s next to it", g->name,
                     extension_of(set, set->from));
}

/* --- groups --- */

static void group_fini(struct tar_group *g)
{
    free(g->key);
    free(g->name);
    for (int i = 0; i < FROM_TYPES; i++)
        free(g->labels[i].text);
}

static const struct tar_set *set_of(const struct archive *a)
{
    return a->dataset->state;
}

/* Reject a name as a label. Text beside images is often a caption, so it is a class name only if
 * the settings say so. */
static int refuse_name(const struct written *w, struct plenum_error *err)
{
    return error_set(err, -EBADMSG,
                     "the label in '%s' is '%.*s', which is not an integer; say where labels are "
                     "with tar,label=...:, or that there are none with tar,label=none:",
                     w->what, (int)min_u64(w->len, 40), w->text);
}

static int add_sample(struct archive *a, const struct tar_group *g, const struct written *w)
{
    struct index_sample sample = g->sample;
    int64_t label = -1;

    if (w->text) {
        int r = check_written(w, &a->err);

        if (r < 0)
            return r;
        label = index_builder_add_label(&a->builder, w->source, w->text, w->len, &a->err);
        if (label == -EBADMSG)
            return error_prefix(&a->err, -EBADMSG, "'%s'", w->what);
        if (label < 0)
            return out_of_memory(&a->err);
        if (a->builder.labels[label].label.is_open && !w->may_be_name)
            return refuse_name(w, &a->err);
    }
    sample.label = (int32_t)label;
    if (index_builder_add_sample(&a->builder, &sample, g->name) < 0)
        return out_of_memory(&a->err);
    return 0;
}

/* End a group. It is a sample if it has an image; otherwise its files are skipped. */
static int end_group(struct archive *a, struct tar_group *g)
{
    struct written label;
    int r;

    if (g->any && g->image[0]) {
        r = find_label(set_of(a), g, &label, &a->err);
        if (r < 0)
            return r;
        r = add_sample(a, g, &label);
        if (r < 0)
            return r;
    } else if (g->any) {
        a->builder.skipped += g->files;
        if (g->dotted[0] && g->key_len + 1 < sizeof(g->dotted))
            index_builder_count_dotted(&a->builder, g->dotted,
                                       g->several ? "" : g->dotted + g->key_len + 1);
    }
    g->any = false;
    g->image[0] = g->dotted[0] = 0;
    g->several = false;
    g->files = g->large = 0;
    for (int i = 0; i < FROM_TYPES; i++)
        g->labels[i].there = false;
    return 0;
}

static int begin_group(struct tar_group *g, const char *key, size_t len)
{
    if (array_reserve(&g->key, &g->cap, len + 1, 1) < 0)
        return -ENOMEM;
    assert(g->key && len < g->cap);
    memcpy(g->key, key, len);
    g->key[len] = 0;
    g->key_len = len;
    g->any = true;
    return 0;
}

static int add_image(struct archive *a, struct tar_group *g, const struct tar_member *m,
                     const char *name, const char *extension)
{
    assert(g->any);
    if (g->image[0])
        return error_set(&a->err, -EBADMSG,
                         "'%s' has two images: .%s and .%s; choose the sample's image with "
                         "tar,image=%s:; the other one can be a field",
                         g->key, g->image, extension, g->image);
    if (m->type == TAR_SYMBOLIC_LINK)
        return error_set(&a->err, -EBADMSG,
                         "'%s' is a symbolic link: 'tar --dereference' stores what it leads to",
                         name);
    if (m->size > UINT32_MAX)
        return error_set(&a->err, -EBADMSG, "'%s' has 4 GiB or more: that is not an image", name);
    (void)snprintf(g->image, sizeof(g->image), "%s", extension);
    free(g->name);
    g->name = strdup(name);
    if (!g->name)
        return out_of_memory(&a->err);
    g->sample = (struct index_sample){.where = m->sparse ? m->header_at : m->data_at,
                                      .len = (uint32_t)m->size,
                                      .flags = m->sparse ? FLAG_SPARSE : 0};
    if (m->type == TAR_HARD_LINK) {
        int64_t target = index_builder_add_name(&a->builder, m->target, strlen(m->target));

        if (target < 0)
            return out_of_memory(&a->err);
        g->sample = (struct index_sample){.where = (uint64_t)target, .flags = FLAG_LINK};
    }
    return 0;
}

/* Extend a sample without an image. Its name is its key, and its bytes are those of all its
 * members. */
static int add_to_sample(struct archive *a, struct tar_group *g, const struct tar_member *m)
{
    assert(g->any && g->files > 0);
    if (g->files == 1) {
        free(g->name);
        g->name = strdup(g->key);
        if (!g->name)
            return out_of_memory(&a->err);
        g->sample = (struct index_sample){.where = m->data_at};
        (void)snprintf(g->image, sizeof(g->image), "-");
    }
    g->sample.len = (uint32_t)min_u64(g->sample.len + m->size, UINT32_MAX);
    return 0;
}

/* Handle a member that is too large for a label. If its sample may have a label elsewhere, it is
 * only noted, because it has fields. */
static int take_large(struct archive *a, struct tar_group *g, const struct tar_member *m,
                      const char *name, enum label_from from)
{
    g->large = m->size;
    if (set_of(a)->from == FROM_ANY && from != FROM_CLS)
        return 0;
    return error_set(&a->err, -EBADMSG, "'%s' has %llu bytes: that is not a label", name,
                     (unsigned long long)m->size);
}

static int read_label(struct archive *a, struct tar_reader *reader, struct tar_group *g,
                      const struct tar_member *m, const char *name, enum label_from from)
{
    assert(from < FROM_TYPES && g->any);
    if (g->labels[from].there)
        return error_set(&a->err, -EBADMSG, "'%s' occurs twice", name);
    if (m->type != TAR_FILE)
        return error_set(&a->err, -EBADMSG,
                         "'%s' is a link: 'tar --dereference --hard-dereference' stores what it "
                         "leads to",
                         name);
    if (m->size > LABEL_BYTES_MAX)
        return take_large(a, g, m, name, from);
    if (array_reserve(&g->labels[from].text, &g->labels[from].cap, m->size + 1, 1) < 0)
        return out_of_memory(&a->err);
    g->labels[from].there = true;
    g->labels[from].len = m->size;
    g->labels[from].text[m->size] = 0;
    return tar_reader_read(reader, g->labels[from].text, m->size, &a->err);
}

/* Note a member that has the extension of an image after a further dot in its name. */
static void note_dotted(struct tar_group *g, const struct tar_name *n)
{
    if (!g->dotted[0])
        (void)snprintf(g->dotted, sizeof(g->dotted), "%s", n->name);
    else if (g->key_len >= sizeof(g->dotted) || strcmp(g->dotted + g->key_len, n->dot) != 0)
        g->several = true;
}

static int add_member(struct archive *a, struct tar_reader *reader, struct tar_group *g,
                      const struct tar_member *m)
{
    struct tar_name n;
    int r;

    if (!tar_split_name(m, set_of(a)->from == FROM_FOLDER, &n))
        return 0;
    if (!g->any || g->key_len != n.key_len || memcmp(g->key, n.name, n.key_len) != 0) {
        r = end_group(a, g);
        if (r < 0)
            return r;
        if (begin_group(g, n.name, n.key_len) < 0)
            return out_of_memory(&a->err);
    }
    g->files++;
    if (set_of(a)->no_images) {
        r = add_to_sample(a, g, m);
        if (r < 0)
            return r;
    } else {
        index_builder_count_foreign(&a->builder, n.base);
    }
    if (!set_of(a)->no_images && n.dot && dataset_takes_extension(a->dataset, n.dot))
        return add_image(a, g, m, n.name, n.dot + 1);
    if (!set_of(a)->no_images && n.dot && strchr(n.dot + 1, '.') && dataset_is_image_name(n.base))
        note_dotted(g, &n);
    for (enum label_from from = FROM_CLS; n.dot && from < FROM_TYPES; from++)
        if (strcasecmp(n.dot + 1, extension_of(set_of(a), from)) == 0 &&
            (set_of(a)->from == from || set_of(a)->from == FROM_ANY))
            return read_label(a, reader, g, m, n.name, from);
    return 0;
}

/* --- one archive --- */

static int compare_names(const void *a, const void *b, void *arg)
{
    const struct index_builder *part = arg;

    return strcmp(part->names + part->samples[*(const uint32_t *)a].name,
                  part->names + part->samples[*(const uint32_t *)b].name);
}

/* Resolve a link: copy offset and length from the sample it refers to. */
static int follow_link(struct archive *a, const uint32_t *sorted, struct index_sample *s)
{
    const struct index_builder *part = &a->builder;
    const char *target = part->names + s->where;
    size_t low = 0, high = part->num_samples;

    assert(s->flags & FLAG_LINK);
    while (strncmp(target, "./", 2) == 0)
        target += 2;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct index_sample *m = &part->samples[sorted[middle]];
        int order = strcmp(target, part->names + m->name);

        if (order == 0 && !(m->flags & FLAG_LINK)) {
            assert(s != m);
            s->where = m->where;
            s->len = m->len;
            s->flags = m->flags;
            return 0;
        }
        if (order == 0)
            break;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return error_set(&a->err, -EBADMSG,
                     "'%s' is a link to '%s', which is not an image in this "
                     "archive",
                     part->names + s->name, target);
}

/* Check for duplicate names, and resolve links, once all samples are known. */
static int check_names(struct archive *a)
{
    struct index_builder *part = &a->builder;
    size_t n = part->num_samples;
    uint32_t *sorted = malloc((n + 1) * sizeof(*sorted));
    bool ascending = true;
    int r = 0;

    if (!sorted)
        return out_of_memory(&a->err);
    for (size_t i = 0; i < n; i++)
        sorted[i] = (uint32_t)i;
    for (size_t i = 1; i < n && ascending; i++)
        ascending = compare_names(&sorted[i - 1], &sorted[i], part) < 0;
    if (!ascending)
        qsort_r(sorted, n, sizeof(*sorted), compare_names, part);
    for (size_t i = 1; i < n && !ascending; i++)
        if (compare_names(&sorted[i - 1], &sorted[i], part) == 0) {
            r = error_set(&a->err, -EBADMSG,
                          "'%s' occurs twice: was something appended to the archive?",
                          part->names + part->samples[sorted[i]].name);
            goto out;
        }
    for (size_t i = 0; i < n; i++) {
        if (!(part->samples[i].flags & FLAG_LINK))
            continue;
        r = follow_link(a, sorted, &part->samples[i]);
        if (r < 0)
            goto out;
    }

out:
    free(sorted);
    return r;
}

static int walk(struct archive *a)
{
    struct tar_reader *reader;
    struct tar_member m;
    struct tar_group g = {0};
    int r = tar_reader_open(&a->source, 0, a->size, &reader, &a->err);

    if (r < 0)
        return r;
    while ((r = tar_reader_next(reader, &m, &a->err)) > 0) {
        r = dataset_check_cancel(a->options);
        if (r < 0)
            goto out;
        r = add_member(a, reader, &g, &m);
        if (r < 0)
            goto out;
    }
    if (r < 0)
        goto out;
    r = end_group(a, &g);
    if (r < 0)
        goto out;
    r = check_names(a);

out:
    group_fini(&g);
    tar_reader_close(reader);
    return r;
}

static int scan_archive(struct archive *a)
{
    int r;

    if (!a->source.object)
        (void)posix_fadvise(a->source.fd, 0, 0, POSIX_FADV_RANDOM); /* only headers are read */
    r = walk(a);
    (void)atomic_fetch_add(a->progress, a->size);
    return r < 0 ? archive_prefix(a, r) : 0;
}

/* --- all archives --- */

/* Read classes.txt. Returns 0 with its text and stamp; the text is NULL if there is no such
 * file. */
static int read_class_names(const struct dataset *d, char **text, struct stamp *stamp,
                            struct plenum_error *err)
{
    struct stat st;
    int fd, r;

    if (d->remote)
        return remote_read_whole(d, classes_file, CLASSES_FILE_MAX, text, stamp, err);
    fd = scope_open(&d->scope, classes_file, 0);
    *text = NULL;
    *stamp = stamp_absent(); /* a file created later makes the index stale */
    if (fd == -ENOENT)
        return 0;
    if (fd < 0)
        return scope_error(&d->scope, err, fd, classes_file);
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > CLASSES_FILE_MAX) {
        (void)close(fd);
        return error_set(err, -EBADMSG, "%s/%s is not a list of class names", d->scope.folder,
                         classes_file);
    }
    r = stamp_read(fd, &st, text, stamp);
    (void)close(fd);
    if (r == 0)
        return 0;
    return error_set(err, r, "%s/%s: %s", d->scope.folder, classes_file,
                     r == -ENODATA ? "it has become shorter" : strerror(-r));
}

/* Name the classes by the lines of classes.txt; classes beyond its last line have no name. */
static int name_classes(const struct dataset *d, char *text, size_t len, struct index_builder *b,
                        struct plenum_error *err)
{
    const char **names = NULL;
    uint32_t count = 0;
    int r = class_names_of_text(text, len, CLASSES_MAX, &names, &count);

    if (r == -EBADMSG)
        return error_set(err, -EBADMSG,
                         "%s/%s contains zero bytes, so it is not a list of class names",
                         d->scope.folder, classes_file);
    if (r == -E2BIG || (r == 0 && b->num_classes > CLASSES_MAX))
        r = error_set(err, -EBADMSG, "%s/%s: it names more than %d classes", d->scope.folder,
                      classes_file, CLASSES_MAX);
    if (r == 0)
        r = index_builder_name_classes(b, names, count);
    free(names);
    return r >= 0 || r == -EBADMSG ? r : out_of_memory(err);
}

static int add_class_names(const struct dataset *d, struct index_builder *b,
                           struct plenum_error *err)
{
    struct stamp stamp;
    char *text;
    int r = read_class_names(d, &text, &stamp, err);

    if (r == 0 && text)
        r = name_classes(d, text, (size_t)stamp.size, b, err);
    free(text);
    if (r == 0 && index_builder_add_container(b, classes_file, &stamp) < 0)
        r = out_of_memory(err);
    return r;
}

/* Merge the archives, in order, into the index. */
static int merge(struct archive *archives, size_t count, struct index_builder *b,
                 struct plenum_error *err)
{
    int r;

    for (size_t i = 0; i < count; i++) {
        r = index_builder_append(b, &archives[i].builder);
        index_builder_fini(&archives[i].builder);
        if (r < 0)
            return error_set(err, r, "%s",
                             r == -EOVERFLOW ? "more samples than an index can hold"
                                             : "out of memory");
    }
    r = index_builder_settle_labels(b, err);
    if (r < 0 || !b->unnamed)
        return r;
    return add_class_names(archives[0].dataset, b, err);
}

/* Set the error for archives without images, which describes what was found instead. */
static int no_images(const struct dataset *d, const struct index_builder *b,
                     struct plenum_error *err)
{
    char others[256], why[400] = "", names[80], way[200] = "";

    if (b->dotted > 0 && b->dotted_extension[0])
        (void)snprintf(way, sizeof(way), "use tar,image=%s: to read these as images, or ",
                       b->dotted_extension);
    if (b->dotted > 0)
        return error_set(err, -EBADMSG,
                         "%s contains no images: an extension begins at the first dot of a "
                         "member's name, and that of '%s' is not an image extension; %srename the "
                         "members so that their keys have no dot",
                         d->name, b->dotted_name, way);
    if (index_builder_describe_foreign(b, others, sizeof(others))[0])
        (void)snprintf(why, sizeof(why), "%s %s: %s", index_builder_foreign_verb(b), others,
                       index_builder_advise_foreign(b));
    return error_set(err, -EBADMSG,
                     "%s contains no images: no member is named %s (%llu other files were "
                     "found)%s%s; use tar,image=none: for samples without images",
                     d->name, dataset_describe_images(d, names, sizeof(names)),
                     (unsigned long long)b->skipped, why[0] ? "; there " : "", why);
}

static int tar_scan(const struct dataset *dataset, const struct dataset_options *options,
                    struct index_builder *b, struct plenum_error *err)
{
    struct archive_work work = {.scan = scan_archive, .merge = merge};
    int r;

    r = archive_scan(dataset, options, &work, b, err);
    if (r >= 0 && b->num_samples == 0 && !dataset_has_images(dataset)) {
        r = error_set(err, -EBADMSG, "%s contains no samples", dataset->name);
    } else if (r >= 0 && b->num_samples == 0) {
        r = no_images(dataset, b, err);
    }
    return r;
}

/* --- the name --- */

/* Parse "folder", "none", the extension of a member ("cls", "target.cls", "label"), or the
 * extension of a JSON member with a path in it ("json.A.B"). */
static int parse_label_setting(const char *text, struct tar_set *set, struct plenum_error *err)
{
    const char *last = strrchr(text, '.'), *json = NULL;
    size_t len = strlen(text);

    if (strcmp(text, "folder") == 0 || strcmp(text, "none") == 0) {
        set->from = text[0] == 'f' ? FROM_FOLDER : FROM_NONE;
        return 0;
    }
    for (const char *at = text; (at = strstr(at, "json")); at += 4)
        if (!json && (at == text || at[-1] == '.') && (at[4] == '.' || !at[4]))
            json = at + 4;
    if (json && *json == '.' && json[1])
        set->field = json + 1;
    if (json)
        len = (size_t)(json - text);
    if (len == 0 || len >= sizeof(set->extension) || (json && *json && !json[1]))
        return error_set(err, -EINVAL,
                         "tar,label=%s: use label=EXTENSION (of the member with the label, such as "
                         "cls or target.cls), label=json.FIELD, label=folder or label=none",
                         text);
    set->from = json ? FROM_JSON : strcmp(last ? last + 1 : text, "cls") == 0 ? FROM_CLS : FROM_TXT;
    (void)snprintf(set->extension, sizeof(set->extension), "%.*s", (int)len, text);
    return 0;
}

static int tar_locate(struct dataset *d, const struct dataset_options *options,
                      struct plenum_error *err)
{
    const char *label = dataset_setting(d, "label", NULL);
    struct tar_set *set = malloc(sizeof(*set));
    int r;

    if (!set)
        return out_of_memory(err);
    *set = (struct tar_set){.from = FROM_ANY, .field = "label"};
    d->state = set;
    r = dataset_has_images(d) ? dataset_check_image_extension(d, err) : 0;
    if (r < 0)
        return r;
    if (!dataset_has_images(d))
        *set = (struct tar_set){.from = FROM_NONE, .field = "label", .no_images = true};
    if (label) {
        r = parse_label_setting(label, set, err);
        if (r < 0)
            return r;
    }
    if (set->from == FROM_NONE) {
        r = dataset_refuse_classes(d, err);
        if (r < 0)
            return r;
    }
    return archive_locate(d, options, err);
}

static void tar_release(struct dataset *d)
{
    free(d->state);
}

/* Returns whether this is the name of an archive. Compressed archives count: they are rejected with
 * advice. */
static bool has_archive_name(const char *path)
{
    static const char *const ends[] = {".tar",     ".tgz",     ".txz",    ".tbz2",
                                       ".tzst",    ".tar.gz",  ".tar.xz", ".tar.bz2",
                                       ".tar.zst", ".tar.lz4", ".tar.lz", ".tar.Z"};
    size_t len = strlen(path);

    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        size_t end = strlen(ends[i]);

        if (len > end && strcmp(path + len - end, ends[i]) == 0)
            return true;
    }
    return false;
}

static bool tar_recognise(const struct path_probe *probe)
{
    enum { MAGIC_AT = 257 };

    return S_ISREG(probe->st.st_mode) &&
           (has_archive_name(probe->path) ||
            (probe->head_len >= 512 && memcmp(probe->head + MAGIC_AT, "ustar", 5) == 0));
}

/* --- an indexed data set --- */

static int read_sparse(const struct source *source, const struct index_container *c,
                       const struct index_sample *sample, uint8_t *bytes, struct plenum_error *err)
{
    struct tar_reader *reader;
    struct tar_member m;
    int r = tar_reader_open(source, sample->where, c->stamp.size, &reader, err);

    if (r < 0)
        return r;
    r = tar_reader_next(reader, &m, err);
    if (r > 0)
        r = m.size == sample->len ? tar_reader_read(reader, bytes, sample->len, err)
                                  : error_set(err, -ESTALE, "its size has changed");
    else if (r == 0)
        r = error_set(err, -ESTALE, "it no longer exists");
    tar_reader_close(reader);
    return r == -EBADMSG ? -ESTALE : r;
}

static int read_from(const struct source *source, const struct dataset *dataset,
                     const struct index_sample *sample, struct dataset_buffer *buffer,
                     struct plenum_error *err)
{
    const struct index_container *c = &dataset->index.containers[sample->container];
    int r = dataset_buffer_reserve(buffer, sample->len);

    if (r < 0)
        return out_of_memory(err);
    return read_sparse(source, c, sample, buffer->bytes, err);
}

static int tar_read(const struct dataset *dataset, const struct index_sample *sample,
                    struct dataset_buffer *buffer, struct plenum_error *err)
{
    const struct index *index = &dataset->index;
    struct source source;
    int r;

    if (!(sample->flags & FLAG_SPARSE))
        return archive_read(dataset, sample, sample->where, buffer, err);
    r = archive_open(dataset, sample, &source, err);
    if (r < 0)
        return r;
    r = read_from(&source, dataset, sample, buffer, err);
    archive_close(dataset, sample, &source);
    if (r < 0)
        return error_prefix(err, r, "%s/%s", dataset->scope.folder,
                            index_name(index, index->containers[sample->container].name));
    return 0;
}

static void tar_path(const struct dataset *dataset, const struct index_sample *sample, char *ret,
                     size_t size)
{
    (void)snprintf(ret, size, "%s", index_name(&dataset->index, sample->name));
}

static void tar_describe(const struct dataset *dataset, const struct index_sample *sample,
                         char *ret, size_t size)
{
    const struct index *index = &dataset->index;

    (void)snprintf(ret, size, "%s/%s: %s", dataset->scope.folder,
                   index_name(index, index->containers[sample->container].name),
                   index_name(index, sample->name));
}

static const char *const patterns[] = {"*.tar"};

static const struct format_setting settings[] = {
    ARCHIVE_SETTINGS,
    {"image", "the extension of images; none: each key is a sample without an image"},
    {"label", "the extension of the member with the label, json.FIELD, folder or none"},
};

const struct format format_tar = {
    .name = "tar",
    .settings = settings,
    .num_settings = ARRAY_LEN(settings),
    .patterns = patterns,
    .num_patterns = ARRAY_LEN(patterns),
    .remote = true,
    .recognise = tar_recognise,
    .locate = tar_locate,
    .release = tar_release,
    .scan = tar_scan,
    .fresh = archive_fresh,
    .read = tar_read,
    .reads_part = true,
    .announce = archive_announce,
    .path = tar_path,
    .describe = tar_describe,
    .find_fields = tar_find_fields,
    .read_field = tar_read_field,
};
