/* SPDX-License-Identifier: MIT */
/* cmd_order.c - plenumctl order: shows the sample at each position, and how much each host would
 * read. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/json.h"
#include "common/util/text.h"
#include "common/util/util.h"
#include "loader/ctl/ctl.h"

struct order_arguments {
    struct ctl_stream_args stream;
    uint64_t epoch;
    uint32_t instances, hosts, count;
    const char *positions, *split, *deal;
    bool json;
};

#define AT(field) offsetof(struct order_arguments, field)

static const struct option_def defs[] = {
    CTL_STREAM_OPTIONS(struct order_arguments, stream),
    {"positions", 0, "A:B", OPTION_TEXT, AT(positions),
     .help = "list the samples at these positions of the epoch"},
    {"count", 0, "N", OPTION_U32, AT(count), 1, UINT32_MAX,
     .help = "list the first N positions, like --positions 0:N"},
    {"epoch", 'e', "E", OPTION_U64, AT(epoch), 0, UINT32_MAX, .help = "epoch (default 0)"},
    {"replicas", 'r', "R", OPTION_U32, AT(stream.replicas), 1, 1 << 20,
     .help = "replicas in the job (default 1)"},
    {"micro-batch", 'm', "M", OPTION_U32, AT(stream.micro_batch), 1, 1 << 20,
     .help = "samples per replica and step (default 1)"},
    {"instances", 'n', "I", OPTION_U32, AT(instances), 1, 1 << 20,
     .help = "instances that share the replicas (default: one per host)"},
    {"hosts", 0, "H", OPTION_U32, AT(hosts), 1, 1 << 20,
     .help = "hosts that share the instances (default 1)"},
    {"split", 0, "HOW", OPTION_TEXT, AT(split),
     .help = "sample (default), or file: each instance has its own part of the archives"},
    {"deal", 0, "WAY", OPTION_TEXT, AT(deal),
     .help = "consecutive (default): a replica takes M positions in a row; round-robin: replicas "
             "take turns"},
    {"last", 0, "POLICY", OPTION_TEXT, AT(stream.last),
     .help = "pad (default) or drop the positions that do not fill a step"},
    {"json", 'j', NULL, OPTION_FLAG, AT(json), .help = "print JSON"},
};

static const struct options_program program = {
    .name = "plenumctl order",
    .usage = "DATASET [options]",
    .summary = "Show the order of an epoch: the samples at the given positions, or, without "
               "--positions, how many steps a run has, how the last one is padded, and what each "
               "host reads. Nothing is rendered.",
    .defs = defs,
    .count = ARRAY_LEN(defs),
    .words = ctl_words,
};

/* Returns the replica that a position of a step belongs to. */
static uint32_t replica_of(const struct order_steps *steps, const struct order_arguments *a,
                           uint64_t position)
{
    uint32_t at = (uint32_t)(position % steps->per_step), m = a->stream.micro_batch;

    return strcmp(a->deal, "round-robin") == 0 ? at % (steps->per_step / m) : at / m;
}

/* ---- positions ---- */

static void print_position(struct json *j, const struct ctl_stream *s, uint64_t epoch,
                           uint64_t position, const struct order_arguments *a)
{
    uint32_t sample = render_sample_at(&s->spec, epoch, position);
    uint64_t step = position / s->steps.per_step;
    uint32_t replica = replica_of(&s->steps, a, position);
    int64_t label = dataset_get_label(s->dataset, sample);
    char name[4096];

    (void)dataset_get_sample_name(s->dataset, sample, name, sizeof(name));
    if (!j) {
        printf("%llu\t%u\t%lld\t%llu\t%u\t%s\n", (unsigned long long)position, sample,
               (long long)label, (unsigned long long)step, replica, text_make_plain(name));
        return;
    }
    json_begin_object(j, NULL, true);
    json_number(j, "position", position);
    json_number(j, "sample", sample);
    json_signed(j, "label", label);
    json_number(j, "step", step);
    json_number(j, "replica", replica);
    json_text(j, "name", name);
    json_end_object(j);
}

static int list_positions(const struct ctl_stream *s, const struct order_arguments *a,
                          struct plenum_error *err)
{
    struct json j = {.file = stdout};
    struct order_subset range = {.end = a->count};
    uint64_t end;
    int r = a->positions ? order_parse_subset(a->positions, &range, NULL) : 0;

    if (r < 0)
        return error_set(err, r, "--positions %s must have the form a:b", a->positions);
    if (a->count > s->steps.n)
        return error_set(err, -EINVAL, "--count %u: an epoch has only %u positions", a->count,
                         s->steps.n);
    end = range.end ? range.end : s->steps.n;
    if (end > s->steps.n || range.first >= end)
        return error_set(err, -EINVAL, "--positions %s: an epoch has only %u positions",
                         a->positions, s->steps.n);
    if (a->json)
        json_begin_array(&j, NULL, false);
    else
        printf("position\tsample\tlabel\tstep\treplica\tname\n");
    for (uint64_t p = range.first; p < end; p++)
        print_position(a->json ? &j : NULL, s, a->epoch, p, a);
    if (a->json)
        json_end_array(&j);
    return 0;
}

/* ---- reads of a run ---- */

struct host {
    uint64_t samples, padded, bytes;
};

/* Amounts that a run reads from a data set, or from all of its parts. */
struct run {
    const struct order_arguments *args;
    struct host *hosts;
    uint64_t steps, positions, left_out, samples; /* per epoch; all parts together */
    uint32_t parts;
};

/* Count what the instances [first, first + count) read in an epoch. */
static void walk(const struct ctl_stream *s, struct run *run, uint64_t steps, uint32_t first,
                 uint32_t count)
{
    const struct order_arguments *a = run->args;
    uint64_t end = steps * s->steps.per_step;
    uint32_t share = s->steps.per_step / a->stream.micro_batch / count;

    for (uint64_t p = 0; p < end; p++) {
        uint32_t instance = first + replica_of(&s->steps, a, p) / share;
        struct host *host = &run->hosts[instance / (a->instances / a->hosts)];
        uint32_t sample = render_sample_at(&s->spec, a->epoch, p);

        host->samples++;
        host->padded += p >= s->steps.n;
        host->bytes += dataset_get_sample_bytes(s->dataset, sample);
        if (p % 65536 == 0)
            ctl_show_progress(NULL, "positions", p, end);
    }
    run->positions += s->steps.n;
    run->left_out += s->steps.n > end ? s->steps.n - end : 0;
    run->samples += s->spec.order.n;
    ctl_end_progress();
}

static int walk_parts(const char *name, struct run *run, struct plenum_error *err)
{
    const struct order_arguments *a = run->args;
    struct ctl_stream *parts = calloc(a->instances, sizeof(*parts));
    int r = 0;

    if (!parts)
        return error_set(err, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < a->instances; i++) {
        uint64_t steps;

        r = ctl_part_open(name, &a->stream, i, a->instances, &parts[i], err);
        if (r < 0)
            goto out;
        steps = order_steps_left(&parts[i].steps, (struct order_place){0});
        if (i == 0)
            run->steps = steps;
        run->steps = parts[i].steps.last == ORDER_DROP ? min_u64(run->steps, steps)
                                                       : max_u64(run->steps, steps);
    }
    for (uint32_t i = 0; i < a->instances; i++)
        walk(&parts[i], run, run->steps, i, 1);

out:
    for (uint32_t i = 0; i < a->instances; i++)
        ctl_stream_close(&parts[i]);
    free(parts);
    return r;
}

static void print_json(const struct run *run, const uint64_t *padded)
{
    struct json j = {.file = stdout};

    json_begin_object(&j, NULL, false);
    json_number(&j, "samples", run->samples);
    json_number(&j, "positions", run->positions);
    json_number(&j, "steps", run->steps);
    json_number(&j, "step_samples",
                (uint64_t)run->args->stream.replicas * run->args->stream.micro_batch);
    json_number(&j, "padded", *padded);
    json_number(&j, "left_out", run->left_out);
    json_begin_array(&j, "hosts", false);
    for (uint32_t h = 0; h < run->args->hosts; h++) {
        json_begin_object(&j, NULL, true);
        json_number(&j, "samples", run->hosts[h].samples);
        json_number(&j, "padded", run->hosts[h].padded);
        json_number(&j, "bytes", run->hosts[h].bytes);
        json_end_object(&j);
    }
    json_end_array(&j);
    json_end_object(&j);
}

static void print_text(const struct run *run, const uint64_t *padded)
{
    char bytes[32];

    printf("positions   %llu an epoch, of %llu samples\n", (unsigned long long)run->positions,
           (unsigned long long)run->samples);
    printf("steps       %llu an epoch, of %llu samples\n", (unsigned long long)run->steps,
           (unsigned long long)run->args->stream.replicas * run->args->stream.micro_batch);
    if (*padded)
        printf("padded      %llu samples are shown that do not count\n",
               (unsigned long long)*padded);
    if (run->left_out)
        printf("left out    %llu positions\n", (unsigned long long)run->left_out);
    for (uint32_t h = 0; h < run->args->hosts; h++)
        printf("host %-6u reads %s for %llu samples\n", h,
               format_bytes(run->hosts[h].bytes, bytes, sizeof(bytes)),
               (unsigned long long)run->hosts[h].samples);
}

/* Count the reads of a data set that all instances share. */
static int walk_whole(const char *name, struct run *run, struct plenum_error *err)
{
    const struct order_arguments *a = run->args;
    struct ctl_stream stream;
    int r = ctl_stream_open(name, &a->stream, &stream, err);

    if (r < 0)
        return r;
    run->steps = order_steps_left(&stream.steps, (struct order_place){0});
    walk(&stream, run, run->steps, 0, a->instances);
    ctl_stream_close(&stream);
    return 0;
}

static int summarise(const char *name, const struct order_arguments *a, struct plenum_error *err)
{
    bool by_file = strcmp(a->split, "file") == 0;
    struct run run = {.args = a, .hosts = calloc(a->hosts, sizeof(*run.hosts))};
    uint64_t padded = 0;
    int r;

    if (!run.hosts)
        return error_set(err, -ENOMEM, "out of memory");
    r = by_file ? walk_parts(name, &run, err) : walk_whole(name, &run, err);
    if (r < 0)
        goto out;
    for (uint32_t h = 0; h < a->hosts; h++)
        padded += run.hosts[h].padded;
    if (a->json)
        print_json(&run, &padded);
    else
        print_text(&run, &padded);

out:
    free(run.hosts);
    return r;
}

static int check(struct order_arguments *a, struct plenum_error *err)
{
    if (a->instances == 0)
        a->instances = a->hosts;
    if (strcmp(a->split, "sample") != 0 && strcmp(a->split, "file") != 0)
        return error_set(err, -EINVAL, "--split must be sample or file, not '%s'", a->split);
    if (strcmp(a->deal, "consecutive") != 0 && strcmp(a->deal, "round-robin") != 0)
        return error_set(err, -EINVAL, "--deal must be consecutive or round-robin, not '%s'",
                         a->deal);
    if (a->positions && a->count)
        return error_set(err, -EINVAL, "--positions and --count cannot be used together");
    if (a->instances % a->hosts != 0)
        return error_set(err, -EINVAL, "%u instances cannot be shared evenly by %u hosts",
                         a->instances, a->hosts);
    if (!a->positions && !a->count && a->stream.replicas % a->instances != 0)
        return error_set(err, -EINVAL, "%u replicas cannot be shared evenly by %u instances",
                         a->stream.replicas, a->instances);
    return 0;
}

static int run(int argc, char **argv)
{
    struct order_arguments a = {
        .stream = CTL_STREAM_DEFAULTS, .hosts = 1, .split = "sample", .deal = "consecutive"};
    struct ctl_stream stream;
    struct plenum_error err;
    int r;

    r = ctl_start(&program, &a, argc, argv, 1, "one data set is");
    if (r >= 0)
        return r;
    if (check(&a, &err) < 0) {
        fprintf(stderr, "%s: %s\n", program.name, err.text);
        return 2;
    }
    if (!a.positions && !a.count) {
        r = summarise(argv[1], &a, &err);
        return r < 0 ? ctl_fail("order", &err) : 0;
    }
    r = ctl_stream_open(argv[1], &a.stream, &stream, &err);
    if (r < 0)
        return ctl_fail("order", &err);
    r = list_positions(&stream, &a, &err);
    ctl_stream_close(&stream);
    return r < 0 ? ctl_fail("order", &err) : 0;
}

const struct ctl_command ctl_order = {
    .name = "order",
    .summary = "show the order of samples, and the steps and bytes of a run",
    .run = run,
};
