/* SPDX-License-Identifier: MIT */
/* queue_begin.c - chooses the samples that a thread reads next: first the retries of a stream, then
 * the samples of its oldest request. */
#include "config.h"

#include "loader/serve/queue_begin.h"

#include <assert.h>
#include <stdlib.h>

#include "common/util/lock.h"
#include "common/util/util.h"
#include "loader/serve/queue_item.h"
#include "loader/serve/queue_priv.h"
#include "loader/serve/sharing.h"

enum { ITEM_NS = 100000 }; /* CPU or reading time to aim for in an item of several parts */

/* Returns whether all parts of this item are copied and the stream's next retry can join them. */
static bool goes_along(const struct queue_stream *s, const struct item *item)
{
    const struct retry *retry = container_of(list_first(&s->retries), struct retry, link);

    return item->num_parts < PARTS_MAX && item->copies == item->num_parts &&
           retry->request == item->request && retry->hold.way == RENDERINGS_COPY;
}

/* Start an item with a retry, or with several samples that are only copied. Returns the number of
 * samples. */
static uint32_t begin_retries(struct queue_stream *s, struct item *item)
{
    assert(lock_is_held(&s->queue->mu));
    do {
        struct retry *retry = container_of(list_pop_first(&s->retries), struct retry, link);

        item->request = retry->request;
        queue_item_add_part(item, retry->index, retry->count, &retry->try, &retry->hold);
        free(retry);
    } while (!list_is_empty(&s->retries) && goes_along(s, item));
    return item->samples;
}

/* Returns the oldest request with samples that no thread has begun. There must be one. */
static struct queue_request *first_waiting(struct queue_stream *s)
{
    struct list *at = list_first(&s->requests);
    struct queue_request *r = container_of(at, struct queue_request, link);

    assert(lock_is_held(&s->queue->mu));
    while (r->next == r->count) {
        at = list_next(&s->requests, at);
        r = container_of(at, struct queue_request, link);
    }
    return r;
}

/* Add the next sample of a request, or a run of at most `most` of them, to an item, or park it.
 * Returns the number of samples. */
static uint32_t begin_part(struct queue_stream *s, struct queue_request *r, struct item *item,
                           uint32_t most)
{
    uint32_t in_step = r->next % s->open->local, count;
    struct render_try try;
    struct hold hold;

    assert(lock_is_held(&s->queue->mu));
    assert(most > 0 && r->next < r->count);
    if (r->next > 0 && in_step == 0) /* the batch's next step begins */
        r->place =
            order_place_settle(&r->share.steps, order_place_after(&r->share.steps, r->place));
    try = (struct render_try){.epoch = r->place.epoch,
                              .position = order_share_position(&r->share, r->place, in_step)};
    count = render_run(s->spec, try.position, (uint32_t)min_u64(most, s->open->local - in_step));
    hold = sharing_begin(s, r, in_step, try.position);
    if (hold.way != RENDERINGS_WAIT)
        queue_item_add_part(item, r->next, count, &try, &hold);
    else if (!sharing_park(r, &try, &hold))
        queue_item_add_part(item, r->next, count, &try, &(struct hold){0});
    r->next += count;
    assert(count > 0 && r->next <= r->count);
    s->taken += count;
    return count;
}

/* Returns how many parts an item of this stream should have: one, unless samples are so cheap that
 * handing each one from thread to thread would cost more than rendering it. Also one if reading is
 * slow, so that more threads read at once, and until a sample has been read. */
static uint32_t wanted_parts(const struct queue_stream *s)
{
    uint64_t each = max_u64(max_u64(s->cost_ns, s->read_ns), 1);

    assert(lock_is_held(&s->queue->mu));
    return s->reads == 0 ? 1 : (uint32_t)min_u64(max_u64(ITEM_NS / each, 1), PARTS_MAX);
}

/* Start an item with the next samples of the oldest request that has some. Samples that are only
 * copied do not count against the wanted parts. Returns the number of samples; if all of them were
 * parked, the item has none. */
static uint32_t begin_next(struct queue_stream *s, struct item *item)
{
    struct queue_request *r = first_waiting(s);
    uint32_t parts = wanted_parts(s), begun = 0, share;

    assert(lock_is_held(&s->queue->mu));
    if (r->next == 0)
        r->done.queue_ns = time_now_ns() - r->arrived_ns;
    item->request = r;
    /* Keeping idle threads busy saves more time than saving a decode or a handover. */
    share = (uint32_t)min_u64(max_u64(s->waiting / s->queue->options.workers, 1), UINT32_MAX);
    do
        begun += begin_part(s, r, item, share - begun);
    while (item->num_parts - item->copies < parts && item->num_parts < PARTS_MAX && begun < share &&
           r->next < r->count);
    return begun;
}

uint32_t queue_begin_samples(struct queue_stream *s, struct item *item)
{
    return list_is_empty(&s->retries) ? begin_next(s, item) : begin_retries(s, item);
}
