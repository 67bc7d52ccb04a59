/* SPDX-License-Identifier: MIT */
/* parallel.h - a loop whose turns are independent, spread over threads. For builds and tools, not
 * for streams. */
#ifndef COMMON_PARALLEL_H
#define COMMON_PARALLEL_H

#include <stdatomic.h>
#include <stdint.h>

/** One turn; 0, or a negative errno that ends the loop early. `thread` is below the number of
 * threads. */
typedef int (*parallel_turn)(void *arg, uint64_t index, unsigned thread);

/** Told about every 100 ms from the calling thread. */
typedef void (*parallel_progress)(void *arg, uint64_t done, uint64_t total);

struct parallel {
    uint64_t count;   /* turns 0 ... count - 1, started in this order */
    unsigned threads; /* 0: as many as this process may use CPUs */
    parallel_turn turn;
    parallel_progress progress; /* may be NULL */
    const atomic_bool *cancel;  /* set, it ends the loop: -ECANCELED; may be NULL */
    void *arg;
};

/** Run the loop: 0, or the first error that a turn returned (the lowest index among those that
 * failed). */
int parallel_run(const struct parallel *p);

/** CPUs that this process may use (its affinity mask), at least 1. */
unsigned parallel_cpus(void);

#endif
