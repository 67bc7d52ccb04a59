/* SPDX-License-Identifier: MIT */
/* npy.c - parses "\x93NUMPY", two bytes of version, the length of the header, and the header, a
 * Python dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }. */
#include "config.h"

#include "loader/dataset/npy.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/util.h"
#include "loader/dataset/number.h"

static const char magic[6] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};

struct npy_text {
    const char *at, *end;
    uint32_t most; /* maximum bytes of the array */
};

static int damaged(struct plenum_error *err)
{
    return error_set(err, -EBADMSG, "it is not an array in NumPy's format, or it is damaged");
}

static void skip_blanks(struct npy_text *t)
{
    assert(t->at <= t->end);
    while (t->at < t->end && (*t->at == ' ' || *t->at == '\n'))
        t->at++;
}

/* Consume `word` if it comes next. */
static bool take(struct npy_text *t, const char *word)
{
    size_t len = strlen(word);

    skip_blanks(t);
    if ((size_t)(t->end - t->at) < len || memcmp(t->at, word, len) != 0)
        return false;
    t->at += len;
    return true;
}

/* Consume a quoted string, and return it without its quotes. */
static bool take_quoted(struct npy_text *t, const char **ret, size_t *len)
{
    const char *close;

    if (!take(t, "'"))
        return false;
    close = memchr(t->at, '\'', (size_t)(t->end - t->at));
    if (!close)
        return false;
    *ret = t->at;
    *len = (size_t)(close - t->at);
    t->at = close + 1;
    return true;
}

static bool take_number(struct npy_text *t, uint64_t *ret)
{
    const char *begin;

    skip_blanks(t);
    begin = t->at;
    for (*ret = 0; t->at < t->end && number_is_digit(*t->at) && t->at - begin < 12; t->at++)
        *ret = *ret * 10 + (uint64_t)(*t->at - '0');
    return t->at > begin;
}

/* Parse a shape: (), (3,), (3, 4). */
static int take_shape(struct npy_text *t, struct field_shape *ret, struct plenum_error *err)
{
    uint64_t bytes = field_item_bytes(ret->type), n;

    if (!take(t, "("))
        return damaged(err);
    while (!take(t, ")")) {
        if (!take_number(t, &n) || (!take(t, ",") && (t->at >= t->end || *t->at != ')')))
            return damaged(err);
        if (ret->dims == PLENUM_FIELD_DIMS_MAX)
            return error_set(err, -EBADMSG, "its array has more than %d dimensions",
                             PLENUM_FIELD_DIMS_MAX);
        bytes = n > t->most ? UINT64_MAX : bytes * n;
        if (bytes == 0 || bytes > t->most)
            return error_set(err, -EBADMSG, "its array %s",
                             bytes == 0 ? "is empty" : "has more than 1 MiB");
        assert(n > 0 && n <= t->most);
        ret->shape[ret->dims++] = (uint32_t)n;
    }
    assert(bytes > 0 && bytes <= UINT32_MAX);
    ret->room = (uint32_t)bytes;
    return 0;
}

static int take_type(struct npy_text *t, struct field_shape *ret, struct plenum_error *err)
{
    static const struct {
        const char *text;
        enum plenum_field_type type;
    } types[] = {{"|b1", PLENUM_FIELD_BOOL},    {"|i1", PLENUM_FIELD_INT8},
                 {"|u1", PLENUM_FIELD_UINT8},   {"<i2", PLENUM_FIELD_INT16},
                 {"<u2", PLENUM_FIELD_UINT16},  {"<i4", PLENUM_FIELD_INT32},
                 {"<u4", PLENUM_FIELD_UINT32},  {"<i8", PLENUM_FIELD_INT64},
                 {"<u8", PLENUM_FIELD_UINT64},  {"<f2", PLENUM_FIELD_FLOAT16},
                 {"<f4", PLENUM_FIELD_FLOAT32}, {"<f8", PLENUM_FIELD_FLOAT64}};
    const char *descr;
    size_t len;

    if (!take_quoted(t, &descr, &len))
        return damaged(err);
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        if (strlen(types[i].text) == len && memcmp(types[i].text, descr, len) == 0) {
            ret->type = types[i].type;
            return 0;
        }
    return error_set(err, -EBADMSG,
                     "its array holds '%.*s': only little-endian numbers of 1 to 8 bytes and bool "
                     "can be fields",
                     (int)min_u64(len, 40), descr);
}

/* Parse the three entries, in alphabetical order, as NumPy writes them. */
static int parse_header(struct npy_text *t, struct field_shape *ret, struct plenum_error *err)
{
    int r;

    if (!take(t, "{") || !take(t, "'descr'") || !take(t, ":"))
        return damaged(err);
    r = take_type(t, ret, err);
    if (r < 0)
        return r;
    if (!take(t, ",") || !take(t, "'fortran_order'") || !take(t, ":"))
        return damaged(err);
    if (take(t, "True"))
        return error_set(err, -EBADMSG,
                         "its array is in Fortran order: numpy.ascontiguousarray() makes one that "
                         "can be a field");
    if (!take(t, "False") || !take(t, ",") || !take(t, "'shape'") || !take(t, ":"))
        return damaged(err);
    r = take_shape(t, ret, err);
    if (r < 0)
        return r;
    (void)take(t, ",");
    if (!take(t, "}"))
        return damaged(err);
    skip_blanks(t);
    return t->at == t->end ? 0 : damaged(err);
}

int npy_parse(const void *bytes, size_t len, struct field_shape *ret, size_t *ret_at,
              struct plenum_error *err)
{
    return npy_parse_most(bytes, len, FIELD_BYTES_MAX, ret, ret_at, err);
}

int npy_parse_most(const void *bytes, size_t len, uint32_t most, struct field_shape *ret,
                   size_t *ret_at, struct plenum_error *err)
{
    const uint8_t *p = bytes;
    size_t begin, header;
    struct npy_text text;
    int r;

    *ret = (struct field_shape){.type = 0};
    if (len < 12 || memcmp(p, magic, sizeof(magic)) != 0 || p[6] < 1 || p[6] > 3)
        return damaged(err);
    begin = p[6] == 1 ? 10 : 12;
    header = p[8] | (size_t)p[9] << 8;
    if (p[6] > 1)
        header |= (size_t)p[10] << 16 | (size_t)p[11] << 24;
    if (header > len - begin)
        return damaged(err);
    text = (struct npy_text){(const char *)p + begin, (const char *)p + begin + header, most};
    r = parse_header(&text, ret, err);
    if (r < 0)
        return r;
    if (len - begin - header != ret->room)
        return error_set(err, -EBADMSG, "its array has %zu bytes, but its header says %u",
                         len - begin - header, ret->room);
    assert(begin + header + ret->room == len);
    *ret_at = begin + header;
    return 0;
}
