/* SPDX-License-Identifier: MIT */
/* rendezvous.c - finds out which instances have reached the first collective.
 *
 * MPI_Init() returns when every process has called it. It has no time limit, does not report which
 * process is missing, and polls a thousand times a second. But the launcher's process manager,
 * which Open MPI itself uses, can be asked earlier. Through PMIx, each instance publishes a mark
 * and then waits at a fence, asleep until the server calls back. When the time is up, the absent
 * marks identify the missing instances.
 *
 * From Open MPI 5 on, a program may not join PMIx before MPI_Init(): MPI gets its own name from the
 * PMIx_Init() that it calls itself, and does not call it if PMIx is already initialised. In that
 * case the marks are published while MPI_Init() runs in a separate thread (comm_mpi.c), and all
 * instances wait at the fence inside it.
 *
 * This is done only under a server that knows this job: its size and our rank must match the job's.
 * Otherwise we leave it to MPI to report the problem, as it has all the details. */
#include "config.h"

#include "libdist/collectives/rendezvous.h"

#include <errno.h>

#ifdef HAVE_PMIX

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion" /* PMIx's headers define functions */
#pragma GCC diagnostic ignored "-Wsign-conversion"
#include <pmix.h>
#pragma GCC diagnostic pop

#include "common/job/departed.h"
#include "common/util/util.h"

/* After the time limit, the marks of all instances together are searched for at most this long. */
static const uint64_t look_within_ns = 5 * NS_PER_SEC;

static bool joined;
static pmix_proc_t me; /* set once we have joined */

/* The end of the fence, reported by a PMIx thread. Never freed, because the report may arrive after
 * we gave up. */
static struct {
    pthread_mutex_t mu;
    pthread_cond_t changed;
    bool over;
    bool all_came;
} fence = {.mu = PTHREAD_MUTEX_INITIALIZER};

static void on_fence(pmix_status_t status, void *arg)
{
    (void)arg;
    (void)pthread_mutex_lock(&fence.mu);
    fence.over = true;
    fence.all_came = status == PMIX_SUCCESS;
    (void)pthread_cond_broadcast(&fence.changed);
    (void)pthread_mutex_unlock(&fence.mu);
}

/* Wait for the end of the fence. Returns 0; -ETIMEDOUT if it did not end in time; -EPIPE if it
 * never will; or -ENOTSUP if it failed. */
static int wait_for_fence(uint32_t instances, uint64_t deadline_ns,
                          bool (*is_one_gone)(uint32_t instances))
{
    uint64_t limit = deadline_ns ? deadline_ns : UINT64_MAX;
    int r = 0;

    (void)pthread_mutex_lock(&fence.mu);
    while (!fence.over && r == 0) {
        (void)cond_wait_until(&fence.changed, &fence.mu,
                              min_u64(limit, time_now_ns() + DEPARTED_LOOK_NS));
        if (time_now_ns() >= limit)
            r = -ETIMEDOUT;
        else if (is_one_gone(instances))
            r = -EPIPE;
    }
    if (fence.over)
        r = fence.all_came ? 0 : -ENOTSUP;
    (void)pthread_mutex_unlock(&fence.mu);
    return r;
}

/* Format the name of an instance's mark, which is unique among all jobs of a server. */
static void name_mark(char *key, uint32_t index)
{
    (void)snprintf(key, PMIX_MAX_KEYLEN, "plenum-%.400s-%u", me.nspace, index);
}

static void put_mark(void)
{
    pmix_info_t mark;
    char key[PMIX_MAX_KEYLEN + 1];

    name_mark(key, me.rank);
    PMIX_INFO_LOAD(&mark, key, &me.rank, PMIX_UINT32);
    (void)PMIx_Publish(&mark, 1); /* the fence works without it */
    PMIX_INFO_DESTRUCT(&mark);
}

void rendezvous_look(uint32_t instances, bool *came)
{
    uint64_t end = time_now_ns() + look_within_ns;

    for (uint32_t i = 0; i < instances; i++) {
        pmix_pdata_t mark;

        came[i] = i == me.rank;
        if (came[i] || time_now_ns() > end)
            continue;
        PMIX_PDATA_CONSTRUCT(&mark);
        name_mark(mark.key, i);
        came[i] = PMIx_Lookup(&mark, 1, NULL, 0) == PMIX_SUCCESS;
        PMIX_PDATA_DESTRUCT(&mark);
    }
}

/* Returns whether this server knows our job, with this size and our rank. */
static bool knows_us(uint32_t instances, uint32_t index)
{
    pmix_proc_t all;
    pmix_value_t *size;
    bool same;

    PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
    if (PMIx_Get(&all, PMIX_JOB_SIZE, NULL, 0, &size) != PMIX_SUCCESS)
        return false;
    same = size->type == PMIX_UINT32 && size->data.uint32 == instances && me.rank == index;
    PMIX_VALUE_RELEASE(size);
    return same;
}

/* Is there a server? Without one, PMIx would create a world of this process alone, and MPI would
 * use it. */
static bool has_server(void)
{
    return getenv("PMIX_NAMESPACE") && getenv("PMIX_RANK");
}

static int join(uint32_t instances, uint32_t index)
{
    if (PMIx_Init(&me, NULL, 0) != PMIX_SUCCESS)
        return -ENOTSUP;
    joined = true;
    if (!knows_us(instances, index))
        return -ENOTSUP;
    put_mark();
    return 0;
}

int rendezvous(uint32_t instances, uint32_t index, uint64_t deadline_ns, bool *came,
               bool (*is_one_gone)(uint32_t instances))
{
    pmix_proc_t all;
    int r = has_server() ? join(instances, index) : -ENOTSUP;

    if (r < 0)
        return r;
    (void)pthread_cond_init(&fence.changed, NULL);
    PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
    if (PMIx_Fence_nb(&all, 1, NULL, 0, on_fence, NULL) != PMIX_SUCCESS)
        return -ENOTSUP;
    r = wait_for_fence(instances, deadline_ns, is_one_gone);
    if (r == -ETIMEDOUT)
        rendezvous_look(instances, came);
    return r;
}

int rendezvous_mark(uint32_t instances, uint32_t index)
{
    if (!has_server())
        return -ENOTSUP;
    return PMIx_Initialized() ? join(instances, index) : -EAGAIN;
}

void rendezvous_end(void)
{
    if (joined)
        (void)PMIx_Finalize(NULL, 0);
    joined = false;
}

#else

int rendezvous(uint32_t instances, uint32_t index, uint64_t deadline_ns, bool *came,
               bool (*is_one_gone)(uint32_t instances))
{
    (void)is_one_gone;
    (void)instances;
    (void)index;
    (void)deadline_ns;
    (void)came;
    return -ENOTSUP;
}

int rendezvous_mark(uint32_t instances, uint32_t index)
{
    (void)instances;
    (void)index;
    return -ENOTSUP;
}

void rendezvous_look(uint32_t instances, bool *came)
{
    (void)instances;
    (void)came;
}

void rendezvous_end(void)
{
}

#endif
