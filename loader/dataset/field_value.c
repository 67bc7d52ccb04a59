/* SPDX-License-Identifier: MIT */
/* field_value.c - converts a field from its stored form to the form that batches deliver. */
#include "config.h"

#include "loader/dataset/field_value.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/text.h"
#include "common/util/util.h"
#include "loader/dataset/field_json.h"
#include "loader/dataset/npy.h"
#include "loader/dataset/number.h"

void field_stored_fini(struct field_stored *all, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        dataset_buffer_fini(&all[i].bytes);
        dataset_buffer_fini(&all[i].picked);
        dataset_buffer_fini(&all[i].numbers);
    }
}

int field_reserve(struct dataset_buffer *buffer, size_t len)
{
    size_t cap = buffer->len + len + DATASET_PADDING;

    if (cap > buffer->cap) {
        uint8_t *grown = realloc(buffer->bytes, cap + cap / 2);

        if (!grown)
            return -ENOMEM;
        buffer->bytes = grown;
        buffer->cap = cap + cap / 2;
    }
    return 0;
}

int field_append(struct dataset_buffer *buffer, const void *bytes, size_t len)
{
    if (field_reserve(buffer, len) < 0)
        return -ENOMEM;
    assert(buffer->cap - buffer->len >= len + DATASET_PADDING);
    memmove(buffer->bytes + buffer->len, bytes, len);
    buffer->len += len;
    memset(buffer->bytes + buffer->len, 0, DATASET_PADDING);
    return 0;
}

bool field_is_numbers(const struct field_spec *spec)
{
    return spec->as == FIELD_AS_INT64 || spec->as == FIELD_AS_FLOAT;
}

static bool is_text(const uint8_t *bytes, size_t len)
{
    for (size_t at = 0, n; at < len; at += n) {
        n = bytes[at] ? text_utf8_length(bytes + at) : 0; /* zeros follow the bytes */
        if (n == 0 || n > len - at)
            return false;
    }
    return true;
}

/* Parse one number of the text and append it to `to`. */
static int add_number(const struct field_spec *spec, bool exact, const char *text, size_t len,
                      struct dataset_buffer *to, struct plenum_error *err)
{
    bool whole = spec->as == FIELD_AS_INT64;
    const char *why = NULL;
    int64_t integer = 0;
    float number = 0;

    if (whole) {
        enum number_kind kind = number_parse(text, len, &integer);

        why = kind == NUMBER_INTEGER ? NULL : number_why_no_integer(kind);
    } else if (!exact || !number_is_special(text, len, &number)) {
        int r = number_to_float(text, len, &number);

        if (r == -ENOMEM)
            return error_set(err, r, "out of memory");
        why = r == -EINVAL ? "is not a decimal number" : r == -ERANGE ? "is beyond float32" : NULL;
    }
    if (why)
        return error_set(err, -EBADMSG, "it has '%.*s', which %s", (int)min_u64(len, 63), text,
                         why);
    if (to->len + sizeof(integer) > FIELD_BYTES_MAX)
        return error_set(err, -EBADMSG, "it has more than 1 MiB of numbers");
    if (field_append(to, whole ? (void *)&integer : (void *)&number,
                     whole ? sizeof(integer) : sizeof(number)) < 0)
        return error_set(err, -ENOMEM, "out of memory");
    return 0;
}

/* Parse numbers separated by whitespace, commas, semicolons or brackets. */
static int make_numbers(const struct field_spec *spec, const struct dataset_buffer *text,
                        struct field_stored *s, struct field_piece *ret, struct plenum_error *err)
{
    static const char between[] = " \t\r\n,;[]()";
    const char *at = (const char *)text->bytes, *end = at + text->len;
    uint32_t count = 0;

    s->numbers.len = 0;
    for (;;) {
        size_t n = 0;
        int r;

        while (at < end && *at && strchr(between, *at))
            at++;
        if (at == end)
            break;
        while (at + n < end && !(at[n] && strchr(between, at[n])))
            n++;
        r = add_number(spec, s->exact || s->member || s->json, at, n, &s->numbers, err);
        if (r < 0)
            return r;
        at += n;
        count++;
    }
    if (count == 0)
        return error_set(err, -EBADMSG, "it contains no number");
    assert(s->numbers.len <= FIELD_BYTES_MAX);
    ret->bytes = s->numbers.bytes;
    ret->len = (uint32_t)s->numbers.len;
    ret->shape = (struct field_shape){.type = spec->as == FIELD_AS_INT64 ? PLENUM_FIELD_INT64
                                                                         : PLENUM_FIELD_FLOAT32,
                                      .dims = count > 1,
                                      .shape = {count > 1 ? count : 0},
                                      .room = (uint32_t)s->numbers.len};
    return 0;
}

/* Parse the PNG header of a mask. The rest is decoded only when the mask is delivered. */
static int parse_mask(const uint8_t *bytes, size_t len, struct field_shape *ret,
                      struct plenum_error *err)
{
    static const uint8_t begin[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n',
                                    0,    0,   0,   13,  'I',  'H',  'D',  'R'};
    enum { DEPTH_AT = 24, COLOUR_AT = 25, GREY = 0, PALETTE = 3 };
    bool wide;

    if (len < 33 || memcmp(bytes, begin, sizeof(begin)) != 0)
        return error_set(err, -EBADMSG, "it is not a PNG, and a mask must be one");
    if (bytes[COLOUR_AT] != GREY && bytes[COLOUR_AT] != PALETTE)
        return error_set(err, -EBADMSG,
                         "it is a colour PNG, but a mask must have indices or grey levels");
    wide = bytes[DEPTH_AT] == 16;
    *ret = (struct field_shape){
        .type = wide ? PLENUM_FIELD_UINT16 : PLENUM_FIELD_UINT8, .room = wide ? 2 : 1, .mask = 1};
    return 0;
}

/* Find the longest line, which determines the size of the field. */
static int measure_lines(const struct dataset_buffer *text, struct field_shape *ret,
                         struct plenum_error *err)
{
    const char *at = (const char *)text->bytes, *end = at + text->len;
    size_t longest = 0, len = 0;

    while (field_next_line(&at, end, &len))
        longest = len > longest ? len : longest;
    *ret = (struct field_shape){.type = PLENUM_FIELD_TEXT, .room = (uint32_t)longest};
    return longest ? 0 : error_set(err, -EBADMSG, "it contains no line");
}

int field_make_piece(const struct field_spec *spec, struct field_stored *s, struct field_piece *ret,
                     struct plenum_error *err)
{
    static const char *const why[FIELD_STATES] = {
        [FIELD_MISSING] = "it is missing",
        [FIELD_TWICE] = "it occurs twice",
        [FIELD_A_LINK] = "it is a link: 'tar --dereference --hard-dereference' stores what it "
                         "leads to",
        [FIELD_SPARSE] = "it is stored with holes: make the archive without --sparse",
    };
    bool picked = s->member || s->json;
    const struct dataset_buffer *bytes = picked ? &s->picked : &s->bytes;
    size_t at = 0;
    int r;

    assert(s->state < FIELD_STATES);
    if (s->state != FIELD_THERE)
        return error_set(err, -EBADMSG, "%s", why[s->state]);
    if (s->too_long)
        return error_set(err, -EBADMSG, "it has more than 4 MiB");
    if (s->count > 1 && !field_is_numbers(spec) && spec->as != FIELD_AS_LINE)
        return error_set(err, -EBADMSG, "it has %u values, but only one is allowed", s->count);
    if (spec->as == FIELD_AS_BOXES)
        return field_make_boxes(s, ret, err);
    if (spec->as == FIELD_AS_KEYPOINTS)
        return field_make_keypoints(s, ret, err);
    if (spec->as == FIELD_AS_INSTANCES)
        return field_make_instances(s, ret, err);
    r = picked ? field_pick(spec, s, err) : 0;
    if (r < 0)
        return r;
    if (field_is_numbers(spec))
        return make_numbers(spec, bytes, s, ret, err);
    if (spec->as == FIELD_AS_NPY) {
        r = npy_parse(s->bytes.bytes, s->bytes.len, &ret->shape, &at, err);
        ret->bytes = r < 0 ? NULL : s->bytes.bytes + at;
        ret->len = ret->shape.room;
        return r;
    }
    ret->bytes = bytes->bytes;
    ret->len = (uint32_t)bytes->len;
    if (spec->as == FIELD_AS_MASK)
        return parse_mask(s->bytes.bytes, s->bytes.len, &ret->shape, err);
    if (bytes->len > FIELD_BYTES_MAX)
        return error_set(err, -EBADMSG, "it has more than 1 MiB");
    if (spec->as != FIELD_AS_BYTES && !is_text(bytes->bytes, bytes->len))
        return error_set(err, -EBADMSG, "it is not UTF-8 text");
    if (spec->as == FIELD_AS_LINE)
        return measure_lines(bytes, &ret->shape, err);
    ret->shape = (struct field_shape){.type = spec->as == FIELD_AS_TEXT ? PLENUM_FIELD_TEXT
                                                                        : PLENUM_FIELD_BYTES,
                                      .room = (uint32_t)bytes->len};
    return 0;
}

int field_check_room(const struct field_shape *shape, struct plenum_error *err)
{
    if (shape->type != PLENUM_FIELD_KEYPOINTS || field_shape_is_valid(shape))
        return 0;
    return error_set(err, -EBADMSG,
                     "%u objects with %u key points each, the most of any object, would take more "
                     "than 1 MiB",
                     shape->shape[0], shape->shape[1]);
}

char *field_name_shape(const struct field_shape *shape, char *ret, size_t size)
{
    static const char *const types[PLENUM_FIELD_TYPES] = {
        "text",    "bytes",   "bool",   "int8",      "uint8",    "int16",
        "uint16",  "int32",   "uint32", "int64",     "uint64",   "float16",
        "float32", "float64", "boxes",  "keypoints", "instances"};
    size_t at;

    assert(shape->type < PLENUM_FIELD_TYPES);
    at = (size_t)snprintf(ret, size, "%s", types[shape->type]);
    for (uint32_t i = 0; i < shape->dims && at < size; i++)
        at += (size_t)snprintf(ret + at, size - at, "%s[%u]", i ? "" : " ", shape->shape[i]);
    return ret;
}
