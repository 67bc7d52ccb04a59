/* SPDX-License-Identifier: MIT */
/* parallel.h - a loop with independent iterations, spread over threads. For builds and tools, not
 * for streams. */
#ifndef COMMON_PARALLEL_H
#define COMMON_PARALLEL_H

#include <stdatomic.h>
#include <stdint.h>

/** Does one iteration. Returns 0, or a negative errno that ends the loop early. `thread` is below
 *  the number of threads. */
typedef int (*parallel_turn)(void *arg, uint64_t index, unsigned thread);

/** Called about every 100 ms in the calling thread. */
typedef void (*parallel_progress)(void *arg, uint64_t done, uint64_t total);

struct parallel {
    uint64_t count;   /* iterations 0 ... count - 1, started in this order */
    unsigned threads; /* 0: the number of CPUs that this process may use */
    parallel_turn turn;
    parallel_progress progress; /* may be NULL */
    const atomic_bool *cancel;  /* setting it ends the loop with -ECANCELED; may be NULL */
    void *arg;
};

/** Run the loop. Returns 0, or the error of the failed iteration with the lowest index. */
int parallel_run(const struct parallel *p);

/** Returns the number of CPUs that this process may use (its affinity mask), at least 1. */
unsigned parallel_cpus(void);

#endif
