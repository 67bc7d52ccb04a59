/* SPDX-License-Identifier: MIT */
/* together.c - opens a stream in all instances of a job.
 *
 * Each instance opens its stream, but requests nothing yet. Then all exchange their results (one
 * allgather) and draw the same conclusion from the same facts: continue, or fail with the same
 * error. So no instance is left waiting in a collective for one that has failed. */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <plenum/comm.h>

#include "common/util/error_set.h"
#include "common/util/util.h"
#include "libdist/collectives/comm_priv.h"
#include "libdist/stream_core.h"
#include "libdist/stream_open.h"
#include "libdist/together.h"

static void tell(struct together *t, const struct plenum_stream *s, int code,
                 const struct plenum_error *err)
{
    *t = (struct together){.code = code};
    (void)gethostname(t->host, sizeof(t->host) - 1);
    if (code < 0) {
        (void)snprintf(t->text, sizeof(t->text), "%.*s", (int)sizeof(t->text) - 1, err->text);
        return;
    }
    memcpy(t->choices, s->choices, sizeof(t->choices));
    if (s->plan) /* with the weights of samples, which only loaders know */
        stream_identity(s, (struct order_place){.position = UINT64_MAX}, t->choices);
    t->split = s->split;
    t->per_step = s->open.per_step;
    t->deal = s->open.deal;
    t->steps = order_steps_whole(&s->steps);
    t->last = s->open.last;
    t->epochs = s->epochs;
    t->sum = s->sum;
    memcpy(t->fields, s->fields_hash, sizeof(t->fields));
}

/* Format an instance's name, such as "instance 3 (host b)". */
static const char *name_of(const struct together *all, uint32_t i, char *text, size_t size)
{
    (void)snprintf(text, size, "instance %u (host %s)", i, all[i].host);
    return text;
}

static const char *hex_of(const struct datasum *sum, char text[33])
{
    uint8_t fingerprint[16];

    datasum_fingerprint(sum, fingerprint);
    return datasum_hex(fingerprint, text);
}

/* Report how instance `i` differs from instance 0. */
static int compare(const struct together *all, uint32_t i, struct plenum_error *err)
{
    const struct together *a = &all[0], *b = &all[i];
    char one[100], two[100], difference[200], hex[2][33];

    (void)name_of(all, 0, one, sizeof(one));
    (void)name_of(all, i, two, sizeof(two));
    if (memcmp(a->choices, b->choices, sizeof(a->choices)) != 0 || a->split != b->split ||
        a->epochs != b->epochs)
        return error_set(err, -EINVAL,
                         "%s and %s request different streams: pipeline, seed, shuffle, last, "
                         "subset, repeat, split, epochs or plans differ",
                         one, two);
    if (a->split == PLENUM_SPLIT_FILE) {
        if (a->sum.class_names != b->sum.class_names)
            return error_set(
                err, -EINVAL,
                "the parts of %s and %s have different named classes, so the same label would have "
                "different meanings: with split = file, labels must be numbers",
                one, two);
        return 0;
    }
    if (a->per_step != b->per_step)
        return error_set(err, -EINVAL,
                         "%s takes steps of %u samples and %s of %u: micro_batch differs", one,
                         a->per_step, two, b->per_step);
    if (a->deal != b->deal)
        return error_set(err, -EINVAL,
                         "%s and %s divide steps differently: micro_batch or deal differs", one,
                         two);
    if (datasum_difference(&a->sum, &b->sum, difference, sizeof(difference))[0])
        return error_set(err, -ESTALE, "the data sets of %s and %s differ: %s (%s and %s)", one,
                         two, difference, hex_of(&a->sum, hex[0]), hex_of(&b->sum, hex[1]));
    if (memcmp(a->fields, b->fields, sizeof(a->fields)) != 0)
        return error_set(err, -ESTALE,
                         "%s and %s have different fields: they request different ones, or their "
                         "data sets differ",
                         one, two);
    return 0;
}

int together_agree(const struct together *all, uint32_t count, struct together_result *ret,
                   struct plenum_error *err)
{
    struct together_result agreed = {.steps = all[0].steps,
                                     .classes = (uint32_t)all[0].sum.classes};
    char name[100];
    int r;

    for (uint32_t i = 0; i < count; i++)
        if (all[i].code < 0)
            return error_set(err, all[i].code, "%s: %s", name_of(all, i, name, sizeof(name)),
                             all[i].text);
    for (uint32_t i = 1; i < count; i++) {
        r = compare(all, i, err);
        if (r < 0)
            return r;
        agreed.steps = all[0].last == ORDER_DROP ? min_u64(agreed.steps, all[i].steps)
                                                 : max_u64(agreed.steps, all[i].steps);
        agreed.classes = (uint32_t)max_u64(agreed.classes, all[i].sum.classes);
    }
    *ret = agreed;
    return 0;
}

int plenum_stream_open_all(struct plenum_job *job, const struct plenum_stream_options *options,
                           struct plenum_stream **ret, struct plenum_error *err)
{
    const struct plenum_job_info *info = plenum_job_get_info(job);
    struct plenum_stream *s = NULL;
    struct plenum_error own;
    struct together mine, *all;
    struct together_result agreed;
    int r = stream_open(info, options, NULL, true, &s, &own);

    if (r < 0 && info->num_instances == 1) /* there are no other instances */
        return error_set(err, r, "%s", own.text);
    tell(&mine, s, r, &own);
    all = comm_gather(job, "stream_open_all", &mine, sizeof(mine), &r, err);
    assert(all || r < 0);
    if (all)
        r = together_agree(all, info->num_instances, &agreed, err);
    free(all);
    assert(r <= 0); /* the manual documents this for both functions */
    if (r < 0) {
        plenum_stream_destroy(s);
        return r;
    }
    if (options->split == PLENUM_SPLIT_FILE)
        s->num_classes = agreed.classes;
    stream_release(s, options->split == PLENUM_SPLIT_FILE ? agreed.steps * s->open.per_step : 0);
    *ret = s;
    return 0;
}
