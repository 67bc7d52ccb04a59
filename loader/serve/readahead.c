/* SPDX-License-Identifier: MIT */
/* readahead.c - announces the next samples of slow streams to the kernel.
 *
 * When reading is slow (a cold cache, a network), I/O threads also announce the next samples to the
 * kernel; a stream's order is known far beyond its requests. The kernel then reads many samples at
 * once, so a cold cache is limited by bandwidth, not by one latency per sample. Announcing may be
 * slow as well, because the kernel must look up file names, so a thread spends at most as much time
 * on it as on reading. When reading is fast, nothing is announced, which saves two system calls per
 * sample. */
#include "config.h"

#include "loader/serve/readahead.h"

#include <assert.h>

#include "common/util/lock.h"
#include "common/util/util.h"
#include "loader/serve/queue_priv.h"
#include "loader/serve/queue_users.h"
#include "loader/serve/sharing.h"

enum {
    AHEAD_SAMPLES = 1024,   /* samples beyond the requests that are announced */
    AHEAD_READ_NS = 200000, /* announce if the mean time of a read is longer */
    AHEAD_MEAN = 16,        /* samples in that mean */
    /* Once reading is slow, announce at least this many samples: announced samples are read fast,
     * so fast reads do not show that announcing can end. */
    AHEAD_HOLD = 4096,
};

void readahead_set_hangs(struct queue_stream *s, bool hangs)
{
    assert(lock_is_held(&s->queue->mu));
    s->hangs = hangs;
    flow_set_backlogged(&s->flow, s->waiting > 0 && !hangs);
}

static void walk_on(const struct queue_stream *s, struct walk *w, uint64_t samples)
{
    uint64_t index = w->index + samples;

    w->ordinal += samples;
    w->index = (uint32_t)(index % s->open->local);
    if (index >= s->open->local)
        w->step = order_place_skip(&s->share.steps, w->step, index / s->open->local);
    assert(w->index < s->open->local);
}

/* Returns whether the stream is reading from a store now. */
static bool is_fetching(const struct queue_stream *s)
{
    return !list_is_empty(&s->requests) && dataset_is_remote(s->spec->dataset);
}

/* Count the streams of each user that are fetching; returns how many users have any. */
static unsigned count_fetching(struct queue *q)
{
    unsigned users = 0;

    for (struct list *at = list_first(&q->users); at; at = list_next(&q->users, at))
        container_of(at, struct owner, link)->fetching = 0;
    for (struct list *at = list_first(&q->streams); at; at = list_next(&q->streams, at)) {
        struct queue_stream *s = container_of(at, struct queue_stream, link);

        if (is_fetching(s))
            users += s->user->fetching++ == 0;
    }
    return users;
}

/* Returns how many samples a stream may announce before they are read. Users share the memory for
 * fetching equally, and so do the streams of a user. */
static uint64_t depth_of(const struct queue *q, const struct queue_stream *s, unsigned users)
{
    const struct dataset *d = s->spec->dataset;
    uint64_t mean, share;

    if (!is_fetching(s))
        return UINT64_MAX;
    assert(users > 0 && s->user->fetching > 0);
    share = q->options.fetch_memory / ((uint64_t)users * s->user->fetching);
    mean = dataset_get_bytes(d) / max_u64(dataset_get_samples(d), 1);
    return max_u64(share / max_u64(mean, 1), 1);
}

static bool may_announce(const struct queue *q, struct queue_stream *s, unsigned users)
{
    if (s->hangs || s->taken >= s->slow_until || list_is_empty(&s->requests) ||
        !flow_may_hold(&s->flow, q->readers))
        return false;
    if (s->ahead.ordinal < s->taken) /* reading is ahead of announcing */
        walk_on(s, &s->ahead, s->taken - s->ahead.ordinal);
    return s->ahead.ordinal < s->asked + AHEAD_SAMPLES &&
           s->ahead.ordinal - s->taken < depth_of(q, s, users);
}

/* Returns the stream of the next sample to announce, out of all streams whose reading is slow: the
 * one that has announced least; or NULL. */
static struct queue_stream *next_announcement(struct queue *q)
{
    struct queue_stream *best = NULL;
    unsigned users;

    assert(lock_is_held(&q->mu));
    users = count_fetching(q);
    for (struct list *at = list_first(&q->streams); at; at = list_next(&q->streams, at)) {
        struct queue_stream *s = container_of(at, struct queue_stream, link);

        if (may_announce(q, s, users) &&
            (!best || s->ahead.ordinal - s->taken < best->ahead.ordinal - best->taken))
            best = s;
    }
    return best;
}

/* Move past samples that need no reading because their pixels are shared, and past the one after
 * them. Returns that one, which is to be announced. */
static uint32_t take_announcement(struct queue_stream *s)
{
    struct order_place place;

    do {
        place = (struct order_place){
            .epoch = s->ahead.step.epoch,
            .position = order_share_position(&s->share, s->ahead.step, s->ahead.index)};
        walk_on(s, &s->ahead, 1);
    } while (sharing_has(s, place) && s->ahead.ordinal < s->asked + AHEAD_SAMPLES);
    assert(s->ahead.ordinal > s->taken);
    return render_sample_at(s->spec, place.epoch, place.position);
}

void readahead_track_reading(struct queue_stream *s, uint64_t read_ns)
{
    assert(lock_is_held(&s->queue->mu));
    s->read_ns = (s->read_ns * (AHEAD_MEAN - 1) + read_ns) / AHEAD_MEAN;
    if (s->read_ns >= AHEAD_READ_NS)
        s->slow_until = s->taken + AHEAD_HOLD;
}

uint64_t readahead_announce(struct queue *q)
{
    struct dataset *dataset;
    struct queue_stream *s;
    uint64_t begin;
    uint32_t sample;
    bool images;

    assert(lock_is_held(&q->mu));
    s = next_announcement(q);
    if (!s)
        return 0;
    sample = take_announcement(s);
    /* The stream may be closed while the lock is released. The stream and its data set then still
     * exist, but its spec does not. */
    images = views_have_images(&s->spec->views);
    dataset = dataset_ref(s->spec->dataset);
    flow_hold(&s->flow);
    s->announcing++;
    lock_release(&q->mu);
    begin = time_now_ns();
    if (images)
        dataset_announce(dataset, sample);
    begin = time_now_ns() - begin;
    dataset_unref(dataset);
    lock_acquire(&q->mu);
    flow_release(&s->flow);
    if (!s->closed)
        readahead_set_hangs(s, false);
    assert(s->announcing > 0);
    s->announcing--;
    queue_users_maybe_free(s);
    return begin + 1;
}

/* Returns whether this request follows the stream's last one. */
static bool is_expected(const struct queue_stream *s, const struct queue_request *r)
{
    return r->place.epoch == s->expected.epoch && r->place.position == s->expected.position &&
           order_share_is_same(&r->share, &s->share);
}

/* Returns the number of positions before a place, in all epochs. */
static uint64_t global_of(const struct order_steps *steps, struct order_place place)
{
    return place.epoch * max_u64(steps->n, steps->span) + place.position;
}

bool readahead_leaves(const struct queue_stream *s, const struct queue_request *r)
{
    uint64_t ahead, from, to;

    if (s->expected.epoch == UINT64_MAX) /* the first request */
        return false;
    if (!order_share_is_same(&r->share, &s->share))
        return true;
    ahead = (AHEAD_SAMPLES / s->open->local + 1) * (uint64_t)s->share.steps.per_step;
    from = global_of(&s->share.steps, s->expected);
    to = global_of(&s->share.steps, r->place);
    return max_u64(from, to) - min_u64(from, to) > ahead;
}

void readahead_track_request(struct queue_stream *s, const struct queue_request *r)
{
    assert(lock_is_held(&s->queue->mu) && r->count > 0);
    if (!is_expected(s, r)) {
        s->share = r->share;
        s->ahead = (struct walk){.step = r->place};
        s->slow_until = s->slow_until > s->taken ? AHEAD_HOLD : 0;
        s->asked = s->taken = 0;
    }
    s->asked += r->count;
    s->expected = order_place_skip(&s->share.steps, r->place, s->open->steps);
}
