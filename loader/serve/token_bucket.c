/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/serve/token_bucket.h"

#include <assert.h>

#include "common/util/util.h"

enum {
    DEPTH_MS = 100, /* the bucket holds at most the tokens of this time */
    REST_MS = 20,   /* a thread that must wait does so for at least this long */
};

void token_bucket_init(struct token_bucket *b, uint32_t millicores, uint64_t wall_ns,
                       uint64_t cpu_ns)
{
    *b = (struct token_bucket){.millicores = millicores, .wall_ns = wall_ns, .cpu_ns = cpu_ns};
    lock_init(&b->mu);
}

void token_bucket_fini(struct token_bucket *b)
{
    lock_fini(&b->mu);
}

uint64_t token_bucket_wait_ns(struct token_bucket *b, uint64_t wall_ns, uint64_t cpu_ns)
{
    int64_t depth = (int64_t)b->millicores * (int64_t)(DEPTH_MS * NS_PER_MS / 1000);
    uint64_t wait = 0, gained_us;

    if (b->millicores == 0)
        return 0;
    lock_acquire(&b->mu);
    if (wall_ns > b->wall_ns) { /* otherwise a later call has entered first */
        gained_us = (wall_ns - b->wall_ns) / 1000;
        b->tokens_ns += (int64_t)(min_u64(gained_us, NS_PER_SEC * 3600 / 1000) * b->millicores);
        b->wall_ns += gained_us * 1000; /* the remainder counts in the next call */
    }
    if (b->tokens_ns > depth)
        b->tokens_ns = depth;
    if (cpu_ns > b->cpu_ns) {
        b->tokens_ns -= (int64_t)(cpu_ns - b->cpu_ns);
        b->cpu_ns = cpu_ns;
    }
    if (b->tokens_ns < 0)
        wait = max_u64((uint64_t)-b->tokens_ns * 1000 / b->millicores + 1, REST_MS * NS_PER_MS);
    assert(b->tokens_ns <= depth);
    lock_release(&b->mu);
    return wait;
}
