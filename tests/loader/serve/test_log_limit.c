/* SPDX-License-Identifier: MIT */
/* A rejection is logged once a minute per peer and reason, whatever other peers do. */
#include "config.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/util.h"
#include "loader/serve/log_limit.h"

static const uint64_t minute = 60 * NS_PER_SEC, begin = 5 * NS_PER_SEC;
static struct log_limit limit;

static enum log_limit_verdict add(const char *who, const char *why, uint64_t now, uint32_t untold)
{
    uint32_t got = 77;
    enum log_limit_verdict what = log_limit_check(&limit, who, why, now, &got);

    cr_expect(eq(u32, got, untold), "%s, %s", who, why);
    return what;
}

Test(log_limit, each_reason_of_each_peer_is_said_once_a_minute)
{
    cr_expect(eq(int, add("a", "no key", begin, 0), LOG_LIMIT_LOG));
    cr_expect(eq(int, add("a", "no root", begin + 1, 0), LOG_LIMIT_LOG));
    cr_expect(eq(int, add("b", "no key", begin + 2, 0), LOG_LIMIT_LOG));
    for (unsigned i = 0; i < 1000; i++)
        cr_expect(eq(int, add("a", "no key", begin + i, 0), LOG_LIMIT_DROP));
    cr_expect(eq(int, add("a", "no key", begin + minute - 1, 0), LOG_LIMIT_DROP));
    cr_expect(eq(int, add("a", "no key", begin + minute, 1001), LOG_LIMIT_LOG));
    cr_expect(eq(int, add("b", "no key", begin + minute + 2, 0), LOG_LIMIT_LOG));
    cr_expect(eq(int, add("a", "no key", begin + minute + 3, 0), LOG_LIMIT_DROP));
    cr_expect(eq(int, add("a", "no key", begin + 2 * minute, 1), LOG_LIMIT_LOG));
}

Test(log_limit, an_overflow_is_one_line_a_minute_and_evicts_nobody)
{
    unsigned said = 0, overflows = 0;
    char who[32];

    cr_expect(eq(int, add("a", "no key", begin, 0), LOG_LIMIT_LOG));
    for (unsigned i = 0; i < 100000; i++) {
        enum log_limit_verdict what;

        (void)snprintf(who, sizeof(who), "peer %u", i);
        what = add(who, "no key", begin + i, 0);
        said += what == LOG_LIMIT_LOG;
        overflows += what == LOG_LIMIT_LOG_OVERFLOW;
    }
    cr_expect(eq(u32, said, LOG_LIMIT_MAX - 1));
    cr_expect(eq(u32, overflows, 1));
    cr_expect(eq(int, add("a", "no key", begin + minute - 1, 0), LOG_LIMIT_DROP),
              "it is still known");
    cr_expect(eq(int, add("c", "no key", begin + 2 * minute, 0), LOG_LIMIT_LOG),
              "and there is room again");
}

/* At random, against a list that never forgets: never two lines within a minute, and none missing
 * while there is room. */
Test(log_limit, law)
{
    enum { PEERS = LOG_LIMIT_MAX / 2 };
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
                     due ? LOG_LIMIT_LOG : LOG_LIMIT_DROP));
        untold[k] = due ? 0 : untold[k] + 1;
        said[k] = due ? now : said[k];
        now += (uint64_t)random() % (100 * NS_PER_MS);
    }
}
