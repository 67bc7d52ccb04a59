/* SPDX-License-Identifier: MIT */
/* generated.c - implements "generated:N": N samples without files, whose pixels are slices of a
 * fixed table of random numbers (loader/render/slices.c). Nothing is read or decoded, so comparing
 * a job on real data with one on generated data shows the cost of storage and decoding.
 *
 * "generated:NAME", where NAME is a different data set, has that data set's number of samples and
 * labels. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/error_set.h"
#include "loader/dataset/format.h"

enum {
    CLASSES = 1000,
    GENERATED = 1, /* version of the table of random numbers; used as `heads`, where other data sets
                      have a hash of their samples' bytes */
};

/* Use the number of samples, and the labels, of another data set. */
static int use_dataset(struct dataset *d, const struct dataset_options *options,
                       struct plenum_error *err)
{
    struct index_header *h = &d->generated;
    int r;

    if (strncmp(d->where, "generated:", 10) == 0 || strncmp(d->where, "generated,", 10) == 0)
        return error_set(err, -EINVAL,
                         "generated:%s: a number is needed, or a data set that is not generated",
                         d->where);
    r = dataset_open(d->where, options, &d->inner, err);
    if (r < 0)
        return r;
    *h = *d->inner->index.header;
    h->sum.bytes = 0;
    h->sum.heads = GENERATED;
    free(d->where);
    d->where = strdup(dataset_get_name(d->inner));
    return d->where ? 0 : error_set(err, -ENOMEM, "out of memory");
}

static int parse_count(struct dataset *d, struct plenum_error *err)
{
    struct index_header *h = &d->generated;
    uint64_t n;
    int64_t classes;
    int r = dataset_setting_number(d, "classes", CLASSES, &classes, err);

    if (r < 0)
        return r;
    if (classes < 1 || classes > INT32_MAX)
        return error_set(err, -EINVAL, "classes=%lld is out of range", (long long)classes);
    if (parse_u64(d->where, UINT32_MAX - 1, &n) < 0 || n == 0)
        return error_set(err, -EINVAL, "generated:%s: a number of samples is needed, 1 to %u",
                         d->where, UINT32_MAX - 1);
    h->samples = (uint32_t)n;
    h->classes = (uint32_t)classes;
    h->sum = (struct datasum){.samples = h->samples, .classes = h->classes, .heads = GENERATED};
    return 0;
}

static int generated_locate(struct dataset *d, const struct dataset_options *options,
                            struct plenum_error *err)
{
    bool number = d->where[strspn(d->where, "0123456789")] == '\0';
    int r = number ? parse_count(d, err) : use_dataset(d, options, err);

    if (r < 0)
        return r;
    datasum_fingerprint(&d->generated.sum, d->generated.fingerprint);
    d->index.header = &d->generated;
    return 0;
}

static const struct format_setting settings[] = {{"classes", "the number of classes (1000)"}};

const struct format format_generated = {
    .name = "generated",
    .settings = settings,
    .num_settings = ARRAY_LEN(settings),
    .locate = generated_locate,
};
