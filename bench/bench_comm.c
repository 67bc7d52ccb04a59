/* SPDX-License-Identifier: MIT */
/* bench_comm.c - bench/comm: compares plenum's collectives with MPI's own, in one run.
 *
 *     mpirun -n 2 bench/comm [--json] [MIB [ROUNDS]]
 *     mpirun -n 2 bench/comm --serve      (for bench/peers/collectives)
 *     plenumrun --host a,b --collectives tcp bench/comm --serve   (for bench/peers/between_hosts)
 *
 * With --serve, plenum uses shared memory, as it does under plenumrun; or, if plenumrun has started
 * the program, the carrier that plenumrun has chosen. Instance 0 reads lines from
 * standard input: a command, the size of each instance's buffer in bytes, and the number of
 * repetitions. It prints the seconds that one repetition took in the slowest instance. While the
 * instances wait for a line, they sleep. The commands are
 *
 *     plenum, mpi  allreduce of float32
 *     passes       with N instances, copy (N - 1) / N of a buffer, then add as much: the limit of
 *                  an allreduce that copies first and then adds
 *     pass         multiply each element of the buffer: the limit of any allreduce
 *
 * Without --serve:
 *
 * MPI_Bcast() spins while it waits; plenum_broadcast() sleeps until all instances have arrived and
 * then moves its bytes. This program measures how much speed that costs, and how much CPU time it
 * saves if an instance is late.
 *
 *     broadcast   the same buffer with each of the two, in turn; time of the slowest instance
 *     allreduce   the same for float32, of at most 256 MiB
 *     late        the last instance arrives 3 seconds after the others: CPU time of instance 0 in
 *                 MPI_Barrier() and in plenum_barrier()
 *
 * A round runs both, in alternating order; the result is the median of the rounds' ratios. MIB is
 * 1024 and ROUNDS 9 by default. Each broadcast is checked, one byte in 4,093. */
#include "config.h"

#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <mpi.h>

#include <plenum/plenum.h>

#include "common/job/meeting.h"
#include "common/util/util.h"

enum { ROUNDS_MAX = 101, LATE_SECONDS = 3 };

static struct plenum_job *job;
static int rank;
static bool json;

static void die(const char *what, const char *why)
{
    fprintf(stderr, "comm: %s: %s\n", what, why);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static double cpu_seconds(void)
{
    struct rusage u;

    (void)getrusage(RUSAGE_SELF, &u);
    return (double)u.ru_utime.tv_sec + (double)u.ru_stime.tv_sec +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

static void broadcast(void *buffer, size_t bytes, bool ours)
{
    struct plenum_error err;

    if (!ours)
        (void)MPI_Bcast(buffer, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    else if (plenum_broadcast(job, buffer, bytes, 0, &err) < 0)
        die("broadcast", err.text);
}

static void allreduce(void *buffer, size_t bytes, bool ours)
{
    struct plenum_error err;

    if (!ours)
        (void)MPI_Allreduce(MPI_IN_PLACE, buffer, (int)(bytes / sizeof(float)), MPI_FLOAT, MPI_SUM,
                            MPI_COMM_WORLD);
    else if (plenum_allreduce(job, buffer, bytes / sizeof(float), PLENUM_FLOAT32, PLENUM_SUM,
                              &err) < 0)
        die("allreduce", err.text);
}

/* Returns the time of the slowest instance, in seconds. */
static double timed(void (*collective)(void *, size_t, bool), void *buffer, size_t bytes, bool ours)
{
    uint64_t begin;
    double mine, slowest;

    (void)MPI_Barrier(MPI_COMM_WORLD);
    begin = time_now_ns();
    collective(buffer, bytes, ours);
    mine = (double)(time_now_ns() - begin) * 1e-9;
    (void)MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof(*values), compare);
    return values[count / 2];
}

static void check(const unsigned char *buffer, size_t bytes, int round)
{
    for (size_t i = 0; i < bytes; i += 4093)
        if (buffer[i] != (unsigned char)(i * 31 + (size_t)round))
            die("broadcast", "a byte is wrong");
}

static void run(const char *name, void (*collective)(void *, size_t, bool), unsigned char *buffer,
                size_t bytes, int rounds)
{
    double mpi[ROUNDS_MAX], plenum[ROUNDS_MAX], ratio[ROUNDS_MAX];

    for (int i = -1; i < rounds; i++) /* the first one warms up */
        for (int way = 0; way < 2; way++) {
            bool ours = (way + i) & 1, data = collective == broadcast;
            double t;

            if (data)
                for (size_t k = 0; k < bytes; k++)
                    buffer[k] = rank == 0 ? (unsigned char)(k * 31 + (size_t)(2 * i + way)) : 0;
            else
                memset(buffer, 0, bytes);
            t = timed(collective, buffer, bytes, ours);
            if (data)
                check(buffer, bytes, 2 * i + way);
            if (i >= 0)
                *(ours ? &plenum[i] : &mpi[i]) = t;
        }
    for (int i = 0; i < rounds; i++)
        ratio[i] = mpi[i] / plenum[i];
    if (rank == 0 && json)
        printf(",\n  {\"what\": \"%s\", \"bytes\": %zu, \"mpi_seconds\": %.9f, "
               "\"plenum_seconds\": %.9f, \"speed_of_plenum_to_mpi\": %.4f}",
               name, bytes, median(mpi, rounds), median(plenum, rounds), median(ratio, rounds));
    else if (rank == 0)
        printf("%-9s  %10.0f KiB  MPI %10.3f ms  plenum %10.3f ms  speed of plenum / MPI %.2f\n",
               name, (double)bytes / 1024, 1e3 * median(mpi, rounds), 1e3 * median(plenum, rounds),
               median(ratio, rounds));
}

static void run_late(int size)
{
    double used[2], before;
    struct plenum_error err;

    for (int ours = 0; ours < 2; ours++) {
        (void)MPI_Barrier(MPI_COMM_WORLD);
        before = cpu_seconds();
        if (rank == size - 1)
            (void)sleep(LATE_SECONDS);
        if (!ours)
            (void)MPI_Barrier(MPI_COMM_WORLD);
        else if (plenum_barrier(job, &err) < 0)
            die("barrier", err.text);
        used[ours] = cpu_seconds() - before;
    }
    if (rank == 0 && json)
        printf(",\n  {\"what\": \"late\", \"seconds\": %d, \"mpi_cpu_seconds\": %.6f, "
               "\"plenum_cpu_seconds\": %.6f}",
               LATE_SECONDS, used[0], used[1]);
    else if (rank == 0)
        printf("late       %10d s    MPI %10.3f s   plenum %10.3f s   of CPU time, waiting in a "
               "barrier\n",
               LATE_SECONDS, used[0], used[1]);
}

/* ---- --serve ---- */

static void *keep_door(void *server)
{
    for (;;) {
        struct pollfd p = {.fd = meeting_server_get_fd(server), .events = POLLIN};

        (void)poll(&p, 1, -1);
        meeting_server_dispatch(server);
    }
    return NULL;
}

static void set_number(const char *name, int value)
{
    char text[16];

    (void)snprintf(text, sizeof(text), "%d", value);
    (void)setenv(name, text, 1);
}

/* Make this world a job that plenumrun has started on one host. */
static void use_memory(int size)
{
    char address[MEETING_ADDRESS_MAX] = "", name[32];
    struct meeting_server *server;
    struct plenum_error err;
    pthread_t thread;

    (void)snprintf(name, sizeof(name), "bench-%d", (int)getpid());
    if (rank == 0 &&
        meeting_server_create(name, "bench", (uint32_t)size, &server, address, &err) < 0)
        die("memory", err.text);
    if (rank == 0 && pthread_create(&thread, NULL, keep_door, server) != 0)
        die("memory", "no thread");
    (void)MPI_Bcast(address, sizeof(address), MPI_CHAR, 0, MPI_COMM_WORLD);
    (void)setenv(MEETING_VARIABLE, address, 1);
    (void)setenv("PLENUM_JOB_ID", "bench", 1);
    set_number("PLENUM_NUM_INSTANCES", size);
    set_number("PLENUM_NUM_LOCAL_INSTANCES", size);
    set_number("PLENUM_INSTANCE_INDEX", rank);
    set_number("PLENUM_LOCAL_INSTANCE_INDEX", rank);
    set_number("PLENUM_NUM_REPLICAS", size);
    set_number("PLENUM_NUM_LOCAL_REPLICAS", 1);
    set_number("PLENUM_REPLICA_OFFSET", rank);
}

static void do_passes(float *x, size_t bytes, int size)
{
    size_t count = bytes / sizeof(*x) * (size_t)(size - 1) / (size_t)size;
    float *y = x + bytes / sizeof(*x);

    memcpy(y, x, count * sizeof(*x));
    __asm__ volatile("" ::: "memory");
    for (size_t i = 0; i < count; i++)
        x[i] += y[i];
    __asm__ volatile("" ::: "memory");
}

static void do_pass(float *x, size_t bytes)
{
    volatile float one = 1;
    float by = one;

    for (size_t i = 0; i < bytes / sizeof(*x); i++)
        x[i] *= by;
    __asm__ volatile("" ::: "memory");
}

/* What to do, sent to all instances. */
struct command {
    char what[16];
    uint64_t bytes;
    uint32_t times, end;
};

static double do_command(const struct command *c, float *x, int size)
{
    uint64_t begin;
    double mine, slowest;

    (void)MPI_Barrier(MPI_COMM_WORLD);
    begin = time_now_ns();
    for (uint32_t i = 0; i < c->times; i++)
        if (strcmp(c->what, "passes") == 0)
            do_passes(x, c->bytes, size);
        else if (strcmp(c->what, "pass") == 0)
            do_pass(x, c->bytes);
        else
            allreduce(x, c->bytes, strcmp(c->what, "plenum") == 0);
    mine = (double)(time_now_ns() - begin) * 1e-9 / c->times;
    (void)MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

static void serve(int size)
{
    struct plenum_error err;
    struct command c;
    char line[100];
    double seconds;
    float *x;

    for (;;) {
        memset(&c, 0, sizeof(c));
        if (rank == 0 &&
            (!fgets(line, sizeof(line), stdin) ||
             sscanf(line, "%15s %lu %u", c.what, &c.bytes, &c.times) != 3 || c.times == 0))
            c.end = 1;
        if (plenum_broadcast(job, &c, sizeof(c), 0, &err) < 0)
            die("command", err.text);
        if (c.end)
            return;
        x = calloc(2, c.bytes);
        if (!x)
            die("command", "out of memory");
        memset(x, 1, 2 * c.bytes); /* pages that have been written */
        seconds = do_command(&c, x, size);
        free(x);
        if (rank == 0)
            printf("%.9f\n", seconds);
        (void)fflush(stdout);
    }
}

static int serve_world(int size)
{
    struct plenum_error err;

    if (!getenv("PLENUM_NUM_INSTANCES"))
        use_memory(size);
    if (plenum_job_open(&job, &err) < 0 || plenum_barrier(job, &err) < 0)
        die("job", err.text);
    serve(size);
    plenum_job_close(job);
    (void)MPI_Finalize();
    return 0;
}

int main(int argc, char **argv)
{
    int first = argc > 1 && strcmp(argv[1], "--json") == 0 ? 2 : 1, size, level;
    size_t bytes = (argc > first ? strtoul(argv[first], NULL, 10) : 1024) << 20;
    int rounds = argc > first + 1 ? atoi(argv[first + 1]) : 9;
    unsigned char *buffer = malloc(bytes);
    struct plenum_error err;

    json = first == 2;
    (void)MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc == 2 && strcmp(argv[1], "--serve") == 0) {
        (void)MPI_Comm_size(MPI_COMM_WORLD, &size);
        free(buffer);
        return serve_world(size);
    }
    if (!buffer || bytes == 0 || bytes > INT32_MAX || rounds < 1 || rounds > ROUNDS_MAX)
        die("usage", "comm [--json] [MIB (1 to 2047) [ROUNDS (1 to 101)]]");
    if (plenum_job_open(&job, &err) < 0 || plenum_barrier(job, &err) < 0)
        die("job", err.text);
    if (rank == 0)
        printf(json ? "[{\"instances\": %d, \"rounds\": %d}" : "%d instances, %d rounds\n", size,
               rounds);
    for (size_t b = bytes; b >= 1 << 10; b /= 64)
        run("broadcast", broadcast, buffer, b, rounds);
    for (size_t b = min_u64(bytes, 256 << 20); b >= 1 << 10; b /= 64)
        run("allreduce", allreduce, buffer, b, rounds);
    if (size > 1)
        run_late(size);
    if (rank == 0 && json)
        printf("]\n");
    plenum_job_close(job);
    (void)MPI_Finalize();
    free(buffer);
    return 0;
}
