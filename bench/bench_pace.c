/* SPDX-License-Identifier: MIT */
/* bench_pace.c - bench/pace: measures what it costs to find out who is slow.
 *
 *     bench/pace [SECONDS]        20,000 by default
 *
 * It measures the program's part, which is the CPU time of a step with a batch and a collective
 * (100 * SECONDS steps), and the shim's part, which is the CPU time of a report, sent once a second
 * (SECONDS reports), on the first instance of a host and on another one. */
#include "config.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/job/stop_page.h"
#include "common/util/util.h"
#include "launcher/control/pace_report.h"
#include "launcher/host/strain.h"
#include "libdist/pacing.h"

static const struct trace_batch batch = {
    .asked_ns = 1, .done_ns = 9, .done = {.read_ns = 2, .render_ns = 2, .total_ns = 5}};

static double measure_step(uint64_t steps)
{
    uint64_t begun = time_cpu_ns();

    for (uint64_t step = 0; step < steps; step++) {
        pacing_begin_step(step, time_now_ns());
        pacing_wait(time_now_ns());
        pacing_take(time_now_ns(), time_now_ns(), true, &batch, 16);
        pacing_arrive(time_now_ns());
        pacing_depart(time_now_ns());
    }
    return (double)(time_cpu_ns() - begun) / (double)steps;
}

/* Returns the CPU time of one report, in ns; `host`: by the first instance of a host. */
static double measure_report(const struct pace *pace, bool host, uint64_t seconds)
{
    struct pace_step steps[PACE_STEPS];
    struct pace_report report = {.count = PACE_REPORT_STEPS, .stride = 1};
    struct strain *strain;
    uint64_t begun, seen = 0;

    if (strain_create(host, &strain) < 0)
        exit(1);
    begun = time_cpu_ns();
    for (uint64_t s = 0; s < seconds; s++) {
        struct frame_buffer b = {0};

        (void)pace_read(pace, &seen, steps);
        seen = 0;
        strain_read(strain, s * NS_PER_SEC, &report.share[PACE_STRAIN]);
        (void)pace_report_put(&b, &report);
        frame_buffer_fini(&b);
    }
    begun = time_cpu_ns() - begun;
    strain_destroy(strain);
    return (double)begun / (double)seconds;
}

int main(int argc, char **argv)
{
    uint64_t seconds = argc > 1 ? strtoull(argv[1], NULL, 10) : 20000;
    struct plenum_job_info info = {.num_instances = 1};
    struct stop_keeper *keeper;
    char path[STOP_PATH_MAX];
    double step, first, other;

    if (seconds == 0 || stop_keeper_create(0, 1, &keeper, path) < 0 ||
        setenv(STOP_PAGE_VARIABLE, path, 1) < 0 || !pacing_open(&info)) {
        fprintf(stderr, "pace: no shared page\n");
        return 1;
    }
    step = measure_step(100 * seconds);
    first = measure_report(&keeper->page->pace, true, seconds);
    other = measure_report(&keeper->page->pace, false, seconds);
    printf("program: %.0f ns per step: %.4f %% of a core with 10 steps a second\n", step,
           step * 10 / 1e7);
    printf("shim:    %.1f us per second: %.4f %% of a core (the host's first), %.1f us: %.4f %% "
           "(others)\n",
           first / 1e3, first / 1e7, other / 1e3, other / 1e7);
    stop_keeper_destroy(keeper);
    return 0;
}
