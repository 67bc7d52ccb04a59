/* SPDX-License-Identifier: MIT */
/* field_scan.c - reads all samples' fields to fill the table.
 *
 * First, one thread reads samples until it knows every field's shape: that of the first sample that
 * has the field. Then the threads divide all samples, a few hundred per turn, to compute the
 * maximum lengths and a hash that does not depend on the number of threads. */
#include "config.h"

#include "loader/dataset/field_table_priv.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/util/error_set.h"
#include "common/util/parallel.h"
#include "common/util/util.h"
#include "loader/dataset/dataset_priv.h"

enum {
    FIELD_MEMORY = 3 * FIELD_STORED_MAX, /* per field and thread: bytes, member and numbers */
    SAMPLES_A_TURN = 256,
};

struct turn {
    uint32_t longest[FIELDS_MAX];         /* bytes of the longest value, as stored */
    struct field_shape shape[FIELDS_MAX]; /* has room for all values, as delivered */
    uint32_t good[FIELDS_MAX];            /* number of samples that have the field */
    uint32_t bad, first_bad;    /* number of samples that lack a field, and the first of them */
    struct field_memory memory; /* the memory that reading a sample takes */
    uint64_t hash;
};

struct field_reading {
    const struct dataset *dataset;
    const struct dataset_options *options;
    struct turn *turns;
    bool finds; /* also record the places of fields that are files */
    struct plenum_error err;
    atomic_bool failed;
};

/* Add the lengths, the hash and the faults of one sample. */
static int add_sample(const struct dataset *d, uint32_t sample, struct field_stored *all,
                      struct turn *turn, XXH3_state_t *hash, struct plenum_error *err)
{
    struct field_piece piece;
    bool bad = false;

    for (uint32_t i = 0; i < d->fields.count; i++) {
        uint32_t len = UINT32_MAX; /* a field that is missing */
        int r = fields_make_alike(d, i, &all[i], &piece, err);

        if (r < 0 && r != -EBADMSG) /* not a bad sample, but an error of the loader */
            return r;
        if (r == 0) {
            len = piece.len;
            turn->good[i]++;
            turn->longest[i] = len > turn->longest[i] ? len : turn->longest[i];
            turn->shape[i].type = piece.shape.type;
            field_shape_grow(&turn->shape[i], &piece.shape);
        }
        (void)XXH3_64bits_update(hash, &len, sizeof(len));
        if (len != UINT32_MAX)
            (void)XXH3_64bits_update(hash, piece.bytes, len);
        bad = bad || len == UINT32_MAX;
    }
    assert(sample < samples_of(d));
    if (bad && turn->bad++ == 0)
        turn->first_bad = sample;
    return 0;
}

/* Returns the size in bytes of the fields' buffers, which are as large as the largest sample so far
 * needed. */
static uint64_t stored_bytes(const struct field_stored *all, uint32_t count)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < count; i++)
        bytes += all[i].bytes.cap + all[i].picked.cap + all[i].numbers.cap;
    return bytes;
}

/* Returns the number of threads that can read within the memory limit for indexing. */
static unsigned threads_within(const struct dataset_options *options, uint32_t fields)
{
    unsigned threads = options->threads ? options->threads : parallel_cpus();
    uint64_t each = (uint64_t)fields * FIELD_MEMORY;

    assert(fields > 0);
    if (options->memory == 0)
        return threads;
    return (unsigned)max_u64(min_u64(threads, options->memory / each), 1);
}

static int read_turn(void *arg, uint64_t index, unsigned thread)
{
    struct field_reading *reading = arg;
    const struct dataset *d = reading->dataset;
    struct turn *turn = &reading->turns[index];
    uint64_t begin = index * SAMPLES_A_TURN, end = min_u64(begin + SAMPLES_A_TURN, samples_of(d));
    struct field_stored all[FIELDS_MAX] = {{0}};
    struct plenum_error err;
    XXH3_state_t hash;
    int r = 0;

    (void)thread;
    assert(begin < end);
    (void)XXH3_64bits_reset(&hash);
    for (uint64_t i = begin; i < end && r == 0; i++) {
        r = dataset_check_cancel(reading->options);
        if (r == 0 && reading->finds)
            r = fields_find_files(d, (uint32_t)i, all, &err);
        if (r == 0)
            r = fields_read_stored(d, (uint32_t)i, all, &turn->memory, &err);
        if (r == 0 && reading->finds)
            fields_note_hashes(d, (uint32_t)i, all);
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
    struct field_reading *reading = arg;

    (void)total;
    reading->options->progress(reading->options->progress_arg, "fields",
                               min_u64(done * SAMPLES_A_TURN, samples_of(reading->dataset)),
                               samples_of(reading->dataset));
}

/* Collects the names of a sample's other fields, without duplicates, for a message. */
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
        return; /* a further value of the same feature */
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
        (void)error_set(
            err, -EBADMSG,
            "%s: members of JSON can be text, line, int64, float32, boxes, keypoints or "
            "instances",
            why.text);
    else if (state == FIELD_THERE && spec->as == FIELD_AS_TEXT && !field_member(spec))
        (void)error_set(err, -EBADMSG, "%s: if it is not text, say what it is, as in %s:%s:npy",
                        why.text, spec->name, spec->source);
}

/* Set the error for a field that no sample has. */
static int nobody_has(const struct dataset *d, uint32_t field, struct plenum_error *err)
{
    const struct field_spec *spec = &d->fields.spec[field];
    struct field_stored all[FIELDS_MAX] = {{0}};
    struct field_piece piece;
    const char *hint;
    char name[400];
    int r = fields_read_stored(d, 0, all, NULL, err);

    if (r == 0) {
        r = field_make_piece(spec, &all[field], &piece, err);
        if (r == -EBADMSG)
            add_hint(d, spec, all[field].state, err);
    }
    field_stored_fini(all, d->fields.count);
    if (r == 0)
        return error_set(err, -EBADMSG, "%s: the field '%s' changed while it was read", d->name,
                         spec->name);
    (void)error_prefix(err, -EBADMSG, "%s: no sample has the field '%s' ('%s'); the first one, %s",
                       d->name, spec->name, spec->source,
                       dataset_get_sample_name(d, 0, name, sizeof(name)));
    hint = detection_find_hint(d);
    return hint ? error_prefix(err, -EBADMSG, "%.*s", (int)strcspn(hint, ";"), hint) : -EBADMSG;
}

/* Set each field's shape to that of the first sample that has the field. */
static int learn_shapes(struct dataset *d, const struct dataset_options *options,
                        struct plenum_error *err)
{
    struct field_stored all[FIELDS_MAX] = {{0}};
    uint32_t known = 0, n = samples_of(d), count = d->fields.count;
    bool is_known[FIELDS_MAX] = {false}, finds = fields_have_places(d) && !d->format->find_fields;
    int r = 0;

    for (uint32_t sample = 0; sample < n && known < count; sample++) {
        r = dataset_check_cancel(options);
        if (r == 0 && finds)
            r = fields_find_files(d, sample, all, err);
        if (r == 0)
            r = fields_read_stored(d, sample, all, NULL, err);
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
    assert(known <= count);
    r = 0;
    for (uint32_t i = 0; i < count && r == 0; i++)
        if (!is_known[i])
            r = nobody_has(d, i, err);

out:
    field_stored_fini(all, count);
    return r;
}

/* Set the lengths of all fields, and the shapes of those whose samples need different room. */
static int merge_shapes(struct dataset *d, const struct turn *turns, uint64_t count,
                        struct plenum_error *err)
{
    for (uint32_t i = 0; i < d->fields.count; i++) {
        struct field_shape *shape = &d->fields.shape[i];
        uint32_t *stored = &d->fields.stored[i];
        int r;

        *stored = 1;
        for (uint64_t t = 0; t < count; t++)
            *stored = turns[t].longest[i] > *stored ? turns[t].longest[i] : *stored;
        if (!field_grows(shape))
            continue;
        shape->room = 1;
        for (uint64_t t = 0; t < count; t++)
            if (turns[t].good[i] > 0)
                field_shape_grow(shape, &turns[t].shape[i]);
        r = field_check_room(shape, err);
        if (r < 0)
            return error_prefix(err, r, "field '%s' ('%s')", d->fields.spec[i].name,
                                d->fields.spec[i].source);
    }
    return 0;
}

/* Merge the results of all turns, and write the table's header. */
static void merge(struct dataset *d, const struct turn *turns, uint64_t count)
{
    struct table_header *h = d->field_table->header;
    uint32_t bad = 0, first = 0;
    struct plenum_error why = {""};
    struct dataset_buffer record = {0};
    XXH3_state_t hash;
    XXH128_hash_t sum;

    (void)XXH3_128bits_reset(&hash);
    for (uint64_t t = 0; t < count; t++) {
        (void)XXH3_128bits_update(&hash, &turns[t].hash, sizeof(turns[t].hash));
        if (turns[t].bad > 0 && bad == 0)
            first = turns[t].first_bad;
        bad += turns[t].bad;
        h->memory.each = max_u64(h->memory.each, turns[t].memory.each);
        h->memory.turn = max_u64(h->memory.turn, turns[t].memory.turn);
    }
    assert(bad <= samples_of(d));
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

int fields_scan(struct dataset *d, const struct dataset_options *options, struct plenum_error *err)
{
    struct field_reading reading = {.dataset = d,
                                    .options = options,
                                    .finds = fields_have_places(d) && !d->format->find_fields};
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
        r = merge_shapes(d, reading.turns, loop.count, err);
    if (r == 0)
        merge(d, reading.turns, loop.count);
    free(reading.turns);
    return r;
}
