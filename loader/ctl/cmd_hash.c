/* SPDX-License-Identifier: MIT */
/* cmd_hash.c - plenumctl hash: computes the hash of a stream, on one thread and without a loader.
 *
 * This is the test oracle: for any combination of loaders, threads, hosts, restarts and faults, the
 * sum of the hashes of all delivered samples must equal this number. So the code is as simple as
 * possible: it goes from position to position. */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/pipeline/streamhash.h"
#include "common/util/error_set.h"
#include "common/util/json.h"
#include "common/util/util.h"
#include "loader/ctl/ctl.h"

struct hash_arguments {
    struct ctl_stream_args stream;
    uint64_t epochs, samples;
    uint32_t parts;
    enum image_jpeg decoder;
    bool json;
};

static int parse_decoder(void *target, const char *value, struct plenum_error *err)
{
    struct hash_arguments *a = target;

    return image_jpeg_parse("--decoder", value, &a->decoder, err);
}

#define AT(field) offsetof(struct hash_arguments, field)

static const struct option_def defs[] = {
    CTL_STREAM_OPTIONS(struct hash_arguments, stream),
    {"replicas", 'r', "R", OPTION_U32, AT(stream.replicas), 1, 1 << 20,
     .help = "replicas in the job (default 1); matters only for --last drop"},
    {"micro-batch", 'm', "M", OPTION_U32, AT(stream.micro_batch), 1, 1 << 20,
     .help = "samples per replica and step (default 1)"},
    {"epochs", 'e', "E", OPTION_U64, AT(epochs), 1, UINT32_MAX, .help = "epochs (default 1)"},
    {"samples", 0, "N", OPTION_U64, AT(samples), 1, UINT64_MAX,
     .help = "hash only the first N samples, like a run that was stopped there"},
    {"last", 0, "POLICY", OPTION_TEXT, AT(stream.last),
     .help = "pad (default) or drop the positions that do not fill a step"},
    {"parts", 0, "I", OPTION_U32, AT(parts), 1, 1 << 20,
     .help = "print the sum of the hashes of I instances with split = file"},
    {"fields", 0, "FIELDS", OPTION_TEXT, AT(stream.fields), .once = true,
     .help = "include these fields of each sample in the hash: NAME:SOURCE:KIND, ..."},
    {"decoder", 0, "NAME", OPTION_CALL, .call = parse_decoder,
     .help = "JPEG decoder: auto (default), plenum or libjpeg; the hash is the same"},
    {"json", 'j', NULL, OPTION_FLAG, AT(json), .help = "print JSON"},
};

static const struct options_program program = {
    .name = "plenumctl hash",
    .usage = "DATASET [options]",
    .summary = "Compute the hash of a stream on one thread, without a loader. What a training "
               "job receives must have this hash, however it is run.",
    .defs = defs,
    .count = ARRAY_LEN(defs),
    .words = ctl_words,
};

enum { AHEAD = 256 }; /* samples in a store that are announced in advance */

struct hash_sum {
    uint64_t hash, samples, substituted;
};

static int hash_position(const struct ctl_stream *s, struct render_scratch *scratch,
                         struct order_place place, uint8_t *pixels, struct hash_sum *sum,
                         struct plenum_error *err)
{
    const struct views *views = &s->spec.views;
    struct render_target target = render_target_in(&s->spec, pixels);
    struct streamhash_image images[VIEWS_MAX];
    struct render_result result;
    struct streamhash_field field[FIELDS_MAX];
    uint32_t lengths[FIELDS_MAX], num_fields = dataset_get_fields(s->dataset)->count;
    struct streamhash_mix mix;
    int r;

    render_target_fields(&s->spec, pixels + render_bytes(&s->spec), lengths, &target);
    r = render_whole(&s->spec, scratch, place, &target, &result, err);

    if (r < 0)
        return r;
    for (uint32_t i = 0; i < views->count; i++)
        images[i] = (struct streamhash_image){.pixels = target.view[i],
                                              .count = views->view[i].count,
                                              .width = views->view[i].pipeline.width,
                                              .height = views->view[i].pipeline.height,
                                              .channels = 3,
                                              .dtype = PLENUM_UINT8,
                                              .layout = PLENUM_NHWC};
    mix = (struct streamhash_mix){.label2 = result.label2, .weight = result.weight};
    for (uint32_t i = 0; i < num_fields; i++)
        field[i] = (struct streamhash_field){.bytes = target.field[i], .len = lengths[i]};
    sum->hash += streamhash_of(&(struct streamhash_sample){.epoch = place.epoch,
                                                           .position = place.position,
                                                           .label = result.label,
                                                           .mix = views_mix(views) ? &mix : NULL,
                                                           .images = images,
                                                           .views = views->count,
                                                           .fields = field,
                                                           .num_fields = num_fields});
    sum->samples++;
    sum->substituted += result.substituted;
    return 0;
}

/* Returns whether a position is skipped, or left out because the last positions of its epoch do not
 * fill a step. */
static bool is_left_out(const struct order_steps *steps, struct order_place place)
{
    uint64_t g = place.epoch * steps->n + place.position, end = (place.epoch + 1) * steps->n,
             begin = place.epoch * steps->n;

    assert(place.position < steps->n);
    if (order_is_skipped(steps, place))
        return true;
    for (uint32_t i = 0; i < steps->num_gaps; i++) {
        const struct order_gap *gap = &steps->gaps[i];

        if (gap->begin < end && gap->end > begin)
            begin = gap->end; /* the beginning of the epoch's positions after its last gap */
    }
    return steps->last == ORDER_DROP && g >= begin && g >= end - (end - begin) % steps->per_step;
}

/* Announce the next samples of a data set in a store. Otherwise this thread would fetch them one by
 * one. */
static void announce(const struct ctl_stream *s, struct order_place place, uint64_t end)
{
    uint64_t first = place.position == 0 ? 0 : place.position + AHEAD - 1;

    if (!dataset_is_remote(s->dataset) || !dataset_has_images(s->dataset))
        return;
    for (uint64_t at = first; at < min_u64(place.position + AHEAD, end); at++)
        dataset_announce(s->dataset, render_sample_at(&s->spec, place.epoch, at));
}

/* Hash the valid samples in `steps` steps of each epoch, up to `most` samples. */
static int hash_epochs(const struct ctl_stream *s, uint64_t epochs, uint64_t steps, uint64_t most,
                       struct hash_sum *sum, struct plenum_error *err)
{
    bool gaps = s->steps.num_gaps > 0;
    uint64_t end = gaps ? s->steps.n : min_u64(steps * s->steps.per_step, s->steps.n);
    struct render_scratch scratch = {0};
    uint8_t *pixels = malloc(render_bytes(&s->spec) + render_field_bytes(&s->spec));
    int r = 0;

    if (!pixels)
        return error_set(err, -ENOMEM, "out of memory");
    assert(end <= s->steps.n);
    for (uint64_t epoch = 0; epoch < epochs && sum->samples < most; epoch++) {
        struct order_place place = {.epoch = epoch};

        for (; place.position < end && sum->samples < most; place.position++) {
            if (gaps && is_left_out(&s->steps, place))
                continue;
            announce(s, place, end);
            r = hash_position(s, &scratch, place, pixels, sum, err);
            if (r < 0)
                goto out;
            if (place.position % 64 == 0)
                ctl_show_progress(NULL, "samples", epoch * end + place.position, epochs * end);
        }
    }

out:
    ctl_end_progress();
    free(pixels);
    render_scratch_fini(&scratch);
    return r;
}

/* Hash a whole data set, or its parts, which have the same number of steps. */
static int hash_all(const char *name, const struct hash_arguments *a, struct hash_sum *sum,
                    struct plenum_error *err)
{
    uint32_t count = a->parts ? a->parts : 1;
    struct ctl_stream *parts = calloc(count, sizeof(*parts));
    uint64_t steps = 0;
    int r = 0;

    if (!parts)
        return error_set(err, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < count; i++) {
        uint64_t own;

        r = a->parts ? ctl_part_open(name, &a->stream, i, count, &parts[i], err)
                     : ctl_stream_open(name, &a->stream, &parts[i], err);
        if (r < 0)
            goto out;
        parts[i].spec.jpeg = a->decoder;
        own = order_steps_left(&parts[i].steps, (struct order_place){0});
        assert(i == 0 || parts[i].steps.last == parts[0].steps.last);
        if (i == 0)
            steps = own;
        steps = parts[i].steps.last == ORDER_DROP ? min_u64(steps, own) : max_u64(steps, own);
    }
    for (uint32_t i = 0; i < count; i++) {
        r = hash_epochs(&parts[i], a->epochs, steps, a->samples ? a->samples : UINT64_MAX, sum,
                        err);
        if (r < 0)
            goto out;
    }

out:
    for (uint32_t i = 0; i < count; i++)
        ctl_stream_close(&parts[i]);
    free(parts);
    return r;
}

static void print_json(const struct hash_sum *sum)
{
    struct json j = {.file = stdout};
    char hash[20];

    (void)snprintf(hash, sizeof(hash), "%016llx", (unsigned long long)sum->hash);
    json_begin_object(&j, NULL, JSON_FLAT);
    json_text(&j, "hash", hash);
    json_number(&j, "samples", sum->samples);
    json_number(&j, "substituted", sum->substituted);
    json_end_object(&j);
}

static int run(int argc, char **argv)
{
    struct hash_arguments a = {.stream = CTL_STREAM_DEFAULTS, .epochs = 1};
    struct plenum_error err;
    struct hash_sum sum = {0};
    int r;

    r = ctl_start(&program, &a, argc, argv, 1, "one data set is");
    if (r >= 0)
        return r;
    /* Parts are delivered at the same time, so "the first samples" is undefined for several
     * parts. */
    if (a.samples && a.parts) {
        fprintf(stderr, "%s: --samples and --parts cannot be used together\n", program.name);
        return 2;
    }
    if (hash_all(argv[1], &a, &sum, &err) < 0)
        return ctl_fail("hash", &err);
    if (a.json)
        print_json(&sum);
    else
        printf("%016llx\n", (unsigned long long)sum.hash);
    if (sum.substituted > 0 && !a.json)
        fprintf(stderr, "plenumctl hash: %llu bad samples were substituted\n",
                (unsigned long long)sum.substituted);
    return 0;
}

const struct ctl_command ctl_hash = {
    .name = "hash",
    .summary = "compute the hash of a stream on one thread, without a loader",
    .run = run,
};
