/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "common/data/fields.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/util.h"

static const char *const as_names[FIELD_AS_COUNT] = {
    "text", "bytes", "npy", "int64", "float32", "mask", "line", "boxes", "keypoints", "instances"};

/* COCO's points: nose, then the left and right eye, ear, shoulder, elbow, wrist, hip, knee and
 * ankle. */
static const char coco_pairs[] = "1-2 3-4 5-6 7-8 9-10 11-12 13-14 15-16";

/* Returns a word without surrounding spaces, up to `stop` or the end. */
static const char *take_word(const char **at, const char *end, char stop, size_t *len)
{
    const char *word = *at, *close = memchr(word, stop, (size_t)(end - word));

    close = close ? close : end;
    *at = close < end ? close + 1 : NULL;
    while (word < close && *word == ' ')
        word++;
    while (close > word && close[-1] == ' ')
        close--;
    *len = (size_t)(close - word);
    return word;
}

static bool is_name(const char *text)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";

    return *text && !(*text >= '0' && *text <= '9') && text[strspn(text, letters)] == '\0';
}

static int set_text(const char *text, size_t len, const char *what, char *ret, size_t size,
                    struct plenum_error *err)
{
    if (len == 0 || len >= size)
        return error_set(err, -EINVAL, "fields: the %s '%.*s' %s", what, (int)min_u64(len, 200),
                         text, len ? "is too long" : "is empty");
    memcpy(ret, text, len);
    ret[len] = '\0';
    return 0;
}

static int parse_as(const char *word, size_t len, enum field_as *ret, struct plenum_error *err)
{
    for (int i = 0; i < FIELD_AS_COUNT; i++)
        if (strlen(as_names[i]) == len && memcmp(as_names[i], word, len) == 0) {
            *ret = (enum field_as)i;
            return 0;
        }
    return error_set(err, -EINVAL,
                     "fields: '%.*s' is not a kind of field: use text, bytes, npy, int64, float32, "
                     "mask, line, boxes, keypoints or instances",
                     (int)min_u64(len, 200), word);
}

/* Parse "0.25", without floating point. */
static int parse_visible(const char *word, size_t len, uint32_t *ret, struct plenum_error *err)
{
    uint32_t value = 0, unit = FIELD_VISIBLE_ONE;
    bool point = false, digits = false;
    size_t i;

    for (i = 0; i < len && unit > 0 && value <= FIELD_VISIBLE_ONE; i++) {
        if (word[i] == '.' && !point) {
            point = true;
            continue;
        }
        if (word[i] < '0' || word[i] > '9')
            break;
        digits = true;
        unit = point ? unit / 10 : unit;
        value = (point ? value : 10 * value) + (uint32_t)(word[i] - '0') * unit;
    }
    *ret = value;
    if (i == len && digits && unit > 0 && value <= FIELD_VISIBLE_ONE)
        return 0;
    return error_set(err, -EINVAL,
                     "fields: '%.*s' is not a valid share of a box: it must be 0 to 1, with at "
                     "most 4 decimal places",
                     (int)min_u64(len, 200), word);
}

/* Parse a number of at most 4 digits, up to `*at`. */
static bool take_number(const char **at, const char *end, uint32_t *ret)
{
    const char *begin = *at;

    *ret = 0;
    while (*at < end && **at >= '0' && **at <= '9' && *at - begin < 4)
        *ret = 10 * *ret + (uint32_t)(*(*at)++ - '0');
    return *at > begin;
}

static bool is_paired(const struct field_spec *spec, uint32_t point)
{
    for (uint32_t i = 0; i < spec->pairs; i++)
        if (spec->pair[i][0] == point || spec->pair[i][1] == point)
            return true;
    return false;
}

/* Parse "1-2 3-4", or "coco". */
static int parse_pairs(const char *word, size_t len, struct field_spec *ret,
                       struct plenum_error *err)
{
    bool coco = len == 4 && memcmp(word, "coco", 4) == 0;
    const char *at = coco ? coco_pairs : word, *end = at + (coco ? strlen(coco_pairs) : len);

    while (at < end) {
        uint32_t left, right;

        if (!take_number(&at, end, &left) || at == end || *at++ != '-' ||
            !take_number(&at, end, &right) || (at < end && *at != ' ') || left == right ||
            left >= FIELD_POINTS_MAX || right >= FIELD_POINTS_MAX || is_paired(ret, left) ||
            is_paired(ret, right) || ret->pairs == FIELD_PAIRS_MAX)
            break;
        ret->pair[ret->pairs][0] = (uint16_t)left;
        ret->pair[ret->pairs++][1] = (uint16_t)right;
        while (at < end && *at == ' ')
            at++;
        if (at == end)
            return 0;
    }
    return error_set(err, -EINVAL,
                     "fields: '%.*s' are not pairs of left and right points: use \"coco\", or "
                     "numbers from 0 to %d such as \"1-2 3-4\", each at most once",
                     (int)min_u64(len, 200), word, FIELD_POINTS_MAX - 1);
}

/* Parse NAME[:SOURCE[:AS[:VISIBLE or PAIRS]]]. */
static int parse_one(const char *text, size_t len, struct field_spec *ret, struct plenum_error *err)
{
    const char *at = text, *end = text + len, *word;
    size_t n;
    int r;

    ret->as = FIELD_AS_TEXT;
    ret->visible = ret->pairs = 0;
    word = take_word(&at, end, ':', &n);
    r = set_text(word, n, "name", ret->name, sizeof(ret->name), err);
    if (r < 0)
        return r;
    if (!is_name(ret->name))
        return error_set(err, -EINVAL,
                         "fields: '%s' is not a valid field name: use letters, digits and _, with "
                         "no digit at the beginning; write a field as NAME:SOURCE:KIND",
                         ret->name);
    if (at)
        word = take_word(&at, end, ':', &n);
    r = set_text(word, n, "source", ret->source, sizeof(ret->source), err);
    if (r < 0 || !at)
        return r;
    word = take_word(&at, end, ':', &n);
    r = parse_as(word, n, &ret->as, err);
    if (r == 0 && at && (ret->as == FIELD_AS_BOXES || ret->as == FIELD_AS_INSTANCES)) {
        word = take_word(&at, end, ':', &n);
        r = parse_visible(word, n, &ret->visible, err);
    } else if (r == 0 && at && ret->as == FIELD_AS_KEYPOINTS) {
        word = take_word(&at, end, ':', &n);
        r = parse_pairs(word, n, ret, err);
    }
    if (r == 0 && at)
        r = error_set(err, -EINVAL, "fields: '%.*s' has more parts than NAME:SOURCE:KIND",
                      (int)min_u64(len, 200), text);
    return r;
}

/* Write a spec at offset `at` of the text; returns the new length. */
static size_t put_spec(struct fields *fields, size_t at, const struct field_spec *spec)
{
    size_t size = sizeof(fields->text);

    if (at < size)
        at += (size_t)snprintf(fields->text + at, size - at, "%s%s:%s:%s", at ? "," : "",
                               spec->name, spec->source, as_names[spec->as]);
    if (spec->visible > 0 && at < size)
        at +=
            (size_t)snprintf(fields->text + at, size - at, ":%u.%04u",
                             spec->visible / FIELD_VISIBLE_ONE, spec->visible % FIELD_VISIBLE_ONE);
    for (uint32_t i = 0; i < spec->pairs && at < size; i++)
        at += (size_t)snprintf(fields->text + at, size - at, "%c%u-%u", i ? ' ' : ':',
                               spec->pair[i][0], spec->pair[i][1]);
    return at;
}

int fields_parse(const char *text, struct fields *ret, struct plenum_error *err)
{
    const char *at = text, *end = text + strlen(text);
    size_t n = 0;

    *ret = (struct fields){.count = 0};
    if (text[strspn(text, " ")] == '\0')
        return 0;
    while (at) {
        struct field_spec *spec = &ret->spec[ret->count];
        const char *word;
        size_t len;
        int r;

        if (ret->count == FIELDS_MAX)
            return error_set(err, -EINVAL, "fields: a sample can have at most %d", FIELDS_MAX);
        word = take_word(&at, end, ',', &len);
        r = parse_one(word, len, spec, err);
        if (r < 0)
            return r;
        for (uint32_t i = 0; i < ret->count; i++)
            if (strcmp(ret->spec[i].name, spec->name) == 0)
                return error_set(err, -EINVAL, "fields: '%s' is given twice", spec->name);
        n = put_spec(ret, n, spec);
        ret->count++;
    }
    if (n >= sizeof(ret->text))
        return error_set(err, -EINVAL, "fields: the list is longer than %d bytes",
                         FIELDS_TEXT_MAX - 1);
    return 0;
}

/* Returns the rest after the first "json." that is a whole component of a source. */
static const char *behind_json(const char *source)
{
    static const char begin[] = "json.", within[] = ".json.";
    const char *at = strstr(source, within);

    if (strncmp(source, begin, strlen(begin)) == 0)
        return source + strlen(begin);
    return at ? at + strlen(within) : NULL;
}

bool field_names_member(const struct field_spec *spec)
{
    return behind_json(spec->source) != NULL;
}

const char *field_member(const struct field_spec *spec)
{
    bool whole =
        spec->as == FIELD_AS_BYTES || spec->as == FIELD_AS_NPY || spec->as == FIELD_AS_MASK;

    return whole ? NULL : behind_json(spec->source);
}

size_t field_extension_len(const struct field_spec *spec)
{
    const char *member = field_member(spec);

    assert(!member || member > spec->source);
    return member ? (size_t)(member - spec->source) - 1 : strlen(spec->source);
}

static bool have(const struct fields *fields, enum field_as as)
{
    for (uint32_t i = 0; i < fields->count; i++)
        if (fields->spec[i].as == as)
            return true;
    return false;
}

bool fields_follow_pixels(const struct fields *fields)
{
    return have(fields, FIELD_AS_MASK) || have(fields, FIELD_AS_BOXES) ||
           have(fields, FIELD_AS_KEYPOINTS) || have(fields, FIELD_AS_INSTANCES);
}

bool fields_have_keypoints(const struct fields *fields)
{
    return have(fields, FIELD_AS_KEYPOINTS);
}

bool fields_have_instances(const struct fields *fields)
{
    return have(fields, FIELD_AS_INSTANCES);
}

bool fields_are_new(const struct fields *fields)
{
    for (uint32_t i = 0; i < fields->count; i++)
        if (fields->spec[i].as == FIELD_AS_BOXES || field_member(&fields->spec[i]))
            return true;
    return false;
}

const char *field_next_line(const char **at, const char *end, size_t *len)
{
    static const char blanks[] = " \t\r";

    while (*at < end) {
        const char *line = *at, *stop = memchr(line, '\n', (size_t)(end - line)), *p;

        stop = stop ? stop : end;
        *at = stop < end ? stop + 1 : end;
        if (stop > line && stop[-1] == '\r')
            stop--;
        for (p = line; p < stop && *p && strchr(blanks, *p); p++)
            continue;
        if (p < stop) {
            assert(line < stop && stop <= end);
            *len = (size_t)(stop - line);
            return line;
        }
    }
    return NULL;
}

uint32_t field_item_bytes(uint32_t type)
{
    static const uint8_t bytes[PLENUM_FIELD_TYPES] = {
        [PLENUM_FIELD_BOOL] = 1,    [PLENUM_FIELD_INT8] = 1,    [PLENUM_FIELD_UINT8] = 1,
        [PLENUM_FIELD_INT16] = 2,   [PLENUM_FIELD_UINT16] = 2,  [PLENUM_FIELD_INT32] = 4,
        [PLENUM_FIELD_UINT32] = 4,  [PLENUM_FIELD_INT64] = 8,   [PLENUM_FIELD_UINT64] = 8,
        [PLENUM_FIELD_FLOAT16] = 2, [PLENUM_FIELD_FLOAT32] = 4, [PLENUM_FIELD_FLOAT64] = 8,
    };

    return type < PLENUM_FIELD_TYPES ? bytes[type] : 0;
}

uint64_t field_image_bytes(const struct field_shape *shape, uint64_t pixels)
{
    assert(shape->mask || field_is_of_image(shape));
    if (shape->mask)
        return shape->room * pixels;
    return shape->room +
           (shape->type == PLENUM_FIELD_INSTANCES ? shape->shape[0] * field_bits_bytes(pixels) : 0);
}

void field_shape_grow(struct field_shape *shape, const struct field_shape *by)
{
    for (int i = 0; i < 2 && field_is_of_image(by); i++)
        shape->shape[i] = by->shape[i] > shape->shape[i] ? by->shape[i] : shape->shape[i];
    if (by->type == PLENUM_FIELD_KEYPOINTS)
        shape->room = (uint32_t)field_poses_bytes(shape->shape[0], shape->shape[1]);
    else
        shape->room = by->room > shape->room ? by->room : shape->room;
}

void field_shape_repeat(struct field_shape *shape, uint32_t pictures)
{
    if (shape->type == PLENUM_FIELD_BOXES)
        shape->room = (uint32_t)field_boxes_bytes((size_t)field_boxes_most(shape->room) * pictures);
    if (shape->type != PLENUM_FIELD_KEYPOINTS && shape->type != PLENUM_FIELD_INSTANCES)
        return;
    shape->shape[0] *= pictures;
    shape->room = shape->type == PLENUM_FIELD_INSTANCES
                      ? (uint32_t)field_instances_bytes(shape->shape[0])
                      : (uint32_t)field_poses_bytes(shape->shape[0], shape->shape[1]);
}

static bool keypoints_are_valid(const struct field_shape *shape)
{
    const size_t most = FIELD_BYTES_MAX / sizeof(struct plenum_pose);

    return shape->mask == 0 && shape->dims == 2 && shape->shape[2] == 0 && shape->shape[3] == 0 &&
           shape->shape[0] <= most && shape->shape[1] <= FIELD_POINTS_MAX &&
           shape->room <= FIELD_BYTES_MAX + field_poses_bytes(0, 0) &&
           shape->room == field_poses_bytes(shape->shape[0], shape->shape[1]);
}

static bool instances_are_valid(const struct field_shape *shape)
{
    return shape->mask == 0 && shape->dims == 1 && shape->shape[0] <= FIELD_INSTANCES_MAX &&
           shape->shape[1] == 0 && shape->shape[2] == 0 && shape->shape[3] == 0 &&
           shape->room == field_instances_bytes(shape->shape[0]);
}

bool field_shape_is_valid(const struct field_shape *shape)
{
    uint64_t bytes = field_item_bytes(shape->type);

    if (shape->type == PLENUM_FIELD_KEYPOINTS)
        return keypoints_are_valid(shape);
    if (shape->type == PLENUM_FIELD_INSTANCES)
        return instances_are_valid(shape);
    if (shape->type == PLENUM_FIELD_BOXES)
        return shape->mask == 0 && shape->dims == 0 && shape->shape[0] == 0 &&
               shape->room >= field_boxes_bytes(0) &&
               shape->room <= FIELD_BYTES_MAX + field_boxes_bytes(0) &&
               field_boxes_bytes(field_boxes_most(shape->room)) == shape->room;
    if (shape->mask)
        return shape->mask == 1 && shape->dims == 0 &&
               (shape->type == PLENUM_FIELD_UINT8 || shape->type == PLENUM_FIELD_UINT16) &&
               shape->room == bytes;
    if (shape->type >= PLENUM_FIELD_TYPES || shape->dims > PLENUM_FIELD_DIMS_MAX ||
        shape->room == 0 || shape->room > FIELD_BYTES_MAX)
        return false;
    for (uint32_t i = 0; i < PLENUM_FIELD_DIMS_MAX; i++) {
        if (i >= shape->dims && shape->shape[i] != 0)
            return false;
        if (i < shape->dims && (shape->shape[i] == 0 || shape->shape[i] > FIELD_BYTES_MAX))
            return false;
        bytes = i < shape->dims ? bytes * shape->shape[i] : bytes;
        if (bytes > FIELD_BYTES_MAX)
            return false;
    }
    return field_varies(shape) ? shape->dims == 0 : bytes == shape->room;
}

bool field_shape_is_as(const struct field_shape *shape, enum field_as as)
{
    if (as == FIELD_AS_MASK || shape->mask)
        return as == FIELD_AS_MASK && shape->mask;
    switch (as) {
    case FIELD_AS_TEXT:
    case FIELD_AS_LINE:
        return shape->type == PLENUM_FIELD_TEXT;
    case FIELD_AS_BYTES:
        return shape->type == PLENUM_FIELD_BYTES;
    case FIELD_AS_NPY:
        return field_item_bytes(shape->type) > 0;
    case FIELD_AS_INT64:
        return shape->type == PLENUM_FIELD_INT64;
    case FIELD_AS_FLOAT:
        return shape->type == PLENUM_FIELD_FLOAT32;
    case FIELD_AS_BOXES:
        return shape->type == PLENUM_FIELD_BOXES;
    case FIELD_AS_KEYPOINTS:
        return shape->type == PLENUM_FIELD_KEYPOINTS;
    case FIELD_AS_INSTANCES:
        return shape->type == PLENUM_FIELD_INSTANCES;
    case FIELD_AS_MASK:
    case FIELD_AS_COUNT:
        break;
    }
    return false;
}
