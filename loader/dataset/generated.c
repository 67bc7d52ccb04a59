/* generated.c - "generated:N": N samples without files, whose pixels are slices of a fixed table of
 * random numbers (loader/render/slices.c). Nothing is read or decoded: what a job gains by it tells
 * how much storage and decoding cost. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "loader/dataset/format.h"

enum { CLASSES = 1000 };

static int generated_locate(struct dataset *d, const struct dataset_options *options,
                            struct plenum_error *err)
{
    struct index_header *h = &d->made_up;
    uint64_t n;
    int64_t classes;
    int r;

    (void)options;
    if (parse_u64(d->where, UINT32_MAX - 1, &n) < 0 || n == 0)
        return error_set(err, -EINVAL, "generated:%s: a number of samples is needed, 1 to %u",
                         d->where, UINT32_MAX - 1);
    r = dataset_setting_number(d, "classes", CLASSES, &classes, err);
    if (r < 0)
        return r;
    if (classes < 1 || classes > INT32_MAX)
        return error_set(err, -EINVAL, "classes=%lld is out of range", (long long)classes);
    h->samples = (uint32_t)n;
    h->classes = (uint32_t)classes;
    h->sum = (struct datasum){.samples = h->samples, .classes = h->classes};
    datasum_fingerprint(&h->sum, h->fingerprint);
    d->index.header = h;
    return 0;
}

static const struct format_setting settings[] = {{"classes", "labels are below it (1000)"}};

const struct format format_generated = {
    .name = "generated",
    .settings = settings,
    .num_settings = ARRAY_LEN(settings),
    .locate = generated_locate,
};
