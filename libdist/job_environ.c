/* SPDX-License-Identifier: MIT */
/* job_environ.c - reads a process's rank in its job, and the job's size, from the environment,
 * whichever launcher set it. */
#include "config.h"

#include "libdist/job_environ.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/error_set.h"
#include "common/util/util.h"

/* The variables of one launcher. */
struct names {
    enum plenum_launcher launcher;
    const char *count, *index, *local_count, *local_index;
    bool mpi; /* if all four are set, they take precedence over Slurm's; otherwise Slurm's do */
};

#define MPI(size, rank, local_size, local_rank)                       \
    {                                                                 \
        PLENUM_LAUNCHER_MPI, size, rank, local_size, local_rank, true \
    }

/* The first entry that is set is used. MPI comes before Slurm, because srun may have started only
 * mpirun's daemons, whose programs still inherit Slurm's variables. */
static const struct names known[] = {
    {PLENUM_LAUNCHER_PLENUM, "PLENUM_NUM_INSTANCES", "PLENUM_INSTANCE_INDEX",
     "PLENUM_NUM_LOCAL_INSTANCES", "PLENUM_LOCAL_INSTANCE_INDEX", false},
    {PLENUM_LAUNCHER_TORCH, "WORLD_SIZE", "RANK", "LOCAL_WORLD_SIZE", "LOCAL_RANK", false},
    MPI("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK"),
    /* MVAPICH 2 and 3, also if Hydra starts them. */
    MPI("MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_SIZE",
        "MV2_COMM_WORLD_LOCAL_RANK"),
    MPI("MVP_COMM_WORLD_SIZE", "MVP_COMM_WORLD_RANK", "MVP_COMM_WORLD_LOCAL_SIZE",
        "MVP_COMM_WORLD_LOCAL_RANK"),
    /* Hydra, the mpirun of MPICH and Intel MPI; Cray's PALS. */
    MPI("PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS", "MPI_LOCALRANKID"),
    MPI("PMI_SIZE", "PMI_RANK", "PMI_LOCAL_SIZE", "PMI_LOCAL_RANK"),
    /* A step's variables: in the script of an sbatch job SLURM_PROCID is 0, however many tasks it
     * has. */
    {PLENUM_LAUNCHER_SLURM, "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_STEP_TASKS_PER_NODE",
     "SLURM_LOCALID", false},
};
#undef MPI

/* Launchers whose jobs are rejected unless RANK and WORLD_SIZE are set, too, because libplenum has
 * no collectives for their processes. jsrun usually sets Open MPI's variables, too. */
static const struct names unsupported[] = {
    {PLENUM_LAUNCHER_NONE, "HOROVOD_SIZE", "HOROVOD_RANK", NULL, NULL, false},
    {PLENUM_LAUNCHER_NONE, "PADDLE_TRAINERS_NUM", "PADDLE_TRAINER_ID", NULL, NULL, false},
    {PLENUM_LAUNCHER_NONE, "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_RANK", NULL, NULL, false},
};

enum { KNOWN_TORCH = 1, KNOWN_SLURM = ARRAY_LEN(known) - 1 };

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

/* Parse this node's entry of "4", or of Slurm's "2(x3),1" for nodes 0, 1, ... */
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
        uint64_t tasks, repeat = 1;

        if (parse_next_u64(&p, UINT32_MAX, &tasks) < 0)
            break;
        if (strncmp(p, "(x", 2) == 0) {
            p += 2;
            if (parse_next_u64(&p, UINT32_MAX, &repeat) < 0 || *p++ != ')')
                break;
        }
        if (skip < repeat) {
            *ret = (uint32_t)tasks;
            return 0;
        }
        skip -= repeat;
        p += *p == ',';
    }
    return error_set(err, -EINVAL, "%s is '%s', which has no entry for node %s", n->local_count,
                     text, node);
}

static bool same_text(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

static bool says(job_getenv get, const struct names *n)
{
    return get(n->count) && get(n->index);
}

static bool mentions(job_getenv get, const struct names *n, bool all)
{
    if (!says(get, n))
        return false;
    /* srun --mpi=pmi2 also sets PMI_SIZE and PMI_RANK. If these differ from Slurm's variables, an
     * mpirun has set them, and srun started only its daemons. */
    if (n->launcher == PLENUM_LAUNCHER_SLURM && get("PMI_SIZE") && get("PMI_RANK"))
        return same_text(get("PMI_SIZE"), get(n->count)) &&
               same_text(get("PMI_RANK"), get(n->index));
    return !n->mpi || !all || (get(n->local_count) && get(n->local_index));
}

static const struct names *find_names(job_getenv get)
{
    for (int all = 1; all >= 0; all--)
        for (size_t i = 0; i < ARRAY_LEN(known); i++)
            if (mentions(get, &known[i], all))
                return &known[i];
    return NULL;
}

static bool tells_of_others(const char *count)
{
    return count && strcmp(count, "1") != 0;
}

static int refuse_half(struct plenum_error *err, const char *said, const char *value,
                       const char *missing)
{
    return error_set(
        err, -EINVAL,
        "%s is %s, but %s is not set, so it is not known which process of the job this is: start "
        "it with plenumrun, torchrun or mpirun, or set RANK and WORLD_SIZE",
        said, value, missing);
}

/* Reject incomplete variables, where no launcher has set both the number of instances (more than
 * one) and the index. If neither is set, the process is alone. If only one is, every process would
 * receive the same samples. */
static int refuse_halves(job_getenv get, struct plenum_error *err)
{
    const char *text;

    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        const struct names *n = &known[i];

        if (tells_of_others(get(n->count)) && !get(n->index))
            return refuse_half(err, n->count, get(n->count), n->index);
        if (get(n->index) && !get(n->count) && n->launcher != PLENUM_LAUNCHER_SLURM)
            return refuse_half(err, n->index, get(n->index), n->count);
    }
    for (size_t i = 0; i < ARRAY_LEN(unsupported); i++)
        if (tells_of_others(get(unsupported[i].count)) && get(unsupported[i].index))
            return refuse_half(err, unsupported[i].index, get(unsupported[i].index), "WORLD_SIZE");
    text = get("LOCAL_WORLD_SIZE");
    if (tells_of_others(text))
        return refuse_half(err, "LOCAL_WORLD_SIZE", text, "RANK");
    text = get("LOCAL_RANK");
    if (text && strcmp(text, "0") != 0 && strcmp(text, "-1") != 0)
        return refuse_half(err, "LOCAL_RANK", text, "RANK");
    /* Open MPI's MPI_Init() sets PMIX_RANK to 0 even in a program without a launcher. If there are
     * other processes, those are rejected. PMIx has no variable for their number. */
    text = get("PMIX_RANK");
    if (text && strcmp(text, "0") != 0)
        return refuse_half(err, "PMIX_RANK", text, "WORLD_SIZE");
    return 0;
}

/* The values of one launcher's variables. */
struct said {
    const struct names *names;
    uint32_t count, index;
};

static bool read_said(job_getenv get, const struct names *n, struct said *ret)
{
    *ret = (struct said){.names = n};
    return read_number(get, n->count, &ret->count, NULL) == 0 &&
           read_number(get, n->index, &ret->index, NULL) == 0;
}

static bool says_same(const struct said *a, const struct said *b)
{
    return a->count == b->count && a->index == b->index;
}

/* Returns whether torchrun was started by each process of `outer`. Then the two launchers nest:
 * together they started outer->count times the number of processes of each torchrun, which torchrun
 * reports. */
static bool fits_within(job_getenv get, const struct said *torch, const struct said *outer)
{
    uint32_t launchers, each = 1;

    if (get("GROUP_WORLD_SIZE"))
        return read_number(get, "GROUP_WORLD_SIZE", &launchers, NULL) == 0 &&
               launchers == outer->count && torch->count >= launchers;
    if (get("LOCAL_WORLD_SIZE") && read_number(get, "LOCAL_WORLD_SIZE", &each, NULL) < 0)
        return false;
    return torch->count == (uint64_t)outer->count * each;
}

static int refuse_two(job_getenv get, const struct names *a, const struct names *b,
                      struct plenum_error *err)
{
    const char *index = get(b->index), *count = get(b->count);

    return error_set(
        err, -EINVAL,
        "%s=%s and %s=%s do not fit %s=%s and %s=%s: one launcher was started within another, or "
        "variables are left over from one. Use one launcher, unset the variables of the other, or "
        "pass rank and world_size (rank=0, world_size=1: all samples)",
        a->index, get(a->index), a->count, get(a->count), b->index, index ? index : "(not set)",
        b->count, count ? count : "(not set)");
}

/* Choose torchrun's variables if a torchrun runs within plenumrun's instance: it sets
 * GROUP_WORLD_SIZE, which plenumrun unsets. If only RANK and WORLD_SIZE, which plenumrun sets, too,
 * have other values, another launcher has set them: reject both. */
static int choose_within_plenumrun(job_getenv get, const struct names **n, struct plenum_error *err)
{
    const struct names *torch = &known[KNOWN_TORCH];
    struct said outer, inner;
    bool readable;

    assert((*n)->launcher == PLENUM_LAUNCHER_PLENUM && torch->launcher == PLENUM_LAUNCHER_TORCH);
    if (!read_said(get, *n, &outer) || (!get(torch->count) && !get(torch->index)))
        return 0;
    readable = read_said(get, torch, &inner);
    if (readable && says_same(&outer, &inner) && !get("GROUP_WORLD_SIZE"))
        return 0;
    if (!readable || !get("GROUP_WORLD_SIZE") ||
        (outer.count > 1 && !fits_within(get, &inner, &outer)))
        return refuse_two(get, *n, torch, err);
    *n = torch;
    return 0;
}

/* Returns whether mpirun may have used a Slurm step to start its daemons on several hosts. If so,
 * Slurm's variables describe the daemons, not the processes they started. */
static bool has_daemons(job_getenv get, const struct said *mpi)
{
    uint32_t here;

    if (mpi->count == 1 || !says(get, &known[KNOWN_SLURM]))
        return false;
    return !get(mpi->names->local_count) ||
           (read_number(get, mpi->names->local_count, &here, NULL) == 0 && here < mpi->count);
}

/* Returns whether the variables of another launcher are consistent with those of the launcher in
 * use. */
static bool goes_with(job_getenv get, const struct said *believed, const struct said *other)
{
    bool torchrun = believed->names->launcher == PLENUM_LAUNCHER_TORCH;

    if (other->count == 1) /* it started one launcher, or was started once per process */
        return true;
    if (says_same(believed, other))
        return !torchrun || !get("GROUP_WORLD_SIZE") || fits_within(get, believed, other);
    if (torchrun)
        return believed->count > 1 && fits_within(get, believed, other);
    return believed->names->mpi && has_daemons(get, believed);
}

/* Returns whether a framework started this process within the launcher in use. Lightning sets
 * WORLD_SIZE and LOCAL_RANK but not RANK. If a script sets WORLD_SIZE for Slurm's tasks, that is
 * not a framework. */
static bool is_framework(job_getenv get, const struct said *believed)
{
    const struct names *torch = &known[KNOWN_TORCH];
    const char *local = get(torch->local_index), *its = get(believed->names->local_index);
    uint32_t count;

    if (!get(torch->count) || get(torch->index))
        return false;
    return read_number(get, torch->count, &count, NULL) < 0 || count != believed->count ||
           (local && its && !same_text(local, its));
}

/* Reject two launchers, one within the other, whose variables contradict each other, because
 * otherwise several processes would receive the same samples. */
static int refuse_other_launchers(job_getenv get, const struct names *n, struct plenum_error *err)
{
    const struct names *torch = &known[KNOWN_TORCH];
    struct said believed, other;

    if (!read_said(get, n, &believed))
        return 0; /* malformed; reported later */
    if (n != torch && is_framework(get, &believed))
        return refuse_two(get, n, torch, err);
    for (const struct names *o = known; o < known + ARRAY_LEN(known); o++) {
        if (o == n || o->launcher == PLENUM_LAUNCHER_PLENUM ||
            o->launcher == PLENUM_LAUNCHER_TORCH || !says(get, o))
            continue;
        if (!read_said(get, o, &other) || !goes_with(get, &believed, &other))
            return refuse_two(get, n, o, err);
    }
    for (const struct names *o = unsupported; o < unsupported + ARRAY_LEN(unsupported); o++)
        if (read_said(get, o, &other) && !goes_with(get, &believed, &other))
            return refuse_two(get, n, o, err);
    return 0;
}

static int check_instances(const struct plenum_job_info *info, const struct names *n,
                           struct plenum_error *err)
{
    if (info->num_instances == 0 || info->instance_index >= info->num_instances)
        return error_set(err, -EINVAL, "%s is %u, but %s is %u: an index must be below the count",
                         n->index, info->instance_index, n->count, info->num_instances);
    if (info->num_local_instances == 0 || info->num_local_instances > info->num_instances ||
        info->local_instance_index >= info->num_local_instances)
        return error_set(err, -EINVAL, "%s = %u, %s = %u and %s = %u contradict each other",
                         n->local_index, info->local_instance_index, n->local_count,
                         info->num_local_instances, n->count, info->num_instances);
    return 0;
}

static int read_instances(job_getenv get, const struct names *n, struct plenum_job_info *info,
                          struct plenum_error *err)
{
    int r = read_number(get, n->count, &info->num_instances, err);

    if (r < 0)
        return r;
    r = read_number(get, n->index, &info->instance_index, err);
    if (r < 0)
        return r;
    /* RANK and WORLD_SIZE alone suffice for one process per host. */
    info->num_local_instances = 1;
    info->local_instance_index = 0;
    if (get(n->local_count)) {
        r = read_local_count(get, n, &info->num_local_instances, err);
        if (r < 0)
            return r;
    }
    if (get(n->local_index)) {
        r = read_number(get, n->local_index, &info->local_instance_index, err);
        if (r < 0)
            return r;
    }
    return check_instances(info, n, err);
}

static int check_replicas(const struct plenum_job_info *info, const char *count,
                          const char *local_count, const char *offset, struct plenum_error *err)
{
    if (info->num_local_replicas == 0 || info->num_local_replicas > info->num_replicas ||
        info->replica_offset > info->num_replicas - info->num_local_replicas)
        return error_set(err, -EINVAL, "%s = %u, %s = %u and %s = %u contradict each other", count,
                         info->num_replicas, local_count, info->num_local_replicas, offset,
                         info->replica_offset);
    return 0;
}

/* Read the replicas that plenumrun reports. With any other launcher, each process is a replica. */
static int read_replicas(job_getenv get, struct plenum_job_info *info, struct plenum_error *err)
{
    const struct {
        const char *name;
        uint32_t *ret;
        bool optional;
    } numbers[] = {
        {"PLENUM_NUM_REPLICAS", &info->num_replicas, false},
        {"PLENUM_NUM_LOCAL_REPLICAS", &info->num_local_replicas, false},
        {"PLENUM_REPLICA_OFFSET", &info->replica_offset, false},
        {"PLENUM_DEVICES_PER_REPLICA", &info->devices_per_replica, true},
        {"PLENUM_RESTART_COUNT", &info->restart_count, true},
    };

    info->num_replicas = info->num_instances;
    info->num_local_replicas = 1;
    info->replica_offset = info->instance_index;
    info->devices_per_replica = 1;
    if (info->launcher != PLENUM_LAUNCHER_PLENUM)
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        int r = 0;

        if (!numbers[i].optional || get(numbers[i].name))
            r = read_number(get, numbers[i].name, numbers[i].ret, err);
        if (r < 0)
            return r;
    }
    return check_replicas(info, "PLENUM_NUM_REPLICAS", "PLENUM_NUM_LOCAL_REPLICAS",
                          "PLENUM_REPLICA_OFFSET", err);
}

/* Set the job's id, which all instances of the job on a host can derive, and no other job
 * shares. */
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
    case PLENUM_LAUNCHER_PROGRAM:
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

/* Read the settings that do not depend on which launcher set the rank. */
static void name_rest(job_getenv get, struct plenum_job *job)
{
    const char *loader = get("PLENUM_LOADER");

    name_job(get, job);
    job->info.job_id = job->id;
    if (loader && *loader) {
        (void)snprintf(job->loader, sizeof(job->loader), "%s", loader);
        job->info.loader = job->loader;
    }
}

int job_from_environment(job_getenv get, struct plenum_job *job, struct plenum_error *err)
{
    const struct names *n = find_names(get);
    int r = 0;

    job->info = (struct plenum_job_info){.num_instances = 1, .num_local_instances = 1};
    if (n) {
        r = n->launcher == PLENUM_LAUNCHER_PLENUM ? choose_within_plenumrun(get, &n, err) : 0;
        if (r < 0)
            return r;
        job->info.launcher = n->launcher;
        r = read_instances(get, n, &job->info, err);
        if (r < 0)
            return r;
        r = refuse_other_launchers(get, n, err);
    }
    /* A launcher of one process may have started a framework that starts others. */
    if (r == 0 && job->info.num_instances == 1)
        r = refuse_halves(get, err);
    if (r < 0)
        return r;
    r = read_replicas(get, &job->info, err);
    if (r < 0)
        return r;
    name_rest(get, job);
    return 0;
}

int job_from_info(job_getenv get, const struct plenum_job_info *info, struct plenum_job *job,
                  struct plenum_error *err)
{
    static const struct names fields = {.count = "num_instances",
                                        .index = "instance_index",
                                        .local_count = "num_local_instances",
                                        .local_index = "local_instance_index"};
    int r = check_instances(info, &fields, err);

    if (r < 0)
        return r;
    r = check_replicas(info, "num_replicas", "num_local_replicas", "replica_offset", err);
    if (r < 0)
        return r;
    job->info = *info;
    job->info.launcher = PLENUM_LAUNCHER_PROGRAM;
    job->info.loader = NULL;
    name_rest(get, job);
    return 0;
}
