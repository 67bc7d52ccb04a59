/* SPDX-License-Identifier: MIT */
/* meeting_wait.c - how an instance waits before it sleeps.
 *
 * If each instance has a core, a waiter spins, because sleeping and waking costs about ten
 * microseconds. If there are more instances than cores, it offers its core to the others instead.
 * Each wait that ends asleep halves the time that the next one stays awake, and each that does not
 * adds a quarter, so that little is lost if the others come late or the loader uses the cores. */
#include "config.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "common/job/meeting.h"
#include "common/job/meeting_priv.h"
#include "common/util/cgroup.h"
#include "common/util/util.h"

static const uint64_t most_ns = 50000, least_ns = 2000;

enum { CHECKS = 32 /* between looks at the clock */ };

void meeting_wait_publish(struct meeting_slot *own)
{
    uint32_t quota = cgroup_cpu_millicores() / 1000;
    cpu_set_t set;

    memset(own->cpus, 0xff, sizeof(own->cpus));
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof(set), &set) == 0)
        memcpy(own->cpus, &set, min_u64(sizeof(set), sizeof(own->cpus)));
    own->quota = quota ? quota : UINT32_MAX;
}

/* Returns how many cores the instances share. */
static uint32_t count_cores(const struct meeting *m)
{
    uint32_t cores = 0, quota = UINT32_MAX;

    for (unsigned k = 0; k < MEETING_CPUS / 64; k++) {
        uint64_t any = 0;

        for (uint32_t i = 0; i < m->instances; i++)
            any |= m->shared->slots[i].cpus[k];
        cores += (uint32_t)__builtin_popcountll(any);
    }
    for (uint32_t i = 0; i < m->instances; i++)
        quota = (uint32_t)min_u64(quota, m->shared->slots[i].quota);
    return (uint32_t)min_u64(cores, quota);
}

void meeting_wait_choose(struct meeting *meeting)
{
    const char *way = getenv(MEETING_WAIT_VARIABLE);
    bool fit = meeting->instances <= count_cores(meeting);

    if (way && strcmp(way, "spin") == 0)
        fit = true;
    else if (way && strcmp(way, "yield") == 0)
        fit = false;
    else if (way && strcmp(way, "sleep") == 0)
        return;
    meeting->awake_ns = most_ns;
    meeting->yields = !fit;
}

static inline void relax(void)
{
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Spin, or offer the core to others, for a while. */
static bool look_for(const struct meeting *m, const struct meeting_slot *slot, uint64_t round)
{
    uint64_t end = time_now_ns() + m->awake_ns;

    do {
        for (unsigned i = 0; i < (m->yields ? 1 : CHECKS); i++) {
            if (meeting_has(slot, round))
                return true;
            if (m->yields)
                (void)sched_yield();
            else
                relax();
        }
    } while (time_now_ns() < end);
    return meeting_has(slot, round);
}

bool meeting_wait_awake(struct meeting *meeting, const struct meeting_slot *slot, uint64_t round)
{
    bool found = meeting->awake_ns > 0 && look_for(meeting, slot, round);

    if (found)
        meeting->awake_ns = min_u64(meeting->awake_ns + meeting->awake_ns / 4, most_ns);
    else if (meeting->awake_ns > 0)
        meeting->awake_ns = max_u64(meeting->awake_ns / 2, least_ns);
    return found;
}
