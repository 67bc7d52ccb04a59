/* SPDX-License-Identifier: MIT */
/* bench_stream.c - bench/stream: measures the path from the loader to the program.
 *
 * Compares a stream from a plenumd with one decoding thread with the bare renderer, which is one
 * thread of this process that reads and renders the same positions into memory like the ring's.
 * Their rounds alternate; while one is measured, the other is idle.
 *
 * It prints images per second of both, and their ratio; the CPU time per image of loader and client
 * together, compared with the bare renderer's, which a busy machine changes little; and the time of
 * plenum_stream_next() for a batch that is ready, and of plenum_batch_release(), which requests
 * another batch from the loader and so wakes it.
 *
 * --small measures the cost of a sample that takes almost no time to render: it cuts the
 * photographs into small images first, like those of data sets such as CIFAR. */
#include "config.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <plenum/plenum.h>

#include "bench/bench.h"
#include "common/options/options.h"
#include "common/util/error_set.h"
#include "common/util/log.h"
#include "common/util/util.h"
#include "loader/dataset/tar_writer.h"
#include "loader/image/encode.h"
#include "loader/image/ppm.h"
#include "loader/render/render.h"
#include "tests/daemon.h"

enum {
    HAND_OVERS = 4,        /* per round */
    SMALL_SAMPLES = 20000, /* of 32 x 32: more than a processor's caches can hold */
    SMALL_SIDE_MAX = 256,
};

struct bench_stream_arguments {
    const char *images, *pipeline, *form;
    uint32_t rounds, batches, micro_batch, small;
    bool json;
};

#define AT(field) offsetof(struct bench_stream_arguments, field)

static const struct option_def defs[] = {
    {"images", 'i', "DIR", OPTION_TEXT, AT(images), 0, 0,
     .help = "data set of photographs (required)"},
    {"pipeline", 'p', "TEXT", OPTION_TEXT, AT(pipeline), 0, 0,
     .help = "pipeline to render (default: train; for small images that of CIFAR's recipes)"},
    {"small", 's', "SIDE", OPTION_U32, AT(small), 8, SMALL_SIDE_MAX,
     .help = "cut the photographs into 20,000 images of SIDE x SIDE pixels"},
    {"form", 'f', "FORM", OPTION_TEXT, AT(form), 0, 0,
     .help = "form of the small images: raw (default), png or jpeg"},
    {"rounds", 'r', "N", OPTION_U32, AT(rounds), 1, 1000, .help = "rounds of each (default 9)"},
    {"batches", 'b', "N", OPTION_U32, AT(batches), 1, 10000,
     .help = "batches per round (default 60; 20 for small images)"},
    {"micro-batch", 'm', "M", OPTION_U32, AT(micro_batch), 1, 4096,
     .help = "images per batch (default 32; 4096 for small ones)"},
    {"json", 'j', NULL, OPTION_FLAG, AT(json), 0, 0, .help = "print JSON"},
};

static const struct options_program program = {
    .name = "bench/stream",
    .usage = "--images DIR [options]",
    .summary = "Compare a stream from a loader of one decoding thread with the bare renderer.",
    .footer = "PLENUM_PLENUMD names the loader; by default it is ./plenumd.",
    .defs = defs,
    .count = ARRAY_LEN(defs),
};

/* The measurements of a round. */
struct stream_round {
    double rate;   /* images per second */
    double cpu_us; /* per image */
};

struct bench {
    const struct bench_stream_arguments *args;
    char dataset[300], archive[256]; /* for small images; otherwise empty */
    pid_t loader;
    struct plenum_stream *stream;
    struct order_place *places; /* positions of the stream's last round, [images] */
    /* The bare renderer's state. */
    struct render_spec spec;
    struct render_scratch scratch;
    uint8_t *slots; /* [slot_images] */
    uint32_t slot_images;
};

static uint32_t images_of(const struct bench_stream_arguments *a)
{
    return a->batches * a->micro_batch;
}

/* Returns the CPU time of this process, including the loader's if `loader` is set. */
static uint64_t cpu_ns(pid_t loader)
{
    uint64_t sum = time_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    clockid_t clock;

    if (loader > 0 && clock_getcpuclockid(loader, &clock) == 0)
        sum += time_clock_ns(clock);
    return sum;
}

/* Wait until nothing is being rendered and a batch is ready. Returns 0 or -ETIMEDOUT. */
static int settle(struct bench *b)
{
    struct plenum_stream_stats stats;

    for (uint64_t end = time_now_ns() + 60 * NS_PER_SEC; time_now_ns() < end;) {
        plenum_stream_get_stats(b->stream, &stats);
        if (stats.in_flight == 0 && stats.ready > 0)
            return 0;
        (void)usleep(1000);
    }
    return -ETIMEDOUT;
}

static int take_batch(struct bench *b, struct order_place *places, struct plenum_error *err)
{
    struct plenum_batch batch;
    int r = plenum_stream_next(b->stream, PLENUM_FOREVER, &batch, err);

    if (r < 0)
        return r;
    for (uint32_t i = 0; places && i < batch.count; i++)
        places[i] = (struct order_place){batch.epochs[0], batch.positions[i]};
    plenum_batch_release(&batch);
    return 0;
}

static int round_stream(struct bench *b, struct stream_round *ret, struct plenum_error *err)
{
    uint32_t images = images_of(b->args);
    struct plenum_stream_stats stats;
    uint64_t begin, cpu;
    int r = settle(b);

    /* Batches that are already ready were rendered outside the measured time. */
    plenum_stream_get_stats(b->stream, &stats);
    for (uint32_t i = 0; i < stats.ready && r == 0; i++)
        r = take_batch(b, NULL, err);
    begin = time_now_ns();
    cpu = cpu_ns(b->loader);
    for (uint32_t i = 0; i < b->args->batches && r == 0; i++)
        r = take_batch(b, b->places + (size_t)i * b->args->micro_batch, err);
    ret->rate = images / ((double)(time_now_ns() - begin) * 1e-9);
    ret->cpu_us = (double)(cpu_ns(b->loader) - cpu) * 1e-3 / images;
    return r;
}

/* Render the positions of the stream's last round. */
static int round_bare(struct bench *b, struct stream_round *ret, struct plenum_error *err)
{
    uint32_t images = images_of(b->args);
    uint64_t bytes = render_bytes(&b->spec), begin, cpu;
    int r = settle(b);

    begin = time_now_ns();
    cpu = cpu_ns(0);
    for (uint32_t i = 0; i < images && r == 0; i++) {
        struct render_result result;

        r = render_position(&b->spec, &b->scratch, b->places[i],
                            b->slots + i % b->slot_images * bytes, &result, err);
    }
    ret->rate = images / ((double)(time_now_ns() - begin) * 1e-9);
    ret->cpu_us = (double)(cpu_ns(0) - cpu) * 1e-3 / images;
    return r;
}

/* Measure the microseconds to get a ready batch, and to release it. */
static int hand_over(struct bench *b, double *take_us, double *give_us, struct plenum_error *err)
{
    struct plenum_batch batch;
    uint64_t begin, taken;
    int r = settle(b);

    begin = time_now_ns();
    if (r == 0)
        r = plenum_stream_next(b->stream, 0, &batch, err);
    if (r < 0)
        return r;
    taken = time_now_ns();
    plenum_batch_release(&batch);
    *take_us = (double)(taken - begin) * 1e-3;
    *give_us = (double)(time_now_ns() - taken) * 1e-3;
    return 0;
}

/* Encode a small image in the given form. The result is allocated with malloc(). */
static int encode_small(const char *form, uint8_t *pixels, uint32_t side, uint8_t **ret,
                        size_t *ret_len, struct plenum_error *err)
{
    struct encode_options o = {.pixels = pixels, .width = side, .height = side, .quality = 90};
    size_t bytes = (size_t)side * side * 3, head;

    if (strcmp(form, "png") == 0)
        return encode_png(&o, ret, ret_len);
    if (strcmp(form, "jpeg") == 0)
        return encode_jpeg(&o, ret, ret_len);
    if (strcmp(form, "raw") != 0)
        return error_set(err, -EINVAL, "--form is raw, png or jpeg, not '%s'", form);
    *ret = malloc(PPM_HEADER_MAX + bytes);
    if (!*ret)
        return error_set(err, -ENOMEM, "out of memory");
    head = ppm_write_header(side, side, 1, (char *)*ret);
    memcpy(*ret + head, pixels, bytes);
    *ret_len = head + bytes;
    return 0;
}

static int write_small(struct render_spec *spec, const struct bench_stream_arguments *a,
                       struct tar_writer *tar, struct plenum_error *err)
{
    static uint8_t pixels[SMALL_SIDE_MAX * SMALL_SIDE_MAX * 3];
    struct render_scratch scratch = {0};
    int r = 0;

    for (uint32_t i = 0; i < SMALL_SAMPLES && r == 0; i++) {
        struct render_result result;
        uint8_t *bytes = NULL;
        char name[64];
        size_t len;

        r = render_position(spec, &scratch,
                            (struct order_place){i / spec->order.n, i % spec->order.n}, pixels,
                            &result, err);
        if (r == 0)
            r = encode_small(a->form, pixels, a->small, &bytes, &len, err);
        (void)snprintf(name, sizeof(name), "%u/%06u.%s", i % 10, i,
                       strcmp(a->form, "raw") == 0 ? "ppm" : a->form);
        if (r == 0)
            r = tar_writer_add(tar, name, bytes, len, err);
        free(bytes);
    }
    render_scratch_fini(&scratch);
    return r == 0 ? tar_writer_finish(tar, &(struct tar_written){0}, err) : r;
}

/* Write an archive of small images, each a random crop of a photograph. */
static int make_small(struct bench *b, struct plenum_error *err)
{
    const char *folder = getenv("TMPDIR");
    struct render_spec spec = {.store = {PLENUM_UINT8, PLENUM_NHWC, 3}};
    struct tar_writer *tar = NULL;
    char pipeline[32];
    int r;

    (void)snprintf(pipeline, sizeof(pipeline), "rrc(%u)", b->args->small);
    (void)snprintf(b->archive, sizeof(b->archive), "%.200s/plenum-small-%ld.tar",
                   folder && *folder ? folder : "/tmp", (long)getpid());
    (void)snprintf(b->dataset, sizeof(b->dataset), "tar,label=folder:%s", b->archive);
    r = views_parse(pipeline, &spec.views, err);
    if (r == 0)
        r = dataset_open(b->args->images, NULL, &spec.dataset, err);
    if (r < 0)
        return r;
    spec.order.n = dataset_get_samples(spec.dataset);
    r = tar_writer_create(b->archive, &tar, err);
    if (r == 0)
        r = write_small(&spec, b->args, tar, err);
    tar_writer_destroy(tar);
    dataset_unref(spec.dataset);
    return r;
}

static int open_all(struct bench *b, struct plenum_error *err)
{
    const struct bench_stream_arguments *a = b->args;
    struct plenum_stream_options o;
    struct plenum_stream_info info;
    const char *images = a->small ? b->dataset : a->images;
    char address[64];
    int r = views_parse(a->pipeline, &b->spec.views, err);

    if (r == 0 && a->small)
        r = make_small(b, err);
    if (r == 0)
        r = dataset_open(images, NULL, &b->spec.dataset, err);
    if (r < 0)
        return r;
    b->spec.order.n = dataset_get_samples(b->spec.dataset);
    b->spec.store = (struct image_store){PLENUM_INT8, PLENUM_NHWC, 3};
    (void)snprintf(address, sizeof(address), "unix:@plenum-bench-%ld", (long)getpid());
    (void)setenv("PLENUM_PLENUMD", "./plenumd", 0);
    /* Without a cache folder, the loader has no hints; the bare renderer never has any. */
    (void)setenv("PLENUM_CACHE_DIR", "/proc/none", 1);
    b->loader = daemon_start(address, "1", NULL, NULL);
    plenum_stream_options_init(&o);
    o.dataset = images;
    o.pipeline = a->pipeline;
    o.micro_batch = a->micro_batch;
    o.loader = address;
    r = plenum_stream_open(NULL, &o, &b->stream, err);
    if (r < 0)
        return r;
    plenum_stream_get_info(b->stream, &info);
    b->slot_images = info.slots * a->micro_batch;
    b->slots = calloc(b->slot_images, render_bytes(&b->spec));
    b->places = calloc(images_of(a), sizeof(*b->places));
    return b->slots && b->places ? 0 : error_set(err, -ENOMEM, "out of memory");
}

static void close_all(struct bench *b)
{
    plenum_stream_destroy(b->stream);
    if (b->loader > 0)
        (void)daemon_end(b->loader, SIGTERM);
    render_scratch_fini(&b->scratch);
    dataset_unref(b->spec.dataset);
    if (*b->archive)
        (void)unlink(b->archive);
    free(b->slots);
    free(b->places);
}

/* A line of the table, or an element of "rows" in JSON. */
struct stream_line {
    const char *name, *what;
    int digits;
    double *values; /* [count] */
    uint32_t count;
};

enum { BARE, STREAM, RATIO, CPU_BARE, CPU_STREAM, CPU_RATIO, HAND_OVER, GIVE_BACK, LINES };

static void report_json(const struct bench_stream_arguments *a, const struct stream_line *lines)
{
    struct json j;

    bench_json_begin(&j, "stream");
    json_number(&j, "rounds", a->rounds);
    json_number(&j, "batches", a->batches);
    json_number(&j, "micro_batch", a->micro_batch);
    json_begin_array(&j, "rows", JSON_LINES);
    for (int i = 0; i < LINES; i++) {
        struct bench_spread s = bench_spread_of(lines[i].values, lines[i].count);

        json_begin_object(&j, NULL, JSON_FLAT);
        json_text(&j, "name", lines[i].name);
        json_text(&j, "what", lines[i].what);
        bench_json_spread(&j, &s, lines[i].digits);
        json_end_object(&j);
    }
    json_end_array(&j);
    json_end_object(&j);
}

static void report(const struct bench_stream_arguments *a, const struct stream_line *lines)
{
    char cpu[128];

    bench_cpu_name(cpu, sizeof(cpu));
    printf("%u rounds of %u batches of %u images, one decoding thread\n%s\n\n%-12s %9s %9s %9s\n",
           a->rounds, a->batches, a->micro_batch, cpu, "", "min", "median", "max");
    for (int i = 0; i < LINES; i++) {
        struct bench_spread s = bench_spread_of(lines[i].values, lines[i].count);

        printf("%-12s %9.*f %9.*f %9.*f  %s\n", lines[i].name, lines[i].digits, s.min,
               lines[i].digits, s.median, lines[i].digits, s.max, lines[i].what);
    }
}

static int measure(struct bench *b, struct plenum_error *err)
{
    uint32_t rounds = b->args->rounds;
    struct stream_line lines[LINES] = {
        [BARE] = {"bare", "images/s of the bare renderer", 1, NULL, rounds},
        [STREAM] = {"stream", "images/s of loader and stream", 1, NULL, rounds},
        [RATIO] = {"ratio", "stream / bare, round by round", 3, NULL, rounds},
        [CPU_BARE] = {"cpu-bare", "us of CPU per image, bare", 1, NULL, rounds},
        [CPU_STREAM] = {"cpu-stream", "us of CPU per image, loader and client", 1, NULL, rounds},
        [CPU_RATIO] = {"cpu-ratio", "cpu-bare / cpu-stream, round by round", 3, NULL, rounds},
        [HAND_OVER] = {"hand-over", "us to get a ready batch", 2, NULL, rounds * HAND_OVERS},
        [GIVE_BACK] = {"give-back", "us to release it", 2, NULL, rounds * HAND_OVERS},
    };
    double *values = calloc((size_t)rounds * (HAND_OVER + 2 * HAND_OVERS), sizeof(*values));
    struct stream_round stream, bare;
    int r = values ? 0 : error_set(err, -ENOMEM, "out of memory");

    for (int i = 0; i < LINES; i++)
        lines[i].values =
            values + (size_t)rounds * (size_t)(i <= HAND_OVER ? i : HAND_OVER + HAND_OVERS);
    if (r == 0) /* warms up the page cache, and the memory of both */
        r = round_stream(b, &stream, err);
    if (r == 0)
        r = round_bare(b, &bare, err);
    for (uint32_t i = 0; i < rounds && r == 0; i++) {
        for (uint32_t k = i * HAND_OVERS; k < (i + 1) * HAND_OVERS && r == 0; k++)
            r = hand_over(b, &lines[HAND_OVER].values[k], &lines[GIVE_BACK].values[k], err);
        if (r == 0)
            r = round_stream(b, &stream, err);
        if (r == 0)
            r = round_bare(b, &bare, err);
        lines[BARE].values[i] = bare.rate;
        lines[STREAM].values[i] = stream.rate;
        lines[RATIO].values[i] = stream.rate / bare.rate;
        lines[CPU_BARE].values[i] = bare.cpu_us;
        lines[CPU_STREAM].values[i] = stream.cpu_us;
        lines[CPU_RATIO].values[i] = bare.cpu_us / stream.cpu_us;
    }
    if (r == 0)
        (b->args->json ? report_json : report)(b->args, lines);
    free(values);
    return r;
}

int main(int argc, char **argv)
{
    struct bench_stream_arguments a = {.rounds = 9, .form = "raw"};
    char pipeline[64] = "train";
    struct bench b = {.args = &a};
    struct plenum_error err = {""};
    int r = bench_start(&program, &a, &a.images, argc, argv);

    if (r >= 0)
        return r;
    if (a.small)
        (void)snprintf(pipeline, sizeof(pipeline), "pad(4) random_crop(%u) flip(0.5)", a.small);
    a.pipeline = a.pipeline ? a.pipeline : pipeline;
    a.batches = a.batches ? a.batches : a.small ? 20 : 60;
    a.micro_batch = a.micro_batch ? a.micro_batch : a.small ? 4096 : 32;
    r = open_all(&b, &err);
    if (r == 0)
        r = measure(&b, &err);
    if (r < 0)
        log_error("%s", err.text[0] ? err.text : strerror(-r));
    close_all(&b);
    return r < 0;
}
