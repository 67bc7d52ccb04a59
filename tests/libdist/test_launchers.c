/* SPDX-License-Identifier: MIT */
/* Tests randomly nested launchers: which samples do all resulting processes take?
 *
 * The oracle does not know the rules: it starts every process of every launcher, sets the variables
 * that its launchers would set, and deals samples one by one to the processes that are not
 * rejected.
 *
 * The law: no sample is dealt twice; and if no process is rejected, every sample is dealt. The law
 * excludes what the rules cannot see: a launcher that replaces all variables of another launcher of
 * its kind, or of any launcher (plenumrun, which warns instead), starts a separate job.
 *
 * PLENUM_NESTINGS=N tries N random nestings. */
#include "config.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/util/util.h"
#include "libdist/job_environ.h"

enum { PROCESSES = 64, VARIABLES = 40, SAMPLES = 2 * 2 * 2 * 3 * 3 * 3 };

struct process {
    char text[VARIABLES][64];
    int count;
    int parent; /* the process that started it and also takes samples; or -1 */
    bool child; /* a program outside the job, started by its parent */
    bool refused;
    struct plenum_job job;
};

struct nesting {
    struct process all[PROCESSES];
    int count;
    unsigned jobs; /* used to name them */
    char said[200];
};

static const struct process *current;

static const char *get(const char *name)
{
    size_t len = strlen(name);

    for (int i = 0; i < current->count; i++)
        if (strncmp(current->text[i], name, len) == 0 && current->text[i][len] == '=')
            return current->text[i] + len + 1;
    return NULL;
}

static void unset(struct process *p, const char *name)
{
    size_t len = strlen(name);

    for (int i = 0; i < p->count; i++)
        if (strncmp(p->text[i], name, len) == 0 && p->text[i][len] == '=')
            memcpy(p->text[i--], p->text[--p->count], sizeof(p->text[0]));
}

static void set(struct process *p, const char *name, unsigned value)
{
    unset(p, name);
    assert(p->count < VARIABLES);
    (void)snprintf(p->text[p->count++], sizeof(p->text[0]), "%s=%u", name, value);
}

static void set_all(struct process *p, const char *const names[4], unsigned count, unsigned index,
                    unsigned local_count)
{
    const unsigned values[] = {count, index, local_count, index % local_count};

    for (int i = 0; i < 4; i++)
        set(p, names[i], values[i]);
}

static const char *const torch[] = {"WORLD_SIZE", "RANK", "LOCAL_WORLD_SIZE", "LOCAL_RANK"};
static const char *const open_mpi[] = {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK",
                                       "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"};
static const char *const hydra[] = {"PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS", "MPI_LOCALRANKID"};
static const char *const plenum[] = {"PLENUM_NUM_INSTANCES", "PLENUM_INSTANCE_INDEX",
                                     "PLENUM_NUM_LOCAL_INSTANCES", "PLENUM_LOCAL_INSTANCE_INDEX"};

static void by_torchrun(struct process *p, unsigned count, unsigned index, unsigned job)
{
    set_all(p, torch, count, index, count);
    set(p, "GROUP_RANK", 0);
    set(p, "GROUP_WORLD_SIZE", 1);
    set(p, "MASTER_ADDR", 1);
    set(p, "MASTER_PORT", job);
}

static void by_mpirun(struct process *p, unsigned count, unsigned index, unsigned job)
{
    set_all(p, open_mpi, count, index, count);
    set(p, "PMIX_NAMESPACE", job);
}

static void by_hydra(struct process *p, unsigned count, unsigned index, unsigned job)
{
    (void)job;
    set_all(p, hydra, count, index, count);
}

static void by_srun(struct process *p, unsigned count, unsigned index, unsigned job)
{
    set(p, "SLURM_STEP_NUM_TASKS", count);
    set(p, "SLURM_STEP_TASKS_PER_NODE", count);
    set(p, "SLURM_PROCID", index);
    set(p, "SLURM_LOCALID", index);
    set(p, "SLURM_NODEID", 0);
    set(p, "SLURM_JOB_ID", 1);
    set(p, "SLURM_STEP_ID", job);
}

static void by_plenumrun(struct process *p, unsigned count, unsigned index, unsigned job)
{
    static const char *const out[] = {"GROUP_WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "PMIX_NAMESPACE"};

    for (size_t i = 0; i < ARRAY_LEN(out); i++)
        unset(p, out[i]);
    for (int i = 0; i < 4; i++)
        unset(p, open_mpi[i]);
    set_all(p, torch, count, index, count);
    set_all(p, plenum, count, index, count);
    set(p, "PLENUM_NUM_REPLICAS", count);
    set(p, "PLENUM_NUM_LOCAL_REPLICAS", 1);
    set(p, "PLENUM_REPLICA_OFFSET", index);
    set(p, "MASTER_ADDR", 1);
    set(p, "MASTER_PORT", job);
    set(p, "PLENUM_JOB_ID", job);
}

/* Creates Lightning's own processes, or one that sets RANK because it has no better information. */
static void by_framework(struct process *p, unsigned count, unsigned index, unsigned job)
{
    set(p, "WORLD_SIZE", count);
    set(p, "LOCAL_RANK", index);
    set(p, "NODE_RANK", 0);
    set(p, "MASTER_ADDR", 1);
    set(p, "MASTER_PORT", job);
    if (count == 1)
        set(p, "RANK", 0); /* as some containers do */
}

static const struct launcher {
    const char *name;
    void (*start)(struct process *p, unsigned count, unsigned index, unsigned job);
} launchers[] = {{"plenumrun", by_plenumrun}, {"torchrun", by_torchrun},
                 {"mpirun", by_mpirun},       {"hydra", by_hydra},
                 {"srun", by_srun},           {"framework", by_framework}};

/* Starts a launcher in each process. */
static void nest(struct nesting *n, const struct launcher *launcher, unsigned count)
{
    static struct process outer[PROCESSES];
    int outers = n->count;

    memcpy(outer, n->all, sizeof(outer[0]) * (size_t)outers);
    n->count = 0;
    for (int i = 0; i < outers; i++) {
        unsigned job = ++n->jobs;

        for (unsigned k = 0; k < count; k++) {
            n->all[n->count] = outer[i];
            if (launcher->start == by_framework && k > 0)
                n->all[n->count].parent = n->count - (int)k;
            launcher->start(&n->all[n->count++], count, k, job);
        }
    }
}

/* Starts one torchrun per process, all in one group. */
static void nest_torchruns(struct nesting *n, unsigned each)
{
    int launched = n->count;
    unsigned job = n->jobs + 1;

    nest(n, &launchers[1], each);
    for (int i = 0; i < n->count; i++) {
        set_all(&n->all[i], torch, (unsigned)n->count, (unsigned)i, each);
        set(&n->all[i], "GROUP_RANK", (unsigned)i / each);
        set(&n->all[i], "GROUP_WORLD_SIZE", (unsigned)launched);
        set(&n->all[i], "MASTER_PORT", job);
    }
}

/* Starts a program in each process, or only in the first; each parent also takes samples. */
static void add_children(struct nesting *n, int parents)
{
    for (int i = 0; i < parents; i++) {
        n->all[n->count] = n->all[i];
        n->all[n->count].child = true;
        n->all[n->count++].parent = i;
    }
}

static bool same_instance(const struct plenum_job *a, const struct plenum_job *b)
{
    bool named = strncmp(a->id, "pid-", 4) != 0;

    return a->info.launcher == b->info.launcher && a->info.num_instances == b->info.num_instances &&
           a->info.instance_index == b->info.instance_index &&
           (!named || strcmp(a->id, b->id) == 0);
}

/* Decides like claim.c, for processes that all run at once. */
static bool is_taken(const struct nesting *n, int i)
{
    const struct process *p = &n->all[i];

    if (p->job.info.num_instances == 1)
        return false;
    if (p->parent >= 0 && same_instance(&n->all[p->parent].job, &p->job))
        return true;
    for (int k = 0; k < i; k++)
        if (!n->all[k].refused && strncmp(p->job.id, "pid-", 4) != 0 &&
            same_instance(&n->all[k].job, &p->job))
            return true;
    return false;
}

static void read_jobs(struct nesting *n)
{
    for (int i = 0; i < n->count; i++) {
        struct process *p = &n->all[i];
        struct plenum_error err = {""};

        current = p;
        p->refused = job_from_environment(get, &p->job, &err) < 0;
        if (p->refused)
            cr_assert(gt(sz, strlen(err.text), 20));
        else
            p->refused = is_taken(n, i);
    }
}

/* Deals all samples, and counts how often each is dealt. A program started by a job's only process
 * does not belong to that job. */
static void check_law(struct nesting *n)
{
    unsigned dealt[SAMPLES] = {0};
    bool refused = false;

    for (int i = 0; i < n->count; i++) {
        const struct plenum_job_info *info = &n->all[i].job.info;

        refused |= n->all[i].refused;
        if (n->all[i].refused || n->all[i].child)
            continue;
        for (unsigned sample = 0; sample < SAMPLES; sample++)
            dealt[sample] += sample % info->num_instances == info->instance_index;
    }
    for (unsigned sample = 0; sample < SAMPLES; sample++) {
        cr_assert(le(u32, dealt[sample], 1), "%s: sample %u is dealt %u times", n->said, sample,
                  dealt[sample]);
        if (!refused)
            cr_assert(eq(u32, dealt[sample], 1), "%s: sample %u is not dealt", n->said, sample);
    }
}

static void note(struct nesting *n, const char *what, unsigned count)
{
    size_t len = strlen(n->said);

    (void)snprintf(n->said + len, sizeof(n->said) - len, " > %s %u", what, count);
}

static bool several(const struct nesting *n)
{
    return n->count > 1;
}

/* Makes a nesting of one to three launchers, and possibly of programs started by ranks. */
static void make_nesting(struct nesting *n, unsigned *seed)
{
    bool used[ARRAY_LEN(launchers)] = {false};
    int depth = 1 + rand_r(seed) % 3;

    *n = (struct nesting){.count = 1};
    n->all[0].parent = -1;
    for (int level = 0; level < depth; level++) {
        size_t which = (size_t)rand_r(seed) % ARRAY_LEN(launchers);
        unsigned count = 1 + (unsigned)rand_r(seed) % 3;

        bool replaces = which == 0 || (which == 1 && used[5]);

        if (n->count * (int)count > PROCESSES / 2 || used[which] || (replaces && several(n)))
            continue;
        used[which] = true;
        note(n, launchers[which].name, count);
        if (which == 1 && rand_r(seed) % 2) {
            note(n, "of all", 0);
            nest_torchruns(n, count);
        } else {
            nest(n, &launchers[which], count);
        }
    }
    if (rand_r(seed) % 3 == 0) {
        int parents = rand_r(seed) % 2 ? 1 : n->count;

        note(n, "children", (unsigned)parents);
        add_children(n, parents);
    }
}

Test(launchers, no_sample_is_dealt_twice)
{
    const char *told = getenv("PLENUM_NESTINGS");
    unsigned long times = told ? strtoul(told, NULL, 10) : 3000, whole = 0;
    static struct nesting n;
    unsigned seed = 1;

    for (unsigned long i = 0; i < times; i++) {
        bool refused = false;

        make_nesting(&n, &seed);
        read_jobs(&n);
        check_law(&n);
        for (int k = 0; k < n.count; k++)
            refused |= n.all[k].refused;
        whole += !refused;
    }
    cr_expect(gt(ulong, whole, times / 10), "some must be accepted");
    cr_expect(lt(ulong, whole, times - times / 10), "some must be refused");
}
