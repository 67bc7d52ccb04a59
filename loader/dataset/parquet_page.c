/* SPDX-License-Identifier: MIT */
/* parquet_page.c - reads the headers of pages, decompresses their bodies, and finds values.
 *
 * The body of a page of data has repetition levels (none in a flat column), definition levels (none
 * in a required column), and the values that are not null. In version 1, all of that is compressed
 * together, and a u32 before the levels is their length; in version 2, levels are not compressed,
 * and their lengths are in the header. */
#include "config.h"

#include "loader/dataset/parquet_page.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/util.h"
#include "loader/dataset/bit_packed.h"
#include "loader/dataset/thrift.h"

enum {
    HEADER_READ = 4096,    /* bytes; usually more than a header */
    HEADER_MAX = 16 << 20, /* statistics may contain values */
    BODY_MAX = INT32_MAX,  /* bytes */
    VALUES_MAX = 1 << 24,  /* values in a page */
    WINDOW = 4096,         /* bytes read around the length of a value */
};

enum encoding {
    PLAIN = 0,
    PLAIN_DICTIONARY = 2,
    RLE = 3,
    DELTA_BINARY_PACKED = 5,
    DELTA_LENGTH_BYTE_ARRAY = 6,
    RLE_DICTIONARY = 8,
};

MESSAGE static int damaged(const struct parquet_source *s, uint64_t at, const char *what,
                           struct plenum_error *err)
{
    return error_set(err, -EBADMSG, "the page at byte %llu, of column '%s', is damaged: %s",
                     (unsigned long long)at, s->column->name, what);
}

static int out_of_memory(struct plenum_error *err)
{
    return error_set(err, -ENOMEM, "out of memory");
}

/* Returns the offset in the file of the region that the values are in. */
static uint64_t region_at(const struct parquet_page *page)
{
    return page->body + page->def_bytes + page->rep_bytes;
}

/* ---- headers ---- */

/* Read a DataPageHeader (field 1: number of values, 2: encoding, 3: encoding of definition levels),
 * or a DictionaryPageHeader, in which field 3 is a boolean. */
static void read_data_header(struct thrift *t, struct parquet_page *p, int64_t *values)
{
    struct thrift_field f = {0};

    while (thrift_next(t, &f))
        if (f.id == 1)
            *values = thrift_int(t, &f);
        else if (f.id == 2)
            p->encoding = (int32_t)thrift_int(t, &f);
        else if (f.id == 3 && p->kind == PARQUET_DATA)
            p->level_encoding = (int32_t)thrift_int(t, &f);
        else
            thrift_skip(t, f.type);
}

/* Read a DataPageHeaderV2 (field 1: number of values, 4: encoding, 5: bytes of definition levels,
 * 6: bytes of repetition levels, 7: whether it is compressed). */
static void read_data_header_2(struct thrift *t, struct parquet_page *p, int64_t *values)
{
    struct thrift_field f = {0};
    int64_t definition = 0, repetition = 0;

    p->level_encoding = RLE;
    while (thrift_next(t, &f))
        if (f.id == 1)
            *values = thrift_int(t, &f);
        else if (f.id == 4)
            p->encoding = (int32_t)thrift_int(t, &f);
        else if (f.id == 5)
            definition = thrift_int(t, &f);
        else if (f.id == 6)
            repetition = thrift_int(t, &f);
        else if (f.id == 7)
            p->stored = !thrift_bool(t, &f);
        else
            thrift_skip(t, f.type);
    p->def_bytes = definition < 0 || definition > BODY_MAX ? UINT32_MAX : (uint32_t)definition;
    p->rep_bytes = repetition < 0 || repetition > BODY_MAX ? UINT32_MAX : (uint32_t)repetition;
}

struct header_numbers {
    int64_t kind, len, packed_len, values;
};

/* Read a PageHeader (field 1: kind, 2: decompressed bytes, 3: compressed bytes, 5, 7 and 8: the
 * headers of the kinds). */
static void read_header(struct thrift *t, struct parquet_page *p, struct header_numbers *n)
{
    struct thrift_field f = {0};

    *n = (struct header_numbers){-1, -1, -1, 0};
    while (thrift_next(t, &f))
        if (f.id == 1)
            n->kind = thrift_int(t, &f);
        else if (f.id == 2)
            n->len = thrift_int(t, &f);
        else if (f.id == 3)
            n->packed_len = thrift_int(t, &f);
        else if ((f.id == 5 || f.id == 7) && thrift_struct(t, &f)) {
            p->kind = f.id == 5 ? PARQUET_DATA : PARQUET_DICTIONARY;
            read_data_header(t, p, &n->values);
        } else if (f.id == 8 && thrift_struct(t, &f))
            read_data_header_2(t, p, &n->values);
        else
            thrift_skip(t, f.type);
}

/* Check that a page's compressed data can have the length that its header gives, and that this
 * length is supported. */
static int check_packed(const struct parquet_source *s, const struct parquet_page *p,
                        struct plenum_error *err)
{
    uint32_t len = parquet_page_region_len(p);

    if (!unpack_is_possible(s->codec, p->end - region_at(p), len))
        return damaged(s, p->at, "its header gives more bytes than its compressed data can become",
                       err);
    if (len > UNPACK_MAX)
        return error_set(err, -EBADMSG,
                         "the page at byte %llu, of column '%s', has %u bytes when it is "
                         "decompressed, and 1 GiB is the most that is supported: write smaller "
                         "pages, or do not compress the column",
                         (unsigned long long)p->at, s->column->name, len);
    return 0;
}

/* Check that the sizes in a header are possible. */
static int check_header(const struct parquet_source *s, const struct header_numbers *n,
                        struct parquet_page *p, struct plenum_error *err)
{
    bool has_values = n->kind != PARQUET_INDEX;

    if (n->kind < PARQUET_DATA || n->kind > PARQUET_DATA_2 || n->len < 0 || n->len > BODY_MAX ||
        n->packed_len < 0 || (uint64_t)n->packed_len > s->end - p->body)
        return damaged(s, p->at, "its header says that it is longer than its column", err);
    if (has_values && (n->values < 0 || n->values > VALUES_MAX))
        return damaged(s, p->at, "its header has an impossible number of values", err);
    p->kind = (enum parquet_page_kind)n->kind;
    p->len = (uint32_t)n->len;
    p->values = (uint32_t)n->values;
    p->end = p->body + (uint64_t)n->packed_len;
    if ((uint64_t)p->def_bytes + p->rep_bytes > min_u64(p->len, p->end - p->body))
        return damaged(s, p->at, "its levels are longer than the page", err);
    if (!parquet_page_is_packed(s, p))
        return p->len == p->end - p->body
                   ? 0
                   : damaged(s, p->at, "it is not compressed, but has two lengths", err);
    return check_packed(s, p, err);
}

static int parse_header(const struct parquet_source *s, const uint8_t *bytes, size_t len,
                        struct parquet_page *p, struct plenum_error *err)
{
    struct thrift t = {.at = bytes, .end = bytes + len};
    struct header_numbers n;
    uint64_t at = p->at;

    *p = (struct parquet_page){.at = at};
    read_header(&t, p, &n);
    if (t.cut)
        return -EAGAIN;
    if (t.bad)
        return damaged(s, at, "its header cannot be read", err);
    p->body = at + (uint64_t)(t.at - bytes);
    return check_header(s, &n, p, err);
}

int parquet_page_read(const struct parquet_source *s, uint64_t at, struct parquet_page *ret,
                      struct plenum_error *err)
{
    uint8_t room[HEADER_READ], *bytes = room;
    size_t len = HEADER_READ, have;
    int r;

    if (at >= s->end)
        return damaged(s, at, "the column ends before its last value", err);
    for (;;) {
        have = (size_t)min_u64(s->end - at, len);
        r = source_get(&s->archive, bytes, have, at, err);
        ret->at = at;
        if (r == 0)
            r = parse_header(s, bytes, have, ret, err);
        if (bytes != room)
            free(bytes);
        if (r != -EAGAIN)
            return r;
        if (have < len || len >= HEADER_MAX)
            return damaged(s, at, "its header is truncated or longer than 16 MiB", err);
        len *= 16;
        bytes = malloc(len);
        if (!bytes)
            return out_of_memory(err);
    }
}

/* ---- bodies ---- */

bool parquet_page_is_packed(const struct parquet_source *s, const struct parquet_page *page)
{
    return s->codec != UNPACK_NONE && !page->stored;
}

uint32_t parquet_page_region_len(const struct parquet_page *page)
{
    assert(page->def_bytes <= page->len && page->rep_bytes <= page->len - page->def_bytes);
    return page->len - page->def_bytes - page->rep_bytes;
}

int parquet_page_unpack(const struct parquet_source *s, const struct parquet_page *page,
                        uint8_t *bytes, struct plenum_error *err)
{
    uint64_t at = region_at(page);
    size_t packed_len = (size_t)(page->end - at), len = parquet_page_region_len(page);
    uint8_t *packed;
    int r;

    if (!parquet_page_is_packed(s, page))
        return source_get(&s->archive, bytes, len, at, err);
    if (len == 0)
        return 0;
    packed = malloc(packed_len + 1);
    if (!packed)
        return out_of_memory(err);
    r = source_get(&s->archive, packed, packed_len, at, err);
    if (r < 0)
        goto out;
    r = unpack(s->codec, &(struct unpack_block){packed, packed_len, bytes, len});
    if (r == -EBADMSG)
        r = error_set(err, r,
                      "the page at byte %llu, of column '%s', is damaged: it cannot be "
                      "decompressed with %s",
                      (unsigned long long)page->at, s->column->name, unpack_name(s->codec));
    else if (r < 0)
        r = out_of_memory(err);

out:
    free(packed);
    return r;
}

/* ---- values ---- */

/* The region of a page while its values are being found: in memory, or in the file. */
struct body {
    const struct parquet_source *s;
    const struct parquet_page *page;
    struct parquet_values *v;
    struct parquet_region *region; /* v->region */
    uint32_t pos;                  /* the next byte of the region */
    uint32_t present;              /* values that are not null */
    uint8_t window[WINDOW];        /* bytes of the region from window_at on, unless in memory */
    uint32_t window_at, window_len;
    struct plenum_error *err;
};

MESSAGE static int bad(const struct body *b, const char *what)
{
    return damaged(b->s, b->page->at, what, b->err);
}

/* Get the next u32 of the region, without consuming it. */
static int peek_u32(struct body *b, uint32_t *ret)
{
    uint32_t left = b->region->len - b->pos;
    int r;

    if (left < sizeof(*ret))
        return bad(b, "it ends before its last value");
    if (b->region->bytes) {
        memcpy(ret, b->region->bytes + b->pos, sizeof(*ret));
        return 0;
    }
    if (b->pos < b->window_at || b->pos - b->window_at + sizeof(*ret) > b->window_len) {
        b->window_len = (uint32_t)min_u64(left, WINDOW);
        b->window_at = b->pos;
        r = source_get(&b->s->archive, b->window, b->window_len, b->region->at + b->pos, b->err);
        if (r < 0)
            return r;
    }
    memcpy(ret, b->window + (b->pos - b->window_at), sizeof(*ret));
    return 0;
}

/* Give each value that is not null its place, which `place` finds. */
static int place_all(struct body *b, int (*place)(struct body *b, void *arg, struct parquet_span *),
                     void *arg)
{
    struct parquet_values *v = b->v;

    for (uint32_t i = 0; i < v->count; i++) {
        int r = v->spans[i].at == PARQUET_NULL ? 0 : place(b, arg, &v->spans[i]);

        if (r < 0)
            return r;
        assert(v->spans[i].at == PARQUET_NULL || !v->in ||
               (uint64_t)v->spans[i].at + v->spans[i].len <= v->in->len);
    }
    return 0;
}

static int place_plain_bytes(struct body *b, void *arg, struct parquet_span *ret)
{
    uint32_t len;
    int r = peek_u32(b, &len);

    (void)arg;
    if (r < 0)
        return r;
    b->pos += (uint32_t)sizeof(len);
    if (len > b->region->len - b->pos)
        return bad(b, "a value is longer than the page");
    *ret = (struct parquet_span){b->pos, len};
    b->pos += len;
    return 0;
}

static int place_fixed(struct body *b, void *arg, struct parquet_span *ret)
{
    const uint32_t *width = arg;

    if (*width > b->region->len - b->pos)
        return bad(b, "it ends before its last value");
    *ret = (struct parquet_span){b->pos, *width};
    b->pos += *width;
    return 0;
}

struct indices {
    struct runs runs;
    const struct parquet_values *dictionary;
};

static int place_index(struct body *b, void *arg, struct parquet_span *ret)
{
    struct indices *d = arg;
    uint32_t index;

    if (!runs_next(&d->runs, &index))
        return bad(b, "it ends before its last value");
    if (index >= d->dictionary->count)
        return bad(b, "a value is not in the dictionary");
    *ret = d->dictionary->spans[index];
    return 0;
}

static int place_by_dictionary(struct body *b, const struct parquet_values *dictionary)
{
    const struct parquet_region *region = b->region;
    struct indices d = {.dictionary = dictionary};

    if (!dictionary)
        return bad(b, "it needs a dictionary, which the column does not have");
    if (b->present == 0)
        return 0;
    assert(region->bytes); /* ensured by needs_bytes() */
    if (b->pos >= region->len || region->bytes[b->pos] > 32)
        return bad(b, "the width of its indices is wrong");
    d.runs = (struct runs){.at = region->bytes + b->pos + 1,
                           .end = region->bytes + region->len,
                           .width = region->bytes[b->pos]};
    b->v->in = dictionary->in;
    return place_all(b, place_index, &d);
}

/* Allocate room for computed values of this width. */
static int compute(struct body *b, uint32_t width, uint8_t **ret)
{
    assert(width > 0 && b->region->bytes); /* ensured by needs_bytes() */
    *ret = malloc((size_t)b->present * width + 1);
    return *ret ? 0 : out_of_memory(b->err);
}

/* Replace the region by the computed values, unless computing them has failed. Takes ownership of
 * `computed`. */
static int keep_computed(struct body *b, uint8_t *computed, uint32_t width, int r)
{
    if (r < 0) {
        free(computed);
        return r;
    }
    free(b->region->bytes);
    b->region->bytes = computed;
    b->region->len = b->present * width;
    b->pos = 0;
    return place_all(b, place_fixed, &width);
}

/* Convert booleans to bytes. They are stored as bits, or as runs after a u32 with their length. */
static int place_booleans(struct body *b)
{
    const uint8_t *at = b->region->bytes + b->pos, *end = b->region->bytes + b->region->len;
    struct runs runs = {.end = end, .width = 1, .left = UINT32_MAX, .packed = true};
    uint8_t *computed;
    uint32_t value;
    int r = compute(b, 1, &computed);

    if (r < 0)
        return r;
    if (b->page->encoding == RLE && end - at < 4)
        r = bad(b, "it ends before its last value");
    else if (b->page->encoding == RLE)
        runs = (struct runs){.at = at + 4, .end = end, .width = 1};
    else
        runs.at = at;
    for (uint32_t i = 0; i < b->present && r == 0; i++)
        if (!runs_next(&runs, &value))
            r = bad(b, "it ends before its last value");
        else
            computed[i] = (uint8_t)value;
    return keep_computed(b, computed, 1, r);
}

static int place_deltas(struct body *b, uint32_t width)
{
    struct deltas d;
    uint8_t *computed;
    uint64_t value;
    int r = compute(b, width, &computed);

    if (r < 0)
        return r;
    if (!deltas_begin(&d, b->region->bytes + b->pos, b->region->len - b->pos))
        r = bad(b, "its deltas cannot be read");
    for (uint32_t i = 0; i < b->present && r == 0; i++)
        if (!deltas_next(&d, &value))
            r = bad(b, "it ends before its last value");
        else
            memcpy(computed + (size_t)i * width, &value, width); /* little-endian */
    return keep_computed(b, computed, width, r);
}

static int place_length(struct body *b, void *arg, struct parquet_span *ret)
{
    uint64_t len;

    if (!deltas_next(arg, &len))
        return bad(b, "it ends before its last value");
    if (len > b->region->len)
        return bad(b, "a value is longer than the page");
    *ret = (struct parquet_span){b->pos, (uint32_t)len};
    return 0;
}

static int place_after_lengths(struct body *b, void *arg, struct parquet_span *ret)
{
    (void)arg;
    if (ret->len > b->region->len - b->pos)
        return bad(b, "a value is longer than the page");
    ret->at = b->pos;
    b->pos += ret->len;
    return 0;
}

/* Place values whose lengths are stored first, followed by their bytes. */
static int place_lengths(struct body *b)
{
    const struct parquet_region *in = b->v->in;
    struct deltas d;
    int r;

    assert(b->region->bytes); /* ensured by needs_bytes() */
    if (!deltas_begin(&d, b->region->bytes + b->pos, b->region->len - b->pos))
        return bad(b, "its deltas cannot be read");
    b->v->in = NULL; /* until the values have places */
    r = place_all(b, place_length, &d);
    b->v->in = in;
    if (r < 0)
        return r;
    if (d.left > 0)
        return bad(b, "it has more lengths than values");
    b->pos = (uint32_t)(deltas_end(&d) - b->region->bytes);
    return place_all(b, place_after_lengths, NULL);
}

static uint32_t width_of(enum parquet_type type)
{
    static const uint32_t widths[PARQUET_TYPES] = {[PARQUET_INT32] = 4,
                                                   [PARQUET_FLOAT] = 4,
                                                   [PARQUET_INT64] = 8,
                                                   [PARQUET_DOUBLE] = 8,
                                                   [PARQUET_INT96] = 12};

    return widths[type];
}

static bool is_integer(enum parquet_type type)
{
    return type == PARQUET_INT32 || type == PARQUET_INT64;
}

static int place_values(struct body *b, const struct parquet_values *dictionary)
{
    enum parquet_type type = b->s->column->type;
    int encoding = b->page->encoding;
    uint32_t width = width_of(type);

    if (encoding == RLE_DICTIONARY ||
        (encoding == PLAIN_DICTIONARY && b->page->kind != PARQUET_DICTIONARY))
        return place_by_dictionary(b, dictionary);
    if (type == PARQUET_BOOLEAN && (encoding == PLAIN || encoding == RLE))
        return place_booleans(b);
    if ((encoding == PLAIN || encoding == PLAIN_DICTIONARY) && type == PARQUET_BYTES)
        return place_all(b, place_plain_bytes, NULL);
    if ((encoding == PLAIN || encoding == PLAIN_DICTIONARY) && width > 0)
        return place_all(b, place_fixed, &width);
    if (encoding == DELTA_BINARY_PACKED && is_integer(type))
        return place_deltas(b, width);
    if (encoding == DELTA_LENGTH_BYTE_ARRAY && type == PARQUET_BYTES)
        return place_lengths(b);
    return error_set(b->err, -EBADMSG,
                     "the page at byte %llu, of column '%s', has an encoding that is not supported "
                     "(number %d, for values of type %d): write the column with the encoding PLAIN",
                     (unsigned long long)b->page->at, b->s->column->name, encoding, (int)type);
}

/* ---- levels ---- */

/* Mark nulls. The levels [len] say which values are present. */
static int mark_nulls(struct body *b, const uint8_t *levels, size_t len)
{
    unsigned max = b->s->column->max_level;
    struct runs runs = {.at = levels, .end = levels + len};
    uint32_t level;

    assert(max > 0); /* otherwise there are no levels */
    while (max >> runs.width)
        runs.width++;
    for (uint32_t i = 0; i < b->v->count; i++) {
        if (!runs_next(&runs, &level) || level > max)
            return bad(b, "its definition levels cannot be read");
        if (level < max)
            b->v->spans[i].at = PARQUET_NULL;
        b->present -= level < max;
    }
    return 0;
}

/* Read bytes of the page into memory, and mark nulls by them. */
static int read_levels(struct body *b, uint64_t at, size_t len)
{
    uint8_t *levels = malloc(len + 1);
    int r = levels ? source_get(&b->s->archive, levels, len, at, b->err) : out_of_memory(b->err);

    if (r == 0)
        r = mark_nulls(b, levels, len);
    free(levels);
    return r;
}

static int find_nulls(struct body *b)
{
    const struct parquet_page *p = b->page;
    uint32_t len;
    int r;

    if (p->kind == PARQUET_DICTIONARY || b->s->column->max_level == 0)
        return 0;
    if (p->level_encoding != RLE)
        return bad(b, "its definition levels have an encoding that is not supported");
    if (p->kind == PARQUET_DATA_2)
        return read_levels(b, p->body + p->rep_bytes, p->def_bytes);
    r = peek_u32(b, &len);
    if (r < 0)
        return r;
    b->pos += (uint32_t)sizeof(len);
    if (len > b->region->len - b->pos)
        return bad(b, "its levels are longer than the page");
    r = b->region->bytes ? mark_nulls(b, b->region->bytes + b->pos, len)
                         : read_levels(b, b->region->at + b->pos, len);
    b->pos += len;
    return r;
}

/* ---- pages ---- */

static int charge(struct parquet_values *v, size_t bytes)
{
    if (index_memory_charge(v->memory, bytes) < 0)
        return -ENOMEM;
    v->charged += bytes;
    return 0;
}

/* Returns whether the page must be read to find its values. */
static bool needs_bytes(const struct parquet_source *s, const struct parquet_page *page)
{
    bool plain = page->encoding == PLAIN ||
                 (page->encoding == PLAIN_DICTIONARY && page->kind == PARQUET_DICTIONARY);

    return parquet_page_is_packed(s, page) || !s->locate || !plain ||
           s->column->type != PARQUET_BYTES;
}

/* Read the region into memory. While it is decompressed, its compressed bytes are charged, too. */
static int read_region(const struct body *b)
{
    bool packed = parquet_page_is_packed(b->s, b->page);
    size_t packed_len = packed ? (size_t)(b->page->end - region_at(b->page)) : 0;
    int r;

    if (index_memory_charge(b->v->memory, packed_len) < 0)
        return out_of_memory(b->err);
    b->region->bytes = malloc((size_t)b->region->len + 1);
    r = b->region->bytes ? parquet_page_unpack(b->s, b->page, b->region->bytes, b->err)
                         : out_of_memory(b->err);
    index_memory_refund(b->v->memory, packed_len);
    return r;
}

static int prepare(const struct body *b)
{
    const struct parquet_source *s = b->s;
    struct parquet_values *v = b->v;
    struct parquet_region *region = b->region;

    if (charge(v, v->count * sizeof(*v->spans)) < 0)
        return out_of_memory(b->err);
    v->spans = calloc((size_t)v->count + 1, sizeof(*v->spans));
    if (!v->spans)
        return out_of_memory(b->err);
    if (!needs_bytes(s, b->page))
        return 0;
    if (charge(v, region->len) < 0)
        return out_of_memory(b->err);
    return read_region(b);
}

int parquet_page_decode(const struct parquet_source *s, const struct parquet_page *page,
                        const struct parquet_values *dictionary, struct parquet_values *ret,
                        struct plenum_error *err)
{
    bool packed = parquet_page_is_packed(s, page);
    struct body b = {.s = s, .page = page, .v = ret, .present = page->values, .err = err};
    int r;

    assert(page->kind != PARQUET_INDEX);
    *ret = (struct parquet_values){.region = {.at = packed ? page->at : region_at(page),
                                              .packed = packed,
                                              .len = parquet_page_region_len(page)},
                                   .count = page->values,
                                   .memory = s->memory};
    ret->in = &ret->region;
    b.region = &ret->region;
    r = prepare(&b);
    if (r == 0)
        r = find_nulls(&b);
    if (r == 0)
        r = place_values(&b, dictionary);
    if (r < 0)
        parquet_values_fini(ret);
    return r;
}

void parquet_values_fini(struct parquet_values *values)
{
    free(values->region.bytes);
    free(values->spans);
    if (values->charged > 0)
        index_memory_refund(values->memory, values->charged);
    *values = (struct parquet_values){.count = 0};
}
