/* SPDX-License-Identifier: MIT */
/* plan_jobs.c - predicts the CPU time of K jobs that share renderings.
 *
 * The first job renders every sample. Each of the other K - 1 copies the share f of the samples
 * that the memory covers, and renders the rest:
 *
 *     CPU time of K jobs / CPU time of one = 1 + (K - 1) * ((1 - f) + f * copy / rendering)
 *     f = min(1, memory / (spread * bytes))
 *
 * A rendering that is kept for the last job is kept for `spread` positions, hence f. It holds if
 * the jobs are equally far apart; otherwise the loader, which keeps the renderings that are needed
 * soonest, copies more than that. */
#include "config.h"

#include "loader/ctl/plan_jobs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/message.h"
#include "common/util/util.h"
#include "loader/image/image.h"

enum {
    OVERHEAD = 512,          /* an upper bound for the memory of a rendering beside its pixels */
    HANDLING_NS = 15000,     /* requests, locks and wake-ups of a copied sample (bench/sweep) */
    SLOTS_BYTES = 128 << 20, /* more than a processor's caches have */
    COPIES = 500,
    QUARTERS = 4,
};

static int check(const struct render_spec *spec, struct plenum_error *err)
{
    const char *why = render_cannot_share(spec);

    return why ? error_set(err, -EINVAL, "these jobs would share no pixels, because %s", why) : 0;
}

/* Store the planes of one sample into a slot, image by image. */
static void copy_one(const struct render_spec *spec, const uint8_t *planes, uint8_t *slot)
{
    const struct views *views = &spec->views;

    for (uint32_t i = 0; i < views->count; i++) {
        const struct pipeline *pipeline = &views->view[i].pipeline;
        size_t pixels = (size_t)pipeline->width * pipeline->height;

        for (uint32_t k = 0; k < views->view[i].count; k++) {
            image_store_planes(planes, pixels, &spec->store, slot);
            planes += 3 * pixels;
            slot += 3 * pixels;
        }
    }
}

/* Measure the time of a copy into slots that are in no cache. */
static int measure_copy(const struct render_spec *spec, struct plan_jobs *plan,
                        struct plenum_error *err)
{
    uint64_t bytes = render_bytes(spec), slots = max_u64(SLOTS_BYTES / bytes, 1), begin;
    uint8_t *planes = calloc(1, bytes), *room = malloc(slots * bytes);
    int r = 0;

    if (planes && room) {
        memset(room, 1, slots * bytes); /* so that no page fault is measured */
        begin = time_cpu_ns();
        for (uint64_t i = 0; i < COPIES; i++)
            copy_one(spec, planes, room + i % slots * bytes);
        plan->copy_ns = (time_cpu_ns() - begin) / COPIES + HANDLING_NS;
    } else {
        r = error_set(err, -ENOMEM, "out of memory");
    }
    free(planes);
    free(room);
    return r;
}

int plan_jobs_find(const char *dataset, const struct ctl_stream_args *args, struct plan_jobs *plan,
                   struct plenum_error *err)
{
    struct ctl_stream s;
    int r = ctl_stream_open(dataset, args, &s, err);

    if (r < 0)
        return r;
    r = check(&s.spec, err);
    if (r == 0) {
        plan->bytes = render_bytes(&s.spec) + render_field_bytes(&s.spec) + OVERHEAD;
        r = measure_copy(&s.spec, plan, err);
    }
    ctl_stream_close(&s);
    return r;
}

/* Returns the memory that covers some quarters of the spread. */
static uint64_t memory_of(const struct plan_jobs *plan, uint64_t quarters)
{
    uint64_t all = plan->spread * plan->bytes;

    return quarters == QUARTERS ? all : all / QUARTERS * quarters;
}

/* Returns the share of renderings that is kept until the last job has taken it. */
static double share_of(const struct plan_jobs *plan, uint64_t share_memory)
{
    uint64_t most = memory_of(plan, QUARTERS);

    return share_memory < most ? (double)share_memory / (double)most : 1;
}

double plan_jobs_cpu(const struct plan_jobs *plan, uint64_t share_memory)
{
    double f = share_of(plan, share_memory);
    double copy = (double)plan->copy_ns / (double)max_u64(plan->image_ns, 1);

    return 1 + (plan->jobs - 1) * ((1 - f) + f * copy);
}

static void print_row(const struct plan_jobs *plan, uint64_t memory)
{
    double cpu = plan_jobs_cpu(plan, memory);
    char bytes[32];

    printf("%12s %9.0f%% %17.2f %6.2f\n", format_bytes(memory, bytes, sizeof(bytes)),
           100 * share_of(plan, memory), cpu, plan->jobs / cpu);
}

void plan_jobs_print(const struct plan_jobs *plan)
{
    char bytes[32];

    printf("%u jobs show the same pixels, at most %llu samples apart\n"
           "a rendering takes %.0f us and %s, a copy %.0f us\n\n"
           "share-memory     copied  CPU (one job: 1)   gain\n",
           plan->jobs, (unsigned long long)plan->spread, (double)plan->image_ns / 1e3,
           format_bytes(plan->bytes, bytes, sizeof(bytes)), (double)plan->copy_ns / 1e3);
    for (uint64_t i = 0; i <= QUARTERS; i++)
        print_row(plan, memory_of(plan, i));
    if (plan->share_memory > 0) {
        printf("\nwith --share-memory:\n");
        print_row(plan, plan->share_memory);
    }
}

static void json_row(const struct plan_jobs *plan, struct json *j, uint64_t memory)
{
    double cpu = plan_jobs_cpu(plan, memory);

    json_begin_object(j, NULL, JSON_FLAT);
    json_number(j, "share_memory", memory);
    json_real(j, "copied", share_of(plan, memory), 6);
    json_real(j, "cpu_of_one", cpu, 6);
    json_real(j, "gain", plan->jobs / cpu, 6);
    json_end_object(j);
}

void plan_jobs_json(const struct plan_jobs *plan, struct json *j)
{
    json_begin_object(j, "sharing", JSON_LINES);
    json_number(j, "jobs", plan->jobs);
    json_number(j, "spread", plan->spread);
    json_real(j, "image_us", (double)plan->image_ns / 1e3, 3);
    json_real(j, "copy_us", (double)plan->copy_ns / 1e3, 3);
    json_number(j, "rendering_bytes", plan->bytes);
    json_begin_array(j, "rows", JSON_LINES);
    for (uint64_t i = 0; i <= QUARTERS; i++)
        json_row(plan, j, memory_of(plan, i));
    if (plan->share_memory > 0)
        json_row(plan, j, plan->share_memory);
    json_end_array(j);
    json_end_object(j);
}
