/* SPDX-License-Identifier: MIT */
/* hedge.h - decides when a request for a range is late, and whether it may be sent once more. Does
 * no I/O. The caller's lock protects everything. */
#ifndef LOADER_STORE_HEDGE_H
#define LOADER_STORE_HEDGE_H

#include <stdbool.h>
#include <stdint.h>

enum { HEDGE_SIZES = 5, HEDGE_TIMES = 64 };

/** A histogram of how long recent requests of one size class took. */
struct hedge_times {
    uint32_t count[HEDGE_TIMES]; /* number of requests in each interval of time */
    uint32_t total;
};

/** Zero-initialised. */
struct hedge {
    struct hedge_times times[HEDGE_SIZES];
    uint32_t hundredths; /* budget, in hundredths of a repeated request */
};

/** Record that a request for `len` bytes has succeeded after `ns`. */
void hedge_note(struct hedge *h, uint64_t len, uint64_t ns);

/** Returns the time after which a request for `len` bytes is late: 99 % of the recent ones were
 * faster. 0: too few are known. */
uint64_t hedge_late_ns(const struct hedge *h, uint64_t len);

/** Returns whether a late request may be sent again, and takes it from the budget: 3 % of the
 * requests that succeeded. */
bool hedge_take(struct hedge *h);

#endif
