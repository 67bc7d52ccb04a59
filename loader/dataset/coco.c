/* SPDX-License-Identifier: MIT */
/* coco.c - implements "coco:FILE" and "coco:FOLDER": pictures whose objects are listed in one JSON
 * file (coco_file.h).
 *
 * The samples are the images of the file, in the order of their ids, as in torchvision's
 * CocoDetection. A sample's note is "ID WIDTH HEIGHT [OBJECTS]": its image id, the size that the
 * file gives (or 0), and JSON like that of fields of boxes, in which categories are classes. A
 * second string, "AT LENGTH HASH;..." says where in the file the outline of each object is, because
 * outlines may be too large for an index. The index is stale when the file has changed. */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/util/error_set.h"
#include "common/util/util.h"
#include "loader/dataset/annotated.h"
#include "loader/dataset/coco_file.h"

/* The type of dataset->state. */
struct coco_place {
    char *file;  /* the JSON file: absolute, without links */
    char *split; /* the part of its name that may be the name of the pictures' folder, or "" */
};

static void coco_release(struct dataset *d)
{
    struct coco_place *place = d->state;

    if (!place)
        return;
    free(place->file);
    free(place->split);
    free(place);
}

/* ---- where the file and the pictures are ---- */

/* Files of one split in the folder of annotations. */
struct coco_choice {
    const char *split;
    char *found; /* the best name so far; malloc */
    bool exact;  /* it is that of the split, not only one that begins with it */
    unsigned count;
    char all[256]; /* the splits that there are, for a message */
};

/* Consider a file: instances_SPLIT.json, or the only instances_SPLIT*.json. */
static int consider(struct coco_choice *c, const char *name)
{
    static const char begin[] = "instances_", end[] = ".json";
    const char *split = name + strlen(begin);
    size_t len;
    bool exact;

    if (strncmp(name, begin, strlen(begin)) != 0 || !str_ends_with(name, end))
        return 0;
    len = strlen(split) - strlen(end);
    (void)snprintf(c->all + strlen(c->all), sizeof(c->all) - strlen(c->all), "%s%.*s",
                   c->all[0] ? ", " : "", (int)len, split);
    exact = strlen(c->split) == len && memcmp(split, c->split, len) == 0;
    if (c->exact || strncmp(split, c->split, strlen(c->split)) != 0)
        return 0;
    c->count = exact ? 1 : c->count + 1;
    c->exact = exact;
    free(c->found);
    c->found = strdup(name);
    return c->found ? 0 : -ENOMEM;
}

/* List the folder of annotations. Returns 0, or -errno (-ENOENT: there is none). */
static int list_annotations(const struct dataset *d, struct coco_choice *c)
{
    char *folder = str_format("%s/annotations", d->where);
    struct dirent *entry;
    DIR *dir;
    int r = folder ? scope_open_folder(&d->scope, folder, &dir) : -ENOMEM;

    free(folder);
    if (r < 0)
        return r;
    while (r == 0 && (errno = 0, entry = readdir(dir)))
        r = consider(c, entry->d_name);
    if (r == 0 && errno)
        r = -errno;
    (void)closedir(dir);
    return r;
}

/* Set the error for a folder without the split's file. */
static int no_file(const struct dataset *d, const struct coco_choice *c, struct plenum_error *err)
{
    if (c->count > 1)
        return error_set(err, -EINVAL,
                         "%s: several splits begin with '%s': choose one of %s, as in "
                         "coco,split=NAME:FOLDER",
                         d->where, c->split, c->all);
    if (c->all[0])
        return error_set(err, -ENOENT,
                         "%s: there is no annotations/instances_%s.json: choose one of the splits "
                         "%s, as in coco,split=NAME:FOLDER",
                         d->where, c->split, c->all);
    return error_set(err, -ENOENT,
                     "%s: there is neither annotations/instances_%s.json nor "
                     "%s/_annotations.coco.json: name the JSON file, as in coco:FILE",
                     d->where, c->split, c->split);
}

/* Find the file of a split in a folder, as COCO or Roboflow arrange it. */
static int find_file(const struct dataset *d, char **ret, struct plenum_error *err)
{
    struct coco_choice c = {.split = dataset_setting(d, "split", "train")};
    struct stat st;
    char *name;
    int r = list_annotations(d, &c);

    if (r < 0 && r != -ENOENT) {
        free(c.found);
        return scope_error(&d->scope, err, r, d->where);
    }
    name = c.count == 1 ? str_format("%s/annotations/%s", d->where, c.found)
                        : str_format("%s/%s/_annotations.coco.json", d->where, c.split);
    free(c.found);
    if (!name)
        return error_set(err, -ENOMEM, "out of memory");
    r = c.count == 1 ? 0 : scope_stat(&d->scope, name, &st);
    if (r < 0 || c.count > 1) {
        free(name);
        return no_file(d, &c, err);
    }
    r = scope_resolve(&d->scope, name, ret);
    if (r < 0)
        r = scope_error(&d->scope, err, r, name);
    free(name);
    return r;
}

/* Returns the part of the file's name that may name a folder: "train2017" for
 * instances_train2017.json, "val" for val.json. */
static char *split_of(const char *file)
{
    const char *base = io_base_name(file), *from = strrchr(base, '_');
    size_t len;

    from = from && from > base ? from + 1 : base;
    len = strcspn(from, ".");
    return strndup(from, len);
}

/* Enter the folder that pictures are looked for in: images=, or that of the file or, if it is
 * called "annotations", the one above. */
static int enter(struct dataset *d, const struct coco_place *place, struct plenum_error *err)
{
    const char *images = dataset_setting(d, "images", NULL);
    char *folder = annotated_folder_of(place->file), *full;
    int r;

    if (folder && strcmp(io_base_name(folder), "annotations") == 0) {
        char *above = annotated_folder_of(folder);

        free(folder);
        folder = above;
    }
    full = !folder                       ? NULL
           : !images || images[0] == '/' ? strdup(images ? images : folder)
                                         : str_format("%s/%s", folder, images);
    r = full ? dataset_enter(d, full, err) : error_set(err, -ENOMEM, "out of memory");
    free(folder);
    free(full);
    return r;
}

static int resolve_where(struct dataset *d, bool *is_folder, struct plenum_error *err)
{
    struct stat st;
    char *where;
    int r = scope_stat(&d->scope, d->where, &st);

    if (r == 0)
        r = scope_resolve(&d->scope, d->where, &where);
    if (r < 0)
        return r == -EXDEV ? scope_error(&d->scope, err, r, d->where)
                           : error_set(err, r, "data set 'coco:%s': %s", d->where, strerror(-r));
    free(d->where);
    d->where = where;
    *is_folder = S_ISDIR(st.st_mode);
    return 0;
}

static int coco_locate(struct dataset *d, const struct dataset_options *options,
                       struct plenum_error *err)
{
    struct coco_place *place = calloc(1, sizeof(*place));
    bool is_folder;
    int r;

    (void)options;
    d->state = place;
    if (!place)
        return error_set(err, -ENOMEM, "out of memory");
    r = resolve_where(d, &is_folder, err);
    if (r < 0)
        return r;
    if (!is_folder && dataset_setting(d, "split", NULL))
        return error_set(err, -EINVAL,
                         "coco,split=%s: this chooses a file in a folder, but %s is a file",
                         dataset_setting(d, "split", NULL), d->where);
    if (is_folder)
        r = find_file(d, &place->file, err);
    else if (!(place->file = strdup(d->where)))
        r = error_set(err, -ENOMEM, "out of memory");
    if (r < 0)
        return r;
    place->split = split_of(place->file);
    if (!place->split)
        return error_set(err, -ENOMEM, "out of memory");
    return enter(d, place, err);
}

/* ---- indexing ---- */

struct coco_input {
    const struct dataset_options *options;
    int fd;
    uint64_t at, size;
    XXH3_state_t hash;
};

static int64_t read_some(void *arg, void *bytes, size_t len)
{
    struct coco_input *in = arg;
    int64_t n = dataset_check_cancel(in->options);

    if (n == 0)
        n = io_pread_some(in->fd, bytes, min_u64(len, 1 << 20), in->at);
    if (n <= 0)
        return n;
    (void)XXH3_64bits_update(&in->hash, bytes, (size_t)n);
    in->at += (uint64_t)n;
    if (in->options->progress)
        in->options->progress(in->options->progress_arg, "bytes of annotations", in->at, in->size);
    return n;
}

/* Read the open file, and set its stamp. */
static int read_open(struct coco_input *in, struct coco_file *f, struct stamp *stamp,
                     struct plenum_error *err)
{
    struct json_source source = {.read = read_some, .arg = in, .memory = f->memory};
    struct stat st, after;
    int r;

    if (fstat(in->fd, &st) < 0)
        return error_set(err, -errno, "%s", strerror(errno));
    if (!S_ISREG(st.st_mode))
        return error_set(err, -EINVAL, "it is not a file");
    *stamp = stamp_of(in->fd, &st);
    in->size = (uint64_t)st.st_size;
    (void)XXH3_64bits_reset(&in->hash);
    if (err)
        err->text[0] = '\0';
    r = coco_file_read(f, &source, err);
    if (r < 0 && err && !err->text[0]) /* of read_some() */
        return error_set(err, r, "%s", strerror(-r));
    if (r < 0)
        return r;
    if (in->at != in->size || fstat(in->fd, &after) < 0 ||
        stamp_compare(stamp, &after) == STAMP_DIFFERS)
        return error_set(err, -ESTALE, "it changed while it was read");
    stamp->content = max_u64(XXH3_64bits_digest(&in->hash), 1);
    return 0;
}

static int read_annotations(const struct dataset *d, const struct dataset_options *options,
                            struct coco_file *f, struct stamp *stamp, struct plenum_error *err)
{
    const struct coco_place *place = d->state;
    struct coco_input in = {.options = options, .fd = scope_open(&d->scope, place->file, 0)};
    int r;

    if (in.fd < 0)
        return scope_error(&d->scope, err, in.fd, place->file);
    r = read_open(&in, f, stamp, err);
    io_close(&in.fd);
    return r < 0 ? error_prefix(err, r, "%s", place->file) : 0;
}

/* Find the folder with the first picture, among those where people keep them. It is set as a prefix
 * of file names. */
static int find_pictures(const struct dataset *d, const char *first, char *ret, size_t size,
                         struct plenum_error *err)
{
    static const char *const forms[] = {"%s/", "images/%s/", "", "images/", "data/"};
    const char *split = ((const struct coco_place *)d->state)->split;
    bool chosen = dataset_setting(d, "images", NULL) || first[0] == '/';
    char path[DATASET_PATH_MAX];
    struct stat st;

    ret[0] = '\0';
    for (size_t i = 0; !chosen && i < ARRAY_LEN(forms); i++) {
        const char *hole = strstr(forms[i], "%s");

        if (hole)
            (void)snprintf(ret, size, "%.*s%s/", (int)(hole - forms[i]), forms[i], split);
        else
            (void)snprintf(ret, size, "%s", forms[i]);
        (void)snprintf(path, sizeof(path), "%s%s", ret, first);
        if (scope_stat(&d->scope, path, &st) == 0)
            return 0;
    }
    if (chosen)
        return 0;
    return error_set(err, -ENOENT,
                     "its first picture, '%.200s', is neither in %s nor in its folders %s, "
                     "images/%s, images and data: name the folder, as in coco,images=FOLDER:FILE",
                     first, d->scope.folder, split, split);
}

static int list_pictures(const struct dataset *d, const struct coco_file *f,
                         struct annotated_pictures *p, struct plenum_error *err)
{
    char prefix[300] = "";
    int r = f->num_images == 0
                ? 0
                : find_pictures(d, f->text + f->images[0].name, prefix, sizeof(prefix), err);

    for (size_t i = 0; i < f->num_images && r == 0; i++)
        if (annotated_add(p, str_format("%s%s", prefix, f->text + f->images[i].name)) < 0)
            r = error_set(err, -ENOMEM, "out of memory");
    return r;
}

/* A note while it is written. */
struct coco_note {
    char *text;
    size_t len, cap;
};

static int append(struct coco_note *n, const char *before, int64_t number, const char *after)
{
    size_t more = strlen(before) + strlen(after) + 32;

    if (array_reserve(&n->text, &n->cap, n->len + more, 1) < 0)
        return -ENOMEM;
    n->len += (size_t)snprintf(n->text + n->len, n->cap - n->len, "%s%" PRId64 "%s", before, number,
                               after);
    return 0;
}

/* Write where the outlines of an image are, whose objects begin at `at`. */
static int write_outlines(const struct coco_file *f, size_t image, size_t at, struct coco_note *n)
{
    int64_t id = f->images[image].id;
    int r = 0;

    n->len = 0;
    for (; at < f->num_objects && f->objects[at].image == id && r == 0; at++) {
        r = append(n, "", (int64_t)f->objects[at].outline, " ");
        if (r == 0)
            r = append(n, "", f->objects[at].outline_len, " ");
        if (r == 0)
            r = append(n, "", f->objects[at].outline_hash, ";");
    }
    return r;
}

/* Write the note of an image, whose objects begin at `*at`. */
static int write_note(const struct coco_file *f, size_t image, size_t *at, const int32_t *classes,
                      struct coco_note *n)
{
    int64_t id = f->images[image].id;
    bool first = true;
    int r;

    n->len = 0;
    r = append(n, "", id, " ");
    if (r == 0)
        r = append(n, "", f->images[image].width, " ");
    if (r == 0)
        r = append(n, "", f->images[image].height, " [");
    for (; *at < f->num_objects && f->objects[*at].image == id && r == 0; ++*at) {
        const struct coco_object *o = &f->objects[*at];
        int64_t class = classes[coco_file_category(f, o->category)];

        r = append(n, first ? "{\"category_id\":" : ",{\"category_id\":", class, ",");
        if (r == 0)
            r = array_reserve(&n->text, &n->cap, n->len + strlen(f->text + o->text) + 4, 1);
        if (r == 0)
            n->len += (size_t)snprintf(n->text + n->len, n->cap - n->len, "%s}", f->text + o->text);
        first = false;
    }
    if (r == 0) /* there is room: append() reserves more than it needs */
        memcpy(n->text + n->len, "]", 2);
    return r;
}

/* Name the classes, and get the class of each category (malloc). */
static int add_classes(const struct dataset *d, const struct coco_file *f, int32_t **ret,
                       struct index_builder *b, struct plenum_error *err)
{
    size_t n = f->num_categories;
    const char **names = calloc(n + 1, sizeof(*names));
    int64_t *ids = calloc(n + 1, sizeof(*ids));
    struct annotated_categories categories = {.names = names, .ids = ids, .count = (uint32_t)n};
    int r = -ENOMEM;

    *ret = calloc(n + 1, sizeof(**ret));
    if (!names || !ids || !*ret) {
        r = error_set(err, r, "out of memory");
        goto out;
    }
    for (size_t i = 0; i < n; i++) {
        names[i] = f->text + f->categories[i].name;
        ids[i] = f->categories[i].id;
    }
    r = annotated_number_classes(d, &categories, *ret, err);
    if (r == 0)
        r = annotated_add_classes(d, &categories, *ret, b, err);

out:
    free(names);
    free(ids);
    return r;
}

static int add_samples(const struct coco_file *f, const struct annotated_pictures *p,
                       const int32_t *classes, struct index_builder *b, struct plenum_error *err)
{
    struct coco_note note = {.text = NULL}, outlines = {.text = NULL};
    size_t at = 0;
    int r = 0;

    assert(p->count == f->num_images);
    for (size_t i = 0; i < p->count && r == 0; i++) {
        r = write_outlines(f, i, at, &outlines);
        if (r == 0)
            r = write_note(f, i, &at, classes, &note);
        r = r < 0 ? error_set(err, r, "out of memory")
                  : annotated_add_sample(&p->all[i], note.text, b, err);
        if (r == 0 &&
            index_builder_add_name(b, outlines.text ? outlines.text : "", outlines.len) < 0)
            r = error_set(err, -ENOMEM, "out of memory");
    }
    assert(r < 0 || at == f->num_objects);
    free(note.text);
    free(outlines.text);
    return r;
}

static int coco_scan(const struct dataset *d, const struct dataset_options *options,
                     struct index_builder *b, struct plenum_error *err)
{
    const char *file = ((const struct coco_place *)d->state)->file;
    struct coco_file f = {.memory = b->memory};
    struct annotated_pictures pictures = {.memory = b->memory};
    int32_t *classes = NULL;
    struct stamp stamp;
    int r = read_annotations(d, options, &f, &stamp, err);

    if (r == 0) {
        r = list_pictures(d, &f, &pictures, err);
        if (r == 0)
            r = annotated_look(d, options, &pictures, err);
        if (r == 0)
            r = add_classes(d, &f, &classes, b, err);
        if (r < 0 && r != -ENOMEM && r != -ECANCELED)
            r = error_prefix(err, r, "%s", file);
    }
    if (r == 0 && index_builder_add_container(b, io_base_name(file), &stamp) < 0)
        r = error_set(err, -ENOMEM, "out of memory");
    if (r == 0)
        r = add_samples(&f, &pictures, classes, b, err);
    free(classes);
    annotated_fini(&pictures);
    coco_file_fini(&f);
    return r;
}

static bool coco_fresh(const struct dataset *d)
{
    const struct coco_place *place = d->state;

    return annotated_is_fresh(d, place->file);
}

/* ---- fields ---- */

/* Returns the list of a note. */
static const char *objects_of(const char *note)
{
    const char *list = strchr(note, '[');

    assert(list); /* write_note() */
    return list;
}

static void coco_stated_size(const struct dataset *d, const struct index_sample *sample,
                             uint32_t *ret)
{
    char *at = strchr(annotated_note(d, sample), ' ');

    ret[0] = (uint32_t)strtoul(at, &at, 10);
    ret[1] = (uint32_t)strtoul(at, NULL, 10);
}

/* Write the objects that are crowds, without saying that they are, so that a field of boxes takes
 * them. `ret` has room for all objects. */
static void pick_crowds(const char *objects, char *ret)
{
    struct json_at rest = json_begin((struct json_at){objects, objects + strlen(objects)}), each;
    struct json_at flag;
    char *at = ret;

    *at++ = '[';
    while (json_next(&rest, &each)) {
        size_t len = (size_t)(each.end - each.at);

        if (!json_get(each, "iscrowd", &flag) || *flag.at != '1')
            continue;
        memcpy(at + 1, each.at, len);
        at[1 + (flag.at - each.at)] = '0';
        *at = at == ret + 1 ? ' ' : ',';
        at += 1 + len;
    }
    *at++ = ']';
    *at = '\0';
}

static const char outline_name[] = ",\"segmentation\":";

/* Where an outline is in the file. */
struct coco_outline {
    uint64_t at;
    uint32_t len, hash;
};

/* Parse "AT LENGTH HASH;", and move `*text` behind it. Returns false at the end. */
static bool next_outline(const char **text, struct coco_outline *ret)
{
    char *end;

    if (!**text)
        return false;
    ret->at = strtoull(*text, &end, 10);
    ret->len = (uint32_t)strtoul(end, &end, 10);
    ret->hash = (uint32_t)strtoul(end, &end, 10);
    *text = end + (*end == ';');
    return true;
}

/* Read an outline, whose bytes must be those that the file had when it was indexed. */
static int read_outline(const struct dataset *d, int fd, const struct coco_outline *outline,
                        char *ret, struct plenum_error *err)
{
    const char *file = ((const struct coco_place *)d->state)->file;
    int r = io_pread_all(fd, ret, outline->len, outline->at);

    if (r < 0 && r != -ENODATA)
        return error_set(err, r, "%s: %s", file, strerror(-r));
    if (r < 0 || (uint32_t)XXH3_64bits(ret, outline->len) != outline->hash)
        return error_set(err, -ESTALE, "%s has changed since the data set was indexed", file);
    return 0;
}

/* Write the objects of a note with their outlines to `ret`, which has room for all. */
static int insert_outlines(const struct dataset *d, const char *note, int fd, char *ret,
                           struct plenum_error *err)
{
    const char *objects = objects_of(note), *outlines = note + strlen(note) + 1;
    struct json_at rest = json_begin((struct json_at){objects, objects + strlen(objects)}), each;
    struct coco_outline outline;
    char *at = ret;
    int r = 0;

    *at++ = '[';
    while (r == 0 && json_next(&rest, &each) && next_outline(&outlines, &outline)) {
        size_t len = (size_t)(each.end - each.at) - 1; /* without the brace */

        *at = ',';
        at += at > ret + 1;
        memcpy(at, each.at, len);
        at += len;
        if (outline.len > 0) {
            at = stpcpy(at, outline_name);
            r = read_outline(d, fd, &outline, at, err);
            at += outline.len;
        }
        *at++ = '}';
    }
    memcpy(at, "]", 2);
    return r;
}

/* Get the objects of a note with their outlines (malloc). */
static int add_outlines(const struct dataset *d, const char *note, char **ret,
                        struct plenum_error *err)
{
    const char *file = ((const struct coco_place *)d->state)->file, *outlines = note;
    size_t room = strlen(note) + 4;
    struct coco_outline outline;
    int fd, r;

    for (outlines += strlen(note) + 1; next_outline(&outlines, &outline);)
        room += outline.len + strlen(outline_name) + 1;
    if (room > FIELD_OUTLINES_MAX)
        return error_set(err, -EBADMSG, "its objects have more than 4 MiB of outlines");
    fd = scope_open(&d->scope, file, 0);
    if (fd < 0)
        return scope_error(&d->scope, err, fd, file);
    *ret = malloc(room);
    r = *ret ? insert_outlines(d, note, fd, *ret, err) : error_set(err, -ENOMEM, "out of memory");
    io_close(&fd);
    if (r < 0) {
        free(*ret);
        *ret = NULL;
    }
    return r;
}

static int coco_fields(const struct dataset *d, const struct index_sample *sample,
                       dataset_field *field, void *arg, struct field_memory *memory,
                       struct plenum_error *err)
{
    const char *note = annotated_note(d, sample), *objects = objects_of(note);
    char *outlined = NULL, *crowds;
    size_t len;
    bool wanted = d->outlines || fields_have_instances(&d->fields);
    int r = wanted ? add_outlines(d, note, &outlined, err) : 0;

    if (r < 0)
        return r;
    objects = outlined ? outlined : objects;
    len = strlen(objects);
    crowds = malloc(len + 4);
    if (crowds) {
        pick_crowds(objects, crowds);
        field(arg, "objects", objects, len, false);
        field(arg, "crowds", crowds, strlen(crowds), false);
        field(arg, "image_id", note, strcspn(note, " "), false);
    }
    if (memory)
        memory->each = max_u64(memory->each, len + 4 + (outlined ? len : 0));
    r = crowds ? 0 : error_set(err, -ENOMEM, "out of memory");
    free(crowds);
    free(outlined);
    return r;
}

/* ---- what plenumctl verify checks ---- */

/* An annotation's id, and where it is. */
struct coco_id {
    int64_t id;
    uint32_t sample;
};

static int by_id(const void *a, const void *b)
{
    const struct coco_id *x = a, *y = b;

    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    return (x->sample > y->sample) - (x->sample < y->sample);
}

/* Collect the ids of all annotations. */
static int list_ids(const struct dataset *d, struct coco_id **ids, size_t *count)
{
    size_t cap = 0;

    for (uint32_t i = 0; i < d->index.header->samples; i++) {
        const char *list = objects_of(annotated_note(d, &d->index.samples[i]));
        struct json_at rest = json_begin((struct json_at){list, list + strlen(list)}), each, id;

        while (json_next(&rest, &each)) {
            if (!json_get(each, "id", &id))
                continue;
            if (array_grow(ids, &cap, *count, sizeof(**ids)) < 0)
                return -ENOMEM;
            (*ids)[(*count)++] = (struct coco_id){strtoll(id.at, NULL, 10), i};
        }
    }
    return 0;
}

/* Find annotations with the same id. */
static int coco_check(const struct dataset *d, dataset_fault *fault, void *arg,
                      struct plenum_error *err)
{
    const char *file = io_base_name(((const struct coco_place *)d->state)->file);
    struct coco_id *ids = NULL;
    size_t count = 0;
    char text[DATASET_PATH_MAX];
    int r = list_ids(d, &ids, &count);

    if (count > 1)
        qsort(ids, count, sizeof(*ids), by_id);
    for (size_t i = 1; i < count && r == 0; i++) {
        const char *other = index_name(&d->index, d->index.samples[ids[i - 1].sample].name);

        if (ids[i].id != ids[i - 1].id)
            continue;
        if (ids[i].sample == ids[i - 1].sample)
            other = "this one";
        (void)snprintf(text, sizeof(text),
                       "%s has two annotations with id %" PRId64
                       ", one of this image and one of %s: ids must be unique",
                       file, ids[i].id, other);
        r = fault(arg, ids[i].sample, text);
    }
    free(ids);
    return r < 0 ? error_set(err, r, "out of memory") : 0;
}

static const struct format_setting settings[] = {
    CLASSES_SETTING,
    {"images", "the folder of the pictures"},
    {"split", "the split of a folder: its file is annotations/instances_SPLIT.json (train)"},
};

const struct format format_coco = {
    .name = "coco",
    .settings = settings,
    .num_settings = ARRAY_LEN(settings),
    .whole_files = true,
    .file = annotated_file,
    .locate = coco_locate,
    .release = coco_release,
    .scan = coco_scan,
    .fresh = coco_fresh,
    .read = dataset_read_file,
    .announce = dataset_announce_file,
    .path = annotated_file,
    .describe = annotated_describe,
    .fields = coco_fields,
    .stated_size = coco_stated_size,
    .own_fields = "objects:objects:boxes",
    .check = coco_check,
};
