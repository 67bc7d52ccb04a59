/* SPDX-License-Identifier: MIT */
/* sample_fields.c - reads the fields of one sample, from the stored bytes to those in a slot.
 *
 * Some formats return the values of fields by fields(); others return paths, or have located the
 * fields in advance, so that dataset_read_field() can read them. A field that is missing, damaged,
 * too long or has a different shape makes its sample bad, like an image that does not decode. */
#include "config.h"

#include "loader/dataset/field_table_priv.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/util.h"
#include "loader/dataset/dataset_priv.h"

struct collecting {
    const struct dataset *dataset;
    uint32_t sample;
    struct field_stored *all;
    struct field_memory *memory; /* raised to what reading takes, or NULL */
    int code;
};

static bool source_is(const char *source, const char *key)
{
    static const char column[] = "column ";

    if (strcmp(source, key) == 0)
        return true;
    return source[strspn(source, "0123456789")] == '\0' &&
           strncmp(key, column, strlen(column)) == 0 && strcmp(source, key + strlen(column)) == 0;
}

/* Collect a field. A list of numbers arrives value by value. */
static void collect(void *arg, const char *key, const void *value, size_t len, bool exact)
{
    struct collecting *c = arg;
    const struct fields *fields = &c->dataset->fields;

    for (uint32_t i = 0; i < fields->count && c->code == 0; i++) {
        struct field_stored *s = &c->all[i];

        if (!source_is(fields->spec[i].source, key))
            continue;
        s->state = FIELD_THERE;
        s->exact = exact;
        if (s->count++ > 0 && field_is_numbers(&fields->spec[i]))
            c->code = field_append(&s->bytes, " ", 1);
        else if (s->count > 1 && fields->spec[i].as == FIELD_AS_LINE)
            c->code = field_append(&s->bytes, "\n", 1);
        s->too_long = s->too_long || s->bytes.len + len > FIELD_STORED_MAX;
        if (c->code == 0 && !s->too_long)
            c->code = field_append(&s->bytes, value, len);
    }
}

/* Returns whether each field is a member of an archive, or a file beside the image. Only then do
 * JSON fields have members. */
static bool fields_are_files(const struct dataset *d)
{
    return d->format->find_fields || d->format->field_path;
}

/* Returns whether this field is a separate file: every field of a folder is, and in a list those of
 * the kinds npy, bytes and mask, whose values are paths. */
static bool is_file(const struct dataset *d, const struct field_spec *spec)
{
    return d->format->field_path ||
           (d->format->whole_files &&
            (spec->as == FIELD_AS_NPY || spec->as == FIELD_AS_BYTES || spec->as == FIELD_AS_MASK));
}

bool fields_have_places(const struct dataset *d)
{
    bool places = d->format->find_fields;

    for (uint32_t i = 0; i < d->fields.count; i++)
        places = places || is_file(d, &d->fields.spec[i]);
    return places;
}

/* Returns whether the field is a whole JSON file of numbers. */
static bool is_json_of_numbers(const struct field_spec *spec)
{
    size_t len = strlen(spec->source);

    return field_is_numbers(spec) && !field_member(spec) &&
           (strcmp(spec->source, "json") == 0 ||
            (len > 5 && strcmp(spec->source + len - 5, ".json") == 0));
}

/* Collect the fields that the format's fields() returns. */
static int begin_sample(struct collecting *c, struct plenum_error *err)
{
    const struct dataset *d = c->dataset;
    int r = 0;

    for (uint32_t i = 0; i < d->fields.count; i++) {
        c->all[i].member = fields_are_files(d) ? field_member(&d->fields.spec[i]) : NULL;
        c->all[i].json = fields_are_files(d) && is_json_of_numbers(&d->fields.spec[i]);
        c->all[i].exact = false;
        c->all[i].bytes.len = 0;
        c->all[i].count = 0;
        c->all[i].state = FIELD_MISSING;
        c->all[i].too_long = false;
    }
    c->code = 0;
    if (d->format->fields)
        r = d->format->fields(d, &d->index.samples[c->sample], collect, c, c->memory, err);
    return r == 0 && c->code < 0 ? error_set(err, c->code, "out of memory") : r;
}

/* Find the path of a field that is a file. Returns false if the sample has none. */
static bool find_path(const struct collecting *c, uint32_t i, char *ret, size_t size)
{
    const struct dataset *d = c->dataset;
    const struct field_spec *spec = &d->fields.spec[i];
    const struct field_stored *s = &c->all[i];
    char extension[FIELD_SOURCE_MAX];

    (void)snprintf(extension, sizeof(extension), "%.*s", (int)field_extension_len(spec),
                   spec->source);
    if (d->format->field_path)
        d->format->field_path(d, &d->index.samples[c->sample], extension, ret, size);
    else if (s->state == FIELD_THERE && s->bytes.len > 0)
        (void)snprintf(ret, size, "%s", (const char *)s->bytes.bytes); /* zeros follow it */
    else
        return false;
    return true;
}

/* Read a field from its place. */
static int read_place(struct collecting *c, uint32_t i, const struct field_place *place,
                      struct plenum_error *err)
{
    const struct dataset *d = c->dataset;
    struct field_stored *s = &c->all[i];
    char path[8192];

    if (is_file(d, &d->fields.spec[i]) && !find_path(c, i, path, sizeof(path)))
        return 0;
    s->bytes.len = 0;
    s->state = (enum field_state)place->state;
    s->too_long = place->len > FIELD_STORED_MAX;
    if (s->state != FIELD_THERE || s->too_long) /* check that a field that was unusable still is */
        return is_file(d, &d->fields.spec[i])
                   ? dataset_check_field(d, path, place, err)
                   : dataset_check_unchanged(d, &d->index.samples[c->sample], err);
    if (is_file(d, &d->fields.spec[i]))
        return dataset_read_field(d, c->sample, path, place, &s->bytes, err);
    return d->format->read_field(d, &d->index.samples[c->sample], place, &s->bytes, err);
}

static int read_all(void *arg, struct plenum_error *err)
{
    struct collecting *c = arg;
    const struct dataset *d = c->dataset;
    const struct field_place *places = d->field_table->places;
    int r = begin_sample(c, err);

    if (places)
        places += (size_t)c->sample * d->fields.count;
    for (uint32_t i = 0; i < d->fields.count && r == 0; i++)
        if (d->format->find_fields || is_file(d, &d->fields.spec[i]))
            r = read_place(c, i, &places[i], err);
    return r;
}

/* Find the files of a sample's fields. */
static int find_all(void *arg, struct plenum_error *err)
{
    struct collecting *c = arg;
    const struct dataset *d = c->dataset;
    struct field_place *places = /* our own memory */
        (struct field_place *)(uintptr_t)d->field_table->places +
        (size_t)c->sample * d->fields.count;
    char path[8192];
    int r = begin_sample(c, err);

    for (uint32_t i = 0; i < d->fields.count && r == 0; i++)
        if (is_file(d, &d->fields.spec[i]) && find_path(c, i, path, sizeof(path)))
            r = dataset_find_field(d, path, &places[i], err);
    return r;
}

int fields_read_stored(const struct dataset *d, uint32_t sample, struct field_stored *all,
                       struct field_memory *memory, struct plenum_error *err)
{
    assert(sample < samples_of(d));
    return dataset_try(
        d, read_all,
        &(struct collecting){.dataset = d, .sample = sample, .all = all, .memory = memory}, err);
}

void fields_note_hashes(const struct dataset *d, uint32_t sample, const struct field_stored *all)
{
    struct field_place *places = /* our own memory */
        (struct field_place *)(uintptr_t)d->field_table->places + (size_t)sample * d->fields.count;

    assert(d->field_table->places && sample < samples_of(d));
    for (uint32_t i = 0; i < d->fields.count; i++)
        if (is_file(d, &d->fields.spec[i]) && all[i].state == FIELD_THERE && !all[i].too_long)
            places[i].hash = stamp_hash_bytes(all[i].bytes.bytes, all[i].bytes.len);
}

int fields_find_files(const struct dataset *d, uint32_t sample, struct field_stored *all,
                      struct plenum_error *err)
{
    return dataset_try(d, find_all,
                       &(struct collecting){.dataset = d, .sample = sample, .all = all}, err);
}

static bool is_alike(const struct field_shape *a, const struct field_shape *b)
{
    return a->type == b->type && a->mask == b->mask && a->dims == b->dims &&
           (field_is_of_image(a) || memcmp(a->shape, b->shape, sizeof(a->shape)) == 0);
}

int fields_make_alike(const struct dataset *d, uint32_t field, struct field_stored *s,
                      struct field_piece *ret, struct plenum_error *err)
{
    const struct field_shape *shape = &d->fields.shape[field];
    char ours[100], theirs[100];
    int r;

    assert(field < d->fields.count);
    r = field_make_piece(&d->fields.spec[field], s, ret, err);
    if (r < 0)
        return r;
    if (!is_alike(&ret->shape, shape))
        return error_set(err, -EBADMSG, "it is %s, but the first sample's is %s",
                         field_name_shape(&ret->shape, ours, sizeof(ours)),
                         field_name_shape(shape, theirs, sizeof(theirs)));
    return 0;
}

/* Set the error about a field of a sample; returns `r`. */
static int about_field(const struct dataset *d, uint32_t sample, uint32_t field, int r,
                       struct plenum_error *err)
{
    const struct field_spec *spec = &d->fields.spec[field];
    char name[400];

    return error_prefix(err, r, "%s: field '%s' ('%s')",
                        dataset_get_sample_name(d, sample, name, sizeof(name)), spec->name,
                        spec->source);
}

size_t dataset_get_record_bytes(const struct dataset *dataset)
{
    const struct fields *fields = &dataset->fields;
    size_t bytes = fields->count * sizeof(uint32_t);

    for (uint32_t i = 0; i < fields->count; i++)
        bytes += fields->stored[i];
    return bytes;
}

/* Write a field to its room in the record. */
static int put_field(const struct dataset *d, uint32_t field, struct field_stored *s, uint8_t *room,
                     uint32_t *len, struct plenum_error *err)
{
    uint32_t most = d->fields.stored[field];
    struct field_shape needed = d->fields.shape[field];
    struct field_piece piece;
    int r = fields_make_alike(d, field, s, &piece, err);

    if (r == 0)
        field_shape_grow(&needed, &piece.shape);
    if (r == 0 && (piece.len > most || needed.room > d->fields.shape[field].room))
        r = error_set(err, -EBADMSG,
                      "it has %u bytes; when the data set was indexed it had %u at "
                      "most",
                      piece.len, most);
    if (r < 0)
        return r;
    if (piece.len > 0)
        memcpy(room, piece.bytes, piece.len);
    memset(room + piece.len, 0, most - piece.len);
    *len = piece.len;
    return 0;
}

int dataset_read_fields(const struct dataset *dataset, uint32_t sample,
                        struct dataset_buffer *buffer, struct plenum_error *err)
{
    uint32_t count = dataset->fields.count;
    struct field_stored all[FIELDS_MAX] = {{0}};
    uint8_t *room;
    int r;

    if (count == 0)
        return 0;
    if (dataset->mixed)
        return mixed_read_fields(dataset, sample, buffer, err);
    r = fields_read_stored(dataset, sample, all, NULL, err);
    if (r < 0)
        goto out;
    if (dataset_buffer_reserve(buffer, dataset_get_record_bytes(dataset)) < 0) {
        r = error_set(err, -ENOMEM, "out of memory");
        goto out;
    }
    room = buffer->bytes + count * sizeof(uint32_t);
    for (uint32_t i = 0; i < count && r == 0; i++) {
        r = put_field(dataset, i, &all[i], room, (uint32_t *)(void *)buffer->bytes + i, err);
        if (r < 0)
            r = about_field(dataset, sample, i, r, err);
        room += dataset->fields.stored[i];
    }

out:
    field_stored_fini(all, count);
    return r;
}
