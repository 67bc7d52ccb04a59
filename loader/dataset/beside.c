/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/dataset/beside.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/util/error_set.h"

static int read_all(const struct dataset *with, beside_call *call, void *arg,
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
        r = read_all(with, call, arg, field->options, err);
    dataset_unref(with);
    return r;
}
