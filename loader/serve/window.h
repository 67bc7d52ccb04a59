/* SPDX-License-Identifier: MIT */
/* window.h - keeps counters of the last ten seconds, from which rates are computed. */
#ifndef LOADER_SERVE_WINDOW_H
#define LOADER_SERVE_WINDOW_H

#include <stdint.h>

#include "loader/serve/queue.h"

/** Counters of a stream or of the loader at one moment. */
struct window_point {
    uint64_t at_ns, waited_ns;
    struct queue_totals totals;
};

/** The last ten seconds, one point a second. {0}: empty. */
enum { WINDOW_POINTS = 11 };
struct window {
    struct window_point points[WINDOW_POINTS];
    unsigned count; /* points ever added */
};

void window_add(struct window *w, const struct window_point *point);
/** Returns the difference between the newest point and the oldest; at_ns is the time between them,
 * or 0 if there are fewer than two points. */
struct window_point window_span(const struct window *w);

#endif
