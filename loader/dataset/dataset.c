/* SPDX-License-Identifier: MIT */
/* dataset.c - opens a data set and reads its samples. */
#include "config.h"

#include "loader/dataset/dataset_priv.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/order/orderplan.h"
#include "common/util/error_set.h"
#include "common/util/text.h"
#include "common/util/util.h"
#include "loader/dataset/archive.h"
#include "loader/dataset/cache.h"
#include "loader/dataset/hint_cache.h"
#include "loader/dataset/checksums.h"
#include "loader/dataset/remote.h"

enum {
    READ_TRIES = 4,
    HINTS_TRIES = 20, /* attempts, 50 ms apart */
};

/* Open the checksums. Without them, every file whose mtime has changed counts as changed. */
static void open_checksums(struct dataset *d)
{
    char *path = d->index_path ? str_format("%s.sums", d->index_path) : NULL;

    if (path)
        (void)checksums_open(path, d->index.header->checksum, &d->checksums);
    free(path);
}

/* Open the hint cache. Hints only make decoding faster, so a failure is not an error. */
static void open_hints(struct dataset *d, const struct dataset_options *options)
{
    const struct index_header *h = d->index.header;
    struct hint_cache_key subject = {.samples = h->samples, .bytes = h->bytes};
    char *path = d->index_path ? str_format("%s.notes", d->index_path) : NULL;
    int lock;

    memcpy(subject.fingerprint, h->fingerprint, sizeof(subject.fingerprint));
    d->hints_code = path ? hint_cache_open(path, &subject, &d->hints) : -EROFS;
    if (d->hints_code == -ENOENT || d->hints_code == -ESTALE) {
        /* A process that builds the index holds the lock for a long time. We do not wait for
         * that. */
        d->hints_code = indexing_lock(d, options, HINTS_TRIES, &lock);
        if (d->hints_code == 0)
            d->hints_code = lock >= 0 ? hint_cache_make(path, &subject, &d->hints) : -EROFS;
        io_close(&lock);
    }
    free(path);
}

/* Append a clause to the warning. Names from outside are made safe for terminals and logs. */
void dataset_add_warning(struct dataset *d, const char *what, const char *more)
{
    size_t at = strlen(d->warning);

    if (at > 0)
        at += (size_t)snprintf(d->warning + at, sizeof(d->warning) - at, "; ");
    if (at < sizeof(d->warning))
        (void)snprintf(d->warning + at, sizeof(d->warning) - at, "%s%s", what, more);
    (void)text_make_plain(d->warning);
}

/* Warn that 16-bit images are delivered with 8 bits. */
static void warn_of_deep(struct dataset *d)
{
    const struct index_header *h = d->index.header;
    char text[200];

    if (h->checked.deep == 0 || !dataset_has_images(d))
        return;
    (void)snprintf(text, sizeof(text),
                   "only the upper 8 bits of PNGs with 16 bits per channel are used (%llu of the "
                   "%u images that were checked)",
                   (unsigned long long)h->checked.deep,
                   (unsigned)min_u64(h->samples, FINGERPRINT_SAMPLES));
    dataset_add_warning(d, text, "");
}

/* Check the kinds of fields of a detection data set, whose values are JSON, not files. */
static int check_kinds(const struct dataset *d, const char *text, struct plenum_error *err)
{
    struct fields fields;
    int r = fields_parse(text, &fields, err);

    for (uint32_t i = 0; r == 0 && i < fields.count; i++) {
        enum field_as as = fields.spec[i].as;

        if (as == FIELD_AS_MASK || as == FIELD_AS_NPY || as == FIELD_AS_BYTES)
            r = error_set(err, -EINVAL,
                          "%s: the field '%s' of objects is JSON, and cannot be a mask, array or "
                          "bytes: request it as boxes, instances, keypoints or text",
                          d->name, fields.spec[i].name);
    }
    return r;
}

static int open_fields(struct dataset *d, const struct dataset_options *options,
                       struct plenum_error *err)
{
    struct dataset_options own = *options;
    int r = 0;

    d->outlines = options->outlines;
    if (!own.fields && own.own_fields)
        own.fields = d->format->own_fields;
    if (!own.fields || !*own.fields)
        return 0;
    if (d->format->own_fields)
        r = check_kinds(d, own.fields, err);
    return r < 0 ? r : fields_open(d, &own, err);
}

int dataset_open(const char *name, const struct dataset_options *options, struct dataset **ret,
                 struct plenum_error *err)
{
    static const struct dataset_options defaults;
    struct dataset *d;
    int r;

    if (!options)
        options = &defaults;
    d = malloc(sizeof(*d));
    if (!d)
        return error_set(err, -ENOMEM, "out of memory");
    *d = (struct dataset){.scope.fd = -1, .index_hold = -1, .table_hold = -1, .refs = 1};
    if (orderplan_is(name)) { /* its sets have their own scopes */
        r = mixed_open(d, name, options, err);
        if (r < 0)
            goto fail;
        *ret = d;
        return 0;
    }
    r = scope_init(&d->scope, options->roots, options->num_roots);
    if (r < 0) {
        (void)error_set(err, r, "out of memory");
        goto fail;
    }
    d->scope.cancel = options->cancel;
    r = name_check_scope(&d->scope, name, err);
    if (r < 0)
        goto fail;
    r = name_parse(d, name, err);
    if (r < 0)
        goto fail;
    r = d->format->scan ? name_read_labels(d, err) : 0;
    if (r < 0) {
        (void)error_prefix(err, r, "data set '%s'", name);
        goto fail;
    }
    r = d->format->locate(d, options, err);
    if (r < 0)
        goto fail;
    d->name = name_canonical(d);
    if (!d->name) {
        r = error_set(err, -ENOMEM, "out of memory");
        goto fail;
    }
    if (d->format->scan) {
        r = indexing_open(d, options, err);
        if (r < 0)
            goto fail;
        if (*index_warning(&d->index))
            dataset_add_warning(d, index_warning(&d->index), "");
        warn_of_deep(d);
    }
    assert(d->index.header);
    r = known_bad_load(d, options, err);
    if (r < 0)
        goto fail;
    r = open_fields(d, options, err);
    if (r < 0)
        goto fail;
    class_list_destroy(d->classes); /* the index contains their names */
    d->labels.classes = d->classes = NULL;
    remote_end_opening(d);
    remote_begin_caching(d);
    d->scope.cancel = NULL; /* the flag is only valid during dataset_open() */
    if (d->format->whole_files && dataset_has_images(d) && !d->remote)
        open_checksums(d);
    if (options->hints && !dataset_is_generated(d) && dataset_has_images(d))
        open_hints(d, options);
    *ret = d;
    return 0;

fail:
    if (r == -ECANCELED)
        (void)error_set(err, r, "data set '%s': no client is waiting for it any more", name);
    dataset_unref(d);
    return r;
}

struct dataset *dataset_ref(struct dataset *dataset)
{
    (void)atomic_fetch_add_explicit(&dataset->refs, 1, memory_order_relaxed);
    return dataset;
}

bool dataset_unref_unless_last(struct dataset *dataset)
{
    unsigned refs = atomic_load(&dataset->refs);

    assert(refs > 0);
    while (refs > 1)
        if (atomic_compare_exchange_weak(&dataset->refs, &refs, refs - 1))
            return true;
    return false;
}

void dataset_unref(struct dataset *dataset)
{
    if (!dataset || atomic_fetch_sub_explicit(&dataset->refs, 1, memory_order_acq_rel) != 1)
        return;
    io_close(&dataset->index_hold);
    io_close(&dataset->table_hold);
    remote_destroy(dataset);
    archive_forget(dataset);
    if (dataset->index.header != &dataset->generated)
        index_close(&dataset->index);
    pattern_list_fini(&dataset->files);
    if (dataset->format && dataset->format->release)
        dataset->format->release(dataset);
    for (unsigned i = 0; i < dataset->num_settings; i++) {
        free(dataset->settings[i].key);
        free(dataset->settings[i].value);
    }
    class_list_destroy(dataset->classes);
    scope_fini(&dataset->scope);
    dataset_unref(dataset->inner);
    mixed_close(dataset->mixed);
    fields_close(dataset->field_table);
    hint_cache_close(dataset->hints);
    checksums_close(dataset->checksums);
    badlist_fini(&dataset->bad);
    free(dataset->where);
    free(dataset->index_path);
    free(dataset->subject);
    free(dataset->sidecar);
    free(dataset->bad_path);
    free(dataset->name);
    free(dataset);
}

int dataset_check(const struct dataset *dataset, dataset_fault *fault, void *arg,
                  struct plenum_error *err)
{
    const struct format *format = dataset->format; /* NULL: a plan's */

    return format && format->check ? format->check(dataset, fault, arg, err) : 0;
}

/* Returns a sample of the index. The data set must not be generated. */
static const struct index_sample *sample_at(const struct dataset *dataset, uint32_t sample)
{
    assert(!dataset_is_generated(dataset) && sample < dataset->index.header->samples);
    return &dataset->index.samples[sample];
}

const char *dataset_get_name(const struct dataset *dataset)
{
    return dataset->name;
}

uint32_t dataset_get_samples(const struct dataset *dataset)
{
    return dataset->index.header->samples;
}

uint32_t dataset_get_classes(const struct dataset *dataset)
{
    return dataset->index.header->classes;
}

const uint8_t *dataset_get_fingerprint(const struct dataset *dataset)
{
    return dataset->fingerprint;
}

uint64_t dataset_get_bytes(const struct dataset *dataset)
{
    return dataset->index.header->bytes;
}

uint64_t dataset_get_skipped(const struct dataset *dataset)
{
    return dataset->index.header->skipped;
}

const char *dataset_get_warning(const struct dataset *dataset)
{
    return dataset->warning;
}

uint32_t dataset_get_class_names(const struct dataset *dataset)
{
    return dataset->index.header->class_names;
}

const char *dataset_get_index_path(const struct dataset *dataset)
{
    return dataset->index_path;
}

struct hint_cache *dataset_get_hints(const struct dataset *dataset)
{
    return dataset->hints;
}

int dataset_get_hints_code(const struct dataset *dataset)
{
    return dataset->hints_code;
}

const struct datasum *dataset_get_sum(const struct dataset *dataset)
{
    return &dataset->sum;
}

bool dataset_is_generated(const struct dataset *dataset)
{
    struct dataset_set sets[MIXTURE_SETS_MAX];
    uint32_t count = dataset->mixed ? dataset_get_sets(dataset, sets) : 0;

    for (uint32_t i = 0; i < count; i++)
        if (!dataset_is_generated(sets[i].dataset))
            return false;
    return dataset->index.header == &dataset->generated;
}

const struct dataset *dataset_find_set(const struct dataset *dataset, uint32_t *sample)
{
    return dataset->mixed ? mixed_find(dataset->mixed, sample) : dataset;
}

int64_t dataset_get_label(const struct dataset *dataset, uint32_t sample)
{
    if (dataset->mixed)
        return mixed_label(dataset->mixed, sample);
    if (dataset->inner)
        return dataset_get_label(dataset->inner, sample);
    if (dataset_is_generated(dataset))
        return sample % dataset->generated.classes;
    return sample_at(dataset, sample)->label;
}

const char *dataset_get_class_name(const struct dataset *dataset, uint32_t label)
{
    const struct index *index = &dataset->index;

    if (dataset->inner)
        return dataset_get_class_name(dataset->inner, label);
    if (dataset->mixed && label < index->header->class_names)
        return mixed_class_name(dataset->mixed, label);
    return label < index->header->class_names ? index_name(index, index->classes[label]) : "";
}

bool dataset_has_object_classes(const struct dataset *dataset)
{
    return dataset->format && dataset->format->own_fields;
}

uint64_t dataset_get_sample_bytes(const struct dataset *dataset, uint32_t sample)
{
    dataset = dataset_find_set(dataset, &sample);
    return dataset_is_generated(dataset) ? 0 : sample_at(dataset, sample)->len;
}

uint32_t dataset_get_containers(const struct dataset *dataset)
{
    return dataset->index.header->containers;
}

uint32_t dataset_get_container(const struct dataset *dataset, uint32_t sample)
{
    if (dataset->mixed)
        return mixed_container(dataset->mixed, sample);
    return dataset_is_generated(dataset) ? 0 : sample_at(dataset, sample)->container;
}

char *dataset_get_sample_name(const struct dataset *dataset, uint32_t sample, char *ret,
                              size_t size)
{
    dataset = dataset_find_set(dataset, &sample);
    if (dataset_is_generated(dataset))
        (void)snprintf(ret, size, "%s, sample %u", dataset->name, sample);
    else
        dataset->format->describe(dataset, sample_at(dataset, sample), ret, size);
    return ret;
}

char *dataset_get_sample_path(const struct dataset *dataset, uint32_t sample, char *ret,
                              size_t size)
{
    dataset = dataset_find_set(dataset, &sample);
    if (dataset->format->path)
        dataset->format->path(dataset, sample_at(dataset, sample), ret, size);
    else
        (void)snprintf(ret, size, "%010u", sample);
    return ret;
}

/* Returns whether the error is transient, such as a failure of a network file system or a lack of
 * descriptors. */
static bool transient(int r)
{
    return r == -EIO || r == -EAGAIN || r == -EINTR || r == -ETIMEDOUT || r == -EMFILE ||
           r == -ENFILE || r == -ENOBUFS;
}

int dataset_try(const struct dataset *dataset, int (*attempt)(void *arg, struct plenum_error *err),
                void *arg, struct plenum_error *err)
{
    struct timespec pause = {.tv_nsec = 10000000};
    int r;

    for (int i = 1;; i++) {
        r = attempt(arg, err);
        if (!transient(r) || i == READ_TRIES)
            break;
        (void)nanosleep(&pause, NULL);
        pause.tv_nsec *= 4;
    }
    /* Let the next dataset_open() index the data set again, unless that has already been done. */
    if ((r == -ESTALE || r == -ENOENT || r == -ENOTDIR) && dataset->index_path)
        index_remove(&dataset->index, dataset->index_path);
    return r;
}

struct sample_reading {
    const struct dataset *dataset;
    const struct index_sample *sample;
    struct dataset_buffer *buffer;
};

static int read_once(void *arg, struct plenum_error *err)
{
    const struct sample_reading *read = arg;

    return read->dataset->format->read(read->dataset, read->sample, read->buffer, err);
}

static int check_once(void *arg, struct plenum_error *err)
{
    const struct sample_reading *read = arg;

    return dataset_check_unchanged(read->dataset, read->sample, err);
}

/* Returns -EBADMSG for a sample that is bad because of its size, unless its file has changed. */
static int refuse_size(const struct sample_reading *read, struct plenum_error *err)
{
    const struct dataset *d = read->dataset;
    int r = dataset_try(d, check_once, (void *)(uintptr_t)read, err);
    char name[512];

    if (r < 0)
        return r;
    d->format->describe(d, read->sample, name, sizeof(name));
    return error_set(err, -EBADMSG, "%s: %s", name,
                     read->sample->len == 0 ? "the file is empty"
                                            : "the file is larger than 256 MiB");
}

/* Returns 1 if the bytes of a listed sample differ from those that were found bad, otherwise 0; or
 * -errno. */
static int is_repaired(const struct sample_reading *read, const struct dataset_bad *bad,
                       struct plenum_error *err)
{
    bool has_bytes = read->sample->len > 0 && read->sample->len <= DATASET_SAMPLE_MAX;
    void *arg = (void *)(uintptr_t)read;
    int r;

    if (bad->content == 0 || !has_bytes)
        return dataset_try(read->dataset, check_once, arg, err);
    r = dataset_try(read->dataset, read_once, arg, err);
    if (r < 0)
        return r == -EBADMSG ? 0 : r;
    return bad->content == DATASET_NO_BYTES ||
           bad->content != stamp_hash_bytes(read->buffer->bytes, read->buffer->len);
}

/* Returns -EBADMSG for a listed sample. If it has been repaired or has changed, removes it from the
 * list, and returns -ESTALE. */
static int refuse_known(const struct sample_reading *read, const struct dataset_bad *bad,
                        struct plenum_error *err)
{
    const struct dataset *d = read->dataset;
    int r = is_repaired(read, bad, err);
    char name[512];

    if (r == -ESTALE)
        known_bad_forget(d, bad->sample);
    if (r < 0)
        return r;
    (void)dataset_get_sample_name(d, bad->sample, name, sizeof(name));
    if (r == 0)
        return error_set(err, -EBADMSG, "%s is known to be bad: %s", name, bad->reason);
    known_bad_forget(d, bad->sample);
    return error_set(err, -ESTALE,
                     "%s has changed since plenumctl verify found it bad: start the job again, and "
                     "verify the data set again",
                     name);
}

uint64_t dataset_get_cached_set(const struct dataset *dataset)
{
    return dataset->mixed ? KEEP_NO_SET : remote_get_set(dataset);
}

bool dataset_is_remote(const struct dataset *dataset)
{
    return dataset->remote != NULL || dataset->has_remote_sets;
}

static uint64_t checksum_of_sets(const struct dataset *dataset)
{
    struct dataset_set sets[MIXTURE_SETS_MAX];
    uint32_t count = dataset_get_sets(dataset, sets);
    uint64_t checksums[MIXTURE_SETS_MAX];

    for (uint32_t i = 0; i < count; i++) {
        checksums[i] = dataset_get_checksum(sets[i].dataset);
        if (checksums[i] == 0)
            return 0;
    }
    return XXH3_64bits(checksums, count * sizeof(checksums[0]));
}

uint64_t dataset_get_checksum(const struct dataset *dataset)
{
    if (dataset_is_generated(dataset))
        return 0;
    if (dataset->mixed)
        return checksum_of_sets(dataset);
    return dataset->index.header ? dataset->index.header->checksum : 0;
}

bool dataset_has_images(const struct dataset *dataset)
{
    return !dataset->no_images;
}

int dataset_refuse_images(const struct dataset *dataset, struct plenum_error *err)
{
    return error_set(err, -EINVAL,
                     "%s: its samples have only fields (image=none), and no images: they need the "
                     "pipeline 'none'",
                     dataset->name);
}

int dataset_read(const struct dataset *dataset, uint32_t sample, struct dataset_buffer *buffer,
                 struct plenum_error *err)
{
    const struct dataset_bad *bad;
    struct sample_reading reading;

    dataset = dataset_find_set(dataset, &sample);
    if (dataset_is_generated(dataset))
        return 0;
    if (!dataset_has_images(dataset))
        return dataset_refuse_images(dataset, err);
    reading = (struct sample_reading){dataset, sample_at(dataset, sample), buffer};
    bad = known_bad_find(dataset, sample);
    if (bad)
        return refuse_known(&reading, bad, err);
    if (reading.sample->len == 0 || reading.sample->len > DATASET_SAMPLE_MAX)
        return refuse_size(&reading, err);
    return dataset_try(dataset, read_once, &reading, err);
}

int dataset_fields(const struct dataset *dataset, uint32_t sample, dataset_field *field, void *arg,
                   struct plenum_error *err)
{
    int r;

    dataset = dataset_find_set(dataset, &sample);
    if (dataset_is_generated(dataset) || !dataset->format->fields)
        return 0;
    r = dataset->format->fields(dataset, sample_at(dataset, sample), field, arg, NULL, err);
    if (r == -ESTALE && dataset->index_path) /* as in dataset_try() */
        index_remove(&dataset->index, dataset->index_path);
    return r;
}

void dataset_announce(const struct dataset *dataset, uint32_t sample)
{
    const struct index_sample *s;

    dataset = dataset_find_set(dataset, &sample);
    if (dataset_is_generated(dataset))
        return;
    s = sample_at(dataset, sample);
    if (s->len > 0 && s->len <= DATASET_SAMPLE_MAX)
        dataset->format->announce(dataset, s);
}

void dataset_forget_announced(const struct dataset *dataset)
{
    struct dataset_set sets[MIXTURE_SETS_MAX];
    uint32_t count = dataset->has_remote_sets ? dataset_get_sets(dataset, sets) : 0;

    remote_forget_announced(dataset);
    for (uint32_t i = 0; i < count; i++)
        remote_forget_announced(sets[i].dataset);
}
