/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/util/util.h"
#include "loader/store/hedge.h"

enum { KB = 1 << 10 };

/* Note `count` requests of this size and time. */
static void note(struct hedge *h, unsigned count, uint64_t len, uint64_t ms)
{
    for (unsigned i = 0; i < count; i++)
        hedge_note(h, len, ms * NS_PER_MS);
}

Test(hedge, nothing_is_late_before_times_are_known)
{
    struct hedge h = {0};

    note(&h, 99, 100 * KB, 30);
    cr_expect(eq(u64, hedge_late_ns(&h, 100 * KB), 0));
    note(&h, 1, 100 * KB, 30);
    cr_expect(gt(u64, hedge_late_ns(&h, 100 * KB), 0));
    cr_expect(eq(u64, hedge_late_ns(&h, 8 << 20), 0), "requests of other sizes are never late");
}

Test(hedge, one_in_a_hundred_is_late)
{
    struct hedge h = {0};

    note(&h, 990, 100 * KB, 100);
    note(&h, 10, 100 * KB, 2000);
    cr_expect(ge(u64, hedge_late_ns(&h, 100 * KB), 100 * NS_PER_MS));
    cr_expect(le(u64, hedge_late_ns(&h, 100 * KB), 130 * NS_PER_MS));
    note(&h, 20, 100 * KB, 2000);
    cr_expect(ge(u64, hedge_late_ns(&h, 100 * KB), 2000 * NS_PER_MS));
}

Test(hedge, fast_requests_have_a_floor)
{
    struct hedge h = {0};

    note(&h, 1000, KB, 1);
    cr_expect(eq(u64, hedge_late_ns(&h, KB), 50 * NS_PER_MS));
}

Test(hedge, old_times_lose_weight)
{
    struct hedge h = {0};

    note(&h, 1000, KB, 5000);
    note(&h, 20000, KB, 60);
    cr_expect(le(u64, hedge_late_ns(&h, KB), 80 * NS_PER_MS));
}

Test(hedge, the_longest_times_are_counted)
{
    struct hedge h = {0};

    note(&h, 100, KB, 1000000);
    cr_expect(ge(u64, hedge_late_ns(&h, KB), 60 * NS_PER_SEC));
}

Test(hedge, budget)
{
    struct hedge h = {0};
    unsigned taken = 0;

    cr_expect(not(hedge_take(&h)));
    for (unsigned i = 0; i < 10000; i++) {
        note(&h, 1, KB, 30);
        taken += hedge_take(&h);
    }
    cr_expect(le(uint, taken, 300));
    cr_expect(ge(uint, taken, 290));
    note(&h, 10000, KB, 30);
    for (taken = 0; hedge_take(&h);)
        taken++;
    cr_expect(eq(uint, taken, 10), "at most ten repeated requests are saved up");
}
