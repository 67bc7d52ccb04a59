/* SPDX-License-Identifier: MIT */
/* voc.c - implements "voc:FOLDER": the pictures of a list in ImageSets/Main, with an XML file of
 * annotations for each (voc_xml.h), as Pascal VOC arranges them.
 *
 * The samples are the lines of the list, in their order. The classes are the names of all objects
 * in Annotations, so that all splits have the same. A sample's note has the size and hash of its
 * XML file, and the size that it gives for the picture (or 0). The file is read again with the
 * sample, and must not have changed. The index is stale when the list or the folder of XML files
 * has changed. */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/lock.h"
#include "common/util/parallel.h"
#include "common/util/util.h"
#include "loader/dataset/annotated.h"
#include "loader/dataset/voc_xml.h"

static const char annotations[] = "Annotations";

/* An XML file. */
struct voc_annotations {
    char *name;
    bool was_read;
    struct annotated_beside facts;
    struct voc_picture picture;
};

/* A class, and a file that has it. */
struct voc_class {
    char *name, *file;
};

struct voc_scan {
    const struct dataset *dataset;
    const struct dataset_options *options;
    struct annotated_pictures pictures;
    struct voc_annotations *files; /* [num_files]: all XML files, by name */
    size_t num_files, cap_files;
    struct plenum_error err; /* of the first file that could not be read */
    atomic_bool failed;
    /* Protected by mu. */
    struct lock mu;
    struct voc_class *classes; /* by name */
    size_t num_classes, cap_classes;
};

/* ---- the pictures of the list ---- */

/* Write the name of the list, relative to the data set's folder. */
static void list_path(const struct dataset *d, char *ret, size_t size)
{
    (void)snprintf(ret, size, "ImageSets/Main/%s.txt", dataset_setting(d, "split", "train"));
}

static int voc_locate(struct dataset *d, const struct dataset_options *options,
                      struct plenum_error *err)
{
    const char *split = dataset_setting(d, "split", "train");
    const char *difficult = dataset_setting(d, "difficult", "keep");
    char *where;
    int r;

    (void)options;
    if (strcmp(difficult, "keep") != 0 && strcmp(difficult, "drop") != 0)
        return error_set(err, -EINVAL, "voc,difficult=%s: it must be keep or drop", difficult);
    if (d->classes && d->classes->numbers)
        return error_set(err, -EINVAL,
                         "voc,classes=numbers: the classes of this format have names");
    if (strchr(split, '/'))
        return error_set(err, -EINVAL,
                         "voc,split=%s: it must be the name of a list in "
                         "ImageSets/Main, without .txt",
                         split);
    r = scope_resolve(&d->scope, d->where, &where);
    if (r < 0)
        return scope_error(&d->scope, err, r, d->where);
    free(d->where);
    d->where = where;
    return dataset_enter(d, d->where, err);
}

/* Returns the path of a picture (malloc). Pictures are .jpg files, but may also be others. */
static char *picture_path(const struct dataset *d, const char *name)
{
    static const char *const extensions[] = {"jpg", "png", "jpeg", "JPG", "JPEG"};
    struct stat st;

    for (size_t i = 0; i < ARRAY_LEN(extensions); i++) {
        char *path = str_format("JPEGImages/%s.%s", name, extensions[i]);

        if (!path || scope_stat(&d->scope, path, &st) == 0)
            return path;
        free(path);
    }
    return str_format("JPEGImages/%s.jpg", name); /* annotated_look() reports it */
}

/* Add the picture of a line. */
static int add_line(struct voc_scan *s, const char *line, size_t number, struct plenum_error *err)
{
    if (!line[0])
        return 0;
    if (line[strcspn(line, " \t")])
        return error_set(err, -EBADMSG,
                         "line %zu has more than the name of a picture: lists of one class cannot "
                         "be splits",
                         number);
    return annotated_add(&s->pictures, picture_path(s->dataset, line)) < 0
               ? error_set(err, -ENOMEM, "out of memory")
               : 0;
}

static int read_list(struct voc_scan *s, struct index_builder *b, struct plenum_error *err)
{
    char path[DATASET_PATH_MAX], *text, *rest;
    struct stamp stamp;
    size_t number = 0;
    int r;

    list_path(s->dataset, path, sizeof(path));
    r = annotated_read_text(s->dataset, path, &text, &stamp, err);
    if (r < 0)
        return r;
    if (strlen(text) != stamp.size)
        r = error_set(err, -EBADMSG, "it contains zero bytes, so it is not a list");
    rest = text;
    for (char *line; r == 0 && (line = annotated_next_line(&rest));) {
        r = add_line(s, line, ++number, err);
        if (r == 0)
            r = dataset_check_cancel(s->options);
    }
    free(text);
    if (r == 0)
        r = annotated_look(s->dataset, s->options, &s->pictures, err);
    if (r == 0 && index_builder_add_container(b, path, &stamp) < 0)
        r = error_set(err, -ENOMEM, "out of memory");
    return r < 0 && r != -ENOMEM ? error_prefix(err, r, "%s", path) : r;
}

/* ---- the classes of all annotations ---- */

/* Write the path of a picture's XML file. */
static void xml_path(const char *picture, char *ret, size_t size)
{
    const char *base = picture + strlen("JPEGImages/"), *dot = strrchr(base, '.');

    assert(dot); /* picture_path() */
    (void)snprintf(ret, size, "%s/%.*s.xml", annotations, (int)(dot - base), base);
}

static int by_file_name(const void *a, const void *b)
{
    const struct voc_annotations *x = a, *y = b;

    return strcmp(x->name, y->name);
}

static int list_files(struct voc_scan *s, struct plenum_error *err)
{
    const struct scope *scope = &s->dataset->scope;
    struct dirent *entry;
    DIR *dir;
    int r = scope_open_folder(scope, annotations, &dir);

    if (r < 0)
        return scope_error(scope, err, r, annotations);
    while (r == 0 && (errno = 0, entry = readdir(dir))) {
        const char *dot = strrchr(entry->d_name, '.');
        char *name;

        if (dataset_skips_name(entry->d_name) || !dot || strcmp(dot, ".xml") != 0)
            continue;
        if (index_memory_charge(s->pictures.memory,
                                strlen(entry->d_name) + 17 + sizeof(*s->files)) < 0 ||
            array_grow(&s->files, &s->cap_files, s->num_files, sizeof(*s->files)) < 0)
            r = -ENOMEM;
        else if (!(name = strdup(entry->d_name)))
            r = -ENOMEM;
        else
            s->files[s->num_files++] = (struct voc_annotations){.name = name};
    }
    if (r == 0 && errno)
        r = -errno;
    (void)closedir(dir);
    if (s->num_files > 1)
        qsort(s->files, s->num_files, sizeof(*s->files), by_file_name);
    return r < 0 ? scope_error(scope, err, r, annotations) : 0;
}

/* What the objects of one file are added to. */
struct voc_file {
    struct voc_scan *scan;
    const char *name;
};

/* Returns the index of the first class that is not before this name. */
static size_t place_of(const struct voc_scan *s, const char *name)
{
    size_t low = 0, high = s->num_classes;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (strcmp(s->classes[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int add_class(struct voc_scan *s, const char *name, const char *file)
{
    size_t at = place_of(s, name);
    struct voc_class c;

    if (at < s->num_classes && strcmp(s->classes[at].name, name) == 0)
        return 0;
    if (index_memory_charge(s->pictures.memory, strlen(name) + strlen(file) + 64) < 0 ||
        array_grow(&s->classes, &s->cap_classes, s->num_classes, sizeof(c)) < 0)
        return -ENOMEM;
    c = (struct voc_class){strdup(name), strdup(file)};
    if (!c.name || !c.file) {
        free(c.name);
        free(c.file);
        return -ENOMEM;
    }
    memmove(&s->classes[at + 1], &s->classes[at], (s->num_classes - at) * sizeof(c));
    s->classes[at] = c;
    s->num_classes++;
    return 0;
}

static int collect_class(void *arg, const struct voc_object *object, struct plenum_error *err)
{
    struct voc_file *f = arg;
    int r;

    lock_acquire(&f->scan->mu);
    r = add_class(f->scan, object->name, f->name);
    lock_release(&f->scan->mu);
    return r < 0 ? error_set(err, r, "out of memory") : 0;
}

/* Collect the classes of a file. A malformed one only makes its own sample bad. */
static int read_file(void *arg, uint64_t index, unsigned thread)
{
    struct voc_scan *s = arg;
    struct voc_annotations *file = &s->files[index];
    struct voc_file f = {.scan = s, .name = file->name};
    char path[DATASET_PATH_MAX], *text = NULL;
    struct plenum_error err;
    int r;

    (void)thread;
    (void)snprintf(path, sizeof(path), "%s/%s", annotations, f.name);
    r = annotated_load(s->dataset, path, &file->facts, &text, &err);
    file->was_read = r == 0;
    if (r == 0 && text)
        r = voc_xml_read(text, file->facts.size, collect_class, &f, &file->picture, &err);
    free(text);
    if (r == -EBADMSG)
        return 0;
    if (r < 0 && !atomic_exchange(&s->failed, true))
        s->err = err;
    return r;
}

static void tell_progress(void *arg, uint64_t done, uint64_t total)
{
    const struct voc_scan *s = arg;

    if (s->options->progress)
        s->options->progress(s->options->progress_arg, "files of annotations", done, total);
}

static int collect_classes(struct voc_scan *s, struct plenum_error *err)
{
    struct parallel loop = {.threads = s->options->threads,
                            .turn = read_file,
                            .progress = tell_progress,
                            .cancel = s->options->cancel,
                            .arg = s};
    int r = list_files(s, err);

    if (r < 0)
        return r;
    loop.count = s->num_files;
    r = parallel_run(&loop);
    return r < 0 ? error_set(err, r, "%s", atomic_load(&s->failed) ? s->err.text : strerror(-r))
                 : 0;
}

/* Name the classes: those that were found, or those of classes=FILE, which must list them. */
static int add_classes(const struct voc_scan *s, struct index_builder *b, struct plenum_error *err)
{
    const char **names = calloc(s->num_classes + 1, sizeof(*names));
    int32_t *numbers = calloc(s->num_classes + 1, sizeof(*numbers));
    struct annotated_categories one = {.count = 1};
    struct annotated_categories all = {.names = names, .count = (uint32_t)s->num_classes};
    int r = names && numbers ? 0 : error_set(err, -ENOMEM, "out of memory");

    for (size_t i = 0; i < s->num_classes && r == 0; i++) {
        const char *name = s->classes[i].name;

        names[i] = name;
        one.names = &name;
        r = annotated_number_classes(s->dataset, &one, &numbers[i], err);
        if (r < 0)
            r = error_prefix(err, r, "%s/%s/%s", s->dataset->where, annotations,
                             s->classes[i].file);
        else if (!s->dataset->classes)
            numbers[i] = (int32_t)i;
    }
    if (r == 0)
        r = annotated_add_classes(s->dataset, &all, numbers, b, err);
    free(names);
    free(numbers);
    return r;
}

/* ---- samples ---- */

/* Get the facts of a picture's XML file: those of the file that collect_classes() has read, or, if
 * it has not, of the file that is there. */
static int find_facts(const struct voc_scan *s, const char *picture, struct voc_annotations *ret,
                      struct plenum_error *err)
{
    char path[DATASET_PATH_MAX], *text;
    struct voc_annotations *found, wanted = {.name = path + strlen(annotations) + 1};
    int r;

    xml_path(picture, path, sizeof(path));
    found = bsearch(&wanted, s->files, s->num_files, sizeof(*s->files), by_file_name);
    if (found && found->was_read) {
        *ret = *found;
        return 0;
    }
    *ret = (struct voc_annotations){.name = NULL};
    r = annotated_load(s->dataset, path, &ret->facts, &text, err);
    free(text);
    return r;
}

static int add_samples(struct voc_scan *s, struct index_builder *b, struct plenum_error *err)
{
    char label[50], note[100];
    int r = 0;

    for (size_t i = 0; i < s->pictures.count && r == 0; i++) {
        struct voc_annotations file;

        r = find_facts(s, s->pictures.all[i].path, &file, err);
        if (r < 0)
            break;
        annotated_put_facts(&file.facts, label, sizeof(label));
        (void)snprintf(note, sizeof(note), "%s %u %u", label, file.picture.size[0],
                       file.picture.size[1]);
        r = annotated_add_sample(&s->pictures.all[i], note, b, err);
        if (r == 0)
            r = dataset_check_cancel(s->options);
    }
    return r;
}

static void voc_scan_fini(struct voc_scan *s)
{
    for (size_t i = 0; i < s->num_files; i++)
        free(s->files[i].name);
    for (size_t i = 0; i < s->num_classes; i++) {
        free(s->classes[i].name);
        free(s->classes[i].file);
    }
    free(s->files);
    free(s->classes);
    annotated_fini(&s->pictures);
    lock_fini(&s->mu);
}

static int voc_scan(const struct dataset *d, const struct dataset_options *options,
                    struct index_builder *b, struct plenum_error *err)
{
    struct voc_scan s = {.dataset = d, .options = options, .pictures.memory = b->memory};
    struct stamp stamp;
    int r;

    lock_init(&s.mu);
    r = read_list(&s, b, err);
    if (r == 0)
        r = annotated_stamp_folder(d, annotations, &stamp, err);
    if (r == 0 && index_builder_add_container(b, annotations, &stamp) < 0)
        r = error_set(err, -ENOMEM, "out of memory");
    if (r == 0)
        r = collect_classes(&s, err);
    if (r == 0)
        r = add_classes(&s, b, err);
    if (r == 0)
        r = add_samples(&s, b, err);
    voc_scan_fini(&s);
    return r;
}

static bool voc_fresh(const struct dataset *d)
{
    return annotated_is_fresh(d, NULL);
}

/* ---- fields ---- */

/* JSON while it is written: all objects, and those that are difficult. */
struct voc_json {
    const struct dataset *dataset;
    bool drops; /* difficult objects are only in the second list */
    unsigned count;
    struct voc_text {
        char *text;
        size_t len, cap;
    } all, difficult;
};

static void voc_stated_size(const struct dataset *d, const struct index_sample *sample,
                            uint32_t *ret)
{
    const char *note = annotated_note(d, sample);
    char *at;

    (void)annotated_get_facts(&note);
    ret[0] = (uint32_t)strtoul(note, &at, 10);
    ret[1] = (uint32_t)strtoul(at, NULL, 10);
}

/* Returns the number of a class of the index, or -1. */
static int64_t find_class(const struct dataset *d, const char *name)
{
    for (uint32_t i = 0; i < d->index.header->class_names; i++)
        if (strcmp(index_name(&d->index, d->index.classes[i]), name) == 0)
            return i;
    return -1;
}

static int put_object(struct voc_text *t, const struct voc_object *o, int64_t class, unsigned id)
{
    const double *e = o->edges;

    if (array_reserve(&t->text, &t->cap, t->len + 300, 1) < 0)
        return -ENOMEM;
    t->len += (size_t)snprintf(t->text + t->len, t->cap - t->len,
                               "%s{\"category_id\":%" PRId64 ",\"id\":%u,\"difficult\":%d,"
                               "\"truncated\":%d,\"bndbox\":{\"xmin\":%.9g,\"ymin\":%.9g,\"xmax\":"
                               "%.9g,\"ymax\":%.9g}}",
                               t->len > 0 ? "," : "[", class, id, o->difficult, o->truncated, e[0],
                               e[1], e[2], e[3]);
    return 0;
}

static int add_object(void *arg, const struct voc_object *object, struct plenum_error *err)
{
    struct voc_json *j = arg;
    int64_t class = find_class(j->dataset, object->name);
    int r = 0;

    j->count++;
    if (class < 0)
        return error_set(err, -EBADMSG,
                         "object %u has the class '%.200s', which is not one of "
                         "the data set's",
                         j->count, object->name);
    if (!object->difficult || !j->drops)
        r = put_object(&j->all, object, class, j->count);
    if (r == 0 && object->difficult)
        r = put_object(&j->difficult, object, class, j->count);
    return r < 0 ? error_set(err, r, "out of memory") : 0;
}

/* Close a list, and pass it on as a field. */
static void give(const struct voc_text *t, const char *key, dataset_field *field, void *arg)
{
    if (t->len == 0) {
        field(arg, key, "[]", 2, false);
        return;
    }
    t->text[t->len] = ']'; /* put_object() leaves room */
    field(arg, key, t->text, t->len + 1, false);
}

static int voc_fields(const struct dataset *d, const struct index_sample *sample,
                      dataset_field *field, void *arg, struct field_memory *memory,
                      struct plenum_error *err)
{
    struct voc_json json = {.dataset = d,
                            .drops = strcmp(dataset_setting(d, "difficult", "keep"), "drop") == 0};
    const char *note = annotated_note(d, sample);
    struct annotated_beside facts = annotated_get_facts(&note);
    char path[DATASET_PATH_MAX], *text;
    int r;

    xml_path(index_name(&d->index, sample->name), path, sizeof(path));
    r = annotated_read(d, path, &facts, &text, err);
    if (r < 0)
        return r;
    r = text ? voc_xml_read(text, facts.size, add_object, &json, NULL, err)
             : error_set(err, -EBADMSG, "the file does not exist");
    free(text);
    if (memory)
        memory->each = max_u64(memory->each, facts.size + json.all.cap + json.difficult.cap);
    if (r == 0) {
        give(&json.all, "objects", field, arg);
        give(&json.difficult, "difficult", field, arg);
    }
    free(json.all.text);
    free(json.difficult.text);
    return r < 0 ? error_prefix(err, r, "%s", path) : 0;
}

/* ---- what plenumctl verify checks ---- */

static int by_name(const void *a, const void *b, void *arg)
{
    const struct dataset *d = arg;
    const uint32_t *x = a, *y = b;
    int order = strcmp(index_name(&d->index, d->index.samples[*x].name),
                       index_name(&d->index, d->index.samples[*y].name));

    return order != 0 ? order : (*x > *y) - (*x < *y);
}

/* Find pictures that are listed twice. */
static int voc_check(const struct dataset *d, dataset_fault *fault, void *arg,
                     struct plenum_error *err)
{
    uint32_t n = d->index.header->samples;
    uint32_t *sorted = calloc(n, sizeof(*sorted));
    char list[DATASET_PATH_MAX], text[DATASET_PATH_MAX + 100];
    int r = 0;

    if (!sorted)
        return error_set(err, -ENOMEM, "out of memory");
    list_path(d, list, sizeof(list));
    for (uint32_t i = 0; i < n; i++)
        sorted[i] = i;
    qsort_r(sorted, n, sizeof(*sorted), by_name, (void *)(uintptr_t)d);
    for (uint32_t i = 1; i < n && r == 0; i++) {
        const char *name = index_name(&d->index, d->index.samples[sorted[i]].name);

        if (strcmp(name, index_name(&d->index, d->index.samples[sorted[i - 1]].name)) != 0)
            continue;
        (void)snprintf(text, sizeof(text), "%s lists it twice, as samples %u and %u", list,
                       sorted[i - 1], sorted[i]);
        r = fault(arg, sorted[i], text);
    }
    free(sorted);
    return r < 0 ? error_set(err, r, "out of memory") : 0;
}

static const struct format_setting settings[] = {
    CLASSES_SETTING,
    {"difficult", "keep or drop: whether objects include the difficult ones (keep)"},
    {"split", "the list in ImageSets/Main (train)"},
};

const struct format format_voc = {
    .name = "voc",
    .settings = settings,
    .num_settings = ARRAY_LEN(settings),
    .whole_files = true,
    .file = annotated_file,
    .locate = voc_locate,
    .scan = voc_scan,
    .fresh = voc_fresh,
    .read = dataset_read_file,
    .announce = dataset_announce_file,
    .path = annotated_file,
    .describe = annotated_describe,
    .fields = voc_fields,
    .stated_size = voc_stated_size,
    .own_fields = "objects:objects:boxes",
    .check = voc_check,
};
