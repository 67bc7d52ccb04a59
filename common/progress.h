/* SPDX-License-Identifier: MIT */
/* progress.h - how far something is, how fast it goes, and how long it will take. */
#ifndef COMMON_PROGRESS_H
#define COMMON_PROGRESS_H

#include <stddef.h>
#include <stdint.h>

/** What has been told. Starts as zeros. */
struct progress {
    char what[64];
    uint64_t began_ns; /* when `what` was first told of */
    uint64_t first;    /* what was done by then */
};

/**
 * A sentence like "files of the list: 1200 of 5000 (24 %), 310/s, 12 s left" into `text`; sizes
 * where `what` begins with "bytes". `total` 0: not known. `now_ns`: time_now_ns(). Returns `text`.
 *
 * Rate and time left are counted from the first call with this `what`.
 */
char *progress_text(struct progress *p, const char *what, uint64_t done, uint64_t total,
                    uint64_t now_ns, char *text, size_t size);

#endif
