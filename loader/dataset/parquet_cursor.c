/* SPDX-License-Identifier: MIT */
/* parquet_cursor.c - reads a column of a Parquet file from its first row to its last. */
#include "config.h"

#include "loader/dataset/parquet_page.h"

#include <assert.h>
#include <errno.h>

#include "common/util/error_set.h"

/* Check that a column can be read, and has one value per row. */
static int check_values(const struct parquet_file *file, const struct parquet_group *group,
                        size_t column, struct plenum_error *err)
{
    const struct parquet_chunk *chunk = &group->chunks[column];
    const char *name = file->columns[column].name;

    if (chunk->encrypted)
        return error_set(err, -EBADMSG, "its column '%s' is encrypted: write it without encryption",
                         name);
    if (chunk->values != group->rows)
        return error_set(err, -EBADMSG,
                         "its metadata is damaged: the row group from row %llu on has %llu rows, "
                         "but %llu values of column '%s'",
                         (unsigned long long)group->first_row, (unsigned long long)group->rows,
                         (unsigned long long)chunk->values, name);
    return 0;
}

int parquet_check_chunk(const struct parquet_file *file, const struct parquet_group *group,
                        size_t column, struct plenum_error *err)
{
    int r = check_values(file, group, column, err);

    if (r < 0)
        return r;
    r = unpack_check(group->chunks[column].codec, err);
    return r < 0 ? error_prefix(err, r, "its column '%s'", file->columns[column].name) : 0;
}

/* Returns the column with the fewest bytes, among those with one value per row if there are any. */
static size_t shortest_column(const struct parquet_file *file, const struct parquet_group *group)
{
    size_t best = 0;

    for (size_t i = 1; i < file->num_columns; i++) {
        bool flat = !file->columns[i].repeated, best_is = !file->columns[best].repeated;

        if (flat != best_is ? flat : group->chunks[i].bytes < group->chunks[best].bytes)
            best = i;
    }
    return best;
}

/* Compare the number of values in the pages of a row group with its number of rows. */
static int check_group(const struct parquet_file *file, const struct parquet_group *group,
                       struct source archive, struct plenum_error *err)
{
    size_t column = shortest_column(file, group);
    const struct parquet_chunk *chunk = &group->chunks[column];
    bool repeated = file->columns[column].repeated;
    struct parquet_source s = {.archive = archive,
                               .end = chunk->begin + chunk->bytes,
                               .column = &file->columns[column],
                               .codec = chunk->codec};
    uint64_t values = 0;
    int r = repeated && !chunk->encrypted ? 0 : check_values(file, group, column, err);

    for (uint64_t at = chunk->begin; at < s.end && values <= group->rows && r == 0;) {
        struct parquet_page page;

        r = parquet_page_read(&s, at, &page, err);
        if (r < 0)
            return r;
        assert(page.end > at && page.end <= s.end);
        at = page.end;
        if (page.kind == PARQUET_DATA || page.kind == PARQUET_DATA_2)
            values += page.values;
    }
    if (r < 0 || values == group->rows || (repeated && values > group->rows))
        return r;
    return error_set(err, -EBADMSG,
                     "its metadata is damaged: the row group from row %llu on has %llu rows, but "
                     "the pages of column '%s' do not have as many values",
                     (unsigned long long)group->first_row, (unsigned long long)group->rows,
                     s.column->name);
}

int parquet_check_rows(const struct parquet_file *file, struct source archive,
                       struct plenum_error *err)
{
    int r = 0;

    if (file->rows > 0 && file->num_columns == 0)
        return error_set(err, -EBADMSG, "it has rows, but no columns");
    for (size_t i = 0; i < file->num_groups && r == 0; i++)
        r = check_group(file, &file->groups[i], archive, err);
    return r;
}

void parquet_cursor_init(struct parquet_cursor *c, const struct parquet_file *file,
                         struct source archive, size_t column, bool locate)
{
    assert(column < file->num_columns && !file->columns[column].repeated);
    *c = (struct parquet_cursor){
        .file = file,
        .source = {.archive = archive, .column = &file->columns[column], .locate = locate},
        .column = column};
}

void parquet_cursor_fini(struct parquet_cursor *c)
{
    parquet_values_fini(&c->values);
    parquet_values_fini(&c->dictionary);
}

/* Begin the next row group. Returns 1, or 0 if there is none. */
static int begin_group(struct parquet_cursor *c, struct plenum_error *err)
{
    const struct parquet_group *group;
    const struct parquet_chunk *chunk;
    int r;

    if (c->group == c->file->num_groups)
        return 0;
    group = &c->file->groups[c->group++];
    r = parquet_check_chunk(c->file, group, c->column, err);
    if (r < 0)
        return r;
    chunk = &group->chunks[c->column];
    c->at = chunk->begin;
    c->left = chunk->values;
    c->source.end = chunk->begin + chunk->bytes;
    c->source.codec = chunk->codec;
    parquet_values_fini(&c->dictionary);
    return 1;
}

/* Decode the next page of the row group. */
static int take_page(struct parquet_cursor *c, struct plenum_error *err)
{
    const struct parquet_values *dictionary = c->dictionary.spans ? &c->dictionary : NULL;
    struct parquet_page page;
    int r = parquet_page_read(&c->source, c->at, &page, err);

    if (r < 0)
        return r;
    assert(page.end > c->at && page.end <= c->source.end);
    c->at = page.end;
    if (page.kind == PARQUET_INDEX)
        return 0;
    if (page.kind == PARQUET_DICTIONARY && dictionary)
        return error_set(err, -EBADMSG,
                         "the page at byte %llu, of column '%s', is damaged: it is a second "
                         "dictionary",
                         (unsigned long long)page.at, c->source.column->name);
    if (page.kind == PARQUET_DICTIONARY)
        return parquet_page_decode(&c->source, &page, NULL, &c->dictionary, err);
    if (page.values > c->left)
        return error_set(err, -EBADMSG,
                         "the page at byte %llu, of column '%s', is damaged: it has more values "
                         "than its row group",
                         (unsigned long long)page.at, c->source.column->name);
    c->left -= page.values;
    c->next = 0;
    return parquet_page_decode(&c->source, &page, dictionary, &c->values, err);
}

/* Go to the next page that has values. Returns 1, or 0 if there is none. */
static int next_page(struct parquet_cursor *c, struct plenum_error *err)
{
    int r;

    do {
        parquet_values_fini(&c->values); /* even for a page without values */
        c->next = 0;
        while (c->left == 0) {
            r = begin_group(c, err);
            if (r <= 0)
                return r;
        }
        r = take_page(c, err);
        if (r < 0)
            return r;
    } while (c->values.count == 0);
    return 1;
}

int parquet_cursor_next(struct parquet_cursor *c, struct parquet_value *ret,
                        struct plenum_error *err)
{
    const struct parquet_region *in;
    struct parquet_span span;

    if (c->next == c->values.count) {
        int r = next_page(c, err);

        if (r <= 0)
            return r;
    }
    in = c->values.in;
    span = c->values.spans[c->next++];
    *ret = (struct parquet_value){.null = span.at == PARQUET_NULL};
    if (ret->null)
        return 1;
    *ret = (struct parquet_value){.bytes = in->bytes ? in->bytes + span.at : NULL,
                                  .len = span.len,
                                  .where = in->packed ? in->at : in->at + span.at,
                                  .extra = in->packed ? span.at : 0,
                                  .page_len = in->len,
                                  .packed = in->packed};
    return 1;
}
