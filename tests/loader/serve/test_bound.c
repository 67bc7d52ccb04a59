/* SPDX-License-Identifier: MIT */
/* Tests bound_find(), which finds a stream's limiting factor. */
#include "config.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>

#include "loader/serve/bound.h"

enum { US = 1000, SHARE = 10000 /* a hundredth */ };

struct bound_case {
    char why[64];
    struct bound_load load;
    enum wire_bound want;
};

/* Times of 1000 samples. */
#define TIMES(render_us, cpu_us)                                                             \
    .samples = 1000, .render_ns = 1000ULL * (render_us)*US, .cpu_ns = 1000ULL * (cpu_us)*US, \
    .all_render_ns = 1000ULL * (render_us)*US, .all_cpu_ns = 1000ULL * (cpu_us)*US

ParameterizedTestParameters(bound, find)
{
    static struct bound_case cases[] = {
        {"nothing is requested", {.samples = 0}, WIRE_BOUND_IDLE},
        {"the program hardly waits", {TIMES(700, 690), .waited = SHARE}, WIRE_BOUND_TRAINER},
        {"the program hardly waits, and the host is busy",
         {TIMES(7000, 690), .waited = SHARE},
         WIRE_BOUND_TRAINER},
        {"reading",
         {TIMES(700, 690), .waited = 30 * SHARE, .reading = 80 * SHARE},
         WIRE_BOUND_STORAGE},
        {"all threads decode",
         {TIMES(700, 690), .waited = 30 * SHARE, .rendering = 95 * SHARE},
         WIRE_BOUND_DECODE},
        {"no tokens are left",
         {TIMES(700, 690), .waited = 30 * SHARE, .rendering = 10 * SHARE, .resting = 50 * SHARE},
         WIRE_BOUND_CPU},
        {"threads share their CPUs",
         {TIMES(1000, 700), .waited = 30 * SHARE, .rendering = 95 * SHARE},
         WIRE_BOUND_CPU},
        {"a busy host, whose threads seldom find work",
         {TIMES(1519, 676), .waited = 30 * SHARE, .rendering = 12 * SHARE},
         WIRE_BOUND_CPU},
        {"a busy host, used by this stream alone",
         {.samples = 1000,
          .render_ns = 1519 * US,
          .cpu_ns = 676 * US,
          .all_render_ns = 100,
          .all_cpu_ns = 100,
          .waited = 30 * SHARE,
          .rendering = 12 * SHARE},
         WIRE_BOUND_CPU},
        {"a free host",
         {TIMES(700, 690), .waited = 30 * SHARE, .rendering = 12 * SHARE},
         WIRE_BOUND_TRANSPORT},
        {"less waiting than decoding",
         {TIMES(1300, 676), .waited = 30 * SHARE, .rendering = 12 * SHARE},
         WIRE_BOUND_TRANSPORT},
        {"no sample was finished", {.samples = 0, .waited = 90 * SHARE}, WIRE_BOUND_TRANSPORT},
    };

    return cr_make_param_array(struct bound_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct bound_case *c, bound, find)
{
    cr_expect(eq(int, (int)bound_find(&c->load), (int)c->want), "%s", c->why);
}
