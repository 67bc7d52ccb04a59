/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "common/job/pace.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

int pace_claim(struct pace *pace)
{
    int32_t before = 0, self = (int32_t)getpid();

    if (atomic_compare_exchange_strong(&pace->writer, &before, self) || before == self)
        return 0;
    if (kill(before, 0) == 0 || errno != ESRCH)
        return -EBUSY;
    return atomic_compare_exchange_strong(&pace->writer, &before, self) ? 0 : -EBUSY;
}

void pace_record(struct pace *pace, const struct pace_step *step)
{
    uint64_t n = atomic_load_explicit(&pace->recorded, memory_order_relaxed);
    size_t at = n % PACE_STEPS;

    atomic_store_explicit(&pace->ring[at].step, step->step, memory_order_relaxed);
    atomic_store_explicit(&pace->ring[at].own_ns, step->own_ns, memory_order_relaxed);
    atomic_store_explicit(&pace->ring[at].wait_ns, step->wait_ns, memory_order_relaxed);
    atomic_store_explicit(&pace->recorded, n + 1, memory_order_release);
}

size_t pace_read(const struct pace *pace, uint64_t *seen, struct pace_step ret[PACE_STEPS])
{
    uint64_t end = atomic_load(&pace->recorded), first = *seen, after;
    size_t count = 0, lost = 0;

    if (first > end || end - first > PACE_STEPS)
        first = end < PACE_STEPS ? 0 : end - PACE_STEPS;
    for (uint64_t n = first; n < end; n++) {
        size_t at = n % PACE_STEPS;

        ret[count++] = (struct pace_step){.step = atomic_load(&pace->ring[at].step),
                                          .own_ns = atomic_load(&pace->ring[at].own_ns),
                                          .wait_ns = atomic_load(&pace->ring[at].wait_ns)};
    }
    *seen = end;
    /* The program may be writing the one after the last, which replaces the oldest. */
    after = atomic_load(&pace->recorded) + 1;
    while (lost < count && after - (first + lost) > PACE_STEPS)
        lost++;
    for (size_t i = lost; i < count; i++)
        ret[i - lost] = ret[i];
    return count - lost;
}
