/* SPDX-License-Identifier: MIT */
/* Tests which rank and job a process takes from the variables of each launcher. */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include <plenum/comm.h>
#include <plenum/stream.h>

#include "common/util/error_set.h"
#include "common/util/util.h"
#include "libdist/collectives/comm_header.h"
#include "libdist/job_environ.h"

/* A made-up environment: "NAME=value" texts. */
static const char *const *environment;

static const char *get(const char *name)
{
    size_t len = strlen(name);

    for (const char *const *e = environment; *e; e++)
        if (strncmp(*e, name, len) == 0 && (*e)[len] == '=')
            return *e + len + 1;
    return NULL;
}

/* Reads the job. The info points into the job, which must not move. */
static const struct plenum_job *read_job(const char *const *env)
{
    static struct plenum_job job;
    struct plenum_error err = {""};

    environment = env;
    cr_assert(eq(int, job_from_environment(get, &job, &err), 0), "%s", err.text);
    return &job;
}

#define ENV(...) ((const char *const[]){__VA_ARGS__, NULL})

Test(job, a_process_without_a_launcher_is_the_only_one)
{
    const struct plenum_job *job = read_job(ENV("PATH=/bin"));

    cr_expect(eq(u32, job->info.num_instances, 1));
    cr_expect(eq(u32, job->info.num_replicas, 1));
    cr_expect(eq(u32, job->info.num_local_replicas, 1));
    cr_expect(eq(int, job->info.launcher, PLENUM_LAUNCHER_NONE));
    cr_expect(eq(ptr, (void *)job->info.loader, NULL));
    cr_expect(eq(int, strncmp(job->info.job_id, "pid-", 4), 0));
}

Test(job, by_plenumrun)
{
    const struct plenum_job *job = read_job(ENV(
        "PLENUM_NUM_INSTANCES=4", "PLENUM_INSTANCE_INDEX=3", "PLENUM_NUM_LOCAL_INSTANCES=2",
        "PLENUM_LOCAL_INSTANCE_INDEX=1", "PLENUM_NUM_REPLICAS=16", "PLENUM_NUM_LOCAL_REPLICAS=4",
        "PLENUM_REPLICA_OFFSET=12", "PLENUM_DEVICES_PER_REPLICA=2", "PLENUM_RESTART_COUNT=1",
        "PLENUM_JOB_ID=abc", "PLENUM_LOADER=unix:@x", "RANK=3", "WORLD_SIZE=4"));

    cr_expect(eq(int, job->info.launcher, PLENUM_LAUNCHER_PLENUM));
    cr_expect(eq(u32, job->info.num_instances, 4));
    cr_expect(eq(u32, job->info.instance_index, 3));
    cr_expect(eq(u32, job->info.num_local_instances, 2));
    cr_expect(eq(u32, job->info.local_instance_index, 1));
    cr_expect(eq(u32, job->info.num_replicas, 16));
    cr_expect(eq(u32, job->info.num_local_replicas, 4));
    cr_expect(eq(u32, job->info.replica_offset, 12));
    cr_expect(eq(u32, job->info.devices_per_replica, 2));
    cr_expect(eq(u32, job->info.restart_count, 1));
    cr_expect(eq(str, (char *)job->id, "abc"));
    cr_expect(eq(str, (char *)job->loader, "unix:@x"));
}

Test(job, by_torchrun)
{
    const struct plenum_job *job =
        read_job(ENV("RANK=5", "WORLD_SIZE=8", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=4",
                     "MASTER_ADDR=host a", "MASTER_PORT=29500"));

    cr_expect(eq(int, job->info.launcher, PLENUM_LAUNCHER_TORCH));
    cr_expect(eq(u32, job->info.num_instances, 8));
    cr_expect(eq(u32, job->info.instance_index, 5));
    cr_expect(eq(u32, job->info.num_local_instances, 4));
    cr_expect(eq(u32, job->info.num_replicas, 8), "each process must be a replica");
    cr_expect(eq(u32, job->info.replica_offset, 5));
    cr_expect(eq(str, (char *)job->id, "host_a-29500"), "the id must be valid in an address");
}

Test(job, by_mpirun_inside_a_slurm_allocation)
{
    const struct plenum_job *job =
        read_job(ENV("OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_RANK=2",
                     "OMPI_COMM_WORLD_LOCAL_SIZE=2", "OMPI_COMM_WORLD_LOCAL_RANK=0",
                     "PMIX_NAMESPACE=1234.1", "SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=2",
                     "SLURM_LOCALID=0", "SLURM_NODEID=1", "SLURM_STEP_TASKS_PER_NODE=1(x2)"));

    cr_expect(eq(int, job->info.launcher, PLENUM_LAUNCHER_MPI),
              "srun started only mpirun's daemons");
    cr_expect(eq(u32, job->info.instance_index, 2));
    cr_expect(eq(str, (char *)job->id, "1234.1"));
}

Test(job, by_srun)
{
    static const struct {
        const char *node;
        uint32_t local;
    } nodes[] = {{"SLURM_NODEID=0", 2}, {"SLURM_NODEID=2", 2}, {"SLURM_NODEID=3", 1}};

    for (size_t i = 0; i < ARRAY_LEN(nodes); i++) {
        const struct plenum_job *job = read_job(
            ENV("SLURM_PROCID=3", "SLURM_STEP_NUM_TASKS=7", "SLURM_LOCALID=0", nodes[i].node,
                "SLURM_STEP_TASKS_PER_NODE=2(x3),1", "SLURM_JOB_ID=17", "SLURM_STEP_ID=0"));

        cr_expect(eq(int, job->info.launcher, PLENUM_LAUNCHER_SLURM));
        cr_expect(eq(u32, job->info.num_instances, 7));
        cr_expect(eq(u32, job->info.num_local_instances, nodes[i].local), "%s", nodes[i].node);
        cr_expect(eq(str, (char *)job->id, "17-0"));
    }
}

Test(job, the_script_of_an_sbatch_job_is_the_only_process)
{
    const struct plenum_job *job =
        read_job(ENV("SLURM_PROCID=0", "SLURM_NTASKS=4", "SLURM_JOB_ID=17"));

    cr_expect(eq(int, job->info.launcher, PLENUM_LAUNCHER_NONE));
    cr_expect(eq(u32, job->info.num_instances, 1));
}

struct told_case {
    const char *why;
    const char *environment[16];
    /* The expected result; empty: rejected, with a message that names `variable`. */
    uint32_t place[4]; /* instances, index; instances on this host, index among these */
    enum plenum_launcher launcher;
    const char *variable;
};

#define NONE PLENUM_LAUNCHER_NONE
#define TORCH PLENUM_LAUNCHER_TORCH
#define MPI PLENUM_LAUNCHER_MPI
#define SLURM PLENUM_LAUNCHER_SLURM
#define HYDRA "PMI_SIZE=8", "PMI_RANK=5", "MPI_LOCALNRANKS=4", "MPI_LOCALRANKID=1"
#define PLENUM(count, index)                                                       \
    "PLENUM_NUM_INSTANCES=" count, "PLENUM_INSTANCE_INDEX=" index,                 \
        "PLENUM_NUM_LOCAL_INSTANCES=" count, "PLENUM_LOCAL_INSTANCE_INDEX=" index, \
        "PLENUM_NUM_REPLICAS=" count, "PLENUM_NUM_LOCAL_REPLICAS=1",               \
        "PLENUM_REPLICA_OFFSET=" index
#define STEP(tasks, index)                                                  \
    "SLURM_STEP_NUM_TASKS=" tasks, "SLURM_PROCID=" index, "SLURM_NODEID=0", \
        "SLURM_LOCALID=" index, "SLURM_STEP_TASKS_PER_NODE=" tasks

static const struct told_case told[] = {
    {"MPICH's and Intel MPI's Hydra", {HYDRA}, {8, 5, 4, 1}, MPI, ""},
    {"Hydra in a Slurm step that runs its proxies", {HYDRA, STEP("2", "1")}, {8, 5, 4, 1}, MPI, ""},
    {"Cray's PALS",
     {"PMI_SIZE=8", "PMI_RANK=5", "PMI_LOCAL_SIZE=2", "PMI_LOCAL_RANK=1"},
     {8, 5, 2, 1},
     MPI,
     ""},
    {"MVAPICH 2",
     {"MV2_COMM_WORLD_SIZE=4", "MV2_COMM_WORLD_RANK=2", "MV2_COMM_WORLD_LOCAL_SIZE=2",
      "MV2_COMM_WORLD_LOCAL_RANK=0", "PMI_ID=2"},
     {4, 2, 2, 0},
     MPI,
     ""},
    {"MVAPICH 3",
     {"MVP_COMM_WORLD_SIZE=4", "MVP_COMM_WORLD_RANK=3", "MVP_COMM_WORLD_LOCAL_SIZE=2",
      "MVP_COMM_WORLD_LOCAL_RANK=1", "PMI_SIZE=4", "PMI_RANK=3"},
     {4, 3, 2, 1},
     MPI,
     ""},
    {"PMI without the processes on this host", {"PMI_SIZE=3", "PMI_RANK=2"}, {3, 2, 1, 0}, MPI, ""},
    {"Open MPI without the processes on this host",
     {"OMPI_COMM_WORLD_SIZE=3", "OMPI_COMM_WORLD_RANK=2"},
     {3, 2, 1, 0},
     MPI,
     ""},
    {"srun --mpi=pmi2 says the same twice",
     {"PMI_SIZE=2", "PMI_RANK=1", STEP("2", "1")},
     {2, 1, 2, 1},
     SLURM,
     ""},
    {"an mpirun whose daemons are a Slurm step",
     {"PMI_SIZE=4", "PMI_RANK=3", STEP("2", "1")},
     {4, 3, 1, 0},
     MPI,
     ""},
    {"srun --mpi=pmix", {"PMIX_RANK=1", STEP("2", "1")}, {2, 1, 2, 1}, SLURM, ""},
    {"Hydra with a single process",
     {"PMI_SIZE=1", "PMI_RANK=0", "MPI_LOCALNRANKS=1", "MPI_LOCALRANKID=0"},
     {1, 0, 1, 0},
     MPI,
     ""},
    {"one torchrun per task of a Slurm step",
     {"WORLD_SIZE=2", "RANK=0", "LOCAL_WORLD_SIZE=1", "LOCAL_RANK=0", "GROUP_WORLD_SIZE=2",
      STEP("2", "1")},
     {2, 0, 1, 0},
     TORCH,
     ""},
    {"torchrun with different numbers of processes on two hosts",
     {"WORLD_SIZE=5", "RANK=4", "LOCAL_WORLD_SIZE=3", "LOCAL_RANK=2", "GROUP_WORLD_SIZE=2",
      STEP("2", "1")},
     {5, 4, 3, 2},
     TORCH,
     ""},
    {"a program that sets RANK for each GPU of a host, in a step with one task per host",
     {"WORLD_SIZE=8", "RANK=5", "LOCAL_WORLD_SIZE=4", "LOCAL_RANK=1", STEP("2", "1")},
     {8, 5, 4, 1},
     TORCH,
     ""},
    {"WORLD_SIZE that a script sets for srun's tasks",
     {"WORLD_SIZE=2", STEP("2", "1")},
     {2, 1, 2, 1},
     SLURM,
     ""},
    {"hosts that are started one by one",
     {"WORLD_SIZE=8", "RANK=5", "LOCAL_WORLD_SIZE=4", "LOCAL_RANK=1", STEP("1", "0")},
     {8, 5, 4, 1},
     TORCH,
     ""},
    {"torchrun in plenumrun's only instance",
     {PLENUM("1", "0"), "RANK=1", "WORLD_SIZE=2", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2",
      "GROUP_WORLD_SIZE=1"},
     {2, 1, 2, 1},
     TORCH,
     ""},
    {"a torchrun for each of plenumrun's instances, which know of each other",
     {PLENUM("2", "1"), "RANK=1", "WORLD_SIZE=4", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2",
      "GROUP_WORLD_SIZE=2"},
     {4, 1, 2, 1},
     TORCH,
     ""},
    {"an MPI's mpirun in plenumrun's instance, for one process",
     {PLENUM("2", "1"), "RANK=1", "WORLD_SIZE=2", "OMPI_COMM_WORLD_SIZE=1",
      "OMPI_COMM_WORLD_RANK=0"},
     {2, 1, 2, 1},
     PLENUM_LAUNCHER_PLENUM,
     ""},
    {"Open MPI's MPI_Init() of a program without a launcher",
     {"PMIX_RANK=0"},
     {1, 0, 1, 0},
     NONE,
     ""},
    {"a world of one, without further variables", {"WORLD_SIZE=1"}, {1, 0, 1, 0}, NONE, ""},
    {"LOCAL_RANK as frameworks set it for a single process",
     {"LOCAL_RANK=-1"},
     {1, 0, 1, 0},
     NONE,
     ""},
    {"LOCAL_RANK that chooses a device", {"LOCAL_RANK=0"}, {1, 0, 1, 0}, NONE, ""},

    {"horovodrun for a single process",
     {"HOROVOD_RANK=0", "HOROVOD_SIZE=1"},
     {1, 0, 1, 0},
     NONE,
     ""},
    {"horovodrun, and RANK and WORLD_SIZE of a script",
     {"HOROVOD_RANK=1", "HOROVOD_SIZE=2", "RANK=1", "WORLD_SIZE=2"},
     {2, 1, 1, 0},
     TORCH,
     ""},

    {"horovodrun",
     {"HOROVOD_RANK=0", "HOROVOD_SIZE=2", "HOROVOD_LOCAL_RANK=0"},
     .variable = "HOROVOD_RANK is 0, but WORLD_SIZE is not set"},
    {"Paddle's launcher",
     {"PADDLE_TRAINER_ID=1", "PADDLE_TRAINERS_NUM=2"},
     .variable = "PADDLE_TRAINER_ID is 1"},
    {"jsrun without Open MPI's variables",
     {"JSM_NAMESPACE_RANK=0", "JSM_NAMESPACE_SIZE=2", "PMIX_RANK=0"},
     .variable = "JSM_NAMESPACE_RANK is 0"},
    {"horovodrun in a step of one task",
     {STEP("1", "0"), "HOROVOD_RANK=0", "HOROVOD_SIZE=2"},
     .variable = "SLURM_PROCID=0 and SLURM_STEP_NUM_TASKS=1 do not fit HOROVOD_RANK=0 and "
                 "HOROVOD_SIZE=2"},
    {"horovodrun in plenumrun's only instance",
     {PLENUM("1", "0"), "RANK=0", "WORLD_SIZE=1", "HOROVOD_RANK=1", "HOROVOD_SIZE=2"},
     .variable = "HOROVOD_RANK=1 and HOROVOD_SIZE=2"},
    {"PMIx alone, without the number of processes", {"PMIX_RANK=3"}, .variable = "PMIX_RANK"},
    {"Lightning's processes",
     {"WORLD_SIZE=2", "LOCAL_RANK=1", "NODE_RANK=0"},
     .variable = "RANK is not set"},
    {"a number of processes, but no index",
     {"WORLD_SIZE=2"},
     .variable = "WORLD_SIZE is 2, but RANK is not set"},
    {"PMI's number of processes, but no index", {"PMI_SIZE=2"}, .variable = "PMI_RANK"},
    {"Open MPI's number of processes, but no index",
     {"OMPI_COMM_WORLD_SIZE=2"},
     .variable = "OMPI_COMM_WORLD_RANK"},
    {"plenumrun's number of instances, but no index",
     {"PLENUM_NUM_INSTANCES=2"},
     .variable = "PLENUM_INSTANCE_INDEX"},
    {"an index, but no number of processes",
     {"RANK=0"},
     .variable = "RANK is 0, but WORLD_SIZE is not set"},
    {"PMI's index, but no number of processes", {"PMI_RANK=0"}, .variable = "PMI_SIZE"},
    {"MVAPICH's index, but no number of processes",
     {"MV2_COMM_WORLD_RANK=0"},
     .variable = "MV2_COMM_WORLD_SIZE"},
    {"only the number of processes on this host",
     {"LOCAL_WORLD_SIZE=2"},
     .variable = "LOCAL_WORLD_SIZE"},
    {"only the index on this host", {"LOCAL_RANK=1"}, .variable = "LOCAL_RANK"},
    {"RANK and WORLD_SIZE of a host, and Hydra's variables",
     {"WORLD_SIZE=1", "RANK=0", HYDRA},
     .variable = "RANK=0 and WORLD_SIZE=1 do not fit PMI_RANK=5 and PMI_SIZE=8"},
    {"RANK and WORLD_SIZE of a host, and a step of two tasks",
     {"WORLD_SIZE=1", "RANK=0", STEP("2", "1")},
     .variable = "SLURM_STEP_NUM_TASKS=2"},
    {"a torchrun for each task, which does not know of the others",
     {"WORLD_SIZE=1", "RANK=0", "LOCAL_WORLD_SIZE=1", "LOCAL_RANK=0", STEP("2", "1")},
     .variable = "do not fit SLURM_PROCID=1 and SLURM_STEP_NUM_TASKS=2"},
    {"a torchrun for each task, with as many processes as tasks",
     {"WORLD_SIZE=2", "RANK=1", "LOCAL_WORLD_SIZE=2", "LOCAL_RANK=1", "GROUP_WORLD_SIZE=1",
      STEP("2", "1")},
     .variable = "SLURM_STEP_NUM_TASKS=2"},
    {"mpirun in torchrun's only process",
     {"WORLD_SIZE=1", "RANK=0", "LOCAL_WORLD_SIZE=1", "LOCAL_RANK=0", "GROUP_WORLD_SIZE=1", HYDRA},
     .variable = "PMI_RANK=5"},
    {"an mpirun for each task",
     {"OMPI_COMM_WORLD_SIZE=1", "OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_LOCAL_SIZE=1",
      "OMPI_COMM_WORLD_LOCAL_RANK=0", STEP("2", "1")},
     .variable = "OMPI_COMM_WORLD_RANK=0"},
    {"mpirun in plenumrun's only instance",
     {PLENUM("1", "0"), "RANK=0", "WORLD_SIZE=1", "OMPI_COMM_WORLD_SIZE=2",
      "OMPI_COMM_WORLD_RANK=1"},
     .variable = "PLENUM_INSTANCE_INDEX=0 and PLENUM_NUM_INSTANCES=1 do not fit "
                 "OMPI_COMM_WORLD_RANK=1 and OMPI_COMM_WORLD_SIZE=2"},
    {"srun in plenumrun's only instance",
     {PLENUM("1", "0"), "RANK=0", "WORLD_SIZE=1", STEP("2", "1")},
     .variable = "SLURM_PROCID=1"},
    {"a torchrun for each of plenumrun's instances, which do not know of each other",
     {PLENUM("2", "1"), "RANK=0", "WORLD_SIZE=3", "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=3",
      "GROUP_WORLD_SIZE=1"},
     .variable = "PLENUM_INSTANCE_INDEX=1 and PLENUM_NUM_INSTANCES=2 do not fit RANK=0 and "
                 "WORLD_SIZE=3"},
    {"Lightning's processes in plenumrun's instance",
     {PLENUM("2", "1"), "RANK=1", "WORLD_SIZE=4", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=1"},
     .variable = "WORLD_SIZE=4"},
    {"Lightning's processes in mpirun's only process",
     {"OMPI_COMM_WORLD_SIZE=1", "OMPI_COMM_WORLD_RANK=0", "WORLD_SIZE=2", "LOCAL_RANK=1",
      "NODE_RANK=0"},
     .variable = "WORLD_SIZE=2"},
    {"Lightning's processes in each task of a step, on several hosts",
     {STEP("2", "1"), "WORLD_SIZE=4", "LOCAL_RANK=1", "NODE_RANK=0"},
     .variable = "WORLD_SIZE=4"},
    {"a Hydra for each task",
     {"PMI_SIZE=3", "PMI_RANK=2", "MPI_LOCALNRANKS=3", "MPI_LOCALRANKID=2", STEP("2", "1")},
     .variable = "do not fit SLURM_PROCID=1"},
    {"half of torchrun's variables in plenumrun's instance",
     {PLENUM("2", "1"), "RANK=1"},
     .variable = "WORLD_SIZE=(not set)"},
    {"a number of Slurm's with more than 32 bits",
     {"SLURM_STEP_NUM_TASKS=2", "SLURM_PROCID=0", "SLURM_NODEID=0", "SLURM_LOCALID=0",
      "SLURM_STEP_TASKS_PER_NODE=4294967298"},
     .variable = "SLURM_STEP_TASKS_PER_NODE is '4294967298'"},
    {"an index of PMI's out of range", {"PMI_SIZE=2", "PMI_RANK=2"}, .variable = "PMI_RANK is 2"},
    {"Hydra with more local processes than processes",
     {"PMI_SIZE=2", "PMI_RANK=1", "MPI_LOCALNRANKS=3", "MPI_LOCALRANKID=1"},
     .variable = "MPI_LOCALNRANKS"},
};

Test(job, every_source_and_every_missing_variable)
{
    for (size_t i = 0; i < ARRAY_LEN(told); i++) {
        const struct told_case *c = &told[i];
        struct plenum_job job = {.id = ""};
        struct plenum_error err = {""};
        int r;

        environment = c->environment;
        r = job_from_environment(get, &job, &err);
        if (c->place[0] == 0) {
            cr_expect(eq(int, r, -EINVAL), "%s", c->why);
            cr_expect(ne(ptr, (void *)strstr(err.text, c->variable), NULL),
                      "%s: '%s' does not say %s", c->why, err.text, c->variable);
            continue;
        }
        cr_expect(eq(int, r, 0), "%s: %s", c->why, err.text);
        cr_expect(eq(u32, job.info.num_instances, c->place[0]), "%s", c->why);
        cr_expect(eq(u32, job.info.instance_index, c->place[1]), "%s", c->why);
        cr_expect(eq(u32, job.info.num_local_instances, c->place[2]), "%s", c->why);
        cr_expect(eq(u32, job.info.local_instance_index, c->place[3]), "%s", c->why);
        cr_expect(eq(u32, job.info.num_replicas, c->place[0]), "%s", c->why);
        cr_expect(eq(u32, job.info.replica_offset, c->place[1]), "%s", c->why);
        cr_expect(eq(int, job.info.launcher, c->launcher), "%s", c->why);
    }
}

/* This law holds: whichever variables are removed from a set, a process that is one of several
 * never counts as the only one. */
Test(job, incomplete_variables_do_not_make_a_process_the_only_one)
{
    static const char *const sets[][4] = {
        {"WORLD_SIZE=4", "RANK=2", "LOCAL_WORLD_SIZE=4", "LOCAL_RANK=2"},
        {"OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_RANK=2", "OMPI_COMM_WORLD_LOCAL_SIZE=4",
         "OMPI_COMM_WORLD_LOCAL_RANK=2"},
        {"PMI_SIZE=4", "PMI_RANK=2", "MPI_LOCALNRANKS=4", "MPI_LOCALRANKID=2"},
        {"MV2_COMM_WORLD_SIZE=4", "MV2_COMM_WORLD_RANK=2", "MV2_COMM_WORLD_LOCAL_SIZE=4",
         "MV2_COMM_WORLD_LOCAL_RANK=2"},
        {"PLENUM_NUM_INSTANCES=4", "PLENUM_INSTANCE_INDEX=2", "PLENUM_NUM_LOCAL_INSTANCES=4",
         "PLENUM_LOCAL_INSTANCE_INDEX=2"},
    };

    for (size_t set = 0; set < ARRAY_LEN(sets); set++)
        for (unsigned mask = 1; mask < 16; mask++) {
            const char *some[5] = {NULL};
            struct plenum_job job = {.id = ""};
            struct plenum_error err = {""};
            size_t count = 0;

            if ((mask & 3) == 0)
                continue; /* local ranks say nothing about other hosts */
            for (size_t i = 0; i < 4; i++)
                if (mask >> i & 1)
                    some[count++] = sets[set][i];
            environment = some;
            if (job_from_environment(get, &job, &err) == 0)
                cr_expect(eq(u32, job.info.num_instances, 4), "%s, %x", sets[set][0], mask);
            else
                cr_expect(gt(sz, strlen(err.text), 20));
        }
}

static void refused(const char *const *env, const char *variable)
{
    struct plenum_job job = {.id = ""};
    struct plenum_error err = {""};

    environment = env;
    cr_expect(eq(int, job_from_environment(get, &job, &err), -EINVAL), "%s", variable);
    cr_expect(ne(ptr, (void *)strstr(err.text, variable), NULL), "'%s' does not name %s", err.text,
              variable);
}

Test(job, malformed_variables_are_rejected_by_name)
{
    refused(ENV("RANK=x", "WORLD_SIZE=2"), "RANK");
    refused(ENV("RANK=0", "WORLD_SIZE=-2"), "WORLD_SIZE");
    refused(ENV("RANK=2", "WORLD_SIZE=2"), "RANK");
    refused(ENV("RANK=0", "WORLD_SIZE=0"), "WORLD_SIZE");
    refused(ENV("RANK=0", "WORLD_SIZE=2", "LOCAL_RANK=2", "LOCAL_WORLD_SIZE=2"), "LOCAL_RANK");
    refused(ENV("RANK=0", "WORLD_SIZE=2", "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=3"),
            "LOCAL_WORLD_SIZE");
    refused(ENV("PLENUM_NUM_INSTANCES=2", "PLENUM_INSTANCE_INDEX=0"), "PLENUM_NUM_REPLICAS");
    refused(ENV("PLENUM_NUM_INSTANCES=2", "PLENUM_INSTANCE_INDEX=0", "PLENUM_NUM_REPLICAS=4",
                "PLENUM_NUM_LOCAL_REPLICAS=2", "PLENUM_REPLICA_OFFSET=3"),
            "PLENUM_REPLICA_OFFSET");
    refused(ENV("PLENUM_NUM_INSTANCES=2", "PLENUM_INSTANCE_INDEX=0", "PLENUM_NUM_REPLICAS=4",
                "PLENUM_NUM_LOCAL_REPLICAS=0", "PLENUM_REPLICA_OFFSET=0"),
            "PLENUM_NUM_LOCAL_REPLICAS");
}

Test(job, opening_twice_gives_one_job)
{
    struct plenum_job *a, *b;

    (void)setenv("RANK", "1", 1);
    (void)setenv("WORLD_SIZE", "2", 1);
    cr_assert(eq(int, plenum_job_open(&a, NULL), 0));
    (void)setenv("RANK", "0", 1);
    cr_assert(eq(int, plenum_job_open(&b, NULL), 0));
    cr_expect(eq(ptr, a, b));
    cr_expect(eq(u32, plenum_job_get_info(b)->instance_index, 1), "read once");
    plenum_job_close(a);
    cr_expect(eq(u32, plenum_job_get_info(b)->num_instances, 2), "still there");
    plenum_job_close(b);
    plenum_job_close(NULL);
}

/* A carrier of collectives for the first of two instances. It also plays the second. */
struct other {
    uint8_t flip;        /* how the other's digest differs (plenum_same()) */
    int code;            /* what the carrier returns */
    uint64_t timeout_ns; /* what it was called with */
    unsigned calls;
    void *recv; /* receive buffer of the last allgather */
    size_t recv_bytes;
    struct plenum_job *close; /* a job that is closed during the call */
};

static int answer(struct other *o, uint64_t timeout_ns, struct plenum_error *err)
{
    o->calls++;
    o->timeout_ns = timeout_ns;
    plenum_job_close(o->close);
    o->close = NULL;
    if (o->code < 0)
        (void)snprintf(err->text, sizeof(err->text), "instance 1 has not arrived");
    return o->code;
}

static int carry_broadcast(void *arg, void *buffer, size_t bytes, uint32_t root,
                           uint64_t timeout_ns, struct plenum_error *err)
{
    struct other *o = arg;

    if (root == 1)
        for (size_t i = 0; i < bytes; i++)
            ((uint8_t *)buffer)[i] = 7;
    return answer(o, timeout_ns, err);
}

static int carry_allreduce(void *arg, void *buffer, size_t count, enum plenum_type type,
                           enum plenum_op op, uint64_t timeout_ns, struct plenum_error *err)
{
    for (size_t i = 0; i < count && type == PLENUM_INT64 && op == PLENUM_SUM; i++)
        ((int64_t *)buffer)[i] *= 2;
    return answer(arg, timeout_ns, err);
}

static int carry_allgather(void *arg, const void *send, size_t bytes, void *recv,
                           uint64_t timeout_ns, struct plenum_error *err)
{
    struct other *o = arg;

    memcpy(recv, send, bytes);
    memcpy((uint8_t *)recv + bytes, send, bytes);
    if (bytes == sizeof(struct comm_block))
        ((struct comm_block *)recv)[1].data[23] ^= o->flip;
    o->recv = recv;
    o->recv_bytes = 2 * bytes;
    return answer(o, timeout_ns, err);
}

static int prepare(void *arg, struct plenum_error *err)
{
    (void)arg;
    (void)err;
    return 0;
}

static struct plenum_job *carried_job(const struct plenum_carrier *carrier)
{
    struct plenum_error err = {""};
    struct plenum_job *job;

    (void)setenv("RANK", "0", 1);
    (void)setenv("WORLD_SIZE", "2", 1);
    (void)setenv("LOCAL_WORLD_SIZE", "2", 1);
    (void)setenv("LOCAL_RANK", "0", 1);
    cr_assert(eq(int, plenum_job_open(&job, &err), 0), "%s", err.text);
    cr_assert(eq(int, plenum_job_set_carrier(job, carrier, &err), 0));
    return job;
}

static void expect_kept(const struct other *other)
{
    for (size_t size = other->recv_bytes; size < other->recv_bytes + 64; size += 8) {
        void *others = malloc(size);

        cr_expect(ne(ptr, others, other->recv), "the buffer must have another owner now");
        free(others);
    }
    memset(other->recv, 0xff, other->recv_bytes);
}

/* The memory of a collective that timed out may be written to later, so the library does not reuse
 * it. A job may be closed during a collective. */
Test(job, memory_of_a_failed_collective_is_not_reused)
{
    struct other other = {.code = 0};
    struct plenum_carrier carrier = {.arg = &other, .allgather = carry_allgather};
    struct plenum_job *job = carried_job(&carrier);
    struct plenum_error err = {""};
    char bytes[8] = "same";

    other.close = job;
    cr_expect(eq(int, plenum_once_per_host(job, prepare, NULL, &err), 0));

    cr_assert(eq(int, plenum_job_open(&job, &err), 0));
    other.code = -ETIMEDOUT;
    cr_expect(eq(int, plenum_same(job, bytes, sizeof(bytes), &err), -ETIMEDOUT));
    expect_kept(&other);
    plenum_job_close(job);
}

/* The same holds for the memory of streams that are opened together. */
Test(job, memory_of_a_failed_opening_is_not_reused)
{
    struct other other = {.code = -ETIMEDOUT};
    struct plenum_carrier carrier = {.arg = &other, .allgather = carry_allgather};
    struct plenum_job *job = carried_job(&carrier);
    struct plenum_stream_options o;
    struct plenum_error err = {""};
    struct plenum_stream *s = NULL;

    plenum_stream_options_init(&o);
    o.dataset = "no:matter";
    o.pipeline = "nothing that is known";
    cr_expect(eq(int, plenum_stream_open_all(job, &o, &s, &err), -ETIMEDOUT));
    expect_kept(&other);
    plenum_job_close(job);
}

/* Fork a child in the middle of a collective. The child must be able to use the job at once. */
static int carry_fork(void *arg, const void *send, size_t bytes, void *recv, uint64_t timeout_ns,
                      struct plenum_error *err)
{
    int *status = arg;
    pid_t child = fork();

    (void)send, (void)bytes, (void)recv, (void)timeout_ns;
    if (child == 0) {
        struct plenum_job *own;

        (void)alarm(300); /* it would wait for ever */
        if (plenum_job_open(&own, NULL) < 0)
            _exit(1);
        plenum_job_set_timeout(own, 1);
        _exit(0);
    }
    (void)waitpid(child, status, 0);
    return error_set(err, -EIO, "it forked");
}

Test(job, a_child_that_is_forked_during_a_collective_does_not_wait_for_its_end)
{
    int status = -1;
    const struct plenum_carrier carrier = {.arg = &status,
                                           .broadcast = carry_broadcast,
                                           .allreduce = carry_allreduce,
                                           .allgather = carry_fork};
    struct plenum_job *job = carried_job(&carrier);

    cr_expect(eq(int, plenum_barrier(job, NULL), -EIO));
    cr_expect(eq(int, status, 0));
    plenum_job_close(job);
}

Test(job, collectives_may_have_another_carrier)
{
    struct other other = {.flip = 0};
    struct plenum_carrier carrier = {.arg = &other,
                                     .broadcast = carry_broadcast,
                                     .allreduce = carry_allreduce,
                                     .allgather = carry_allgather};
    struct plenum_error err = {""};
    struct plenum_job *job;
    int64_t numbers[100] = {1, -2, 3}; /* too many to send with the header */
    uint64_t seed = 0;

    (void)setenv("RANK", "0", 1);
    (void)setenv("WORLD_SIZE", "2", 1);
    (void)unsetenv("OMPI_COMM_WORLD_SIZE");
    cr_assert(eq(int, plenum_job_open(&job, NULL), 0));
    cr_expect(eq(int, plenum_barrier(job, &err), -ENOTSUP), "must be refused, not done alone");
    cr_expect(ne(ptr, (void *)strstr(err.text, "torch.distributed"), NULL), "%s", err.text);
    cr_assert(eq(int, plenum_job_set_carrier(job, &carrier, &err), 0),
              "a carrier must be accepted");

    plenum_job_set_timeout(job, 4711);
    cr_expect(eq(int, plenum_barrier(job, NULL), 0));
    cr_expect(eq(u64, other.timeout_ns, 4711));
    plenum_job_set_timeout(job, UINT64_MAX);
    cr_expect(eq(int, plenum_barrier(job, NULL), 0));
    cr_expect(eq(u64, other.timeout_ns, 0), "no limit");
    cr_expect(eq(int, plenum_allreduce(job, numbers, 3, PLENUM_INT64, PLENUM_SUM, &err), 0));
    cr_expect(eq(i64, numbers[1], -4));
    cr_expect(eq(u32, other.calls, 3), "each call must take one exchange");
    cr_expect(eq(int, plenum_allreduce(job, numbers, 100, PLENUM_INT64, PLENUM_SUM, &err), 0));
    cr_expect(eq(i64, numbers[1], -8));
    cr_expect(eq(int, plenum_broadcast(job, numbers, sizeof(numbers), 1, &err), 0));
    cr_expect(eq(i64, numbers[0], 0x0707070707070707));
    cr_expect(eq(int, plenum_broadcast_seed(job, &seed, &err), 0));
    cr_expect(ne(u64, seed, 0));
    cr_expect(eq(int, plenum_same(job, numbers, sizeof(numbers), &err), 0));
    other.flip = 1;
    cr_expect(eq(int, plenum_same(job, numbers, sizeof(numbers), &err), -EBADMSG));
    cr_expect(
        ne(ptr, (void *)strstr(err.text, "instance 1 holds different bytes from the other"), NULL),
        "%s", err.text);
    cr_expect(eq(int, plenum_job_set_carrier(job, &carrier, &err), -EBUSY));
    cr_expect(eq(u32, other.calls, 10));

    other.code = -ETIMEDOUT;
    cr_expect(eq(int, plenum_barrier(job, &err), -ETIMEDOUT));
    cr_expect(eq(str, err.text, (char *)"barrier: instance 1 has not arrived"));
    other.code = 0;
    cr_expect(eq(int, plenum_barrier(job, NULL), -ENOTRECOVERABLE));
    plenum_job_close(job);
}

Test(job, a_program_may_pass_its_rank)
{
    const struct plenum_job_info third = {.num_instances = 4,
                                          .instance_index = 2,
                                          .num_local_instances = 2,
                                          .local_instance_index = 0,
                                          .num_replicas = 4,
                                          .num_local_replicas = 1,
                                          .replica_offset = 2,
                                          .devices_per_replica = 1};
    struct plenum_job_info other = third;
    struct plenum_job *a, *b;
    struct plenum_error err = {""};

    (void)setenv("WORLD_SIZE", "2", 1); /* only half of the variables, which are not checked here */
    cr_assert(eq(int, plenum_job_open_as(&third, &a, &err), 0), "%s", err.text);
    cr_expect(eq(u32, plenum_job_get_info(a)->instance_index, 2));
    cr_expect(eq(int, plenum_job_get_info(a)->launcher, PLENUM_LAUNCHER_PROGRAM));
    cr_assert(eq(int, plenum_job_open(&b, &err), 0), "%s", err.text);
    cr_expect(eq(ptr, a, b));
    other.instance_index = other.replica_offset = 3;
    cr_expect(eq(int, plenum_job_open_as(&other, &b, &err), -EBUSY));
    cr_expect(ne(ptr, (void *)strstr(err.text, "instance 2 of 4"), NULL), "%s", err.text);
    cr_expect(eq(int, plenum_barrier(a, &err), -ENOTSUP));
    cr_expect(ne(ptr, (void *)strstr(err.text, "init_process_group"), NULL), "%s", err.text);
    plenum_job_close(a);
    plenum_job_close(b);

    other.instance_index = 4;
    cr_expect(eq(int, plenum_job_open_as(&other, &b, &err), -EINVAL));
    other = third;
    other.replica_offset = 4;
    cr_expect(eq(int, plenum_job_open_as(&other, &b, &err), -EINVAL));
    cr_expect(ne(ptr, (void *)strstr(err.text, "replica_offset"), NULL), "%s", err.text);
    cr_expect(eq(int, plenum_job_open(&b, &err), -EINVAL), "the environment must be read again");
}

Test(job, a_stream_needs_no_numbers_even_if_a_job_is_open)
{
    struct plenum_stream_options o;
    struct plenum_error err = {""};
    struct plenum_stream *s = NULL;
    struct plenum_job *job;

    cr_assert(eq(int, plenum_job_open(&job, NULL), 0));
    plenum_stream_options_init(&o);
    o.dataset = "no:matter";
    o.pipeline = "nothing that is known";
    cr_expect(eq(int, plenum_stream_open(NULL, &o, &s, &err), -EINVAL));
    plenum_job_close(job);
}

Test(job, a_forked_child_has_a_job_of_its_own)
{
    struct plenum_job *parents, *own;
    int status;
    pid_t child;

    (void)setenv("RANK", "1", 1);
    (void)setenv("WORLD_SIZE", "2", 1);
    cr_assert(eq(int, plenum_job_open(&parents, NULL), 0));
    child = fork();
    if (child == 0) {
        (void)setenv("RANK", "0", 1);
        if (plenum_job_open(&own, NULL) < 0 || plenum_job_get_info(own)->instance_index != 0 ||
            plenum_job_get_info(parents)->instance_index != 1)
            _exit(1);
        if (plenum_barrier(parents, NULL) != -ECHILD)
            _exit(2);
        plenum_job_close(parents);
        plenum_job_close(own);
        _exit(0);
    }
    cr_assert(eq(int, waitpid(child, &status, 0), child));
    cr_expect(eq(int, status, 0));
    cr_expect(eq(u32, plenum_job_get_info(parents)->instance_index, 1));
    plenum_job_close(parents);
}

static void *open_and_close(void *arg)
{
    (void)arg;
    for (int i = 0; i < 1000; i++) {
        struct plenum_job *a = NULL, *b = NULL;

        cr_assert(eq(int, plenum_job_open(&a, NULL), 0));
        cr_assert(eq(int, plenum_job_open(&b, NULL), 0));
        cr_assert(eq(ptr, a, b), "both threads must get one job");
        cr_assert(eq(u32, plenum_job_get_info(a)->num_instances, 1));
        plenum_job_close(b);
        plenum_job_close(a);
    }
    return NULL;
}

Test(job, threads_may_open_and_close_it_at_once)
{
    pthread_t threads[4];

    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        cr_assert(eq(int, pthread_create(&threads[i], NULL, open_and_close, NULL), 0));
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        cr_assert(eq(int, pthread_join(threads[i], NULL), 0));
}
