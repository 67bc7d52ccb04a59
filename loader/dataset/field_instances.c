/* SPDX-License-Identifier: MIT */
/* field_instances.c - parses the outlines of objects, in the form of COCO:
 *
 *     {"segmentation": [[x, y, x, y, x, y]], "bbox": [x, y, width, height], "category_id": 3}
 *
 * COCO's format: https://cocodataset.org/#format-data. An object's box decides whether an image
 * shows it, so that a field of boxes and one of instances have the same objects. */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/util/error_set.h"
#include "loader/dataset/field_json.h"
#include "loader/dataset/field_outline.h"

static int put(struct field_stored *s, const struct field_outline *head, struct plenum_error *err)
{
    if (s->numbers.len + sizeof(*head) > FIELD_OUTLINES_MAX)
        return error_set(err, -EBADMSG, "its outline and those before it have more than 4 MiB");
    return field_append(&s->numbers, head, sizeof(*head)) < 0
               ? error_set(err, -ENOMEM, "out of memory")
               : 0;
}

/* Parse the outline of an object whose box is known. */
static int add_outline(struct field_stored *s, const struct plenum_box *box,
                       const struct json_at *value, struct plenum_error *err)
{
    struct outline o = {.numbers = &s->numbers, .text = &s->picked};
    struct field_outline head = {.box = *box};
    size_t at = s->numbers.len;
    int r = value ? put(s, &head, err) : error_set(err, -EBADMSG, "it has no \"segmentation\"");

    if (r == 0)
        r = outline_parse(&o, *value, err);
    if (r < 0)
        return error_prefix(err, r, "the object with id %lld", (long long)box->id);
    head.polygons = o.polygons;
    head.height = o.height;
    head.width = o.width;
    head.numbers = o.count;
    assert(s->numbers.len == at + sizeof(head) + o.count * sizeof(uint32_t));
    memcpy(s->numbers.bytes + at, &head, sizeof(head));
    return 0;
}

static int add_object(struct field_stored *s, size_t index, struct json_at object, uint32_t *count,
                      struct plenum_error *err)
{
    struct json_at outline;
    struct plenum_box box;
    bool has = json_get(object, "segmentation", &outline);
    int r = field_is_crowd(object, index, err);

    if (json_type(object) != JSON_AT_OBJECT)
        return error_set(err, -EBADMSG,
                         "entry %zu of its list is not an object with \"segmentation\"", index);
    if (r != 0)
        return r < 0 ? r : 0;
    r = field_get_box(s, object, index, &box, err);
    if (r < 0)
        return r;
    if (*count == FIELD_INSTANCES_MAX)
        return error_set(err, -EBADMSG, "it has more than %d objects", FIELD_INSTANCES_MAX);
    ++*count;
    return add_outline(s, &box, has ? &outline : NULL, err);
}

static int add_objects(struct field_stored *s, struct json_at value, uint32_t *count,
                       struct plenum_error *err)
{
    struct json_at list = value, rest, each;
    int r = 0;

    if (json_type(value) == JSON_AT_OBJECT && !json_get(value, "annotations", &list))
        (void)json_get(value, "objects", &list);
    if (json_type(list) != JSON_AT_LIST)
        return error_set(err, -EBADMSG,
                         "it is neither a list of objects with \"segmentation\" nor an object with "
                         "one as \"annotations\" or \"objects\"");
    rest = json_begin(list);
    for (size_t i = 0; r == 0 && json_next(&rest, &each); i++)
        r = add_object(s, i, each, count, err);
    return r;
}

int field_make_instances(struct field_stored *s, struct field_piece *ret, struct plenum_error *err)
{
    struct json_at value;
    uint32_t count = 0;
    int r = field_find(s, &value, err);

    if (r < 0)
        return r;
    s->numbers.len = 0;
    r = field_append(&s->numbers, "", 0) < 0 ? error_set(err, -ENOMEM, "out of memory") : 0;
    if (r == 0)
        r = add_objects(s, value, &count, err);
    if (r < 0)
        return r;
    assert(s->numbers.len <= FIELD_OUTLINES_MAX);
    ret->bytes = s->numbers.bytes;
    ret->len = (uint32_t)s->numbers.len;
    ret->shape = (struct field_shape){.type = PLENUM_FIELD_INSTANCES,
                                      .dims = 1,
                                      .shape = {count},
                                      .room = (uint32_t)field_instances_bytes(count)};
    return 0;
}
