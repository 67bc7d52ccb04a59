/* SPDX-License-Identifier: MIT */
/* queue_users.c - the streams of a queue. Users take turns, and so do the jobs of a user and the
 * streams of a job. */
#include "config.h"

#include "loader/serve/queue_users.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/lock.h"
#include "loader/cache/sample_cache.h"
#include "loader/serve/queue_priv.h"
#include "loader/serve/sharing.h"

enum { COST_PIXEL_NS = 20 }; /* estimated cost before any sample is rendered */

/* Find the user or job with this name in a list, or add it. Returns NULL when out of memory. */
static struct owner *join(struct list *list, const char *name, struct flow *parent,
                          uint64_t start_tag)
{
    size_t size = strlen(name) + 1;
    struct owner *o = NULL;

    for (struct list *at = list_first(list); at && !o; at = list_next(list, at))
        if (strcmp(container_of(at, struct owner, link)->name, name) == 0)
            o = container_of(at, struct owner, link);
    if (!o) {
        o = calloc(1, sizeof(*o) + size);
        if (!o)
            return NULL;
        memcpy(o->name, name, size);
        flow_init(&o->flow, parent, start_tag);
        list_init(&o->jobs);
        list_add_first(list, &o->link);
    }
    o->members++;
    return o;
}

static void leave(struct owner *o)
{
    assert(o->members > 0);
    if (--o->members > 0)
        return;
    assert(list_is_empty(&o->jobs) && o->flow.held == 0 && !o->flow.at);
    list_remove(&o->link);
    free(o);
}

/* Returns where the start tag of a user that has left is kept, so that a user that returns gets its
 * old tag. If two users have equal hashes, one gets the other's tag, which costs it a few samples
 * at most. */
static uint64_t *left_tag_of(struct queue *q, const char *user)
{
    uint64_t hash = 5381;

    for (; *user; user++)
        hash = hash * 33 + (unsigned char)*user;
    return &q->left_tags[hash % LEFT_TAGS];
}

/* Add a stream to its job, creating the job and user if they are new. Returns 0 or -ENOMEM. */
static int join_owners(struct queue *q, const struct queue_stream_options *o,
                       struct queue_stream *s)
{
    assert(lock_is_held(&q->mu));
    s->user = join(&q->users, o->user, &q->flow, *left_tag_of(q, o->user));
    if (!s->user)
        return -ENOMEM;
    s->job = join(&s->user->jobs, o->job, &s->user->flow, 0);
    if (!s->job) {
        leave(s->user);
        return -ENOMEM;
    }
    flow_init(&s->flow, &s->job->flow, 0);
    list_add_first(&q->streams, &s->link);
    return 0;
}

static void leave_owners(struct queue *q, struct queue_stream *s)
{
    assert(lock_is_held(&q->mu));
    list_remove(&s->link);
    *left_tag_of(q, s->user->name) = s->user->flow.start_tag;
    leave(s->job);
    leave(s->user);
}

void queue_users_follow(struct queue_stream *s, const struct order_share *share)
{
    struct course_order order = {.set = dataset_get_cached_set(s->spec->dataset),
                                 .order = s->spec->order,
                                 .steps = share->steps,
                                 .deal = share->deal,
                                 .mix = s->open->mix};

    order.steps.gaps = NULL;
    order.steps.num_gaps = 0;
    sample_cache_close_stream(s->course);
    s->course = sample_cache_open_stream(&order, share->offset, s->open->local);
}

int queue_stream_open(struct queue *queue, const struct queue_stream_options *options,
                      struct queue_stream **ret)
{
    const struct queue_stream_options *o = options;
    uint64_t pixels = views_pixels(&o->spec->views);
    struct queue_stream *s = malloc(sizeof(*s));
    int r;

    if (!s)
        return -ENOMEM;
    *s = (struct queue_stream){.queue = queue,
                               .spec = o->spec,
                               .open = o->open,
                               .layout = o->layout,
                               .ring = o->ring,
                               .node = o->node % queue->num_nodes,
                               .owner = o->owner,
                               .cost_ns = pixels * COST_PIXEL_NS,
                               .expected = {.epoch = UINT64_MAX}};
    list_init(&s->requests);
    list_init(&s->retries);
    list_init(&s->parked);
    lock_acquire(&queue->mu);
    r = join_owners(queue, o, s);
    if (r == 0)
        sharing_open(s);
    lock_release(&queue->mu);
    if (r < 0)
        free(s);
    else
        *ret = s;
    return r;
}

void queue_users_maybe_free(struct queue_stream *s)
{
    assert(lock_is_held(&s->queue->mu));
    if (!s->closed || s->announcing > 0)
        return;
    assert(list_is_empty(&s->requests) && list_is_empty(&s->retries));
    assert(list_is_empty(&s->parked));
    assert(s->waiting == 0 && s->flow.held == 0 && !s->flow.at);
    leave_owners(s->queue, s);
    free(s->planes);
    free(s);
}

void queue_stream_close(struct queue_stream *stream)
{
    struct rendering *unused;
    struct queue *q;

    if (!stream)
        return;
    q = stream->queue;
    sample_cache_close_stream(stream->course);
    stream->course = NULL;
    dataset_forget_announced(stream->spec->dataset);
    lock_acquire(&q->mu);
    assert(!stream->closed && list_is_empty(&stream->requests));
    stream->closed = true;
    sharing_close(stream);
    queue_users_maybe_free(stream);
    unused = sharing_reap(q);
    lock_release(&q->mu);
    sharing_free(unused);
}

bool queue_users_is_starved(const struct queue *q, struct queue_stream *s)
{
    unsigned most = q->options.io_threads + SPARE_OF_USER;
    bool since = s->starved;

    assert(lock_is_held(&q->mu));
    s->starved = q->idle_readers == 0 && s->waiting > 0 && s->flow.held == 0;
    return since && s->starved && s->user->flow.held < most;
}

void queue_stream_get_totals(struct queue_stream *stream, struct queue_totals *ret)
{
    lock_acquire(&stream->queue->mu);
    *ret = stream->totals;
    lock_release(&stream->queue->mu);
}

unsigned queue_stream_node(const struct queue_stream *stream)
{
    return stream->node;
}
