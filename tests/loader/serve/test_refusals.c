/* SPDX-License-Identifier: MIT */
/* What is said of those who were refused: each reason of each peer once a minute, whatever others
 * do meanwhile. */
#include "config.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/util.h"
#include "loader/serve/refusals.h"

static const uint64_t minute = 60 * NS_PER_SEC, begin = 5 * NS_PER_SEC;
static struct refusals r;

static enum refusals_what add(const char *who, const char *why, uint64_t now, uint32_t untold)
{
    uint32_t got = 77;
    enum refusals_what what = refusals_add(&r, who, why, now, &got);

    cr_expect(eq(u32, got, untold), "%s, %s", who, why);
    return what;
}

Test(refusals, each_reason_of_each_peer_is_said_once_a_minute)
{
    cr_expect(eq(int, add("a", "no key", begin, 0), REFUSALS_SAY));
    cr_expect(eq(int, add("a", "no root", begin + 1, 0), REFUSALS_SAY));
    cr_expect(eq(int, add("b", "no key", begin + 2, 0), REFUSALS_SAY));
    for (unsigned i = 0; i < 1000; i++)
        cr_expect(eq(int, add("a", "no key", begin + i, 0), REFUSALS_SILENT));
    cr_expect(eq(int, add("a", "no key", begin + minute - 1, 0), REFUSALS_SILENT));
    cr_expect(eq(int, add("a", "no key", begin + minute, 1001), REFUSALS_SAY));
    cr_expect(eq(int, add("b", "no key", begin + minute + 2, 0), REFUSALS_SAY));
    cr_expect(eq(int, add("a", "no key", begin + minute + 3, 0), REFUSALS_SILENT));
    cr_expect(eq(int, add("a", "no key", begin + 2 * minute, 1), REFUSALS_SAY));
}

Test(refusals, a_crowd_is_one_line_a_minute_and_drives_nobody_out)
{
    unsigned said = 0, crowds = 0;
    char who[32];

    cr_expect(eq(int, add("a", "no key", begin, 0), REFUSALS_SAY));
    for (unsigned i = 0; i < 100000; i++) {
        enum refusals_what what;

        (void)snprintf(who, sizeof(who), "stranger %u", i);
        what = add(who, "no key", begin + i, 0);
        said += what == REFUSALS_SAY;
        crowds += what == REFUSALS_CROWD;
    }
    cr_expect(eq(u32, said, REFUSALS_MAX - 1));
    cr_expect(eq(u32, crowds, 1));
    cr_expect(eq(int, add("a", "no key", begin + minute - 1, 0), REFUSALS_SILENT),
              "it is still known");
    cr_expect(eq(int, add("c", "no key", begin + 2 * minute, 0), REFUSALS_SAY),
              "and there is room again");
}

/* At random, against a list that forgets nobody: never two lines within a minute, and none is
 * missing where there is room. */
Test(refusals, law)
{
    enum { PEERS = REFUSALS_MAX / 2 };
    static uint64_t said[PEERS];
    static uint32_t untold[PEERS];
    uint64_t now = begin;
    char who[32];

    srandom(7);
    for (unsigned i = 0; i < 200000; i++) {
        unsigned k = (unsigned)random() % PEERS;
        bool due = !said[k] || now >= said[k] + minute;

        (void)snprintf(who, sizeof(who), "%u", k);
        cr_expect(eq(int, add(who, "why", now, due ? untold[k] : 0),
                     due ? REFUSALS_SAY : REFUSALS_SILENT));
        untold[k] = due ? 0 : untold[k] + 1;
        said[k] = due ? now : said[k];
        now += (uint64_t)random() % (100 * NS_PER_MS);
    }
}
