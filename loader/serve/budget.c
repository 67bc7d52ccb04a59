/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/serve/budget.h"

#include "common/util.h"

enum { KEEP_MS = 100 }; /* how long credit is kept */

void budget_init(struct budget *b, uint32_t millicores, uint64_t wall_ns, uint64_t cpu_ns)
{
    *b = (struct budget){.millicores = millicores, .wall_ns = wall_ns, .cpu_ns = cpu_ns};
    (void)pthread_mutex_init(&b->mu, NULL);
}

void budget_fini(struct budget *b)
{
    (void)pthread_mutex_destroy(&b->mu);
}

uint64_t budget_rest_ns(struct budget *b, uint64_t wall_ns, uint64_t cpu_ns)
{
    int64_t most = (int64_t)b->millicores * (int64_t)(KEEP_MS * NS_PER_MS / 1000);
    uint64_t rest = 0, gained;

    if (b->millicores == 0)
        return 0;
    (void)pthread_mutex_lock(&b->mu);
    if (wall_ns > b->wall_ns) { /* another thread's look may have been later than this one */
        gained = min_u64(wall_ns - b->wall_ns, NS_PER_SEC * 3600) / 1000 * b->millicores;
        b->credit_ns += (int64_t)gained;
        b->wall_ns = wall_ns;
    }
    if (b->credit_ns > most)
        b->credit_ns = most;
    if (cpu_ns > b->cpu_ns) {
        b->credit_ns -= (int64_t)(cpu_ns - b->cpu_ns);
        b->cpu_ns = cpu_ns;
    }
    if (b->credit_ns < 0)
        rest = (uint64_t)-b->credit_ns * 1000 / b->millicores + 1;
    (void)pthread_mutex_unlock(&b->mu);
    return rest;
}
