/* SPDX-License-Identifier: MIT */
/* test_many_hosts.c - collectives between virtual hosts over TCP: random ones, compared with a slow
 * implementation, and random deaths. PLENUM_COLLECTIVE_RUNS is the number of runs of each kind, and
 * PLENUM_COLLECTIVE_SEED the first one's seed. */
#include "config.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "common/util/util.h"
#include "tests/libdist/collectives/many_hosts.h"
#include "tests/libdist/collectives/random_op.h"
#include "tests/tap.h"

enum { OPS = 60, PATIENCE_SECONDS = 60 };

/* A run of several instances. */
struct run {
    struct random_op_limits limits;
    uint32_t victim;
    _Atomic uint32_t *begun; /* instances that have made their first call; shared */
};

static unsigned long number_from(const char *name, unsigned long otherwise)
{
    const char *text = getenv(name);

    return text ? strtoul(text, NULL, 10) : otherwise;
}

static int call_many(struct plenum_job *job, const void *arg)
{
    const struct run *run = arg;
    struct plenum_error err = {""};

    for (uint64_t i = 0; i < OPS; i++) {
        int r = random_op_run(job, &run->limits, i, &err);

        if (r == 0)
            continue;
        fprintf(stderr, "collective %u: %s\n", (unsigned)i, err.text);
        return 1;
    }
    plenum_job_close(job);
    return 0;
}

static unsigned count_failed(const int *statuses, uint32_t instances)
{
    unsigned failed = 0;

    for (uint32_t i = 0; i < instances; i++)
        failed += statuses[i] != 0;
    return failed;
}

/* Distribute instances over hosts. Returns the number of hosts, at least two. */
static uint32_t split(uint64_t seed, uint32_t instances, uint32_t counts[MANY_HOSTS_MOST])
{
    uint32_t hosts = 0, left = instances;

    while (left > 0) {
        uint32_t most = hosts == 0 ? left - 1 : left, n;

        seed = (seed ^ seed >> 29) * UINT64_C(0xbf58476d1ce4e5b9) + 12345;
        n = (uint32_t)(seed >> 33) % most + 1;
        counts[hosts++] = n;
        left -= n;
    }
    return hosts;
}

static const char *show(const uint32_t *counts, uint32_t hosts)
{
    static char text[64];

    text[0] = 0;
    for (uint32_t i = 0; i < hosts; i++)
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%u", i ? "+" : "",
                       counts[i]);
    return text;
}

static void test_random(unsigned long runs, uint64_t seed)
{
    for (unsigned long i = 0; i < runs; i++) {
        struct run run = {.limits = {.seed = seed + i, .bytes = 3 << 20, .kind = -1}};
        uint32_t instances = (uint32_t)(i % (MANY_HOSTS_MOST - 1) + 2), counts[MANY_HOSTS_MOST];
        uint32_t hosts = split(seed * 31 + i, instances, counts);
        int statuses[MANY_HOSTS_MOST];

        many_hosts_end(many_hosts_start(counts, hosts, i % 2, call_many, &run), statuses);
        tap_ok(count_failed(statuses, instances) == 0,
               "random collectives of %s instances are right (seed %u)", show(counts, hosts),
               (unsigned)(seed + i));
    }
}

/* Call collectives until one fails, and check that it names the victim. */
static int call_until_death(struct plenum_job *job, const void *arg)
{
    const struct run *run = arg;
    struct plenum_error err = {""};
    char want[64];
    int r = 0;

    plenum_job_set_timeout(job, PATIENCE_SECONDS * NS_PER_SEC);
    for (uint64_t i = 0; r == 0; i++) {
        r = random_op_run(job, &run->limits, i, &err);
        if (i == 0)
            (void)atomic_fetch_add(run->begun, 1);
    }
    (void)snprintf(want, sizeof(want), "instance %u has ended", run->victim);
    if (r == -EIO && strstr(err.text, want) && plenum_barrier(job, NULL) == -ENOTRECOVERABLE)
        return 0;
    fprintf(stderr, "%d, '%s' instead of '%s'\n", r, err.text, want);
    return 1;
}

/* Returns how many instances behaved wrongly. */
static unsigned kill_one(uint64_t seed, int kind, uint32_t instances)
{
    struct run run = {.limits = {.seed = seed, .bytes = seed % 4 ? 3 << 20 : 4096, .kind = kind},
                      .victim = (uint32_t)(seed / 7 % instances)};
    struct timespec pause = {.tv_nsec = (long)(seed * UINT64_C(2654435761) % 3000000)};
    uint32_t counts[MANY_HOSTS_MOST], hosts = split(seed * 17, instances, counts);
    int statuses[MANY_HOSTS_MOST];
    struct many_hosts *host;
    unsigned wrong;

    run.begun =
        mmap(NULL, sizeof(*run.begun), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    host = many_hosts_start(counts, hosts, seed % 2, call_until_death, &run);
    while (*run.begun < instances)
        (void)usleep(100);
    (void)nanosleep(&pause, NULL); /* any moment will do */
    many_hosts_kill(host, run.victim, SIGKILL);
    many_hosts_end(host, statuses);
    wrong = count_failed(statuses, instances) - (statuses[run.victim] == 1000 + SIGKILL);
    (void)munmap((void *)run.begun, sizeof(*run.begun));
    return wrong;
}

static void test_deaths(unsigned long runs, uint64_t seed)
{
    static const char *const names[RANDOM_OP_KINDS] = {"allreduce", "reduce_scatter", "allgather",
                                                       "alltoall",  "broadcast",      "barrier"};

    for (int kind = 0; kind < RANDOM_OP_KINDS; kind++) {
        unsigned wrong = 0;

        for (unsigned long i = 0; i < runs; i++)
            wrong += kill_one(seed + i, kind, 2 + (uint32_t)(i % 3));
        tap_ok(wrong == 0, "%s: all name the instance that is killed, %lu times", names[kind],
               runs);
    }
}

/* All get an error that names both calls, no data changes, and the next collective works. */
static int call_differently(struct plenum_job *job, const void *arg)
{
    const struct run *run = arg;
    const bool other = plenum_job_get_info(job)->instance_index == run->victim;
    struct plenum_error err = {""};
    float mine[1000] = {1, 2, 3}, before[1000];
    int r;

    memcpy(before, mine, sizeof(mine));
    r = plenum_allreduce(job, mine, other ? 999 : 1000, PLENUM_FLOAT32, PLENUM_SUM, &err);
    if (r != -EIO || !strstr(err.text, "(4000 bytes)") || !strstr(err.text, "(3996 bytes)") ||
        memcmp(mine, before, sizeof(mine)) != 0 || plenum_barrier(job, &err) < 0) {
        fprintf(stderr, "%d: %s\n", r, err.text);
        return 1;
    }
    plenum_job_close(job);
    return 0;
}

static void test_different_calls(void)
{
    static const uint32_t counts[] = {2, 1, 2};
    int statuses[MANY_HOSTS_MOST];

    for (uint32_t i = 0; i < 5; i++) {
        struct run run = {.victim = i};

        many_hosts_end(many_hosts_start(counts, 3, true, call_differently, &run), statuses);
        tap_ok(count_failed(statuses, 5) == 0, "instance %u makes another call: all notice", i);
    }
}

int main(void)
{
    unsigned long runs = number_from("PLENUM_COLLECTIVE_RUNS", 12);
    uint64_t seed = number_from("PLENUM_COLLECTIVE_SEED", 1);

    (void)alarm(3000);
    test_random(runs, seed);
    test_deaths(runs, seed);
    test_different_calls();
    return tap_end();
}
