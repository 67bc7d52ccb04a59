/* SPDX-License-Identifier: MIT */
/* parquet_fields.c - reads the fields of a sample: the values of other columns in its row.
 *
 * A file's metadata, and the headers of a column's pages, are read when they are first needed, and
 * stay in memory. Decoded pages are kept in the cache of blocks, and so are dictionaries: a page
 * does not hold the dictionary that it uses, so that either can be dropped when memory is
 * needed. */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/util.h"
#include "loader/dataset/archive.h"
#include "loader/dataset/parquet_set.h"

/* The pages of one column in one row group. */
struct page_list {
    struct page_place {
        struct parquet_page page;
        uint64_t first; /* its first row, counted in the row group */
    } * pages;
    size_t count, cap;
    struct parquet_page dictionary; /* if `at` is 0, there is none */
    bool known;
};

struct parquet_opened {
    struct parquet_file *file;
    bool *wanted;            /* [columns]: whether a column is delivered as a field */
    struct page_list *lists; /* [groups][columns] */
};

/* A page in the cache. */
struct field_page {
    struct parquet_values values;
    bool by_dictionary; /* the spans refer to the dictionary */
};

/* One field of one sample. */
struct field_job {
    const struct dataset *d;
    const struct index_sample *sample;
    struct parquet_opened *opened;
    uint64_t row; /* number of the row in its row group */
    const struct page_list *list;
    struct parquet_source source;
    struct field_memory *memory; /* raised to what reading takes, or NULL */
};

static int out_of_memory(struct plenum_error *err)
{
    return error_set(err, -ENOMEM, "out of memory");
}

static int changed(const struct field_job *job, struct plenum_error *err)
{
    return error_set(err, -ESTALE,
                     "the pages of column '%s' have changed since they were first read",
                     job->source.column->name);
}

void parquet_opened_free(struct parquet_opened *o)
{
    if (!o)
        return;
    for (size_t i = 0; o->lists && i < o->file->num_groups * o->file->num_columns; i++)
        free(o->lists[i].pages);
    free(o->lists);
    free(o->wanted);
    parquet_file_free(o->file);
    free(o);
}

static bool is_requested(const struct dataset *d, const char *column)
{
    for (uint32_t i = 0; i < d->fields.count; i++)
        if (strcmp(d->fields.spec[i].source, column) == 0)
            return true;
    return false;
}

/* Returns whether each requested field is a column. If one is not, all columns are passed to
 * `field`, for a message. */
static bool are_columns(const struct dataset *d, const struct parquet_file *file)
{
    for (uint32_t i = 0; i < d->fields.count; i++)
        if (parquet_file_find(file, d->fields.spec[i].source) < 0)
            return false;
    return d->fields.count > 0;
}

/* Mark the columns that are delivered; `image` is the image's column, or -1. */
static void choose_columns(const struct dataset *d, const struct parquet_file *file, int image,
                           bool *wanted)
{
    bool only = are_columns(d, file);

    for (size_t i = 0; i < file->num_columns; i++)
        wanted[i] = (int)i != image && parquet_is_usable(&file->columns[i]) &&
                    (!only || is_requested(d, file->columns[i].name));
}

/* Read the metadata of a sample's file. */
static int open_file(const struct dataset *d, const struct index_sample *sample,
                     const struct source *archive, struct parquet_opened **ret,
                     struct plenum_error *err)
{
    struct parquet_opened *o = calloc(1, sizeof(*o));
    uint64_t size = d->index.containers[sample->container].stamp.size;
    int image = -1;
    int r = o ? parquet_file_read(archive, size, &o->file, err) : out_of_memory(err);

    if (r < 0)
        goto fail;
    o->lists = calloc(o->file->num_groups * o->file->num_columns + 1, sizeof(*o->lists));
    o->wanted = calloc(o->file->num_columns + 1, sizeof(*o->wanted));
    r = o->lists && o->wanted ? 0 : out_of_memory(err);
    if (r == 0 && dataset_has_images(d))
        r = image = parquet_find_image(d, o->file, err);
    if (r < 0)
        goto fail;
    choose_columns(d, o->file, image, o->wanted);
    *ret = o;
    return 0;

fail:
    parquet_opened_free(o);
    return r;
}

static int get_opened(const struct dataset *d, const struct index_sample *sample,
                      const struct source *archive, struct parquet_opened **ret,
                      struct plenum_error *err)
{
    struct parquet_set *set = d->state;
    int r = 0;

    assert(sample->container < set->num_files);
    lock_acquire(&set->mu);
    *ret = set->files[sample->container];
    if (!*ret)
        r = open_file(d, sample, archive, &set->files[sample->container], err);
    if (r == 0)
        *ret = set->files[sample->container];
    lock_release(&set->mu);
    return r;
}

/* ---- pages ---- */

/* Find all pages of the job's column in a row group. */
static int find_pages(const struct field_job *job, const struct parquet_chunk *chunk,
                      struct page_list *list, struct plenum_error *err)
{
    struct parquet_page page;

    list->count = 0;
    for (uint64_t at = chunk->begin, row = 0; row < chunk->values; at = page.end) {
        int r = parquet_page_read(&job->source, at, &page, err);

        if (r < 0)
            return r;
        if (page.kind == PARQUET_DICTIONARY)
            list->dictionary = page;
        if (page.kind == PARQUET_DICTIONARY || page.kind == PARQUET_INDEX || page.values == 0)
            continue;
        if (array_grow(&list->pages, &list->cap, list->count, sizeof(*list->pages)) < 0)
            return out_of_memory(err);
        list->pages[list->count++] = (struct page_place){.page = page, .first = row};
        row += page.values;
    }
    list->known = true;
    return 0;
}

static int get_pages(struct field_job *job, const struct parquet_group *group, size_t column,
                     struct plenum_error *err)
{
    const struct parquet_file *file = job->opened->file;
    struct parquet_set *set = job->d->state;
    size_t number = (size_t)(group - file->groups) * file->num_columns + column;
    struct page_list *list = &job->opened->lists[number];
    const struct parquet_chunk *chunk = &group->chunks[column];
    int r = parquet_check_chunk(file, group, column, err);

    if (r < 0)
        return r;
    job->source.column = &file->columns[column];
    job->source.codec = chunk->codec;
    job->source.end = chunk->begin + chunk->bytes;
    job->list = list;
    lock_acquire(&set->mu);
    r = list->known ? 0 : find_pages(job, chunk, list, err);
    lock_release(&set->mu);
    return r;
}

static void destroy_page(void *data)
{
    struct field_page *p = data;

    parquet_values_fini(&p->values);
    free(p);
}

static int get_page(struct field_job *job, const struct parquet_page *page, struct block **ret,
                    struct plenum_error *err);

static int decode(struct field_job *job, const struct parquet_page *page, struct field_page *p,
                  struct plenum_error *err)
{
    struct parquet_set *set = job->d->state;
    const struct parquet_values *dictionary = NULL;
    struct block *block = NULL;
    int r = 0;

    if (job->list->dictionary.at > 0 && page->kind != PARQUET_DICTIONARY)
        r = get_page(job, &job->list->dictionary, &block, err);
    if (r < 0)
        return r;
    if (block)
        dictionary = &((const struct field_page *)block_get_data(block))->values;
    r = parquet_page_decode(&job->source, page, dictionary, &p->values, err);
    p->by_dictionary = r == 0 && p->values.in != &p->values.region;
    p->values.in = NULL;
    if (block)
        block_cache_release(set->blocks, block);
    return r;
}

/* The argument of make_page(). */
struct field_page_work {
    struct field_job *job;
    const struct parquet_page *page;
};

static int make_page(const struct block_recipe *recipe, void **ret, struct plenum_error *err)
{
    const struct field_page_work *work = recipe->arg;
    struct field_page *p = calloc(1, sizeof(*p));
    int r = p ? decode(work->job, work->page, p, err) : out_of_memory(err);

    if (r < 0)
        free(p);
    else
        *ret = p;
    return r;
}

/* Decode a page of the job's column, unless it is cached. */
static int get_page(struct field_job *job, const struct parquet_page *page, struct block **ret,
                    struct plenum_error *err)
{
    struct parquet_set *set = job->d->state;
    struct field_page_work work = {.job = job, .page = page};
    struct block_recipe recipe = {.container = job->sample->container,
                                  .at = page->at,
                                  .use = UNPACK_CODECS + 1 +
                                         (uint64_t)(job->list - job->opened->lists),
                                  .make = make_page,
                                  .destroy = destroy_page,
                                  .arg = &work};
    int r;

    recipe.bytes = parquet_page_region_len(page) +
                   (size_t)page->values * (sizeof(struct parquet_span) + sizeof(uint64_t));
    r = block_cache_get(set->blocks, &recipe, ret, err);
    if (r == 0 && job->memory) {
        job->memory->each = max_u64(job->memory->each, page->end - page->at);
        job->memory->turn = max_u64(job->memory->turn, block_cache_get_peak(set->blocks));
    }
    return r;
}

/* ---- values ---- */

/* Find a row's page by the number of the row in its row group. */
static const struct page_place *page_of(const struct page_list *list, uint64_t row)
{
    size_t low = 0, high = list->count;

    assert(list->count > 0 && list->pages[0].first <= row);
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if (list->pages[middle].first <= row)
            low = middle;
        else
            high = middle;
    }
    return &list->pages[low];
}

static void tell(const struct parquet_column *c, const struct parquet_region *in,
                 struct parquet_span span, dataset_field *field, void *arg)
{
    const uint8_t *value = in->bytes + span.at;
    char text[PARQUET_TEXT_MAX];

    if (c->type == PARQUET_BYTES)
        field(arg, c->name, value, span.len, false);
    else
        field(arg, c->name, text, parquet_print(c, value, text),
              c->type == PARQUET_FLOAT || c->type == PARQUET_DOUBLE);
}

/* Call `field` with the value of a row in a page, which may be in the column's dictionary. */
static int tell_value(struct field_job *job, const struct field_page *p, uint64_t row,
                      dataset_field *field, void *arg, struct plenum_error *err)
{
    struct parquet_set *set = job->d->state;
    const struct field_page *dictionary = p;
    struct block *block = NULL;
    struct parquet_span span;
    int r = 0;

    if (row >= p->values.count)
        return error_set(err, -EBADMSG, "column '%s' has no value for the row",
                         job->source.column->name);
    span = p->values.spans[row];
    if (span.at == PARQUET_NULL)
        return 0;
    if (p->by_dictionary) {
        r = get_page(job, &job->list->dictionary, &block, err);
        if (r < 0)
            return r;
        dictionary = block_get_data(block);
    }
    if ((uint64_t)span.at + span.len <= dictionary->values.region.len)
        tell(job->source.column, &dictionary->values.region, span, field, arg);
    else /* the dictionary was read again, and differs */
        r = changed(job, err);
    if (block)
        block_cache_release(set->blocks, block);
    return r;
}

static int tell_column(struct field_job *job, const struct parquet_group *group, size_t column,
                       dataset_field *field, void *arg, struct plenum_error *err)
{
    struct parquet_set *set = job->d->state;
    const struct page_place *place;
    struct block *block;
    int r = get_pages(job, group, column, err);

    if (r < 0)
        return r;
    place = page_of(job->list, job->row);
    r = get_page(job, &place->page, &block, err);
    if (r < 0)
        return r;
    r = tell_value(job, block_get_data(block), job->row - place->first, field, arg, err);
    block_cache_release(set->blocks, block);
    return r;
}

/* Returns the row group that contains a row, or NULL if there is none. */
static const struct parquet_group *group_of(const struct parquet_file *file, uint64_t row)
{
    size_t low = 0, high = file->num_groups;

    while (low < high) { /* find the first row group that begins after the row */
        size_t middle = low + (high - low) / 2;

        if (file->groups[middle].first_row <= row)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && row - file->groups[low - 1].first_row < file->groups[low - 1].rows
               ? &file->groups[low - 1]
               : NULL;
}

static int tell_columns(struct field_job *job, dataset_field *field, void *arg,
                        struct plenum_error *err)
{
    const struct parquet_file *file = job->opened->file;
    uint64_t row = archive_number(job->d, job->sample);
    const struct parquet_group *group = group_of(file, row);
    int r = 0;

    if (!group)
        return error_set(err, -ESTALE, "it has fewer rows than before");
    job->row = row - group->first_row;
    for (size_t i = 0; i < file->num_columns && r == 0; i++)
        if (job->opened->wanted[i])
            r = tell_column(job, group, i, field, arg, err);
    return r;
}

int parquet_fields(const struct dataset *dataset, const struct index_sample *sample,
                   dataset_field *field, void *arg, struct field_memory *memory,
                   struct plenum_error *err)
{
    struct field_job job = {.d = dataset, .sample = sample, .memory = memory};
    struct source source;
    int r = archive_open(dataset, sample, &source, err);

    if (r < 0)
        return r;
    job.source.archive = source;
    r = get_opened(dataset, sample, &source, &job.opened, err);
    if (r == 0)
        r = tell_columns(&job, field, arg, err);
    archive_close(dataset, sample, &source);
    if (r == 0)
        return 0;
    return archive_prefix_read(dataset, sample, r == -ENODATA ? -ESTALE : r, err);
}
