/* SPDX-License-Identifier: MIT */
/* cmd_order.c - plenumctl order: shows the sample at each position, and how much each host would
 * read. */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/order/mixture.h"
#include "common/order/orderplan.h"
#include "common/util/error_set.h"
#include "common/util/json.h"
#include "common/util/text.h"
#include "common/util/util.h"
#include "loader/ctl/ctl.h"

struct order_arguments {
    struct ctl_stream_args stream;
    uint64_t epoch;
    uint32_t instances, hosts, count;
    const char *positions, *split, *deal, *sample;
    uint64_t step;
    bool has_step;
    bool json;
};

static int parse_step(void *target, const char *value, struct plenum_error *err)
{
    struct order_arguments *a = target;

    if (parse_u64(value, INT64_MAX, &a->step) < 0)
        return error_set(err, -EINVAL, "--step %s: the number of a step is needed, from 0", value);
    a->has_step = true;
    return 0;
}

#define AT(field) offsetof(struct order_arguments, field)

static const struct option_def defs[] = {
    CTL_STREAM_OPTIONS(struct order_arguments, stream),
    {"positions", 0, "A:B", OPTION_TEXT, AT(positions),
     .help = "list the samples at these positions of the epoch"},
    {"count", 0, "N", OPTION_U32, AT(count), 1, UINT32_MAX,
     .help = "list the first N positions, like --positions 0:N"},
    {"step", 0, "N", OPTION_CALL, .call = parse_step,
     .help = "list the samples of the N-th step of a run, counted from 0"},
    {"sample", 0, "NAME", OPTION_TEXT, AT(sample),
     .help = "list the positions of the epoch that show this sample: its path in the data set, its "
             "number, or SET:PATH if several sets of a plan have the path"},
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

/* Returns the replica of the position that is `from` positions after the first one of its step. */
static uint32_t replica_of(const struct order_steps *steps, const struct order_arguments *a,
                           uint64_t from)
{
    uint32_t at = (uint32_t)(from % steps->per_step), m = a->stream.micro_batch;

    assert(m > 0 && steps->per_step % m == 0); /* per_step is R * M */
    return strcmp(a->deal, "round-robin") == 0 ? at % (steps->per_step / m) : at / m;
}

/* ---- positions ---- */

static void print_position(struct json *j, const struct ctl_stream *s, uint64_t epoch,
                           uint64_t position, const struct order_arguments *a)
{
    uint32_t sample = render_sample_at(&s->spec, epoch, position);
    uint64_t begin, step = order_step_of(&s->steps, (struct order_place){epoch, position}, &begin);
    uint32_t replica = replica_of(&s->steps, a, position - begin);
    int64_t label = dataset_get_label(s->dataset, sample);
    char name[4096];

    (void)dataset_get_sample_name(s->dataset, sample, name, sizeof(name));
    if (!j) {
        printf("%llu\t%u\t%lld\t%llu\t%u\t%s\n", (unsigned long long)position, sample,
               (long long)label, (unsigned long long)step, replica, text_make_plain(name));
        return;
    }
    json_begin_object(j, NULL, JSON_FLAT);
    json_number(j, "position", position);
    json_number(j, "sample", sample);
    json_signed(j, "label", label);
    json_number(j, "step", step);
    json_number(j, "replica", replica);
    json_text(j, "name", name);
    json_end_object(j);
}

static void begin_list(struct json *j, const struct order_arguments *a)
{
    if (a->json)
        json_begin_array(j, NULL, JSON_LINES);
    else
        printf("position\tsample\tlabel\tstep\treplica\tname\n");
}

/* List the positions of a step, except those of its padding. */
static void list_step(const struct ctl_stream *s, const struct order_arguments *a)
{
    struct order_place place = order_place_skip(&s->steps, (struct order_place){0}, a->step);
    struct json j = {.file = stdout};

    if (!a->json)
        printf("epoch %llu\n", (unsigned long long)place.epoch);
    begin_list(&j, a);
    for (uint32_t at = 0; at < s->steps.per_step; at++)
        if (order_step_counts(&s->steps, place, at))
            print_position(a->json ? &j : NULL, s, place.epoch,
                           order_step_position(&s->steps, place, at), a);
    if (a->json)
        json_end_array(&j);
}

/* The positions that show a sample. */
struct found_positions {
    uint32_t *at;
    size_t count, cap;
    bool failed; /* out of memory */
};

static void note_position(void *arg, uint32_t position)
{
    struct found_positions *found = arg;

    found->failed =
        found->failed || array_grow(&found->at, &found->cap, found->count, sizeof(*found->at)) < 0;
    if (!found->failed)
        found->at[found->count++] = position;
}

static int by_position(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

/* Find the positions in an order without a plan. */
static void find_plain(const struct order *order, uint64_t epoch, uint32_t sample,
                       struct found_positions *found)
{
    struct sampler_table table = {
        .kind = SAMPLER_PLAIN, .n = order->n, .positions = order_positions(order), .plain = *order};
    struct sampler sampler = {.table = &table, .seed = order->seed};

    table.plain.first = 0;
    if (sample >= order->first)
        sampler_find(&sampler, epoch, sample - order->first, note_position, found);
}

/* Find the positions of an epoch that show a sample. */
static void find_sample(const struct ctl_stream *s, uint64_t epoch, uint32_t sample,
                        struct found_positions *found)
{
    if (s->spec.order.mixture)
        mixture_find_sample(s->spec.order.mixture, epoch, sample, note_position, found);
    else
        find_plain(&s->spec.order, epoch, sample, found);
}

/* Split "SET:NAME" if the plan has that set. Returns NAME; `*set` is the set's number, or
 * UINT32_MAX without a set. */
static const char *split_set(const struct dataset *d, const char *name, uint32_t *set)
{
    const struct orderplan *plan = dataset_get_plan(d);
    size_t len = strcspn(name, ":");

    *set = plan && name[len] ? orderplan_find(plan, name, len) : UINT32_MAX;
    return *set == UINT32_MAX ? name : name + len + 1;
}

/* Find the positions of a set's samples with this path. Returns the number of these samples. */
static uint32_t find_path(const struct ctl_stream *s, uint64_t epoch, const struct dataset_set *set,
                          const char *name, struct found_positions *found)
{
    uint32_t count = dataset_is_generated(set->dataset) ? 0 : dataset_get_samples(set->dataset);
    uint32_t matches = 0;
    char path[4096];

    for (uint32_t i = 0; i < count; i++)
        if (strcmp(dataset_get_sample_path(set->dataset, i, path, sizeof(path)), name) == 0) {
            find_sample(s, epoch, set->first + i, found);
            matches++;
        }
    return matches;
}

/* Find the positions of the sample with this number in the whole data set ("7") or in a set of a
 * plan ("SET:7"), or of the samples with this path, which several sets may have. */
static int find_named(const struct ctl_stream *s, const struct order_arguments *a,
                      struct found_positions *found, struct plenum_error *err)
{
    const struct dataset *d = s->dataset;
    struct dataset_set sets[MIXTURE_SETS_MAX] = {{.dataset = d}}, whole = sets[0];
    uint32_t count = dataset_get_sets(d, sets), named, matches = 0;
    const char *name = split_set(d, a->sample, &named);
    const struct dataset_set *scope = named == UINT32_MAX ? &whole : &sets[named];
    uint64_t number;

    if (parse_u64(name, UINT32_MAX, &number) == 0 && number < dataset_get_samples(scope->dataset)) {
        find_sample(s, a->epoch, scope->first + (uint32_t)number, found);
        return 0;
    }
    if (count == 0)
        count = 1;
    for (uint32_t i = 0; i < count; i++)
        if (named == UINT32_MAX || i == named)
            matches += find_path(s, a->epoch, &sets[i], name, found);
    return matches > 0 ? 0 : error_set(err, -ENOENT, "the data set has no sample %s", a->sample);
}

static int list_sample(const struct ctl_stream *s, const struct order_arguments *a,
                       struct plenum_error *err)
{
    struct found_positions found = {0};
    struct json j = {.file = stdout};
    int r = find_named(s, a, &found, err);

    if (r < 0)
        return r;
    if (found.failed) {
        free(found.at);
        return error_set(err, -ENOMEM, "out of memory");
    }
    if (found.count > 0)
        qsort(found.at, found.count, sizeof(*found.at), by_position);
    begin_list(&j, a);
    for (size_t i = 0; i < found.count; i++)
        if (!order_is_skipped(&s->steps, (struct order_place){a->epoch, found.at[i]}))
            print_position(a->json ? &j : NULL, s, a->epoch, found.at[i], a);
    if (a->json)
        json_end_array(&j);
    free(found.at);
    return 0;
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
    begin_list(&j, a);
    for (uint64_t p = range.first; p < end; p++)
        if (!order_is_skipped(&s->steps, (struct order_place){a->epoch, p}))
            print_position(a->json ? &j : NULL, s, a->epoch, p, a);
    if (a->json)
        json_end_array(&j);
    return 0;
}

/* ---- reads of a run ---- */

struct host {
    uint64_t samples, padded, bytes;
};

/* What an epoch shows of one set of a plan. */
struct set_share {
    char name[64];
    uint32_t first, positions; /* the set's first sample, and its positions per pass */
    uint64_t samples, shown;
};

/* What a run reads from a data set, or from all parts of it. */
struct run {
    const struct order_arguments *args;
    struct host *hosts;
    uint64_t steps, positions, left_out, samples; /* per epoch; all but steps summed over parts */
    uint32_t parts;
    struct set_share sets[MIXTURE_SETS_MAX];
    uint32_t num_sets;
};

static void count_set(struct run *run, uint32_t sample)
{
    uint32_t set = 0;

    if (run->num_sets == 0)
        return;
    while (set + 1 < run->num_sets && run->sets[set + 1].first <= sample)
        set++;
    assert(run->sets[set].first <= sample);
    run->sets[set].shown++;
}

/* Count what the instances [first, first + count) read in an epoch. */
static void walk(const struct ctl_stream *s, struct run *run, uint64_t steps, uint32_t first,
                 uint32_t count)
{
    const struct order_arguments *a = run->args;
    uint64_t end = s->steps.num_gaps > 0 ? s->steps.n : steps * s->steps.per_step;
    uint32_t share = s->steps.per_step / a->stream.micro_batch / count;

    assert(share > 0 && a->instances % a->hosts == 0); /* check() ensures this */
    assert(first + count <= a->instances);
    for (uint64_t p = 0; p < end; p++) {
        uint32_t instance = first + replica_of(&s->steps, a, p) / share;
        struct host *host = &run->hosts[instance / (a->instances / a->hosts)];
        uint32_t sample = render_sample_at(&s->spec, a->epoch, p);

        if (order_is_skipped(&s->steps, (struct order_place){a->epoch, p}))
            continue;
        host->samples++;
        if (p < s->steps.n)
            count_set(run, sample);
        host->padded += p >= s->steps.n;
        host->bytes += dataset_get_sample_bytes(s->dataset, sample);
        if (p % 65536 == 0)
            ctl_show_progress(NULL, "positions", p, end);
    }
    run->positions += s->steps.n;
    run->left_out += s->steps.n > end ? s->steps.n - end : 0;
    run->samples += s->spec.order.mixture ? dataset_get_samples(s->dataset) : s->spec.order.n;
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
        assert(i == 0 || parts[i].steps.last == parts[0].steps.last);
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

static void print_json_sets(struct json *j, const struct run *run)
{
    json_begin_array(j, "sets", JSON_LINES);
    for (uint32_t i = 0; i < run->num_sets; i++) {
        json_begin_object(j, NULL, JSON_FLAT);
        json_text(j, "name", run->sets[i].name);
        json_number(j, "samples", run->sets[i].samples);
        json_number(j, "pass", run->sets[i].positions);
        json_number(j, "shown", run->sets[i].shown);
        json_end_object(j);
    }
    json_end_array(j);
}

static void print_json(const struct run *run, const uint64_t *padded)
{
    struct json j = {.file = stdout};

    json_begin_object(&j, NULL, JSON_LINES);
    json_number(&j, "samples", run->samples);
    json_number(&j, "positions", run->positions);
    json_number(&j, "steps", run->steps);
    json_number(&j, "step_samples",
                (uint64_t)run->args->stream.replicas * run->args->stream.micro_batch);
    json_number(&j, "padded", *padded);
    json_number(&j, "left_out", run->left_out);
    if (run->num_sets > 0)
        print_json_sets(&j, run);
    json_begin_array(&j, "hosts", JSON_LINES);
    for (uint32_t h = 0; h < run->args->hosts; h++) {
        json_begin_object(&j, NULL, JSON_FLAT);
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
    uint64_t shown = 0; /* by all sets: less than an epoch if the plan skips positions */
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
    for (uint32_t i = 0; i < run->num_sets; i++)
        shown += run->sets[i].shown;
    for (uint32_t i = 0; i < run->num_sets; i++) {
        const struct set_share *set = &run->sets[i];

        printf("set %s shows %llu positions per epoch (%.2f %%): %.3f passes of %u positions\n",
               set->name, (unsigned long long)set->shown,
               100 * (double)set->shown / (double)max_u64(shown, 1),
               (double)set->shown / set->positions, set->positions);
    }
    for (uint32_t h = 0; h < run->args->hosts; h++)
        printf("host %-6u reads %s for %llu samples\n", h,
               format_bytes(run->hosts[h].bytes, bytes, sizeof(bytes)),
               (unsigned long long)run->hosts[h].samples);
}

/* Note the sets of a plan; walk() counts the positions of each. */
static void note_sets(const struct ctl_stream *s, struct run *run)
{
    struct dataset_set sets[MIXTURE_SETS_MAX];

    run->num_sets = dataset_get_sets(s->dataset, sets);
    assert(run->num_sets <= MIXTURE_SETS_MAX);
    for (uint32_t i = 0; i < run->num_sets; i++) {
        (void)snprintf(run->sets[i].name, sizeof(run->sets[i].name), "%s", sets[i].name);
        run->sets[i].first = sets[i].first;
        run->sets[i].samples = dataset_get_samples(sets[i].dataset);
        run->sets[i].positions = sets[i].positions;
    }
}

/* Walk through a data set that all instances share. */
static int walk_whole(const char *name, struct run *run, struct plenum_error *err)
{
    const struct order_arguments *a = run->args;
    struct ctl_stream stream;
    int r = ctl_stream_open(name, &a->stream, &stream, err);

    if (r < 0)
        return r;
    note_sets(&stream, run);
    run->steps = order_steps_left(&stream.steps, (struct order_place){.epoch = a->epoch});
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

/* Returns whether the command lists a part of the order instead of summarising a run. */
static bool lists(const struct order_arguments *a)
{
    return a->positions || a->count || a->has_step || a->sample;
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
    if (!!a->positions + !!a->count + a->has_step + !!a->sample > 1)
        return error_set(err, -EINVAL,
                         "--positions, --count, --step and --sample cannot be used together");
    if (a->instances % a->hosts != 0)
        return error_set(err, -EINVAL, "%u instances cannot be shared evenly by %u hosts",
                         a->instances, a->hosts);
    if (!lists(a) && a->stream.replicas % a->instances != 0)
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

    a.stream.own_boxes = true;
    r = ctl_start(&program, &a, argc, argv, 1, "one data set is");
    if (r >= 0)
        return r;
    if (check(&a, &err) < 0) {
        fprintf(stderr, "%s: %s\n", program.name, err.text);
        return 2;
    }
    if (!lists(&a)) {
        r = summarise(argv[1], &a, &err);
        return r < 0 ? ctl_fail("order", &err) : 0;
    }
    r = ctl_stream_open(argv[1], &a.stream, &stream, &err);
    if (r < 0)
        return ctl_fail("order", &err);
    if (a.has_step)
        list_step(&stream, &a);
    else
        r = a.sample ? list_sample(&stream, &a, &err) : list_positions(&stream, &a, &err);
    ctl_stream_close(&stream);
    return r < 0 ? ctl_fail("order", &err) : 0;
}

const struct ctl_command ctl_order = {
    .name = "order",
    .summary = "show the order of samples, and the steps and bytes of a run",
    .run = run,
};
