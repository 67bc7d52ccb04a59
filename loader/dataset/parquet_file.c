/* SPDX-License-Identifier: MIT */
/* parquet_file.c - reads the metadata of a Parquet file.
 *
 *     PAR1 | pages of columns | metadata, in Thrift's compact protocol | u32 its length | PAR1
 *
 * The schema is a tree, stored depth first; the leaves are columns. Each row group has a chunk for
 * each column, in the order of columns. Statistics, page indices and Bloom filters are not
 * needed. */
#include "config.h"

#include "loader/dataset/parquet_file.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/util.h"
#include "loader/dataset/thrift.h"

enum {
    TAIL = 8,              /* length and "PAR1" */
    FIRST_READ = 64 << 10, /* bytes; most metadata fits */
    METADATA_MAX = 512 << 20,
    TREE_DEPTH_MAX = 64,
    NAME_MAX_BYTES = 1 << 12,
};

enum { REQUIRED, OPTIONAL, REPEATED }; /* repetition types */

/* Converted types. Dates and times are those from DATE to TIMESTAMP_MICROS. */
enum { UTF8 = 0, DATE = 6, TIMESTAMP_MICROS = 10, UINT_8 = 11, UINT_64 = 14, JSON = 19 };

/* An element of the schema. */
struct element {
    int64_t type, repetition, children, converted, scale;
    const uint8_t *name;
    size_t name_len;
    bool text, no_sign, time;
};

/* A group of the schema whose children are being read. */
struct open_element {
    int64_t children; /* number of children that follow */
    size_t name_len;  /* length of the path up to here */
    unsigned max_level;
    bool repeated;
};

struct schema {
    struct open_element open[TREE_DEPTH_MAX];
    unsigned depth;
    char name[NAME_MAX_BYTES]; /* the path of the open groups */
};

static int out_of_memory(struct plenum_error *err)
{
    return error_set(err, -ENOMEM, "out of memory");
}

MESSAGE static int damaged(const char *what, struct plenum_error *err)
{
    return error_set(err, -EBADMSG, "its metadata is damaged: %s", what);
}

/* ---- schema ---- */

/* Read an IntType (field 1: bits, 2: whether it is signed). Returns whether it is unsigned. */
static bool is_unsigned(struct thrift *t)
{
    struct thrift_field f = {0};
    bool with_sign = true;

    while (thrift_next(t, &f))
        if (f.id == 2)
            with_sign = thrift_bool(t, &f);
        else
            thrift_skip(t, f.type);
    return !with_sign;
}

/* Read a DecimalType (field 1: digits after the point). Returns these digits. */
static int64_t read_scale(struct thrift *t)
{
    struct thrift_field f = {0};
    int64_t scale = 0;

    while (thrift_next(t, &f))
        if (f.id == 1)
            scale = thrift_int(t, &f);
        else
            thrift_skip(t, f.type);
    return scale;
}

/* Read a LogicalType, a union (field 1: string, 4: enum, 5: decimal, 6: date, 7: time, 8:
 * timestamp, 10: integer, 12: JSON). */
static void read_logical_type(struct thrift *t, struct element *e)
{
    struct thrift_field f = {0};

    while (thrift_next(t, &f)) {
        e->text = e->text || f.id == 1 || f.id == 4 || f.id == 12;
        e->time = e->time || (f.id >= 6 && f.id <= 8);
        if (f.id == 5 && thrift_struct(t, &f))
            e->scale = read_scale(t);
        else if (f.id == 10 && thrift_struct(t, &f))
            e->no_sign = is_unsigned(t);
        else
            thrift_skip(t, f.type);
    }
}

static void read_element(struct thrift *t, struct element *e)
{
    struct thrift_field f = {0};

    *e = (struct element){.type = -1, .converted = -1, .name = (const uint8_t *)""};
    while (thrift_next(t, &f))
        if (f.id == 1)
            e->type = thrift_int(t, &f);
        else if (f.id == 3)
            e->repetition = thrift_int(t, &f);
        else if (f.id == 4)
            e->name_len = thrift_binary(t, &f, &e->name);
        else if (f.id == 5)
            e->children = thrift_int(t, &f);
        else if (f.id == 6)
            e->converted = thrift_int(t, &f);
        else if (f.id == 7)
            e->scale = thrift_int(t, &f);
        else if (f.id == 10 && thrift_struct(t, &f))
            read_logical_type(t, e);
        else
            thrift_skip(t, f.type);
    e->text = e->text || e->converted == UTF8 || e->converted == JSON;
    e->no_sign = e->no_sign || (e->converted >= UINT_8 && e->converted <= UINT_64);
    e->time = e->time || (e->converted >= DATE && e->converted <= TIMESTAMP_MICROS);
}

/* Append an element's name to the path of its group. Returns the length of the path, or 0 if it is
 * too long. */
static size_t extend_name(struct schema *s, const struct element *e)
{
    const struct open_element *group = &s->open[s->depth - 1];
    size_t at = group->name_len;

    if (e->name_len + 2 > sizeof(s->name) - at || memchr(e->name, '\0', e->name_len))
        return 0;
    if (at > 0)
        s->name[at++] = '.';
    memcpy(s->name + at, e->name, e->name_len);
    s->name[at + e->name_len] = '\0';
    return at + e->name_len;
}

static int add_column(struct parquet_file *file, const struct schema *s, const struct element *e,
                      const struct open_element *levels, struct plenum_error *err)
{
    struct parquet_column *c;

    if (e->type < 0 || e->type >= PARQUET_TYPES)
        return damaged("a column has an unknown type", err);
    if (array_grow(&file->columns, &file->cap_columns, file->num_columns, sizeof(*c)) < 0)
        return out_of_memory(err);
    c = &file->columns[file->num_columns];
    *c = (struct parquet_column){.name = strdup(s->name),
                                 .type = (enum parquet_type)e->type,
                                 .repeated = levels->repeated,
                                 .text = e->text,
                                 .no_sign = e->no_sign,
                                 .scaled = e->scale != 0,
                                 .time = e->time,
                                 .max_level = levels->max_level};
    if (!c->name)
        return out_of_memory(err);
    file->num_columns++;
    return 0;
}

/* Add an element below the innermost open group. */
static int add_element(struct parquet_file *file, struct schema *s, const struct element *e,
                       struct plenum_error *err)
{
    struct open_element levels;

    assert(s->depth > 0);
    levels = s->open[s->depth - 1];
    levels.name_len = extend_name(s, e);
    levels.max_level += e->repetition != REQUIRED;
    levels.repeated = levels.repeated || e->repetition == REPEATED;
    levels.children = e->children;
    if (levels.name_len == 0)
        return damaged("a column has no valid name", err);
    if (e->repetition < REQUIRED || e->repetition > REPEATED || e->children < 0)
        return damaged("a column has an unknown form", err);
    s->open[s->depth - 1].children--;
    if (e->children == 0)
        return add_column(file, s, e, &levels, err);
    if (s->depth == TREE_DEPTH_MAX)
        return damaged("its columns are nested too deeply", err);
    s->open[s->depth++] = levels;
    return 0;
}

static int read_schema(struct thrift *t, size_t count, struct parquet_file *file,
                       struct plenum_error *err)
{
    struct schema s = {.depth = 0};
    struct element e;

    if (file->num_columns > 0)
        return damaged("it has two schemas", err);
    for (size_t i = 0; i < count; i++) {
        int r = 0;

        read_element(t, &e);
        if (t->bad)
            return damaged("its schema cannot be read", err);
        if (i == 0)
            s.open[s.depth++] = (struct open_element){.children = e.children};
        else if (s.depth > 0)
            r = add_element(file, &s, &e, err);
        if (r < 0)
            return r;
        while (s.depth > 0 && s.open[s.depth - 1].children <= 0)
            s.depth--;
        if (s.depth == 0 && i + 1 < count)
            return damaged("its schema has more columns than it says", err);
    }
    return s.depth == 0 ? 0 : damaged("its schema is incomplete", err);
}

/* ---- row groups ---- */

struct chunk_meta {
    int64_t type, codec, values, bytes, data_at, dictionary_at;
    bool there, elsewhere, encrypted;
};

/* Read a ColumnMetaData. */
static void read_chunk_meta(struct thrift *t, struct chunk_meta *m)
{
    struct thrift_field f = {0};

    m->there = true;
    while (thrift_next(t, &f))
        if (f.id == 1)
            m->type = thrift_int(t, &f);
        else if (f.id == 4)
            m->codec = thrift_int(t, &f);
        else if (f.id == 5)
            m->values = thrift_int(t, &f);
        else if (f.id == 7)
            m->bytes = thrift_int(t, &f);
        else if (f.id == 9)
            m->data_at = thrift_int(t, &f);
        else if (f.id == 11)
            m->dictionary_at = thrift_int(t, &f);
        else
            thrift_skip(t, f.type);
}

/* Read a ColumnChunk (field 1: another file's path, 3: ColumnMetaData, 8 and 9: encryption). */
static void read_chunk(struct thrift *t, struct chunk_meta *m)
{
    struct thrift_field f = {0};

    *m = (struct chunk_meta){.type = -1};
    while (thrift_next(t, &f)) {
        m->elsewhere = m->elsewhere || f.id == 1;
        m->encrypted = m->encrypted || f.id == 8 || f.id == 9;
        if (f.id == 3 && thrift_struct(t, &f))
            read_chunk_meta(t, m);
        else
            thrift_skip(t, f.type);
    }
}

static int add_chunk(struct parquet_file *file, const struct chunk_meta *m, size_t column,
                     struct plenum_error *err)
{
    bool empty = m->there && m->values == 0; /* writers then store arbitrary places */
    uint64_t begin = (uint64_t)m->data_at;

    if (column >= file->num_columns)
        return damaged("a row group has more columns than the schema", err);
    if (m->elsewhere)
        return error_set(err, -EBADMSG,
                         "the values of its column '%s' are in another file, which is not "
                         "supported",
                         file->columns[column].name);
    if (m->dictionary_at > 0 && m->dictionary_at < m->data_at)
        begin = (uint64_t)m->dictionary_at;
    if (!m->encrypted &&
        (!m->there || m->type != (int64_t)file->columns[column].type ||
         (!empty && (m->values < 0 || m->data_at < 4 || m->bytes < 0 || begin > file->size ||
                     (uint64_t)m->bytes > file->size - begin))))
        return error_set(err, -EBADMSG,
                         "its metadata is damaged: the place of column '%s' is not in the file",
                         file->columns[column].name);
    if (array_grow(&file->chunks, &file->cap_chunks, file->num_chunks, sizeof(*file->chunks)) < 0)
        return out_of_memory(err);
    file->chunks[file->num_chunks++] = (struct parquet_chunk){
        .begin = empty ? 0 : begin,
        .bytes = empty ? 0 : (uint64_t)m->bytes,
        .values = (uint64_t)m->values,
        .codec =
            m->codec >= 0 && m->codec < UNPACK_CODECS ? (enum unpack_codec)m->codec : UNPACK_CODECS,
        .encrypted = m->encrypted};
    return 0;
}

static int read_group(struct thrift *t, struct parquet_file *file, struct plenum_error *err)
{
    struct thrift_field f = {0};
    struct chunk_meta m;
    size_t before = file->num_chunks;
    int64_t rows = -1;

    while (thrift_next(t, &f)) {
        size_t count = f.id == 1 ? thrift_list(t, &f, THRIFT_STRUCT) : 0;

        for (size_t i = 0; i < count && !t->bad; i++) {
            int r;

            read_chunk(t, &m);
            r = t->bad ? 0 : add_chunk(file, &m, file->num_chunks - before, err);
            if (r < 0)
                return r;
        }
        if (f.id == 3)
            rows = thrift_int(t, &f);
        else if (f.id != 1)
            thrift_skip(t, f.type);
    }
    if (t->bad || rows < 0 || file->num_chunks - before != file->num_columns ||
        (uint64_t)rows > INT64_MAX - file->rows)
        return damaged("a row group is incomplete", err);
    if (array_grow(&file->groups, &file->cap_groups, file->num_groups, sizeof(*file->groups)) < 0)
        return out_of_memory(err);
    file->groups[file->num_groups++] =
        (struct parquet_group){.first_row = file->rows, .rows = (uint64_t)rows};
    file->rows += (uint64_t)rows;
    return 0;
}

static int read_groups(struct thrift *t, size_t count, struct parquet_file *file,
                       struct plenum_error *err)
{
    int r = 0;

    for (size_t i = 0; i < count && r == 0; i++)
        r = read_group(t, file, err);
    return r;
}

/* ---- key-value metadata ---- */

static int read_keys(struct thrift *t, size_t count, struct parquet_file *file,
                     struct plenum_error *err)
{
    static const char wanted[] = "huggingface";

    for (size_t i = 0; i < count && !t->bad; i++) {
        struct thrift_field f = {0};
        const uint8_t *key = NULL, *value = NULL;
        size_t key_len = 0, len = 0;

        while (thrift_next(t, &f))
            if (f.id == 1)
                key_len = thrift_binary(t, &f, &key);
            else if (f.id == 2)
                len = thrift_binary(t, &f, &value);
            else
                thrift_skip(t, f.type);
        if (t->bad || !value || file->huggingface || key_len != strlen(wanted) ||
            memcmp(key, wanted, key_len) != 0)
            continue;
        file->huggingface = malloc(len + 1);
        if (!file->huggingface)
            return out_of_memory(err);
        memcpy(file->huggingface, value, len);
        file->huggingface[len] = '\0';
        file->huggingface_len = len;
    }
    return 0;
}

/* ---- the whole ---- */

/* Read a FileMetaData (field 2: schema, 4: row groups, 5: keys and values). */
static int read_metadata(const uint8_t *bytes, size_t len, struct parquet_file *file,
                         struct plenum_error *err)
{
    struct thrift t = {.at = bytes, .end = bytes + len};
    struct thrift_field f = {0};
    int r = 0;

    while (r == 0 && thrift_next(&t, &f))
        if (f.id == 2)
            r = read_schema(&t, thrift_list(&t, &f, THRIFT_STRUCT), file, err);
        else if (f.id == 4)
            r = read_groups(&t, thrift_list(&t, &f, THRIFT_STRUCT), file, err);
        else if (f.id == 5)
            r = read_keys(&t, thrift_list(&t, &f, THRIFT_STRUCT), file, err);
        else
            thrift_skip(&t, f.type);
    if (r < 0)
        return r;
    if (t.bad)
        return error_set(err, -EBADMSG,
                         "its metadata is damaged: the %zu bytes before the last %d cannot be read",
                         len, TAIL);
    for (size_t i = 0; i < file->num_groups; i++)
        file->groups[i].chunks = file->chunks + i * file->num_columns;
    return 0;
}

/* Find the length of the metadata from the last `have` bytes of the file, which are at `tail`. */
static int find_metadata(const uint8_t *tail, size_t have, uint64_t size, size_t *ret,
                         struct plenum_error *err)
{
    const uint8_t *end = tail + have;
    uint32_t len;

    assert(have >= TAIL);
    if (memcmp(end - 4, "PARE", 4) == 0)
        return error_set(err, -EBADMSG, "it is encrypted: write it without encryption");
    if (memcmp(end - 4, "PAR1", 4) != 0)
        return error_set(err, -EBADMSG,
                         "it is not a Parquet file, or was cut off: 'PAR1' is missing at byte %llu",
                         (unsigned long long)size - 4);
    memcpy(&len, end - TAIL, sizeof(len));
    if (len > size - TAIL - 4 || len > METADATA_MAX)
        return error_set(err, -EBADMSG,
                         "it is damaged: the length of its metadata at byte %llu, %u, is too large",
                         (unsigned long long)size - TAIL, len);
    *ret = len;
    return 0;
}

/* Read the metadata at the end of the file: first FIRST_READ bytes, which usually contain it, then,
 * if necessary, all of it. */
static int read_tail(const struct source *archive, struct parquet_file *file,
                     struct plenum_error *err)
{
    size_t have = (size_t)min_u64(file->size, FIRST_READ), len = 0;
    uint8_t *tail = malloc(have), *more;
    struct plenum_error why;
    int r = tail ? source_get(archive, tail, have, file->size - have, err) : out_of_memory(err);

    if (r < 0)
        goto out;
    r = find_metadata(tail, have, file->size, &len, err);
    if (r < 0)
        goto out;
    if (len + TAIL > have) {
        have = len + TAIL;
        more = realloc(tail, have);
        r = more ? 0 : out_of_memory(err);
        tail = more ? more : tail;
        if (r == 0)
            r = source_get(archive, tail, have, file->size - have, err);
        if (r < 0)
            goto out;
    }
    r = read_metadata(tail + have - TAIL - len, len, file, err);
    if (r == -EBADMSG && err) {
        why = *err;
        (void)error_set(err, r, "%s (its metadata begins at byte %llu)", why.text,
                        (unsigned long long)file->size - TAIL - len);
    }

out:
    free(tail);
    return r;
}

int parquet_file_read(const struct source *archive, uint64_t size, struct parquet_file **ret,
                      struct plenum_error *err)
{
    struct parquet_file *file;
    int r;

    if (size < TAIL + 4)
        return error_set(err, -EBADMSG, "it is not a Parquet file: it has only %llu bytes",
                         (unsigned long long)size);
    file = calloc(1, sizeof(*file));
    if (!file)
        return out_of_memory(err);
    file->size = size;
    r = read_tail(archive, file, err);
    if (r < 0)
        parquet_file_free(file);
    else
        *ret = file;
    return r;
}

void parquet_file_free(struct parquet_file *file)
{
    if (!file)
        return;
    for (size_t i = 0; i < file->num_columns; i++)
        free(file->columns[i].name);
    free(file->columns);
    free(file->groups);
    free(file->chunks);
    free(file->huggingface);
    free(file);
}

int parquet_file_find(const struct parquet_file *file, const char *name)
{
    for (size_t i = 0; i < file->num_columns; i++)
        if (strcmp(file->columns[i].name, name) == 0)
            return (int)i;
    return -1;
}

bool parquet_file_is_twin(const struct parquet_file *file, int column)
{
    const char *name = file->columns[column].name;

    for (size_t i = 0; i < file->num_columns; i++)
        if ((int)i != column && strcmp(file->columns[i].name, name) == 0)
            return true;
    return false;
}

char *parquet_file_list(const struct parquet_file *file, char *ret, size_t size)
{
    size_t at = 0;

    (void)snprintf(ret, size, "none");
    for (size_t i = 0; i < file->num_columns && at < size; i++) {
        int n = snprintf(ret + at, size - at, "%s%.60s", i ? ", " : "", file->columns[i].name);

        at += n > 0 ? (size_t)n : 0;
    }
    return ret;
}
