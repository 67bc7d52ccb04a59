/* SPDX-License-Identifier: MIT */
/* job.c - this process's only job: it is read once (job_environ.c), shared by all callers that open
 * it, and claimed (claim.c). */
#include "config.h"

#include "libdist/job_priv.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/util/error_set.h"
#include "libdist/claim.h"
#include "libdist/job_environ.h"

static pthread_mutex_t job_mu = PTHREAD_MUTEX_INITIALIZER;
static struct plenum_job *the_job;

static const char *get_from_process(const char *name)
{
    return getenv(name);
}

/* Do both have the same rank and counts? */
static bool is_same_place(const struct plenum_job_info *a, const struct plenum_job_info *b)
{
    return a->num_instances == b->num_instances && a->instance_index == b->instance_index &&
           a->num_local_instances == b->num_local_instances &&
           a->local_instance_index == b->local_instance_index &&
           a->num_replicas == b->num_replicas && a->num_local_replicas == b->num_local_replicas &&
           a->replica_offset == b->replica_offset;
}

static int make_job(const struct plenum_job_info *info, struct plenum_job **ret,
                    struct plenum_error *err)
{
    struct plenum_job *job = calloc(1, sizeof(*job));
    int r;

    if (!job)
        return error_set(err, -ENOMEM, "out of memory");
    r = info ? job_from_info(get_from_process, info, job, err)
             : job_from_environment(get_from_process, job, err);
    if (r < 0) {
        free(job);
        return r;
    }
    job->pid = getpid();
    *ret = job;
    return 0;
}

/* Open this process's only job, with rank and counts from `info`, otherwise from the environment. A
 * forked child opens its own job; the object inherited from its parent stays valid but unused.
 */
static int open_job(const struct plenum_job_info *info, struct plenum_job **ret,
                    struct plenum_error *err)
{
    int r = 0;

    (void)pthread_mutex_lock(&job_mu);
    if (!the_job || the_job->pid != getpid())
        r = make_job(info, &the_job, err);
    else if (info && !is_same_place(info, &the_job->info))
        r = error_set(err, -EBUSY,
                      "this process is already instance %u of %u: pass its rank before anything "
                      "else opens the job",
                      the_job->info.instance_index, the_job->info.num_instances);
    if (r == 0) {
        the_job->opens++;
        *ret = the_job;
    }
    (void)pthread_mutex_unlock(&job_mu);
    return r;
}

int plenum_job_open(struct plenum_job **ret, struct plenum_error *err)
{
    return open_job(NULL, ret, err);
}

int plenum_job_open_as(const struct plenum_job_info *info, struct plenum_job **ret,
                       struct plenum_error *err)
{
    return open_job(info, ret, err);
}

int job_claim(const struct plenum_job_info *info, struct plenum_error *err)
{
    int r = 0;

    (void)pthread_mutex_lock(&job_mu);
    /* The program itself chose to act as another instance. */
    if (info && the_job && the_job->pid == getpid() && the_job->info.launcher == info->launcher &&
        is_same_place(&the_job->info, info))
        r = claim_instance(the_job, err);
    (void)pthread_mutex_unlock(&job_mu);
    return r;
}

void job_ref(struct plenum_job *job)
{
    (void)pthread_mutex_lock(&job_mu);
    job->opens++;
    (void)pthread_mutex_unlock(&job_mu);
}

void plenum_job_close(struct plenum_job *job)
{
    bool last;

    if (!job)
        return;
    (void)pthread_mutex_lock(&job_mu);
    last = --job->opens == 0;
    if (last && the_job == job)
        the_job = NULL;
    (void)pthread_mutex_unlock(&job_mu);
    if (last)
        free(job);
}

const struct plenum_job_info *plenum_job_get_info(const struct plenum_job *job)
{
    return &job->info;
}
