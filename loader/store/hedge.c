/* SPDX-License-Identifier: MIT */
/* hedge.c - keeps a latency histogram per size class, because a block of 8 MiB takes longer than a
 * sample. Old times lose weight: all counts are halved from time to time. */
#include "config.h"

#include "loader/store/hedge.h"

#include <assert.h>

#include "common/util/util.h"

enum {
    FLOOR_MS = 50,   /* no request is late before this */
    KNOWN_MIN = 100, /* times that must be known before a request can be late */
    HALVED_AT = 2000,
    PER_REQUEST = 3, /* what a success adds to the budget, in hundredths of a repeated request */
    BUDGET_MAX = 10 * 100,
    STEPS = 4, /* intervals per power of two */
    FINEST_NS = 1 << 20,
};

/* Returns the size class of `len` bytes: up to 64 KiB, 256 KiB, 1 MiB, 4 MiB, and more. */
static unsigned class_of(uint64_t len)
{
    unsigned size = 0;

    for (uint64_t most = 64 << 10; size + 1 < HEDGE_SIZES && len > most; most *= 4)
        size++;
    return size;
}

/* Returns the longest time that interval `i` of the histogram counts. */
static uint64_t most_ns(unsigned i)
{
    uint64_t power = (uint64_t)FINEST_NS << (i / STEPS);

    return power + power / STEPS * (i % STEPS + 1);
}

void hedge_note(struct hedge *h, uint64_t len, uint64_t ns)
{
    struct hedge_times *t = &h->times[class_of(len)];
    unsigned i = 0;

    while (i + 1 < HEDGE_TIMES && ns > most_ns(i))
        i++;
    t->count[i]++;
    t->total++;
    h->hundredths = (uint32_t)min_u64(h->hundredths + PER_REQUEST, BUDGET_MAX);
    if (t->total < HALVED_AT)
        return;
    t->total = 0;
    for (i = 0; i < HEDGE_TIMES; i++) {
        t->count[i] /= 2;
        t->total += t->count[i];
    }
    assert(t->total < HALVED_AT);
}

uint64_t hedge_late_ns(const struct hedge *h, uint64_t len)
{
    const struct hedge_times *t = &h->times[class_of(len)];
    uint32_t faster = 0;
    unsigned i = 0;

    if (t->total < KNOWN_MIN)
        return 0;
    while (faster < t->total - t->total / 100) {
        assert(i < HEDGE_TIMES);
        faster += t->count[i++];
    }
    return max_u64(most_ns(i - 1), FLOOR_MS * NS_PER_MS);
}

bool hedge_take(struct hedge *h)
{
    if (h->hundredths < 100)
        return false;
    h->hundredths -= 100;
    return true;
}
