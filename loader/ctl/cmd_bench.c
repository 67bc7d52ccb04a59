/* SPDX-License-Identifier: MIT */
/* cmd_bench.c - plenumctl bench stream: measures the rate of batches on this host, and what limits
 * it.
 *
 * The same stream is consumed from three sources in turn, in several rounds, so that other load on
 * the machine affects all of them equally:
 *
 *     real        files are read and decoded
 *     generated   nothing is read or decoded; pixels are copied from a table
 *     synthetic   no loader is involved; only the hand-over to the program is measured
 *
 * A stage is the bottleneck if all others could be faster. The limits of reading and decoding are
 * computed from the loader's own times and threads; the limit of the transport is the rate of
 * `generated`. */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <plenum/plenum.h>

#include "common/util/error_set.h"
#include "common/util/json.h"
#include "common/util/util.h"
#include "libdist/stream_open.h"
#include "loader/ctl/ctl.h"

enum { SOURCES = 3, ROUNDS_MAX = 101 };
static const char *const source_names[SOURCES] = {"real", "generated", "synthetic"};

struct bench_arguments {
    struct ctl_stream_args stream;
    const char *loader;
    uint64_t duration_ns, step_ns;
    uint32_t steps, depth, rounds;
    bool sources[SOURCES], chosen, json;
};

#define AT(field) offsetof(struct bench_arguments, field)

static int parse_sources(void *target, const char *value, struct plenum_error *err)
{
    struct bench_arguments *a = target;

    a->chosen = true;
    while (*value) {
        size_t len = strcspn(value, ","), i = 0;

        while (i < SOURCES &&
               (strlen(source_names[i]) != len || strncmp(value, source_names[i], len) != 0))
            i++;
        if (i == SOURCES)
            return error_set(
                err, -EINVAL,
                "sources must be real, generated or synthetic, separated by commas, not '%s'",
                value);
        a->sources[i] = true;
        value += len;
        value += *value == ',';
    }
    return 0;
}

static const struct option_def defs[] = {
    CTL_STREAM_OPTIONS(struct bench_arguments, stream),
    {"replicas", 'r', "R", OPTION_U32, AT(stream.replicas), 1, 1 << 20,
     .help = "replicas fed by one process (default 1)"},
    {"micro-batch", 'm', "M", OPTION_U32, AT(stream.micro_batch), 1, 1 << 20,
     .help = "samples per replica and step (default 64)"},
    {"steps", 0, "S", OPTION_U32, AT(steps), 1, 65536, .help = "steps per batch (default 1)"},
    {"prefetch-depth", 0, "N", OPTION_U32, AT(depth), 1, 64,
     .help = "batches requested in advance (default 3)"},
    {"loader", 0, "ADDRESS", OPTION_TEXT, AT(loader),
     .help = "use a running loader (default: start one)"},
    {"sources", 0, "LIST", OPTION_CALL, .call = parse_sources,
     .help = "measure only these: real,generated,synthetic"},
    {"seconds", 't', "TIME", OPTION_DURATION, AT(duration_ns),
     .help = "time for each source (default 6)"},
    {"rounds", 0, "N", OPTION_U32, AT(rounds), 1, ROUNDS_MAX,
     .help = "number of rounds (default 3)"},
    {"step-time", 0, "TIME", OPTION_DURATION, AT(step_ns),
     .help = "time that the accelerators take for one step, such as 120ms: report whether the host "
             "is fast enough"},
    {"json", 'j', NULL, OPTION_FLAG, AT(json), .help = "print JSON"},
};

static const struct options_program program = {
    .name = "plenumctl bench stream",
    .usage = "DATASET [options]",
    .summary = "Read batches from the real data set, from generated pixels and from a constant "
               "batch, and report what limits the rate.",
    .defs = defs,
    .count = ARRAY_LEN(defs),
    .words = ctl_words,
};

/* The measurements of one source. At the end, the rates of its rounds are sorted. */
struct measure {
    double rates[ROUNDS_MAX], waited, elapsed;
    double read_ns, render_ns, rendered;
    unsigned rounds;
    uint32_t threads, io_threads;
};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(struct measure *m)
{
    assert(m->rounds <= ROUNDS_MAX);
    qsort(m->rates, m->rounds, sizeof(m->rates[0]), by_value);
    return m->rounds ? m->rates[m->rounds / 2] : NAN;
}

/* Wait for as long as the accelerators would compute. */
static void pause_until(uint64_t ns)
{
    struct timespec t = {.tv_sec = (time_t)(ns / NS_PER_SEC), .tv_nsec = (long)(ns % NS_PER_SEC)};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        ;
}

/* Receive batches for a while. The first batch, which includes connecting, does not count. */
static int consume(struct plenum_stream *stream, uint64_t duration_ns, uint64_t pause_ns,
                   struct measure *m, struct plenum_error *err)
{
    struct plenum_stream_stats before, after;
    struct plenum_batch batch;
    uint64_t begin = 0, now = 0;

    for (bool first = true; first || now - begin < duration_ns; first = false) {
        int r = plenum_stream_next(stream, PLENUM_FOREVER, &batch, err);

        if (r < 0)
            return r;
        now = time_now_ns();
        if (pause_ns)
            pause_until(now + pause_ns);
        plenum_batch_release(&batch);
        now = time_now_ns();
        if (first) {
            begin = now;
            plenum_stream_get_stats(stream, &before);
        }
    }
    plenum_stream_get_stats(stream, &after);
    assert(m->rounds < ROUNDS_MAX);
    m->rates[m->rounds++] =
        (double)(after.samples - before.samples) * (double)NS_PER_SEC / (double)(now - begin);
    m->waited += (double)(after.wait_ns - before.wait_ns);
    m->elapsed += (double)(now - begin);
    m->rendered += (double)after.rendered;
    m->read_ns += (double)after.read_ns;
    m->render_ns += (double)after.render_ns;
    m->threads = after.loader_threads;
    m->io_threads = after.loader_io_threads;
    return 0;
}

/* Open a stream that renders from one of the sources. */
static int open_stream(const struct plenum_job_info *info, struct plenum_stream_options *o,
                       unsigned source, struct plenum_stream **ret, struct plenum_error *err)
{
    char *name = ctl_with_home(o->dataset);
    int r = -ENOMEM;

    if (!name)
        return error_set(err, r, "out of memory");
    o->dataset = name;
    r = stream_open(info, o, &(struct stream_trial){.source = source_names[source]}, false, ret,
                    err);
    free(name);
    return r;
}

static int measure_once(const char *dataset, const struct bench_arguments *a, unsigned source,
                        struct measure *m, struct plenum_error *err)
{
    struct plenum_stream_options o;
    struct plenum_job_info info = {.num_instances = 1,
                                   .num_local_instances = 1,
                                   .num_replicas = a->stream.replicas,
                                   .num_local_replicas = a->stream.replicas,
                                   .devices_per_replica = 1,
                                   .loader = getenv("PLENUM_LOADER")};
    struct plenum_stream *stream;
    int r;

    assert(source < SOURCES && a->rounds > 0);
    plenum_stream_options_init(&o);
    o.dataset = dataset;
    o.pipeline = a->stream.pipeline;
    o.shuffle = a->stream.shuffle;
    o.seed = a->stream.seed;
    o.subset = a->stream.subset;
    o.repeat = a->stream.repeat;
    o.loader = a->loader;
    o.micro_batch = a->stream.micro_batch;
    o.steps = a->steps;
    o.prefetch_depth = a->depth;
    if (strcmp(a->stream.bad, "substitute") != 0 && strcmp(a->stream.bad, "fail") != 0)
        return error_set(err, -EINVAL, "--bad must be substitute or fail, not '%s'", a->stream.bad);
    o.bad = strcmp(a->stream.bad, "fail") == 0 ? PLENUM_BAD_FAIL : PLENUM_BAD_SUBSTITUTE;
    r = open_stream(&info, &o, source, &stream, err);
    if (r < 0)
        return r;
    /* Only the real source pauses for the accelerators: the others measure limits of stages. */
    r = consume(stream, a->duration_ns / a->rounds, source == 0 ? a->step_ns * a->steps : 0, m,
                err);
    plenum_stream_destroy(stream);
    return r;
}

/* Measure all sources in all rounds. */
static int measure_all(const char *dataset, const struct bench_arguments *a,
                       struct measure *measures, struct plenum_error *err)
{
    for (unsigned round = 0; round < a->rounds; round++)
        for (unsigned i = 0; i < SOURCES; i++) {
            int r;

            if (a->chosen && !a->sources[i])
                continue;
            ctl_show_progress(NULL, source_names[i], round + 1, a->rounds);
            r = measure_once(dataset, a, i, &measures[i], err);
            if (r < 0)
                return r;
        }
    return 0;
}

/* A stage, and its rate in images/s if nothing else limited it. */
struct bench_stage {
    const char *name;
    double rate;
};

enum { STAGES = 4 };

static unsigned stages_of(struct measure *m, struct bench_stage ret[STAGES])
{
    struct measure *real = &m[0];
    unsigned n = 0;

    if (real->rounds && real->rendered > 0) {
        ret[n++] = (struct bench_stage){"storage", (double)real->io_threads * real->rendered *
                                                       (double)NS_PER_SEC / real->read_ns};
        ret[n++] = (struct bench_stage){"decoding", (double)real->threads * real->rendered *
                                                        (double)NS_PER_SEC / real->render_ns};
    }
    if (m[1].rounds)
        ret[n++] = (struct bench_stage){"transport", median(&m[1])};
    if (m[2].rounds)
        ret[n++] = (struct bench_stage){"hand-over", median(&m[2])};
    assert(n <= STAGES);
    return n;
}

static const struct bench_stage *slowest(const struct bench_stage *stages, unsigned n)
{
    const struct bench_stage *least = NULL;

    for (unsigned i = 0; i < n; i++)
        if (!least || stages[i].rate < least->rate)
            least = &stages[i];
    assert(n == 0 || least);
    return least;
}

/* Write one sentence that says whether the host is the bottleneck. */
static void verdict(const struct bench_arguments *a, struct measure *m, char *ret, size_t size)
{
    struct bench_stage stages[STAGES];
    unsigned n = stages_of(m, stages);
    const struct bench_stage *least = slowest(stages, n);
    double need, waiting;

    if (!m[0].rounds || !least) {
        (void)snprintf(ret, size, "the real source was not measured");
        return;
    }
    if (!a->step_ns) {
        (void)snprintf(ret, size, "%s limits this host to %.0f images/s", least->name,
                       median(&m[0]));
        return;
    }
    need = (double)a->stream.replicas * a->stream.micro_batch * (double)NS_PER_SEC /
           (double)a->step_ns;
    waiting = 100 * m[0].waited / m[0].elapsed;
    if (waiting < 2)
        (void)snprintf(ret, size,
                       "not host-bound: steps of %.0f ms take %.0f images/s, and waited for data "
                       "%.1f %% of the time",
                       (double)a->step_ns / 1e6, need, waiting);
    else
        (void)snprintf(ret, size,
                       "host-bound by %s: steps of %.0f ms could take %.0f images/s but got %.0f",
                       least->name, (double)a->step_ns / 1e6, need, median(&m[0]));
}

static void print_text(const struct bench_arguments *a, struct measure *m)
{
    struct bench_stage stages[STAGES];
    unsigned n = stages_of(m, stages);
    char sentence[256];

    printf("source     images/s    min    max  waiting\n");
    for (unsigned i = 0; i < SOURCES; i++)
        if (m[i].rounds) {
            double middle = median(&m[i]);

            printf("%-10s %8.0f %6.0f %6.0f %7.1f%%\n", source_names[i], middle, m[i].rates[0],
                   m[i].rates[m[i].rounds - 1], 100 * m[i].waited / m[i].elapsed);
        }
    if (m[0].rounds && m[0].rendered > 0)
        printf("\nan image   %.0f us to read (%u threads), %.0f us to render (%u threads)\n",
               m[0].read_ns / m[0].rendered / 1e3, m[0].io_threads,
               m[0].render_ns / m[0].rendered / 1e3, m[0].threads);
    printf("could do  ");
    for (unsigned i = 0; i < n; i++)
        printf("%s %s %.0f", i ? "," : "", stages[i].name, stages[i].rate);
    verdict(a, m, sentence, sizeof(sentence));
    printf(" images/s\nverdict    %s\n", sentence);
}

static void print_json(const struct bench_arguments *a, struct measure *m)
{
    struct json j = {.file = stdout};
    struct bench_stage stages[STAGES];
    unsigned n = stages_of(m, stages);
    char sentence[256];

    json_begin_object(&j, NULL, JSON_LINES);
    json_begin_array(&j, "rows", JSON_LINES);
    for (unsigned i = 0; i < SOURCES; i++)
        if (m[i].rounds) {
            double middle = median(&m[i]);

            json_begin_object(&j, NULL, JSON_FLAT);
            json_text(&j, "name", source_names[i]);
            json_real(&j, "min", m[i].rates[0], 1);
            json_real(&j, "median", middle, 1);
            json_real(&j, "max", m[i].rates[m[i].rounds - 1], 1);
            json_real(&j, "waiting_percent", 100 * m[i].waited / m[i].elapsed, 2);
            json_end_object(&j);
        }
    json_end_array(&j);
    if (m[0].rounds && m[0].rendered > 0) {
        json_real(&j, "read_us", m[0].read_ns / m[0].rendered / 1e3, 2);
        json_real(&j, "render_us", m[0].render_ns / m[0].rendered / 1e3, 2);
        json_number(&j, "threads", m[0].threads);
        json_number(&j, "io_threads", m[0].io_threads);
    }
    json_begin_object(&j, "stages", JSON_FLAT);
    for (unsigned i = 0; i < n; i++)
        json_real(&j, stages[i].name, stages[i].rate, 1);
    json_end_object(&j);
    verdict(a, m, sentence, sizeof(sentence));
    json_text(&j, "verdict", sentence);
    json_end_object(&j);
}

static int run(int argc, char **argv)
{
    struct bench_arguments a = {.stream = CTL_STREAM_DEFAULTS,
                                .duration_ns = 6 * NS_PER_SEC,
                                .steps = 1,
                                .depth = 3,
                                .rounds = 3};
    struct measure *measures;
    struct plenum_error err;
    int r = 0;

    a.stream.micro_batch = 64;
    if (argc > 3 && strcmp(argv[1], OPTIONS_COMPLETE) == 0 && strcmp(argv[2], "stream") == 0) {
        return options_complete(&program, argc - 1, argv + 1);
    }
    if (argc == 3 && strcmp(argv[1], OPTIONS_COMPLETE) == 0 && argv[2][0] != '-') {
        printf("words\nstream\n");
        return 0;
    }
    if (argc > 1 && argv[1][0] != '-' && strcmp(argv[1], "stream") != 0) {
        fprintf(stderr, "plenumctl bench: there is one benchmark, 'stream', not '%s'; see --help\n",
                argv[1]);
        return 2;
    }
    if (argc > 1 && strcmp(argv[1], "stream") == 0) {
        argc--;
        argv++;
    }
    r = ctl_start(&program, &a, argc, argv, 1, "one data set is");
    if (r >= 0)
        return r;
    if (a.duration_ns == 0) {
        fputs("plenumctl bench: --seconds must be more than 0\n", stderr);
        return 2;
    }
    if (a.stream.cache_dir) /* also for the loader that this program starts */
        (void)setenv("PLENUM_CACHE_DIR", a.stream.cache_dir, 1);
    measures = calloc(SOURCES, sizeof(*measures));
    if (!measures)
        return ctl_fail("bench", &(struct plenum_error){.text = "out of memory"});
    r = measure_all(argv[1], &a, measures, &err);
    ctl_end_progress();
    if (r < 0) {
        free(measures);
        return ctl_fail("bench", &err);
    }
    if (a.json)
        print_json(&a, measures);
    else
        print_text(&a, measures);
    free(measures);
    return 0;
}

const struct ctl_command ctl_bench = {
    .name = "bench",
    .summary = "measure how fast batches arrive, and what limits the rate",
    .run = run,
};
