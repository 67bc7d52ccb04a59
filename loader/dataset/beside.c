/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/dataset/beside.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/util.h"
#include "loader/dataset/dataset_priv.h"
#include "loader/dataset/kept_table.h"

/* Read the field of each sample from the data set. */
static int read_samples(const struct dataset *with, beside_call *call, void *arg,
                        const struct dataset_options *options, struct plenum_error *err)
{
    struct dataset_buffer buffer = {0};
    uint32_t n = dataset_get_samples(with);
    int r = 0;

    for (uint32_t i = 0; i < n && r >= 0; i++) {
        const uint32_t *len;

        if (options->cancel && atomic_load_explicit(options->cancel, memory_order_relaxed)) {
            r = -ECANCELED;
            break;
        }
        r = dataset_read_fields(with, i, &buffer, err);
        if (r < 0 && r != -EBADMSG)
            break;
        len = (const void *)buffer.bytes;
        r = r < 0 ? call(arg, i, NULL, 0, err) : call(arg, i, len + 1, *len, err);
        if (i % 65536 == 0 && options->progress)
            options->progress(options->progress_arg, "samples", i, n);
    }
    dataset_buffer_fini(&buffer);
    return r;
}

/* ---- values that are kept beside the index ---- */

/* More bytes of values than this are not kept, but read from the samples each time. */
static const uint64_t kept_max = UINT64_C(1) << 30;

/* Values while they are collected. In a stored table, the lengths of all samples' values (no_value:
 * there is none) are followed by the values, each filled up to a multiple of 4 bytes. */
struct beside_values {
    const struct dataset *with;
    const struct dataset_options *options;
    uint8_t *bytes;
    size_t len, cap;
};

static const uint32_t no_value = UINT32_MAX;

static size_t stored(uint32_t len)
{
    return len == no_value ? 0 : ((size_t)len + 3) / 4 * 4;
}

static int collect(void *arg, uint32_t sample, const void *value, uint32_t len,
                   struct plenum_error *err)
{
    struct beside_values *c = arg;
    size_t end = c->len + stored(len);

    if (!value)
        len = no_value;
    memcpy(c->bytes + sample * sizeof(len), &len, sizeof(len));
    if (!value)
        return 0;
    if (end > kept_max)
        return -EFBIG;
    if (array_reserve(&c->bytes, &c->cap, end, 1) < 0)
        return error_set(err, -ENOMEM, "out of memory");
    memset(c->bytes + c->len, 0, end - c->len);
    memcpy(c->bytes + c->len, value, len);
    c->len = end;
    return 0;
}

static int collect_all(void *arg, void **ret, size_t *len, struct plenum_error *err)
{
    struct beside_values *c = arg;
    int r;

    c->bytes = NULL;
    c->cap = 0;
    c->len = dataset_get_samples(c->with) * sizeof(uint32_t);
    if (array_reserve(&c->bytes, &c->cap, c->len, 1) < 0)
        return error_set(err, -ENOMEM, "out of memory");
    r = read_samples(c->with, collect, c, c->options, err);
    if (r < 0) {
        free(c->bytes);
        return r;
    }
    *ret = c->bytes;
    *len = c->len;
    return 0;
}

static bool values_hold(void *arg, const void *bytes, size_t len)
{
    const struct beside_values *c = arg;
    uint32_t n = dataset_get_samples(c->with);
    const uint32_t *lengths = bytes;
    size_t end = n * sizeof(*lengths);

    if (len < end)
        return false;
    for (uint32_t i = 0; i < n; i++)
        end += stored(lengths[i]);
    return end == len;
}

static int visit_kept(const struct beside_values *c, const struct kept_table *table,
                      beside_call *call, void *arg, struct plenum_error *err)
{
    uint32_t n = dataset_get_samples(c->with);
    const uint32_t *lengths = table->bytes;
    const uint8_t *value = (const void *)(lengths + n);
    int r = 0;

    for (uint32_t i = 0; i < n && r >= 0; i++) {
        r = lengths[i] == no_value ? call(arg, i, NULL, 0, err)
                                   : call(arg, i, value, lengths[i], err);
        value += stored(lengths[i]);
    }
    return r;
}

/* Returns whether values may be kept. Those in separate files may not: they can change without a
 * trace in the index. */
static bool may_be_kept(const struct dataset *d)
{
    return dataset_get_index_path(d) && !d->format->whole_files;
}

static int read_kept(const struct beside_field *field, const struct dataset *with,
                     beside_call *call, void *arg, struct plenum_error *err)
{
    struct beside_values c = {.with = with, .options = field->options};
    struct kept_recipe recipe = {
        .make = collect_all, .holds = values_hold, .arg = &c, .nests = true};
    struct kept_table table;
    char *key;
    int r;

    key = str_format("field %s:%s\n", field->source, field->kind);
    if (!key)
        return error_set(err, -ENOMEM, "out of memory");
    recipe.key = key;
    r = kept_table_open(field->dataset, field->options, &recipe, &table, err);
    free(key);
    if (r < 0)
        return r;
    r = visit_kept(&c, &table, call, arg, err);
    kept_table_close(&table);
    return r;
}

static int read_all(const struct beside_field *field, const struct dataset *with, beside_call *call,
                    void *arg, struct plenum_error *err)
{
    int r = may_be_kept(field->dataset) ? read_kept(field, with, call, arg, err) : -EFBIG;

    return r == -EFBIG ? read_samples(with, call, arg, field->options, err) : r;
}

int beside_read(const struct beside_field *field, beside_call *call, void *arg,
                struct plenum_error *err)
{
    struct dataset_options with_field = *field->options;
    char text[FIELD_SOURCE_MAX + 32];
    struct dataset *with;
    int r;

    (void)snprintf(text, sizeof(text), "value:%s:%s", field->source, field->kind);
    with_field.fields = text;
    with_field.hints = false;
    r = dataset_open(dataset_get_name(field->dataset), &with_field, &with, err);
    if (r < 0)
        return r;
    /* The caller has room only for the samples of the data set that it has opened. */
    if (dataset_get_samples(with) != dataset_get_samples(field->dataset) ||
        memcmp(dataset_get_fingerprint(with), dataset_get_fingerprint(field->dataset), 16) != 0)
        r = error_set(err, -ESTALE, "%s has changed while it was opened: open it again",
                      dataset_get_name(field->dataset));
    else
        r = read_all(field, with, call, arg, err);
    dataset_unref(with);
    return r;
}
