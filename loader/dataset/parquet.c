/* SPDX-License-Identifier: MIT */
/* parquet.c - implements "parquet:FILES": Parquet files with one sample per row.
 *
 * The image is a column of byte strings, or the member `bytes` of a struct, as `datasets` (Hugging
 * Face) writes it; label and name are other columns. Indexing decodes labels and names, and reads
 * only the lengths of images. If images are stored uncompressed, as `datasets` does, the index has
 * their places, and a sample is read like a member of a tar archive. Otherwise the index has the
 * places of their pages, which are decompressed when a sample is read, and kept for the next one.
 *
 * A null image is a bad sample, so samples and rows have the same numbers. */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/util.h"
#include "loader/dataset/archive.h"
#include "loader/dataset/number.h"
#include "loader/dataset/parquet_features.h"
#include "loader/dataset/parquet_set.h"

enum {
    FLAG_PACKED = 2, /* `where`: offset of the page's header; `extra`: offset in the page */
    CODEC_SHIFT = 8, /* the page's codec */
};

enum column_part { IMAGE, LABEL, NAME, PARTS };

/* One file, while it is scanned. */
struct file_scan {
    struct archive *a;
    const struct parquet_file *file;
    int column[PARTS]; /* -1: none */
    struct parquet_cursor cursor[PARTS];
    struct feature_names *names; /* names of the classes */
};

static int out_of_memory(struct plenum_error *err)
{
    return error_set(err, -ENOMEM, "out of memory");
}

/* ---- columns ---- */

bool parquet_is_usable(const struct parquet_column *c)
{
    return !c->repeated && c->type != PARQUET_INT96 && c->type != PARQUET_FIXED && !c->scaled;
}

/* Set the error for a column that is missing. */
static int no_column(const struct parquet_file *file, const char *key, const char *name,
                     struct plenum_error *err)
{
    char list[400];
    size_t len = strlen(name);

    for (size_t i = 0; i < file->num_columns; i++)
        if (strncmp(file->columns[i].name, name, len) == 0 && file->columns[i].name[len] == '.')
            return error_set(err, -EBADMSG,
                             "its column '%s' is a list, a map or a struct, of which '%s' is a "
                             "part: a row must have one value (choose another with parquet,%s="
                             "COLUMN:)",
                             name, file->columns[i].name, key);
    return error_set(err, -EBADMSG,
                     "it has no column '%s'; its columns: %s (choose one with parquet,%s=COLUMN:)",
                     name, parquet_file_list(file, list, sizeof(list)), key);
}

/* Returns why a column cannot be used for the setting `key`, or NULL if it can. */
static const char *why_unusable(const struct parquet_file *file, int column, const char *key)
{
    const struct parquet_column *c = &file->columns[column];

    if (parquet_file_is_twin(file, column))
        return "has the name of another column";
    if (c->repeated)
        return "is nested: a row has any number of values";
    if (c->scaled)
        return "is a DECIMAL with digits after the point, which is not supported";
    if (!parquet_is_usable(c))
        return "has values of a type that is not supported";
    return c->time && strcmp(key, "label") == 0
               ? "holds dates or times, which are not numbers of classes"
               : NULL;
}

static int find_usable(const struct parquet_file *file, const char *key, const char *name,
                       struct plenum_error *err)
{
    int column = parquet_file_find(file, name);
    const char *why;

    if (column < 0)
        return no_column(file, key, name, err);
    why = why_unusable(file, column, key);
    if (why)
        return error_set(err, -EBADMSG,
                         "its column '%s' %s: choose another with parquet,%s=COLUMN:", name, why,
                         key);
    return column;
}

/* Returns the column in the setting `key`; without it, the only column with this feature type;
 * otherwise `key` itself. */
static const char *column_name(const struct dataset *d, const struct parquet_file *file,
                               const char *key, const char *type, char room[256])
{
    const char *name = dataset_setting(d, key, NULL);

    if (name)
        return name;
    return features_find(file, type, room, 256) ? room : key;
}

int parquet_find_image(const struct dataset *d, const struct parquet_file *file,
                       struct plenum_error *err)
{
    char room[256], member[300];
    const char *name = column_name(d, file, "image", "Image", room);
    int column = parquet_file_find(file, name);
    const struct parquet_column *c;

    (void)snprintf(member, sizeof(member), "%s.bytes", name);
    if (column < 0)
        column = parquet_file_find(file, member);
    if (column < 0)
        return no_column(file, "image", name, err);
    c = &file->columns[column];
    if (parquet_file_is_twin(file, column))
        return error_set(err, -EBADMSG, "two of its columns are called '%s': rename one of them",
                         c->name);
    if (c->repeated || c->type != PARQUET_BYTES || c->text)
        return error_set(err, -EBADMSG,
                         "its column '%s' %s: images must be byte strings, one per row (choose "
                         "another with parquet,image=COLUMN:)",
                         c->name,
                         c->repeated ? "is nested"
                         : c->text   ? "holds texts, perhaps the names of files"
                                     : "does not hold byte strings");
    return column;
}

/* Find the column with the name of the image's file: the member `path` beside the member
 * `bytes`. */
static int find_name(const struct file_scan *s, struct plenum_error *err)
{
    const char *name = dataset_setting(s->a->dataset, "name", NULL), *dot;
    char sibling[300];
    int column;

    if (name)
        return find_usable(s->file, "name", name, err);
    if (s->column[IMAGE] < 0)
        return -1;
    name = s->file->columns[s->column[IMAGE]].name;
    dot = strrchr(name, '.');
    (void)snprintf(sibling, sizeof(sibling), "%.*s.path", (int)(dot ? dot - name : 0), name);
    column = dot ? parquet_file_find(s->file, sibling) : -1;
    return column >= 0 && parquet_is_usable(&s->file->columns[column]) ? column : -1;
}

/* Find the column with the label, and the names of its classes. */
static int find_label(struct file_scan *s)
{
    const struct dataset *d = s->a->dataset;
    struct plenum_error *err = &s->a->err, why;
    char room[256];
    const char *label = column_name(d, s->file, "label", "ClassLabel", room);
    int column = find_usable(s->file, "label", label, err);

    if (column < 0 && !dataset_setting(d, "label", NULL)) {
        why = *err;
        return error_set(err, column, "%s; parquet,label=none: sets all labels to 0", why.text);
    }
    s->column[LABEL] = column;
    return column < 0 ? column : features_read_names(s->file, label, s->names, err);
}

static int find_columns(struct file_scan *s)
{
    const struct dataset *d = s->a->dataset;
    struct plenum_error *err = &s->a->err;
    int r;

    s->column[IMAGE] = s->column[LABEL] = -1;
    if (dataset_has_images(d)) {
        s->column[IMAGE] = parquet_find_image(d, s->file, err);
        if (s->column[IMAGE] < 0)
            return s->column[IMAGE];
    }
    r = archive_has_labels(d) ? find_label(s) : 0;
    if (r < 0)
        return r;
    s->column[NAME] = find_name(s, err);
    return s->column[NAME] < -1 ? s->column[NAME] : 0;
}

/* ---- rows ---- */

static int64_t integer_of(const struct parquet_column *c, const uint8_t *value)
{
    int32_t i32;
    int64_t i64;

    if (c->type == PARQUET_INT64) {
        memcpy(&i64, value, sizeof(i64));
        return i64;
    }
    memcpy(&i32, value, sizeof(i32));
    return c->no_sign ? (int64_t)(uint32_t)i32 : i32;
}

size_t parquet_print(const struct parquet_column *c, const uint8_t *value, char *ret)
{
    double number;
    float single;

    assert(parquet_is_usable(c) && c->type != PARQUET_BYTES);
    if (c->type == PARQUET_BOOLEAN)
        return (size_t)snprintf(ret, PARQUET_TEXT_MAX, "%u", *value);
    if (c->type == PARQUET_FLOAT) {
        memcpy(&single, value, sizeof(single));
        return number_print((double)single, 9, ret, PARQUET_TEXT_MAX);
    }
    if (c->type == PARQUET_DOUBLE) {
        memcpy(&number, value, sizeof(number));
        return number_print(number, 17, ret, PARQUET_TEXT_MAX);
    }
    if (c->no_sign && c->type == PARQUET_INT64)
        return (size_t)snprintf(ret, PARQUET_TEXT_MAX, "%llu",
                                (unsigned long long)integer_of(c, value));
    return (size_t)snprintf(ret, PARQUET_TEXT_MAX, "%lld", (long long)integer_of(c, value));
}

/* Add the label of a row. Returns the label's number; -1 if there are no labels; or an -errno below
 * -1. */
static int64_t add_label(struct file_scan *s, const struct parquet_value *label, uint64_t row)
{
    struct archive *a = s->a;
    const struct parquet_column *c;
    char number[PARQUET_TEXT_MAX];
    const char *text = number;
    size_t len;
    int64_t r;

    if (s->column[LABEL] < 0)
        return -1;
    c = &s->file->columns[s->column[LABEL]];
    if (label->null)
        return error_set(&a->err, -EBADMSG,
                         "row %llu has no label: its value in column '%s' is null (use another "
                         "column, or parquet,label=none:)",
                         (unsigned long long)row, c->name);
    len = label->len;
    if (c->type == PARQUET_BYTES)
        text = (const char *)label->bytes;
    else
        len = parquet_print(c, label->bytes, number);
    r = index_builder_add_label(&a->builder, LABEL_VALUE, text, len, &a->err);
    if (r == -EBADMSG)
        return error_prefix(&a->err, -EBADMSG, "the label of row %llu, in column '%s'",
                            (unsigned long long)row, c->name);
    return r < 0 ? out_of_memory(&a->err) : r;
}

static int copy_name(struct file_scan *s, const struct parquet_value *name, uint64_t row,
                     char ret[256])
{
    const struct parquet_column *c;
    size_t len;

    *ret = '\0';
    if (s->column[NAME] < 0 || name->null)
        return 0;
    c = &s->file->columns[s->column[NAME]];
    if (c->type != PARQUET_BYTES) {
        ret[parquet_print(c, name->bytes, ret)] = '\0';
        return 0;
    }
    len = (size_t)min_u64(name->len, 255);
    if (memchr(name->bytes, '\0', len))
        return error_set(&s->a->err, -EBADMSG,
                         "the name of row %llu, in column '%s', contains zero bytes: names must be "
                         "text (choose another column with parquet,name=COLUMN:)",
                         (unsigned long long)row, c->name);
    memcpy(ret, name->bytes, len);
    ret[len] = '\0';
    return 0;
}

/* Returns the index's sample of a row. */
static struct index_sample sample_of(struct file_scan *s, const struct parquet_value *image)
{
    struct index_builder *b = &s->a->builder;
    uint64_t size = s->a->size / (s->file->rows ? s->file->rows : 1);
    unsigned flags = FLAG_PACKED;

    if (s->column[IMAGE] < 0)
        return (struct index_sample){.len = (uint32_t)min_u64(max_u64(size, 1), UINT32_MAX)};
    if (image->null)
        return (struct index_sample){.len = 1, .flags = INDEX_BAD};
    if (!image->packed)
        return (struct index_sample){.where = image->where, .len = image->len};
    b->packed++;
    b->packed_bytes += image->page_len;
    flags |= (unsigned)s->cursor[IMAGE].source.codec << CODEC_SHIFT;
    return (struct index_sample){
        .where = image->where, .len = image->len, .extra = image->extra, .flags = (uint16_t)flags};
}

static int add_row(struct file_scan *s, const struct parquet_value *values, uint64_t row)
{
    struct index_sample sample = sample_of(s, &values[IMAGE]);
    char name[256];
    int64_t r = add_label(s, &values[LABEL], row);

    if (r < -1)
        return (int)r;
    sample.label = (int32_t)r;
    if (copy_name(s, &values[NAME], row, name) < 0)
        return -EBADMSG;
    r = index_builder_add_sample(&s->a->builder, &sample, name);
    if (r < 0)
        return error_set(&s->a->err, (int)r, "%s",
                         r == -EOVERFLOW ? "more samples than an index can hold" : "out of memory");
    return 0;
}

static int scan_rows(struct file_scan *s)
{
    struct parquet_value values[PARTS] = {{.null = true}};
    uint64_t nulls = 0;

    for (uint64_t row = 0; row < s->file->rows; row++) {
        int r = dataset_check_cancel(s->a->options);

        for (int i = 0; i < PARTS && r >= 0; i++)
            if (s->column[i] >= 0)
                r = parquet_cursor_next(&s->cursor[i], &values[i], &s->a->err);
        if (r >= 0)
            r = add_row(s, values, row);
        if (r < 0)
            return r;
        nulls += s->column[IMAGE] >= 0 && values[IMAGE].null;
    }
    if (nulls > 0 && nulls == s->file->rows)
        return error_set(&s->a->err, -EBADMSG,
                         "all images, in column '%s', are null: write the file with the images in "
                         "it (with datasets, embed_external_files=True does that)",
                         s->file->columns[s->column[IMAGE]].name);
    return 0;
}

static int scan_columns(struct file_scan *s)
{
    int r = find_columns(s);

    if (r < 0)
        return r;
    r = 0;
    for (int i = 0; i < PARTS; i++)
        if (s->column[i] >= 0) {
            parquet_cursor_init(&s->cursor[i], s->file, s->a->source, (size_t)s->column[i],
                                i == IMAGE);
            s->cursor[i].source.memory = s->a->builder.memory;
        }
    if (s->column[IMAGE] < 0 && s->column[LABEL] < 0 && s->column[NAME] < 0)
        r = parquet_check_rows(s->file, s->a->source, &s->a->err);
    if (r == 0)
        r = scan_rows(s);
    for (int i = 0; i < PARTS; i++)
        if (s->column[i] >= 0)
            parquet_cursor_fini(&s->cursor[i]);
    return r;
}

static int scan_file(struct archive *a)
{
    struct feature_names *names = a->arg;
    struct parquet_file *file = NULL;
    int r = parquet_file_read(&a->source, a->size, &file, &a->err);

    if (r == 0)
        r = scan_columns(&(struct file_scan){.a = a, .file = file, .names = &names[a->number]});
    parquet_file_free(file);
    (void)atomic_fetch_add(a->progress, a->size);
    if (r < 0 && r != -ECANCELED)
        return archive_prefix(a, r == -ENODATA ? -ESTALE : r);
    return r;
}

/* ---- all files ---- */

/* Check that all files name the same classes. */
static int check_names(const struct archive *files, size_t count, const struct feature_names *names,
                       struct plenum_error *err)
{
    for (size_t i = 1; i < count; i++)
        if (names[i].len != names[0].len ||
            (names[0].len > 0 && memcmp(names[i].text, names[0].text, names[0].len) != 0))
            return error_set(err, -EBADMSG,
                             "%s and %s name different classes: classes=FILE names those of the "
                             "data set",
                             files[0].path, files[i].path);
    return 0;
}

static int name_classes(const struct feature_names *names, struct index_builder *b)
{
    const char **list = malloc((names->count + 1) * sizeof(*list)), *at = names->text;
    int r;

    if (!list)
        return -ENOMEM;
    for (uint32_t i = 0; i < names->count; i++) {
        list[i] = at;
        at += strlen(at) + 1;
    }
    assert(at == names->text + names->len);
    r = index_builder_name_classes(b, list, names->count);
    free(list);
    return r;
}

static int merge(struct archive *files, size_t count, struct index_builder *b,
                 struct plenum_error *err)
{
    const struct feature_names *names = files[0].arg;
    int r = archive_append(files, count, b, err);

    if (r == 0)
        r = index_builder_settle_labels(b, err);
    if (r < 0 || !b->unnamed || !archive_has_labels(files[0].dataset))
        return r;
    r = check_names(files, count, names, err);
    if (r < 0 || names[0].count == 0)
        return r;
    r = name_classes(&names[0], b);
    return r < 0 ? out_of_memory(err) : 0;
}

static int parquet_scan(const struct dataset *dataset, const struct dataset_options *options,
                        struct index_builder *b, struct plenum_error *err)
{
    size_t count = dataset->files.count;
    struct feature_names *names = calloc(count, sizeof(*names));
    struct archive_work work = {.scan = scan_file, .merge = merge, .arg = names};
    int r = names ? 0 : out_of_memory(err);

    if (r == 0 && !archive_has_labels(dataset))
        r = dataset_refuse_classes(dataset, err);
    if (r == 0)
        r = archive_scan(dataset, options, &work, b, err);
    if (r == 0 && b->num_samples == 0)
        r = error_set(err, -EBADMSG, "%s contains no rows", dataset->name);
    for (size_t i = 0; names && i < count; i++)
        free(names[i].text);
    free(names);
    return r;
}

/* ---- the name ---- */

static int parquet_locate(struct dataset *d, const struct dataset_options *options,
                          struct plenum_error *err)
{
    struct parquet_set *set = calloc(1, sizeof(*set));
    int r;

    if (!set)
        return out_of_memory(err);
    lock_init(&set->mu);
    d->state = set;
    set->blocks = block_cache_create(BLOCK_CACHE_BYTES);
    if (!set->blocks)
        return out_of_memory(err);
    r = archive_locate(d, options, err);
    if (r < 0)
        return r;
    set->files = calloc(d->files.count, sizeof(struct parquet_opened *));
    set->num_files = d->files.count;
    return set->files ? r : out_of_memory(err);
}

static void parquet_release(struct dataset *d)
{
    struct parquet_set *set = d->state;

    if (!set)
        return;
    for (size_t i = 0; set->files && i < set->num_files; i++)
        parquet_opened_free(set->files[i]);
    free(set->files);
    block_cache_destroy(set->blocks);
    lock_fini(&set->mu);
    free(set);
}

static bool parquet_recognise(const struct path_probe *probe)
{
    return S_ISREG(probe->st.st_mode) && probe->head_len >= 4 &&
           (memcmp(probe->head, "PAR1", 4) == 0 || memcmp(probe->head, "PARE", 4) == 0);
}

/* ---- an indexed data set ---- */

static void parquet_describe(const struct dataset *dataset, const struct index_sample *sample,
                             char *ret, size_t size)
{
    const char *name = index_name(&dataset->index, sample->name);
    size_t n = archive_path(dataset, sample, ret, size);

    (void)snprintf(ret + n, size - n, ", row %llu%s%s%s",
                   (unsigned long long)archive_number(dataset, sample), *name ? " (" : "", name,
                   *name ? ")" : "");
}

/* A page that is being decompressed. */
struct page_work {
    struct parquet_source source;
    struct parquet_page page;
};

static int make_page(const struct block_recipe *recipe, void **ret, struct plenum_error *err)
{
    const struct page_work *work = recipe->arg;
    uint8_t *bytes = malloc(recipe->bytes + 1);
    int r =
        bytes ? parquet_page_unpack(&work->source, &work->page, bytes, err) : out_of_memory(err);

    if (r < 0)
        free(bytes);
    else
        *ret = bytes;
    return r;
}

/* Copy a sample from its page, which is decompressed unless it is cached. */
static int copy_packed(const struct dataset *dataset, const struct index_sample *sample,
                       struct page_work *work, uint8_t *dst, struct plenum_error *err)
{
    struct parquet_set *set = dataset->state;
    struct block_recipe recipe = {.container = sample->container,
                                  .at = sample->where,
                                  .use = work->source.codec,
                                  .make = make_page,
                                  .destroy = free,
                                  .arg = work};
    struct block *block = block_cache_find(set->blocks, &recipe);
    int r = block ? 0 : parquet_page_read(&work->source, sample->where, &work->page, err);

    if (r < 0)
        return r;
    if (!block) {
        recipe.bytes = parquet_page_region_len(&work->page);
        r = block_cache_get(set->blocks, &recipe, &block, err);
        if (r < 0)
            return r;
    }
    /* The block may have been made from an earlier header. */
    if ((uint64_t)sample->extra + sample->len > block_get_bytes(block))
        r = error_set(err, -EBADMSG, "the page at byte %llu is damaged: it is shorter than it was",
                      (unsigned long long)sample->where);
    else
        memcpy(dst, (const uint8_t *)block_get_data(block) + sample->extra, sample->len);
    block_cache_release(set->blocks, block);
    return r;
}

static int read_packed(const struct dataset *dataset, const struct index_sample *sample,
                       struct dataset_buffer *buffer, struct plenum_error *err)
{
    struct parquet_column column = {
        .name = (char *)(uintptr_t)dataset_setting(dataset, "image", "image")};
    struct page_work work = {
        .source = {.column = &column,
                   .end = dataset->index.containers[sample->container].stamp.size,
                   .codec = (enum unpack_codec)(sample->flags >> CODEC_SHIFT)}};
    struct source source;
    int r;

    if (dataset_buffer_reserve(buffer, sample->len) < 0)
        return out_of_memory(err);
    r = archive_open(dataset, sample, &source, err);
    if (r < 0)
        return r;
    work.source.archive = source;
    r = unpack_check(work.source.codec, err);
    if (r == 0)
        r = copy_packed(dataset, sample, &work, buffer->bytes, err);
    archive_close(dataset, sample, &source);
    if (r == 0)
        return 0;
    return archive_prefix_read(dataset, sample, r == -ENODATA ? -ESTALE : r, err);
}

static int parquet_read(const struct dataset *dataset, const struct index_sample *sample,
                        struct dataset_buffer *buffer, struct plenum_error *err)
{
    char name[8192];
    struct source source;
    int r;

    if (!(sample->flags & (INDEX_BAD | FLAG_PACKED)))
        return archive_read(dataset, sample, sample->where, buffer, err);
    if (sample->flags & FLAG_PACKED)
        return read_packed(dataset, sample, buffer, err);
    r = archive_open(dataset, sample, &source, err); /* fails if the file has changed */
    if (r < 0)
        return r;
    archive_close(dataset, sample, &source);
    parquet_describe(dataset, sample, name, sizeof(name));
    return error_set(err, -EBADMSG, "%s: its image is null", name);
}

static void parquet_announce(const struct dataset *dataset, const struct index_sample *sample)
{
    if (!(sample->flags & (INDEX_BAD | FLAG_PACKED)))
        archive_announce(dataset, sample);
}

/* Returns whether any sample is in a compressed page. */
static bool is_packed(const struct dataset *d)
{
    struct parquet_set *set = d->state;
    int known = atomic_load(&set->packed);

    if (known != 0)
        return known > 0;
    known = -1;
    for (uint32_t i = 0; i < d->index.header->samples && known < 0; i++)
        if (d->index.samples[i].flags & FLAG_PACKED)
            known = 1;
    atomic_store(&set->packed, known);
    return known > 0;
}

static uint64_t parquet_block_bytes(const struct dataset *d)
{
    const struct parquet_set *set = d->state;
    uint64_t most = is_packed(d) ? min_u64(d->index.header->bytes, BLOCK_CACHE_BYTES) : 0;

    return max_u64(most, block_cache_get_peak(set->blocks));
}

static const char *const patterns[] = {"*.parquet"};

static const struct format_setting settings[] = {
    ARCHIVE_SETTINGS,
    {"image", "the column with the encoded image (image); none: no images"},
    {"label", "the column with the class (label); none: all labels are 0"},
    {"name", "the column with the file's name (the image's path)"},
};

const struct format format_parquet = {
    .name = "parquet",
    .settings = settings,
    .num_settings = ARRAY_LEN(settings),
    .patterns = patterns,
    .num_patterns = ARRAY_LEN(patterns),
    .remote = true,
    .recognise = parquet_recognise,
    .locate = parquet_locate,
    .release = parquet_release,
    .scan = parquet_scan,
    .fresh = archive_fresh,
    .read = parquet_read,
    .announce = parquet_announce,
    .describe = parquet_describe,
    .fields = parquet_fields,
    .block_bytes = parquet_block_bytes,
};
