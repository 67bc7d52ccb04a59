/* SPDX-License-Identifier: MIT */
/* field_json.c - members of JSON, and boxes, which have three forms:
 *
 *     {"bbox": [x, y, width, height], "category_id": 3, "id": 17, "iscrowd": 0}    COCO
 *     {"bndbox": {"xmin": 1, "ymin": 1, "xmax": 20, "ymax": 10}, "category_id": 3}  Pascal VOC
 *     {"boxes": [[left, top, right, bottom], ...], "labels": [3, ...]}    torchvision's targets
 *
 * COCO's format: https://cocodataset.org/#format-data. Pascal VOC counts pixels from 1, and xmax
 * and ymax are of the last ones inside (VOC2012 development kit), so 1 ... 20 are the edges 0 and
 * 20. */
#include "config.h"

#include "loader/dataset/field_json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "common/error.h"
#include "loader/dataset/json_find.h"

/* ---- members ---- */

static int put(struct dataset_buffer *to, const void *bytes, size_t len, struct plenum_error *err)
{
    return field_append(to, bytes, len) < 0 ? error_set(err, -ENOMEM, "out of memory") : 0;
}

static int wants(const json_t *value, const char *what, struct plenum_error *err)
{
    const char *hint = "";

    if (json_is_array(value))
        hint = ": line draws one of a list of texts, int64 and float32 are for one of numbers";
    else if (json_is_number(value))
        hint = ": numbers are int64 or float32";
    else if (json_is_object(value))
        hint = ": name a member of it";
    return error_set(err, -EBADMSG, "it is %s, and %s is wanted%s", json_kind(value), what, hint);
}

/* A whole number is exact, or is none: where one of a JSON is beyond int64, all are doubles. */
static int pick_number(const struct field_spec *spec, const json_t *value,
                       struct dataset_buffer *to, struct plenum_error *err)
{
    int64_t whole;
    char text[64];
    int n;

    if (json_is_number(value) && spec->as == FIELD_AS_INT64 && !json_whole(value, &whole))
        return error_set(err, -EBADMSG, "%.17g is no whole number that can be read exactly",
                         json_number_value(value));
    if (json_is_number(value) && spec->as == FIELD_AS_INT64)
        n = snprintf(text, sizeof(text), "%" PRId64 " ", whole);
    else if (json_is_integer(value))
        n = snprintf(text, sizeof(text), "%" JSON_INTEGER_FORMAT " ", json_integer_value(value));
    else if (json_is_real(value))
        n = snprintf(text, sizeof(text), "%.17g ", json_real_value(value));
    else if (json_is_boolean(value))
        n = snprintf(text, sizeof(text), "%d ", json_is_true(value));
    else
        return wants(value, "a number, or a list of numbers,", err);
    return put(to, text, (size_t)n, err);
}

static int pick_text(const json_t *value, struct dataset_buffer *to, struct plenum_error *err)
{
    if (!json_is_string(value))
        return wants(value, "a text", err);
    return put(to, json_string_value(value), json_string_length(value), err);
}

static int pick(const struct field_spec *spec, const json_t *value, struct dataset_buffer *to,
                struct plenum_error *err)
{
    bool numbers = field_is_numbers(spec);
    size_t i;
    json_t *each;
    int r = 0;

    if (!json_is_array(value) || spec->as == FIELD_AS_TEXT)
        return numbers ? pick_number(spec, value, to, err) : pick_text(value, to, err);
    json_array_foreach(value, i, each)
    {
        r = numbers ? pick(spec, each, to, err) : pick_text(each, to, err);
        if (r == 0 && !numbers)
            r = put(to, "\n", 1, err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* The value that is wanted: `*ret_root` is for json_decref(). */
static int find(const struct field_stored *s, json_t **ret_root, json_t **ret,
                struct plenum_error *err)
{
    int r = json_parse((const char *)s->bytes.bytes, s->bytes.len, ret_root, err);

    if (r < 0)
        return r;
    *ret = s->member ? json_member(*ret_root, s->member) : *ret_root;
    if (*ret)
        return 0;
    json_decref(*ret_root);
    return error_set(err, -EBADMSG, "it has no member '%s'", s->member);
}

int field_pick(const struct field_spec *spec, struct field_stored *s, struct plenum_error *err)
{
    json_t *root, *value;
    int r = find(s, &root, &value, err);

    if (r < 0)
        return r;
    s->picked.len = 0;
    r = put(&s->picked, "", 0, err); /* the text may be empty */
    if (r == 0)
        r = pick(spec, value, &s->picked, err);
    json_decref(root);
    return r;
}

/* ---- boxes ---- */

/* As JSON has a box: edges, or where it begins and its sides. */
struct corners {
    double left, top, right, bottom;
};

static int get_number(const json_t *value, double *ret)
{
    *ret = json_number_value(value);
    return json_is_number(value) ? 0 : -EBADMSG;
}

static int get_four(const json_t *list, double ret[4])
{
    int r = json_array_size(list) == 4 ? 0 : -EBADMSG;

    for (size_t i = 0; i < 4 && r == 0; i++)
        r = get_number(json_array_get(list, i), &ret[i]);
    return r;
}

static int get_bndbox(const json_t *box, double ret[4])
{
    static const char *const names[] = {"xmin", "ymin", "xmax", "ymax"};
    int r = 0;

    for (size_t i = 0; i < 4 && r == 0; i++)
        r = get_number(json_object_get(box, names[i]), &ret[i]);
    return r;
}

static int add_box(struct field_stored *s, size_t index, const struct corners *c, int64_t class_id,
                   int64_t id, const char *form, struct plenum_error *err)
{
    struct plenum_box box = {.left = (float)c->left,
                             .top = (float)c->top,
                             .right = (float)c->right,
                             .bottom = (float)c->bottom,
                             .class_id = class_id,
                             .id = id};

    if (c->right < c->left || c->bottom < c->top)
        return error_set(err, -EBADMSG, "box %zu ends before it begins: it is %s", index, form);
    if (s->numbers.len + sizeof(box) > FIELD_BYTES_MAX)
        return error_set(err, -EBADMSG, "it has more than 1 MiB of boxes");
    return put(&s->numbers, &box, sizeof(box), err);
}

static int add_object(struct field_stored *s, size_t index, const json_t *object,
                      struct plenum_error *err)
{
    const json_t *bbox = json_object_get(object, "bbox");
    const json_t *bndbox = json_object_get(object, "bndbox");
    const json_t *class = json_object_get(object, "category_id");
    const json_t *id = json_object_get(object, "id"), *crowd = json_object_get(object, "iscrowd");
    const char *form = bbox ? "[x, y, width, height]" : "xmin, ymin, xmax and ymax";
    int64_t class_id = 0, number = (int64_t)index;
    struct corners c;
    double v[4];

    if (json_is_true(crowd) || json_number_value(crowd) != 0)
        return 0; /* a region, not an object */
    if (get_four(bbox, v) == 0)
        c = (struct corners){v[0], v[1], v[0] + v[2], v[1] + v[3]};
    else if (!bbox && get_bndbox(bndbox, v) == 0)
        c = (struct corners){v[0] - 1, v[1] - 1, v[2], v[3]};
    else if (bbox || bndbox)
        return error_set(err, -EBADMSG, "the \"%s\" of box %zu must be numbers: %s",
                         bbox ? "bbox" : "bndbox", index, form);
    else
        return error_set(err, -EBADMSG,
                         "box %zu has neither \"bbox\": [x, y, width, height] nor \"bndbox\" with "
                         "xmin, ymin, xmax and ymax",
                         index);
    if (!class || !json_whole(class, &class_id))
        return error_set(err, -EBADMSG,
                         "box %zu has no whole number as \"category_id\", which is its class",
                         index);
    if (id && !json_whole(id, &number))
        return error_set(err, -EBADMSG, "the \"id\" of box %zu is no whole number", index);
    return add_box(s, index, &c, class_id, number, form, err);
}

static int add_targets(struct field_stored *s, const json_t *boxes, const json_t *labels,
                       struct plenum_error *err)
{
    size_t n = json_array_size(boxes);
    int r = 0;

    if (!json_is_array(boxes) || json_array_size(labels) != n)
        return error_set(err, -EBADMSG, "its \"boxes\" and \"labels\" are no lists of one length");
    for (size_t i = 0; i < n && r == 0; i++) {
        int64_t class_id;
        double v[4];

        if (get_four(json_array_get(boxes, i), v) < 0)
            return error_set(err, -EBADMSG, "box %zu is not [left, top, right, bottom]", i);
        if (!json_whole(json_array_get(labels, i), &class_id))
            return error_set(err, -EBADMSG, "the label of box %zu is no whole number", i);
        r = add_box(s, i, &(struct corners){v[0], v[1], v[2], v[3]}, class_id, (int64_t)i,
                    "[left, top, right, bottom]", err);
    }
    return r;
}

static int add_boxes(struct field_stored *s, const json_t *value, struct plenum_error *err)
{
    const json_t *list = value, *boxes = json_object_get(value, "boxes"), *each;
    size_t i;
    int r = 0;

    if (boxes)
        return add_targets(s, boxes, json_object_get(value, "labels"), err);
    if (json_is_object(value)) {
        list = json_object_get(value, "annotations");
        list = list ? list : json_object_get(value, "objects");
    }
    if (!json_is_array(list))
        return error_set(err, -EBADMSG,
                         "it is no list of boxes, nor an object with one as \"annotations\", "
                         "\"objects\" or \"boxes\"");
    json_array_foreach(list, i, each)
    {
        r = add_object(s, i, each, err);
        if (r < 0)
            break;
    }
    return r;
}

int field_make_boxes(struct field_stored *s, struct field_piece *ret, struct plenum_error *err)
{
    json_t *root, *value;
    int r = find(s, &root, &value, err);

    if (r < 0)
        return r;
    s->numbers.len = 0;
    r = put(&s->numbers, "", 0, err); /* there may be none */
    if (r == 0)
        r = add_boxes(s, value, err);
    json_decref(root);
    if (r < 0)
        return r;
    ret->bytes = s->numbers.bytes;
    ret->len = (uint32_t)s->numbers.len;
    ret->shape = (struct field_shape){
        .type = PLENUM_FIELD_BOXES,
        .room = (uint32_t)field_boxes_bytes(s->numbers.len / sizeof(struct plenum_box))};
    return 0;
}
