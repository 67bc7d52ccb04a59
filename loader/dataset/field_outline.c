/* SPDX-License-Identifier: MIT */
/* field_outline.c - parses polygons and run lengths, with limits, because any program can write
 * them.
 *
 * pycocotools compresses run lengths as follows (cocodataset.org, "Data format"): each number is
 * written in characters from '0' on, five bits each, lowest first, with 32 added except in the last
 * one, whose bit 16 is the sign. From the fourth run on, the number is the difference from the run
 * before the previous one. */
#include "config.h"

#include "loader/dataset/field_outline.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/util.h"
#include "loader/dataset/field_value.h"

enum { SIDE_MAX = UINT16_MAX - 1, DIGITS_MAX = 7, COORDINATE_MAX = 1000000 };

/* Run lengths while they are read. */
struct outline_runs {
    struct outline *to;
    uint64_t end, all;    /* pixels so far, and of the whole mask */
    uint64_t previous[2]; /* the last two runs */
    uint32_t left, right; /* columns of pixels that belong to the object */
    uint32_t top, bottom; /* rows */
};

static int put(struct outline *o, const void *number, struct plenum_error *err)
{
    if (o->numbers->len + sizeof(uint32_t) > FIELD_OUTLINES_MAX)
        return error_set(err, -EBADMSG, "its outline and those before it have more than 4 MiB");
    o->count++;
    return field_append(o->numbers, number, sizeof(uint32_t)) < 0
               ? error_set(err, -ENOMEM, "out of memory")
               : 0;
}

/* ---- polygons ---- */

static int put_coordinate(struct outline *o, double value, int axis, struct plenum_error *err)
{
    float number = (float)value;

    if (!(fabs(value) <= COORDINATE_MAX))
        return error_set(err, -EBADMSG, "its polygon %u has a number beyond -%d to %d", o->polygons,
                         COORDINATE_MAX, COORDINATE_MAX);
    o->edges[axis] = fmin(o->edges[axis], value);
    o->edges[axis + 2] = fmax(o->edges[axis + 2], value);
    return put(o, &number, err);
}

static int add_polygon(struct outline *o, struct json_at list, struct plenum_error *err)
{
    struct json_at rest = json_begin(list), each;
    size_t at = o->numbers->len;
    uint32_t points = 0, numbers = 0;
    int r = put(o, &points, err);

    while (r == 0 && json_next(&rest, &each)) {
        double value;

        if (!json_double(each, &value))
            return error_set(err, -EBADMSG, "its polygon %u has %s among its numbers", o->polygons,
                             json_kind(each));
        r = put_coordinate(o, value, (int)(numbers++ % 2), err);
    }
    if (r < 0)
        return r;
    if (json_type(list) != JSON_AT_LIST || numbers % 2 > 0 || numbers < 6)
        return error_set(err, -EBADMSG,
                         "its polygon %u has %u numbers, but x and y of at least 3 points are "
                         "needed",
                         o->polygons, numbers);
    points = numbers / 2;
    memcpy(o->numbers->bytes + at, &points, sizeof(points));
    o->polygons++;
    return 0;
}

static int add_polygons(struct outline *o, struct json_at list, struct plenum_error *err)
{
    struct json_at rest = json_begin(list), each;
    int r = 0;

    o->edges[0] = o->edges[1] = INFINITY;
    o->edges[2] = o->edges[3] = -INFINITY;
    while (r == 0 && json_next(&rest, &each))
        r = add_polygon(o, each, err);
    if (r == 0 && o->polygons == 0)
        return error_set(err, -EBADMSG, "its \"segmentation\" is empty");
    return r;
}

/* ---- run lengths ---- */

/* Extend the rectangle around the object's pixels by a run of them. */
static void extend(struct outline_runs *runs, uint64_t begin, uint64_t end)
{
    uint32_t height = runs->to->height;
    uint32_t first = (uint32_t)(begin / height), last = (uint32_t)((end - 1) / height);
    bool whole = first < last; /* it continues in the next column */
    uint32_t top = whole ? 0 : (uint32_t)(begin % height);
    uint32_t bottom = whole ? height : (uint32_t)((end - 1) % height) + 1;

    runs->left = runs->right == 0 ? first : runs->left;
    runs->right = last + 1;
    runs->top = top < runs->top ? top : runs->top;
    runs->bottom = bottom > runs->bottom ? bottom : runs->bottom;
}

static int add_run(struct outline_runs *runs, int64_t length, struct plenum_error *err)
{
    struct outline *o = runs->to;
    uint32_t end;

    if (length < 0 || (uint64_t)length > runs->all - runs->end)
        return error_set(err, -EBADMSG,
                         "its run %u has %lld pixels, but %llu are left of a mask of %u x %u",
                         o->count, (long long)length, (unsigned long long)(runs->all - runs->end),
                         o->height, o->width);
    if (o->count % 2 == 1 && length > 0)
        extend(runs, runs->end, runs->end + (uint64_t)length);
    runs->end += (uint64_t)length;
    runs->previous[0] = runs->previous[1];
    runs->previous[1] = (uint64_t)length;
    end = (uint32_t)runs->end;
    return put(o, &end, err);
}

static int read_list(struct outline_runs *runs, struct json_at list, struct plenum_error *err)
{
    struct json_at rest = json_begin(list), each;
    int64_t length;
    int r = 0;

    while (r == 0 && json_next(&rest, &each)) {
        if (!json_whole(each, &length))
            return error_set(err, -EBADMSG, "its \"counts\" have %s that is not a whole number",
                             json_kind(each));
        r = add_run(runs, length, err);
    }
    return r;
}

/* Read a compressed number, and move `*at` behind it. Returns false if it is invalid. */
static bool take_number(const uint8_t **at, const uint8_t *end, int64_t *ret)
{
    for (unsigned digit = 0; digit < DIGITS_MAX && *at < end; digit++) {
        unsigned bits = (unsigned)*(*at)++ - '0';

        if (bits > 63)
            return false;
        *ret = (digit == 0 ? 0 : *ret) | (int64_t)(bits & 31) << 5 * digit;
        if (bits & 32)
            continue;
        if (bits & 16)
            *ret -= INT64_C(1) << 5 * (digit + 1);
        return true;
    }
    return false;
}

static int read_text(struct outline_runs *runs, struct json_at text, struct plenum_error *err)
{
    struct dataset_buffer *buffer = runs->to->text;
    const uint8_t *at, *end;
    size_t len = json_copy(text, NULL, NULL);
    int r = 0;

    buffer->len = 0;
    if (len > FIELD_OUTLINES_MAX)
        return error_set(err, -EBADMSG, "its \"counts\" have more than 4 MiB");
    if (field_reserve(buffer, len) < 0)
        return error_set(err, -ENOMEM, "out of memory");
    (void)json_copy(text, (char *)buffer->bytes, NULL);
    at = buffer->bytes;
    end = at + len;
    while (r == 0 && at < end) {
        int64_t length = 0;

        if (!take_number(&at, end, &length))
            return error_set(err, -EBADMSG,
                             "its \"counts\" are not compressed run lengths, at character %zu",
                             (size_t)(at - buffer->bytes));
        length += runs->to->count > 2 ? (int64_t)runs->previous[0] : 0;
        r = add_run(runs, length, err);
    }
    return r;
}

static bool get_size(struct json_at value, uint32_t ret[2])
{
    struct json_at size, rest, each;
    int64_t number;
    int count = 0;

    if (!json_get(value, "size", &size))
        return false;
    rest = json_begin(size);
    for (; json_next(&rest, &each); count++) {
        if (count == 2 || !json_whole(each, &number) || number < 1 || number > SIDE_MAX)
            return false;
        ret[count] = (uint32_t)number;
    }
    return count == 2;
}

static int add_runs(struct outline *o, struct json_at value, struct plenum_error *err)
{
    struct outline_runs runs = {.to = o, .top = UINT32_MAX};
    struct json_at counts;
    uint32_t size[2] = {0};
    int r;

    if (!get_size(value, size) || (uint64_t)size[0] * size[1] > UINT32_MAX)
        return error_set(err, -EBADMSG,
                         "its \"segmentation\" has no \"size\" [height, width] of 1 to %d each",
                         SIDE_MAX);
    o->height = size[0];
    o->width = size[1];
    runs.all = (uint64_t)size[0] * size[1];
    if (!json_get(value, "counts", &counts) ||
        (json_type(counts) != JSON_AT_LIST && json_type(counts) != JSON_AT_TEXT))
        return error_set(err, -EBADMSG,
                         "its \"segmentation\" has no \"counts\", a list of run lengths or a "
                         "string of compressed ones");
    r = json_type(counts) == JSON_AT_LIST ? read_list(&runs, counts, err)
                                          : read_text(&runs, counts, err);
    if (r < 0)
        return r;
    if (runs.end != runs.all)
        return error_set(
            err, -EBADMSG, "its run lengths have %llu pixels, but a mask of %u x %u has %llu",
            (unsigned long long)runs.end, o->height, o->width, (unsigned long long)runs.all);
    if (runs.right > 0) {
        o->edges[0] = runs.left;
        o->edges[1] = runs.top;
        o->edges[2] = runs.right;
        o->edges[3] = runs.bottom;
    }
    return 0;
}

int outline_parse(struct outline *outline, struct json_at value, struct plenum_error *err)
{
    struct outline *o = outline;

    o->polygons = o->height = o->width = o->count = 0;
    memset(o->edges, 0, sizeof(o->edges));
    if (json_type(value) == JSON_AT_LIST)
        return add_polygons(o, value, err);
    if (json_type(value) == JSON_AT_OBJECT)
        return add_runs(o, value, err);
    return error_set(err, -EBADMSG,
                     "its \"segmentation\" is %s, but must be a list of polygons, or an object "
                     "with \"size\" and \"counts\"",
                     json_kind(value));
}
