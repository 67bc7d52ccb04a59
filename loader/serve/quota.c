/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/serve/quota.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/util.h"
#include "loader/serve/monitor.h"
#include "loader/serve/server_priv.h"
#include "loader/serve/session_facts.h"

/* Resources in use: by all users, and by one user. */
struct usage {
    uint64_t all, own;
};

static struct usage count(const struct server *server, const char *user,
                          uint64_t (*of)(const struct session_facts *session))
{
    struct session_facts facts;
    struct usage a = {0};

    for (const struct session *s = session_first(server); s; s = session_next(s)) {
        session_get_facts(s, &facts);
        a.all += of(&facts);
        if (strcmp(facts.user, user) == 0)
            a.own += of(&facts);
    }
    return a;
}

/* Returns whether `more` is within the limit and, if several users are served, leaves the others as
 * much as this user then has. If it returns false, `*share` says whether only the second condition
 * fails. */
static bool fits(const struct server *server, const struct usage *a, uint64_t more, uint64_t limit,
                 bool *share)
{
    uint64_t left = limit - min_u64(a->all, limit);

    assert(a->own <= a->all);
    *share = false;
    if (more > left)
        return false;
    *share = !server->options->own_uid_only;
    return !*share || a->own + more <= left - more;
}

/* Returns the number of clients that a session counts as: a session that is ending does not
 * count. */
static uint64_t clients_of(const struct session_facts *s)
{
    return s->ending ? 0 : 1;
}

static uint64_t ring_bytes_of(const struct session_facts *s)
{
    return s->ring_bytes;
}

int quota_check_client(const struct server *server, const char *user, struct plenum_error *err)
{
    uint32_t most = server->options->max_clients;
    struct usage a = count(server, user, clients_of);
    bool share;

    if (most == 0 || fits(server, &a, 1, most, &share) || (share && a.own == 0))
        return 0;
    if (share)
        return error_set(err, -EUSERS,
                         "your user has %u of at most %u clients, and must leave as many free for "
                         "others (--max-clients)",
                         (unsigned)a.own, most);
    return error_set(err, -EUSERS, "it has %u clients, and accepts no more (--max-clients)",
                     (unsigned)a.all);
}

/* Check the ring alone against the memory that may be mapped. */
static int check_mapped(const struct server *server, const struct usage *a, uint64_t bytes,
                        struct plenum_error *err)
{
    uint64_t limit = server->options->ring_limit;
    char want[32], most[32];
    bool share;

    if (fits(server, a, bytes, limit, &share))
        return 0;
    (void)format_bytes(bytes, want, sizeof(want));
    (void)format_bytes(limit, most, sizeof(most));
    if (share)
        return error_set(err, -ENOSPC,
                         "a ring of %s would leave other users less of the %s for rings than your "
                         "user's rings take (--ring-limit)",
                         want, most);
    return error_set(
        err, -ENOSPC,
        "a ring of %s would exceed the %s that this loader maps for all its clients (--ring-limit)",
        want, most);
}

/* The memory that the loader uses now, and what one more stream would add. */
struct own_memory {
    uint64_t held, more;
};

static struct own_memory count_own(struct server *server, const struct stream_memory *added)
{
    uint64_t held = monitor_own_bytes(server, &(struct stream_memory){0});
    uint64_t with = monitor_own_bytes(server, added);

    /* The kernel may report less memory the second time. */
    return (struct own_memory){.held = held, .more = max_u64(with, held) - held};
}

int quota_check_ring(struct server *server, const char *user, uint64_t bytes, uint64_t working,
                     struct plenum_error *err)
{
    struct usage a = count(server, user, ring_bytes_of);
    uint64_t budget = server->options->memory_budget;
    struct own_memory own;
    char want[32], beside[32], text[96], most[32], held[32];
    bool share;
    int r = check_mapped(server, &a, bytes, err);

    if (r < 0 || budget == 0)
        return r;
    own = count_own(server, &(struct stream_memory){.working = working});
    if (fits(server, &a, bytes + own.more, budget - min_u64(own.held, budget), &share))
        return 0;
    (void)format_bytes(bytes, want, sizeof(want));
    (void)format_bytes(own.more, beside, sizeof(beside));
    (void)snprintf(text, sizeof(text), own.more > 0 ? "%s, and %s to render its samples," : "%s",
                   want, beside);
    (void)format_bytes(share ? budget - own.held : budget, most, sizeof(most));
    if (share)
        return error_set(err, -ENOSPC,
                         "a ring of %s would leave other users less of the %s for rings than your "
                         "user's rings take (--memory-budget)",
                         text, most);
    return error_set(err, -ENOSPC,
                     "a ring of %s would exceed the %s that this loader may use, of which %s is "
                     "taken (--memory-budget)",
                     text, most, format_bytes(own.held + a.all, held, sizeof(held)));
}

int quota_check_fields(struct server *server, uint64_t reading, struct plenum_error *err)
{
    uint64_t budget = server->options->memory_budget;
    struct own_memory own;
    struct usage a = count(server, "", ring_bytes_of);
    char want[32], most[32], held[32];

    if (budget == 0 || reading == 0)
        return 0;
    own = count_own(server, &(struct stream_memory){.reading = reading});
    if (own.more == 0 || own.held + own.more + a.all <= budget)
        return 0;
    return error_set(
        err, -ENOSPC,
        "reading its samples takes up to %s of memory in %u threads, which would exceed "
        "the %s that this loader may use, of which %s is taken (--memory-budget)",
        format_bytes(reading, want, sizeof(want)), server->io_threads,
        format_bytes(budget, most, sizeof(most)),
        format_bytes(own.held + a.all, held, sizeof(held)));
}
