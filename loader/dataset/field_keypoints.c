/* SPDX-License-Identifier: MIT */
/* field_keypoints.c - parses key points in three forms:
 *
 *     {"keypoints": [x, y, v, x, y, v, ...], "category_id": 1, "id": 17, "iscrowd": 0}    COCO
 *     {"keypoints": [[[x, y, v], ...], ...], "labels": [1, ...]}    torchvision's targets
 *     [x, y, v, x, y, v, ...]                                       one object, such as a face
 *
 * COCO's format: https://cocodataset.org/#format-data. v is 0 if the point is not labelled, 1 if it
 * is labelled but hidden, and 2 if it is visible. */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "common/util/error_set.h"
#include "loader/dataset/field_json.h"

/* What has been parsed of a sample. */
struct poses {
    struct dataset_buffer *to;
    uint32_t count;         /* number of objects */
    uint32_t most;          /* most points of an object */
    struct field_pose pose; /* the object that is being parsed */
};

static int put(struct poses *p, const void *bytes, size_t len, struct plenum_error *err)
{
    if (p->to->len + len > FIELD_BYTES_MAX)
        return error_set(err, -EBADMSG, "it has more than 1 MiB of key points");
    return field_append(p->to, bytes, len) < 0 ? error_set(err, -ENOMEM, "out of memory") : 0;
}

static int not_points(const struct poses *p, struct plenum_error *err)
{
    return error_set(err, -EBADMSG,
                     "the key points of object %u are neither numbers x, y, v, x, y, v, ... nor "
                     "lists [x, y, v]",
                     p->count);
}

static int add_point(struct poses *p, const double v[3], struct plenum_error *err)
{
    struct plenum_keypoint point = {.visibility = (float)v[2]};
    uint32_t at = (uint32_t)p->pose.points++;

    if (at == FIELD_POINTS_MAX)
        return error_set(err, -EBADMSG, "object %u has more than %d key points", p->count,
                         FIELD_POINTS_MAX);
    if (v[2] != 0 && v[2] != 1 && v[2] != 2)
        return error_set(err, -EBADMSG,
                         "the visibility of key point %u of object %u is not 0, 1 or 2", at,
                         p->count);
    if (v[2] != 0) { /* otherwise the numbers have no meaning */
        point.x = (float)v[0];
        point.y = (float)v[1];
    }
    if (!isfinite(point.x) || !isfinite(point.y))
        return error_set(err, -EBADMSG, "key point %u of object %u does not fit into float32", at,
                         p->count);
    return put(p, &point, sizeof(point), err);
}

/* Add the points of a list of numbers, three for each. */
static int add_flat(struct poses *p, struct json_at list, struct plenum_error *err)
{
    struct json_at rest = json_begin(list), each;
    double v[3];
    int n = 0, r = 0;

    while (r == 0 && json_next(&rest, &each)) {
        if (!json_double(each, &v[n]))
            return not_points(p, err);
        n = (n + 1) % 3;
        if (n == 0)
            r = add_point(p, v, err);
    }
    return r == 0 && n > 0 ? not_points(p, err) : r;
}

static bool is_list_of_lists(struct json_at value)
{
    struct json_at rest = json_begin(value), first;

    return json_next(&rest, &first) && json_type(first) == JSON_AT_LIST;
}

/* Add the points of a list of numbers, or of a list of lists [x, y, v]. */
static int add_points(struct poses *p, struct json_at list, struct plenum_error *err)
{
    struct json_at rest = json_begin(list), each;
    int r = 0;

    if (json_type(list) != JSON_AT_LIST)
        return not_points(p, err);
    if (!is_list_of_lists(list))
        return add_flat(p, list, err);
    while (r == 0 && json_next(&rest, &each)) {
        uint64_t before = p->pose.points;

        r = json_type(each) == JSON_AT_LIST ? add_flat(p, each, err) : not_points(p, err);
        if (r == 0 && p->pose.points != before + 1)
            return not_points(p, err);
    }
    return r;
}

/* Add an object; `points` is NULL if it has none. */
static int add_pose(struct poses *p, int64_t class_id, int64_t id, const struct json_at *points,
                    struct plenum_error *err)
{
    size_t at = p->to->len;
    int r;

    p->pose = (struct field_pose){.class_id = class_id, .id = id};
    r = put(p, &p->pose, sizeof(p->pose), err);
    if (r == 0 && points)
        r = add_points(p, *points, err);
    if (r < 0)
        return r;
    memcpy(p->to->bytes + at, &p->pose, sizeof(p->pose)); /* now with the number of points */
    p->most = p->pose.points > p->most ? (uint32_t)p->pose.points : p->most;
    p->count++;
    return 0;
}

/* Add an object of COCO, the `index`-th of its list. */
static int add_object(struct poses *p, size_t index, struct json_at object,
                      struct plenum_error *err)
{
    int64_t class_id = 0, number = (int64_t)index;
    struct json_at points, class, id;
    bool has = json_get(object, "keypoints", &points);
    int crowd = field_is_crowd(object, index, err);

    if (json_type(object) != JSON_AT_OBJECT)
        return error_set(err, -EBADMSG, "entry %zu of its list is not an object with \"keypoints\"",
                         index);
    if (crowd != 0)
        return crowd < 0 ? crowd : 0;
    if (json_get(object, "category_id", &class) && !json_whole(class, &class_id))
        return error_set(err, -EBADMSG, "the \"category_id\" of object %zu is not a whole number",
                         index);
    if (json_get(object, "id", &id) && !json_whole(id, &number))
        return error_set(err, -EBADMSG, "the \"id\" of object %zu is not a whole number", index);
    return add_pose(p, class_id, number, has ? &points : NULL, err);
}

static int add_objects(struct poses *p, struct json_at list, struct plenum_error *err)
{
    struct json_at rest = json_begin(list), each;
    int r = 0;

    for (size_t i = 0; r == 0 && json_next(&rest, &each); i++)
        r = add_object(p, i, each, err);
    return r;
}

/* Add the objects of a list of lists of points, whose classes may be in a list, too. */
static int add_targets(struct poses *p, struct json_at list, const struct json_at *labels,
                       struct plenum_error *err)
{
    struct json_at rest = json_begin(list), each, label;
    struct json_at labels_left = labels ? json_begin(*labels) : list;
    int r = 0;

    if (json_type(list) != JSON_AT_LIST)
        return not_points(p, err);
    if (labels && json_type(*labels) != JSON_AT_LIST)
        return error_set(err, -EBADMSG, "its \"labels\" are not a list");
    while (r == 0 && json_next(&rest, &each)) {
        int64_t class_id = 0;

        if (labels && (!json_next(&labels_left, &label) || !json_whole(label, &class_id)))
            return error_set(err, -EBADMSG, "object %u has no whole number in \"labels\"",
                             p->count);
        r = add_pose(p, class_id, p->count, &each, err);
    }
    if (r == 0 && labels && json_next(&labels_left, &label))
        return error_set(err, -EBADMSG, "its \"labels\" are more than its %u objects", p->count);
    return r;
}

/* Returns whether a list has a list of points for each of several objects. */
static bool has_objects(struct json_at list)
{
    struct json_at rest = json_begin(list), first;

    return json_type(list) == JSON_AT_LIST &&
           (!json_next(&rest, &first) || is_list_of_lists(first));
}

static int add_poses(struct poses *p, struct json_at value, struct plenum_error *err)
{
    struct json_at points, labels, list = value, rest, first;
    bool labelled = json_get(value, "labels", &labels);

    if (json_get(value, "keypoints", &points))
        return labelled || has_objects(points)
                   ? add_targets(p, points, labelled ? &labels : NULL, err)
                   : add_object(p, 0, value, err);
    if (json_type(value) == JSON_AT_OBJECT && !json_get(value, "annotations", &list))
        (void)json_get(value, "objects", &list);
    rest = json_begin(list);
    if (json_type(list) != JSON_AT_LIST)
        return error_set(err, -EBADMSG,
                         "it is neither a list of objects with \"keypoints\" nor an object with "
                         "one as \"annotations\" or \"objects\", nor has it \"keypoints\"");
    if (!json_next(&rest, &first) || json_type(first) == JSON_AT_OBJECT)
        return add_objects(p, list, err);
    return has_objects(list) ? add_targets(p, list, NULL, err) : add_pose(p, 0, 0, &list, err);
}

int field_make_keypoints(struct field_stored *s, struct field_piece *ret, struct plenum_error *err)
{
    struct poses p = {.to = &s->numbers};
    struct json_at value;
    int r = field_find(s, &value, err);

    if (r < 0)
        return r;
    s->numbers.len = 0;
    r = put(&p, "", 0, err); /* an empty list is valid */
    if (r == 0)
        r = add_poses(&p, value, err);
    if (r < 0)
        return r;
    assert(s->numbers.len <= FIELD_BYTES_MAX);
    ret->bytes = s->numbers.bytes;
    ret->len = (uint32_t)s->numbers.len;
    ret->shape = (struct field_shape){.type = PLENUM_FIELD_KEYPOINTS,
                                      .dims = 2,
                                      .shape = {p.count, p.most},
                                      .room = (uint32_t)field_poses_bytes(p.count, p.most)};
    return field_check_room(&ret->shape, err);
}
