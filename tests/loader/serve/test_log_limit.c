/* SPDX-License-Identifier: MIT */
/* Checks that a rejection is logged once a minute per peer and reason, and that each peer has its
 * share of lines, whatever other peers do. */
#include "config.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/util.h"
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

Test(log_limit, each_reason_of_each_peer_is_logged_once_a_minute)
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

Test(log_limit, an_overflow_is_one_line_a_minute_and_evicts_no_entry)
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
              "there is room again");
}

/* Compare random calls with a list that never forgets: no two lines appear within a minute, and
 * none is missing while there is room. */
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

static struct log_budget budget;

/* How many lines of each peer were written and were reported as left out, by the peer's number; the
 * last element counts those of peers without an entry. */
enum { ALL_PEERS = LOG_BUDGET_PEERS + 50 };
static uint32_t written[ALL_PEERS], left_out[ALL_PEERS + 1];

static void count_left_out(const char *who, uint32_t lines)
{
    left_out[*who ? atoi(who + 1) : ALL_PEERS] += lines;
}

/* Put a line about peer k. */
static bool put_line(unsigned k, uint64_t now)
{
    char who[32];

    (void)snprintf(who, sizeof(who), "p%u", k);
    if (log_budget_refuses(&budget, who, now))
        return false;
    log_budget_spend(&budget, who, now);
    written[k]++;
    return true;
}

Test(log_budget, the_first_lines_are_written_and_the_rest_is_counted)
{
    for (unsigned i = 0; i < 1000; i++)
        cr_expect(eq(int, put_line(1, begin + i), i < LOG_BUDGET_LINES), "line %u", i);
    cr_expect(put_line(2, begin), "another peer's line is written");
    log_budget_settle(&budget, begin + minute - 1, count_left_out);
    cr_expect(eq(u32, left_out[1], 0), "nothing is reported within the minute");
    cr_expect(not(put_line(1, begin + minute - 1)));
    log_budget_settle(&budget, begin + minute, count_left_out);
    cr_expect(eq(u32, left_out[1], 1001 - LOG_BUDGET_LINES));
    cr_expect(put_line(1, begin + minute), "a new minute has new lines");
    log_budget_settle(&budget, UINT64_MAX, count_left_out);
    cr_expect(eq(u32, left_out[1], 1001 - LOG_BUDGET_LINES), "the lines are reported once");
    cr_expect(eq(u32, left_out[2], 0));
}

Test(log_budget, a_crowd_of_peers_shares_one_entry)
{
    for (unsigned k = 0; k < ALL_PEERS; k++)
        for (unsigned i = 0; i < 2 * LOG_BUDGET_LINES; i++)
            (void)put_line(k, begin);
    log_budget_settle(&budget, UINT64_MAX, count_left_out);
    for (unsigned k = 0; k < LOG_BUDGET_PEERS; k++) {
        cr_expect(eq(u32, written[k], LOG_BUDGET_LINES));
        cr_expect(eq(u32, left_out[k], LOG_BUDGET_LINES));
    }
    for (unsigned k = LOG_BUDGET_PEERS + 1; k < ALL_PEERS; k++)
        cr_expect(eq(u32, written[k], 0));
    cr_expect(
        eq(u32, left_out[ALL_PEERS], (2 * (ALL_PEERS - LOG_BUDGET_PEERS) - 1) * LOG_BUDGET_LINES));
}

/* Make random calls: each line is either written or reported as left out, and no peer gets more
 * than its number of lines in its minute. */
Test(log_budget, law)
{
    static uint32_t caused[ALL_PEERS];
    uint64_t now = begin, looked = begin;

    srandom(7);
    for (unsigned i = 0; i < 200000; i++) {
        unsigned k = (unsigned)random() % 100;

        caused[k]++;
        (void)put_line(k, now);
        now += (uint64_t)random() % (10 * NS_PER_MS);
        if (now < looked + NS_PER_SEC)
            continue;
        looked = now;
        log_budget_settle(&budget, now, count_left_out);
    }
    log_budget_settle(&budget, UINT64_MAX, count_left_out);
    for (unsigned k = 0; k < 100; k++) {
        cr_expect(eq(u32, written[k] + left_out[k], caused[k]));
        cr_expect(le(u32, written[k], LOG_BUDGET_LINES * (uint32_t)((now - begin) / minute + 1)));
    }
}
