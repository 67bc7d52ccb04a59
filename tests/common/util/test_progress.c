/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/util/progress.h"
#include "common/util/util.h"

static void tells(struct progress *p, const char *what, uint64_t done, uint64_t total,
                  uint64_t seconds, const char *want)
{
    char text[PROGRESS_TEXT];

    cr_expect(
        eq(str, progress_text(p, what, done, total, seconds * NS_PER_SEC, text), (char *)want));
}

Test(progress, reports_progress_rate_and_remaining_time)
{
    struct progress p = {.what = ""};

    tells(&p, "folders", 0, 1000, 5, "folders: 0 of 1000");
    tells(&p, "folders", 100, 1000, 15, "folders: 100 of 1000 (10 %), 10/s, 90 s left");
    tells(&p, "folders", 1000, 1000, 25, "folders: 1000 of 1000 (100 %), 50/s, 0 s left");
    tells(&p, "bytes of archives", 1 << 30, UINT64_C(4) << 30, 30,
          "bytes of archives: 1.0 GiB of 4.0 GiB");
    tells(&p, "bytes of archives", UINT64_C(2) << 30, UINT64_C(4) << 30, 31,
          "bytes of archives: 2.0 GiB of 4.0 GiB (50 %), 1.0 GiB/s, 2 s left");
    tells(&p, "waiting", 0, 0, 32, "waiting");
    tells(&p, "found", 17, 0, 32, "found: 17");
    tells(&p, "slow", 0, 100000, 0, "slow: 0 of 100000");
    tells(&p, "slow", 1, 100000, 1, "slow: 1 of 100000 (0 %), 1/s, 27 h 46 min left");
}
