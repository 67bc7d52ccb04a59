/* SPDX-License-Identifier: MIT */
/* token_bucket.h - a token bucket that limits the CPU time of the process.
 *
 * Tokens are nanoseconds of CPU time. The bucket fills at the granted rate, and the CPU time of the
 * whole process is taken from it; while it is below zero, threads that ask must wait. It holds the
 * tokens of a tenth of a second at the most. So in any interval T the process uses at most
 * rate * (T + 0.1 s), and what its threads use between two calls.
 *
 * To go to rest and to wake takes CPU time, too: some tens of microseconds, as much as ten very
 * small samples. So who must wait waits for a fifth of that tenth of a second at least, and the
 * tokens are then there for more than the waking. Otherwise a process with small work and few
 * tokens would use all of them for that. */
#ifndef LOADER_SERVE_TOKEN_BUCKET_H
#define LOADER_SERVE_TOKEN_BUCKET_H

#include <pthread.h>
#include <stdint.h>

struct token_bucket {
    uint32_t millicores; /* constant; 0: no limit */
    pthread_mutex_t mu;
    uint64_t wall_ns, cpu_ns; /* of the last call */
    int64_t tokens_ns;        /* below zero: more was used than was granted */
};

void token_bucket_init(struct token_bucket *b, uint32_t millicores, uint64_t wall_ns,
                       uint64_t cpu_ns);
void token_bucket_fini(struct token_bucket *b);

/** At time `wall_ns` the process has used `cpu_ns` of CPU time since its start: how long must the
 * caller wait before it asks again? 0: not at all. Any thread. */
uint64_t token_bucket_wait_ns(struct token_bucket *b, uint64_t wall_ns, uint64_t cpu_ns);

#endif
