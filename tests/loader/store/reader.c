/* SPDX-License-Identifier: MIT */
/* reader.c - reads random ranges of an object in several threads, half of them announced, and
 * compares each with a file, for test_stores.py.
 *
 *     reader NAME FILE COUNT SEED [LENGTH]
 *
 * prints how many reads failed, and how many requests, ranges and repeated requests the look-ahead
 * had. */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/order/philox.h"
#include "common/util/parallel.h"
#include "common/util/util.h"
#include "loader/store/ahead.h"
#include "loader/store/store.h"

enum { THREADS = 16, BATCH = 16, LENGTH = 60000 };

static struct {
    struct store_object *object;
    const uint8_t *bytes;
    uint64_t size, seed, longest;
    atomic_uint failed;
} job;

static void draw(uint64_t i, uint64_t *offset, size_t *len)
{
    struct philox_block w = philox_draw(job.seed, (uint32_t)i, 0, DRAW_FINGERPRINT, 0);

    *offset = w.word[0] % job.size;
    *len = 1 + w.word[1] % min_u64(job.size - *offset, job.longest);
}

static int read_batch(void *arg, uint64_t batch, unsigned thread)
{
    uint8_t *got = malloc(job.longest);
    struct plenum_error err;
    uint64_t offset;
    size_t len;

    (void)arg;
    (void)thread;
    for (uint64_t i = batch * BATCH; i < (batch + 1) * BATCH; i += 2) {
        draw(i, &offset, &len);
        store_announce(job.object, offset, len);
    }
    for (uint64_t i = batch * BATCH; got && i < (batch + 1) * BATCH; i++) {
        int r;

        draw(i, &offset, &len);
        r = store_read(job.object, offset, len, got, &err);
        if (r == 0 && memcmp(got, job.bytes + offset, len) == 0)
            continue;
        printf("range %" PRIu64 " at %" PRIu64 ", %zu bytes: %s\n", i, offset, len,
               r < 0 ? err.text : "wrong bytes");
        atomic_fetch_add(&job.failed, 1);
    }
    free(got);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct store_policy policy = {.anything = true};
    struct ahead_counts counts;
    uint64_t count;
    struct object_facts facts;
    struct plenum_error err;
    struct parallel loop = {.threads = THREADS, .turn = read_batch};
    FILE *file = argc > 4 ? fopen(argv[2], "rb") : NULL;
    uint8_t *bytes;

    if (!file || parse_u64(argv[3], UINT32_MAX, &count) < 0 ||
        parse_u64(argv[4], UINT64_MAX, &job.seed) < 0 ||
        parse_u64(argc > 5 ? argv[5] : "60000", UINT32_MAX, &job.longest) < 0) {
        fprintf(stderr, "usage: reader NAME FILE COUNT SEED [LENGTH]\n");
        return 2;
    }
    if (store_stat(argv[1], &policy, &facts, &err) < 0 ||
        store_open(argv[1], &facts, &job, &policy, &job.object, &err) < 0) {
        printf("%s\n", err.text);
        return 1;
    }
    job.size = facts.size;
    bytes = malloc(job.size);
    if (!bytes || fread(bytes, 1, job.size, file) != job.size) {
        printf("%s does not have the size of the object\n", argv[2]);
        return 1;
    }
    job.bytes = bytes;
    (void)fclose(file);
    loop.count = count / BATCH;
    (void)parallel_run(&loop);
    ahead_count(&counts);
    printf("%u %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", atomic_load(&job.failed), counts.requests,
           counts.ranges, counts.hedges);
    store_forget(&job);
    store_close(job.object);
    free(bytes);
    return atomic_load(&job.failed) > 0;
}
