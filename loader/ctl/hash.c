/* hash.c - plenumctl hash: the hash of a stream, computed alone, on one thread, without a loader.
 *
 * This is the oracle: whatever loaders, threads, hosts, restarts and faults did, the sum of the
 * hashes of what was delivered must be this number. So it is written in the plainest way: position
 * after position. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/json.h"
#include "common/streamhash.h"
#include "common/util.h"
#include "loader/ctl/ctl.h"

struct arguments {
    struct ctl_stream_args stream;
    uint64_t epochs;
    bool json;
};

#define AT(field) offsetof(struct arguments, field)

static const struct option_def defs[] = {
    CTL_STREAM_OPTIONS(struct arguments, stream),
    {"replicas", 'r', "R", OPTION_U32, AT(stream.replicas), 1, 1 << 20,
     "replicas of the job (default 1): matters for --last drop alone", NULL},
    {"micro-batch", 'm', "M", OPTION_U32, AT(stream.micro_batch), 1, 1 << 20,
     "samples of a replica in a step (default 1)", NULL},
    {"epochs", 'e', "E", OPTION_U64, AT(epochs), 1, UINT32_MAX, "epochs (default 1)", NULL},
    {"last", 0, "POLICY", OPTION_TEXT, AT(stream.last), 0, 0,
     "pad (default) or drop what does not fill a step", NULL},
    {"json", 'j', NULL, OPTION_FLAG, AT(json), 0, 0, "print JSON", NULL},
};

static const struct options_program program = {
    .name = "plenumctl hash",
    .usage = "DATASET [options]",
    .summary = "Compute the hash of a stream on one thread, without a loader. What a training job "
               "received must have this hash, however it was run.",
    .defs = defs,
    .count = ARRAY_LEN(defs),
};

struct sum {
    uint64_t hash, samples, substituted;
};

static int hash_position(const struct ctl_stream *s, struct render_scratch *scratch,
                         struct order_place place, uint8_t *pixels, struct sum *sum,
                         struct plenum_error *err)
{
    struct streamhash_image image = {.pixels = pixels,
                                     .side = s->spec.pipeline.side,
                                     .channels = 3,
                                     .dtype = PLENUM_UINT8,
                                     .layout = PLENUM_NHWC};
    struct render_result result;
    int r = render_position(&s->spec, scratch, place.epoch, place.position, NULL, 0, NULL, pixels,
                            &result, err);

    if (r < 0)
        return r;
    sum->hash += streamhash_sample(place.epoch, place.position, result.label, &image);
    sum->samples++;
    sum->substituted += result.substituted;
    return 0;
}

static int hash_epochs(const struct ctl_stream *s, uint64_t epochs, struct sum *sum,
                       struct plenum_error *err)
{
    struct render_scratch scratch = {0};
    uint8_t *pixels = malloc(render_bytes(&s->spec));
    int r = pixels ? 0 : error_set(err, -ENOMEM, "out of memory");

    for (uint64_t epoch = 0; epoch < epochs && r == 0; epoch++) {
        struct order_place place = {.epoch = epoch};
        uint64_t end = s->steps.last == ORDER_DROP
                           ? order_steps_left(&s->steps, place) * s->steps.per_step
                           : s->steps.n;

        for (; place.position < end && r == 0; place.position++) {
            r = hash_position(s, &scratch, place, pixels, sum, err);
            if (place.position % 64 == 0)
                ctl_show_progress(NULL, "samples", epoch * end + place.position, epochs * end);
        }
    }
    ctl_end_progress();
    free(pixels);
    render_scratch_fini(&scratch);
    return r;
}

static void print_json(const struct sum *sum)
{
    struct json j = {.file = stdout};
    char hash[20];

    (void)snprintf(hash, sizeof(hash), "%016llx", (unsigned long long)sum->hash);
    json_begin_object(&j, NULL, true);
    json_text(&j, "hash", hash);
    json_number(&j, "samples", sum->samples);
    json_number(&j, "substituted", sum->substituted);
    json_end_object(&j);
}

static int run(int argc, char **argv)
{
    struct arguments a = {.stream = CTL_STREAM_DEFAULTS, .epochs = 1};
    struct ctl_stream stream;
    struct plenum_error err;
    struct sum sum = {0};
    int operands, r;

    r = options_start(&program, &a, argc, argv, &operands);
    if (r >= 0)
        return r;
    if (operands != 1) {
        fprintf(stderr, "%s: one data set is needed; see --help\n", program.name);
        return 2;
    }
    if (ctl_stream_open(argv[1], &a.stream, &stream, &err) < 0)
        return ctl_fail("hash", &err);
    r = hash_epochs(&stream, a.epochs, &sum, &err);
    ctl_stream_close(&stream);
    if (r < 0)
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
    .summary = "the hash of a stream, computed on one thread without a loader",
    .run = run,
};
