/* SPDX-License-Identifier: MIT */
/* streams.h - a data set and streams of it, for tests that count the delivered samples. */
#ifndef TESTS_LIBDIST_STREAMS_H
#define TESTS_LIBDIST_STREAMS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include <plenum/plenum.h>

#include "common/util/util.h"
#include "tests/tree.h"

enum { DATA_PATH_MAX = 128 };

/* Writes a data set of JPEGs of several sizes, in three classes, all of them valid. Stores its path
 * in `path`. */
static inline void write_data(const struct tree *tree, unsigned samples, char path[DATA_PATH_MAX])
{
    char name[64];

    for (unsigned i = 0; i < samples; i++) {
        (void)snprintf(name, sizeof(name), "data/%c/%02u.jpg", 'a' + (int)(i % 3), i);
        tree_write_jpeg(tree, name, 40 + i % 7 * 5, 30 + i % 5 * 8, i);
    }
    (void)snprintf(path, DATA_PATH_MAX, "%s/data", tree->root);
}

/* Returns options that the tests have in common. Each test sets its number of epochs. */
static inline struct plenum_stream_options common_options(const char *dataset, const char *loader)
{
    struct plenum_stream_options o;

    plenum_stream_options_init(&o);
    o.dataset = dataset;
    o.pipeline = "rrc(24) flip(0.5)";
    o.loader = loader;
    o.seed = 7;
    o.micro_batch = 4;
    return o;
}

/* Opens a stream, which must succeed. */
static inline struct plenum_stream *open_stream(const struct plenum_job_info *info,
                                                const struct plenum_stream_options *o)
{
    struct plenum_stream *s = NULL;
    struct plenum_error err;

    cr_assert(eq(int, plenum_stream_open(info, o, &s, &err), 0), "%s", err.text);
    return s;
}

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
