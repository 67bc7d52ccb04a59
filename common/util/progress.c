/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "common/util/progress.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/util/util.h"

/* Format a number: "17", or "1.2 GiB". */
static const char *quantity(uint64_t n, bool bytes, char *text, size_t size)
{
    if (bytes)
        return format_bytes(n, text, size);
    (void)snprintf(text, size, "%llu", (unsigned long long)n);
    return text;
}

/* Format a time: "12 s", "3 min 20 s", "2 h 5 min". */
static const char *time_left(double seconds, char *text, size_t size)
{
    unsigned long s = seconds < 1e9 ? (unsigned long)(seconds + 0.5) : 1000000000;

    if (s < 100)
        (void)snprintf(text, size, "%lu s", s);
    else if (s < 6000)
        (void)snprintf(text, size, "%lu min %lu s", s / 60, s % 60);
    else
        (void)snprintf(text, size, "%lu h %lu min", s / 3600, s % 3600 / 60);
    return text;
}

char *progress_text(struct progress *p, const char *what, uint64_t done, uint64_t total,
                    uint64_t now_ns, char ret[PROGRESS_TEXT])
{
    bool bytes = strncmp(what, "bytes", 5) == 0;
    char d[32], t[32], r[32], left[32];
    double seconds, rate;

    if (strncmp(p->what, what, sizeof(p->what) - 1) != 0) {
        *p = (struct progress){.began_ns = now_ns, .first = done};
        (void)snprintf(p->what, sizeof(p->what), "%s", what);
    }
    seconds = (double)(now_ns - p->began_ns) / (double)NS_PER_SEC;
    rate = seconds > 0 && done > p->first ? (double)(done - p->first) / seconds : 0;
    if (total == 0 && done == 0)
        (void)snprintf(ret, PROGRESS_TEXT, "%s", what);
    else if (total == 0)
        (void)snprintf(ret, PROGRESS_TEXT, "%s: %s", what, quantity(done, bytes, d, sizeof(d)));
    else if (rate < 1e-9)
        (void)snprintf(ret, PROGRESS_TEXT, "%s: %s of %s", what,
                       quantity(done, bytes, d, sizeof(d)), quantity(total, bytes, t, sizeof(t)));
    else
        (void)snprintf(
            ret, PROGRESS_TEXT, "%s: %s of %s (%.0f %%), %s/s, %s left", what,
            quantity(done, bytes, d, sizeof(d)), quantity(total, bytes, t, sizeof(t)),
            100.0 * (double)done / (double)total, quantity((uint64_t)rate, bytes, r, sizeof(r)),
            time_left((double)(total - min_u64(done, total)) / rate, left, sizeof(left)));
    return ret;
}
