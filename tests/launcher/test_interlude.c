/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <signal.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/util/util.h"
#include "launcher/job/interlude.h"

static uint64_t in_an_hour(void)
{
    return time_now_ns() + 3600 * NS_PER_SEC;
}

Test(interlude, ends_the_job_by_sigusr1_unless_its_programs_do_not_obey_it)
{
    cr_assert(eq(int, interlude_open(NULL), 0));
    interlude_set_notices(INTERLUDE_IGNORES);
    (void)raise(SIGUSR1);
    cr_expect(eq(int, interlude_wait(time_now_ns() + NS_PER_MS), 0));
    cr_expect(eq(str, (char *)interlude_get_reason(), ""));
    interlude_set_notices(INTERLUDE_OBEYS);
    (void)raise(SIGUSR1);
    cr_expect(eq(int, interlude_wait(in_an_hour()), SIGUSR1));
    cr_expect(eq(str, (char *)interlude_get_reason(), "SIGUSR1"));
    interlude_close();
}

Test(interlude, remembers_the_first_signal_that_ends_the_job)
{
    cr_assert(eq(int, interlude_open(NULL), 0));
    (void)raise(SIGUSR2);
    cr_expect(eq(int, interlude_look(), 0));
    (void)raise(SIGTERM);
    cr_expect(eq(int, interlude_look(), SIGTERM));
    (void)raise(SIGINT);
    cr_expect(eq(int, interlude_look(), SIGTERM));
    cr_expect(eq(int, interlude_wait(in_an_hour()), SIGTERM));
    cr_expect(eq(str, (char *)interlude_get_reason(), "SIGTERM"));
    interlude_close();
}
