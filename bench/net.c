/* SPDX-License-Identifier: MIT */
/* net.c - bench/net: the throughput of a stream over TCP compared with iperf3's, and that of two
 * loaders compared with one.
 *
 * The variants take turns, so that other load on the machine affects all of them equally. The
 * loader runs on CPU 0 and the program on CPU 1, like iperf3's two ends. Pixels come from
 * `generated:`, where the loader only copies them, and the program does not read them.
 *
 *     tcp, tls, unix     a stream from a loader over each of these: bytes of pixels per second
 *     iperf3             one iperf3 stream, if it is installed
 *
 * With --images, it compares two loaders with one instead, on photographs. Each of them gets only a
 * part of a core: a process stops and continues the loaders all the time. */
#include "config.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <plenum/plenum.h>

#include "bench/bench.h"
#include "common/net/tls.h"
#include "common/options/options.h"
#include "common/util/error_set.h"
#include "common/util/log.h"
#include "common/util/util.h"
#include "tests/daemon.h"

enum { WAYS = 4, ROUNDS_MAX = 1000, PERIOD_MS = 50 };

struct bench_net_arguments {
    const char *images;
    uint32_t rounds, seconds, micro_batch, part;
};

#define AT(field) offsetof(struct bench_net_arguments, field)

static const struct option_def defs[] = {
    {"images", 'i', "DIR", OPTION_TEXT, AT(images), 0, 0,
     .help = "photographs: compare two loaders, each on a part of a core, with one"},
    {"part", 0, "PERCENT", OPTION_U32, AT(part), 1, 100,
     .help = "size of that part of a core (default 40)"},
    {"rounds", 'r', "N", OPTION_U32, AT(rounds), 1, ROUNDS_MAX,
     .help = "rounds of each (default 5)"},
    {"seconds", 's', "N", OPTION_U32, AT(seconds), 1, 1000,
     .help = "seconds per round (default 2)"},
    {"micro-batch", 'm', "M", OPTION_U32, AT(micro_batch), 1, 4096,
     .help = "images per batch (default 64)"},
};

static const struct options_program program = {
    .name = "bench/net",
    .usage = "[options]",
    .summary =
        "Compare the throughput of streams over TCP with iperf3's; with --images, compare two "
        "loaders with one instead.",
    .footer = "PLENUM_PLENUMD names the loader; by default it is ./plenumd.",
    .defs = defs,
    .count = ARRAY_LEN(defs),
};

static const char *folder;

static void die(const char *what)
{
    bench_die(&program, what);
}

static void run_on(unsigned cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof(set), &set) < 0)
        (void)fprintf(stderr, "bench/net: CPU %u cannot be used: nothing is bound\n", cpu);
}

/* Returns a stream's bytes of pixels per second, measured for a->seconds after half a second of
 * warm-up. */
static double measure(const struct bench_net_arguments *a, const char *dataset, const char *loader)
{
    struct plenum_stream_options o;
    struct plenum_stream *s;
    struct plenum_batch batch;
    struct plenum_error err;
    uint64_t begin, bytes = 0, now;

    plenum_stream_options_init(&o);
    o.dataset = dataset;
    o.loader = loader;
    o.micro_batch = a->micro_batch;
    if (plenum_stream_open(NULL, &o, &s, &err) < 0)
        die(err.text);
    begin = time_now_ns() + NS_PER_SEC / 2;
    do {
        if (plenum_stream_next(s, PLENUM_FOREVER, &batch, &err) < 0)
            die(err.text);
        now = time_now_ns();
        if (now >= begin)
            bytes += (uint64_t)batch.count * batch.height * batch.width * batch.channels;
        plenum_batch_release(&batch);
    } while (now < begin + a->seconds * NS_PER_SEC);
    plenum_stream_destroy(s);
    return (double)bytes / ((double)(now - begin) / (double)NS_PER_SEC);
}

/* Returns iperf3's bytes per second, or 0 if it is not installed. */
static double measure_iperf(const struct bench_net_arguments *a)
{
    char command[512], line[4096];
    double bits = 0;
    FILE *p;

    (void)snprintf(command, sizeof(command),
                   "command -v iperf3 >/dev/null || exit 0; taskset -c 1 iperf3 -s -1 -p 7449 "
                   ">/dev/null 2>&1 & sleep 0.5; taskset -c 0 iperf3 -c 127.0.0.1 -p 7449 -t %u -J "
                   "2>/dev/null",
                   a->seconds);
    p = popen(command, "r");
    if (!p)
        return 0;
    for (bool received = false; fgets(line, sizeof(line), p);) {
        received |= strstr(line, "\"sum_received\"") != NULL;
        if (received && bits == 0)
            (void)sscanf(line, " \"bits_per_second\": %lf", &bits);
    }
    (void)pclose(p);
    return bits / 8;
}

static pid_t start(const char *socket, const char *listen, const char *option, const char *value)
{
    const char *const args[] = {"--listen", listen, option, value, "--io-threads", "1", NULL};
    pid_t pid;

    run_on(0);
    pid = daemon_start_with(socket, "1", args);
    run_on(1);
    return pid;
}

static void print_row(const char *name, double *values, uint32_t count, double base)
{
    struct bench_spread s = bench_spread_of(values, count);

    printf("%-8s %8.2f GB/s  (%.2f to %.2f)", name, s.median / 1e9, s.min / 1e9, s.max / 1e9);
    if (base > 0)
        printf("  %.2f x iperf3", s.median / base);
    printf("\n");
}

/* Write the loader's key or the client's to a file. */
static void write_key(const char *path, const struct tls_key *key)
{
    char text[TLS_TEXT_MAX];
    FILE *file = fopen(path, "w");

    tls_key_format(key, text);
    if (!file || fputs(text, file) < 0 || fclose(file) != 0)
        die("a key cannot be written");
}

static void compare_ways(const struct bench_net_arguments *a)
{
    static const char *const names[WAYS] = {"tcp", "tls", "unix", "iperf3"};
    static double values[WAYS][ROUNDS_MAX];
    char sockets[2][128], key[128], client[128];
    struct tls_key keys[2] = {{.name = ""}};
    struct plenum_error err;
    const char *loaders[3] = {"tcp:127.0.0.1:7447", "tcp:127.0.0.1:7448", sockets[0]};
    pid_t plain, secret;
    double base;

    (void)snprintf(key, sizeof(key), "%s/key", folder);
    (void)umask(077);
    (void)snprintf(client, sizeof(client), "%s/client", folder);
    if (random_bytes(keys[0].bytes, TLS_KEY_BYTES) < 0 ||
        tls_key_of_client(&keys[0], "bench", &keys[1], &err) < 0)
        die("a key cannot be made");
    write_key(key, &keys[0]);
    write_key(client, &keys[1]);
    for (int i = 0; i < 2; i++)
        (void)snprintf(sockets[i], sizeof(sockets[i]), "unix:%s/%d", folder, i);
    plain = start(sockets[0], "127.0.0.1:7447", "--root", folder);
    secret = start(sockets[1], "127.0.0.1:7448", "--tls-key", key);
    for (uint32_t round = 0; round < a->rounds; round++)
        for (unsigned i = 0; i < WAYS; i++) {
            unsigned way = (i + round) % WAYS;

            if (way == 1)
                (void)setenv("PLENUM_LOADER_KEY", client, 1);
            else
                (void)unsetenv("PLENUM_LOADER_KEY");
            values[way][round] =
                way < 3 ? measure(a, "generated:100000", loaders[way]) : measure_iperf(a);
        }
    base = bench_spread_of(values[3], a->rounds).median;
    for (unsigned way = 0; way < WAYS; way++)
        print_row(names[way], values[way], a->rounds, way < 3 ? base : 0);
    (void)daemon_end(plain, SIGTERM);
    (void)daemon_end(secret, SIGTERM);
    (void)unlink(key);
    (void)unlink(client);
}

/* Start a process that lets the loaders run for a part of each period, all at the same time. */
static pid_t throttle(const pid_t *loaders, int count, uint32_t part)
{
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    for (;;) {
        for (int i = 0; i < count; i++)
            (void)kill(loaders[i], SIGCONT);
        (void)usleep(PERIOD_MS * 10 * part);
        for (int i = 0; i < count; i++)
            (void)kill(loaders[i], SIGSTOP);
        (void)usleep(PERIOD_MS * 10 * (100 - part));
        if (getppid() == 1)
            _exit(0);
    }
}

static void compare_two(const struct bench_net_arguments *a)
{
    static double one[ROUNDS_MAX], two[ROUNDS_MAX], ratio[ROUNDS_MAX];
    char sockets[2][128], both[300];
    struct bench_spread s;
    pid_t loaders[2], by;

    for (int i = 0; i < 2; i++) {
        (void)snprintf(sockets[i], sizeof(sockets[i]), "unix:%s/p%d", folder, i);
        run_on((unsigned)i);
        loaders[i] = daemon_start(sockets[i], "1", "--io-threads", "1");
    }
    (void)snprintf(both, sizeof(both), "%s,%s", sockets[0], sockets[1]);
    by = throttle(loaders, 2, a->part);
    for (uint32_t round = 0; round < a->rounds; round++) {
        one[round] = measure(a, a->images, sockets[round % 2]);
        two[round] = measure(a, a->images, both);
        ratio[round] = two[round] / one[round];
    }
    (void)kill(by, SIGKILL);
    (void)waitpid(by, NULL, 0);
    for (int i = 0; i < 2; i++) {
        (void)kill(loaders[i], SIGCONT);
        (void)daemon_end(loaders[i], SIGTERM);
    }
    s = bench_spread_of(ratio, a->rounds);
    printf("two loaders of %u %% of a core: %.2f x one (%.2f to %.2f); one: %.0f images/s\n",
           a->part, s.median, s.min, s.max,
           bench_spread_of(one, a->rounds).median / (224 * 224 * 3));
}

int main(int argc, char **argv)
{
    struct bench_net_arguments a = {.rounds = 5, .seconds = 2, .micro_batch = 64, .part = 40};
    int operands, r;

    log_init("bench/net", LOG_LEVEL_INFO);
    r = options_start(&program, &a, argc, argv, &operands);
    if (r >= 0)
        return r;
    folder = bench_stage_open(&program);
    if (a.images)
        compare_two(&a);
    else
        compare_ways(&a);
    return bench_stage_close();
}
