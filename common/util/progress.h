/* SPDX-License-Identifier: MIT */
/* progress.h - how far a task has come, how fast it advances, and how long it will take. */
#ifndef COMMON_PROGRESS_H
#define COMMON_PROGRESS_H

#include <stddef.h>
#include <stdint.h>

/** Progress so far. Initialise with zeros. */
struct progress {
    char what[64];
    uint64_t began_ns; /* time of the first report with this `what` */
    uint64_t first;    /* amount done at that time */
};

enum { PROGRESS_TEXT = 200 };

/**
 * Write a message like "files of the list: 1200 of 5000 (24 %), 310/s, 12 s left"; sizes if `what`
 * begins with "bytes". `total` 0: unknown. `now_ns`: time_now_ns(). Returns `ret`.
 *
 * Rate and time left are measured from the first call with this `what`.
 */
char *progress_text(struct progress *p, const char *what, uint64_t done, uint64_t total,
                    uint64_t now_ns, char ret[PROGRESS_TEXT]);

#endif
