/* SPDX-License-Identifier: MIT */
/* queue.c - decides which thread works on which sample, and when.
 *
 *     submit -> [requests of a stream] -> I/O thread: read
 *            -> [node queue: read items] -> worker: render -> finished
 *
 * A request is a batch. A task is one sample of it, or several if they are so cheap that handing
 * each over separately would cost more than rendering it (queue_begin.c). An I/O thread takes the
 * next task from users in turn, from a user's jobs in turn (the client sends the name of its job),
 * from a job's streams in turn (so a job with many instances gets no more than one with few), and
 * from the stream's oldest request (so all cores work on the batch that is needed first). Turns are
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
 * When reading is slow, I/O threads also announce the next samples to the kernel (readahead.c).
 *
 * A node queue holds the read samples for the workers of one NUMA node: those of the streams whose
 * slots are on that node. A worker whose node queue is empty takes from another one, because
 * decoding a sample takes far longer than writing it to another node's memory. Users also take
 * turns in a node queue, so that expensive samples of one user that were read early do not delay
 * another user's.
 *
 * If CPU time is limited (token_bucket.h), a worker that has finished an item waits until the
 * bucket has tokens. That limits reading, too.
 *
 * Locks: the queue's lock is taken four times per task, each time for about a microsecond;
 * decoding, which takes about a millisecond, runs without it. Each node queue has its own lock, for
 * passing on one item. No thread holds both locks. No reading, decoding or callback happens under a
 * lock. */
#include "config.h"

#include "loader/serve/queue.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/lock.h"
#include "common/util/state.h"
#include "common/util/util.h"
#include "loader/cache/sample_cache.h"
#include "loader/serve/fair_queue.h"
#include "loader/serve/queue_begin.h"
#include "loader/serve/queue_item.h"
#include "loader/serve/queue_priv.h"
#include "loader/serve/queue_users.h"
#include "loader/serve/readahead.h"
#include "loader/serve/sharing.h"
#include "loader/serve/token_bucket.h"

enum { COST_MEAN = 8 }; /* samples */

struct node_queue {
    struct lock mu;
    /* Idle workers wait here for an item in any node queue, or for `stop`. */
    pthread_cond_t to_render;
    struct list items; /* in the order of rendering */
    unsigned idle;     /* waiting workers */
    bool stop;
};

struct thread {
    struct queue *queue;
    unsigned index;
    unsigned node; /* the worker's node */
    pthread_t id;
};

static const struct state_row item_states[] = {
    [ITEM_FREE] = {"free", STATE(ITEM_READING)},
    [ITEM_READING] = {"reading", STATE(ITEM_READ)},
    [ITEM_READ] = {"read", STATE(ITEM_RENDERING)},
    [ITEM_RENDERING] = {"rendering", STATE(ITEM_FREE)},
};

static bool item_is_sound(const void *object)
{
    const struct item *item = object;

    return (item->request != NULL) == (item->state != ITEM_FREE);
}

static const struct state_machine item_machine = {
    .name = "item", .states = item_states, .count = ARRAY_LEN(item_states), .holds = item_is_sound};

static void item_move(struct item *item, enum item_state to)
{
    enum item_state from = item->state;

    item->state = to;
    state_moved(&item_machine, item, 0, from, to);
}

/* Complete a request's times, count it unless it was cancelled, and move it from its stream's list
 * to the finished requests. */
static void finish(struct queue *q, struct queue_request *r)
{
    assert(lock_is_held(&q->mu));
    assert(r->left == 0 && r->next == r->count);
    list_remove(&r->link);
    r->done.total_ns = time_now_ns() - r->arrived_ns;
    r->done.rest_ns = (q->counters.all.rested_ns - r->rested_ns) / q->options.workers;
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

/* Free retries that will not be read. */
static void drop_retries(struct queue *q, struct list *retries)
{
    struct list *link;

    while ((link = list_pop_first(retries))) {
        struct retry *retry = container_of(link, struct retry, link);

        sharing_end(q, &retry->hold, NULL); /* it was not rendered: nothing is to copy */
        free(retry);
    }
}

/* Drop the samples of a request that no thread has begun, including retries and parked samples. */
static void drop_waiting(struct queue *q, struct queue_request *r)
{
    struct list *list = &r->stream->retries, *next, dropped;
    uint32_t untaken = r->count - r->next;

    assert(lock_is_held(&q->mu));
    list_init(&dropped);
    for (struct list *at = list_first(list); at; at = next) {
        struct retry *retry = container_of(at, struct retry, link);

        next = list_next(list, at);
        if (retry->request != r)
            continue;
        untaken += retry->count;
        list_remove(at);
        list_add_last(&dropped, at);
    }
    assert(untaken <= r->left);
    r->next = r->count;
    r->left -= untaken;
    queue_add_waiting(r->stream, -(int64_t)untaken);
    r->left -= sharing_drop_parked(r);
    drop_retries(q, &dropped);
}

static struct queue_request *request_of(struct list *link)
{
    return container_of(link, struct queue_request, link);
}

/* Put the next samples of a stream into an item. Returns false if all of them were parked. */
static bool begin_item(struct queue_stream *s, struct item *item)
{
    assert(lock_is_held(&s->queue->mu));
    assert(item->num_parts == 0 && item->samples == 0);
    s->starved = false;
    queue_add_waiting(s, -(int64_t)queue_begin_samples(s, item));
    if (item->samples == 0) {
        item->request = NULL;
        return false;
    }
    item_move(item, ITEM_READING);
    assert(item->request->stream == s);
    flow_charge(&s->flow, s->cost_ns * (item->samples - item->copies), &item->turn);
    flow_hold(&s->flow);
    return true;
}

/* Returns an item for the next samples to read, or NULL if there are none or no item is free. */
static struct item *begin_task(struct queue *q)
{
    struct flow *leaf;

    assert(lock_is_held(&q->mu));
    while (!list_is_empty(&q->free) && (leaf = flow_pick(&q->flow, q->readers))) {
        struct item *item = container_of(list_pop_first(&q->free), struct item, link);

        if (begin_item(container_of(leaf, struct queue_stream, flow), item))
            return item;
        list_add_first(&q->free, &item->link);
    }
    return NULL;
}

/* Free an item for another task. */
static void release_item(struct queue *q, struct item *item)
{
    struct queue_request *r = item->request;

    assert(lock_is_held(&q->mu));
    flow_settle(&r->stream->flow, &item->turn, item->cpu_ns);
    r->done.read_ns += item->read_ns;
    item->request = NULL;
    item->num_parts = item->samples = item->copies = 0;
    item_move(item, ITEM_FREE);
    list_add_first(&q->free, &item->link);
    /* Wake I/O threads only once several items are free, not for each one. */
    if (atomic_load(&q->ready) <= q->options.workers + q->options.io_threads)
        (void)pthread_cond_signal(&q->to_read);
}

/* Queue retries for reading, and return how many samples they cover; or drop them if the request
 * has failed or was cancelled. */
static uint32_t queue_retries(struct queue *q, struct queue_request *r, struct list *retries)
{
    struct queue_stream *s = r->stream;
    struct list *link;
    uint32_t count = 0;

    assert(lock_is_held(&q->mu));
    if (r->cancelled || r->done.status < 0)
        drop_retries(q, retries);
    while ((link = list_pop_first(retries))) {
        assert(container_of(link, struct retry, link)->request == r);
        count += container_of(link, struct retry, link)->count;
        list_add_first(&s->retries, link);
    }
    if (count > 0) {
        queue_add_waiting(s, count);
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

    assert(!lock_is_held(&q->mu));
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

/* Fail a whole request because one of its samples failed, and drop its other samples. */
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

    assert(!lock_is_held(&q->mu));
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
 * until there is one. Returns NULL if the queue is shutting down. */
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
         * ourselves as idle and then look at the count. So at least one of the two threads notices
         * the other. */
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

/* Add samples and their times to the totals of a stream, and to those of all. */
static void add_totals(struct queue_stream *s, const struct queue_totals *more)
{
    struct queue_totals *totals[] = {&s->totals, &s->queue->counters.all};

    assert(lock_is_held(&s->queue->mu));
    for (unsigned i = 0; i < ARRAY_LEN(totals); i++) {
        totals[i]->samples += more->samples;
        totals[i]->substituted += more->substituted;
        totals[i]->read_ns += more->read_ns;
        totals[i]->render_ns += more->render_ns;
        totals[i]->cpu_ns += more->cpu_ns;
    }
}

static void count(struct queue *q, const struct item *item, uint64_t render_ns,
                  const struct outcome *o)
{
    assert(lock_is_held(&q->mu));
    assert(item->num_parts > 0 && item->samples >= o->rendered);
    add_totals(item->request->stream, &(struct queue_totals){.samples = o->rendered,
                                                             .substituted = o->substituted,
                                                             .read_ns = item->read_ns,
                                                             .render_ns = render_ns,
                                                             .cpu_ns = item->cpu_ns});
    for (uint32_t i = item->copies; i < item->num_parts; i++)
        histogram_add(&q->counters.read, item->read_ns / (item->num_parts - item->copies));
    for (uint32_t i = item->copies; i < o->rendered; i++)
        histogram_add(&q->counters.render, render_ns / (item->samples - item->copies));
}

static void track_cost(struct queue_stream *s, uint64_t cpu_ns)
{
    assert(lock_is_held(&s->queue->mu));
    s->cost_ns = (s->cost_ns * (COST_MEAN - 1) + cpu_ns) / COST_MEAN;
}

/* Account for an item, whether it was rendered or not, and free it. Returns true if its request is
 * finished: the caller then calls wake(). */
static bool settle(struct queue *q, struct item *item, uint64_t render_ns, struct outcome *o)
{
    struct queue_request *r = item->request;
    uint32_t over = item->samples;

    assert(lock_is_held(&q->mu));
    r->done.render_ns += render_ns;
    r->done.substituted += o->substituted;
    count(q, item, render_ns, o);
    if (o->rendered > item->copies)
        track_cost(r->stream, item->cpu_ns / (item->samples - item->copies));
    if (o->code < 0 && !r->cancelled)
        fail_request(q, r, o->code, &o->err);
    over -= queue_retries(q, r, &o->retries);
    for (uint32_t i = 0; i < item->num_parts; i++)
        sharing_end(q, &item->parts[i].hold, &o->copies);
    assert(r->left >= over);
    r->left -= over;
    release_item(q, item);
    if (r->left > 0)
        return false;
    finish(q, r);
    return true;
}

/* Account for a parked sample that was copied with `code`, and free it. Returns true if its request
 * is finished. */
static bool settle_copy(struct queue *q, struct retry *retry, int code,
                        const struct plenum_error *err, const struct queue_totals *own)
{
    struct queue_request *r = retry->request;

    assert(lock_is_held(&q->mu) && r->left > 0);
    r->done.render_ns += own->render_ns;
    r->done.substituted += (uint32_t)own->substituted;
    if (code == 0)
        add_totals(r->stream, own);
    else if (!r->cancelled)
        fail_request(q, r, code, err);
    sharing_end(q, &retry->hold, NULL); /* it was copied: nothing waits for it */
    free(retry);
    if (--r->left > 0)
        return false;
    finish(q, r);
    return true;
}

/* Copy the rendering that this thread has just made to the samples that waited for it. */
static void copy_parked(struct queue *q, struct list *copies)
{
    uint64_t cpu_ns = list_is_empty(copies) ? 0 : time_cpu_ns();
    struct list *link;
    bool over = false;

    while ((link = list_pop_first(copies))) {
        struct retry *retry = container_of(link, struct retry, link);
        struct render_result result = {0};
        uint64_t begin_ns = time_now_ns(), before_ns = cpu_ns;
        struct plenum_error err;
        int code = queue_item_copy(retry, &result, &err);
        struct queue_totals own = {.samples = 1,
                                   .substituted = result.substituted,
                                   .render_ns = time_now_ns() - begin_ns,
                                   .cpu_ns = (cpu_ns = time_cpu_ns()) - before_ns};

        lock_acquire(&q->mu);
        over |= settle_copy(q, retry, code, &err, &own);
        lock_release(&q->mu);
    }
    if (over)
        q->options.wake(q->options.arg);
}

/* Render one item, unless its request was cancelled or has failed. `scratch` may be NULL if all of
 * its samples are copied. */
static void work_on(struct queue *q, struct render_scratch *scratch, struct item *item)
{
    struct queue_request *r = item->request;
    struct outcome outcome = {.code = 0};
    struct rendering *unused;
    uint64_t begin, cpu;
    bool over;

    list_init(&outcome.retries);
    list_init(&outcome.copies);
    lock_acquire(&q->mu);
    flow_serve(&r->stream->flow, &item->turn);
    if (r->cancelled || r->done.status < 0)
        outcome.code = -ECANCELED;
    lock_release(&q->mu);

    begin = time_now_ns();
    cpu = time_cpu_ns();
    if (outcome.code == 0)
        queue_item_render(scratch, item, &outcome);
    begin = time_now_ns() - begin;
    item->cpu_ns += time_cpu_ns() - cpu;
    queue_item_trim(item);

    lock_acquire(&q->mu);
    over = settle(q, item, begin, &outcome);
    unused = sharing_reap(q);
    lock_release(&q->mu);
    sharing_free(unused);
    if (over)
        q->options.wake(q->options.arg);
    copy_parked(q, &outcome.copies);
}

/* Let a worker render an item that was read. If its samples are only copied, do that here: waking a
 * worker would take as long. But only workers rest when CPU time is limited. */
static void pass_on(struct queue *q, struct item *item)
{
    if (item->copies < item->num_parts || q->options.cpu_millicores > 0) {
        hand_over(q, item);
        return;
    }
    item_move(item, ITEM_READ);
    item_move(item, ITEM_RENDERING);
    work_on(q, NULL, item);
}

static void *io_main(void *arg)
{
    struct thread *t = arg;
    struct queue *q = t->queue;
    uint64_t budget_ns = 0; /* time that may be spent on announcing */

    lock_acquire(&q->mu);
    while (!q->stop) {
        uint64_t ns = budget_ns > 0 ? readahead_announce(q) : 0;
        struct item *item = ns > 0 ? NULL : begin_task(q);

        if (ns > 0) {
            budget_ns -= min_u64(budget_ns, ns);
        } else if (item) {
            struct queue_stream *s = item->request->stream;
            uint32_t begun = item->samples;
            struct list left;

            list_init(&left);
            lock_release(&q->mu);
            queue_item_read(item, &left);
            lock_acquire(&q->mu);
            /* Either other threads read the parts that the item has left, or those parts are
             * dropped. */
            item->request->left -= begun - item->samples - queue_retries(q, item->request, &left);
            flow_release(&s->flow);
            s->reads++;
            readahead_set_hangs(s, false);
            if (item->num_parts > item->copies)
                readahead_track_reading(s, item->read_ns / (item->num_parts - item->copies));
            budget_ns = min_u64(budget_ns + item->read_ns, AHEAD_TIME_NS);
            lock_release(&q->mu);
            pass_on(q, item);
            lock_acquire(&q->mu);
        } else if (readahead_announce(q) == 0) {
            q->idle_readers++;
            lock_wait(&q->mu, &q->to_read);
            q->idle_readers--;
        }
    }
    lock_release(&q->mu);
    return NULL;
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

/* Start the next thread: workers first, then I/O threads. */
static int start_thread(struct queue *q)
{
    const struct queue_options *o = &q->options;
    bool worker = q->started < o->workers;
    struct thread *t = &q->threads[q->started];
    int r;

    assert(lock_is_held(&q->mu));
    assert(q->started < o->workers + o->io_threads + SPARE_MAX);
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

void queue_beat(struct queue *queue)
{
    struct queue *q = queue;
    bool starved = false;

    lock_acquire(&q->mu);
    for (struct list *at = list_first(&q->streams); at; at = list_next(&q->streams, at)) {
        struct queue_stream *s = container_of(at, struct queue_stream, link);

        readahead_set_hangs(s, s->flow.held > 0 && s->reads == s->reads_at_beat);
        s->reads_at_beat = s->reads;
        starved |= queue_users_is_starved(q, s);
    }
    if (starved && q->readers < q->options.io_threads + SPARE_MAX && start_thread(q) == 0)
        list_add_first(&q->free, &q->items[q->num_items++].link);
    (void)pthread_cond_broadcast(&q->to_read);
    lock_release(&q->mu);
    sharing_beat(q);
}

static int make_items(struct queue *q)
{
    /* One item for each thread, and the same number that wait between reading and rendering. */
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
    r = -ENOMEM;
    if (options->share_memory > 0 && !(q->renderings = renderings_create(options->share_memory)))
        goto fail;
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
    assert(list_is_empty(&queue->streams));
    while ((r = queue_pop_finished(queue)))
        free(r);
    sharing_beat(queue);
    renderings_destroy(queue->renderings);
    for (unsigned i = 0; queue->items && i < queue->num_items; i++)
        queue_item_fini(&queue->items[i]);
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

int queue_submit(struct queue_stream *stream, uint64_t id, const struct wire_render *render,
                 const struct order_share *share)
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
                                .share = *share,
                                .place = {render->epoch, render->position},
                                .slot = render->slot,
                                .count = (uint32_t)wire_batch_count(stream->open)};
    r->left = r->count;
    if (readahead_leaves(stream, r))
        dataset_forget_announced(stream->spec->dataset);
    if (!order_share_is_same(&stream->share, share)) /* only this function writes it */
        queue_users_follow(stream, share);
    if (stream->course)
        sample_cache_advance(stream->course, r->place,
                             order_place_skip(&share->steps, r->place, stream->open->steps));
    lock_acquire(&q->mu);
    r->rested_ns = q->counters.all.rested_ns;
    list_add_last(&stream->requests, &r->link);
    readahead_track_request(stream, r);
    queue_add_waiting(stream, r->count);
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

/* Cancel a request, and drop its samples that no thread has begun. Returns true if none were begun,
 * so that the request is finished now. */
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

void queue_get_shared(struct queue *queue, struct renderings_counts *ret)
{
    *ret = (struct renderings_counts){0};
    if (!queue->renderings)
        return;
    lock_acquire(&queue->mu);
    renderings_get_counts(queue->renderings, ret);
    lock_release(&queue->mu);
}
