/* SPDX-License-Identifier: MIT */
/* stall.c - bench/stall: how long a program waits for a batch when one of its two loaders is killed
 * or stopped.
 *
 * One stream over both takes batches as fast as they arrive, so that none is ready when a loader
 * fails: the worst case. Before that, each loader alone serves a stream, which shows how long it
 * takes to render as many batches as are prefetched. A stall is the longest call of
 * plenum_stream_next() that was running at some time in the WHOLE_AGAIN_MS after a failure.
 *
 *     kill    SIGKILL; a new loader is started at the same address WHOLE_AGAIN_MS later
 *     stop    SIGSTOP; SIGCONT WHOLE_AGAIN_MS later
 *
 * First over TCP on the loopback interface, then over unix sockets. */
#include "config.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <plenum/plenum.h>

#include "bench/bench.h"
#include "common/options/options.h"
#include "common/order/philox.h"
#include "common/util/util.h"
#include "tests/daemon.h"

enum {
    LOADERS = 2,
    TIMES_MAX = 1000,
    WHOLE_AGAIN_MS = 2000,
    APART_MS = 700,
    ALONE_ROUNDS = 3,
    WARM_UP = 8
};

struct bench_stall_arguments {
    const char *images;
    uint32_t times, depth, micro_batch, seed;
};

#define AT(field) offsetof(struct bench_stall_arguments, field)

static const struct option_def defs[] = {
    {"images", 'i', "DIR", OPTION_TEXT, AT(images), 0, 0,
     .help = "folder of photographs (required)"},
    {"times", 'n', "N", OPTION_U32, AT(times), 1, TIMES_MAX,
     .help = "how often a loader is killed and stopped over each transport (default 20)"},
    {"depth", 'd', "N", OPTION_U32, AT(depth), 1, 64,
     .help = "batches requested in advance (default 6)"},
    {"micro-batch", 'm', "M", OPTION_U32, AT(micro_batch), 1, 4096,
     .help = "images per batch (default 64)"},
    {"seed", 0, "N", OPTION_U32, AT(seed), 0, UINT32_MAX,
     .help = "seed of the failures (default 1)"},
};

static const struct options_program program = {
    .name = "bench/stall",
    .usage = "--images DIR [options]",
    .summary = "Measure how long a program waits when one of two loaders is killed or stopped.",
    .footer = "PLENUM_PLENUMD names the loader; by default it is ./plenumd.",
    .defs = defs,
    .count = ARRAY_LEN(defs),
};

static const char *folder;

static void die(const char *what)
{
    bench_die(&program, what);
}

/* The thread that takes batches. */
static struct {
    struct plenum_stream *stream;
    pthread_t thread;
    atomic_bool stop;
    atomic_ulong batches;
    atomic_ulong waiting; /* start of the current wait, ns; 0: none */
    atomic_ulong longest; /* the longest completed wait */
} taker;

static struct plenum_stream *open_stream(const struct bench_stall_arguments *a, const char *loaders)
{
    struct plenum_stream_options o;
    struct plenum_stream *s;
    struct plenum_error err;

    plenum_stream_options_init(&o);
    o.dataset = a->images;
    o.loader = loaders;
    o.micro_batch = a->micro_batch;
    o.prefetch_depth = a->depth;
    if (plenum_stream_open(NULL, &o, &s, &err) < 0)
        die(err.text);
    return s;
}

static void take(struct plenum_stream *s)
{
    struct plenum_batch batch;
    struct plenum_error err;

    if (plenum_stream_next(s, PLENUM_FOREVER, &batch, &err) < 0)
        die(err.text);
    plenum_batch_release(&batch);
}

static void *taker_main(void *arg)
{
    (void)arg;
    while (!atomic_load(&taker.stop)) {
        uint64_t begin = time_now_ns(), took;

        atomic_store(&taker.waiting, begin);
        take(taker.stream);
        took = time_now_ns() - begin;
        atomic_store(&taker.waiting, 0);
        if (took > atomic_load(&taker.longest))
            atomic_store(&taker.longest, took);
        (void)atomic_fetch_add(&taker.batches, 1);
    }
    return NULL;
}

static void sleep_ms(uint64_t ms)
{
    (void)usleep((useconds_t)(ms * 1000));
}

/* Returns the longest wait since the last call, including the current one, in seconds. */
static double take_longest(void)
{
    uint64_t since = atomic_load(&taker.waiting), longest = atomic_exchange(&taker.longest, 0);

    return (double)max_u64(longest, since ? time_now_ns() - since : 0) / (double)NS_PER_SEC;
}

/* Returns the seconds in which one loader alone renders the prefetch depth. */
static double render_depth(const struct bench_stall_arguments *a, const char *loader)
{
    struct plenum_stream *s = open_stream(a, loader);
    uint64_t begin;
    double took;

    for (uint32_t i = 0; i < WARM_UP; i++)
        take(s);
    begin = time_now_ns();
    for (uint32_t i = 0; i < 2 * a->depth; i++)
        take(s);
    took = (double)(time_now_ns() - begin) / (double)NS_PER_SEC / 2;
    plenum_stream_destroy(s);
    return took;
}

struct stall_loaders {
    char sockets[LOADERS][128], listens[LOADERS][64], addresses[LOADERS][128], both[300];
    pid_t pids[LOADERS];
};

static void start(struct stall_loaders *l, unsigned i, const char *root)
{
    const char *const args[] = {"--listen",     l->listens[i], "--root", root,
                                "--io-threads", "1",           NULL};

    l->pids[i] = daemon_start_with(l->sockets[i], "1", args);
}

/* Kill or stop one of the loaders several times, each time when both have been running well. */
static void strike(const struct bench_stall_arguments *a, struct stall_loaders *l, int signum,
                   const char *way, double bound)
{
    static double stalls[TIMES_MAX], usual[TIMES_MAX];
    const char *name = signum == SIGKILL ? "SIGKILL" : "SIGSTOP";
    struct plenum_stream_stats before, after;
    struct bench_spread s, calm;
    uint32_t below = 0;

    plenum_stream_get_stats(taker.stream, &before);
    for (uint32_t i = 0; i < a->times; i++) {
        struct philox_block dice = philox_draw(a->seed, i, (uint32_t)signum, DRAW_SAMPLE_SET, 0);
        unsigned victim = dice.word[0] % LOADERS;
        unsigned long done;

        sleep_ms(APART_MS);
        (void)take_longest();
        sleep_ms(APART_MS + dice.word[1] % 1000);
        usual[i] = take_longest();
        if (signum == SIGKILL)
            (void)daemon_end(l->pids[victim], SIGKILL);
        else
            (void)kill(l->pids[victim], signum);
        sleep_ms(WHOLE_AGAIN_MS);
        stalls[i] = take_longest();
        below += stalls[i] < bound;
        if (signum == SIGKILL)
            start(l, victim, a->images);
        else
            (void)kill(l->pids[victim], SIGCONT);
        done = atomic_load(&taker.batches); /* wait until batches arrive again */
        while (atomic_load(&taker.batches) < done + a->depth)
            sleep_ms(10);
    }
    plenum_stream_get_stats(taker.stream, &after);
    s = bench_spread_of(stalls, a->times);
    calm = bench_spread_of(usual, a->times);
    printf("%-5s %s of one of two, %u times: longest wait median %.3f s, max %.3f s (without a "
           "fault: median %.3f s, max %.3f s); "
           "bound %.3f s: %u of %u below it; hedged %llu, moved %llu\n",
           way, name, a->times, s.median, s.max, calm.median, calm.max, bound, below, a->times,
           (unsigned long long)(after.hedged - before.hedged),
           (unsigned long long)(after.moved - before.moved));
    (void)fflush(stdout);
}

static void measure(const struct bench_stall_arguments *a, bool tcp, uint16_t port)
{
    const char *way = tcp ? "tcp" : "unix";
    double alone[2 * ALONE_ROUNDS];
    struct bench_spread depth;
    struct stall_loaders l;

    for (unsigned i = 0; i < LOADERS; i++) {
        (void)snprintf(l.sockets[i], sizeof(l.sockets[i]), "unix:%s/%s%u", folder, way, i);
        (void)snprintf(l.listens[i], sizeof(l.listens[i]), "127.0.0.1:%u", port + i);
        (void)snprintf(l.addresses[i], sizeof(l.addresses[i]), tcp ? "tcp:%s" : "%s",
                       tcp ? l.listens[i] : l.sockets[i]);
        start(&l, i, a->images);
    }
    (void)snprintf(l.both, sizeof(l.both), "%s,%s", l.addresses[0], l.addresses[1]);
    for (unsigned i = 0; i < 2 * ALONE_ROUNDS; i++)
        alone[i] = render_depth(a, l.addresses[i % LOADERS]);
    depth = bench_spread_of(alone, 2 * ALONE_ROUNDS);
    printf("%-5s one loader alone renders the prefetch depth (%u batches of %u) in %.3f s (%.3f to "
           "%.3f)\n",
           way, a->depth, a->micro_batch, depth.median, depth.min, depth.max);
    (void)fflush(stdout);
    taker.stream = open_stream(a, l.both);
    atomic_store(&taker.stop, false);
    (void)pthread_create(&taker.thread, NULL, taker_main, NULL);
    strike(a, &l, SIGKILL, way, depth.median + 1);
    strike(a, &l, SIGSTOP, way, depth.median + 1);
    atomic_store(&taker.stop, true);
    (void)pthread_join(taker.thread, NULL);
    plenum_stream_destroy(taker.stream);
    for (unsigned i = 0; i < LOADERS; i++)
        (void)daemon_end(l.pids[i], SIGTERM);
}

int main(int argc, char **argv)
{
    struct bench_stall_arguments a = {.times = 20, .depth = 6, .micro_batch = 64, .seed = 1};
    int r = bench_start(&program, &a, &a.images, argc, argv);

    if (r >= 0)
        return r;
    folder = bench_stage_open(&program);
    measure(&a, true, 7451);
    measure(&a, false, 7453);
    return bench_stage_close();
}
