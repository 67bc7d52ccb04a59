/* SPDX-License-Identifier: MIT */
/* histogram.h - a histogram of times. All histograms have the same bounds. The owner must lock
 * it. */
#ifndef LOADER_SERVE_HISTOGRAM_H
#define LOADER_SERVE_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

enum { HISTOGRAM_BOUNDS = 17 };

/** Upper bounds in nanoseconds: 1, 2.5 and 5 in most decades. */
static const uint64_t histogram_bounds_ns[HISTOGRAM_BOUNDS] = {
    25000,     50000,     100000,     250000,      500000,       1000000,
    2500000,   5000000,   10000000,   25000000,    50000000,     100000000,
    250000000, 500000000, 1000000000, 2500000000u, 10000000000u,
};

struct histogram {
    /* The count of each interval (not cumulative). The last is for times beyond all bounds. */
    uint64_t counts[HISTOGRAM_BOUNDS + 1];
    uint64_t sum_ns;
};

static inline void histogram_add(struct histogram *h, uint64_t ns)
{
    size_t i = 0;

    while (i < HISTOGRAM_BOUNDS && ns > histogram_bounds_ns[i])
        i++;
    h->counts[i]++;
    h->sum_ns += ns;
}

#endif
