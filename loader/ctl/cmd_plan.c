/* SPDX-License-Identifier: MIT */
/* cmd_plan.c - plenumctl plan: what a plan of data sets shows in an epoch (plan_shares.c); how much
 * jobs save that share renderings (plan_jobs.c); and the throughput and the number of cores for
 * other numbers of replicas, from measured times.
 *
 * A step of R replicas takes GA micro-batches of M samples each, one after the other on its device
 * (T_MB each), and then the reduction of the gradients (T_AR):
 *
 *     throughput = R * M * GA / (GA * T_MB + T_AR)         images/s
 *
 * A micro-batch is copied to the device while the previous one is being computed. So if T_COPY is
 * longer than T_MB, it replaces T_MB.
 *
 * T_AR is assumed to be the same for all R > 1; one replica has nothing to reduce. An image needs
 * one core for the time T_image that rendering it takes. So the loaders of all hosts together need
 * throughput * T_image cores. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/json.h"
#include "common/util/util.h"
#include "loader/ctl/ctl.h"
#include "loader/ctl/plan_fetch.h"
#include "loader/ctl/plan_jobs.h"
#include "loader/ctl/plan_shares.h"

enum { REPLICAS_MAX = 64, SAMPLES_MEASURED = 200 };

struct plan_arguments {
    struct ctl_stream_args stream;
    uint64_t micro_batch_ns, copy_ns, allreduce_ns, image_ns;
    uint32_t accumulation;
    uint64_t replicas[REPLICAS_MAX];
    unsigned num_replicas;
    struct ctl_jpegs jpegs; /* JPEGs among the measured samples */
    uint64_t substituted;   /* measured samples that replaced bad ones */
    struct plan_fetch fetch;
    uint64_t epoch;
    struct plan_jobs jobs;
    struct plan_shares *shares; /* the shares of a plan's sets, or NULL */
    bool json;
};

#define AT(field) offsetof(struct plan_arguments, field)

static int parse_replicas(void *target, const char *value, struct plenum_error *err)
{
    struct plan_arguments *a = target;
    char word[16];

    a->num_replicas = 0;
    for (const char *p = value; *p;) {
        size_t len = strcspn(p, ",");

        if (len == 0 || len >= sizeof(word) || a->num_replicas == REPLICAS_MAX)
            return error_set(err, -EINVAL, "give up to %d numbers, separated by commas, not '%s'",
                             REPLICAS_MAX, value);
        memcpy(word, p, len);
        word[len] = '\0';
        if (parse_u64(word, 1 << 20, &a->replicas[a->num_replicas]) < 0 ||
            a->replicas[a->num_replicas++] == 0)
            return error_set(err, -EINVAL, "'%s' is not a number of replicas", word);
        p += len;
        p += *p == ',';
    }
    return 0;
}

static const struct option_def defs[] = {
    CTL_STREAM_OPTIONS(struct plan_arguments, stream),
    {"replicas", 'r', "LIST", OPTION_CALL, .call = parse_replicas,
     .help = "numbers of replicas to plan for (default 1,2,4,8,16)"},
    {"micro-batch", 'm', "M", OPTION_U32, AT(stream.micro_batch), 1, 1 << 20,
     .help = "samples that a replica takes at once (required for a throughput)"},
    {"gradient-accumulation", 0, "N", OPTION_U32, AT(accumulation), 1, 1 << 20,
     .help = "micro-batches per gradient reduction (default 1)"},
    {"micro-batch-time", 0, "TIME", OPTION_DURATION, AT(micro_batch_ns),
     .help = "time that a device takes for one micro-batch, such as 80ms (required for a "
             "throughput)"},
    {"copy-time", 0, "TIME", OPTION_DURATION, AT(copy_ns),
     .help = "time to copy a micro-batch to the device, in addition to computing (default 0)"},
    {"allreduce-time", 0, "TIME", OPTION_DURATION, AT(allreduce_ns),
     .help = "time to reduce the gradients (default 0)"},
    {"image-time", 0, "TIME", OPTION_DURATION, AT(image_ns),
     .help = "time that one core takes to render an image (default: measured on DATASET)"},
    {"jobs", 0, "K", OPTION_U32, AT(jobs.jobs), 1, 1000,
     .help = "predict what K equal jobs save that share pixels (plenumd --share-memory)"},
    {"spread", 0, "SAMPLES", OPTION_U64, AT(jobs.spread), 1, 1 << 28,
     .help = "samples between the first of these jobs and the last (default 1000)"},
    {"share-memory", 0, "SIZE", OPTION_BYTES, AT(jobs.share_memory),
     .help = "also predict for this much memory"},
    {"epoch", 'e', "E", OPTION_U64, AT(epoch), 0, UINT32_MAX,
     .help = "the epoch of a plan that is shown (default 0)"},
    {"json", 'j', NULL, OPTION_FLAG, AT(json), .help = "print JSON"},
};

static const struct options_program program = {
    .name = "plenumctl plan",
    .usage = "[DATASET] [options]",
    .summary = "Show what a plan of data sets (@FILE) shows in an epoch: shares, passes, and how "
               "often each sample is shown. With --micro-batch and --micro-batch-time, estimate "
               "the throughput of a training job for several numbers of replicas, and the cores "
               "that its loaders need. With --jobs, predict what jobs save that share pixels.",
    .defs = defs,
    .count = ARRAY_LEN(defs),
    .words = ctl_words,
};

/* Render some samples of the data set, and compute the mean time per sample. */
static int measure_image(const char *dataset, struct plan_arguments *a, struct plenum_error *err)
{
    struct render_scratch scratch = {0};
    struct render_result result;
    struct ctl_stream s;
    uint64_t begin = 0, wall = 0;
    uint8_t *pixels;
    int r = ctl_stream_open(dataset, &a->stream, &s, err);

    if (r < 0)
        return r;
    plan_fetch_init(&s, &a->fetch);
    pixels = malloc(render_bytes(&s.spec));
    if (!pixels) {
        r = error_set(err, -ENOMEM, "out of memory");
        goto out;
    }
    for (uint64_t p = 0; p <= SAMPLES_MEASURED; p++) { /* the first one warms up */
        r = render_position(&s.spec, &scratch, (struct order_place){0, p}, pixels, &result, err);
        if (r < 0)
            goto out;
        if (p == 0) {
            begin = time_cpu_ns();
            wall = time_now_ns();
        } else {
            struct ctl_jpegs kind =
                ctl_jpegs_of(scratch.files.of[0].image.bytes, scratch.files.of[0].image.len);

            a->substituted += result.substituted;
            a->jpegs.all += kind.all;
            a->jpegs.progressive += kind.progressive;
        }
        ctl_show_progress(NULL, "samples", p, SAMPLES_MEASURED);
    }
    a->image_ns = (time_cpu_ns() - begin) / SAMPLES_MEASURED;
    wall = (time_now_ns() - wall) / SAMPLES_MEASURED;
    if (a->fetch.samples > 0) /* each of these samples was a request */
        a->fetch.request_ns = max_u64(wall, a->image_ns + 1) - a->image_ns;

out:
    ctl_end_progress();
    free(pixels);
    render_scratch_fini(&scratch);
    ctl_stream_close(&s);
    return r;
}

struct plan_row {
    uint64_t replicas;
    double step_ms, rate, efficiency, cores;
    /* For a data set in a store: how long an epoch takes, and the bandwidth that it needs. */
    double epoch_s, megabits;
};

static struct plan_row estimate(const struct plan_arguments *a, uint64_t replicas)
{
    double ga = a->accumulation;
    double alone = ga * (double)max_u64(a->micro_batch_ns, a->copy_ns) / (double)NS_PER_SEC;
    double step = alone + (replicas > 1 ? (double)a->allreduce_ns / (double)NS_PER_SEC : 0);
    double rate = (double)replicas * a->stream.micro_batch * ga / step;
    double mean = (double)a->fetch.bytes / (double)max_u64(a->fetch.samples, 1);

    return (struct plan_row){.replicas = replicas,
                             .step_ms = step * 1e3,
                             .rate = rate,
                             .efficiency = 100 * alone / step,
                             .cores = rate * (double)a->image_ns / (double)NS_PER_SEC,
                             .epoch_s = (double)a->fetch.samples / rate,
                             .megabits = rate * mean * 8 / 1e6};
}

static bool has_times(const struct plan_arguments *a)
{
    return a->stream.micro_batch > 0 && a->micro_batch_ns > 0;
}

static void print_text(const struct plan_arguments *a)
{
    if (a->shares)
        plan_shares_print(a->shares);
    if (a->jobs.jobs > 0)
        plan_jobs_print(&a->jobs);
    if (!has_times(a))
        return;
    if (a->shares || a->jobs.jobs > 0)
        putchar('\n');
    if (a->image_ns)
        printf("rendering an image takes one core %.0f us\n\n", (double)a->image_ns / 1e3);
    if (a->copy_ns > a->micro_batch_ns)
        printf("copying to the device takes longer than computing, and bounds the steps\n\n");
    plan_fetch_print(&a->fetch);
    printf("replicas  step (ms)   images/s  efficiency  loader cores%s\n",
           a->fetch.samples > 0 ? "   Mbit/s  epoch (min)" : "");
    for (unsigned i = 0; i < a->num_replicas; i++) {
        struct plan_row row = estimate(a, a->replicas[i]);

        printf("%8llu %10.1f %10.0f %10.1f%%", (unsigned long long)row.replicas, row.step_ms,
               row.rate, row.efficiency);
        if (a->image_ns)
            printf(" %13.1f", row.cores);
        else
            printf("             ?");
        if (a->fetch.samples > 0)
            printf(" %8.0f %12.1f", row.megabits, row.epoch_s / 60);
        putchar('\n');
    }
    if (a->jpegs.progressive > 0)
        putchar('\n');
    ctl_print_progressive(&a->jpegs, true);
    if (a->substituted > 0)
        printf("\n%.1f %% of the samples that were measured are bad and were replaced by "
               "others: plenumctl verify lists them\n",
               100 * (double)a->substituted / SAMPLES_MEASURED);
}

static void print_json_rows(struct json *j, const struct plan_arguments *a)
{
    if (a->image_ns)
        json_real(j, "image_us", (double)a->image_ns / 1e3, 2);
    json_number(j, "measured_jpegs", a->jpegs.all);
    json_number(j, "measured_progressive", a->jpegs.progressive);
    json_number(j, "measured_substituted", a->substituted);
    plan_fetch_json(&a->fetch, j);
    json_begin_array(j, "rows", JSON_LINES);
    for (unsigned i = 0; i < a->num_replicas; i++) {
        struct plan_row row = estimate(a, a->replicas[i]);

        json_begin_object(j, NULL, JSON_FLAT);
        json_number(j, "replicas", row.replicas);
        json_real(j, "step_ms", row.step_ms, 3);
        json_real(j, "images_per_second", row.rate, 1);
        json_real(j, "efficiency_percent", row.efficiency, 2);
        if (a->image_ns)
            json_real(j, "loader_cores", row.cores, 2);
        if (a->fetch.samples > 0) {
            json_real(j, "megabits_per_second", row.megabits, 1);
            json_real(j, "epoch_seconds", row.epoch_s, 1);
        }
        json_end_object(j);
    }
    json_end_array(j);
}

static void print_json(const struct plan_arguments *a)
{
    struct json j = {.file = stdout};

    json_begin_object(&j, NULL, JSON_LINES);
    if (a->shares)
        plan_shares_print_json(&j, a->shares);
    if (a->jobs.jobs > 0)
        plan_jobs_json(&a->jobs, &j);
    if (has_times(a))
        print_json_rows(&j, a);
    json_end_object(&j);
}

/* Show the shares of a plan, without measuring times. */
static int show_shares(const char *name, struct plan_arguments *a, struct plenum_error *err)
{
    struct dataset_options options = {.cache_dir = a->stream.cache_dir};
    struct dataset *dataset;
    int r = ctl_dataset_open(name, &options, &dataset, err);

    if (r < 0)
        return r;
    a->shares = calloc(1, sizeof(*a->shares));
    r = a->shares ? plan_shares_find(dataset, a->stream.seed, a->epoch, a->shares, err)
                  : error_set(err, -ENOMEM, "out of memory");
    if (r == 0 && a->json)
        print_json(a);
    else if (r == 0)
        print_text(a);
    dataset_unref(dataset);
    free(a->shares);
    return r;
}

/* Returns what is wrong with the command line, or NULL. */
static const char *find_mistake(const struct plan_arguments *a, int operands, bool plan)
{
    bool times = a->stream.micro_batch > 0 || a->micro_batch_ns > 0;

    if (operands > 1)
        return "only one data set can be given";
    if (a->jobs.jobs > 0 && operands == 0)
        return "--jobs needs a data set";
    if (times || (!plan && a->jobs.jobs == 0))
        return has_times(a) ? NULL : "--micro-batch and --micro-batch-time are needed";
    return NULL;
}

/* Measure what the estimates need. */
static int measure(const char *dataset, struct plan_arguments *a, struct plenum_error *err)
{
    int r = 0;

    if (a->image_ns == 0 && (has_times(a) || a->jobs.jobs > 0))
        r = measure_image(dataset, a, err);
    a->jobs.image_ns = a->image_ns;
    return r < 0 || a->jobs.jobs == 0 ? r : plan_jobs_find(dataset, &a->stream, &a->jobs, err);
}

static int run(int argc, char **argv)
{
    struct plan_arguments a = {.stream = CTL_STREAM_DEFAULTS,
                               .accumulation = 1,
                               .replicas = {1, 2, 4, 8, 16},
                               .num_replicas = 5,
                               .jobs = {.spread = 1000}};
    struct plenum_error err;
    const char *mistake;
    int operands, r;
    bool plan;

    a.stream.micro_batch = 0;
    a.stream.own_boxes = true;
    r = options_start(&program, &a, argc, argv, &operands);
    if (r >= 0)
        return r;
    plan = operands == 1 && ctl_is_plan(argv[1]);
    mistake = find_mistake(&a, operands, plan);
    if (mistake) {
        fprintf(stderr, "%s: %s; see --help\n", program.name, mistake);
        return 2;
    }
    if (operands == 1 && measure(argv[1], &a, &err) < 0)
        return ctl_fail("plan", &err);
    if (plan)
        return show_shares(argv[1], &a, &err) < 0 ? ctl_fail("plan", &err) : 0;
    if (a.json)
        print_json(&a);
    else
        print_text(&a);
    return 0;
}

const struct ctl_command ctl_plan = {
    .name = "plan",
    .summary = "show the shares of a plan; estimate throughput and cores",
    .run = run,
};
