/* job.c - who am I? Read from the environment, once, whoever wrote it. */
#include "config.h"

#include <plenum/job.h>

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/error.h"
#include "common/util.h"
#include "libdist/job_priv.h"

/* The names that one launcher uses. NULL: it has no such variable. */
struct names {
    enum plenum_launcher launcher;
    const char *count, *index, *local_count, *local_index;
};

static const struct names known[] = {
    {PLENUM_LAUNCHER_PLENUM, "PLENUM_NUM_INSTANCES", "PLENUM_INSTANCE_INDEX",
     "PLENUM_NUM_LOCAL_INSTANCES", "PLENUM_LOCAL_INSTANCE_INDEX"},
    {PLENUM_LAUNCHER_TORCH, "WORLD_SIZE", "RANK", "LOCAL_WORLD_SIZE", "LOCAL_RANK"},
    {PLENUM_LAUNCHER_MPI, "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    /* Of a step: in the script of an sbatch job SLURM_PROCID is 0, however many tasks the job has.
     */
    {PLENUM_LAUNCHER_SLURM, "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_STEP_TASKS_PER_NODE",
     "SLURM_LOCALID"},
};

static pthread_mutex_t job_mu = PTHREAD_MUTEX_INITIALIZER;
static struct plenum_job *the_job;

static int read_number(job_getenv get, const char *name, uint32_t *ret, struct plenum_error *err)
{
    const char *text = get(name);
    uint64_t value;

    if (!text || parse_u64(text, UINT32_MAX, &value) < 0)
        return error_set(err, -EINVAL, "%s is '%s': a whole number is expected", name,
                         text ? text : "(not set)");
    *ret = (uint32_t)value;
    return 0;
}

/* "4" or Slurm's "2(x3),1" for node 0, 1, ...: the entry of this node. */
static int read_local_count(job_getenv get, const struct names *n, uint32_t *ret,
                            struct plenum_error *err)
{
    const char *text, *node = get("SLURM_NODEID");
    uint64_t skip;

    if (n->launcher != PLENUM_LAUNCHER_SLURM)
        return read_number(get, n->local_count, ret, err);
    text = get(n->local_count);
    if (!text || !node || parse_u64(node, UINT32_MAX, &skip) < 0)
        return error_set(err, -EINVAL, "%s or SLURM_NODEID is not set: start the program with srun",
                         n->local_count);
    for (const char *p = text; isdigit((unsigned char)*p);) {
        unsigned long tasks, repeat = 1;
        char *end;

        tasks = strtoul(p, &end, 10);
        if (strncmp(end, "(x", 2) == 0)
            repeat = strtoul(end + 2, &end, 10);
        if (*end == ')')
            end++;
        if (skip < repeat) {
            *ret = (uint32_t)tasks;
            return 0;
        }
        skip -= repeat;
        p = end + (*end == ',');
    }
    return error_set(err, -EINVAL, "%s is '%s', which has no entry for node %s", n->local_count,
                     text, node);
}

static bool mentions(job_getenv get, const struct names *n)
{
    return get(n->count) && get(n->index);
}

static int read_instances(job_getenv get, const struct names *n, struct plenum_job_info *info,
                          struct plenum_error *err)
{
    int r = read_number(get, n->count, &info->num_instances, err);

    if (r == 0)
        r = read_number(get, n->index, &info->instance_index, err);
    /* RANK and WORLD_SIZE alone are enough for one process a host. */
    info->num_local_instances = 1;
    info->local_instance_index = 0;
    if (r == 0 && get(n->local_count))
        r = read_local_count(get, n, &info->num_local_instances, err);
    if (r == 0 && get(n->local_index))
        r = read_number(get, n->local_index, &info->local_instance_index, err);
    if (r < 0)
        return r;
    if (info->num_instances == 0 || info->instance_index >= info->num_instances)
        return error_set(err, -EINVAL, "%s is %u, but %s is %u: an index lies below the count",
                         n->index, info->instance_index, n->count, info->num_instances);
    if (info->num_local_instances == 0 || info->num_local_instances > info->num_instances ||
        info->local_instance_index >= info->num_local_instances)
        return error_set(err, -EINVAL, "%s = %u, %s = %u and %s = %u contradict each other",
                         n->local_index, info->local_instance_index, n->local_count,
                         info->num_local_instances, n->count, info->num_instances);
    return 0;
}

/* plenumrun tells of replicas; with any other launcher a process is a replica. */
static int read_replicas(job_getenv get, struct plenum_job_info *info, struct plenum_error *err)
{
    int r = 0;

    info->num_replicas = info->num_instances;
    info->num_local_replicas = 1;
    info->replica_offset = info->instance_index;
    info->devices_per_replica = 1;
    if (info->launcher != PLENUM_LAUNCHER_PLENUM)
        return 0;
    r = read_number(get, "PLENUM_NUM_REPLICAS", &info->num_replicas, err);
    if (r == 0)
        r = read_number(get, "PLENUM_NUM_LOCAL_REPLICAS", &info->num_local_replicas, err);
    if (r == 0)
        r = read_number(get, "PLENUM_REPLICA_OFFSET", &info->replica_offset, err);
    if (r == 0 && get("PLENUM_DEVICES_PER_REPLICA"))
        r = read_number(get, "PLENUM_DEVICES_PER_REPLICA", &info->devices_per_replica, err);
    if (r == 0 && get("PLENUM_RESTART_COUNT"))
        r = read_number(get, "PLENUM_RESTART_COUNT", &info->restart_count, err);
    if (r < 0)
        return r;
    if (info->num_local_replicas == 0 || info->num_local_replicas > info->num_replicas ||
        info->replica_offset > info->num_replicas - info->num_local_replicas)
        return error_set(err, -EINVAL,
                         "PLENUM_NUM_REPLICAS = %u, PLENUM_NUM_LOCAL_REPLICAS = %u and "
                         "PLENUM_REPLICA_OFFSET = %u contradict each other",
                         info->num_replicas, info->num_local_replicas, info->replica_offset);
    return 0;
}

/* A text that all instances of the job on a host can find, and no other job of it has. */
static void name_job(job_getenv get, struct plenum_job *job)
{
    const char *a = NULL, *b = NULL;
    char *id = job->id;
    size_t size = sizeof(job->id);

    switch (job->info.launcher) {
    case PLENUM_LAUNCHER_PLENUM:
        a = get("PLENUM_JOB_ID");
        break;
    case PLENUM_LAUNCHER_TORCH:
        a = get("MASTER_ADDR");
        b = get("MASTER_PORT");
        break;
    case PLENUM_LAUNCHER_MPI:
        a = get("PMIX_NAMESPACE");
        if (!a)
            a = get("OMPI_MCA_ess_base_jobid");
        break;
    case PLENUM_LAUNCHER_SLURM:
        a = get("SLURM_JOB_ID");
        b = get("SLURM_STEP_ID");
        break;
    case PLENUM_LAUNCHER_NONE:
        break;
    }
    if (a)
        (void)snprintf(id, size, "%s%s%s", a, b ? "-" : "", b ? b : "");
    else
        (void)snprintf(id, size, "pid-%ld",
                       (long)(job->info.num_local_instances > 1 ? getppid() : getpid()));
    for (char *c = id; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("-_.:", *c))
            *c = '_';
}

int job_from_environment(job_getenv get, struct plenum_job *job, struct plenum_error *err)
{
    const struct names *n = NULL;
    const char *loader = get("PLENUM_LOADER");
    int r = 0;

    job->info = (struct plenum_job_info){.num_instances = 1, .num_local_instances = 1};
    for (size_t i = 0; i < ARRAY_LEN(known) && !n; i++)
        if (mentions(get, &known[i]))
            n = &known[i];
    if (n) {
        job->info.launcher = n->launcher;
        r = read_instances(get, n, &job->info, err);
    }
    if (r == 0)
        r = read_replicas(get, &job->info, err);
    if (r < 0)
        return r;
    name_job(get, job);
    job->info.job_id = job->id;
    if (loader && *loader) {
        (void)snprintf(job->loader, sizeof(job->loader), "%s", loader);
        job->info.loader = job->loader;
    }
    return 0;
}

static const char *get_from_process(const char *name)
{
    return getenv(name);
}

int plenum_job_open(struct plenum_job **ret, struct plenum_error *err)
{
    struct plenum_job *job;
    int r = 0;

    (void)pthread_mutex_lock(&job_mu);
    job = the_job;
    if (!job) {
        job = calloc(1, sizeof(*job));
        r = job ? job_from_environment(get_from_process, job, err)
                : error_set(err, -ENOMEM, "out of memory");
        if (r == 0) {
            job->pid = getpid();
            the_job = job;
        } else {
            free(job);
        }
    }
    if (r == 0) {
        job->opens++;
        *ret = job;
    }
    (void)pthread_mutex_unlock(&job_mu);
    return r;
}

void plenum_job_close(struct plenum_job *job)
{
    bool last;

    if (!job)
        return;
    (void)pthread_mutex_lock(&job_mu);
    last = --job->opens == 0;
    if (last)
        the_job = NULL;
    (void)pthread_mutex_unlock(&job_mu);
    if (last)
        free(job);
}

const struct plenum_job_info *plenum_job_get_info(const struct plenum_job *job)
{
    return &job->info;
}
