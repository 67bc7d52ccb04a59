/* SPDX-License-Identifier: MIT */
/* fields.c - the fields that samples have besides image and label.
 *
 * All samples of a stream have the same room in a slot, so the longest text and the shape of arrays
 * must be known before the first batch. The first dataset_open() with some fields reads them for
 * all samples and writes a table: shapes, a hash by which loaders on several hosts detect that
 * their data differ, and, for archives, the place of each field, so that reading one is a single
 * pread().
 *
 * An array's shape is that of the first sample that has one. A field that is missing, damaged, too
 * long or of another shape makes its sample bad, like an image that does not decode. */
#include "config.h"

#include "loader/dataset/fields.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/error.h"
#include "common/parallel.h"
#include "common/util.h"
#include "loader/dataset/cache.h"
#include "loader/dataset/cache_limit.h"
#include "loader/dataset/dataset_priv.h"
#include "loader/dataset/field_value.h"

enum {
    TABLE_VERSION = 4,
    FIELD_MEMORY = 3 * FIELD_STORED_MAX, /* of one field in one thread: bytes, member and numbers */
    SAMPLES_A_TURN = 256,
};

static const uint8_t table_magic[8] = {'p', 'l', 'n', 'F', 'L', 'D', 'S', '1'};

/** The file: this header, then the places [samples][fields] if the format locates fields. */
struct table_header {
    uint8_t magic[8];
    uint32_t version, count;
    uint64_t file_bytes;
    uint64_t checksum; /* XXH3-64 of the file with this field zero */
    uint64_t index_checksum;
    uint32_t samples, places; /* places is equal to samples, or 0 */
    uint8_t hash[16];
    char text[FIELDS_TEXT_MAX];
    char warning[400];
    struct field_shape shape[FIELDS_MAX];
    uint32_t stored[FIELDS_MAX];
    struct field_memory memory;
};

struct field_table {
    struct table_header *header;      /* in `bytes`, like places */
    const struct field_place *places; /* [samples][fields], or NULL */
    size_t bytes;
    bool mapped;
    char *path; /* path of the file, or NULL */
};

/* ---- one sample ---- */

struct collecting {
    const struct dataset *dataset;
    uint32_t sample;
    struct field_stored *all;
    struct field_memory *memory; /* or NULL */
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

/* Is each field a member of an archive, or a file beside the image? Only then do JSON fields have
 * members. */
static bool fields_are_files(const struct dataset *d)
{
    return d->format->find_fields || d->format->field_path;
}

/* Is this field a file of its own? A list contains the paths of such kinds, not their bytes. */
static bool is_file(const struct dataset *d, const struct field_spec *spec)
{
    return d->format->field_path ||
           (d->format->whole_files &&
            (spec->as == FIELD_AS_NPY || spec->as == FIELD_AS_BYTES || spec->as == FIELD_AS_MASK));
}

/* Are the places of some fields known before they are read? */
static bool has_places(const struct dataset *d)
{
    bool places = d->format->find_fields;

    for (uint32_t i = 0; i < d->fields.count; i++)
        places = places || is_file(d, &d->fields.spec[i]);
    return places;
}

/* Is it a JSON file that is wanted, as a whole, as numbers? */
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

/* Find the path of a field that is a file. False: the sample has none. */
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
    if (s->state != FIELD_THERE || s->too_long) /* it was unusable; is that still so? */
        return is_file(d, &d->fields.spec[i])
                   ? dataset_check_field(d, path, place, err)
                   : dataset_check_unchanged(d, &d->index.samples[c->sample], err);
    if (is_file(d, &d->fields.spec[i]))
        return dataset_read_field(d, path, place, &s->bytes, err);
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

/* Read all fields of a sample, as stored, into `all` [fields], which is zero-initialised. */
static int read_stored(const struct dataset *d, uint32_t sample, struct field_stored *all,
                       struct field_memory *memory, struct plenum_error *err)
{
    return dataset_try(
        d, read_all,
        &(struct collecting){.dataset = d, .sample = sample, .all = all, .memory = memory}, err);
}

/* Record the hashes of a sample's field files, which were just read. */
static void note_hashes(const struct dataset *d, uint32_t sample, const struct field_stored *all)
{
    struct field_place *places = /* our own memory */
        (struct field_place *)(uintptr_t)d->field_table->places + (size_t)sample * d->fields.count;

    for (uint32_t i = 0; i < d->fields.count; i++)
        if (is_file(d, &d->fields.spec[i]) && all[i].state == FIELD_THERE && !all[i].too_long)
            places[i].hash = stamp_hash_bytes(all[i].bytes.bytes, all[i].bytes.len);
}

/* Record the places of a sample's field files. */
static int find_files(const struct dataset *d, uint32_t sample, struct field_stored *all,
                      struct plenum_error *err)
{
    return dataset_try(d, find_all,
                       &(struct collecting){.dataset = d, .sample = sample, .all = all}, err);
}

static bool is_alike(const struct field_shape *a, const struct field_shape *b)
{
    return a->type == b->type && a->mask == b->mask && a->dims == b->dims &&
           memcmp(a->shape, b->shape, sizeof(a->shape)) == 0;
}

/* Convert a field whose shape is known. */
static int make_alike(const struct dataset *d, uint32_t field, struct field_stored *s,
                      struct field_piece *ret, struct plenum_error *err)
{
    const struct field_shape *shape = &d->fields.shape[field];
    char ours[100], theirs[100];
    int r = field_make_piece(&d->fields.spec[field], s, ret, err);

    if (r < 0)
        return r;
    if (!is_alike(&ret->shape, shape))
        return error_set(err, -EBADMSG, "it is %s, and the first sample's is %s",
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

uint64_t dataset_get_field_memory(const struct dataset *dataset, unsigned threads)
{
    const struct field_memory *memory;

    if (!dataset->field_table)
        return 0;
    memory = &dataset->field_table->header->memory;
    return threads * (memory->each + dataset_get_record_bytes(dataset)) + memory->turn;
}

/* Write a field to its room in the record. */
static int put_field(const struct dataset *d, uint32_t sample, uint32_t field,
                     struct field_stored *s, uint8_t *room, uint32_t *len, struct plenum_error *err)
{
    uint32_t most = d->fields.stored[field];
    struct field_piece piece;
    int r = make_alike(d, field, s, &piece, err);

    if (r == 0 && (piece.len > most || piece.shape.room > d->fields.shape[field].room))
        r = error_set(err, -EBADMSG,
                      "it has %u bytes; when the data set was indexed it had %u at "
                      "most",
                      piece.len, most);
    if (r < 0)
        return about_field(d, sample, field, r, err);
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
    r = read_stored(dataset, sample, all, NULL, err);
    if (r < 0)
        goto out;
    if (dataset_buffer_reserve(buffer, dataset_get_record_bytes(dataset)) < 0) {
        r = error_set(err, -ENOMEM, "out of memory");
        goto out;
    }
    room = buffer->bytes + count * sizeof(uint32_t);
    for (uint32_t i = 0; i < count && r == 0; i++) {
        r = put_field(dataset, sample, i, &all[i], room, (uint32_t *)(void *)buffer->bytes + i,
                      err);
        room += dataset->fields.stored[i];
    }

out:
    field_stored_fini(all, count);
    return r;
}

/* ---- all samples ---- */

struct turn {
    uint32_t longest[FIELDS_MAX]; /* as stored */
    uint32_t room[FIELDS_MAX];    /* as delivered */
    uint32_t good[FIELDS_MAX];    /* samples that have the field */
    uint32_t bad, first_bad;      /* samples that lack some field */
    struct field_memory memory;   /* needed to read a sample */
    uint64_t hash;
};

struct reading {
    const struct dataset *dataset;
    const struct dataset_options *options;
    struct turn *turns;
    bool finds; /* also locates files */
    struct plenum_error err;
    atomic_bool failed;
};

static uint32_t samples_of(const struct dataset *d)
{
    return d->index.header->samples;
}

/* Add the lengths, the hash and the faults of one sample. */
static int add_sample(const struct dataset *d, uint32_t sample, struct field_stored *all,
                      struct turn *turn, XXH3_state_t *hash, struct plenum_error *err)
{
    struct field_piece piece;
    bool bad = false;

    for (uint32_t i = 0; i < d->fields.count; i++) {
        uint32_t len = UINT32_MAX; /* none */
        int r = make_alike(d, i, &all[i], &piece, err);

        if (r < 0 && r != -EBADMSG) /* the loader's fault, not the sample's */
            return r;
        if (r == 0) {
            len = piece.len;
            turn->good[i]++;
            turn->longest[i] = len > turn->longest[i] ? len : turn->longest[i];
            if (piece.shape.room > turn->room[i])
                turn->room[i] = piece.shape.room;
        }
        (void)XXH3_64bits_update(hash, &len, sizeof(len));
        if (len != UINT32_MAX)
            (void)XXH3_64bits_update(hash, piece.bytes, len);
        bad = bad || len == UINT32_MAX;
    }
    if (bad && turn->bad++ == 0)
        turn->first_bad = sample;
    return 0;
}

/* Bytes of the buffers of fields, which are as large as the largest sample so far required. */
static uint64_t stored_bytes(const struct field_stored *all, uint32_t count)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < count; i++)
        bytes += all[i].bytes.cap + all[i].picked.cap + all[i].numbers.cap;
    return bytes;
}

/* The number of threads that can read within the memory limit for indexing. */
static unsigned threads_within(const struct dataset_options *options, uint32_t fields)
{
    unsigned threads = options->threads ? options->threads : parallel_cpus();
    uint64_t each = (uint64_t)fields * FIELD_MEMORY;

    if (options->memory == 0)
        return threads;
    return (unsigned)max_u64(min_u64(threads, options->memory / each), 1);
}

static int read_turn(void *arg, uint64_t index, unsigned thread)
{
    struct reading *reading = arg;
    const struct dataset *d = reading->dataset;
    struct turn *turn = &reading->turns[index];
    uint64_t begin = index * SAMPLES_A_TURN, end = min_u64(begin + SAMPLES_A_TURN, samples_of(d));
    struct field_stored all[FIELDS_MAX] = {{0}};
    struct plenum_error err;
    XXH3_state_t hash;
    int r = 0;

    (void)thread;
    (void)XXH3_64bits_reset(&hash);
    for (uint64_t i = begin; i < end && r == 0; i++) {
        r = dataset_check_cancel(reading->options);
        if (r == 0 && reading->finds)
            r = find_files(d, (uint32_t)i, all, &err);
        if (r == 0)
            r = read_stored(d, (uint32_t)i, all, &turn->memory, &err);
        if (r == 0 && reading->finds)
            note_hashes(d, (uint32_t)i, all);
        if (r == -EBADMSG) { /* a damaged record */
            for (uint32_t k = 0; k < d->fields.count; k++)
                all[k].state = FIELD_MISSING;
            r = 0;
        }
        if (r == 0)
            r = add_sample(d, (uint32_t)i, all, turn, &hash, &err);
        if (r < 0 && r != -ECANCELED && !atomic_exchange(&reading->failed, true))
            reading->err = err;
    }
    turn->hash = XXH3_64bits_digest(&hash);
    turn->memory.each += stored_bytes(all, d->fields.count);
    field_stored_fini(all, d->fields.count);
    return r;
}

static void tell_progress(void *arg, uint64_t done, uint64_t total)
{
    struct reading *reading = arg;

    (void)total;
    reading->options->progress(reading->options->progress_arg, "fields",
                               min_u64(done * SAMPLES_A_TURN, samples_of(reading->dataset)),
                               samples_of(reading->dataset));
}

/* Collects the names of a sample's other fields, each once, for a message. */
struct naming {
    char text[400];
    size_t len;
};

static void name_field(void *arg, const char *key, const void *value, size_t len, bool exact)
{
    struct naming *n = arg;
    size_t key_len = strlen(key);

    (void)value;
    (void)len;
    (void)exact;
    if (n->len >= key_len && strcmp(n->text + n->len - key_len, key) == 0 &&
        (n->len == key_len || n->text[n->len - key_len - 1] == ' '))
        return; /* a feature's next value */
    n->len += (size_t)snprintf(n->text + n->len, sizeof(n->text) - n->len, "%s%s",
                               n->len ? ", " : "", key);
    if (n->len >= sizeof(n->text))
        n->len = sizeof(n->text) - 1;
}

/* Append a suggestion to the error about a field that no sample has. */
static void add_hint(const struct dataset *d, const struct field_spec *spec, enum field_state state,
                     struct plenum_error *err)
{
    struct naming names = {.len = 0};
    struct plenum_error why = *err, none;

    if (state == FIELD_MISSING && d->format->fields &&
        d->format->fields(d, &d->index.samples[0], name_field, &names, NULL, &none) == 0 &&
        names.len > 0)
        (void)error_set(err, -EBADMSG, "%s: it has %s", why.text, names.text);
    else if (state == FIELD_MISSING && field_names_member(spec) && !field_member(spec))
        (void)error_set(err, -EBADMSG,
                        "%s: members of JSON are text, line, int64, float32 or boxes", why.text);
    else if (state == FIELD_THERE && spec->as == FIELD_AS_TEXT && !field_member(spec))
        (void)error_set(err, -EBADMSG,
                        "%s: is it of another kind than text? then say which, as in %s:%s:npy",
                        why.text, spec->name, spec->source);
}

/* Set the error for a field that no sample has. */
static int nobody_has(const struct dataset *d, uint32_t field, struct plenum_error *err)
{
    const struct field_spec *spec = &d->fields.spec[field];
    struct field_stored all[FIELDS_MAX] = {{0}};
    struct field_piece piece;
    char name[400];
    int r = read_stored(d, 0, all, NULL, err);

    if (r == 0) {
        r = field_make_piece(spec, &all[field], &piece, err);
        if (r == -EBADMSG)
            add_hint(d, spec, all[field].state, err);
    }
    field_stored_fini(all, d->fields.count);
    if (r == 0)
        return error_set(err, -EBADMSG, "%s: the field '%s' changes while it is read", d->name,
                         spec->name);
    return error_prefix(err, -EBADMSG, "%s: no sample has the field '%s' ('%s'); the first one, %s",
                        d->name, spec->name, spec->source,
                        dataset_get_sample_name(d, 0, name, sizeof(name)));
}

/* The shape of each array is that of the first sample that has it. */
static int learn_shapes(struct dataset *d, const struct dataset_options *options,
                        struct plenum_error *err)
{
    struct field_stored all[FIELDS_MAX] = {{0}};
    uint32_t known = 0, n = samples_of(d), count = d->fields.count;
    bool is_known[FIELDS_MAX] = {false}, finds = has_places(d) && !d->format->find_fields;
    int r = 0;

    for (uint32_t sample = 0; sample < n && known < count; sample++) {
        r = dataset_check_cancel(options);
        if (r == 0 && finds)
            r = find_files(d, sample, all, err);
        if (r == 0)
            r = read_stored(d, sample, all, NULL, err);
        if (r < 0 && r != -EBADMSG)
            goto out;
        for (uint32_t i = 0; i < count && r == 0; i++) {
            struct field_piece piece;
            int made = is_known[i] ? 0 : field_make_piece(&d->fields.spec[i], &all[i], &piece, err);

            if (made < 0 && made != -EBADMSG) {
                r = made;
                goto out;
            }
            if (is_known[i] || made < 0)
                continue;
            d->fields.shape[i] = piece.shape;
            is_known[i] = true;
            known++;
        }
    }
    r = 0;
    for (uint32_t i = 0; i < count && r == 0; i++)
        if (!is_known[i])
            r = nobody_has(d, i, err);

out:
    field_stored_fini(all, count);
    return r;
}

/* Merge the results of all turns. */
static void merge(struct dataset *d, const struct turn *turns, uint64_t count)
{
    struct table_header *h = d->field_table->header;
    uint32_t bad = 0, first = 0;
    struct plenum_error why = {""};
    struct dataset_buffer record = {0};
    XXH3_state_t hash;
    XXH128_hash_t sum;

    (void)XXH3_128bits_reset(&hash);
    for (uint32_t i = 0; i < d->fields.count; i++) {
        uint32_t *stored = &d->fields.stored[i];

        *stored = 1;
        for (uint64_t t = 0; t < count; t++)
            *stored = turns[t].longest[i] > *stored ? turns[t].longest[i] : *stored;
        if (!field_varies(&d->fields.shape[i]) && d->fields.shape[i].type != PLENUM_FIELD_BOXES)
            continue;
        d->fields.shape[i].room = 1;
        for (uint64_t t = 0; t < count; t++)
            if (turns[t].room[i] > d->fields.shape[i].room)
                d->fields.shape[i].room = turns[t].room[i];
    }
    for (uint64_t t = 0; t < count; t++) {
        (void)XXH3_128bits_update(&hash, &turns[t].hash, sizeof(turns[t].hash));
        if (turns[t].bad > 0 && bad == 0)
            first = turns[t].first_bad;
        bad += turns[t].bad;
        h->memory.each = max_u64(h->memory.each, turns[t].memory.each);
        h->memory.turn = max_u64(h->memory.turn, turns[t].memory.turn);
    }
    sum = XXH3_128bits_digest(&hash);
    memcpy(h->hash, &sum, sizeof(h->hash));
    memcpy(h->shape, d->fields.shape, sizeof(h->shape));
    memcpy(h->stored, d->fields.stored, sizeof(h->stored));
    if (bad == 0)
        return;
    (void)dataset_read_fields(d, first, &record, &why);
    dataset_buffer_fini(&record);
    (void)snprintf(h->warning, sizeof(h->warning),
                   "%u of %u samples lack a field, or have a damaged one, and are bad samples; the "
                   "first: %.250s",
                   bad, samples_of(d), why.text);
}

static int read_samples(struct dataset *d, const struct dataset_options *options,
                        struct plenum_error *err)
{
    struct reading reading = {
        .dataset = d, .options = options, .finds = has_places(d) && !d->format->find_fields};
    struct parallel loop = {.count = (samples_of(d) + SAMPLES_A_TURN - 1) / SAMPLES_A_TURN,
                            .threads = threads_within(options, d->fields.count),
                            .turn = read_turn,
                            .progress = options->progress ? tell_progress : NULL,
                            .cancel = options->cancel,
                            .arg = &reading};
    int r = learn_shapes(d, options, err);

    if (r < 0)
        return r;
    reading.turns = calloc(loop.count, sizeof(*reading.turns));
    if (!reading.turns)
        return error_set(err, -ENOMEM, "out of memory");
    r = parallel_run(&loop);
    if (r < 0)
        (void)error_set(err, r, "%s",
                        atomic_load(&reading.failed) ? reading.err.text : strerror(-r));
    else
        merge(d, reading.turns, loop.count);
    free(reading.turns);
    return r;
}

/* ---- the table ---- */

static void set_table(struct field_table *table, void *bytes, size_t len, bool mapped)
{
    struct table_header *h = bytes;

    table->header = h;
    table->places = h->places ? (const void *)(h + 1) : NULL;
    table->bytes = len;
    table->mapped = mapped;
}

static uint64_t checksum_of(const struct table_header *header, size_t bytes)
{
    struct table_header h = *header;
    XXH3_state_t state;

    h.checksum = 0;
    (void)XXH3_64bits_reset(&state);
    (void)XXH3_64bits_update(&state, &h, sizeof(h));
    (void)XXH3_64bits_update(&state, header + 1, bytes - sizeof(h));
    return XXH3_64bits_digest(&state);
}

static size_t table_bytes(const struct dataset *d)
{
    size_t places = has_places(d) ? samples_of(d) : 0;

    return sizeof(struct table_header) + places * d->fields.count * sizeof(struct field_place);
}

/* Can a field of this stored length have this shape? */
static bool holds(const struct field_shape *shape, uint32_t stored)
{
    if (shape->type == PLENUM_FIELD_BOXES)
        return stored / sizeof(struct plenum_box) <= field_boxes_most(shape->room);
    return shape->mask || stored >= shape->room;
}

/* Is it the table of this index and these fields? The checksum is not a signature, so everything is
 * validated. */
static bool is_valid(const struct dataset *d, const void *bytes, size_t len)
{
    const struct table_header *h = bytes;
    const struct field_place *places = (const void *)(h + 1);

    if (len != table_bytes(d) || memcmp(h->magic, table_magic, sizeof(h->magic)) != 0 ||
        h->version != TABLE_VERSION || h->file_bytes != len || h->count != d->fields.count ||
        h->samples != samples_of(d) || h->places != (has_places(d) ? h->samples : 0) ||
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

/* Open the kept table. False: there is none, or it does not match. */
static bool open_kept(struct dataset *d, const char *path)
{
    int fd = path ? cache_open(path, false) : -1;
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
                         "%s: the places of its fields would take more memory than this loader has "
                         "for that",
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
    h->places = has_places(d) ? h->samples : 0;
    (void)snprintf(h->text, sizeof(h->text), "%s", d->fields.text);
    set_table(d->field_table, h, len, false);
    if (d->format->find_fields) {
        r = d->format->find_fields(d, options, (void *)(h + 1), err);
        if (r < 0)
            return r;
    }
    r = read_samples(d, options, err);
    if (r < 0)
        return r;
    r = dataset_check_cancel(options);
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
        return error_set(err, -EINPROGRESS, "%s has no table of these fields, or an old one",
                         d->name);
    if (path) {
        r = indexing_lock(d, options, waits ? UINT_MAX : 1, &lock);
        if (r < 0)
            return error_set(err, r, "another process indexes %s", d->name);
        if (!options->rebuild && open_kept(d, path)) { /* another process has built it */
            io_close(&lock);
            return 0;
        }
    }
    r = make_table(d, options, err);
    if (r == 0 && lock >= 0 && /* otherwise it is built at each dataset_open(), like the index */
        cache_write(path, d->field_table->header, d->field_table->bytes) == 0) {
        d->table_hold = cache_hold(path, options->user);
        io_close(&lock);
        (void)cache_trim(path, &options->limits, options->user);
    }
    io_close(&lock);
    return r;
}

/* Reject masks of folders that are named like images: each mask would also be a sample, and its own
 * mask. */
static int check_masks(const struct dataset *d, struct plenum_error *err)
{
    for (uint32_t i = 0; i < d->fields.count; i++) {
        const struct field_spec *spec = &d->fields.spec[i];
        char name[FIELD_SOURCE_MAX + 1];

        (void)snprintf(name, sizeof(name), ".%s", spec->source);
        if (d->format->field_path && spec->as == FIELD_AS_MASK && dataset_takes_name(d, name))
            return error_set(err, -EINVAL,
                             "%s: files named *%s are images of it, not masks: folder,image=jpg:%s "
                             "has those named *.jpg as images alone",
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

const struct fields *dataset_get_fields(const struct dataset *dataset)
{
    return &dataset->fields;
}

const uint8_t *dataset_get_fields_hash(const struct dataset *dataset)
{
    static const uint8_t none[16];

    return dataset->field_table ? dataset->field_table->header->hash : none;
}
