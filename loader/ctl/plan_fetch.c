/* SPDX-License-Identifier: MIT */
/* plan_fetch.c - counts requests. Each sample is one request, unless neighbours are read together:
 * with shuffle=none, or with block:B, where the look-ahead covers the blocks of a window at the
 * same time. */
#include "config.h"

#include "loader/ctl/plan_fetch.h"

#include <stdio.h>

#include "common/util/util.h"
#include "loader/store/ahead.h"

enum {
    CONNECTIONS = 256,
    REQUEST_MAX = 8 << 20, /* bytes of neighbours that one request fetches */
    AHEAD = 1024,          /* samples that are requested in advance */
};

/* Returns how many neighbouring samples one request fetches, at least 1. */
static uint64_t joined(const struct order *order, uint64_t mean)
{
    uint64_t most = max_u64(REQUEST_MAX / max_u64(mean, 1), 1);
    uint64_t ahead = min_u64(AHEAD, max_u64(AHEAD_BYTES / max_u64(mean, 1), 1));

    if (order->shuffle == ORDER_GLOBAL)
        return 1;
    if (order->shuffle == ORDER_NONE)
        return min_u64(most, ahead);
    /* The look-ahead is divided among all blocks of a window. */
    return max_u64(min_u64(min_u64(order->block, most), ahead / ORDER_WINDOW_BLOCKS), 1);
}

void plan_fetch_init(const struct ctl_stream *s, struct plan_fetch *ret)
{
    uint64_t mean, each;

    *ret = (struct plan_fetch){0};
    if (!dataset_is_remote(s->dataset) || !dataset_has_images(s->dataset) ||
        s->spec.order.mixture) /* a plan shows some samples more often, and others not at all */
        return;
    ret->samples = dataset_get_samples(s->dataset);
    ret->bytes = dataset_get_bytes(s->dataset);
    mean = ret->bytes / max_u64(ret->samples, 1);
    each = joined(&s->spec.order, mean);
    ret->requests = (ret->samples + each - 1) / each;
}

double plan_fetch_rate(const struct plan_fetch *f)
{
    if (f->request_ns == 0)
        return 0;
    return CONNECTIONS * ((double)f->samples / (double)f->requests) * (double)NS_PER_SEC /
           (double)f->request_ns;
}

void plan_fetch_print(const struct plan_fetch *f)
{
    char bytes[32];

    if (f->samples == 0)
        return;
    (void)format_bytes(f->bytes, bytes, sizeof(bytes));
    printf("an epoch fetches %llu samples, %s, in about %llu requests\n",
           (unsigned long long)f->samples, bytes, (unsigned long long)f->requests);
    if (f->request_ns > 0)
        printf("a request takes %.1f ms, so a loader fetches at most %.0f images/s with its %d "
               "connections\n",
               (double)f->request_ns / 1e6, plan_fetch_rate(f), CONNECTIONS);
    printf("caching all samples takes %s; with a smaller cache, only the samples in it are not "
           "fetched again\n\n",
           bytes);
}

void plan_fetch_json(const struct plan_fetch *f, struct json *j)
{
    if (f->samples == 0)
        return;
    json_begin_object(j, "store", JSON_FLAT);
    json_number(j, "samples", f->samples);
    json_number(j, "bytes", f->bytes);
    json_number(j, "requests", f->requests);
    if (f->request_ns > 0) {
        json_real(j, "request_us", (double)f->request_ns / 1e3, 1);
        json_real(j, "most_images_per_second", plan_fetch_rate(f), 1);
    }
    json_end_object(j);
}
