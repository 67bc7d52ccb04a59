/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/serve/log_limit.h"

#include <stdio.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/util/util.h"

static const uint64_t interval_ns = 60 * NS_PER_SEC;

enum log_limit_verdict log_limit_check(struct log_limit *limit, const char *who, const char *why,
                                       uint64_t now_ns, uint32_t *suppressed)
{
    uint64_t key = XXH3_64bits_withSeed(why, strlen(why), XXH3_64bits(who, strlen(who)));
    size_t found = LOG_LIMIT_MAX;

    *suppressed = 0;
    for (size_t i = 0; i < LOG_LIMIT_MAX; i++) {
        bool used = limit->entries[i].logged_ns != 0;
        bool recent = used && now_ns < limit->entries[i].logged_ns + interval_ns;

        if (used && limit->entries[i].key == key) {
            if (recent) {
                limit->entries[i].suppressed++;
                return LOG_LIMIT_DROP;
            }
            *suppressed = limit->entries[i].suppressed;
            found = i;
            break;
        }
        /* Prefer a free entry to an old one, whose peer may return. */
        if (!recent && (found == LOG_LIMIT_MAX || (limit->entries[found].logged_ns && !used)))
            found = i;
    }
    if (found < LOG_LIMIT_MAX) {
        limit->entries[found].key = key;
        limit->entries[found].logged_ns = now_ns;
        limit->entries[found].suppressed = 0;
        return LOG_LIMIT_LOG;
    }
    if (limit->overflow_ns && now_ns < limit->overflow_ns + interval_ns)
        return LOG_LIMIT_DROP;
    limit->overflow_ns = now_ns;
    return LOG_LIMIT_LOG_OVERFLOW;
}

/* Returns the peer's entry, which is created if necessary. */
static struct log_budget_peer *find_peer(struct log_budget *b, const char *who, uint64_t now_ns)
{
    struct log_budget_peer *found = NULL;

    for (size_t i = 0; i < LOG_BUDGET_PEERS; i++) {
        if (b->peers[i].name[0] && strncmp(b->peers[i].name, who, LOG_BUDGET_NAME - 1) == 0)
            return &b->peers[i];
        if (!found && !b->peers[i].name[0])
            found = &b->peers[i];
    }
    if (found) {
        *found = (struct log_budget_peer){.begun_ns = now_ns};
        (void)snprintf(found->name, sizeof(found->name), "%s", who);
        return found;
    }
    if (b->others.begun_ns == 0)
        b->others.begun_ns = now_ns;
    return &b->others;
}

bool log_budget_refuses(struct log_budget *budget, const char *who, uint64_t now_ns)
{
    struct log_budget_peer *p = find_peer(budget, who, now_ns);
    bool spent = p->written >= LOG_BUDGET_LINES;

    p->left_out += spent;
    return spent;
}

void log_budget_spend(struct log_budget *budget, const char *who, uint64_t now_ns)
{
    find_peer(budget, who, now_ns)->written++;
}

static void settle_peer(struct log_budget_peer *p, uint64_t now_ns,
                        void (*report)(const char *who, uint32_t left_out))
{
    if (p->begun_ns == 0 || now_ns < p->begun_ns + interval_ns)
        return;
    if (p->left_out > 0)
        report(p->name, p->left_out);
    *p = (struct log_budget_peer){.name = ""};
}

void log_budget_settle(struct log_budget *budget, uint64_t now_ns,
                       void (*report)(const char *who, uint32_t left_out))
{
    for (size_t i = 0; i < LOG_BUDGET_PEERS; i++)
        settle_peer(&budget->peers[i], now_ns, report);
    settle_peer(&budget->others, now_ns, report);
}
