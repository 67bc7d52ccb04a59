/* SPDX-License-Identifier: MIT */
/* comm_world.c - checks every collective in every instance. test_comm.sh starts it under a
 * launcher.
 *
 *     comm_world            run all checks
 *     comm_world big        broadcast 2 GiB and one byte
 *     comm_world late       the last instance skips the second collective: the others time out
 *     comm_world never      the last instance skips all collectives: the others time out
 *     comm_world away BYTES  like "late", but the last instance would broadcast BYTES bytes
 *     comm_world holds      call a collective, create the file MARKS/1N in instance N, and end when
 *                           the file MARKS/2N exists
 *     comm_world straggler  the first instance is late twice, and receives what the others sent
 *                           before it came
 *     comm_world own-mpi    run all checks in a program that initialises and finalises MPI itself
 *     comm_world forgetful  run all checks in a program that never closes its job
 *     comm_world single     initialise MPI with MPI_THREAD_SINGLE: collectives are rejected
 *     comm_world thread     MPI_THREAD_FUNNELED, and a call from another thread, which is rejected
 *     comm_world ends       the last instance ends after one collective: the others get an error
 *     comm_world silent     the last instance ends without a collective: the others get an error
 *     comm_world leaves     like "ends", but the instance ends by _exit()
 *     comm_world uneven     the last instance has one step fewer than the others, whose sums are
 *                           right until they get an error
 *     comm_world finalizes  like "ends", in a program that finalises MPI itself
 *     comm_world improper   a program that uses MPI without libplenum; its last instance ends
 *                           without MPI_Finalize() while the others wait
 *     comm_world differ     the last instance makes a different call: all get an error and continue
 *     comm_world nan        minimum and maximum where some values are NaN
 *     comm_world carrier    print what carries the collectives: memory or MPI
 *     comm_world program N  call a collective N times: one of several programs that a script runs
 *
 * Builds without MPI (WITH_MPI is not defined) lack the modes for programs that use MPI. */
#include "config.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef WITH_MPI
#include <mpi.h>
#endif

#include <plenum/plenum.h>

static struct plenum_job *job;
static const struct plenum_job_info *me;
static unsigned failures;

#define CHECK(condition)                                                                \
    do {                                                                                \
        if (!(condition)) {                                                             \
            fprintf(stderr, "instance %u: line %d: %s\n", me->instance_index, __LINE__, \
                    #condition);                                                        \
            failures++;                                                                 \
        }                                                                               \
    } while (0)

static void check_broadcast(void)
{
    static const size_t sizes[] = {1, 7, 4096, 1000003, 40 << 20};
    struct plenum_error err;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (uint32_t root = 0; root < me->num_instances; root++) {
            unsigned char *b = malloc(sizes[i]);
            size_t wrong = 0;

            for (size_t k = 0; k < sizes[i]; k++)
                b[k] = me->instance_index == root ? (unsigned char)(k * 131 + root) : 0xee;
            CHECK(plenum_broadcast(job, b, sizes[i], root, &err) == 0);
            for (size_t k = 0; k < sizes[i]; k++)
                wrong += b[k] != (unsigned char)(k * 131 + root);
            CHECK(wrong == 0);
            free(b);
        }
    CHECK(plenum_broadcast(job, NULL, 0, 0, &err) == 0);
    CHECK(plenum_broadcast(job, NULL, 1, me->num_instances, &err) == -EINVAL);
}

#define CHECK_TYPE(ctype, type)                                                         \
    do {                                                                                \
        for (int op = PLENUM_SUM; op <= PLENUM_MEAN; op++) {                            \
            ctype *b = malloc(sizeof(*b) * 1001);                                       \
            for (int k = 0; k < 1001; k++)                                              \
                b[k] = (ctype)(k * (int)(me->instance_index + 1) - 500);                \
            CHECK(plenum_allreduce(job, b, 1001, type, (enum plenum_op)op, NULL) == 0); \
            for (int k = 0; k < 1001; k++) {                                            \
                int n = (int)me->num_instances, sum = k * n * (n + 1) / 2 - 500 * n;    \
                ctype want = op == PLENUM_SUM   ? (ctype)sum                            \
                             : op == PLENUM_MIN ? (ctype)(k - 500)                      \
                             : op == PLENUM_MAX ? (ctype)(k * n - 500)                  \
                                                : (ctype)sum / (ctype)n;                \
                if (b[k] != want) {                                                     \
                    CHECK(b[k] == want);                                                \
                    break;                                                              \
                }                                                                       \
            }                                                                           \
            free(b);                                                                    \
        }                                                                               \
    } while (0)

static void check_allreduce(void)
{
    int64_t wrap = INT64_MAX;

    CHECK_TYPE(int32_t, PLENUM_INT32);
    CHECK_TYPE(int64_t, PLENUM_INT64);
    CHECK_TYPE(float, PLENUM_FLOAT32);
    CHECK_TYPE(double, PLENUM_FLOAT64);
    CHECK(plenum_allreduce(job, &wrap, 1, PLENUM_INT64, PLENUM_SUM, NULL) == 0);
    CHECK((uint64_t)wrap == (uint64_t)INT64_MAX * me->num_instances);
    CHECK(plenum_allreduce(job, &wrap, 1, (enum plenum_type)9, PLENUM_SUM, NULL) == -EINVAL);
    CHECK(plenum_allreduce(job, &wrap, 1, PLENUM_INT64, (enum plenum_op)9, NULL) == -EINVAL);
}

static void check_allgather(void)
{
    static const size_t sizes[] = {1, 17, 3000001};

    for (size_t i = 0; i < 3; i++) {
        unsigned char *mine = malloc(sizes[i]), *all = malloc(sizes[i] * me->num_instances);
        size_t wrong = 0;

        memset(mine, (int)me->instance_index + 1, sizes[i]);
        CHECK(plenum_allgather(job, mine, sizes[i], all, NULL) == 0);
        for (uint32_t k = 0; k < me->num_instances; k++)
            for (size_t n = 0; n < sizes[i]; n++)
                wrong += all[k * sizes[i] + n] != k + 1;
        CHECK(wrong == 0);
        free(mine);
        free(all);
    }
}

/* Each instance sends a block to every instance; the block contains both indices. */
static void check_alltoall(void)
{
    static const size_t sizes[] = {1, 17, 300007};
    const uint32_t n = me->num_instances, own = me->instance_index;

    for (size_t i = 0; i < 3; i++) {
        unsigned char *send = malloc(sizes[i] * n), *recv = malloc(sizes[i] * n);
        size_t wrong = 0;

        for (uint32_t k = 0; k < n; k++)
            memset(send + k * sizes[i], (int)(own * 16 + k), sizes[i]);
        CHECK(plenum_alltoall(job, send, sizes[i], recv, NULL) == 0);
        for (uint32_t k = 0; k < n; k++)
            for (size_t at = 0; at < sizes[i]; at++)
                wrong += recv[k * sizes[i] + at] != k * 16 + own;
        CHECK(wrong == 0);
        free(send);
        free(recv);
    }
    CHECK(n == 1 || plenum_alltoall(job, NULL, SIZE_MAX, NULL, NULL) == -EINVAL);
}

static void check_reduce_scatter(void)
{
    static const size_t counts[] = {1, 100, 100003};
    const uint32_t n = me->num_instances;

    for (size_t i = 0; i < 3; i++) {
        float *send = malloc(counts[i] * n * sizeof(*send));
        float *recv = send + me->instance_index * counts[i]; /* in place */
        size_t wrong = 0;

        for (size_t k = 0; k < counts[i] * n; k++)
            send[k] = (float)(k % 1000 * (me->instance_index + 1));
        CHECK(plenum_reduce_scatter(job, send, recv, counts[i], PLENUM_FLOAT32, PLENUM_SUM, NULL) ==
              0);
        for (size_t k = 0; k < counts[i]; k++)
            wrong +=
                recv[k] != (float)((me->instance_index * counts[i] + k) % 1000 * (n * (n + 1) / 2));
        CHECK(wrong == 0);
        free(send);
    }
    CHECK(plenum_reduce_scatter(job, NULL, NULL, 1, (enum plenum_type)9, PLENUM_SUM, NULL) ==
          -EINVAL);
}

/* A sum has the same bits for every carrier, in small and in large arrays: those of the tree. */
static void check_tree(void)
{
    static const float values[] = {0x1p24f, 1, 1, 1, -0x1p24f, 3, 0.5f, 1};
    const uint32_t n = me->num_instances;
    const float a = values[0] + values[1], b = values[2] + values[3];
    const float want = n == 2 ? a : n == 3 ? a + values[2] : a + b;

    for (size_t count = 1; n >= 2 && n <= 4 && count <= 1000000; count *= 100) {
        float *x = malloc(count * sizeof(*x));
        size_t wrong = 0;

        for (size_t k = 0; k < count; k++)
            x[k] = values[me->instance_index];
        CHECK(plenum_allreduce(job, x, count, PLENUM_FLOAT32, PLENUM_SUM, NULL) == 0);
        for (size_t k = 0; k < count; k++)
            wrong += x[k] != want;
        CHECK(wrong == 0);
        free(x);
    }
}

static double cpu_seconds(void)
{
    struct rusage u;

    (void)getrusage(RUSAGE_SELF, &u);
    return (double)u.ru_utime.tv_sec + (double)u.ru_stime.tv_sec +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

/* All wait for the last instance, which is three seconds late. They must sleep until it comes: a
 * busy wait would use three seconds of CPU time. */
static void check_barrier(void)
{
    unsigned char *b = calloc(1, 1 << 20);
    double before;

    CHECK(plenum_barrier(job, NULL) == 0);
    before = cpu_seconds();
    if (me->instance_index == me->num_instances - 1)
        (void)sleep(3); /* this instance is late */
    CHECK(plenum_barrier(job, NULL) == 0);
    CHECK(cpu_seconds() - before < 0.5);
    before = cpu_seconds();
    if (me->instance_index == me->num_instances - 1)
        (void)sleep(1);
    CHECK(plenum_broadcast(job, b, 1 << 20, 0, NULL) == 0); /* large: waits before it moves */
    CHECK(cpu_seconds() - before < 0.5);
    free(b);
}

/* MPI is initialised once, however often the job is opened. */
static void check_reopen(void)
{
    struct plenum_job *again = NULL;

    CHECK(plenum_job_open(&again, NULL) == 0);
    CHECK(again == job);
    plenum_job_close(again);
    plenum_job_close(job);
    CHECK(plenum_job_open(&job, NULL) == 0);
    me = plenum_job_get_info(job);
    CHECK(plenum_barrier(job, NULL) == 0);
}

/* The carrier of a forked child: it pretends to be the other one of two instances, too. */
static unsigned carried;

static int carry_broadcast(void *arg, void *buffer, size_t bytes, uint32_t root,
                           uint64_t timeout_ns, struct plenum_error *err)
{
    (void)arg, (void)buffer, (void)bytes, (void)root, (void)timeout_ns, (void)err;
    return 0;
}

static int carry_allreduce(void *arg, void *buffer, size_t count, enum plenum_type type,
                           enum plenum_op op, uint64_t timeout_ns, struct plenum_error *err)
{
    (void)arg, (void)buffer, (void)count, (void)type, (void)op, (void)timeout_ns, (void)err;
    return -EINVAL; /* one number is sent with the header */
}

static int carry_allgather(void *arg, const void *send, size_t bytes, void *recv,
                           uint64_t timeout_ns, struct plenum_error *err)
{
    (void)arg, (void)timeout_ns, (void)err;
    memcpy(recv, send, bytes);
    memcpy((char *)recv + bytes, send, bytes);
    carried++;
    return 0;
}

/* Returns the place of one of several instances on this host. */
static struct plenum_job_info place_of(uint32_t index, uint32_t instances)
{
    return (struct plenum_job_info){.num_instances = instances,
                                    .instance_index = index,
                                    .num_local_instances = instances,
                                    .local_instance_index = index,
                                    .num_replicas = instances,
                                    .num_local_replicas = 1,
                                    .replica_offset = index,
                                    .devices_per_replica = 1};
}

/* A forked child of a process with collectives uses a carrier of its own, never the parent's. */
static void check_carrier_of_child(void)
{
    static const struct plenum_carrier carrier = {
        .broadcast = carry_broadcast, .allreduce = carry_allreduce, .allgather = carry_allgather};
    const struct plenum_job_info info = place_of(1, 2);
    int64_t number = 21;
    int status = -1;
    pid_t child = fork();

    if (child == 0) {
        struct plenum_job *own;

        plenum_job_close(job);
        if (plenum_job_open_as(&info, &own, NULL) < 0 ||
            plenum_job_set_carrier(own, &carrier, NULL) < 0 ||
            plenum_allreduce(own, &number, 1, PLENUM_INT64, PLENUM_SUM, NULL) < 0)
            exit(1);
        exit(number == 42 && carried == 1 ? 0 : 2);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    CHECK(plenum_barrier(job, NULL) == 0);
}

/* The shared memory, and MPI's world, belong to one instance of one size. */
static void check_other_place(void)
{
    const uint32_t index = me->instance_index, count = me->num_instances;
    const struct plenum_job_info other = place_of((index + 1) % count, count);
    const struct plenum_job_info larger = place_of(index, count + 1);
    const struct plenum_job_info here = *me, *const infos[] = {&other, &larger};

    plenum_job_close(job);
    me = &here;
    for (size_t i = 0; i < sizeof(infos) / sizeof(infos[0]); i++) {
        struct plenum_error err = {""};
        struct plenum_job *changed;

        CHECK(plenum_job_open_as(infos[i], &changed, NULL) == 0);
        CHECK(plenum_barrier(changed, &err) == -ENOTSUP &&
              strstr(err.text, "cannot use them as instance"));
        plenum_job_close(changed);
    }
    CHECK(plenum_job_open(&job, NULL) == 0);
    me = plenum_job_get_info(job);
    CHECK(plenum_barrier(job, NULL) == 0);
}

static void check_fork(void)
{
    struct plenum_error err = {""};
    int status = -1;
    pid_t child = fork();

    if (child == 0) {
        bool told = plenum_barrier(job, &err) == -ECHILD && strstr(err.text, "forked");

        plenum_job_close(job);
        exit(told ? 0 : 1); /* exit handlers must not finalise the parent's MPI */
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    CHECK(plenum_barrier(job, NULL) == 0);
}

/* These files in the folder MARKS synchronise instances when no collective can. */
enum { ENTERING = 1000 }; /* plus the index: the instance is about to enter the collective */

static void set_mark(uint32_t index)
{
    char path[1024];
    FILE *f;

    (void)snprintf(path, sizeof(path), "%s/%u", getenv("MARKS"), index);
    f = fopen(path, "w");
    CHECK(f);
    (void)fclose(f);
}

static void await_mark(uint32_t index)
{
    char path[1024];

    (void)snprintf(path, sizeof(path), "%s/%u", getenv("MARKS"), index);
    while (access(path, F_OK) < 0)
        (void)usleep(10000);
}

/* The last instance stays away until all others have named it, after their timeout. mpirun ends the
 * others when one exits, so all stay until then. */
static void check_late(bool meet_first, size_t bytes)
{
    struct plenum_error err = {""};
    unsigned char *b = calloc(1, bytes + 1);
    char want[64];
    int r;

    if (meet_first)
        CHECK(plenum_barrier(job, NULL) == 0);
    /* After a second in a collective, each instance reports to the others that it is waiting. On a
     * busy machine, one may enter long after another, so all enter together, and wait a few
     * seconds. */
    plenum_job_set_timeout(job, 6 * UINT64_C(1000000000));
    if (me->instance_index == me->num_instances - 1)
        goto out;
    set_mark(ENTERING + me->instance_index);
    for (uint32_t i = 0; i + 1 < me->num_instances; i++)
        await_mark(ENTERING + i);
    r = bytes ? plenum_broadcast(job, b, bytes, me->num_instances - 1, &err)
              : plenum_barrier(job, &err);
    CHECK(r == -ETIMEDOUT);
    (void)snprintf(want, sizeof(want), "and instance %u has not arrived", me->num_instances - 1);
    if (!strstr(err.text, want))
        fprintf(stderr, "%s\n", err.text);
    CHECK(strstr(err.text, want));
    CHECK(plenum_barrier(job, &err) == -ENOTRECOVERABLE);
    free(b);
    /* End without MPI_Finalize(), which would wait for the others. mpirun's status is then useless.
     */
    if (failures == 0)
        printf("timed out\n");
    (void)fflush(stdout);
    set_mark(me->instance_index);
out:
    for (uint32_t i = 0; i + 1 < me->num_instances; i++)
        await_mark(i);
    _exit(0);
}

#ifdef WITH_MPI
/* Every instance rejects a thread level that is too low, without waiting for any other. */
static void *check_refused(void *arg)
{
    struct plenum_error err = {""};

    CHECK(plenum_barrier(job, &err) == -ENOTSUP);
    CHECK(strstr(err.text, arg) && strstr(err.text, "MPI_THREAD_SERIALIZED"));
    return NULL;
}

static void check_thread_level(bool funneled)
{
    char name[] = "MPI_THREAD_FUNNELED";
    pthread_t thread;

    if (!funneled) {
        (void)check_refused(strcpy(name, "MPI_THREAD_SINGLE"));
        return;
    }
    CHECK(pthread_create(&thread, NULL, check_refused, name) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(plenum_barrier(job, NULL) == 0); /* the main thread may call it */
}
#endif

/* Every byte differs from those a piece away, so that no piece can be missing or misplaced. */
static void check_big(void)
{
    size_t bytes = ((size_t)2 << 30) + 1, wrong = 0;
    uint32_t root = me->num_instances - 1;
    unsigned char *b =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct plenum_error err = {""};

    CHECK(b != MAP_FAILED);
    if (me->instance_index == root)
        for (size_t k = 0; k < bytes; k++)
            b[k] = (unsigned char)(k * 7 + (k >> 20) * 13 + (k >> 30) * 101);
    CHECK(plenum_broadcast(job, b, bytes, root, &err) == 0);
    for (size_t k = 0; k < bytes; k++)
        wrong += b[k] != (unsigned char)(k * 7 + (k >> 20) * 13 + (k >> 30) * 101);
    CHECK(wrong == 0);
    (void)munmap(b, bytes);
}

/* plenum_same() must notice that one bit differs in one instance. */
static void check_same(void)
{
    uint32_t odd = me->num_instances / 2;
    unsigned char *b = malloc(1000003);
    struct plenum_error err = {""};
    char want[64];

    memset(b, 7, 1000003);
    CHECK(plenum_same(job, b, 1000003, &err) == 0);
    CHECK(plenum_same(job, b, 0, &err) == 0);
    if (me->num_instances > 1) {
        if (me->instance_index == odd)
            b[999999] ^= 0x10;
        CHECK(plenum_same(job, b, 1000003, &err) == -EBADMSG);
        (void)snprintf(want, sizeof(want), "instance %u holds different bytes from the other", odd);
        CHECK(strstr(err.text, want));
        CHECK(plenum_same(job, b, me->instance_index == odd ? 10 : 11, &err) == -EBADMSG);
    }
    free(b);
}

static void check_seeds(void)
{
    uint64_t given = me->instance_index == 0 ? 4711 : 0, drawn = 0, all[64] = {0};

    CHECK(plenum_broadcast_seed(job, &given, NULL) == 0 && given == 4711);
    CHECK(plenum_broadcast_seed(job, &drawn, NULL) == 0 && drawn != 0);
    CHECK(plenum_allgather(job, &drawn, sizeof(drawn), all, NULL) == 0);
    for (uint32_t i = 0; i < me->num_instances; i++)
        CHECK(all[i] == drawn);
    for (uint32_t a = 0; a < 100; a++)
        for (uint32_t b = 0; b < a; b++)
            CHECK(plenum_replica_seed(drawn, a) != plenum_replica_seed(drawn, b));
}

static int prepared_by_me;

static int prepare(void *arg, struct plenum_error *err)
{
    prepared_by_me++;
    if (arg) {
        (void)snprintf(err->text, sizeof(err->text), "the disk is full");
        return -ENOSPC;
    }
    return 0;
}

static void check_once_per_host(void)
{
    const char *hosts = getenv("WORLD_HOSTS"); /* otherwise all are on one */
    struct plenum_error err = {""};
    int32_t sum;

    CHECK(plenum_once_per_host(job, prepare, NULL, &err) == 0);
    sum = prepared_by_me;
    CHECK(plenum_allreduce(job, &sum, 1, PLENUM_INT32, PLENUM_SUM, NULL) == 0);
    CHECK(sum == (hosts ? atoi(hosts) : 1));
    CHECK(plenum_once_per_host(job, prepare, &sum, &err) == -ENOSPC);
    CHECK(strcmp(err.text, "the disk is full") == 0);
}

#ifdef WITH_MPI
/* MPI lets a program override its functions: messages that libplenum-mpi receives one by one are
 * notices. */
static uint64_t received;

int MPI_Recv(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
             MPI_Status *status)
{
    received++;
    return PMPI_Recv(buffer, count, type, source, tag, comm, status);
}

/* libplenum-mpi looks for notices in a separate communicator. */
static MPI_Comm notices = MPI_COMM_NULL;

int MPI_Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
    notices = comm;
    return PMPI_Iprobe(source, tag, comm, flag, status);
}

/* Waits until the source has sent this instance a notice, without receiving the notice. */
static void await_notice(int source)
{
    MPI_Status status;
    int there = 0;

    CHECK(notices != MPI_COMM_NULL);
    while (PMPI_Iprobe(source, MPI_ANY_TAG, notices, &there, &status) == MPI_SUCCESS && !there)
        (void)usleep(1000);
}

/* In its next collective, a late instance must receive what the others sent before it came. */
static void check_straggler(void)
{
    enum { TIMES = 2 };

    plenum_job_set_timeout(job, 60 * UINT64_C(1000000000)); /* notices are sent after a second */
    CHECK(plenum_barrier(job, NULL) == 0);                  /* before this, no instance is in MPI */
    for (int i = 0; i < TIMES; i++) {
        for (uint32_t other = 1; me->instance_index == 0 && other < me->num_instances; other++)
            await_notice((int)other);
        CHECK(plenum_barrier(job, NULL) == 0);
    }
    CHECK(plenum_barrier(job, NULL) == 0);
    if (me->instance_index == 0)
        CHECK(received >= TIMES * (me->num_instances - 1));
}
#endif

static bool is_last(void)
{
    return me->instance_index == me->num_instances - 1;
}

static void expect_ended(int r, const struct plenum_error *err)
{
    char want[64];

    CHECK(r == -EIO);
    (void)snprintf(want, sizeof(want), "instance %u has ended", me->num_instances - 1);
    if (!strstr(err->text, want))
        fprintf(stderr, "%s\n", err->text);
    CHECK(strstr(err->text, want));
    CHECK(plenum_barrier(job, NULL) == -ENOTRECOVERABLE);
}

/* If an instance has ended, the others get an error at once that names it, even without a time
 * limit. */
static void check_ended(bool meet_first, bool leave)
{
    struct plenum_error err = {""};

    if (meet_first)
        CHECK(plenum_barrier(job, NULL) == 0);
    if (is_last() && leave)
        _exit(0);
    if (is_last())
        exit(0);
    expect_ended(plenum_barrier(job, &err), &err);
}

static void check_uneven(void)
{
    unsigned steps = is_last() ? 4 : 5;
    struct plenum_error err = {""};
    uint32_t n = me->num_instances;

    for (unsigned i = 0; i < steps; i++) {
        double sum = me->instance_index + 1;
        int r = plenum_allreduce(job, &sum, 1, PLENUM_FLOAT64, PLENUM_SUM, &err);

        if (r == 0)
            CHECK(sum == n * (n + 1) / 2);
        else
            expect_ended(i == 4 ? r : 0, &err);
        CHECK(r == 0 || i == 4);
        CHECK(r < 0 || i < 4);
    }
}

static void check_differ(void)
{
    struct plenum_error err = {""};
    uint64_t number = 1;
    int r;

    r = is_last() ? plenum_broadcast(job, &number, sizeof(number), 0, &err)
                  : plenum_barrier(job, &err);
    CHECK(r == -EIO);
    CHECK(strstr(err.text, is_last() ? "calls broadcast (8 bytes) while instance 0 calls barrier"
                                     : "calls barrier (0 bytes) while instance"));
    CHECK(plenum_broadcast(job, &number, is_last() ? 0 : sizeof(number), 0, &err) == -EIO);
    CHECK(plenum_barrier(job, NULL) == 0); /* the instances are still in step */
}

/* The number of elements decides whether they are sent with the header or in pieces. */
static void check_nan(void)
{
    for (size_t count = 4; count <= 400000; count *= 10) {
        double *x = malloc(count * sizeof(*x)), with_nan[2] = {NAN, me->instance_index + 2.0};
        size_t wrong = 0;

        for (int greatest = 0; greatest < 2; greatest++) {
            for (size_t i = 0; i < count; i++)
                x[i] = with_nan[(i + me->instance_index) % me->num_instances != 0];
            x[1] = me->instance_index;
            CHECK(plenum_allreduce(job, x, count, PLENUM_FLOAT64,
                                   greatest ? PLENUM_MAX : PLENUM_MIN, NULL) == 0);
            for (size_t i = 0; i < count; i++)
                wrong += i != 1 && !isnan(x[i]);
            CHECK(x[1] == (greatest ? me->num_instances - 1 : 0));
        }
        CHECK(wrong == 0);
        free(x);
    }
}

static void check_program(unsigned long times)
{
    for (unsigned long i = 0; i < times; i++) {
        int64_t sum = me->instance_index;

        CHECK(plenum_allreduce(job, &sum, 1, PLENUM_INT64, PLENUM_SUM, NULL) == 0);
        CHECK(sum == me->num_instances * (me->num_instances - 1) / 2);
    }
}

/* Print what carries collectives. The shared memory is mapped from the first one on. */
static void print_carrier(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    bool memory = false;
    char line[4200];

    CHECK(plenum_barrier(job, NULL) == 0);
    while (maps && fgets(line, sizeof(line), maps))
        memory |= strstr(line, "plenum-collectives") != NULL;
    if (maps)
        (void)fclose(maps);
    puts(memory ? "memory" : "MPI");
}

#ifdef WITH_MPI
static bool own_mpi(const char *what, int *argc, char ***argv)
{
    bool single = strcmp(what, "single") == 0, thread = strcmp(what, "thread") == 0;
    int level = single ? MPI_THREAD_SINGLE : thread ? MPI_THREAD_FUNNELED : MPI_THREAD_SERIALIZED;

    if (!single && !thread && strcmp(what, "own-mpi") != 0 && strcmp(what, "improper") != 0 &&
        strcmp(what, "finalizes") != 0)
        return false;
    if (MPI_Init_thread(argc, argv, level, &level) != MPI_SUCCESS)
        exit(1);
    return true;
}

static int end_mpi(void)
{
    int finalised = 0;

    (void)MPI_Finalized(&finalised);
    if (!finalised && MPI_Finalize() == MPI_SUCCESS)
        return failures ? 1 : 0;
    fprintf(stderr, "MPI was finalised by another party\n");
    return 1;
}

static void check_improper(void)
{
    if (is_last())
        _exit(0);
    (void)MPI_Barrier(MPI_COMM_WORLD);
    CHECK(false);
}

static void check_finalizes(void)
{
    struct plenum_error err = {""};

    CHECK(plenum_barrier(job, NULL) == 0);
    if (!is_last())
        expect_ended(plenum_barrier(job, &err), &err);
}

/* Runs the checks that only MPI has. */
static bool check_mpi(const char *what)
{
    if (strcmp(what, "improper") == 0)
        check_improper();
    else if (strcmp(what, "finalizes") == 0)
        check_finalizes();
    else if (strcmp(what, "straggler") == 0)
        check_straggler();
    else if (strcmp(what, "single") == 0 || strcmp(what, "thread") == 0)
        check_thread_level(strcmp(what, "thread") == 0);
    else
        return false;
    return true;
}
#else
static bool own_mpi(const char *what, int *argc, char ***argv)
{
    (void)what;
    (void)argc;
    (void)argv;
    return false;
}

static int end_mpi(void)
{
    return 1;
}

static bool check_mpi(const char *what)
{
    (void)what;
    return false;
}
#endif

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    bool own = own_mpi(what, &argc, &argv);
    struct plenum_error err;

    if (plenum_job_open(&job, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    me = plenum_job_get_info(job);
    if (strcmp(what, "holds") == 0) {
        CHECK(plenum_barrier(job, NULL) == 0);
        set_mark(10 + me->instance_index);
        await_mark(20 + me->instance_index);
        _exit(failures > 0);
    }
    if (strcmp(what, "late") == 0) {
        check_late(true, 0);
    } else if (strcmp(what, "never") == 0) {
        check_late(false, 0);
    } else if (strcmp(what, "away") == 0) {
        check_late(true, argc > 2 ? strtoul(argv[2], NULL, 10) : 0);
    } else if (strcmp(what, "big") == 0) {
        check_big();
    } else if (strcmp(what, "ends") == 0 || strcmp(what, "silent") == 0 ||
               strcmp(what, "leaves") == 0) {
        check_ended(strcmp(what, "silent") != 0, strcmp(what, "leaves") == 0);
    } else if (strcmp(what, "uneven") == 0) {
        check_uneven();
    } else if (strcmp(what, "nan") == 0) {
        check_nan();
    } else if (strcmp(what, "differ") == 0) {
        check_differ();
    } else if (strcmp(what, "program") == 0) {
        check_program(argc > 2 ? strtoul(argv[2], NULL, 10) : 0);
    } else if (strcmp(what, "carrier") == 0) {
        print_carrier();
    } else if (check_mpi(what)) {
        /* done */
    } else if (plenum_barrier(job, &err) < 0) {
        fprintf(stderr, "%s\n", err.text); /* for example: MPI's world is not the job's */
        return 3;
    } else {
        check_broadcast();
        check_allreduce();
        check_allgather();
        check_alltoall();
        check_reduce_scatter();
        check_tree();
        check_same();
        check_seeds();
        check_once_per_host();
        check_reopen();
        if (me->num_instances > 1) {
            check_fork();
            check_carrier_of_child();
            check_other_place();
            check_barrier();
        }
    }
    if (strcmp(what, "forgetful") == 0) /* the library finalises MPI at exit */
        return failures ? 1 : 0;
    plenum_job_close(job);
    if (own)
        return end_mpi();
    return failures ? 1 : 0;
}
