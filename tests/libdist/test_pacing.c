/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/job/stop_page.h"
#include "common/util/util.h"
#include "libdist/pacing.h"

static const struct plenum_job_info info = {.instance_index = 1, .num_instances = 4};
static struct stop_keeper *keeper;
static struct pace *pace;

static void make(void)
{
    char path[STOP_PATH_MAX];

    cr_assert(eq(int, stop_keeper_create(1, 4, &keeper, path), 0));
    cr_assert(eq(int, setenv(STOP_PAGE_VARIABLE, path, 1), 0));
    pace = &keeper->page->pace;
    cr_assert(ne(ptr, pacing_open(&info), NULL));
}

static void expect_steps(uint64_t *seen, size_t count, const struct pace_step *want)
{
    struct pace_step got[PACE_STEPS];

    cr_assert(eq(sz, pace_read(pace, seen, got), count));
    for (size_t i = 0; i < count; i++) {
        cr_expect(eq(u64, got[i].step, want[i].step), "%zu", i);
        cr_expect(eq(u64, got[i].own_ns, want[i].own_ns), "own time of %zu", i);
        cr_expect(eq(u64, got[i].wait_ns, want[i].wait_ns), "wait of %zu", i);
    }
}

static const struct trace_batch batch = {
    .asked_ns = 1000,
    .done_ns = 1900,
    .done = {.read_ns = 300, .render_ns = 200, .total_ns = 600, .rest_ns = 50}};

Test(pacing, a_steps_time_is_its_own_or_a_wait_or_spent_in_collectives)
{
    uint64_t seen = 0;

    make();
    pacing_begin_step(7, 1000);
    pacing_wait(1010);
    pacing_take(1010, 1060, true, &batch, 8);
    pacing_arrive(1200);
    pacing_depart(1500);
    cr_expect(eq(u64, atomic_load(&pace->active_ns), 1500));
    expect_steps(&seen, 0, NULL);
    pacing_begin_step(8, 1510);
    expect_steps(&seen, 1, (const struct pace_step[]){{7, 160, 50}});
    pacing_begin_step(8, 1520); /* it asks again: the step continues */
    pacing_take(1520, 1530, true, NULL, 0);
    pacing_take(1540, 1550, true, &batch, 8);
    pacing_begin_step(9, 1610);
    expect_steps(&seen, 1, (const struct pace_step[]){{8, 80, 20}});
    cr_expect(eq(u64, atomic_load(&pace->step), 10));
    stop_keeper_destroy(keeper);
}

Test(pacing, without_steps_of_its_own_a_program_is_paced_by_batches)
{
    uint64_t seen = 0;

    make();
    pacing_take(100, 150, true, &batch, 8); /* batch 0 */
    pacing_take(300, 310, true, NULL, 0);   /* requested at 300 */
    pacing_take(310, 330, true, &batch, 8); /* batch 1 */
    pacing_take(400, 400, false, NULL, 0);  /* polls without waiting */
    pacing_take(500, 500, false, &batch, 8);
    expect_steps(&seen, 2, (const struct pace_step[]){{0, 150, 50}, {1, 170, 30}});
    /* From now on its own steps count. */
    pacing_begin_step(5, 600);
    pacing_take(610, 620, true, &batch, 8);
    pacing_begin_step(6, 700);
    expect_steps(&seen, 1, (const struct pace_step[]){{5, 90, 10}});
    stop_keeper_destroy(keeper);
}

Test(pacing, loaders_times_are_summed)
{
    make();
    pacing_take(100, 150, true, &batch, 8);
    pacing_take(200, 250, true, &batch, 8);
    pacing_take(300, 350, true, &(struct trace_batch){.done_ns = 5}, 8); /* no loader rendered it */
    cr_expect(eq(u64, atomic_load(&pace->batches), 2));
    cr_expect(eq(u64, atomic_load(&pace->samples), 16));
    cr_expect(eq(u64, atomic_load(&pace->read_ns), 600));
    cr_expect(eq(u64, atomic_load(&pace->render_ns), 400));
    cr_expect(eq(u64, atomic_load(&pace->rest_ns), 100));
    cr_expect(eq(u64, atomic_load(&pace->network_ns), 600));
    stop_keeper_destroy(keeper);
}

Test(pacing, short_steps_are_recorded_as_means_at_multiples_of_the_stride)
{
    uint64_t seen = 0;

    make();
    atomic_store(&pace->stride, 4);
    for (uint64_t step = 6; step <= 13; step++)
        pacing_begin_step(step, 100 * step + step * step);
    /* Step k takes 100 + 2k + 1. */
    expect_steps(&seen, 2, (const struct pace_step[]){{8, 115, 0}, {12, 122, 0}});
    stop_keeper_destroy(keeper);
}

Test(pacing, a_late_reader_gets_the_last_steps)
{
    struct pace_step got[PACE_STEPS];
    uint64_t seen = 0;
    size_t count;

    make();
    for (uint64_t step = 0; step <= 100; step++)
        pacing_begin_step(step, 10 * step + 10);
    count = pace_read(pace, &seen, got);
    /* The program may be about to overwrite the oldest. */
    cr_assert(eq(sz, count, PACE_STEPS - 1));
    for (size_t i = 0; i < count; i++)
        cr_expect(eq(u64, got[i].step, 100 - count + i));
    cr_expect(eq(u64, seen, 100));
    cr_expect(eq(sz, pace_read(pace, &seen, got), 0));
    stop_keeper_destroy(keeper);
}

/* Run in a forked child. */
static int act_in_child(void)
{
    pacing_begin_step(50, 5000); /* it has not opened the page: ignored */
    if (atomic_load(&pace->active_ns) != 1000)
        return 1;
    if (!pacing_open(&info))
        return 2;
    pacing_take(6000, 6001, true, &batch, 8);
    pacing_take(6010, 6011, true, &batch, 8);
    return atomic_load(&pace->active_ns) == 6011 ? 0 : 3;
}

Test(pacing, a_child_is_active_but_records_no_steps)
{
    uint64_t seen = 0;
    int status;
    pid_t pid;

    make();
    pacing_begin_step(1, 1000);
    pid = fork();
    if (pid == 0)
        _exit(act_in_child());
    cr_assert(eq(int, waitpid(pid, &status, 0), pid));
    cr_assert(eq(int, status, 0));
    expect_steps(&seen, 0, NULL);
    pacing_begin_step(2, 7000);
    expect_steps(&seen, 1, (const struct pace_step[]){{1, 6000, 0}});
    stop_keeper_destroy(keeper);
}

Test(pacing, the_place_of_an_ended_process_is_taken)
{
    int status;
    pid_t pid;

    make();
    atomic_store(&pace->writer, 0);
    pid = fork();
    if (pid == 0)
        _exit(pace_claim(pace) == 0 ? 0 : 1);
    cr_assert(eq(int, waitpid(pid, &status, 0), pid));
    cr_assert(eq(int, status, 0));
    cr_expect(eq(i32, atomic_load(&pace->writer), pid));
    cr_expect(eq(int, pace_claim(pace), 0));
    cr_expect(eq(i32, atomic_load(&pace->writer), getpid()));
    atomic_store(&pace->writer, (int32_t)getppid());
    cr_expect(eq(int, pace_claim(pace), -EBUSY));
    stop_keeper_destroy(keeper);
}

Test(pacing, without_a_page_nothing_happens)
{
    (void)unsetenv(STOP_PAGE_VARIABLE);
    cr_expect(eq(ptr, pacing_open(&info), NULL));
    pacing_begin_step(1, 1);
    pacing_wait(2);
    pacing_take(2, 3, true, &batch, 1);
    pacing_arrive(4);
    pacing_depart(5);
}
