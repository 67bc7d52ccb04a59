/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/serve/window.h"

#include <assert.h>

void window_add(struct window *w, const struct window_point *point)
{
    w->points[w->count++ % WINDOW_POINTS] = *point;
}

struct window_point window_span(const struct window *w)
{
    const struct window_point *first, *last;

    if (w->count < 2)
        return (struct window_point){0};
    last = &w->points[(w->count - 1) % WINDOW_POINTS];
    first = w->count <= WINDOW_POINTS ? &w->points[0] : &w->points[w->count % WINDOW_POINTS];
    assert(first->at_ns <= last->at_ns);
#define SPAN(field) .field = last->field - first->field
    return (struct window_point){
        SPAN(at_ns),           SPAN(waited_ns),        SPAN(totals.samples),
        SPAN(totals.batches),  SPAN(totals.failed),    SPAN(totals.substituted),
        SPAN(totals.read_ns),  SPAN(totals.render_ns), SPAN(totals.cpu_ns),
        SPAN(totals.queue_ns), SPAN(totals.rested_ns),
    };
#undef SPAN
}
