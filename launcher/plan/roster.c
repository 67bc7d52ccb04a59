/* SPDX-License-Identifier: MIT */
/* roster.c - remembers hosts that come and go.
 *
 * A host's life in a job:
 *
 *     listed ──check──> ready ──chosen──> used ──lost──> failed ──check──> ready ...
 *        │                └──not chosen: a spare            └── too often: left out
 *        └──check──> failed
 *
 * Spares run nothing and hold no login: a check of all hosts precedes each start anyway, and shows
 * all that a login would have shown.
 *
 * Failures are forgotten only when the user asks the job to grow (roster_pardon()). How a program
 * ends is not its host's failure, since most programs fail for their own reasons. */
#include "config.h"

#include "launcher/plan/roster.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/util.h"

enum { DESCRIBED_MOST = 16 }; /* the most hosts that a message describes */

void roster_fini(struct roster *roster)
{
    for (size_t i = 0; i < roster->count; i++)
        plan_host_fini(&roster->hosts[i].at);
    free(roster->hosts);
    *roster = (struct roster){.limits = roster->limits};
}

static struct roster_host *find(const struct roster *roster, const struct hostlist_host *named)
{
    for (size_t i = 0; i < roster->count; i++)
        if (plan_host_is(&roster->hosts[i].at, named))
            return &roster->hosts[i];
    return NULL;
}

static struct roster_host *add(struct roster *roster, const struct hostlist_host *named)
{
    struct roster_host *host;

    if (array_grow(&roster->hosts, &roster->cap, roster->count, sizeof(*roster->hosts)) < 0)
        return NULL;
    host = &roster->hosts[roster->count];
    *host = (struct roster_host){.listed = false};
    if (plan_host_init(&host->at, named, false) < 0) {
        plan_host_fini(&host->at);
        return NULL;
    }
    roster->count++;
    return host;
}

int roster_set(struct roster *roster, const struct hostlist *list, const bool *local)
{
    for (size_t i = 0; i < roster->count; i++)
        roster->hosts[i].listed = false;
    for (size_t i = 0; i < list->count; i++) {
        struct roster_host *host = find(roster, &list->hosts[i]);

        if (!host && !(host = add(roster, &list->hosts[i])))
            return -ENOMEM;
        host->listed = true;
        host->slots = list->hosts[i].slots;
        host->at.local = local && local[i];
    }
    return 0;
}

void roster_pardon(struct roster *roster)
{
    for (size_t i = 0; i < roster->count; i++)
        roster->hosts[i].failures = 0;
}

bool roster_allows(const struct roster *roster, const struct roster_host *host)
{
    return host->listed && host->failures < roster->limits.max_failures;
}

void roster_begin_check(struct roster *roster)
{
    for (size_t i = 0; i < roster->count; i++)
        roster->hosts[i].ready = false;
}

void roster_end_check(struct roster *roster)
{
    for (size_t i = 0; i < roster->count; i++)
        roster->hosts[i].failed &= !roster->hosts[i].ready;
}

bool roster_fail(const struct roster *roster, struct roster_host *host, const char *format, ...)
{
    bool first = !host->failed;
    va_list args;

    va_start(args, format);
    (void)vsnprintf(host->why, sizeof(host->why), format, args);
    va_end(args);
    host->ready = false;
    host->failed = true;
    host->failures += first;
    return first && host->failures == roster->limits.max_failures;
}

void roster_set_aside(struct roster_host *host, const char *why)
{
    (void)snprintf(host->why, sizeof(host->why), "%s", why);
    host->ready = false;
    host->failed = true;
}

bool roster_lose(struct roster *roster, const bool *lost, const char *why)
{
    size_t used = 0, count = 0;
    bool shared;

    for (size_t i = 0; i < roster->count; i++) {
        used += roster->hosts[i].used;
        count += lost[i];
    }
    shared = count > 1 && 2 * count > used;
    for (size_t i = 0; i < roster->count; i++) {
        struct roster_host *host = &roster->hosts[i];

        if (!lost[i])
            continue;
        assert(host->used);
        host->blamed = true;
        (void)roster_fail(roster, host, "%s", why);
        host->failures -= shared;
    }
    return !shared;
}

/* Returns the rank by which hosts are chosen; lower is better. Hosts in use come first, then the
 * others by their number of failures, and last those that failed during the last start. */
static uint64_t rank_of(const struct roster_host *host)
{
    if (host->used && !host->blamed)
        return 0;
    return ((uint64_t)host->blamed << 32) + host->failures + 1;
}

/* Returns the best host that is not taken, or NULL. */
static const struct roster_host *find_best(const struct roster *roster, const bool *taken)
{
    const struct roster_host *best = NULL;

    for (size_t i = 0; i < roster->count; i++) {
        const struct roster_host *host = &roster->hosts[i];

        if (!taken[i] && host->ready && roster_allows(roster, host) &&
            (!best || rank_of(host) < rank_of(best)))
            best = host;
    }
    return best;
}

size_t roster_count_used(const struct roster *roster)
{
    size_t count = 0;

    for (size_t i = 0; i < roster->count; i++)
        count += roster->hosts[i].used;
    return count;
}

size_t roster_count_ready(const struct roster *roster)
{
    size_t count = 0;

    for (size_t i = 0; i < roster->count; i++)
        count += roster->hosts[i].ready && roster_allows(roster, &roster->hosts[i]);
    return count;
}

size_t roster_choose(const struct roster *roster, uint32_t *ret)
{
    size_t wanted = roster_count_ready(roster), count = 0;
    bool *taken = calloc(roster->count + 1, sizeof(*taken));

    assert(roster->limits.min_hosts > 0);
    if (!taken || wanted < roster->limits.min_hosts) {
        free(taken);
        return 0;
    }
    if (roster->limits.num_hosts > 0 && wanted > roster->limits.num_hosts)
        wanted = roster->limits.num_hosts;
    for (size_t n = 0; n < wanted; n++)
        taken[find_best(roster, taken) - roster->hosts] = true;
    for (size_t i = 0; i < roster->count; i++)
        if (taken[i])
            ret[count++] = (uint32_t)i;
    assert(count == wanted);
    free(taken);
    return count;
}

void roster_start(struct roster *roster, const uint32_t *chosen, size_t count)
{
    for (size_t i = 0; i < roster->count; i++)
        roster->hosts[i].used = roster->hosts[i].blamed = false;
    for (size_t n = 0; n < count; n++) {
        assert(roster->hosts[chosen[n]].ready);
        roster->hosts[chosen[n]].used = true;
    }
}

int roster_list(const struct roster *roster, const uint32_t *chosen, size_t count,
                struct hostlist *ret, bool *ret_local)
{
    struct hostlist_host *hosts = calloc(count + 1, sizeof(*hosts));

    if (!hosts)
        return -ENOMEM;
    for (size_t n = 0; n < count; n++) {
        const struct roster_host *host = &roster->hosts[chosen[n]];

        hosts[n] = (struct hostlist_host){.name = host->at.name,
                                          .user = host->at.user,
                                          .port = host->at.port,
                                          .slots = host->slots};
        ret_local[n] = host->at.local;
    }
    *ret = (struct hostlist){.hosts = hosts, .count = count, .cap = count + 1};
    return 0;
}

static void describe(const struct roster *roster, const struct roster_host *host, char *ret,
                     size_t size)
{
    if (!host->listed)
        (void)snprintf(ret, size, "%s is no longer listed", host->at.name);
    else if (host->failures >= roster->limits.max_failures)
        (void)snprintf(ret, size, "%s is left out after %u failure%s (%s)", host->at.name,
                       host->failures, host->failures == 1 ? "" : "s", host->why);
    else
        (void)snprintf(ret, size, "%s: %s", host->at.name, host->why[0] ? host->why : "not ready");
}

void roster_describe_lack(const struct roster *roster, char *ret, size_t size)
{
    size_t count = 0, len = 0;

    assert(size > 0);
    ret[0] = '\0';
    for (size_t i = 0; i < roster->count; i++) {
        const struct roster_host *host = &roster->hosts[i];

        if (host->ready && roster_allows(roster, host))
            continue;
        if (++count > DESCRIBED_MOST || len + 2 >= size)
            continue;
        len += (size_t)snprintf(ret + len, size - len, "%s", count > 1 ? "; " : "");
        describe(roster, host, ret + len, size - len);
        len = strlen(ret);
    }
    if (count > DESCRIBED_MOST && len < size)
        (void)snprintf(ret + len, size - len, "; and %zu more", count - DESCRIBED_MOST);
}
