/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/util/util.h"
#include "launcher/job/pause.h"

Test(pause, grows_while_programs_fail_quickly)
{
    static const unsigned want[] = {0, 1, 2, 4, 8, 16, 32, 60, 60};
    struct pause pause = {0};

    for (size_t i = 0; i < ARRAY_LEN(want); i++)
        cr_expect(eq(uint, pause_next(&pause, true, NS_PER_SEC), want[i]), "failure %zu", i);
    for (unsigned i = 0; i < 100000; i++)
        cr_expect(eq(uint, pause_next(&pause, true, 0), 60));
}

Test(pause, starts_over_after_a_long_run)
{
    struct pause pause = {0};

    for (int i = 0; i < 5; i++)
        (void)pause_next(&pause, true, 0);
    cr_expect(eq(uint, pause_next(&pause, true, 599 * NS_PER_SEC), 16));
    cr_expect(eq(uint, pause_next(&pause, true, 600 * NS_PER_SEC), 0));
    cr_expect(eq(uint, pause_next(&pause, true, 0), 1));
}

Test(pause, waits_for_hosts)
{
    static const unsigned want[] = {5, 10, 20, 40, 60, 60};
    struct pause pause = {0};

    for (size_t i = 0; i < ARRAY_LEN(want); i++)
        cr_expect(eq(uint, pause_next(&pause, false, 0), want[i]), "attempt %zu", i);
    cr_expect(eq(uint, pause_next(&pause, true, 0), 0),
              "the job ran in between, so there must be no pause");
    cr_expect(eq(uint, pause_next(&pause, false, 0), 5));
}
