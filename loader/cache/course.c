/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/cache/course.h"

#include <assert.h>

#include "common/util/util.h"

enum {
    MARK_S = 30,       /* time between the two marks that the rate is computed from */
    EPOCH_S = 600,     /* a new stream is assumed to take this long for an epoch */
    OVERDUE_PART = 4,  /* a use is overdue after a quarter of an epoch */
    SETTLED_MS = 1000, /* shortest time that a rate is computed from */
    /* A stream has stopped if it sends no request for a quarter of the measured time. */
    STOPPED_PART = 4,
    /* For a repeated sample, at most this many positions are examined to find one that the stream
     * uses; otherwise, the next one is assumed to be used. */
    LOOKS_MAX = 64,
};

void course_init(struct course *c, const struct course_order *order, uint64_t now_ns)
{
    assert(!order->order.mixture && order->steps.per_step > 0);
    *c = (struct course){.order = *order,
                         .stride = max_u64(order->steps.span, order_positions(&order->order))};
    c->mark[0] = c->mark[1] = (struct course_mark){.ns = now_ns};
    c->at_ns = now_ns;
    list_init(&c->streams);
    assert(c->stride > 0);
}

bool course_has_order(const struct course *c, const struct course_order *other)
{
    const struct course_order *o = &c->order;
    const struct order *a = &o->order, *b = &other->order;

    return o->set == other->set && a->seed == b->seed && a->n == b->n && a->shuffle == b->shuffle &&
           a->block == b->block && a->first == b->first && a->repeat == b->repeat &&
           o->steps.per_step == other->steps.per_step && o->steps.last == other->steps.last &&
           o->steps.span == other->steps.span && o->deal == other->deal && o->mix == other->mix;
}

static uint64_t axis(const struct course *c, struct order_place place)
{
    return place.epoch * c->stride + place.position;
}

static void note_place(struct course *c, uint64_t at, uint64_t now_ns)
{
    c->at = at;
    c->at_ns = now_ns;
    if (now_ns - c->mark[1].ns < MARK_S * NS_PER_SEC && c->mark[1].at <= at)
        return;
    c->mark[0] = c->mark[1].at <= at ? c->mark[1] : (struct course_mark){at, now_ns};
    c->mark[1] = (struct course_mark){at, now_ns};
}

void course_add(struct course *c, struct course_stream *s)
{
    s->course = c;
    list_add_last(&c->streams, &s->link);
}

bool course_remove(struct course_stream *s)
{
    list_remove(&s->link);
    return list_is_empty(&s->course->streams);
}

void course_advance(struct course_stream *s, struct order_place begin, struct order_place end,
                    uint64_t now_ns)
{
    struct course *c = s->course;
    uint64_t from = axis(c, begin), to = axis(c, end);
    bool starts = c->at == 0;

    /* Batches are requested again after a loader was lost. Only a step back by half an epoch means
     * that the stream has jumped. */
    if (to > s->at || from + c->stride / 2 < s->at)
        s->at = to;
    if (starts) /* a stream that resumes has not come from position 0 */
        c->mark[0] = c->mark[1] = (struct course_mark){s->at, now_ns};
    if (s->at > c->at || list_next(&c->streams, list_first(&c->streams)) == NULL)
        note_place(c, s->at, now_ns);
}

/* Returns whether a stream of the course uses this position of the epoch and has not requested it
 * yet. */
static bool is_used(const struct course *c, uint64_t epoch, uint64_t position)
{
    const struct order_steps *steps = &c->order.steps;
    uint32_t in_step = (uint32_t)(position % steps->per_step), index;
    struct order_place step = {epoch, position - in_step};

    if (!order_place_has_step(steps, step))
        return false;
    index = order_undeal(steps->per_step, c->order.deal, in_step);
    for (struct list *at = list_first(&c->streams); at; at = list_next(&c->streams, at)) {
        const struct course_stream *s = container_of(at, struct course_stream, link);

        if (index - s->offset < s->local && epoch * c->stride + position >= s->at)
            return true;
    }
    return false;
}

/* Returns the first use within an epoch from position `from` on and before `to`, or COURSE_NEVER.
 * After LOOKS_MAX positions without a use, the next position is assumed to be one. */
static uint64_t next_between(const struct course *c, uint64_t epoch, uint64_t from, uint64_t to)
{
    uint64_t most = min_u64(to, from + LOOKS_MAX);

    for (uint64_t position = from; position < most; position++)
        if (is_used(c, epoch, position))
            return epoch * c->stride + position;
    return from < to && most < to ? epoch * c->stride + most : COURSE_NEVER;
}

/* Returns the first use within an epoch, or COURSE_NEVER. All streams have requested the positions
 * before `least`. */
static uint64_t next_in(const struct course *c, uint64_t epoch, uint32_t sample, uint64_t least)
{
    const struct order *o = &c->order.order;
    uint64_t repeat = o->repeat ? o->repeat : 1, n = order_positions(o);
    uint64_t count = min_u64(c->order.mix ? 2 * repeat : repeat, n); /* partners come first */
    uint64_t begin = order_position(o, (uint32_t)epoch, sample) + n - (count - repeat);
    uint64_t past = least > epoch * c->stride ? least - epoch * c->stride : 0, use;

    begin %= n;
    use = begin + count > n ? next_between(c, epoch, past, begin + count - n) : COURSE_NEVER;
    if (use != COURSE_NEVER)
        return use;
    return next_between(c, epoch, max_u64(begin, past), min_u64(begin + count, n));
}

uint64_t course_next(const struct course *c, uint32_t sample)
{
    const struct order *o = &c->order.order;
    uint64_t least = UINT64_MAX, epoch, use;

    if (sample < o->first || sample - o->first >= o->n)
        return COURSE_NEVER;
    for (struct list *at = list_first(&c->streams); at; at = list_next(&c->streams, at))
        least = min_u64(least, container_of(at, struct course_stream, link)->at);
    if (least == UINT64_MAX)
        return COURSE_NEVER;
    epoch = least / c->stride;
    for (unsigned i = 0; i < COURSE_EPOCHS; i++) {
        use = next_in(c, epoch + i, sample, least);
        if (use != COURSE_NEVER)
            return use;
    }
    return (epoch + COURSE_EPOCHS) * c->stride - 1;
}

bool course_is_overdue(const struct course *c, uint64_t use)
{
    return use + c->stride / OVERDUE_PART < c->at;
}

/* Returns the mean time of a position, measured up to the last request, which is more exact, or up
 * to now if the stream has stopped. If that is less than SETTLED_MS, assumes EPOCH_S for an
 * epoch. */
static double position_ns(const struct course *c, uint64_t now_ns)
{
    const struct course_mark *m = &c->mark[0];
    uint64_t ns = c->at_ns - m->ns;

    if (now_ns - c->at_ns > ns / STOPPED_PART)
        ns = now_ns - m->ns;
    if (ns < SETTLED_MS * NS_PER_MS)
        return EPOCH_S * (double)NS_PER_SEC / (double)c->stride;
    return (double)ns / (double)max_u64(c->at - m->at, 1);
}

double course_wait_ns(const struct course *c, uint64_t use, uint64_t now_ns)
{
    double positions = use > c->at ? (double)(use - c->at) : 0;

    return positions * position_ns(c, now_ns);
}
