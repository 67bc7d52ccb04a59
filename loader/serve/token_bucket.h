/* SPDX-License-Identifier: MIT */
/* token_bucket.h - a token bucket that limits the CPU time of the process.
 *
 * Tokens are nanoseconds of CPU time. The bucket fills at the granted rate, and the CPU time of the
 * whole process is taken from it; while it is below zero, threads must wait. It holds the tokens of
 * at most a tenth of a second. So in any interval T the process uses at most rate * (T + 0.1 s),
 * plus what its threads use between two calls.
 *
 * Going to sleep and waking up also costs CPU time: tens of microseconds, as much as ten very small
 * samples. So a thread that must wait does so for at least a fifth of that tenth of a second, after
 * which there are more tokens than the wakeup costs. Otherwise a process with small work and few
 * tokens would spend all of them on waking up. */
#ifndef LOADER_SERVE_TOKEN_BUCKET_H
#define LOADER_SERVE_TOKEN_BUCKET_H

#include <stdint.h>

#include "common/util/lock.h"

struct token_bucket {
    uint32_t millicores; /* constant; 0: no limit */
    struct lock mu;
    uint64_t wall_ns, cpu_ns; /* at the last call */
    int64_t tokens_ns;        /* below zero: more was used than granted */
};

void token_bucket_init(struct token_bucket *b, uint32_t millicores, uint64_t wall_ns,
                       uint64_t cpu_ns);
void token_bucket_fini(struct token_bucket *b);

/** Update the bucket at time `wall_ns`, when the process has used `cpu_ns` of CPU time since its
 * start. Returns how long the caller must wait before calling again; 0: no wait. Threads: any. */
uint64_t token_bucket_wait_ns(struct token_bucket *b, uint64_t wall_ns, uint64_t cpu_ns);

#endif
