/* SPDX-License-Identifier: MIT */
/* coco_file.c - collects images, categories and annotations while the file is read, and joins them
 * at the end, because they may be in any order there.
 *
 * An annotation is kept as a part of the JSON that a field of boxes takes: "bbox", "id", "iscrowd"
 * and "keypoints". Outlines ("segmentation"), most of such a file, are not kept, only where they
 * are. An annotation without "bbox" gets that of its outline. */
#include "config.h"

#include "loader/dataset/coco_file.h"

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
#include "loader/dataset/field_outline.h"

enum coco_list { IMAGES, ANNOTATIONS, CATEGORIES, LISTS };

static const char *const list_names[] = {
    [IMAGES] = "images", [ANNOTATIONS] = "annotations", [CATEGORIES] = "categories"};

void coco_file_fini(struct coco_file *f)
{
    free(f->images);
    free(f->categories);
    free(f->objects);
    free(f->text);
}

/* Append bytes to the texts. */
static int put(struct coco_file *f, const char *bytes, size_t len)
{
    size_t before = f->cap_text;

    if (array_reserve(&f->text, &f->cap_text, f->text_bytes + len, 1) < 0 ||
        index_memory_charge(f->memory, f->cap_text - before) < 0)
        return -ENOMEM;
    memcpy(f->text + f->text_bytes, bytes, len);
    f->text_bytes += len;
    return 0;
}

/* Append JSON without the spaces between its parts. */
static int put_compact(struct coco_file *f, struct json_at value)
{
    const char *from = value.at;
    int r = 0;

    if (json_type(value) == JSON_AT_TEXT)
        return put(f, value.at, (size_t)(value.end - value.at));
    for (const char *at = value.at; at < value.end && r == 0; at++)
        if (strchr(" \t\r\n", *at)) {
            r = put(f, from, (size_t)(at - from));
            from = at + 1;
        }
    return r == 0 ? put(f, from, (size_t)(value.end - from)) : r;
}

/* The members of an entry that are used. An `at` of NULL: it is missing. */
struct coco_entry {
    struct json_at id, image_id, category_id, name, file_name, width, height, iscrowd, segmentation;
    struct json_at kept[3];
};

static const char *const kept_names[] = {"bbox", "keypoints", "num_keypoints"};

static void find_members(struct json_at object, struct coco_entry *ret)
{
    struct {
        const char *name;
        struct json_at *at;
    } wanted[] = {{"id", &ret->id},
                  {"image_id", &ret->image_id},
                  {"category_id", &ret->category_id},
                  {"name", &ret->name},
                  {"file_name", &ret->file_name},
                  {"width", &ret->width},
                  {"height", &ret->height},
                  {"iscrowd", &ret->iscrowd},
                  {"segmentation", &ret->segmentation},
                  {kept_names[0], &ret->kept[0]},
                  {kept_names[1], &ret->kept[1]},
                  {kept_names[2], &ret->kept[2]}};
    struct json_at rest = json_begin_members(object), name, value;

    *ret = (struct coco_entry){.id.at = NULL};
    while (json_next_member(&rest, &name, &value))
        for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
            if (json_is_text(name, wanted[i].name))
                *wanted[i].at = value;
}

/* Get a member that must be an integer. */
static int need_id(struct json_at value, const char *name, int64_t *ret, struct plenum_error *err)
{
    if (!value.at)
        return error_set(err, -EBADMSG, "it has no \"%s\"", name);
    return json_whole(value, ret)
               ? 0
               : error_set(err, -EBADMSG, "its \"%s\" is not a whole number, but %s", name,
                           json_kind(value));
}

/* Get a member that must be a string. */
static int need_text(struct coco_file *f, struct json_at value, const char *name, uint64_t *ret,
                     struct plenum_error *err)
{
    bool sound = true;
    size_t len, before = f->cap_text;

    if (!value.at || json_type(value) != JSON_AT_TEXT)
        return error_set(err, -EBADMSG, "it has no string \"%s\"", name);
    len = json_copy(value, NULL, &sound);
    if (array_reserve(&f->text, &f->cap_text, f->text_bytes + len + 1, 1) < 0 ||
        index_memory_charge(f->memory, f->cap_text - before) < 0)
        return -ENOMEM;
    *ret = f->text_bytes;
    (void)json_copy(value, f->text + f->text_bytes, NULL);
    f->text_bytes += len;
    f->text[f->text_bytes++] = '\0';
    return len > 0 && sound && strlen(f->text + *ret) == len
               ? 0
               : error_set(err, -EBADMSG, "its \"%s\" is empty, or has a NUL or half a character",
                           name);
}

/* Returns a width or height; 0 if it is none. */
static uint32_t side_of(struct json_at value)
{
    int64_t number;

    return value.at && json_whole(value, &number) && number > 0 && number <= UINT32_MAX
               ? (uint32_t)number
               : 0;
}

static int add_image(struct coco_file *f, const struct json_item *item, struct plenum_error *err)
{
    struct coco_image image = {.id = 0};
    struct coco_entry e;
    int r;

    find_members(item->value, &e);
    image.width = side_of(e.width);
    image.height = side_of(e.height);
    r = need_id(e.id, "id", &image.id, err);
    if (r == 0)
        r = need_text(f, e.file_name, "file_name", &image.name, err);
    if (r == 0)
        r = index_memory_grow(f->memory, &f->images, &f->cap_images, f->num_images, sizeof(image));
    if (r == 0)
        f->images[f->num_images++] = image;
    return r;
}

static int add_category(struct coco_file *f, const struct json_item *item, struct plenum_error *err)
{
    struct coco_category category = {.id = 0};
    struct coco_entry e;
    int r;

    find_members(item->value, &e);
    r = need_id(e.id, "id", &category.id, err);
    if (r == 0)
        r = need_text(f, e.name, "name", &category.name, err);
    if (r == 0)
        r = index_memory_grow(f->memory, &f->categories, &f->cap_categories, f->num_categories,
                              sizeof(category));
    if (r == 0)
        f->categories[f->num_categories++] = category;
    return r;
}

/* Append the "bbox" of an outline. */
static int put_box(struct coco_file *f, struct json_at outline, struct plenum_error *err)
{
    struct dataset_buffer numbers = {0}, scratch = {0};
    struct outline o = {.numbers = &numbers, .text = &scratch};
    int r = outline_parse(&o, outline, err), n;
    char text[160];

    dataset_buffer_fini(&numbers);
    dataset_buffer_fini(&scratch);
    if (r < 0)
        return r;
    n = snprintf(text, sizeof(text), ",\"bbox\":[%.17g,%.17g,%.17g,%.17g]", o.edges[0], o.edges[1],
                 o.edges[2] - o.edges[0], o.edges[3] - o.edges[1]);
    return put(f, text, (size_t)n);
}

/* Write the members that are kept, as `"id":7,"iscrowd":0,"bbox":[1,2,3,4]`. */
static int put_object(struct coco_file *f, const struct coco_entry *e, int64_t id, bool crowd,
                      struct plenum_error *err)
{
    char text[64];
    int n = snprintf(text, sizeof(text), "\"id\":%" PRId64 ",\"iscrowd\":%d", id, crowd);
    int r = put(f, text, (size_t)n);

    if (r == 0 && !e->kept[0].at)
        r = put_box(f, e->segmentation, err);
    for (size_t i = 0; i < ARRAY_LEN(kept_names) && r == 0; i++) {
        if (!e->kept[i].at)
            continue;
        n = snprintf(text, sizeof(text), ",\"%s\":", kept_names[i]);
        r = put(f, text, (size_t)n);
        if (r == 0)
            r = put_compact(f, e->kept[i]);
    }
    return r == 0 ? put(f, "", 1) : r;
}

/* Set where an annotation's outline is. */
static void set_outline(struct coco_object *object, const struct coco_entry *e,
                        const struct json_item *item)
{
    size_t len = (size_t)(e->segmentation.end - e->segmentation.at);

    if (!e->segmentation.at)
        return;
    object->outline = item->at + (uint64_t)(e->segmentation.at - item->value.at);
    object->outline_len = (uint32_t)len;
    object->outline_hash = (uint32_t)XXH3_64bits(e->segmentation.at, len);
}

static int add_object(struct coco_file *f, const struct json_item *item, struct plenum_error *err)
{
    struct coco_object object = {.text = f->text_bytes};
    struct coco_entry e;
    bool crowd = false;
    int r;

    find_members(item->value, &e);
    r = need_id(e.id, "id", &object.id, err);
    if (r == 0)
        r = need_id(e.image_id, "image_id", &object.image, err);
    if (r == 0)
        r = need_id(e.category_id, "category_id", &object.category, err);
    if (r == 0 && !e.kept[0].at && !e.segmentation.at)
        r = error_set(err, -EBADMSG, "it has no \"bbox\"");
    if (r == 0 && e.iscrowd.at && !json_flag(e.iscrowd, &crowd))
        r = error_set(err, -EBADMSG,
                      "the \"iscrowd\" of the annotation with id %lld is not 0, 1, true or "
                      "false, but %s",
                      (long long)object.id, json_kind(e.iscrowd));
    if (r == 0)
        r = put_object(f, &e, object.id, crowd, err);
    set_outline(&object, &e, item);
    if (r == 0)
        r = index_memory_grow(f->memory, &f->objects, &f->cap_objects, f->num_objects,
                              sizeof(object));
    if (r == 0)
        f->objects[f->num_objects++] = object;
    return r;
}

static int collect(void *arg, const struct json_item *item, struct plenum_error *err)
{
    static int (*const adds[])(struct coco_file *, const struct json_item *,
                               struct plenum_error *) = {
        [IMAGES] = add_image, [ANNOTATIONS] = add_object, [CATEGORIES] = add_category};
    struct coco_file *f = arg;
    int r;

    for (unsigned list = 0; list < LISTS; list++) {
        if (strcmp(item->member, list_names[list]) != 0)
            continue;
        if (!item->is_list)
            return error_set(err, -EBADMSG, "its \"%s\" is not a list", item->member);
        if (!item->value.at && f->lists & 1u << list)
            return error_set(err, -EBADMSG, "it has two lists \"%s\"", item->member);
        f->lists |= 1u << list;
        if (!item->value.at)
            return 0;
        r = adds[list](f, item, err);
        if (r == -ENOMEM)
            return error_set(err, r, "out of memory");
        return r < 0
                   ? error_prefix(err, r, "entry %" PRIu64 " of \"%s\"", item->number, item->member)
                   : 0;
    }
    return 0;
}

static int by_image_id(const void *a, const void *b)
{
    const struct coco_image *x = a, *y = b;

    return (x->id > y->id) - (x->id < y->id);
}

static int by_category_id(const void *a, const void *b)
{
    const struct coco_category *x = a, *y = b;

    return (x->id > y->id) - (x->id < y->id);
}

/* Order annotations by image, and those of one image as in the file, in which their texts are. */
static int by_image(const void *a, const void *b)
{
    const struct coco_object *x = a, *y = b;

    if (x->image != y->image)
        return x->image < y->image ? -1 : 1;
    return (x->text > y->text) - (x->text < y->text);
}

int64_t coco_file_category(const struct coco_file *f, int64_t id)
{
    struct coco_category key = {.id = id}, *found;

    found = f->num_categories == 0
                ? NULL
                : bsearch(&key, f->categories, f->num_categories, sizeof(key), by_category_id);
    return found ? found - f->categories : -1;
}

/* Check that ids are unique. */
static int check_ids(const struct coco_file *f, struct plenum_error *err)
{
    for (size_t i = 1; i < f->num_images; i++)
        if (f->images[i].id == f->images[i - 1].id)
            return error_set(err, -EBADMSG,
                             "the images '%.200s' and '%.200s' have the same id, %lld",
                             f->text + f->images[i - 1].name, f->text + f->images[i].name,
                             (long long)f->images[i].id);
    for (size_t i = 1; i < f->num_categories; i++)
        if (f->categories[i].id == f->categories[i - 1].id)
            return error_set(err, -EBADMSG,
                             "the categories '%.200s' and '%.200s' have the same id, %lld",
                             f->text + f->categories[i - 1].name, f->text + f->categories[i].name,
                             (long long)f->categories[i].id);
    return 0;
}

/* Check that each annotation belongs to an image and a category. */
static int check_objects(const struct coco_file *f, struct plenum_error *err)
{
    size_t image = 0;

    for (size_t i = 0; i < f->num_objects; i++) {
        const struct coco_object *o = &f->objects[i];

        while (image < f->num_images && f->images[image].id < o->image)
            image++;
        if (image == f->num_images || f->images[image].id != o->image)
            return error_set(err, -EBADMSG,
                             "the annotation with id %lld belongs to image %lld, but no image "
                             "has this id",
                             (long long)o->id, (long long)o->image);
        if (coco_file_category(f, o->category) < 0)
            return error_set(err, -EBADMSG,
                             "the annotation with id %lld, of '%.200s', has the category "
                             "%lld, but no category has this id",
                             (long long)o->id, f->text + f->images[image].name,
                             (long long)o->category);
    }
    return 0;
}

int coco_file_read(struct coco_file *f, const struct json_source *source, struct plenum_error *err)
{
    int r = json_stream_read(source, collect, f, err);

    if (r < 0)
        return r;
    for (unsigned list = 0; list < LISTS; list++)
        if (list != ANNOTATIONS && !(f->lists & 1u << list)) /* test sets have no annotations */
            return error_set(err, -EBADMSG,
                             "it has no list \"%s\", so it does not describe objects in images",
                             list_names[list]);
    if (f->num_images > 1)
        qsort(f->images, f->num_images, sizeof(*f->images), by_image_id);
    if (f->num_categories > 1)
        qsort(f->categories, f->num_categories, sizeof(*f->categories), by_category_id);
    if (f->num_objects > 1)
        qsort(f->objects, f->num_objects, sizeof(*f->objects), by_image);
    r = check_ids(f, err);
    return r == 0 ? check_objects(f, err) : r;
}
