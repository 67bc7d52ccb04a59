/* SPDX-License-Identifier: MIT */
/* queue.c - decides which thread works on which sample, and when.
 *
 *     submit -> [requests of a stream] -> I/O thread: read
 *            -> [node queue: read items] -> worker: render -> finished
 *
 * A request is a batch. A task is one sample of it, or several if they are so cheap that handing
 * each over separately would cost more than rendering it (wanted_parts()). An I/O thread takes the
 * next task from users in turn, from a user's jobs in turn (the client sends the name of its job),
 * from a job's streams in turn (so a job of many instances gets no more than one of few), and from
 * the stream's oldest request (so that all cores work on the batch that is needed first). Turns are
 * shared by CPU time (fair_queue.h): a sample of 8192 x 8192 pixels costs as much as a thousand
 * small ones. Bytes are read into the buffers of a fixed number of items, which bounds memory.
 * Items are reused:
 *
 *     FREE --I/O thread begins a task--> READING --> READ --worker--> RENDERING --> FREE
 *
 * item_move() enforces these transitions. While an I/O thread waits for the disk, workers decode
 * the samples that have been read.
 *
 * Storage may hang, and with it every thread that reads from it. So no user, job or stream holds
 * more than its share of the I/O threads while others want some. If all I/O threads hang and a
 * stream has none, queue_beat() starts another.
 *
 * If one of several samples turns out to be large, or slow to read or render, the samples after it
 * are left to other threads, because they may be similar.
 *
 * If the bytes of a sample are bad, the sample returns to its stream, and an I/O thread reads a
 * substitute: workers never wait for storage.
 *
 * When reading is slow (a cold cache, a network), I/O threads also announce the next samples to the
 * kernel; the order of a stream is known far beyond its requests. The kernel then reads many
 * samples at once, and a cold cache costs bandwidth instead of one latency per sample. Announcing
 * may be slow as well, because the kernel must look up file names, so a thread spends at most as
 * much time on it as on reading. When reading is fast nothing is announced, which saves two system
 * calls per sample.
 *
 * A node queue holds the read samples for the workers of one NUMA node: those of the streams whose
 * slots are on that node. A worker whose node queue is empty takes from another one, because
 * decoding a sample takes far longer than writing it to another node's memory. Users take turns in
 * a node queue, too: expensive samples of one user that were read early do not delay those of
 * another.
 *
 * If CPU time is limited (token_bucket.h), a worker that has finished an item waits until the
 * bucket has tokens. That limits reading, too.
 *
 * Locks: the queue's lock is taken three times per task, each time for about a microsecond;
 * decoding, which takes about a millisecond, runs without it. Each node queue has a lock for
 * passing on one item. No thread holds both. No reading, decoding or callback happens under a
 * lock. */
#include "config.h"

#include "loader/serve/queue.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/lock.h"
#include "common/util.h"
#include "loader/serve/token_bucket.h"
#include "loader/serve/fair_queue.h"

enum {
    BUFFER_KEEP = 16 << 20, /* a buffer that grew beyond this for a huge file is freed afterwards */
    PART_KEEP = 256 << 10,  /* the same limit for an item's parts after the first */
    PARTS_MAX = 32,         /* per item */
    ITEM_NS = 100000,       /* CPU time or reading time to aim for in an item of several parts */
    LATE_NS = 1000000,      /* an item that took longer than this to read, */
    LARGE = 256 << 10,      /* or has more bytes than this, leaves its remaining parts to others */
    DEAR_NS = 50000000,     /* and so does one that has been rendered for longer than this */
    AHEAD_SAMPLES = 1024,   /* samples beyond the requests that are announced to the kernel */
    AHEAD_READ_NS = 200000, /* announce if the mean time of a read is longer */
    AHEAD_MEAN = 16,        /* samples in that mean */
    /* keep announcing for this many samples, since announced ones are read fast */
    AHEAD_HOLD = 4096,
    AHEAD_TIME_NS = 50000000, /* longest time that a thread announces before it reads again */
    COST_PIXEL_NS = 20,       /* estimated cost before any sample is rendered */
    COST_MEAN = 8,            /* samples */
    LEFT_TAGS = 256,
    SPARE_MAX = 64,    /* extra I/O threads, started to replace hanging ones */
    SPARE_OF_USER = 8, /* how many of these one user may get */
};

/* A position in the sequence of a stream's samples, batch after batch. */
struct walk {
    struct order_place step;
    uint32_t index;   /* the sample's index in its step, less than the stream's local count */
    uint64_t ordinal; /* samples since the walk began */
};

/* A user, or one of its jobs. Under the queue's lock; freed with its last stream. */
struct owner {
    struct list link; /* in the queue's users, or the user's jobs */
    struct list jobs; /* of a user */
    struct flow flow;
    unsigned members; /* jobs of a user, streams of a job */
    char name[];
};

struct queue_stream {
    /* Constant. */
    struct queue *queue;
    struct owner *user, *job;
    const struct render_spec *spec;
    const struct wire_open *open;
    const struct wire_slot *layout;
    const struct order_steps *steps;
    struct ring *ring;
    unsigned node;
    void *owner;
    /* Under the queue's lock. */
    struct list requests; /* unfinished, oldest first */
    struct list link;     /* in the queue's streams */
    struct flow flow;
    struct list retries;           /* samples that need a substitute to be read */
    uint64_t waiting;              /* samples that no thread has begun, including retries */
    uint64_t cost_ns;              /* mean CPU time of a sample */
    unsigned announcing;           /* threads that are announcing a sample of this stream */
    bool closed;                   /* free it when `announcing` reaches 0 */
    bool starved;                  /* since the last beat */
    uint64_t reads, reads_at_beat; /* finished reads, now and at the last beat */
    /* It holds I/O threads, and no call into its storage has returned since the last beat. */
    bool hangs;
    struct walk ahead;           /* the next sample to announce */
    struct order_place expected; /* position of the next request if it follows the last one */
    uint64_t asked;              /* samples requested since the walk began */
    uint64_t taken;              /* how many of them I/O threads have begun */
    uint64_t read_ns;            /* mean time of a read */
    struct queue_totals totals;
    uint64_t slow_until; /* announce until `taken` reaches this */
};

/* A sample whose bytes were bad, so that a substitute must be read; or a part that its item left to
 * others. It holds no buffer until then. */
struct retry {
    struct list link;
    struct queue_request *request;
    uint32_t index, count; /* as in struct part */
    struct render_try try;
};

enum item_state { ITEM_FREE, ITEM_READING, ITEM_READ, ITEM_RENDERING, ITEM_STATES };

/* A sample of a batch, or a run of positions that show the same sample (render_run()). */
struct part {
    uint32_t index; /* in its batch */
    uint32_t count; /* length of the run: consecutive samples of the batch */
    struct render_try try;
    struct render_files files;
    int code; /* result of the last operation on it, with its sentence */
    struct plenum_error err;
};

/* Some samples of one request that are being processed. The queue's lock protects a FREE item, the
 * lock of its node queue a READ one; in the other states the item belongs to one thread. */
struct item {
    enum item_state state; /* only item_move() writes it */
    struct list link;      /* in the free items, or in a node queue */
    struct queue_request *request;
    struct flow_turn turn;
    struct part parts[PARTS_MAX];
    uint32_t num_parts, samples; /* 0 when FREE */
    uint64_t read_ns, cpu_ns;
};

struct node_queue {
    struct lock mu;
    /* idle workers wait here for an item in any node queue, or for `stop` */
    pthread_cond_t to_render;
    struct list items; /* in rendering order */
    unsigned idle;     /* waiting workers */
    bool stop;
};

struct thread {
    struct queue *queue;
    unsigned index;
    unsigned node; /* of a worker */
    pthread_t id;
};

struct queue {
    /* Constant. */
    struct queue_options options;
    struct item *items;
    unsigned num_items;
    struct thread *threads; /* workers, then I/O threads */
    unsigned started;
    unsigned readers;      /* how many of them are I/O threads; holding mu */
    unsigned idle_readers; /* I/O threads with no work; holding mu */
    struct node_queue *node_queues;
    unsigned num_nodes;
    /* Any thread. */
    atomic_uint ready; /* items in all node queues */
    /* Any thread, holding mu. */
    struct lock mu;
    /* I/O threads wait here for a task and a free item, for something to announce, or for `stop` */
    pthread_cond_t to_read;
    struct list users, streams;
    struct flow flow; /* the root: users are its children */
    /* start tags of users that have left, by a hash of their names */
    uint64_t left_tags[LEFT_TAGS];
    struct list free;     /* items */
    struct list finished; /* requests */
    struct queue_counters counters;
    pthread_cond_t rested; /* workers that wait for CPU time wait here for `stop` */
    bool stop;
    struct token_bucket cpu; /* any thread */
};

/* The allowed transitions of an item. */
static const enum item_state item_next[ITEM_STATES] = {
    [ITEM_FREE] = ITEM_READING,
    [ITEM_READING] = ITEM_READ,
    [ITEM_READ] = ITEM_RENDERING,
    [ITEM_RENDERING] = ITEM_FREE,
};

static void item_move(struct item *item, enum item_state to)
{
    assert(item->state < ITEM_STATES && item_next[item->state] == to);
    assert((item->request != NULL) == (to != ITEM_FREE));
    item->state = to;
}

/* Move a request from its stream's list to the finished requests. Holding the lock. */
static void finish(struct queue *q, struct queue_request *r)
{
    assert(lock_is_held(&q->mu));
    list_remove(&r->link);
    r->done.total_ns = time_now_ns() - r->arrived_ns;
    if (!r->cancelled) {
        struct queue_totals *totals[] = {&r->stream->totals, &q->counters.all};

        for (unsigned i = 0; i < ARRAY_LEN(totals); i++) {
            totals[i]->batches++;
            totals[i]->failed += r->done.status < 0;
            totals[i]->queue_ns += r->done.queue_ns;
        }
        histogram_add(&q->counters.queue, r->done.queue_ns);
    }
    list_add_last(&q->finished, &r->link);
}

/* Change the number of waiting samples. Holding the lock. */
static void add_waiting(struct queue *q, struct queue_stream *s, int64_t more)
{
    assert(lock_is_held(&q->mu));
    s->waiting += (uint64_t)more;
    q->counters.queued += (uint64_t)more;
    flow_set_backlogged(&s->flow, s->waiting > 0 && !s->hangs);
}

/* A stream that hangs gets no more I/O threads, because they would hang, too. Holding the lock. */
static void set_hangs(struct queue_stream *s, bool hangs)
{
    assert(lock_is_held(&s->queue->mu));
    s->hangs = hangs;
    flow_set_backlogged(&s->flow, s->waiting > 0 && !hangs);
}

/* Drop the samples of a request that no thread has begun. Holding the lock. */
static void drop_waiting(struct queue *q, struct queue_request *r)
{
    struct list *list = &r->stream->retries, *next;
    uint32_t untaken = r->count - r->next;

    assert(lock_is_held(&q->mu));
    for (struct list *at = list_first(list); at; at = next) {
        struct retry *retry = container_of(at, struct retry, link);

        next = list_next(list, at);
        if (retry->request != r)
            continue;
        untaken += retry->count;
        list_remove(at);
        free(retry);
    }
    assert(untaken <= r->left);
    r->next = r->count;
    r->left -= untaken;
    add_waiting(q, r->stream, -(int64_t)untaken);
}

static void add_part(struct item *item, uint32_t index, uint32_t count,
                     const struct render_try *try)
{
    struct part *p = &item->parts[item->num_parts++];

    assert(item->num_parts <= PARTS_MAX);
    p->index = index;
    p->count = count;
    p->try = *try;
    p->code = 0;
    item->samples += count;
}

/* Start an item with a retry. Holding the lock. */
static void begin_retry(struct queue_stream *s, struct item *item)
{
    struct retry *retry = container_of(list_pop_first(&s->retries), struct retry, link);

    assert(lock_is_held(&s->queue->mu));
    item->request = retry->request;
    add_part(item, retry->index, retry->count, &retry->try);
    free(retry);
}

static struct queue_request *request_of(struct list *link)
{
    return container_of(link, struct queue_request, link);
}

/* Returns the oldest request with samples that no thread has begun. There must be one. Holding the
 * lock. */
static struct queue_request *first_waiting(struct queue_stream *s)
{
    struct list *at = list_first(&s->requests);

    assert(lock_is_held(&s->queue->mu));
    while (request_of(at)->next == request_of(at)->count)
        at = list_next(&s->requests, at);
    return request_of(at);
}

/* Add the next sample of a request, or a run of at most `most` of them, to an item. Holding the
 * lock. */
static void begin_part(struct queue_stream *s, struct queue_request *r, struct item *item,
                       uint32_t most)
{
    uint32_t in_step = r->next % s->open->local, count;
    struct render_try try;

    assert(lock_is_held(&s->queue->mu));
    if (r->next > 0 && in_step == 0) /* the batch's next step begins */
        r->place = order_place_settle(s->steps, order_place_after(s->steps, r->place));
    try = (struct render_try){.epoch = r->place.epoch,
                              .position = r->place.position + wire_step_position(s->open, in_step)};
    count = render_run(s->spec, try.position, (uint32_t)min_u64(most, s->open->local - in_step));
    add_part(item, r->next, count, &try);
    r->next += count;
    s->taken += count;
}

/* How many parts an item of this stream should have: one, unless samples are so cheap that handing
 * each one from thread to thread would cost more than the sample itself. Slow reading also means
 * one part, because more threads then read at once. Holding the lock. */
static uint32_t wanted_parts(const struct queue_stream *s)
{
    uint64_t each = max_u64(max_u64(s->cost_ns, s->read_ns), 1);

    assert(lock_is_held(&s->queue->mu));
    return s->reads == 0 ? 1 : (uint32_t)min_u64(max_u64(ITEM_NS / each, 1), PARTS_MAX);
}

/* Start an item with the next samples of the oldest request that has some. Holding the lock. */
static void begin_next(struct queue_stream *s, struct item *item)
{
    struct queue_request *r = first_waiting(s);
    uint32_t parts = wanted_parts(s), share;

    assert(lock_is_held(&s->queue->mu));
    if (r->next == 0)
        r->done.queue_ns = time_now_ns() - r->arrived_ns;
    item->request = r;
    /* Keeping otherwise idle threads busy is worth more than saving a decode or a handover. */
    share = (uint32_t)min_u64(max_u64(s->waiting / s->queue->options.workers, 1), UINT32_MAX);
    do
        begin_part(s, r, item, share - item->samples);
    while (item->num_parts < parts && item->samples < share && r->next < r->count);
}

/* Returns an item for the next samples to read, or NULL if there are none or no item is free.
 * Holding the lock. */
static struct item *begin_task(struct queue *q)
{
    struct flow *leaf = list_is_empty(&q->free) ? NULL : flow_pick(&q->flow, q->readers);
    struct queue_stream *s;
    struct item *item;

    assert(lock_is_held(&q->mu));
    if (!leaf)
        return NULL;
    item = container_of(list_pop_first(&q->free), struct item, link);
    s = container_of(leaf, struct queue_stream, flow);
    if (!list_is_empty(&s->retries))
        begin_retry(s, item);
    else
        begin_next(s, item);
    item_move(item, ITEM_READING);
    flow_charge(leaf, s->cost_ns * item->samples, &item->turn);
    flow_hold(leaf);
    s->starved = false;
    add_waiting(q, s, -(int64_t)item->samples);
    return item;
}

static void walk_on(const struct queue_stream *s, struct walk *w, uint64_t samples)
{
    uint64_t index = w->index + samples;

    w->ordinal += samples;
    w->index = (uint32_t)(index % s->open->local);
    if (index >= s->open->local)
        w->step = order_place_skip(s->steps, w->step, index / s->open->local);
}

static void maybe_free(struct queue_stream *s);

/* Returns the stream of the next sample to announce to the kernel, out of all streams whose reading
 * is slow, or NULL. Holding the lock. */
static struct queue_stream *next_announcement(struct queue *q, uint32_t *sample)
{
    assert(lock_is_held(&q->mu));
    for (struct list *at = list_first(&q->streams); at; at = list_next(&q->streams, at)) {
        struct queue_stream *s = container_of(at, struct queue_stream, link);

        if (s->hangs || s->taken >= s->slow_until || list_is_empty(&s->requests) ||
            !flow_may_hold(&s->flow, q->readers))
            continue;
        if (s->ahead.ordinal < s->taken) /* reading is ahead of announcing */
            walk_on(s, &s->ahead, s->taken - s->ahead.ordinal);
        if (s->ahead.ordinal >= s->asked + AHEAD_SAMPLES)
            continue;
        *sample =
            render_sample_at(s->spec, s->ahead.step.epoch,
                             s->ahead.step.position + wire_step_position(s->open, s->ahead.index));
        walk_on(s, &s->ahead, 1);
        return s;
    }
    return NULL;
}

/* Free an item for another task. Holding the lock. */
static void release_item(struct queue *q, struct item *item)
{
    struct queue_request *r = item->request;

    assert(lock_is_held(&q->mu));
    flow_settle(&r->stream->flow, &item->turn, item->cpu_ns);
    r->done.read_ns += item->read_ns;
    item->request = NULL;
    item->num_parts = item->samples = 0;
    item_move(item, ITEM_FREE);
    list_add_first(&q->free, &item->link);
    /* Wake I/O threads only once several items have been used, not for each one. */
    if (atomic_load(&q->ready) <= q->options.workers + q->options.io_threads)
        (void)pthread_cond_signal(&q->to_read);
}

static void free_retries(struct list *retries)
{
    struct list *link;

    while ((link = list_pop_first(retries)))
        free(container_of(link, struct retry, link));
}

/* Add retries for the positions of a part, `each` positions per retry, to the front of the list.
 * Returns false when out of memory. */
static bool add_retries(struct list *retries, struct queue_request *request,
                        const struct part *part, uint32_t each)
{
    for (uint32_t i = 0; i < part->count; i += each) {
        struct retry *retry = malloc(sizeof(*retry));

        if (!retry)
            return false;
        *retry = (struct retry){
            .request = request, .index = part->index + i, .count = each, .try = part->try};
        retry->try.position += i;
        retry->try.found = 0;
        list_add_first(retries, &retry->link);
    }
    return true;
}

/* Queue retries for reading, and return how many samples they cover; or drop them if the request
 * has failed or was cancelled. Holding the lock. */
static uint32_t queue_retries(struct queue *q, struct queue_request *r, struct list *retries)
{
    struct queue_stream *s = r->stream;
    struct list *link;
    uint32_t count = 0;

    assert(lock_is_held(&q->mu));
    if (r->cancelled || r->done.status < 0)
        free_retries(retries);
    while ((link = list_pop_first(retries))) {
        count += container_of(link, struct retry, link)->count;
        list_add_first(&s->retries, link);
    }
    if (count > 0) {
        add_waiting(q, s, count);
        (void)pthread_cond_broadcast(&q->to_read);
    }
    return count;
}

/* Returns the item of a node queue (or the head of its list) after which this item belongs: after
 * the items of its own user, and before those of users with larger start tags. */
static struct list *find_position(struct node_queue *nq, const struct item *item)
{
    const struct owner *user = item->request->stream->user;
    struct list *place = &nq->items;

    assert(lock_is_held(&nq->mu));
    for (struct list *at = list_first(place); at; at = list_next(&nq->items, at)) {
        const struct item *other = container_of(at, struct item, link);

        if (other->request->stream->user == user ||
            other->turn.start_tags[FLOW_LEVELS - 1] <= item->turn.start_tags[FLOW_LEVELS - 1])
            place = at;
    }
    return place;
}

/* Put a read item into its node queue, and wake an idle worker, preferably one of that node. */
static void hand_over(struct queue *q, struct item *item)
{
    struct node_queue *nq = &q->node_queues[item->request->stream->node];
    bool taken;

    lock_acquire(&nq->mu);
    item_move(item, ITEM_READ);
    list_add_after(find_position(nq, item), &item->link);
    (void)atomic_fetch_add(&q->ready, 1);
    taken = nq->idle > 0;
    if (taken)
        (void)pthread_cond_signal(&nq->to_render);
    lock_release(&nq->mu);
    for (unsigned i = 0; i < q->num_nodes && !taken; i++) {
        struct node_queue *other = &q->node_queues[i];

        lock_acquire(&other->mu);
        taken = other->idle > 0;
        if (taken)
            (void)pthread_cond_signal(&other->to_render);
        lock_release(&other->mu);
    }
}

/* Remove the parts from `first` onwards from an item and add them to `left`. Changes nothing and
 * returns false when out of memory. */
static bool leave_parts(struct item *item, uint32_t first, struct list *left)
{
    for (uint32_t i = first; i < item->num_parts; i++)
        if (!add_retries(left, item->request, &item->parts[i], item->parts[i].count)) {
            free_retries(left);
            return false;
        }
    for (; item->num_parts > first; item->num_parts--)
        item->samples -= item->parts[item->num_parts - 1].count;
    return true;
}

/* Read an item's files. If some samples are more expensive than expected, the parts after them go
 * to `left`. Holding no lock. */
static void read_item(struct item *item, struct list *left)
{
    const struct render_spec *spec = item->request->stream->spec;
    uint64_t begin = time_now_ns(), cpu = time_cpu_ns(), bytes = 0;

    for (uint32_t i = 0; i < item->num_parts; i++) {
        struct part *p = &item->parts[i];

        if (i > 0 && (bytes > LARGE || time_now_ns() - begin > LATE_NS) &&
            leave_parts(item, i, left))
            break;
        p->files.own.len = p->files.partner.len = p->files.fields.len = 0;
        p->code = render_read(spec, &p->try, &p->files, &p->err);
        bytes += p->files.own.len + p->files.partner.len + p->files.fields.len;
    }
    item->read_ns = time_now_ns() - begin;
    item->cpu_ns = time_cpu_ns() - cpu;
}

/* Holding the lock. */
static void track_reading(struct queue_stream *s, uint64_t read_ns)
{
    assert(lock_is_held(&s->queue->mu));
    s->read_ns = (s->read_ns * (AHEAD_MEAN - 1) + read_ns) / AHEAD_MEAN;
    if (s->read_ns >= AHEAD_READ_NS)
        s->slow_until = s->taken + AHEAD_HOLD;
}

/* Announce one sample, if there is one. Returns how long it took, or 0. Holding the lock, which is
 * released during the call into the kernel. */
static uint64_t announce(struct queue *q)
{
    struct dataset *dataset;
    struct queue_stream *s;
    uint64_t begin;
    uint32_t sample;
    bool images;

    assert(lock_is_held(&q->mu));
    s = next_announcement(q, &sample);
    if (!s)
        return 0;
    /* The stream may be closed in the meantime. The stream and its data set are not freed then, but
     * its spec is. */
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
        set_hangs(s, false);
    s->announcing--;
    maybe_free(s);
    return begin + 1;
}

static void *io_main(void *arg)
{
    struct thread *t = arg;
    struct queue *q = t->queue;
    uint64_t budget_ns = 0; /* for announcing */

    lock_acquire(&q->mu);
    while (!q->stop) {
        uint64_t ns = budget_ns > 0 ? announce(q) : 0;
        struct item *item = ns > 0 ? NULL : begin_task(q);

        if (ns > 0) {
            budget_ns -= min_u64(budget_ns, ns);
        } else if (item) {
            struct queue_stream *s = item->request->stream;
            uint32_t begun = item->samples;
            struct list left;

            list_init(&left);
            lock_release(&q->mu);
            read_item(item, &left);
            lock_acquire(&q->mu);
            /* Either other threads read the parts that the item has left, or those parts are
             * dropped. */
            item->request->left -= begun - item->samples - queue_retries(q, item->request, &left);
            flow_release(&s->flow);
            s->reads++;
            set_hangs(s, false);
            track_reading(s, item->read_ns / item->num_parts);
            budget_ns = min_u64(budget_ns + item->read_ns, AHEAD_TIME_NS);
            lock_release(&q->mu);
            hand_over(q, item);
            lock_acquire(&q->mu);
        } else if (announce(q) == 0) {
            q->idle_readers++;
            lock_wait(&q->mu, &q->to_read);
            q->idle_readers--;
        }
    }
    lock_release(&q->mu);
    return NULL;
}

/* Returns where to write the pixels of a sample of a batch. */
static struct render_target target_of(const struct queue_stream *s, uint8_t *slot, uint32_t index)
{
    const struct views *views = &s->spec->views;
    struct render_target target = {.boxes = NULL};

    for (uint32_t i = 0; i < views->count; i++)
        target.view[i] = slot + s->layout->pixels_at[i] +
                         (uint64_t)index * views->view[i].count * render_view_bytes(s->spec, i);
    if (s->open->geometry) {
        target.boxes =
            (float *)(void *)(slot + s->layout->boxes_at) + (uint64_t)index * views->images * 4;
        target.size = (uint32_t *)(void *)(slot + s->layout->sizes_at) + (uint64_t)index * 2;
        target.flips = slot + s->layout->flips_at + (uint64_t)index * views->images;
    }
    for (uint32_t i = 0; i < s->open->num_fields; i++) {
        target.field[i] =
            slot + s->layout->fields_at[i] + index * wire_field_bytes(s->open, &s->open->field[i]);
        if (field_varies(&s->open->field[i]))
            target.length[i] = (uint32_t *)(void *)(slot + s->layout->lengths_at[i]) + index;
    }
    return target;
}

/* Write a part's pixels, labels and sample numbers to its slot. Holding no lock. */
static int render_part(struct render_scratch *scratch, const struct queue_request *request,
                       struct part *p, struct render_result *result)
{
    const struct queue_stream *s = request->stream;
    uint8_t *slot = ring_slot(s->ring, request->slot);
    struct render_target targets[VIEWS_IMAGES_MAX];
    int r;

    assert(p->count <= VIEWS_IMAGES_MAX);
    for (uint32_t i = 0; i < p->count; i++)
        targets[i] = target_of(s, slot, p->index + i);
    r = render_bytes_of(s->spec, scratch, &p->try, p->count, &p->files, targets, result, &p->err);
    if (r < 0)
        return r;
    for (uint32_t i = p->index; i < p->index + p->count; i++) {
        ((int64_t *)(void *)(slot + s->layout->labels_at))[i] = result->label;
        ((uint32_t *)(void *)(slot + s->layout->samples_at))[i] = result->sample;
        if (s->open->mix) {
            ((int64_t *)(void *)(slot + s->layout->labels2_at))[i] = result->label2;
            ((float *)(void *)(slot + s->layout->weights_at))[i] = result->weight;
        }
    }
    return 0;
}

/* The outcome of rendering an item. */
struct outcome {
    int code; /* if negative, the request fails with this code and sentence */
    struct plenum_error err;
    /* Samples that need a substitute, or that belong to a bad run and may each need a different
     * one. */
    struct list retries;
    uint32_t rendered, substituted; /* numbers of samples */
};

/* Holding no lock. */
static void render_item(struct render_scratch *scratch, struct item *item, struct outcome *ret)
{
    struct queue_request *r = item->request;
    uint64_t begin = time_now_ns();

    ret->code = ring_check(r->stream->ring, &ret->err);
    for (struct part *p = item->parts; p < item->parts + item->num_parts && ret->code == 0; p++) {
        struct render_result result = {0};

        if (p > item->parts && time_now_ns() - begin > DEAR_NS &&
            add_retries(&ret->retries, r, p, p->count))
            continue;
        if (p->code == 0)
            p->code = render_part(scratch, r, p, &result);
        if (p->code == 0) {
            ret->rendered += p->count;
            ret->substituted += result.substituted;
        } else if (p->count > 1 ? p->code == -EBADMSG
                                : render_goes_on(r->stream->spec, &p->try, p->code, &p->err)) {
            if (!add_retries(&ret->retries, r, p, 1))
                ret->code = error_set(&ret->err, -ENOMEM, "out of memory");
        } else {
            ret->code = p->code;
            ret->err = p->err;
        }
    }
}

/* A sample that fails makes its whole request fail, and the request's other samples are dropped.
 * Holding the lock. */
static void fail_request(struct queue *q, struct queue_request *r, int code,
                         const struct plenum_error *err)
{
    assert(lock_is_held(&q->mu));
    if (r->done.status == 0) {
        r->done.status = code;
        memcpy(r->done.text, err->text, sizeof(r->done.text));
    }
    drop_waiting(q, r);
}

static struct item *pop(struct queue *q, struct node_queue *nq)
{
    struct item *item = NULL;
    struct list *first;

    lock_acquire(&nq->mu);
    first = list_pop_first(&nq->items);
    if (first) {
        item = container_of(first, struct item, link);
        item_move(item, ITEM_RENDERING);
        (void)atomic_fetch_sub(&q->ready, 1);
    }
    lock_release(&nq->mu);
    return item;
}

/* Returns the next item for a worker, first from its own node queue, then from the others. Waits
 * until there is one. NULL: the queue is shutting down. */
static struct item *next_item(struct queue *q, unsigned own)
{
    struct node_queue *nq = &q->node_queues[own];
    bool stop = false;

    while (!stop) {
        for (unsigned i = 0; i < q->num_nodes; i++) {
            struct item *item = pop(q, &q->node_queues[(own + i) % q->num_nodes]);

            if (item)
                return item;
        }
        /* hand_over() first counts the item and then looks for idle workers; we first count
         * ourselves as idle and then look at the count. So at least one side notices the other. */
        lock_acquire(&nq->mu);
        nq->idle++;
        if (!nq->stop && atomic_load(&q->ready) == 0)
            lock_wait(&nq->mu, &nq->to_render);
        nq->idle--;
        stop = nq->stop;
        lock_release(&nq->mu);
    }
    return NULL;
}

/* Holding the lock. */
static void count(struct queue *q, const struct item *item, uint64_t render_ns,
                  const struct outcome *o)
{
    struct queue_totals *totals[] = {&item->request->stream->totals, &q->counters.all};

    assert(lock_is_held(&q->mu));
    for (unsigned i = 0; i < ARRAY_LEN(totals); i++) {
        totals[i]->samples += o->rendered;
        totals[i]->substituted += o->substituted;
        totals[i]->read_ns += item->read_ns;
        totals[i]->render_ns += render_ns;
        totals[i]->cpu_ns += item->cpu_ns;
    }
    for (uint32_t i = 0; i < item->num_parts; i++)
        histogram_add(&q->counters.read, item->read_ns / item->num_parts);
    for (uint32_t i = 0; i < o->rendered; i++)
        histogram_add(&q->counters.render, render_ns / item->samples);
}

/* Holding the lock. */
static void track_cost(struct queue_stream *s, uint64_t cpu_ns)
{
    assert(lock_is_held(&s->queue->mu));
    s->cost_ns = (s->cost_ns * (COST_MEAN - 1) + cpu_ns) / COST_MEAN;
}

/* Account for an item, whether it was rendered or not, and free it. Returns true if its request is
 * finished: the caller then calls wake(). Holding the lock. */
static bool settle(struct queue *q, struct item *item, uint64_t render_ns, struct outcome *o)
{
    struct queue_request *r = item->request;
    uint32_t over = item->samples;

    assert(lock_is_held(&q->mu));
    r->done.render_ns += render_ns;
    r->done.substituted += o->substituted;
    count(q, item, render_ns, o);
    if (o->rendered > 0)
        track_cost(r->stream, item->cpu_ns / item->samples);
    if (o->code < 0 && !r->cancelled)
        fail_request(q, r, o->code, &o->err);
    over -= queue_retries(q, r, &o->retries);
    assert(r->left >= over);
    r->left -= over;
    release_item(q, item);
    if (r->left > 0)
        return false;
    finish(q, r);
    return true;
}

static void trim_parts(struct item *item)
{
    for (uint32_t i = 0; i < item->num_parts; i++)
        render_files_trim(&item->parts[i].files, i == 0 ? BUFFER_KEEP : PART_KEEP);
}

/* Render one item, unless its request was cancelled or has failed. */
static void work_on(struct queue *q, struct render_scratch *scratch, struct item *item)
{
    struct queue_request *r = item->request;
    struct outcome outcome = {.code = 0};
    uint64_t begin, cpu;
    bool over;

    list_init(&outcome.retries);
    lock_acquire(&q->mu);
    flow_serve(&r->stream->flow, &item->turn);
    if (r->cancelled || r->done.status < 0)
        outcome.code = -ECANCELED;
    lock_release(&q->mu);

    begin = time_now_ns();
    cpu = time_cpu_ns();
    if (outcome.code == 0)
        render_item(scratch, item, &outcome);
    begin = time_now_ns() - begin;
    item->cpu_ns += time_cpu_ns() - cpu;
    trim_parts(item);

    lock_acquire(&q->mu);
    over = settle(q, item, begin, &outcome);
    lock_release(&q->mu);
    if (over)
        q->options.wake(q->options.arg);
}

/* Wait until the token bucket allows more CPU time. */
static void wait_for_cpu(struct queue *q)
{
    uint64_t ns;

    while (q->cpu.millicores > 0 &&
           (ns = token_bucket_wait_ns(&q->cpu, time_now_ns(),
                                      time_clock_ns(CLOCK_PROCESS_CPUTIME_ID))) > 0) {
        uint64_t begin = time_now_ns();
        bool stop;

        lock_acquire(&q->mu);
        if (!q->stop)
            (void)lock_wait_until(&q->mu, &q->rested, begin + ns);
        stop = q->stop;
        q->counters.all.rested_ns += time_now_ns() - begin;
        lock_release(&q->mu);
        if (stop)
            return;
    }
}

static void *worker_main(void *arg)
{
    struct thread *t = arg;
    struct queue *q = t->queue;
    struct render_scratch scratch = {0};
    struct item *item;

    if (q->options.worker_start)
        q->options.worker_start(q->options.arg, t->index);
    while ((item = next_item(q, t->node))) {
        work_on(q, &scratch, item);
        wait_for_cpu(q);
    }
    render_scratch_fini(&scratch);
    return NULL;
}

/* Start the next thread: workers first, then I/O threads. Holding the lock. */
static int start_thread(struct queue *q)
{
    const struct queue_options *o = &q->options;
    bool worker = q->started < o->workers;
    struct thread *t = &q->threads[q->started];
    int r;

    assert(lock_is_held(&q->mu));
    *t = (struct thread){.queue = q, .index = q->started - (worker ? 0 : o->workers)};
    if (worker && o->worker_node)
        t->node = o->worker_node(o->arg, t->index) % q->num_nodes;
    r = thread_start(&t->id, worker ? worker_main : io_main, t);
    if (r < 0)
        return r;
    q->started++;
    q->readers += !worker;
    return 0;
}

static int start_threads(struct queue *q)
{
    unsigned count = q->options.workers + q->options.io_threads;
    int r = 0;

    q->threads = calloc(count + SPARE_MAX, sizeof(*q->threads));
    if (!q->threads)
        return -ENOMEM;
    lock_acquire(&q->mu);
    for (unsigned i = 0; i < count && r >= 0; i++)
        r = start_thread(q);
    lock_release(&q->mu);
    return r;
}

/* Has the stream waited without an I/O thread since the last beat, while all of them were busy? */
static bool is_starved(const struct queue *q, struct queue_stream *s)
{
    unsigned most = q->options.io_threads + SPARE_OF_USER;
    bool since = s->starved;

    assert(lock_is_held(&q->mu));
    s->starved = q->idle_readers == 0 && s->waiting > 0 && s->flow.held == 0;
    return since && s->starved && s->user->flow.held < most;
}

void queue_beat(struct queue *queue)
{
    struct queue *q = queue;
    bool starved = false;

    lock_acquire(&q->mu);
    for (struct list *at = list_first(&q->streams); at; at = list_next(&q->streams, at)) {
        struct queue_stream *s = container_of(at, struct queue_stream, link);

        set_hangs(s, s->flow.held > 0 && s->reads == s->reads_at_beat);
        s->reads_at_beat = s->reads;
        starved |= is_starved(q, s);
    }
    if (starved && q->readers < q->options.io_threads + SPARE_MAX && start_thread(q) == 0)
        list_add_first(&q->free, &q->items[q->num_items++].link);
    (void)pthread_cond_broadcast(&q->to_read);
    lock_release(&q->mu);
}

static int make_items(struct queue *q)
{
    /* One for each thread, and as many again that wait between reading and rendering. */
    q->num_items = 2 * (q->options.workers + q->options.io_threads);
    q->items = calloc(q->num_items + SPARE_MAX, sizeof(*q->items));
    q->node_queues = calloc(q->num_nodes, sizeof(*q->node_queues));
    if (!q->items || !q->node_queues)
        return -ENOMEM;
    for (unsigned i = 0; i < q->num_items; i++)
        list_add_first(&q->free, &q->items[i].link);
    for (unsigned i = 0; i < q->num_nodes; i++) {
        list_init(&q->node_queues[i].items);
        lock_init(&q->node_queues[i].mu);
        (void)pthread_cond_init(&q->node_queues[i].to_render, NULL);
    }
    return 0;
}

int queue_create(const struct queue_options *options, struct queue **ret)
{
    struct queue *q = calloc(1, sizeof(*q));
    int r;

    if (!q)
        return -ENOMEM;
    q->options = *options;
    list_init(&q->users);
    list_init(&q->streams);
    list_init(&q->free);
    list_init(&q->finished);
    (void)pthread_cond_init(&q->rested, NULL);
    token_bucket_init(&q->cpu, options->cpu_millicores, time_now_ns(),
                      time_clock_ns(CLOCK_PROCESS_CPUTIME_ID));
    q->num_nodes = options->nodes ? options->nodes : 1;
    lock_init(&q->mu);
    (void)pthread_cond_init(&q->to_read, NULL);
    r = make_items(q);
    if (r < 0)
        goto fail;
    r = start_threads(q);
    if (r < 0)
        goto fail;
    *ret = q;
    return 0;

fail:
    queue_destroy(q);
    return r;
}

static void stop_threads(struct queue *q)
{
    lock_acquire(&q->mu);
    q->stop = true;
    (void)pthread_cond_broadcast(&q->to_read);
    (void)pthread_cond_broadcast(&q->rested);
    lock_release(&q->mu);
    for (unsigned i = 0; q->node_queues && i < q->num_nodes; i++) {
        lock_acquire(&q->node_queues[i].mu);
        q->node_queues[i].stop = true;
        (void)pthread_cond_broadcast(&q->node_queues[i].to_render);
        lock_release(&q->node_queues[i].mu);
    }
    for (unsigned i = 0; i < q->started; i++)
        (void)pthread_join(q->threads[i].id, NULL);
}

void queue_destroy(struct queue *queue)
{
    struct queue_request *r;

    if (!queue)
        return;
    stop_threads(queue);
    while ((r = queue_pop_finished(queue)))
        free(r);
    for (unsigned i = 0; queue->items && i < queue->num_items; i++)
        for (unsigned k = 0; k < PARTS_MAX; k++)
            render_files_trim(&queue->items[i].parts[k].files, 0);
    for (unsigned i = 0; queue->node_queues && queue->items && i < queue->num_nodes; i++) {
        (void)pthread_cond_destroy(&queue->node_queues[i].to_render);
        lock_fini(&queue->node_queues[i].mu);
    }
    free(queue->items);
    free(queue->node_queues);
    free(queue->threads);
    (void)pthread_cond_destroy(&queue->to_read);
    (void)pthread_cond_destroy(&queue->rested);
    token_bucket_fini(&queue->cpu);
    lock_fini(&queue->mu);
    free(queue);
}

/* Find the user or job with this name in a list, or add it. Returns NULL when out of memory.
 * Holding the lock. */
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

/* Holding the lock. */
static void leave(struct owner *o)
{
    if (--o->members > 0)
        return;
    list_remove(&o->link);
    free(o);
}

/* A user that leaves and returns keeps its start tag. If two users have the same hash, one gets the
 * tag of the other, which makes a difference of a few samples at most. */
static uint64_t *left_tag_of(struct queue *q, const char *user)
{
    uint64_t hash = 5381;

    for (; *user; user++)
        hash = hash * 33 + (unsigned char)*user;
    return &q->left_tags[hash % LEFT_TAGS];
}

/* Add a stream to its job, creating the job and user if they are new. Returns 0 or -ENOMEM. Holding
 * the lock. */
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

/* Holding the lock. */
static void leave_owners(struct queue *q, struct queue_stream *s)
{
    assert(lock_is_held(&q->mu));
    list_remove(&s->link);
    *left_tag_of(q, s->user->name) = s->user->flow.start_tag;
    leave(s->job);
    leave(s->user);
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
                               .steps = o->steps,
                               .ring = o->ring,
                               .node = o->node % queue->num_nodes,
                               .owner = o->owner,
                               .cost_ns = pixels * COST_PIXEL_NS,
                               .expected = {.epoch = UINT64_MAX}};
    list_init(&s->requests);
    list_init(&s->retries);
    lock_acquire(&queue->mu);
    r = join_owners(queue, o, s);
    lock_release(&queue->mu);
    if (r < 0)
        free(s);
    else
        *ret = s;
    return r;
}

/* Holding the lock. */
static void maybe_free(struct queue_stream *s)
{
    assert(lock_is_held(&s->queue->mu));
    if (!s->closed || s->announcing > 0)
        return;
    leave_owners(s->queue, s);
    free(s);
}

void queue_stream_close(struct queue_stream *stream)
{
    struct queue *q;

    if (!stream)
        return;
    q = stream->queue;
    lock_acquire(&q->mu);
    assert(!stream->closed && list_is_empty(&stream->requests));
    stream->closed = true;
    maybe_free(stream);
    lock_release(&q->mu);
}

/* Account for a new request. If it does not follow the last one, announcing restarts at its
 * position. Holding the lock. */
static void track_request(struct queue_stream *s, struct order_place place, uint64_t count)
{
    assert(lock_is_held(&s->queue->mu));
    if (place.epoch != s->expected.epoch || place.position != s->expected.position) {
        s->ahead = (struct walk){.step = place};
        s->slow_until = s->slow_until > s->taken ? AHEAD_HOLD : 0;
        s->asked = s->taken = 0;
    }
    s->asked += count;
    s->expected = order_place_skip(s->steps, place, s->open->steps);
}

int queue_submit(struct queue_stream *stream, uint64_t id, const struct wire_render *render)
{
    struct queue *q = stream->queue;
    struct queue_request *r = malloc(sizeof(*r));

    assert(render->slot < stream->open->slots && !stream->closed);
    if (!r)
        return -ENOMEM;
    *r = (struct queue_request){.id = id,
                                .stream = stream,
                                .owner = stream->owner,
                                .arrived_ns = time_now_ns(),
                                .place = {render->epoch, render->position},
                                .slot = render->slot,
                                .count = (uint32_t)wire_batch_count(stream->open)};
    r->left = r->count;
    lock_acquire(&q->mu);
    list_add_last(&stream->requests, &r->link);
    track_request(stream, r->place, r->count);
    add_waiting(q, stream, r->count);
    (void)pthread_cond_broadcast(&q->to_read);
    lock_release(&q->mu);
    return 0;
}

bool queue_stream_has(struct queue_stream *stream, uint64_t id, uint32_t slot)
{
    bool has = false;

    lock_acquire(&stream->queue->mu);
    for (struct list *at = list_first(&stream->requests); at && !has;
         at = list_next(&stream->requests, at))
        has = request_of(at)->id == id || request_of(at)->slot == slot;
    lock_release(&stream->queue->mu);
    return has;
}

/* Returns true if the request is finished immediately. Holding the lock. */
static bool cancel(struct queue *q, struct queue_request *r)
{
    assert(lock_is_held(&q->mu));
    r->cancelled = true;
    drop_waiting(q, r);
    if (r->left > 0)
        return false;
    finish(q, r);
    return true;
}

static void cancel_matching(struct queue_stream *stream, bool all, uint64_t id)
{
    struct queue *q = stream->queue;
    struct list *next;
    bool over = false;

    lock_acquire(&q->mu);
    for (struct list *at = list_first(&stream->requests); at; at = next) {
        next = list_next(&stream->requests, at);
        if (all || request_of(at)->id == id)
            over |= cancel(q, request_of(at));
    }
    lock_release(&q->mu);
    if (over)
        q->options.wake(q->options.arg);
}

void queue_cancel(struct queue_stream *stream, uint64_t id)
{
    cancel_matching(stream, false, id);
}

void queue_cancel_all(struct queue_stream *stream)
{
    cancel_matching(stream, true, 0);
}

struct queue_request *queue_pop_finished(struct queue *queue)
{
    struct list *first;

    lock_acquire(&queue->mu);
    first = list_pop_first(&queue->finished);
    lock_release(&queue->mu);
    return first ? request_of(first) : NULL;
}

void queue_get_counters(struct queue *queue, struct queue_counters *ret)
{
    lock_acquire(&queue->mu);
    *ret = queue->counters;
    lock_release(&queue->mu);
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
