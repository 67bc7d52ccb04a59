/* SPDX-License-Identifier: MIT */
/* field_json.c - picks members of JSON, and parses boxes in three forms:
 *
 *     {"bbox": [x, y, width, height], "category_id": 3, "id": 17, "iscrowd": 0}    COCO
 *     {"bndbox": {"xmin": 1, "ymin": 1, "xmax": 20, "ymax": 10}, "category_id": 3}  Pascal VOC
 *     {"boxes": [[left, top, right, bottom], ...], "labels": [3, ...]}    torchvision's targets
 *
 * COCO's format: https://cocodataset.org/#format-data. Pascal VOC counts pixels from 1, and xmax
 * and ymax are the last pixels inside (VOC2012 development kit), so 1 ... 20 has the edges 0 and
 * 20. An object of COCO without "bbox" has the edges of its outline. */
#include "config.h"

#include "loader/dataset/field_json.h"

#include <assert.h>
#include <errno.h>
#include <math.h>

#include "common/util/error_set.h"
#include "loader/dataset/field_outline.h"
#include "loader/dataset/number.h"

/* ---- members ---- */

static int put(struct dataset_buffer *to, const void *bytes, size_t len, struct plenum_error *err)
{
    return field_append(to, bytes, len) < 0 ? error_set(err, -ENOMEM, "out of memory") : 0;
}

static int wants(struct json_at value, const char *what, struct plenum_error *err)
{
    const char *hint = "";

    if (json_type(value) == JSON_AT_LIST)
        hint = ": use line to choose one from a list of strings, and int64 or float32 for a list "
               "of numbers";
    else if (json_type(value) == JSON_AT_NUMBER)
        hint = ": use int64 or float32 for numbers";
    else if (json_type(value) == JSON_AT_OBJECT)
        hint = ": name a member of it";
    return error_set(err, -EBADMSG, "it is %s, but %s is needed%s", json_kind(value), what, hint);
}

static const char numbers_are[] = "a number, or a list of numbers,";

static int pick_text(struct json_at value, struct dataset_buffer *to, struct plenum_error *err)
{
    size_t len;

    if (json_type(value) != JSON_AT_TEXT)
        return wants(value, "a string", err);
    len = json_copy(value, NULL, NULL);
    if (field_reserve(to, len) < 0)
        return error_set(err, -ENOMEM, "out of memory");
    (void)json_copy(value, (char *)to->bytes + to->len, NULL);
    return field_append(to, to->bytes + to->len, len);
}

/* Pick a string that contains a decimal number, such as a label. */
static int pick_written_number(struct json_at value, struct dataset_buffer *to,
                               struct plenum_error *err)
{
    size_t begin = to->len;
    int64_t ignored;
    int r = pick_text(value, to, err);

    if (r < 0)
        return r;
    if (!number_is_decimal(
            number_parse((const char *)to->bytes + begin, to->len - begin, &ignored)))
        return wants(value, numbers_are, err);
    return put(to, " ", 1, err);
}

/* Pick a number as spelled, followed by a space. */
static int pick_number(struct json_at value, struct dataset_buffer *to, struct plenum_error *err)
{
    enum json_type type = json_type(value);
    int r;

    if (type == JSON_AT_TRUE || type == JSON_AT_FALSE)
        return put(to, type == JSON_AT_TRUE ? "1 " : "0 ", 2, err);
    if (type == JSON_AT_TEXT)
        return pick_written_number(value, to, err);
    if (type != JSON_AT_NUMBER)
        return wants(value, numbers_are, err);
    r = put(to, value.at, (size_t)(value.end - value.at), err);
    return r < 0 ? r : put(to, " ", 1, err);
}

/* Pick the numbers of a list and of nested lists, in one pass, however deep they are nested. */
static int pick_numbers(struct json_at value, struct dataset_buffer *to, struct plenum_error *err)
{
    struct json_at at;
    int r = 0;

    if (json_type(value) != JSON_AT_LIST)
        return pick_number(value, to, err);
    for (struct json_at rest = json_begin(value); r == 0 && json_next_flat(&rest, &at);)
        r = pick_number(at, to, err);
    return r;
}

static int pick(const struct field_spec *spec, struct json_at value, struct dataset_buffer *to,
                struct plenum_error *err)
{
    struct json_at rest, each;
    int r = 0;

    if (field_is_numbers(spec))
        return pick_numbers(value, to, err);
    if (json_type(value) != JSON_AT_LIST || spec->as == FIELD_AS_TEXT)
        return pick_text(value, to, err);
    for (rest = json_begin(value); r == 0 && json_next(&rest, &each);) {
        r = pick_text(each, to, err);
        if (r == 0)
            r = put(to, "\n", 1, err);
    }
    return r;
}

int field_find(const struct field_stored *s, struct json_at *ret, struct plenum_error *err)
{
    struct json_at root;
    int r = json_parse((const char *)s->bytes.bytes, s->bytes.len, &root, err);

    if (r < 0)
        return r;
    *ret = root;
    if (!s->member || json_member(root, s->member, ret))
        return 0;
    return error_set(err, -EBADMSG, "it has no member '%s'", s->member);
}

int field_pick(const struct field_spec *spec, struct field_stored *s, struct plenum_error *err)
{
    struct json_at value;
    int r = field_find(s, &value, err);

    if (r < 0)
        return r;
    s->picked.len = 0;
    r = put(&s->picked, "", 0, err); /* an empty string is a value, too */
    return r < 0 ? r : pick(spec, value, &s->picked, err);
}

/* ---- boxes ---- */

/* The edges of a box in JSON. */
struct edges {
    double left, top, right, bottom;
    const char *form; /* how they are written, for messages */
};

static int get_four(struct json_at list, double ret[4])
{
    struct json_at rest = json_begin(list), each;
    int count = 0;

    while (json_next(&rest, &each))
        if (count == 4 || !json_double(each, &ret[count++]))
            return -EBADMSG;
    return count == 4 ? 0 : -EBADMSG;
}

static int get_bndbox(struct json_at box, double ret[4])
{
    static const char *const names[] = {"xmin", "ymin", "xmax", "ymax"};
    struct json_at value;

    for (size_t i = 0; i < 4; i++)
        if (!json_get(box, names[i], &value) || !json_double(value, &ret[i]))
            return -EBADMSG;
    return 0;
}

static int set_box(struct plenum_box *ret, size_t index, const struct edges *c,
                   struct plenum_error *err)
{
    ret->left = (float)c->left;
    ret->top = (float)c->top;
    ret->right = (float)c->right;
    ret->bottom = (float)c->bottom;
    if (!isfinite(ret->left) || !isfinite(ret->top) || !isfinite(ret->right) ||
        !isfinite(ret->bottom))
        return error_set(err, -EBADMSG, "box %zu has an edge that does not fit into float32",
                         index);
    if (c->right < c->left || c->bottom < c->top)
        return error_set(err, -EBADMSG, "box %zu ends before it begins: it is %s", index, c->form);
    return 0;
}

static int add_box(struct field_stored *s, const struct plenum_box *box, struct plenum_error *err)
{
    if (s->numbers.len + sizeof(*box) > FIELD_BYTES_MAX)
        return error_set(err, -EBADMSG, "it has more than 1 MiB of boxes");
    return put(&s->numbers, box, sizeof(*box), err);
}

int field_is_crowd(struct json_at object, size_t index, struct plenum_error *err)
{
    struct json_at crowd;
    bool is = false;

    if (json_get(object, "iscrowd", &crowd) && !json_flag(crowd, &is))
        return error_set(err, -EBADMSG,
                         "the \"iscrowd\" of object %zu is not 0, 1, true or false, but %s", index,
                         json_kind(crowd));
    return is;
}

static void set_edges(struct edges *ret, double left, double top, double right, double bottom)
{
    ret->left = left;
    ret->top = top;
    ret->right = right;
    ret->bottom = bottom;
}

/* Get the edges of an outline. */
static int get_outline(struct field_stored *s, struct json_at outline, size_t index,
                       struct edges *ret, struct plenum_error *err)
{
    struct outline o = {.numbers = &s->numbers, .text = &s->picked};
    size_t len = s->numbers.len;
    int r = outline_parse(&o, outline, err);

    s->numbers.len = len;
    ret->form = "\"segmentation\"";
    set_edges(ret, o.edges[0], o.edges[1], o.edges[2], o.edges[3]);
    return r < 0 ? error_prefix(err, r, "box %zu", index) : 0;
}

static int get_edges(struct field_stored *s, struct json_at object, size_t index, struct edges *ret,
                     struct plenum_error *err)
{
    struct json_at bbox, bndbox, outline;
    bool coco = json_get(object, "bbox", &bbox);
    bool voc = !coco && json_get(object, "bndbox", &bndbox);
    double v[4];

    ret->form = coco ? "[x, y, width, height]" : "xmin, ymin, xmax and ymax";
    if (coco && get_four(bbox, v) == 0)
        set_edges(ret, v[0], v[1], v[0] + v[2], v[1] + v[3]);
    else if (voc && get_bndbox(bndbox, v) == 0)
        set_edges(ret, v[0] - 1, v[1] - 1, v[2], v[3]);
    else if (!coco && !voc && json_get(object, "segmentation", &outline))
        return get_outline(s, outline, index, ret, err);
    else if (coco || voc)
        return error_set(err, -EBADMSG, "the \"%s\" of box %zu must be numbers: %s",
                         coco ? "bbox" : "bndbox", index, ret->form);
    else
        return error_set(err, -EBADMSG,
                         "box %zu has neither \"bbox\": [x, y, width, height] nor \"bndbox\" with "
                         "xmin, ymin, xmax and ymax, and no \"segmentation\"",
                         index);
    return 0;
}

int field_get_box(struct field_stored *s, struct json_at object, size_t index,
                  struct plenum_box *ret, struct plenum_error *err)
{
    struct json_at class, id;
    struct edges edges;
    int r = get_edges(s, object, index, &edges, err);

    if (r < 0)
        return r;
    *ret = (struct plenum_box){.id = (int64_t)index};
    if (!json_get(object, "category_id", &class) || !json_whole(class, &ret->class_id))
        return error_set(err, -EBADMSG, "box %zu has no whole number as \"category_id\", its class",
                         index);
    if (json_get(object, "id", &id) && !json_whole(id, &ret->id))
        return error_set(err, -EBADMSG, "the \"id\" of box %zu is not a whole number", index);
    return set_box(ret, index, &edges, err);
}

static int add_object(struct field_stored *s, size_t index, struct json_at object,
                      struct plenum_error *err)
{
    struct plenum_box box;
    int r = field_is_crowd(object, index, err);

    if (r != 0)
        return r < 0 ? r : 0;
    r = field_get_box(s, object, index, &box, err);
    return r < 0 ? r : add_box(s, &box, err);
}

static size_t count_values(struct json_at list)
{
    struct json_at rest = json_begin(list), each;
    size_t count = 0;

    while (json_next(&rest, &each))
        count++;
    return count;
}

static int add_targets(struct field_stored *s, struct json_at boxes, struct json_at labels,
                       struct plenum_error *err)
{
    struct json_at boxes_left = json_begin(boxes), labels_left = json_begin(labels), box, label;
    int r = 0;

    if (json_type(boxes) != JSON_AT_LIST || json_type(labels) != JSON_AT_LIST ||
        count_values(boxes) != count_values(labels))
        return error_set(err, -EBADMSG,
                         "its \"boxes\" and \"labels\" are not lists of the same "
                         "length");
    for (size_t i = 0; r == 0 && json_next(&boxes_left, &box); i++) {
        struct edges edges = {.form = "[left, top, right, bottom]"};
        struct plenum_box found = {.id = (int64_t)i};
        double v[4];

        if (get_four(box, v) < 0)
            return error_set(err, -EBADMSG, "box %zu is not [left, top, right, bottom]", i);
        if (!json_next(&labels_left, &label) || !json_whole(label, &found.class_id))
            return error_set(err, -EBADMSG, "the label of box %zu is not a whole number", i);
        set_edges(&edges, v[0], v[1], v[2], v[3]);
        r = set_box(&found, i, &edges, err);
        if (r == 0)
            r = add_box(s, &found, err);
    }
    return r;
}

static int add_boxes(struct field_stored *s, struct json_at value, struct plenum_error *err)
{
    struct json_at list = value, boxes, labels, rest, each;
    int r = 0;

    if (json_get(value, "boxes", &boxes)) {
        if (!json_get(value, "labels", &labels))
            labels = value; /* rejected, because it is not a list */
        return add_targets(s, boxes, labels, err);
    }
    if (json_type(value) == JSON_AT_OBJECT && !json_get(value, "annotations", &list))
        (void)json_get(value, "objects", &list);
    if (json_type(list) != JSON_AT_LIST)
        return error_set(err, -EBADMSG,
                         "it is neither a list of boxes nor an object with one as \"annotations\", "
                         "\"objects\" or \"boxes\"");
    rest = json_begin(list);
    for (size_t i = 0; r == 0 && json_next(&rest, &each); i++)
        r = add_object(s, i, each, err);
    return r;
}

int field_make_boxes(struct field_stored *s, struct field_piece *ret, struct plenum_error *err)
{
    struct json_at value;
    int r = field_find(s, &value, err);

    if (r < 0)
        return r;
    s->numbers.len = 0;
    r = put(&s->numbers, "", 0, err); /* an empty list is valid */
    if (r == 0)
        r = add_boxes(s, value, err);
    if (r < 0)
        return r;
    assert(s->numbers.len % sizeof(struct plenum_box) == 0 && s->numbers.len <= FIELD_BYTES_MAX);
    ret->bytes = s->numbers.bytes;
    ret->len = (uint32_t)s->numbers.len;
    ret->shape = (struct field_shape){
        .type = PLENUM_FIELD_BOXES,
        .room = (uint32_t)field_boxes_bytes(s->numbers.len / sizeof(struct plenum_box))};
    return 0;
}
