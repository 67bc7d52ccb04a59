/* SPDX-License-Identifier: MIT */
/* spread.h - mean and mean deviation of times, of the last dozen or so. */
#ifndef LIBDIST_SPREAD_H
#define LIBDIST_SPREAD_H

#include <stdint.h>

struct spread {
    uint64_t mean_ns, dev_ns;
};

static inline void spread_add(struct spread *s, uint64_t ns)
{
    uint64_t off = ns > s->mean_ns ? ns - s->mean_ns : s->mean_ns - ns;

    if (s->mean_ns == 0) {
        *s = (struct spread){.mean_ns = ns, .dev_ns = ns / 2};
        return;
    }
    s->mean_ns = (s->mean_ns * 7 + ns) / 8;
    s->dev_ns = (s->dev_ns * 3 + off) / 4;
}

/** More than that is late. */
static inline uint64_t spread_late(const struct spread *s)
{
    return 2 * (s->mean_ns + 4 * s->dev_ns);
}

#endif
