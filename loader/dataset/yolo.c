/* SPDX-License-Identifier: MIT */
/* yolo.c - implements "yolo:FILE": pictures in the folders and lists of a data.yaml (yolo_yaml.h),
 * with a label file beside each (yolo_label.h).
 *
 * The samples are the pictures of one split, in the order of their paths. A sample's note has the
 * size and hash of its label file (size -1: there is none) and the size of its picture after EXIF
 * orientation. A label file is read again with its sample, and must not have changed. The index is
 * stale when the data.yaml, a list, or a folder of pictures has changed. */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/error_set.h"
#include "common/util/parallel.h"
#include "common/util/util.h"
#include "loader/dataset/annotated.h"
#include "loader/dataset/picture_size.h"
#include "loader/dataset/yolo_label.h"
#include "loader/dataset/yolo_yaml.h"
#include "loader/image/exif.h"

enum { DEPTH_MAX = 32 };

/* The type of dataset->state. */
struct yolo_place {
    char *file; /* data.yaml: absolute, without links */
    struct yolo_yaml yaml;
    struct stamp stamp; /* of the file */
    enum yolo_split split;
    int32_t *classes; /* of each name of the yaml */
};

static const char *const split_names[] = {"train", "val", "test"};

static void yolo_release(struct dataset *d)
{
    struct yolo_place *place = d->state;

    if (!place)
        return;
    yolo_yaml_fini(&place->yaml);
    free(place->classes);
    free(place->file);
    free(place);
}

/* ---- data.yaml ---- */

static struct annotated_categories categories_of(const struct yolo_place *place)
{
    return (struct annotated_categories){.names = (const char *const *)place->yaml.names.all,
                                         .count = (uint32_t)place->yaml.names.count};
}

/* Find the file: the path itself, or data.yaml in a folder. */
static int find_file(struct dataset *d, struct yolo_place *place, struct plenum_error *err)
{
    struct stat st;
    char *named = NULL, *resolved;
    int r = scope_stat(&d->scope, d->where, &st);

    if (r == 0 && S_ISDIR(st.st_mode)) {
        named = str_format("%s/data.yaml", d->where);
        if (!named)
            return error_set(err, -ENOMEM, "out of memory");
    }
    if (r == 0)
        r = scope_resolve(&d->scope, named ? named : d->where, &resolved);
    if (r < 0)
        r = scope_error(&d->scope, err, r, named ? named : d->where);
    free(named);
    if (r < 0)
        return r;
    free(d->where);
    d->where = resolved;
    place->file = strdup(resolved);
    return place->file ? 0 : error_set(err, -ENOMEM, "out of memory");
}

static int read_yaml(const struct dataset *d, struct yolo_place *place, struct plenum_error *err)
{
    struct annotated_categories categories;
    char *text;
    int r = annotated_read_text(d, place->file, &text, &place->stamp, err);

    if (r < 0)
        return r;
    r = yolo_yaml_parse(text, place->stamp.size, &place->yaml, err);
    free(text);
    if (r == 0) {
        categories = categories_of(place);
        place->classes = calloc(categories.count + 1, sizeof(*place->classes));
        r = place->classes ? annotated_number_classes(d, &categories, place->classes, err)
                           : error_set(err, -ENOMEM, "out of memory");
    }
    return r < 0 ? error_prefix(err, r, "%s", place->file) : 0;
}

static int choose_split(const struct dataset *d, struct yolo_place *place, struct plenum_error *err)
{
    const char *name = dataset_setting(d, "split", "train");

    for (int i = 0; i < YOLO_SPLITS; i++) {
        if (strcmp(split_names[i], name) != 0)
            continue;
        place->split = (enum yolo_split)i;
        return place->yaml.splits[i].count > 0
                   ? 0
                   : error_set(err, -EINVAL, "%s: it has no '%s'", place->file, name);
    }
    return error_set(err, -EINVAL, "yolo,split=%s: it must be train, val or test", name);
}

/* Enter the folder that paths of the yaml begin in. */
static int enter_root(struct dataset *d, const struct yolo_place *place, struct plenum_error *err)
{
    const char *root = dataset_setting(d, "root", place->yaml.path);
    char *folder = annotated_folder_of(place->file), *full;
    struct stat st;
    int r;

    full = !folder                  ? NULL
           : root && root[0] == '/' ? strdup(root)
                                    : str_format("%s/%s", folder, root ? root : ".");
    free(folder);
    if (!full)
        return error_set(err, -ENOMEM, "out of memory");
    r = scope_stat(&d->scope, full, &st);
    if (r == -ENOENT || (r == 0 && !S_ISDIR(st.st_mode)))
        r = error_set(err, -ENOENT,
                      "%s: its path, %s, is not a folder: name the folder, as in "
                      "yolo,root=FOLDER:FILE",
                      place->file, full);
    else
        r = dataset_enter(d, full, err);
    free(full);
    return r;
}

static int yolo_locate(struct dataset *d, const struct dataset_options *options,
                       struct plenum_error *err)
{
    struct yolo_place *place = calloc(1, sizeof(*place));
    int r;

    (void)options;
    d->state = place;
    if (!place)
        return error_set(err, -ENOMEM, "out of memory");
    r = find_file(d, place, err);
    if (r == 0)
        r = read_yaml(d, place, err);
    if (r == 0)
        r = choose_split(d, place, err);
    return r == 0 ? enter_root(d, place, err) : r;
}

/* ---- the pictures of a split ---- */

struct yolo_scan {
    const struct dataset *dataset;
    const struct dataset_options *options;
    struct index_builder *builder;
    struct annotated_pictures pictures;
    struct yolo_facts *facts; /* [pictures] */
};

/* A folder that is being read. `up` contains it. */
struct yolo_level {
    const struct yolo_level *up;
    unsigned depth;
    dev_t dev; /* `dev` and `ino` detect a link to a folder above */
    ino_t ino;
};

static int add_folder(struct yolo_scan *s, const char *path, const struct yolo_level *up,
                      struct plenum_error *err);

/* Add an entry of a folder: a picture, or a folder. */
static int add_entry(struct yolo_scan *s, int fd, const char *folder, const char *name,
                     const struct yolo_level *level, struct plenum_error *err)
{
    const struct scope *scope = &s->dataset->scope;
    char *path = str_format("%s/%s", folder, name);
    struct stat st;
    int r = path ? scope_stat_entry(scope, fd, folder, name, &st) : -ENOMEM;

    if (r < 0) {
        r = scope_error(scope, err, r, path ? path : folder);
    } else if (S_ISDIR(st.st_mode)) {
        r = add_folder(s, path, level, err);
    } else if (!S_ISREG(st.st_mode) || !dataset_is_image_name(name)) {
        s->builder->skipped++;
        index_builder_count_foreign(s->builder, name);
    } else {
        if (annotated_add(&s->pictures, path) < 0)
            return error_set(err, -ENOMEM, "out of memory");
        return 0; /* it owns the path */
    }
    free(path);
    return r;
}

/* Stamp an open folder, after checking that it does not contain itself. */
static int enter_folder(int fd, struct yolo_level *level, struct stamp *ret)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return -errno;
    level->dev = st.st_dev;
    level->ino = st.st_ino;
    level->depth = level->up ? level->up->depth + 1 : 0;
    if (level->depth > DEPTH_MAX)
        return -ELOOP;
    for (const struct yolo_level *l = level->up; l; l = l->up)
        if (l->dev == st.st_dev && l->ino == st.st_ino)
            return -ELOOP;
    *ret = stamp_of(fd, &st);
    return 0;
}

/* Add all pictures in a folder and below it. */
static int add_folder(struct yolo_scan *s, const char *path, const struct yolo_level *up,
                      struct plenum_error *err)
{
    const struct scope *scope = &s->dataset->scope;
    struct yolo_level level = {.up = up};
    struct dirent *entry;
    struct stamp stamp;
    DIR *dir;
    int r = scope_open_folder(scope, path, &dir);

    if (r < 0)
        return scope_error(scope, err, r, path);
    r = enter_folder(dirfd(dir), &level, &stamp);
    if (r < 0)
        r = scope_error(scope, err, r, path);
    while (r == 0 && (errno = 0, entry = readdir(dir))) {
        stamp.content += stamp_hash_entry(dirfd(dir), entry);
        r = dataset_check_cancel(s->options);
        if (r == 0 && !dataset_skips_name(entry->d_name))
            r = add_entry(s, dirfd(dir), path, entry->d_name, &level, err);
    }
    if (r == 0 && errno)
        r = scope_error(scope, err, -errno, path);
    (void)closedir(dir);
    if (r == 0 && index_builder_add_container(s->builder, path, &stamp) < 0)
        r = error_set(err, -ENOMEM, "out of memory");
    return r;
}

/* Add the pictures that a list names, one per line; relative paths begin in its folder. */
static int add_list(struct yolo_scan *s, const char *path, struct plenum_error *err)
{
    const char *slash = strrchr(path, '/');
    int prefix = slash ? (int)(slash - path) + 1 : 0;
    struct stamp stamp;
    char *text, *rest;
    int r = annotated_read_text(s->dataset, path, &text, &stamp, err);

    if (r < 0)
        return r;
    if (strlen(text) != stamp.size)
        r = error_set(err, -EBADMSG, "%s: it contains zero bytes, so it is not a list", path);
    rest = text;
    for (char *line; r == 0 && (line = annotated_next_line(&rest));) {
        if (!line[0])
            continue;
        if (line[0] == '.' && line[1] == '/')
            line += 2;
        if (annotated_add(&s->pictures,
                          str_format("%.*s%s", line[0] == '/' ? 0 : prefix, path, line)) < 0)
            r = error_set(err, -ENOMEM, "out of memory");
    }
    free(text);
    if (r == 0 && index_builder_add_container(s->builder, path, &stamp) < 0)
        r = error_set(err, -ENOMEM, "out of memory");
    return r;
}

/* Add the pictures of a folder or list of the yaml. Programs that export such files often write one
 * "../" too many. */
static int add_source(struct yolo_scan *s, const char *written, struct plenum_error *err)
{
    const struct scope *scope = &s->dataset->scope;
    struct stat st;
    char *path;
    int r = scope_stat(scope, written, &st);

    if (r == -ENOENT && strncmp(written, "../", 3) == 0 &&
        scope_stat(scope, written + 3, &st) == 0) {
        written += 3;
        r = 0;
    }
    if (r < 0)
        return scope_error(scope, err, r, written);
    while (strncmp(written, "./", 2) == 0 && written[2])
        written += 2;
    path = strdup(written);
    if (!path)
        return error_set(err, -ENOMEM, "out of memory");
    for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
        path[n - 1] = '\0';
    r = S_ISDIR(st.st_mode) ? add_folder(s, path, NULL, err) : add_list(s, path, err);
    free(path);
    return r;
}

static int list_pictures(struct yolo_scan *s, struct plenum_error *err)
{
    const struct yolo_place *place = s->dataset->state;
    const struct yolo_texts *sources = &place->yaml.splits[place->split];
    int r = 0;

    for (size_t i = 0; i < sources->count && r == 0; i++)
        r = add_source(s, sources->all[i], err);
    annotated_sort(&s->pictures);
    if (r == 0)
        r = annotated_look(s->dataset, s->options, &s->pictures, err);
    return r < 0 && r != -ENOMEM
               ? error_prefix(err, r, "%s, '%s'", place->file, split_names[place->split])
               : r;
}

/* ---- label files ---- */

static const char *find_last_images(const char *path)
{
    const char *found = NULL;

    for (const char *at = strstr(path, "images/"); at; at = strstr(at + 1, "images/"))
        if (at == path || at[-1] == '/')
            found = at;
    return found;
}

/* Write the path of a picture's label file: labels/ instead of the last images/ of its path, and
 * .txt instead of its extension. Only if the path within the root has no images/ is the root
 * searched, so that the other paths do not change when the data set is moved. */
static void label_path(const struct dataset *d, const char *picture, char *ret, size_t size)
{
    static const char folder[] = "images/";
    const char *found = find_last_images(picture), *dot;
    char whole[SCOPE_NAME_MAX];
    int stem;

    if (!found) {
        (void)scope_name(&d->scope, picture, whole, sizeof(whole));
        found = find_last_images(whole);
        picture = found ? whole : picture;
    }
    dot = strrchr(io_base_name(picture), '.');
    stem = (int)((dot ? dot : picture + strlen(picture)) - picture);
    if (found)
        (void)snprintf(ret, size, "%.*slabels/%.*s.txt", (int)(found - picture), picture,
                       stem - (int)(found + strlen(folder) - picture), found + strlen(folder));
    else
        (void)snprintf(ret, size, "%.*s.txt", stem, picture);
}

/* Write the folder of a path. */
static void folder_path(const char *path, char *ret, size_t size)
{
    const char *slash = strrchr(path, '/');

    (void)snprintf(ret, size, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
}

/* Record the folders of label files, so that new ones are noticed. Pictures are in the order of
 * their paths, so those of one folder usually follow one another. */
static int add_label_folders(struct yolo_scan *s, struct plenum_error *err)
{
    char last[DATASET_PATH_MAX] = "", folder[DATASET_PATH_MAX], label[DATASET_PATH_MAX];
    int r = 0;

    for (size_t i = 0; i < s->pictures.count && r == 0; i++) {
        struct stamp stamp;

        label_path(s->dataset, s->pictures.all[i].path, label, sizeof(label));
        folder_path(label, folder, sizeof(folder));
        if (strcmp(folder, last) == 0)
            continue;
        memcpy(last, folder, sizeof(last));
        r = annotated_stamp_folder(s->dataset, folder, &stamp, err);
        if (r == 0 && index_builder_add_container(s->builder, folder, &stamp) < 0)
            r = error_set(err, -ENOMEM, "out of memory");
    }
    return r;
}

/* What a note has. */
struct yolo_facts {
    struct annotated_beside label;
    struct picture_size size;
    struct plenum_error err;
};

static struct picture_size upright(const uint8_t *bytes, size_t len)
{
    struct picture_size size = picture_size_find(bytes, len);
    bool turned = len > 2 && bytes[0] == 0xFF && exif_swaps(exif_of_jpeg(bytes, len));

    return turned ? (struct picture_size){size.height, size.width} : size;
}

/* Get the size of a picture, from its first bytes or, if they do not contain it, from all. */
static int measure(const struct dataset *d, const struct annotated_picture *p,
                   struct picture_size *ret, struct plenum_error *err)
{
    size_t len = min_u64(p->size, FINGERPRINT_BYTES);
    int fd = scope_open(&d->scope, p->path, 0), r = 0;
    uint8_t *bytes;

    *ret = (struct picture_size){0};
    if (fd < 0)
        return scope_error(&d->scope, err, fd, p->path);
    for (bool again = true; again && r == 0 && ret->width == 0 && p->size <= DATASET_SAMPLE_MAX;) {
        bytes = calloc(1, len + DATASET_PADDING);
        r = bytes ? io_pread_all(fd, bytes, len, 0) : -ENOMEM;
        if (r == 0)
            *ret = upright(bytes, len);
        free(bytes);
        again = len < p->size;
        len = p->size;
    }
    (void)close(fd);
    return r == 0 ? 0 : scope_error(&d->scope, err, r == -ENODATA ? -ESTALE : r, p->path);
}

static int find_facts(void *arg, uint64_t index, unsigned thread)
{
    struct yolo_scan *s = arg;
    const struct annotated_picture *p = &s->pictures.all[index];
    struct yolo_facts *f = &s->facts[index];
    char path[DATASET_PATH_MAX], *text;
    int r;

    (void)thread;
    label_path(s->dataset, p->path, path, sizeof(path));
    r = annotated_load(s->dataset, path, &f->label, &text, &f->err);
    free(text);
    return r == 0 ? measure(s->dataset, p, &f->size, &f->err) : r;
}

static void tell_progress(void *arg, uint64_t done, uint64_t total)
{
    const struct yolo_scan *s = arg;

    if (s->options->progress)
        s->options->progress(s->options->progress_arg, "label files and sizes of pictures", done,
                             total);
}

static int find_all_facts(struct yolo_scan *s, struct plenum_error *err)
{
    struct parallel loop = {.count = s->pictures.count,
                            .threads = s->options->threads,
                            .turn = find_facts,
                            .progress = tell_progress,
                            .cancel = s->options->cancel,
                            .arg = s};
    int r = index_memory_charge(s->pictures.memory, loop.count * sizeof(*s->facts));

    s->facts = r == 0 ? calloc(loop.count + 1, sizeof(*s->facts)) : NULL;
    if (!s->facts)
        return error_set(err, -ENOMEM, "out of memory");
    r = parallel_run(&loop);
    for (size_t i = 0; i < loop.count && r < 0; i++)
        if (s->facts[i].err.text[0])
            return error_set(err, r, "%s", s->facts[i].err.text);
    return r;
}

static void warn_of_no_labels(const struct yolo_scan *s)
{
    struct index_builder *b = s->builder;
    char label[DATASET_PATH_MAX];

    label_path(s->dataset, s->pictures.all[0].path, label, sizeof(label));
    (void)snprintf(b->about_labels, sizeof(b->about_labels),
                   "no picture has a label file, so none has objects: that of the first would be "
                   "%.300s",
                   label);
}

static int add_samples(struct yolo_scan *s, struct plenum_error *err)
{
    char label[50], note[100];
    bool labelled = false;
    int r = 0;

    for (size_t i = 0; i < s->pictures.count && r == 0; i++) {
        const struct yolo_facts *f = &s->facts[i];

        labelled |= f->label.exists;
        annotated_put_facts(&f->label, label, sizeof(label));
        (void)snprintf(note, sizeof(note), "%s %u %u", label, f->size.width, f->size.height);
        r = annotated_add_sample(&s->pictures.all[i], note, s->builder, err);
    }
    if (!labelled && s->pictures.count > 0)
        warn_of_no_labels(s);
    return r;
}

static int yolo_scan(const struct dataset *d, const struct dataset_options *options,
                     struct index_builder *b, struct plenum_error *err)
{
    const struct yolo_place *place = d->state;
    struct annotated_categories categories = categories_of(place);
    struct yolo_scan s = {
        .dataset = d, .options = options, .builder = b, .pictures.memory = b->memory};
    int r = index_builder_add_container(b, io_base_name(place->file), &place->stamp) < 0
                ? error_set(err, -ENOMEM, "out of memory")
                : list_pictures(&s, err);

    if (r == 0)
        r = annotated_add_classes(d, &categories, place->classes, b, err);
    if (r == 0)
        r = add_label_folders(&s, err);
    if (r == 0)
        r = find_all_facts(&s, err);
    if (r == 0)
        r = add_samples(&s, err);
    free(s.facts);
    annotated_fini(&s.pictures);
    return r;
}

static bool yolo_fresh(const struct dataset *d)
{
    const struct yolo_place *place = d->state;

    return annotated_is_fresh(d, place->file);
}

/* ---- fields ---- */

static struct yolo_facts facts_of(const char *note)
{
    struct yolo_facts f = {.label = annotated_get_facts(&note)};
    char *at;

    f.size.width = (uint16_t)strtoul(note, &at, 10);
    f.size.height = (uint16_t)strtoul(at, NULL, 10);
    return f;
}

/* Write a sample's objects to `*ret` (malloc). */
static int read_objects(const struct dataset *d, const struct index_sample *sample, char **ret,
                        struct plenum_error *err)
{
    const struct yolo_place *place = d->state;
    struct yolo_facts f = facts_of(annotated_note(d, sample));
    struct yolo_label_form form = {.width = f.size.width,
                                   .height = f.size.height,
                                   .classes = place->classes,
                                   .num_classes = (uint32_t)place->yaml.names.count,
                                   .num_points = place->yaml.num_points,
                                   .point_values = place->yaml.point_values};
    char path[DATASET_PATH_MAX], *text;
    int r;

    label_path(d, index_name(&d->index, sample->name), path, sizeof(path));
    r = annotated_read(d, path, &f.label, &text, err);
    if (r < 0)
        return r;
    if (!text) {
        *ret = strdup("[]");
        return *ret ? 0 : error_set(err, -ENOMEM, "out of memory");
    }
    r = f.size.width == 0 && f.label.size > 0
            ? error_set(err, -EBADMSG, "the size of its picture is not known")
            : yolo_label_read(text, f.label.size, &form, ret, err);
    free(text);
    return r < 0 ? error_prefix(err, r, "%s", path) : 0;
}

static int yolo_fields(const struct dataset *d, const struct index_sample *sample,
                       dataset_field *field, void *arg, struct field_memory *memory,
                       struct plenum_error *err)
{
    char *objects;
    int r = read_objects(d, sample, &objects, err);

    if (r < 0)
        return r;
    if (memory)
        memory->each = max_u64(memory->each, 2 * strlen(objects));
    field(arg, "objects", objects, strlen(objects), false);
    free(objects);
    return 0;
}

/* ---- what plenumctl verify checks ---- */

/* Returns whether a picture has this label file. `label` is within `folder`. */
static bool has_picture(const struct dataset *d, const char *pictures, const char *label)
{
    static const char *const extensions[] = {"jpg", "jpeg", "png", "webp", "avif", "ppm",  "pnm",
                                             "JPG", "JPEG", "PNG", "bmp",  "tif",  "tiff", "gif"};
    char path[DATASET_PATH_MAX + 300];
    struct stat st;

    for (size_t i = 0; i < ARRAY_LEN(extensions); i++) {
        (void)snprintf(path, sizeof(path), "%s/%.*s.%s", pictures, (int)strlen(label) - 4, label,
                       extensions[i]);
        if (scope_stat(&d->scope, path, &st) == 0)
            return true;
    }
    return false;
}

/* Pass on the label files of a folder that have no picture in the folder of pictures. */
static int check_folder(const struct dataset *d, const char *labels, const char *pictures,
                        dataset_fault *fault, void *arg)
{
    struct dirent *entry;
    char text[2 * DATASET_PATH_MAX + 300];
    DIR *dir;
    int r = scope_open_folder(&d->scope, labels, &dir);

    if (r < 0)
        return r == -ENOENT ? 0 : r;
    while (r == 0 && (errno = 0, entry = readdir(dir))) {
        const char *name = entry->d_name;
        size_t len = strlen(name);

        if (dataset_skips_name(name) || len < 5 || strcmp(name + len - 4, ".txt") != 0 ||
            strcmp(name, "classes.txt") == 0 || has_picture(d, pictures, name))
            continue;
        (void)snprintf(text, sizeof(text), "the label file %s/%s has no picture in %s", labels,
                       name, pictures);
        r = fault(arg, DATASET_NO_SAMPLE, text);
    }
    (void)closedir(dir);
    return r;
}

/* Look at each folder of label files. */
static int yolo_check(const struct dataset *d, dataset_fault *fault, void *arg,
                      struct plenum_error *err)
{
    char last[DATASET_PATH_MAX] = "", folder[DATASET_PATH_MAX], label[DATASET_PATH_MAX];
    char labels[DATASET_PATH_MAX];
    int r = 0;

    for (uint32_t i = 0; i < d->index.header->samples && r == 0; i++) {
        const char *path = index_name(&d->index, d->index.samples[i].name);

        folder_path(path, folder, sizeof(folder));
        if (strcmp(folder, last) == 0)
            continue;
        memcpy(last, folder, sizeof(last));
        label_path(d, path, label, sizeof(label));
        folder_path(label, labels, sizeof(labels));
        if (strcmp(labels, folder) != 0) /* beside pictures, there may be other texts */
            r = check_folder(d, labels, folder, fault, arg);
    }
    return r < 0 ? error_set(err, r, "%s", strerror(-r)) : 0;
}

static const struct format_setting settings[] = {
    CLASSES_SETTING,
    {"root", "the folder that the paths of data.yaml begin in, instead of its path"},
    {"split", "train, val or test (train)"},
};

const struct format format_yolo = {
    .name = "yolo",
    .settings = settings,
    .num_settings = ARRAY_LEN(settings),
    .whole_files = true,
    .file = annotated_file,
    .locate = yolo_locate,
    .release = yolo_release,
    .scan = yolo_scan,
    .fresh = yolo_fresh,
    .read = dataset_read_file,
    .announce = dataset_announce_file,
    .path = annotated_file,
    .describe = annotated_describe,
    .fields = yolo_fields,
    .own_fields = "objects:objects:boxes",
    .check = yolo_check,
};
