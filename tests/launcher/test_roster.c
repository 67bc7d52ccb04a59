/* SPDX-License-Identifier: MIT */
/* Compares the roster with plain models: the choice of hosts for all small rosters, and complete
 * jobs whose hosts fail, recover, leave and join in every order. */
#include "config.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/util.h"
#include "launcher/plan/roster.h"

enum { HOSTS = 3, MANY = 40 };

static void set(struct roster *roster, const char *text)
{
    struct hostlist list = {0};

    cr_assert(eq(int, hostlist_add_text(&list, text, NULL), 0));
    cr_assert(eq(int, roster_set(roster, &list, NULL), 0));
    hostlist_fini(&list);
}

/* Returns the chosen hosts, as "a c"; "" if there are none. */
static const char *choice(struct roster *roster, bool start)
{
    static char text[400];
    uint32_t chosen[MANY];
    size_t count = roster_choose(roster, chosen), len = 0;

    cr_assert(le(sz, count, MANY));
    text[0] = '\0';
    for (size_t n = 0; n < count; n++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s", n ? " " : "",
                                roster->hosts[chosen[n]].at.name);
    if (start && count > 0)
        roster_start(roster, chosen, count);
    return text;
}

static void check_all(struct roster *roster, const char *broken)
{
    roster_begin_check(roster);
    for (size_t i = 0; i < roster->count; i++) {
        struct roster_host *host = &roster->hosts[i];

        if (!roster_allows(roster, host))
            continue;
        if (strstr(broken, host->at.name))
            roster_fail(roster, host, "log in: refused");
        else
            host->ready = true;
    }
    roster_end_check(roster);
}

static void lose(struct roster *roster, const char *names)
{
    bool lost[MANY] = {false};

    for (size_t i = 0; i < roster->count; i++)
        lost[i] = strstr(names, roster->hosts[i].at.name) != NULL;
    (void)roster_lose(roster, lost, "it was silent");
}

/* ---- the choice, for every roster of up to three hosts ---- */

struct state {
    bool ready, used, blamed, listed;
    uint32_t failures;
};

/* Makes the n-th combination of a host's states. Returns false if it cannot occur. */
static bool decode(unsigned n, struct state *ret)
{
    *ret = (struct state){.ready = n & 1, .used = n & 2, .blamed = n & 4, .listed = n & 8};
    ret->failures = n >> 4;
    return (!ret->blamed || ret->used) && ret->failures <= 2;
}

enum { STATES = 48 };

static bool is_usable(const struct state *s, uint32_t max)
{
    return s->ready && s->listed && s->failures < max;
}

/* Returns whether host i is preferred to host k. This is the rule of roster.h, written in another
 * way. */
static bool is_better(const struct state *s, int i, int k)
{
    bool stays_i = s[i].used && !s[i].blamed, stays_k = s[k].used && !s[k].blamed;

    if (stays_i != stays_k)
        return stays_i;
    if (stays_i)
        return i < k;
    if (s[i].blamed != s[k].blamed)
        return s[k].blamed;
    return s[i].failures != s[k].failures ? s[i].failures < s[k].failures : i < k;
}

/* Chooses hosts by the model: a usable host is taken if and only if fewer than `most` usable hosts
 * are better. */
static unsigned choose_by_model(const struct state *s, int count,
                                const struct roster_limits *limits)
{
    unsigned set = 0, usable = 0;

    for (int i = 0; i < count; i++) {
        unsigned better = 0;

        if (!is_usable(&s[i], limits->max_failures))
            continue;
        usable++;
        for (int k = 0; k < count; k++)
            better += k != i && is_usable(&s[k], limits->max_failures) && is_better(s, k, i);
        if (limits->num_hosts == 0 || better < limits->num_hosts)
            set |= 1U << i;
    }
    return usable < limits->min_hosts ? 0 : set;
}

static void compare(struct roster *roster, const struct state *s, int count)
{
    uint32_t chosen[HOSTS];
    unsigned set = 0;
    size_t n;

    for (int i = 0; i < count; i++) {
        struct roster_host *host = &roster->hosts[i];

        host->ready = s[i].ready;
        host->used = s[i].used;
        host->blamed = s[i].blamed;
        host->listed = s[i].listed;
        host->failures = s[i].failures;
    }
    n = roster_choose(roster, chosen);
    for (size_t k = 0; k < n; k++) {
        cr_assert(k == 0 || chosen[k] > chosen[k - 1]);
        set |= 1U << chosen[k];
    }
    if (set != choose_by_model(s, count, &roster->limits))
        cr_fatal("%d hosts, limits %u %u %u: chose %x", count, roster->limits.num_hosts,
                 roster->limits.min_hosts, roster->limits.max_failures, set);
}

/* Compares the choices for all states of `count` hosts, for one set of limits. */
static uint64_t compare_all(struct roster *roster, int count)
{
    struct state s[HOSTS];
    uint64_t total = 1, compared = 0;

    for (int i = 0; i < count; i++)
        total *= STATES;
    for (uint64_t n = 0; n < total; n++) {
        uint64_t rest = n;
        bool possible = true;

        for (int i = 0; i < count && possible; i++, rest /= STATES)
            possible = decode((unsigned)(rest % STATES), &s[i]);
        if (!possible)
            continue;
        compare(roster, s, count);
        compared++;
    }
    return compared;
}

Test(roster, chooses_as_the_model_does)
{
    static const char *const lists[] = {"", "a", "a,b", "a,b,c"};
    uint64_t compared = 0;

    for (int count = 1; count <= 3; count++) {
        struct roster roster = {.limits = {0, 1, 2}};

        set(&roster, lists[count]);
        for (uint32_t most = 0; most <= 3; most++)
            for (uint32_t least = 1; least <= 3; least++) {
                roster.limits = (struct roster_limits){most, least, 2};
                compared += compare_all(&roster, count);
            }
        roster_fini(&roster);
    }
    cr_assert(gt(u64, compared, 500000));
}

/* ---- lives ---- */

Test(roster, takes_spares_first_then_fewer)
{
    struct roster roster = {.limits = {.num_hosts = 3, .min_hosts = 2, .max_failures = 3}};

    set(&roster, "a,b,c,d");
    check_all(&roster, "");
    cr_expect(eq(str, (char *)choice(&roster, true), "a b c"));
    lose(&roster, "b");
    check_all(&roster, "b");
    cr_expect(eq(str, (char *)choice(&roster, true), "a c d"), "the spare must replace b");
    lose(&roster, "d");
    check_all(&roster, "b d");
    cr_expect(eq(str, (char *)choice(&roster, true), "a c"), "two hosts must suffice");
    lose(&roster, "a");
    check_all(&roster, "a b d");
    cr_expect(eq(str, (char *)choice(&roster, false), ""), "one host must not suffice");
    check_all(&roster, "a d");
    cr_expect(eq(str, (char *)choice(&roster, true), "b c"), "b has returned");
    check_all(&roster, "");
    cr_expect(eq(str, (char *)choice(&roster, true), "a b c"),
              "all have returned, and d must become a spare");
    roster_fini(&roster);
}

Test(roster, prefers_any_host_to_one_that_just_failed)
{
    struct roster roster = {.limits = {.num_hosts = 2, .min_hosts = 2, .max_failures = 9}};

    set(&roster, "a,b,c");
    check_all(&roster, "");
    (void)choice(&roster, true);
    lose(&roster, "a");
    check_all(&roster, "");
    cr_expect(eq(str, (char *)choice(&roster, true), "b c"));
    lose(&roster, "c");
    check_all(&roster, "");
    cr_expect(eq(str, (char *)choice(&roster, true), "a b"), "a has failed as often, but earlier");
    check_all(&roster, "");
    cr_expect(eq(str, (char *)choice(&roster, true), "a b"), "no host failed: nothing changes");
    roster_fini(&roster);
}

Test(roster, takes_a_host_as_recovered_only_after_the_whole_check)
{
    struct roster roster = {.limits = {.num_hosts = 0, .min_hosts = 1, .max_failures = 2}};

    set(&roster, "a,b");
    check_all(&roster, "b");
    for (int i = 0; i < 5; i++) {
        roster_begin_check(&roster);
        roster.hosts[0].ready = roster.hosts[1].ready = true; /* both answer */
        cr_expect(not(roster_fail(&roster, &roster.hosts[1], "it cannot use the network")));
        roster_end_check(&roster);
        cr_expect(eq(str, (char *)choice(&roster, true), "a"));
    }
    cr_expect(eq(u32, roster.hosts[1].failures, 1));
    roster_fini(&roster);
}

Test(roster, counts_failures_once_until_a_host_has_recovered)
{
    struct roster roster = {.limits = {.num_hosts = 0, .min_hosts = 1, .max_failures = 2}};

    set(&roster, "a,b,c");
    check_all(&roster, "");
    (void)choice(&roster, true);
    lose(&roster, "b");
    for (int i = 0; i < 10; i++)
        check_all(&roster, "b");
    cr_expect(eq(u32, roster.hosts[1].failures, 1), "one absence must count once");
    check_all(&roster, "");
    cr_expect(eq(str, (char *)choice(&roster, true), "a b c"));
    cr_expect(roster_fail(&roster, &roster.hosts[1], "again"), "now the host must be left out");
    check_all(&roster, "");
    cr_expect(eq(str, (char *)choice(&roster, true), "a c"));
    roster_fini(&roster);
}

Test(roster, blames_no_host_if_most_are_lost_at_once)
{
    struct roster roster = {.limits = {.num_hosts = 0, .min_hosts = 1, .max_failures = 1}};

    set(&roster, "a,b,c,d");
    check_all(&roster, "");
    (void)choice(&roster, true);
    lose(&roster, "abc");
    check_all(&roster, "");
    cr_expect(eq(str, (char *)choice(&roster, true), "a b c d"));
    lose(&roster, "ab");
    check_all(&roster, "");
    cr_expect(eq(str, (char *)choice(&roster, true), "c d"), "half of them is not most");
    lose(&roster, "c");
    check_all(&roster, "");
    cr_expect(eq(str, (char *)choice(&roster, true), "d"));
    lose(&roster, "d");
    check_all(&roster, "");
    cr_expect(eq(str, (char *)choice(&roster, false), ""), "a single host is blamed");
    roster_fini(&roster);
}

Test(roster, follows_the_list)
{
    struct roster roster = {.limits = {.num_hosts = 0, .min_hosts = 1, .max_failures = 2}};

    set(&roster, "a,b");
    check_all(&roster, "b");
    cr_expect(eq(str, (char *)choice(&roster, true), "a"));
    set(&roster, "c:4,a");
    check_all(&roster, "");
    cr_expect(eq(str, (char *)choice(&roster, true), "a c"), "b has left, c has joined");
    cr_expect(eq(u32, roster.hosts[2].slots, 4));
    set(&roster, "b,me@a,c");
    check_all(&roster, "");
    cr_expect(eq(str, (char *)choice(&roster, true), "b c a"), "another user is another host");
    cr_expect(eq(u32, roster.hosts[1].failures, 1), "b keeps its history");
    roster_fini(&roster);
}

Test(roster, says_why_hosts_are_not_ready)
{
    struct roster roster = {.limits = {.num_hosts = 0, .min_hosts = 1, .max_failures = 2}};
    char text[2000];

    set(&roster, "a,b,c");
    check_all(&roster, "b");
    check_all(&roster, "");
    check_all(&roster, "b c");
    set(&roster, "b,c");
    roster_describe_lack(&roster, text, sizeof(text));
    cr_expect(eq(str, text,
                 "a is no longer listed; b is left out after 2 failures (log in: refused); c: log "
                 "in: refused"));
    for (size_t size = 1; size < 130; size++) {
        char exact[130];

        roster_describe_lack(&roster, exact, size);
        cr_assert(lt(sz, strlen(exact), size), "a message must fit into a short buffer");
    }
    set(&roster, "n[1-30]");
    roster_begin_check(&roster);
    roster_describe_lack(&roster, text, sizeof(text));
    cr_expect(strstr(text, "; n13: not ready; and 17 more") != NULL, "%s", text);
    roster_fini(&roster);
}

/* Apply events to three hosts, and check the rules after each. Each digit of `events` is one. */
static void live(struct roster *roster, unsigned events, int count)
{
    static const char *const names[] = {"a", "b", "c"};
    bool broken[3] = {false};
    uint32_t downs[3] = {0}; /* how often each became broken or was lost, as seen by the job */
    bool seen_down[3] = {false};

    for (int n = 0; n < count; n++, events /= 6) {
        unsigned event = events % 6, host = event % 3;
        uint32_t chosen[3];
        size_t number;

        if (event >= 3)
            broken[host] = !broken[host];
        else if (roster->hosts[host].used)
            lose(roster, names[host]);
        if (event < 3 && roster->hosts[host].used && !seen_down[host]) {
            downs[host]++;
            seen_down[host] = true;
        }
        roster_begin_check(roster);
        for (int i = 0; i < 3; i++) {
            if (!roster_allows(roster, &roster->hosts[i]))
                continue;
            if (broken[i])
                (void)roster_fail(roster, &roster->hosts[i], "down");
            else
                roster->hosts[i].ready = true;
            downs[i] += broken[i] && !seen_down[i];
            seen_down[i] = broken[i];
        }
        roster_end_check(roster);
        number = roster_choose(roster, chosen);
        for (size_t i = 0; i < number; i++) {
            cr_assert(not(broken[chosen[i]]), "a broken host was taken");
            cr_assert(lt(u32, downs[chosen[i]], 2), "a host that is left out was taken");
        }
        for (int i = 0; i < 3; i++)
            cr_assert(eq(u32, roster->hosts[i].failures, downs[i]));
        if (number > 0)
            roster_start(roster, chosen, number);
    }
}

Test(roster, keeps_its_rules_in_every_short_life)
{
    for (unsigned events = 0; events < 6 * 6 * 6 * 6 * 6; events++) {
        struct roster roster = {.limits = {.num_hosts = 2, .min_hosts = 1, .max_failures = 2}};
        uint32_t chosen[3];

        set(&roster, "a,b,c");
        check_all(&roster, "");
        roster_start(&roster, chosen, roster_choose(&roster, chosen));
        live(&roster, events, 5);
        roster_fini(&roster);
    }
}
