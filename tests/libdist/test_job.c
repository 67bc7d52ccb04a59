/* Who am I, by the variables of each launcher. */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include <plenum/comm.h>

#include "common/util.h"
#include "libdist/job_priv.h"

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

/* The info points into the job: it must stay where it is. */
static const struct plenum_job *read_job(const char *const *env)
{
    static struct plenum_job job;
    struct plenum_error err = {""};

    environment = env;
    cr_assert(eq(int, job_from_environment(get, &job, &err), 0), "%s", err.text);
    return &job;
}

#define ENV(...) ((const char *const[]){__VA_ARGS__, NULL})

Test(job, alone)
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
        "PLENUM_JOB_ID=abc", "PLENUM_LOADER=unix:@x", "RANK=7", "WORLD_SIZE=9"));

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
    cr_expect(eq(u32, job->info.num_replicas, 8), "a process is a replica");
    cr_expect(eq(u32, job->info.replica_offset, 5));
    cr_expect(eq(str, (char *)job->id, "host_a-29500"), "fit for an address");
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

Test(job, the_script_of_an_sbatch_job_is_alone)
{
    const struct plenum_job *job =
        read_job(ENV("SLURM_PROCID=0", "SLURM_NTASKS=4", "SLURM_JOB_ID=17"));

    cr_expect(eq(int, job->info.launcher, PLENUM_LAUNCHER_NONE));
    cr_expect(eq(u32, job->info.num_instances, 1));
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

Test(job, nonsense_is_refused_by_name)
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

/* A carrier of collectives for the first of two instances, which plays the other one, too. */
struct other {
    uint8_t flip;        /* what is different in the other's bytes */
    int code;            /* what the carrier answers */
    uint64_t timeout_ns; /* that it was called with */
    unsigned calls;
};

static int answer(struct other *o, uint64_t timeout_ns, struct plenum_error *err)
{
    o->calls++;
    o->timeout_ns = timeout_ns;
    if (o->code < 0)
        (void)snprintf(err->text, sizeof(err->text), "instance 1 has not come");
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
    ((uint8_t *)recv)[2 * bytes - 1] ^= o->flip;
    return answer(o, timeout_ns, err);
}

static int carry_barrier(void *arg, uint64_t timeout_ns, struct plenum_error *err)
{
    return answer(arg, timeout_ns, err);
}

Test(job, collectives_may_be_carried_by_something_else)
{
    struct other other = {.flip = 0};
    struct plenum_carrier carrier = {.arg = &other,
                                     .broadcast = carry_broadcast,
                                     .allreduce = carry_allreduce,
                                     .allgather = carry_allgather,
                                     .barrier = carry_barrier};
    struct plenum_error err = {""};
    struct plenum_job *job;
    int64_t numbers[3] = {1, -2, 3};
    uint64_t seed = 0;

    (void)setenv("RANK", "0", 1);
    (void)setenv("WORLD_SIZE", "2", 1);
    (void)unsetenv("OMPI_COMM_WORLD_SIZE");
    cr_assert(eq(int, plenum_job_open(&job, NULL), 0));
    cr_expect(eq(int, plenum_barrier(job, &err), -ENOTSUP), "refused, not done alone");
    cr_expect(ne(ptr, (void *)strstr(err.text, "torch.distributed"), NULL), "%s", err.text);
    cr_assert(eq(int, plenum_job_set_carrier(job, &carrier, &err), 0), "but then there is one");

    plenum_job_set_timeout(job, 4711);
    cr_expect(eq(int, plenum_barrier(job, NULL), 0));
    cr_expect(eq(u64, other.timeout_ns, 4711));
    cr_expect(eq(int, plenum_allreduce(job, numbers, 3, PLENUM_INT64, PLENUM_SUM, &err), 0));
    cr_expect(eq(i64, numbers[1], -4));
    cr_expect(eq(int, plenum_broadcast(job, numbers, 8, 1, &err), 0));
    cr_expect(eq(i64, numbers[0], 0x0707070707070707));
    cr_expect(eq(int, plenum_broadcast_seed(job, &seed, &err), 0));
    cr_expect(ne(u64, seed, 0));
    cr_expect(eq(int, plenum_same(job, numbers, sizeof(numbers), &err), 0));
    other.flip = 1;
    cr_expect(eq(int, plenum_same(job, numbers, sizeof(numbers), &err), -EBADMSG));
    cr_expect(ne(ptr, (void *)strstr(err.text, "instance 1 holds other bytes"), NULL), "%s",
              err.text);
    cr_expect(eq(int, plenum_job_set_carrier(job, &carrier, &err), -EBUSY));
    cr_expect(eq(u32, other.calls, 6));

    other.code = -ETIMEDOUT;
    cr_expect(eq(int, plenum_barrier(job, &err), -ETIMEDOUT));
    cr_expect(eq(str, err.text, (char *)"instance 1 has not come"));
    other.code = 0;
    cr_expect(eq(int, plenum_barrier(job, NULL), -ENOTRECOVERABLE));
    plenum_job_close(job);
}

static void *open_and_close(void *arg)
{
    (void)arg;
    for (int i = 0; i < 1000; i++) {
        struct plenum_job *a = NULL, *b = NULL;

        cr_assert(eq(int, plenum_job_open(&a, NULL), 0));
        cr_assert(eq(int, plenum_job_open(&b, NULL), 0));
        cr_assert(eq(ptr, a, b), "one job, whoever opens it");
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
