/* SPDX-License-Identifier: MIT */
/* Each end is reported once, with what the instance had reached, and the number of messages depends
 * on time, not on the number of instances. */
#include "config.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>

#include "launcher/job/departures.h"

enum { ALL = 8192 };

/* Take one round. Each instance of a batch must have ended, and must not have been reported before;
 * `reached` is 1 + what each had reached. Returns the number of batches. */
static int take_round(struct departures *d, uint64_t now, uint64_t *reached)
{
    struct control_departed m;
    int batches = 0;

    while (batches < DEPARTURES_ROUND && departures_take(d, &m)) {
        batches++;
        cr_expect(m.bits[0] & 1, "the first bit must be an instance that has ended");
        cr_assert(le(u64, m.first + 8 * (uint64_t)m.len, ALL + 7));
        for (uint32_t i = 0; i < 8 * m.len; i++) {
            if (!(m.bits[i / 8] & 1 << i % 8))
                continue;
            cr_assert(eq(u64, reached[m.first + i], m.reached + 1), "instance %u", m.first + i);
            reached[m.first + i] = 0;
        }
    }
    departures_told(d, now);
    return batches;
}

static void expect_none(const uint64_t *reached)
{
    for (uint32_t i = 0; i < ALL; i++)
        cr_expect(eq(u64, reached[i], 0), "instance %u has not been reported", i);
}

Test(departures, the_first_is_told_at_once_and_the_others_together)
{
    uint64_t reached[ALL] = {0}, now = 1000;
    struct departures d;

    cr_assert(eq(int, departures_init(&d, ALL), 0));
    cr_expect(eq(u64, d.due_ns, UINT64_MAX), "there is nothing to report");
    reached[4711] = 8;
    departures_note(&d, 4711, 7, now);
    cr_expect(eq(u64, d.due_ns, now));
    cr_expect(eq(int, take_round(&d, now, reached), 1));
    cr_expect(eq(u64, d.due_ns, UINT64_MAX));
    for (uint32_t i = 0; i < ALL; i++) {
        if (i == 4711)
            continue;
        reached[i] = 8;
        departures_note(&d, i, 7, now + i);
        cr_expect(eq(u64, d.due_ns, now + (uint64_t)ALL * DEPARTURES_PAUSE_NS));
    }
    cr_expect(eq(int, take_round(&d, d.due_ns, reached), 1), "one message for 8191 ends");
    cr_expect(eq(u64, d.due_ns, UINT64_MAX));
    expect_none(reached);
    departures_fini(&d);
}

Test(departures, any_number_of_counts_is_told_in_bounded_rounds)
{
    uint64_t reached[ALL] = {0}, now = 1;
    struct departures d;
    uint32_t left = ALL;

    srandom(1);
    cr_assert(eq(int, departures_init(&d, ALL), 0));
    while (left > 0 || d.untold > 0) {
        for (int i = 0; i < 100 && left > 0; i++) {
            uint64_t count = (uint64_t)random() % 20;

            reached[--left] = count + 1;
            departures_note(&d, left, count, now);
        }
        now = d.due_ns;
        cr_assert(ne(u64, now, UINT64_MAX), "an end is to be reported");
        cr_expect(le(int, take_round(&d, now, reached), DEPARTURES_ROUND));
        cr_expect(ge(u64, d.due_ns, now + (uint64_t)ALL * DEPARTURES_PAUSE_NS));
    }
    expect_none(reached);
    departures_fini(&d);
}

Test(departures, a_job_without_reports_needs_no_memory)
{
    struct departures d = {0};

    departures_note(&d, 3, 1, 1);
    departures_fini(&d);
}
