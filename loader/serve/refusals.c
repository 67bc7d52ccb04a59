/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/serve/refusals.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/util.h"

static const uint64_t quiet_ns = 60 * NS_PER_SEC;

enum refusals_what refusals_add(struct refusals *r, const char *who, const char *why,
                                uint64_t now_ns, uint32_t *untold)
{
    uint64_t key = XXH3_64bits_withSeed(why, strlen(why), XXH3_64bits(who, strlen(who)));
    size_t room = REFUSALS_MAX;

    *untold = 0;
    for (size_t i = 0; i < REFUSALS_MAX; i++) {
        bool quiet = r->recent[i].said_ns && now_ns < r->recent[i].said_ns + quiet_ns;

        if (r->recent[i].said_ns && r->recent[i].who_why == key) {
            if (quiet) {
                r->recent[i].untold++;
                return REFUSALS_SILENT;
            }
            *untold = r->recent[i].untold;
            room = i;
            break;
        }
        /* A free place rather than that of one that may come again. */
        if (!quiet && (room == REFUSALS_MAX || (r->recent[room].said_ns && !r->recent[i].said_ns)))
            room = i;
    }
    if (room < REFUSALS_MAX) {
        r->recent[room].who_why = key;
        r->recent[room].said_ns = now_ns;
        r->recent[room].untold = 0;
        return REFUSALS_SAY;
    }
    if (r->crowd_ns && now_ns < r->crowd_ns + quiet_ns)
        return REFUSALS_SILENT;
    r->crowd_ns = now_ns;
    return REFUSALS_CROWD;
}
