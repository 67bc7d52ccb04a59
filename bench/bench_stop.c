/* SPDX-License-Identifier: MIT */
/* bench_stop.c - bench/stop: measures plenum_job_should_stop() while no stop is being agreed on.
 *
 *     bench/stop [CALLS]        20,000,000 by default
 *
 * This process is the only instance of a job, with the page that a shim would share with it. */
#include "config.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <plenum/plenum.h>

#include "common/job/stop_page.h"
#include "common/util/util.h"

enum { ROUNDS = 11 };

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double measure(struct plenum_job *job, uint64_t *step, uint64_t calls)
{
    uint64_t begun = time_now_ns();

    for (uint64_t i = 0; i < calls; i++) {
        if (plenum_job_should_stop(job, (*step)++, NULL) != 0) {
            fprintf(stderr, "stop: plenum_job_should_stop() failed, or asked for a stop\n");
            exit(1);
        }
    }
    return (double)(time_now_ns() - begun) / (double)calls;
}

int main(int argc, char **argv)
{
    uint64_t calls = argc > 1 ? strtoull(argv[1], NULL, 10) : 20000000, step = 0;
    char path[STOP_PATH_MAX];
    struct stop_keeper *keeper;
    struct plenum_job *job;
    struct plenum_error err;
    double ns[ROUNDS];

    if (stop_keeper_create(0, 1, &keeper, path) < 0 || setenv(STOP_PAGE_VARIABLE, path, 1) < 0) {
        fprintf(stderr, "stop: no shared page\n");
        return 1;
    }
    if (plenum_job_open(&job, &err) < 0 || plenum_job_should_stop(job, step++, &err) < 0) {
        fprintf(stderr, "stop: %s\n", err.text);
        return 1;
    }
    for (int i = 0; i < ROUNDS; i++)
        ns[i] = measure(job, &step, calls / ROUNDS + 1);
    qsort(ns, ROUNDS, sizeof(ns[0]), compare);
    printf("plenum_job_should_stop: %.1f ns per call (%.1f to %.1f), %llu calls\n", ns[ROUNDS / 2],
           ns[0], ns[ROUNDS - 1], (unsigned long long)step);
    if (stop_page_get_asked(keeper->page) != step) {
        fprintf(stderr, "stop: the page does not have the last step\n");
        return 1;
    }
    plenum_job_close(job);
    stop_keeper_destroy(keeper);
    return 0;
}
