/* SPDX-License-Identifier: MIT */
/* streams.h - streams from several loaders, for tests that count the delivered samples. */
#ifndef TESTS_LIBDIST_STREAMS_H
#define TESTS_LIBDIST_STREAMS_H

#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include <plenum/plenum.h>

#include "common/util/util.h"

static inline bool next_is_there(struct plenum_stream *s, struct plenum_batch *b)
{
    struct plenum_error err;
    int r = plenum_stream_next(s, 60 * NS_PER_SEC, b, &err);

    cr_assert(r == 0 || r == -ENODATA, "%s", err.text);
    return r == 0;
}

/* Returns the sum of hashes over the rest of a stream, or over this many batches. They must arrive
 * in order, each starting where the last one ended, whichever loader rendered them. */
static inline uint64_t drain(struct plenum_stream *s, uint64_t batches)
{
    struct plenum_batch b;
    uint64_t hash = 0, index = UINT64_MAX;

    for (uint64_t i = 0; i < batches && next_is_there(s, &b); i++) {
        cr_assert(index == UINT64_MAX || b.index == index + 1);
        index = b.index;
        hash += plenum_batch_hash(&b);
        plenum_batch_release(&b);
    }
    return hash;
}

static inline struct plenum_stream_stats stats_of(struct plenum_stream *s)
{
    struct plenum_stream_stats stats;

    plenum_stream_get_stats(s, &stats);
    return stats;
}

static inline void wait_for_loaders(struct plenum_stream *s, uint32_t count)
{
    for (int i = 0; i < 6000 && stats_of(s).loaders != count; i++)
        (void)usleep(10000);
    cr_assert(eq(u32, stats_of(s).loaders, count));
}

#endif
