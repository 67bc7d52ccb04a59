/* SPDX-License-Identifier: MIT */
/* stream_options.c - what the program asks of a stream: its options, and the variables that change
 * them. The table at the end has the steps in their order. */
#include "config.h"

#include "libdist/stream_options.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/data/dataname.h"
#include "common/options/program.h"
#include "common/order/orderplan.h"
#include "common/pipeline/identity.h"
#include "common/util/error_set.h"
#include "common/util/util.h"
#include "libdist/loaders.h"
#include "libdist/slot.h"
#include "libdist/stream_core.h"

/* The input of the steps in the table. */
struct wanted {
    const struct plenum_stream_options *options;
    const struct stream_trial *trial;
};

void plenum_stream_options_init(struct plenum_stream_options *options)
{
    *options = (struct plenum_stream_options){.size = sizeof(*options),
                                              .pipeline = "train",
                                              .shuffle = "global",
                                              .micro_batch = 1,
                                              .steps = 1,
                                              .prefetch_depth = 3,
                                              .dtype = PLENUM_INT8,
                                              .layout = PLENUM_NHWC,
                                              .channels = 3,
                                              .repeat = 1,
                                              .last = PLENUM_PAD,
                                              .bad = PLENUM_BAD_SUBSTITUTE,
                                              .loader_timeout_ns = 60 * NS_PER_SEC,
                                              .silence_ns = 5 * NS_PER_SEC};
}

int stream_check_share(const struct plenum_share *share, struct plenum_error *err)
{
    uint32_t local = share->num_local_replicas;

    if (local > 0 && local <= share->num_replicas &&
        share->replica_offset <= share->num_replicas - local)
        return 0;
    return error_set(err, -EINVAL,
                     "invalid share: replica_offset %u, num_local_replicas %u, num_replicas %u",
                     share->replica_offset, local, share->num_replicas);
}

int stream_set_job(struct plenum_stream *s, const struct plenum_job_info *info,
                   struct plenum_error *err)
{
    static const struct plenum_job_info alone = {.num_instances = 1,
                                                 .num_local_instances = 1,
                                                 .num_replicas = 1,
                                                 .num_local_replicas = 1,
                                                 .devices_per_replica = 1};
    char program[64];
    int r;

    s->info = info ? *info : alone;
    r = stream_check_share(&(struct plenum_share){.replica_offset = s->info.replica_offset,
                                                  .num_local_replicas = s->info.num_local_replicas,
                                                  .num_replicas = s->info.num_replicas},
                           err);
    if (r < 0)
        return r;
    program_name(program, sizeof(program));
    (void)snprintf(s->name, sizeof(s->name), "%s instance %u of job %.100s (pid %ld)",
                   *program ? program : "program", s->info.instance_index,
                   s->info.job_id ? s->info.job_id : "-", (long)s->pid);
    (void)snprintf(s->job, sizeof(s->job), "%s", s->info.job_id ? s->info.job_id : "");
    return 0;
}

/* If a loader is used over TCP, read its key from the file that PLENUM_LOADER_KEY names. */
static int set_key(struct plenum_stream *s, const struct wanted *w, struct plenum_error *err)
{
    const char *path = getenv("PLENUM_LOADER_KEY");
    int r;

    (void)w;
    if (!loaders_has_remote(s) || !path || !*path)
        return 0;
    r = tls_create_client(path, &s->tls, err);
    return r < 0 ? error_prefix(err, r, "PLENUM_LOADER_KEY") : 0;
}

static int check_values(struct plenum_stream *s, const struct wanted *w, struct plenum_error *err)
{
    const struct plenum_stream_options *o = w->options;
    uint64_t per_step = (uint64_t)s->info.num_replicas * o->micro_batch;

    if (!o->dataset)
        return error_set(err, -EINVAL, "no data set was given");
    if (o->micro_batch == 0 || o->steps == 0)
        return error_set(err, -EINVAL, "micro_batch and steps must be at least 1");
    if (o->prefetch_depth == 0 || o->prefetch_depth > DEPTH_MAX)
        return error_set(err, -EINVAL, "prefetch_depth must be 1 to %d, not %u", DEPTH_MAX,
                         o->prefetch_depth);
    if (per_step > UINT32_MAX)
        return error_set(err, -EINVAL, "a step of %llu samples is too large",
                         (unsigned long long)per_step);
    if ((unsigned)o->dtype > PLENUM_UINT8 || (unsigned)o->layout > PLENUM_NCHW ||
        (unsigned)o->last > PLENUM_DROP || (unsigned)o->bad > PLENUM_BAD_FAIL ||
        (unsigned)o->split > PLENUM_SPLIT_FILE || (unsigned)o->deal > PLENUM_DEAL_ROUND_ROBIN)
        return error_set(err, -EINVAL,
                         "dtype, layout, last, bad, split or deal has an invalid value");
    return o->repeat == 0 ? error_set(err, -EINVAL, "repeat must be at least 1") : 0;
}

static int set_subset(struct plenum_stream *s, const struct wanted *w, struct plenum_error *err)
{
    return w->options->subset ? order_parse_subset(w->options->subset, &s->open.subset, err) : 0;
}

static int set_waits(struct plenum_stream *s, const struct wanted *w, struct plenum_error *err)
{
    s->loader_timeout_ns = w->options->loader_timeout_ns;
    s->silence_ns = w->options->silence_ns;
    if (s->silence_ns < 10 * NS_PER_MS)
        return error_set(err, -EINVAL, "silence_ns must be at least 10 ms");
    return 0;
}

/* Check the options for which a plan has its own lines or words. */
static int check_beside_plan(const struct plenum_stream_options *o, struct plenum_error *err)
{
    if (o->split == PLENUM_SPLIT_FILE)
        return error_set(err, -EINVAL, "a mixture of data sets has no parts: split = file");
    if (o->shuffle && strcmp(o->shuffle, "global") != 0)
        return error_set(err, -EINVAL,
                         "shuffle = %s: a plan of data sets has one for each set: write shuffle=%s "
                         "in the lines of sets",
                         o->shuffle, o->shuffle);
    if (o->repeat > 1)
        return error_set(
            err, -EINVAL,
            "repeat = %u: a plan of data sets has one for each set: write repeat=%u in "
            "the lines of sets",
            o->repeat, o->repeat);
    if (o->subset)
        return error_set(err, -EINVAL,
                         "subset = %s: a plan selects samples for each set: a list file names any "
                         "samples",
                         o->subset);
    return 0;
}

/* Use the text of a plan, which was given as the data set's name. */
static int set_plan(struct plenum_stream *s, const struct wanted *w, const char *text,
                    const char *here, struct plenum_error *err)
{
    int r = check_beside_plan(w->options, err);

    if (r == 0)
        r = orderplan_parse(text, here, &s->plan, err);
    if (r < 0)
        return r;
    s->first_plan = s->plan;
    memcpy(s->open.plan, s->plan->text, sizeof(s->open.plan));
    (void)orderplan_describe(s->plan, s->open.dataset, sizeof(s->open.dataset));
    return 0;
}

/* Set the data set's name, or its plan. Loaders have their own working directory, so make the path
 * absolute: "folder:x" -> "folder:/here/x". */
static int set_dataset(struct plenum_stream *s, const struct wanted *w, struct plenum_error *err)
{
    char here[WIRE_DATASET_MAX] = "", *name;
    bool plan;
    int r = orderplan_read(w->options->dataset, &name, err);

    if (r < 0)
        return r;
    plan = orderplan_is(name);
    /* The current folder may have been removed, which matters to relative paths only. */
    if (*name && (plan || !dataname_is_absolute(name)) && !getcwd(here, sizeof(here)))
        r = error_set(err, -errno, "cannot find the current folder: %s", strerror(errno));
    else if (plan)
        r = set_plan(s, w, name, here, err);
    else
        r = dataname_make_absolute(name, here, s->open.dataset, sizeof(s->open.dataset), err);
    free(name);
    return r;
}

static int set_pipeline(struct plenum_stream *s, const struct wanted *w, struct plenum_error *err)
{
    int r = views_parse(w->options->pipeline ? w->options->pipeline : "", &s->views, err);

    if (r < 0)
        return r;
    wire_open_set_views(&s->open, &s->views);
    s->open.geometry = true;
    return 0;
}

static int set_shuffle(struct plenum_stream *s, const struct wanted *w, struct plenum_error *err)
{
    return order_parse_shuffle(w->options->shuffle ? w->options->shuffle : "global",
                               &s->open.shuffle, &s->open.block, err);
}

static int set_fields(struct plenum_stream *s, const struct wanted *w, struct plenum_error *err)
{
    int r = fields_parse(w->options->fields ? w->options->fields : "", &s->fields, err);

    if (r < 0)
        return r;
    memcpy(s->open.fields, s->fields.text, sizeof(s->open.fields));
    return views_check_fields(&s->views, &s->fields, err);
}

static int set_numbers(struct plenum_stream *s, const struct wanted *w, struct plenum_error *err)
{
    static const uint8_t nothing[16];
    const struct plenum_stream_options *o = w->options;
    struct wire_open *open = &s->open;
    /* Two batches per loader keep it busy while it sends one and receives the next request. */
    unsigned count = loaders_count(s), each = count > 1 ? 2 * count : 0;

    (void)err;
    s->depth = o->prefetch_depth > each ? o->prefetch_depth : each;
    s->epochs = o->epochs;
    s->split = o->split;
    s->on_ring = o->on_ring;
    s->on_ring_arg = o->on_ring_arg;
    open->slots = s->depth + EXTRA_SLOTS;
    open->seed = o->seed;
    open->last = o->last == PLENUM_DROP ? ORDER_DROP : ORDER_PAD;
    open->bad = o->bad;
    open->per_step = s->info.num_replicas * o->micro_batch;
    open->offset = s->info.replica_offset * o->micro_batch;
    open->local = s->info.num_local_replicas * o->micro_batch;
    open->steps = o->steps;
    open->dtype = o->dtype;
    open->layout = o->layout;
    open->channels = o->channels;
    open->repeat = o->repeat;
    open->deal = o->deal == PLENUM_DEAL_ROUND_ROBIN ? o->micro_batch : 0;
    if (s->plan) /* the whole plan: instances must also agree on its later pieces */
        stream_identity(s, (struct order_place){.position = UINT64_MAX}, s->choices);
    else
        identity_of(nothing, 0, open, s->choices);
    return 0;
}

/* With split = file, use only this instance's part of the data set, which is a separate data
 * set. */
static int set_part(struct plenum_stream *s, const struct wanted *w, struct plenum_error *err)
{
    char made[WIRE_DATASET_MAX];
    int r;

    (void)w;
    if (s->split != PLENUM_SPLIT_FILE)
        return 0;
    r = dataname_make_part(s->open.dataset, s->info.instance_index, s->info.num_instances, made,
                           sizeof(made), err);
    if (r < 0)
        return r;
    memcpy(s->open.dataset, made, strlen(made) + 1);
    s->open.seed = order_part_seed(s->open.seed, s->info.instance_index);
    s->open.per_step = s->open.local;
    s->open.offset = 0;
    return 0;
}

/* Read PLENUM_SOURCE, which measures an unchanged program with generated pixels instead of decoded
 * ones, or without any loader. */
static int set_source(struct plenum_stream *s, const struct wanted *w, struct plenum_error *err)
{
    static const char generated[] = "generated:";
    const char *source = w->trial->source ? w->trial->source : getenv("PLENUM_SOURCE");
    size_t len = strlen(s->open.dataset);

    if (!source || !*source || strcmp(source, "real") == 0)
        return 0;
    if (strcmp(source, "synthetic") == 0) {
        s->synthetic = true;
        return 0;
    }
    if (strcmp(source, "generated") != 0)
        return error_set(err, -EINVAL, "PLENUM_SOURCE=%s: it must be real, generated or synthetic",
                         source);
    if (s->plan) {
        int r = orderplan_generate(s->plan, err);

        if (r == 0)
            memcpy(s->open.plan, s->plan->text, sizeof(s->open.plan));
        return r;
    }
    if (strncmp(s->open.dataset, generated, strlen(generated)) == 0)
        return 0;
    if (len + sizeof(generated) > sizeof(s->open.dataset))
        return error_set(err, -EINVAL, "the data set's name is too long");
    memmove(s->open.dataset + strlen(generated), s->open.dataset, len + 1);
    memcpy(s->open.dataset, generated, strlen(generated));
    return 0;
}

static int set_slot(struct plenum_stream *s, const struct wanted *w, struct plenum_error *err)
{
    (void)w;
    if (wire_slot_init(&s->open, &s->layout) < 0)
        return error_set(err, -EINVAL, "a batch of more than 1 TiB was requested");
    s->open.slot_bytes = s->layout.bytes;
    return wire_open_check(&s->open, err);
}

/* Read PLENUM_VERIFY_BATCHES: the percentage of batches to render on two loaders and compare. */
static int set_verify(struct plenum_stream *s, const struct wanted *w, struct plenum_error *err)
{
    const char *text = w->trial->verify ? w->trial->verify : getenv("PLENUM_VERIFY_BATCHES");

    if (!text || !*text)
        return 0;
    if (parse_percent(text, &s->verify_share) < 0)
        return error_set(err, -EINVAL,
                         "PLENUM_VERIFY_BATCHES=%s: it must be a percentage from 0 to 100", text);
    if (s->verify_share > 0 && loaders_count(s) < 2)
        stream_warn(s,
                    "PLENUM_VERIFY_BATCHES: no batch is verified, because that takes two loaders");
    return 0;
}

/* The steps are run in this order: a step may use what earlier ones have set, and the first error
 * is returned. */
static int (*const steps[])(struct plenum_stream *s, const struct wanted *w,
                            struct plenum_error *err) = {
    set_key,      /* key for loaders over TCP */
    check_values, /* numbers and enums in all options */
    set_subset,   /* part of the order */
    set_waits,    /* how long to wait for loaders */
    set_dataset,  /* the data set's absolute name */
    set_pipeline, /* the pipeline and its views */
    set_shuffle,  /* part of the order */
    set_fields,   /* some follow the pipeline's pixels */
    set_numbers,  /* the counts, and the identity without the data set */
    set_part,     /* changes the data set's name, the seed and the step */
    set_source,   /* changes the data set's name */
    set_slot,     /* the slot's layout, which follows from all options */
    set_verify,   /* last, because it may warn */
};

int stream_set_options(struct plenum_stream *s, const struct plenum_stream_options *options,
                       const struct stream_trial *trial, struct plenum_error *err)
{
    const struct wanted wanted = {.options = options, .trial = trial};
    int r = 0;

    assert(lock_is_held(&s->mu));
    for (size_t i = 0; i < ARRAY_LEN(steps) && r >= 0; i++)
        r = steps[i](s, &wanted, err);
    assert(r < 0 || s->open.slot_bytes > 0);
    return r;
}
