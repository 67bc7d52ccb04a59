/* SPDX-License-Identifier: MIT */
/* mds_index.c - parses index.json:
 *
 *     {"version": 2, "shards": [{"format": "mds", "version": 2, "samples": 1000,
 *       "column_names": ["image", "label"], "column_encodings": ["jpeg", "int"],
 *       "column_sizes": [null, 8], "compression": "zstd",
 *       "raw_data": {"basename": "shard.00000.mds", "bytes": 67092637, ...},
 *       "zip_data": {"basename": "shard.00000.mds.zstd", "bytes": 66981215, ...}}]} */
#include "config.h"

#include "loader/dataset/mds_index.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/data/stand_in.h"
#include "common/util/error_set.h"
#include "common/util/util.h"
#include "loader/dataset/json_find.h"

enum { COLUMNS_MAX = 1024, NAME_BYTES_MAX = 4096 };

static int out_of_memory(struct plenum_error *err)
{
    return error_set(err, -ENOMEM, "out of memory");
}

static int damaged(size_t shard, const char *what, struct plenum_error *err)
{
    return error_set(err, -EBADMSG, "its shard %zu has no valid '%s'", shard, what);
}

/* Returns a copy of a string value (malloc), or NULL if it is not a string, is too long, or
 * contains zero bytes, or if memory runs out. */
static char *get_text(struct json_at value)
{
    size_t len;
    char *text;

    if (json_type(value) != JSON_AT_TEXT)
        return NULL;
    len = json_copy(value, NULL, NULL);
    text = len <= NAME_BYTES_MAX ? malloc(len + 1) : NULL;
    if (!text)
        return NULL;
    (void)json_copy(value, text, NULL);
    text[len] = '\0';
    if (strlen(text) == len)
        return text;
    free(text);
    return NULL;
}

static bool get_number(struct json_at object, const char *name, int64_t max, int64_t *ret)
{
    struct json_at value;

    return json_get(object, name, &value) && json_whole(value, ret) && *ret >= 0 && *ret <= max;
}

/* ---- columns ---- */

static const struct encoding {
    const char *name;
    enum mds_kind kind;
    uint32_t size;
} encodings[] = {
    {"jpeg", MDS_IMAGE, 0},      {"png", MDS_IMAGE, 0},        {"pil", MDS_PIL, 0},
    {"str", MDS_TEXT, 0},        {"json", MDS_TEXT, 0},        {"str_int", MDS_TEXT, 0},
    {"str_float", MDS_TEXT, 0},  {"str_decimal", MDS_TEXT, 0}, {"int", MDS_SIGNED, 8},
    {"int8", MDS_SIGNED, 1},     {"int16", MDS_SIGNED, 2},     {"int32", MDS_SIGNED, 4},
    {"int64", MDS_SIGNED, 8},    {"uint8", MDS_UNSIGNED, 1},   {"uint16", MDS_UNSIGNED, 2},
    {"uint32", MDS_UNSIGNED, 4}, {"uint64", MDS_UNSIGNED, 8},  {"float32", MDS_FLOAT, 4},
    {"float64", MDS_FLOAT, 8},
};

/* Add a column with this encoding. Its size (0: it varies) must be that of the encoding. */
static int add_column(struct mds_layout *l, struct json_at name, struct json_at encoding,
                      struct json_at size)
{
    struct mds_column c = {.kind = MDS_BYTES};
    char *text;
    int64_t bytes = 0;
    uint32_t want = 0;

    if (json_type(size) != JSON_AT_NULL &&
        (!json_whole(size, &bytes) || bytes <= 0 || bytes > INT32_MAX))
        return -EBADMSG;
    text = get_text(encoding);
    for (size_t i = 0; text && i < ARRAY_LEN(encodings); i++)
        if (strcmp(text, encodings[i].name) == 0) {
            c.kind = encodings[i].kind;
            want = encodings[i].size;
        }
    c.size = (uint32_t)bytes;
    c.name = text ? get_text(name) : NULL;
    free(text);
    if (!c.name || (c.kind != MDS_BYTES && c.size != want) ||
        array_grow(&l->columns, &l->cap, l->count, sizeof(c)) < 0) {
        free(c.name);
        return -EBADMSG;
    }
    l->columns[l->count++] = c;
    l->variable += c.size == 0;
    return 0;
}

static void layout_free(struct mds_layout *l)
{
    for (size_t i = 0; l && i < l->count; i++)
        free(l->columns[i].name);
    if (l)
        free(l->columns);
    free(l);
}

static bool is_alike(const struct mds_layout *a, const struct mds_layout *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (a->columns[i].kind != b->columns[i].kind || a->columns[i].size != b->columns[i].size ||
            strcmp(a->columns[i].name, b->columns[i].name) != 0)
            return false;
    return true;
}

/* Keep a layout, unless it equals the previous one. Returns the layout to use, or NULL when out of
 * memory. */
static const struct mds_layout *keep_layout(struct mds_index *index, struct mds_layout *l)
{
    size_t n = index->num_layouts;

    assert(l->count > 0 && l->variable <= l->count);
    if (n > 0 && is_alike(index->layouts[n - 1], l)) {
        layout_free(l);
        return index->layouts[n - 1];
    }
    if (array_grow(&index->layouts, &index->cap_layouts, n, sizeof(struct mds_layout *)) < 0) {
        layout_free(l);
        return NULL;
    }
    return index->layouts[index->num_layouts++] = l;
}

static int read_layout(struct mds_index *index, struct json_at shard, struct mds_shard *s,
                       struct plenum_error *err)
{
    struct json_at names, encoded, sizes, name, encoding, size;
    struct mds_layout *l;
    int r = 0;

    if (!json_get(shard, "column_names", &names) ||
        !json_get(shard, "column_encodings", &encoded) || !json_get(shard, "column_sizes", &sizes))
        return damaged(index->count, "column_names", err);
    l = calloc(1, sizeof(*l));
    if (!l)
        return out_of_memory(err);
    names = json_begin(names);
    encoded = json_begin(encoded);
    sizes = json_begin(sizes);
    while (r == 0 && json_next(&names, &name)) {
        r = -EBADMSG;
        if (json_next(&encoded, &encoding) && json_next(&sizes, &size) && l->count < COLUMNS_MAX)
            r = add_column(l, name, encoding, size);
    }
    if (r < 0 || l->count == 0) {
        layout_free(l);
        return damaged(index->count, "column_names", err);
    }
    s->layout = keep_layout(index, l);
    return s->layout ? 0 : out_of_memory(err);
}

/* ---- shards ---- */

/* Returns whether the path stays below the folder of index.json. */
static bool is_below(const char *path)
{
    if (*path == '/' || *path == '\0')
        return false;
    for (const char *at = path; at; at = strchr(at, '/')) {
        at += *at == '/';
        if (strncmp(at, "..", 2) == 0 && (at[2] == '/' || at[2] == '\0'))
            return false;
    }
    return true;
}

/* Read raw_data or zip_data. Returns the path of the file (malloc) and sets its size; NULL if the
 * member is missing or invalid. */
static char *read_file(struct json_at shard, const char *member, uint64_t *bytes)
{
    struct json_at file, name;
    int64_t number;
    char *path;

    if (!json_get(shard, member, &file) || !json_get(file, "basename", &name) ||
        !get_number(file, "bytes", INT64_MAX, &number))
        return NULL;
    path = get_text(name);
    if (path && !is_below(path)) {
        free(path);
        path = NULL;
    }
    *bytes = (uint64_t)number;
    return path;
}

/* Parse a compression, such as "zstd" or "zstd:7". Returns UNPACK_CODECS if it is unknown. */
static enum unpack_codec codec_of(const char *text)
{
    static const struct {
        const char *name;
        enum unpack_codec codec;
    } known[] = {{"zstd", UNPACK_ZSTD},
                 {"gz", UNPACK_GZIP},
                 {"snappy", UNPACK_SNAPPY},
                 {"br", UNPACK_BROTLI}};
    size_t len = strcspn(text, ":");

    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (strlen(known[i].name) == len && memcmp(text, known[i].name, len) == 0)
            return known[i].codec;
    return UNPACK_CODECS;
}

static int read_compression(struct json_at shard, size_t number, struct mds_shard *s,
                            struct plenum_error *err)
{
    struct json_at compression;
    char *text;

    if (!json_get(shard, "compression", &compression) || json_type(compression) == JSON_AT_NULL)
        return 0;
    text = get_text(compression);
    s->codec = text ? codec_of(text) : UNPACK_CODECS;
    free(text);
    s->packed_path = read_file(shard, "zip_data", &s->packed_bytes);
    return s->packed_path ? 0 : damaged(number, "zip_data", err);
}

static int read_shard(struct mds_index *index, struct json_at shard, struct mds_shard *s,
                      struct plenum_error *err)
{
    struct json_at format;
    int64_t samples, version;
    int r;

    if (!json_get(shard, "format", &format) || !json_is_text(format, "mds"))
        return error_set(err, -EBADMSG,
                         "its shard %zu does not have the format 'mds': no other is supported",
                         index->count);
    if (!get_number(shard, "version", INT64_MAX, &version) || version != 2)
        return error_set(err, -EBADMSG, "its shard %zu does not have version 2", index->count);
    if (!get_number(shard, "samples", UINT32_MAX - 1, &samples))
        return damaged(index->count, "samples", err);
    s->samples = (uint32_t)samples;
    s->path = read_file(shard, "raw_data", &s->bytes);
    if (!s->path)
        return damaged(index->count, "raw_data", err);
    r = read_compression(shard, index->count, s, err);
    return r < 0 ? r : read_layout(index, shard, s, err);
}

static void shard_fini(struct mds_shard *s)
{
    free(s->path);
    free(s->packed_path);
}

int mds_index_parse(struct mds_index *index, const char *text, size_t len, struct plenum_error *err)
{
    struct json_at all, shards, shard;
    int r = stand_in_refuse(text, len, -EBADMSG, err);

    if (r == 0)
        r = json_parse(text, len, &all, err);
    if (r < 0)
        return r;
    if (!json_get(all, "shards", &shards) || json_type(shards) != JSON_AT_LIST)
        return error_set(err, -EBADMSG,
                         "it has no list 'shards', so it is not the index of an MDS "
                         "data set");
    shards = json_begin(shards);
    while (json_next(&shards, &shard)) {
        struct mds_shard s = {.codec = UNPACK_NONE};

        r = read_shard(index, shard, &s, err);
        if (r == 0 && array_grow(&index->shards, &index->cap, index->count, sizeof(s)) < 0)
            r = out_of_memory(err);
        if (r < 0) {
            shard_fini(&s);
            return r;
        }
        index->shards[index->count++] = s;
    }
    return 0;
}

void mds_index_fini(struct mds_index *index)
{
    for (size_t i = 0; i < index->count; i++)
        shard_fini(&index->shards[i]);
    for (size_t i = 0; i < index->num_layouts; i++)
        layout_free(index->layouts[i]);
    free(index->shards);
    free(index->layouts);
    *index = (struct mds_index){.count = 0};
}

int mds_layout_find(const struct mds_layout *layout, const char *name)
{
    for (size_t i = 0; i < layout->count; i++)
        if (strcmp(layout->columns[i].name, name) == 0)
            return (int)i;
    return -1;
}

char *mds_layout_list(const struct mds_layout *layout, char *ret, size_t size)
{
    size_t at = 0;

    for (size_t i = 0; i < layout->count && at < size; i++) {
        int n = snprintf(ret + at, size - at, "%s%.60s", i ? ", " : "", layout->columns[i].name);

        at += n > 0 ? (size_t)n : 0;
    }
    return ret;
}
