/* SPDX-License-Identifier: MIT */
/* field_table.c - opens or builds the table of fields that samples have besides image and label.
 *
 * All samples of a stream have equally large slots, so the longest string and the shape of arrays
 * must be known before the first batch. The first dataset_open() with certain fields reads them for
 * all samples and writes a table: shapes, a hash by which loaders on several hosts detect that
 * their data differ, and, for archives, the offset of each field, so that reading one takes a
 * single pread(). field_scan.c reads all samples, and sample_fields.c reads one. */
#include "config.h"

#include "loader/dataset/field_table_priv.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/util/error_set.h"
#include "common/util/util.h"
#include "loader/dataset/cache.h"
#include "loader/dataset/cache_limit.h"
#include "loader/dataset/dataset_priv.h"

enum { TABLE_VERSION = 4 };

static const uint8_t table_magic[8] = {'p', 'l', 'n', 'F', 'L', 'D', 'S', '1'};

static void set_table(struct field_table *table, void *bytes, size_t len, bool mapped)
{
    struct table_header *h = bytes;

    assert(len >= sizeof(*h));
    table->header = h;
    table->places = h->places ? (const void *)(h + 1) : NULL;
    table->bytes = len;
    table->mapped = mapped;
}

static uint64_t checksum_of(const struct table_header *header, size_t bytes)
{
    return cache_checksum(header, bytes, offsetof(struct table_header, checksum));
}

static size_t table_bytes(const struct dataset *d)
{
    size_t places = fields_have_places(d) ? samples_of(d) : 0;

    return sizeof(struct table_header) + places * d->fields.count * sizeof(struct field_place);
}

/* Returns whether a field with this stored length can have this shape. */
static bool holds(const struct field_shape *shape, uint32_t stored)
{
    if (shape->type == PLENUM_FIELD_BOXES)
        return stored / sizeof(struct plenum_box) <= field_boxes_most(shape->room);
    if (shape->type == PLENUM_FIELD_KEYPOINTS) {
        size_t points = shape->shape[1] * sizeof(struct plenum_keypoint);

        return stored <= 1 + shape->shape[0] * (sizeof(struct field_pose) + points);
    }
    if (shape->type == PLENUM_FIELD_INSTANCES)
        return true; /* outlines may have any number of points */
    return shape->mask || stored >= shape->room;
}

/* Returns whether this is the table of this index and these fields. Any writer can compute the
 * checksum, so everything is validated. */
static bool is_valid(const struct dataset *d, const void *bytes, size_t len)
{
    const struct table_header *h = bytes;
    const struct field_place *places = (const void *)(h + 1);

    if (len != table_bytes(d) || memcmp(h->magic, table_magic, sizeof(h->magic)) != 0 ||
        h->version != TABLE_VERSION || h->file_bytes != len || h->count != d->fields.count ||
        h->samples != samples_of(d) || h->places != (fields_have_places(d) ? h->samples : 0) ||
        h->index_checksum != d->index.header->checksum || checksum_of(h, len) != h->checksum ||
        !memchr(h->text, '\0', sizeof(h->text)) || strcmp(h->text, d->fields.text) != 0 ||
        !memchr(h->warning, '\0', sizeof(h->warning)))
        return false;
    for (uint32_t i = 0; i < h->count; i++)
        if (!field_shape_is_valid(&h->shape[i]) || h->stored[i] > FIELD_STORED_MAX ||
            !holds(&h->shape[i], h->stored[i]))
            return false;
    for (size_t i = 0; i < (size_t)h->places * h->count; i++)
        if (places[i].state >= FIELD_STATES)
            return false;
    return true;
}

void fields_close(struct field_table *table)
{
    if (!table)
        return;
    cache_unload(table->header, table->bytes, table->mapped);
    free(table->path);
    free(table);
}

/* Open the stored table. Returns false if there is none, or it does not match. */
static bool open_kept(struct dataset *d, const char *path)
{
    int fd = path ? cache_open(path) : -1;
    bool mapped = fd >= 0 && cache_may_map(fd);
    void *bytes = NULL;
    size_t len = table_bytes(d);

    if (fd < 0)
        return false;
    if (cache_load(fd, len, mapped, &bytes) < 0)
        bytes = NULL;
    (void)close(fd);
    if (!bytes)
        return false;
    if (!is_valid(d, bytes, len)) {
        cache_unload(bytes, len, mapped);
        return false;
    }
    set_table(d->field_table, bytes, len, mapped);
    assert(d->field_table->header->count == d->fields.count);
    memcpy(d->fields.shape, d->field_table->header->shape, sizeof(d->fields.shape));
    memcpy(d->fields.stored, d->field_table->header->stored, sizeof(d->fields.stored));
    d->table_hold = cache_hold(path, NULL);
    return true;
}

static int make_table(struct dataset *d, const struct dataset_options *options,
                      struct plenum_error *err)
{
    size_t len = table_bytes(d);
    struct table_header *h;
    int r;

    if (options->memory && len > options->memory)
        return error_set(err, -ENOMEM,
                         "%s: the locations of its fields would take more memory than this loader "
                         "may use for them",
                         d->name);
    h = calloc(1, len);
    if (!h)
        return error_set(err, -ENOMEM, "out of memory");
    memcpy(h->magic, table_magic, sizeof(h->magic));
    h->version = TABLE_VERSION;
    h->count = d->fields.count;
    h->file_bytes = len;
    h->index_checksum = d->index.header->checksum;
    h->samples = samples_of(d);
    h->places = fields_have_places(d) ? h->samples : 0;
    (void)snprintf(h->text, sizeof(h->text), "%s", d->fields.text);
    set_table(d->field_table, h, len, false);
    if (d->format->find_fields) {
        r = d->format->find_fields(d, options, (void *)(h + 1), err);
        if (r < 0)
            return r;
    }
    r = fields_scan(d, options, err);
    if (r < 0)
        return r;
    r = dataset_check_cancel(options);
    assert(d->field_table->header == h && h->count == d->fields.count);
    h->checksum = checksum_of(h, len);
    return r;
}

/* Open the table, or build it. */
static int open_table(struct dataset *d, const struct dataset_options *options, const char *path,
                      struct plenum_error *err)
{
    bool waits = options->how != DATASET_NO_WAITING;
    int lock = -1, r;

    if (!options->rebuild && open_kept(d, path))
        return 0;
    if (options->how == DATASET_IF_FRESH)
        return error_set(err, -EINPROGRESS, "%s has no up-to-date table of these fields", d->name);
    if (path) {
        r = indexing_lock(d, options, waits ? UINT_MAX : 1, &lock);
        if (r < 0)
            return error_set(err, r, "another process is indexing %s", d->name);
        if (!options->rebuild && open_kept(d, path)) { /* another process has built it */
            io_close(&lock);
            return 0;
        }
    }
    r = make_table(d, options, err);
    if (r == 0 && lock >= 0 && /* otherwise, like an index, it is built by each dataset_open() */
        cache_write(path, d->field_table->header, d->field_table->bytes) == 0) {
        d->table_hold = cache_hold(path, options->user);
        io_close(&lock);
        (void)cache_trim(path, &options->limits, options->user);
    }
    io_close(&lock);
    return r;
}

/* Reject masks with an image's extension in a folder: each mask would also be a sample. */
static int check_masks(const struct dataset *d, struct plenum_error *err)
{
    for (uint32_t i = 0; i < d->fields.count; i++) {
        const struct field_spec *spec = &d->fields.spec[i];
        char name[FIELD_SOURCE_MAX + 1];

        (void)snprintf(name, sizeof(name), ".%s", spec->source);
        if (d->format->field_path && spec->as == FIELD_AS_MASK && dataset_takes_name(d, name))
            return error_set(err, -EINVAL,
                             "%s: files named *%s are its images, not masks: folder,image=jpg:%s "
                             "uses only files named *.jpg as images",
                             d->name, name, d->where);
    }
    return 0;
}

int fields_open(struct dataset *dataset, const struct dataset_options *options,
                struct plenum_error *err)
{
    struct dataset *d = dataset;
    struct field_table *table;
    int r = fields_parse(options->fields, &d->fields, err);

    if (r < 0 || d->fields.count == 0)
        return r;
    r = check_masks(d, err);
    if (r < 0)
        return r;
    if (dataset_is_generated(d))
        return error_set(err, -EINVAL, "%s: generated samples have no fields", d->name);
    d->field_table = table = calloc(1, sizeof(*table));
    if (!table)
        return error_set(err, -ENOMEM, "out of memory");
    if (d->index_path) {
        table->path =
            str_format("%s.fields-%016llx", d->index_path,
                       (unsigned long long)XXH3_64bits(d->fields.text, strlen(d->fields.text)));
        if (!table->path)
            return error_set(err, -ENOMEM, "out of memory");
    }
    r = open_table(d, options, table->path, err);
    if (r == 0 && table->header->warning[0])
        dataset_add_warning(d, table->header->warning, "");
    return r;
}

bool fields_hold(const struct dataset *d)
{
    size_t count = (size_t)samples_of(d) * d->fields.count;
    struct field_place *places;
    bool hold;

    if (!d->field_table || !d->format->find_fields)
        return true;
    places = calloc(count, sizeof(*places));
    hold = places &&
           d->format->find_fields(d, &(struct dataset_options){.again = true}, places, NULL) == 0 &&
           memcmp(places, d->field_table->places, count * sizeof(*places)) == 0;
    free(places);
    return hold;
}

void dataset_add_memory(const struct dataset *d, struct field_memory *sum)
{
    uint64_t turn = d->format && d->format->block_bytes ? d->format->block_bytes(d) : 0;

    if (d->mixed)
        mixed_add_memory(d->mixed, sum);
    if (d->field_table) {
        const struct field_memory *memory = &d->field_table->header->memory;

        sum->each = max_u64(sum->each, memory->each + dataset_get_record_bytes(d));
        turn = max_u64(turn, memory->turn); /* it includes the blocks */
    }
    sum->turn += turn;
}

uint64_t dataset_get_read_memory(const struct dataset *dataset, unsigned threads)
{
    struct field_memory sum = {0};

    dataset_add_memory(dataset, &sum);
    return threads * sum.each + sum.turn;
}

const struct fields *dataset_get_fields(const struct dataset *dataset)
{
    return &dataset->fields;
}

const uint8_t *dataset_get_fields_hash(const struct dataset *dataset)
{
    static const uint8_t none[16];

    if (dataset->mixed)
        return mixed_fields_hash(dataset->mixed);
    return dataset->field_table ? dataset->field_table->header->hash : none;
}
