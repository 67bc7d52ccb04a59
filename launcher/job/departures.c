/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "launcher/job/departures.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/util.h"

int departures_init(struct departures *d, uint32_t count)
{
    *d = (struct departures){.due_ns = UINT64_MAX};
    d->reached = calloc((size_t)count + 1, sizeof(*d->reached));
    d->bits = malloc((size_t)count / 8 + 1);
    if (!d->reached || !d->bits) {
        departures_fini(d);
        return -ENOMEM;
    }
    d->count = count;
    return 0;
}

void departures_fini(struct departures *d)
{
    free(d->reached);
    free(d->bits);
    *d = (struct departures){.due_ns = UINT64_MAX};
}

static uint64_t next_round(const struct departures *d, uint64_t now)
{
    if (d->told_ns == 0)
        return now;
    return max_u64(now, d->told_ns + (uint64_t)d->count * DEPARTURES_PAUSE_NS);
}

void departures_note(struct departures *d, uint32_t instance, uint64_t reached, uint64_t now)
{
    if (d->count == 0)
        return;
    assert(instance < d->count && d->reached[instance] == 0);
    d->reached[instance] = sum_u64(reached, 1);
    if (d->untold++ == 0)
        d->due_ns = next_round(d, now);
}

bool departures_take(struct departures *d, struct control_departed *ret)
{
    uint32_t first = 0, last;
    uint64_t reached;

    if (d->untold == 0)
        return false;
    while (d->reached[first] == 0)
        first++;
    assert(first < d->count);
    reached = d->reached[first];
    memset(d->bits, 0, d->count / 8 + 1);
    last = first;
    for (uint32_t i = first; i < d->count; i++) {
        if (d->reached[i] != reached)
            continue;
        d->bits[(i - first) / 8] |= (uint8_t)(1U << (i - first) % 8);
        d->reached[i] = 0;
        d->untold--;
        last = i;
    }
    *ret = (struct control_departed){
        .first = first, .reached = reached - 1, .bits = d->bits, .len = (last - first) / 8 + 1};
    return true;
}

void departures_told(struct departures *d, uint64_t now)
{
    d->told_ns = now;
    d->due_ns = d->untold > 0 ? next_round(d, now) : UINT64_MAX;
}
