/* SPDX-License-Identifier: MIT */
/* thrift.c - reads Thrift's compact protocol. Integers are zigzag varints. A field's head has the
 * difference from the previous field's number in its upper four bits, and the type in its lower
 * four. */
#include "config.h"

#include "loader/dataset/thrift.h"

#include <assert.h>

#include "loader/dataset/bit_packed.h"

enum {
    DEPTH_MAX = 32,  /* nesting of skipped values */
    VARINT_MAX = 10, /* bytes */
    LONG = 15,       /* the size of a list follows as a varint */
};

static void fail(struct thrift *t)
{
    t->bad = true;
    t->at = t->end;
}

/* Set the error that the bytes have ended. */
static void fail_cut(struct thrift *t)
{
    t->cut = t->cut || !t->bad;
    fail(t);
}

static size_t bytes_left(const struct thrift *t)
{
    assert(t->at <= t->end);
    return (size_t)(t->end - t->at);
}

static uint8_t take_byte(struct thrift *t)
{
    if (bytes_left(t) == 0) {
        fail_cut(t);
        return 0;
    }
    return *t->at++;
}

static uint64_t take_varint(struct thrift *t)
{
    const uint8_t *begin = t->at;
    uint64_t value;

    if (varint_take(&t->at, t->end, &value))
        return value;
    if (t->at - begin < VARINT_MAX)
        fail_cut(t);
    else
        fail(t);
    return 0;
}

static int64_t take_zigzag(struct thrift *t)
{
    return (int64_t)varint_of_zigzag(take_varint(t));
}

static void skip_bytes(struct thrift *t, uint64_t count)
{
    if (count > bytes_left(t))
        fail_cut(t);
    else
        t->at += count;
}

bool thrift_next(struct thrift *t, struct thrift_field *f)
{
    uint8_t head = take_byte(t);
    int64_t id;

    if (t->bad || head == THRIFT_STOP)
        return false;
    f->type = head & 0x0f;
    id = head >> 4 ? f->id + (head >> 4) : take_zigzag(t);
    if (t->bad || id < 0 || id > INT16_MAX || f->type == THRIFT_STOP || f->type > THRIFT_STRUCT) {
        fail(t);
        return false;
    }
    f->id = (int32_t)id;
    return true;
}

int64_t thrift_int(struct thrift *t, const struct thrift_field *f)
{
    if (f->type == THRIFT_BYTE)
        return (int8_t)take_byte(t);
    if (f->type == THRIFT_I16 || f->type == THRIFT_I32 || f->type == THRIFT_I64)
        return take_zigzag(t);
    fail(t);
    return 0;
}

bool thrift_bool(struct thrift *t, const struct thrift_field *f)
{
    if (f->type != THRIFT_TRUE && f->type != THRIFT_FALSE)
        fail(t);
    return f->type == THRIFT_TRUE;
}

size_t thrift_binary(struct thrift *t, const struct thrift_field *f, const uint8_t **ret)
{
    uint64_t len = f->type == THRIFT_BINARY ? take_varint(t) : 0;

    *ret = t->at;
    if (f->type != THRIFT_BINARY)
        fail(t);
    skip_bytes(t, len);
    return t->bad ? 0 : (size_t)len;
}

bool thrift_struct(struct thrift *t, const struct thrift_field *f)
{
    if (f->type != THRIFT_STRUCT)
        fail(t);
    return !t->bad;
}

/* Take the head of a list. Sets the elements' type and returns their number. */
static size_t take_list(struct thrift *t, enum thrift_type *type)
{
    uint8_t head = take_byte(t);
    uint64_t count = head >> 4 == LONG ? take_varint(t) : head >> 4;

    *type = head & 0x0f;
    if (count > bytes_left(t)) /* each element takes at least one byte */
        fail_cut(t);
    return t->bad ? 0 : (size_t)count;
}

size_t thrift_list(struct thrift *t, const struct thrift_field *f, enum thrift_type type)
{
    enum thrift_type found = type;
    size_t count = 0;

    if (f->type == THRIFT_LIST)
        count = take_list(t, &found);
    else
        fail(t);
    if (count > 0 && found != type)
        fail(t);
    return t->bad ? 0 : count;
}

static void skip_value(struct thrift *t, enum thrift_type type, bool in_list, unsigned depth);

static void skip_struct(struct thrift *t, unsigned depth)
{
    struct thrift_field f = {0};

    while (thrift_next(t, &f))
        skip_value(t, f.type, false, depth);
}

static void skip_list(struct thrift *t, unsigned depth)
{
    enum thrift_type type;
    size_t count = take_list(t, &type);

    for (size_t i = 0; i < count && !t->bad; i++)
        skip_value(t, type, true, depth);
}

static void skip_map(struct thrift *t, unsigned depth)
{
    uint64_t count = take_varint(t);
    uint8_t types = count > 0 ? take_byte(t) : 0;

    for (uint64_t i = 0; i < count && !t->bad; i++) {
        skip_value(t, types >> 4, true, depth);
        skip_value(t, types & 0x0f, true, depth);
    }
}

/* Skip a value. A boolean is part of a field's head, but takes a byte in a list. */
static void skip_value(struct thrift *t, enum thrift_type type, bool in_list, unsigned depth)
{
    if (depth == DEPTH_MAX)
        fail(t);
    else if (type == THRIFT_TRUE || type == THRIFT_FALSE)
        skip_bytes(t, in_list);
    else if (type == THRIFT_BYTE)
        skip_bytes(t, 1);
    else if (type == THRIFT_DOUBLE)
        skip_bytes(t, 8);
    else if (type == THRIFT_I16 || type == THRIFT_I32 || type == THRIFT_I64)
        (void)take_varint(t);
    else if (type == THRIFT_BINARY)
        skip_bytes(t, take_varint(t));
    else if (type == THRIFT_LIST || type == THRIFT_SET)
        skip_list(t, depth + 1);
    else if (type == THRIFT_MAP)
        skip_map(t, depth + 1);
    else if (type == THRIFT_STRUCT)
        skip_struct(t, depth + 1);
    else
        fail(t);
}

void thrift_skip(struct thrift *t, enum thrift_type type)
{
    skip_value(t, type, false, 0);
}
