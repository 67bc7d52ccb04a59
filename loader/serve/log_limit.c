/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/serve/log_limit.h"

#include <stdbool.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/util.h"

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
        /* A free entry is better than an old one, whose peer may return. */
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
