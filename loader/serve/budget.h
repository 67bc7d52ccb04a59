/* SPDX-License-Identifier: MIT */
/* budget.h - no more CPU time than was granted.
 *
 * An account fills at the granted rate and is charged with the CPU time of the whole process; who
 * finds it overdrawn rests until it is not. What is not used is kept for a tenth of a second at
 * the most, so that in any stretch of time T the process uses at most rate * (T + 0.1 s), and what
 * its threads do between two looks at the account. */
#ifndef LOADER_SERVE_BUDGET_H
#define LOADER_SERVE_BUDGET_H

#include <pthread.h>
#include <stdint.h>

struct budget {
    uint32_t millicores; /* constant; 0: no limit */
    pthread_mutex_t mu;
    uint64_t wall_ns, cpu_ns; /* of the last look */
    int64_t credit_ns;        /* CPU time that may be used */
};

void budget_init(struct budget *b, uint32_t millicores, uint64_t wall_ns, uint64_t cpu_ns);
void budget_fini(struct budget *b);

/** At this moment the process has used so much CPU time since its start: for how long should the
 * caller rest before it goes on? 0: not at all. Any thread. */
uint64_t budget_rest_ns(struct budget *b, uint64_t wall_ns, uint64_t cpu_ns);

#endif
