/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "launcher/job/pause.h"

#include <assert.h>

#include "common/util/util.h"

enum { HOSTS_FIRST_S = 5, LAST_S = 60, LONG_S = 600 };

unsigned pause_next(struct pause *pause, bool ran, uint64_t took_ns)
{
    unsigned seconds = 0;

    if (!ran) {
        pause->wait_s =
            pause->wait_s ? (unsigned)min_u64(pause->wait_s * 2, LAST_S) : HOSTS_FIRST_S;
        assert(pause->wait_s >= HOSTS_FIRST_S && pause->wait_s <= LAST_S);
        return pause->wait_s;
    }
    pause->wait_s = 0;
    if (took_ns >= LONG_S * NS_PER_SEC)
        pause->failures = 0;
    if (pause->failures > 0)
        seconds = pause->failures < 7 ? 1U << (pause->failures - 1) : LAST_S;
    pause->failures++;
    assert(seconds <= LAST_S);
    return seconds;
}
