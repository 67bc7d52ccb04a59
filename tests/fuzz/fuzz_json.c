/* SPDX-License-Identifier: MIT */
/* fuzz_json.c - tries any bytes as a JSON text, as a field, as boxes, key points or outlines, and
 * as a number and a label: the result is a value or an error message. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "loader/dataset/field_json.h"
#include "loader/dataset/json_find.h"
#include "loader/dataset/label.h"
#include "loader/dataset/number.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Returns whether the objects have the number of points, and the length, that the shape states. */
static bool are_poses(const struct field_piece *piece)
{
    const uint8_t *at = piece->bytes, *end = at + piece->len;
    uint32_t count = 0, most = 0;

    for (; at < end; count++) {
        struct field_pose pose;

        if ((size_t)(end - at) < sizeof(pose))
            return false;
        memcpy(&pose, at, sizeof(pose));
        at += sizeof(pose);
        if (pose.points > (size_t)(end - at) / sizeof(struct plenum_keypoint))
            return false;
        at += pose.points * sizeof(struct plenum_keypoint);
        most = pose.points > most ? (uint32_t)pose.points : most;
    }
    return field_shape_is_valid(&piece->shape) && count == piece->shape.shape[0] &&
           most == piece->shape.shape[1];
}

/* Returns whether the outlines have the lengths that they and the shape state. */
static bool are_outlines(const struct field_piece *piece)
{
    const uint8_t *at = piece->bytes, *end = at + piece->len;
    uint32_t count = 0;

    for (; at < end; count++) {
        struct field_outline head;
        uint32_t left, number = 0;

        if ((size_t)(end - at) < sizeof(head))
            return false;
        memcpy(&head, at, sizeof(head));
        at += sizeof(head);
        left = head.numbers;
        if (left > (size_t)(end - at) / sizeof(number))
            return false;
        for (uint32_t i = 0; i < head.polygons; i++) { /* each has the number of its points */
            if (left == 0)
                return false;
            memcpy(&number, at + (head.numbers - left) * sizeof(number), sizeof(number));
            if (number < 3 || number > (left - 1) / 2)
                return false;
            left -= 1 + 2 * number;
        }
        for (uint32_t i = 0, last = 0; head.polygons == 0 && i < head.numbers; i++) {
            memcpy(&number, at + i * sizeof(number), sizeof(number));
            if (number < last)
                return false;
            last = number;
        }
        if (head.polygons > 0 ? left > 0 : number != head.height * head.width)
            return false;
        at += head.numbers * sizeof(number);
    }
    return field_shape_is_valid(&piece->shape) && count == piece->shape.shape[0];
}

static void make(enum field_as as, const char *member, const uint8_t *data, size_t size)
{
    struct field_stored s = {.state = FIELD_THERE, .member = member, .json = as == FIELD_AS_FLOAT};
    struct field_spec spec = {.as = as};
    struct field_piece piece = {.bytes = NULL};
    struct plenum_error err = {""};
    int r = field_append(&s.bytes, data, size);

    if (r == 0)
        r = field_make_piece(&spec, &s, &piece, &err);
    if (r < 0 ? r != -EBADMSG || !err.text[0]
              : piece.len > (as == FIELD_AS_INSTANCES ? FIELD_OUTLINES_MAX : FIELD_BYTES_MAX) ||
                    (as == FIELD_AS_INSTANCES && !are_outlines(&piece)) ||
                    (as == FIELD_AS_KEYPOINTS && !are_poses(&piece)) ||
                    (as == FIELD_AS_BOXES &&
                     field_boxes_bytes(piece.len / sizeof(struct plenum_box)) != piece.shape.room))
        abort();
    field_stored_fini(&s, 1);
}

/* Check that an integer that number_parse() accepts as a class number is one for label_read(). */
static void read_label(const char *text, size_t len)
{
    static const struct label_rule rule;
    struct plenum_error err = {""};
    struct label label;
    int64_t value = 0;
    enum number_kind kind = number_parse(text, len, &value);
    int r = label_read(&rule, LABEL_VALUE, text, len, &label, &err);
    float number;

    if (r < 0 ? r != -EBADMSG || !err.text[0] || kind == NUMBER_NONE
              : label.is_open != (kind == NUMBER_NONE) || (!label.is_open && label.class != value))
        abort();
    if ((number_to_float(text, len, &number) == -EINVAL) == number_is_decimal(kind))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const paths[] = {"label", "meta.label", "a.b.c.d"};

    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        struct plenum_error err = {""};
        struct json_value v;
        int r = json_find((const char *)data, size, paths[i], &v, &err);

        if (r < 0 ? (r != -EBADMSG && r != -ENOENT) || !err.text[0]
                  : strnlen(v.text, sizeof(v.text)) == sizeof(v.text))
            abort();
    }
    read_label((const char *)data, size);
    make(FIELD_AS_BOXES, NULL, data, size);
    make(FIELD_AS_FLOAT, NULL, data, size);
    make(FIELD_AS_INT64, NULL, data, size);
    make(FIELD_AS_BOXES, "a.b", data, size);
    make(FIELD_AS_KEYPOINTS, NULL, data, size);
    make(FIELD_AS_KEYPOINTS, "a.b", data, size);
    make(FIELD_AS_INSTANCES, NULL, data, size);
    make(FIELD_AS_INSTANCES, "a.b", data, size);
    make(FIELD_AS_TEXT, "label", data, size);
    make(FIELD_AS_LINE, "label", data, size);
    make(FIELD_AS_FLOAT, "label", data, size);
    make(FIELD_AS_INT64, "meta.label", data, size);
    return 0;
}
