/* queue.c - who works on which sample when.
 *
 *     submit -> [requests of a stream] -> I/O thread: read -> [items that are read] -> worker:
 * render -> finished
 *
 * A request is a batch; a task is one sample of it. I/O threads take tasks from the streams in turn
 * (fair between clients) and within a stream from its oldest request (all cores work on the batch
 * that is wanted first). They read into buffers of a fixed number of items, which are made once and
 * go round:
 *
 *     FREE --I/O thread takes a task--> READING --> READ --worker--> RENDERING --> FREE
 *
 * The number of items bounds both memory and how far reading runs ahead of decoding. While a disk
 * makes an I/O thread wait, decoding goes on with what has been read.
 *
 * One lock for all of it: it is taken four times a sample, for well under a microsecond, against a
 * millisecond of decoding without it. Nothing is read, decoded or called back under it. */
#include "config.h"

#include "loader/serve/queue.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/util.h"

/* A buffer that grew beyond this for one huge file is given back afterwards. */
enum { BUFFER_KEEP = 16 << 20 };

struct queue_stream {
    /* Constant. */
    struct queue *queue;
    const struct render_spec *spec;
    const struct wire_open *open;
    struct wire_slot layout;
    struct order_steps steps;
    struct ring *ring;
    void *owner;
    /* Under the queue's lock. */
    struct queue_request *first, *last; /* not finished, oldest first */
    struct queue_stream *link;          /* the queue's list, in turn */
};

/* One sample on its way. */
struct item {
    struct item *link;
    struct queue_request *request;
    uint32_t index; /* of the sample in its batch */
    struct order_place place;
    struct dataset_buffer buffer;
    int code;
    struct plenum_error err;
    uint64_t read_ns;
};

struct thread {
    struct queue *queue;
    unsigned index;
    pthread_t id;
};

struct queue {
    /* Constant. */
    struct queue_options options;
    struct item *items;
    unsigned num_items;
    struct thread *threads; /* workers, then I/O threads */
    unsigned started;
    /* Any thread, holding mu. */
    pthread_mutex_t mu;
    pthread_cond_t to_read;       /* I/O threads: a task and a free item, or stop */
    pthread_cond_t to_render;     /* workers: an item that is read, or stop */
    struct queue_stream *streams; /* the one whose turn it is first */
    struct item *free;
    struct item *read_first, *read_last;
    struct queue_request *finished_first, *finished_last;
    struct queue_counters counters;
    bool stop;
};

static void lock(struct queue *q)
{
    (void)pthread_mutex_lock(&q->mu);
}

static void unlock(struct queue *q)
{
    (void)pthread_mutex_unlock(&q->mu);
}

/* The request is over: from its stream's list to the finished ones. Holding the lock. */
static void finish(struct queue *q, struct queue_request *r)
{
    struct queue_request **at = &r->stream->first, *before = NULL;

    for (; *at != r; at = &(*at)->link)
        before = *at;
    *at = r->link;
    if (r->stream->last == r)
        r->stream->last = before;
    r->link = NULL;
    r->done.total_ns = time_now_ns() - r->arrived_ns;
    if (q->finished_last)
        q->finished_last->link = r;
    else
        q->finished_first = r;
    q->finished_last = r;
}

/* The next sample to read, from the streams in turn. Holding the lock. */
static bool take_task(struct queue *q, struct item *item)
{
    struct queue_stream **at = &q->streams, *s;
    struct queue_request *r = NULL;

    for (; (s = *at); at = &s->link) {
        for (r = s->first; r && r->next == r->count; r = r->link)
            ;
        if (r)
            break;
    }
    if (!s)
        return false;
    if (s->link) { /* its turn is over: to the end of the list */
        *at = s->link;
        for (at = &s->link; *at; at = &(*at)->link)
            ;
        *at = s;
        s->link = NULL;
    }
    if (r->next == 0)
        r->done.queue_ns = time_now_ns() - r->arrived_ns;
    if (r->next > 0 && r->next % s->open->local == 0) /* on to the batch's next step */
        r->place = order_place_settle(&s->steps, order_place_after(&s->steps, r->place));
    item->request = r;
    item->index = r->next++;
    item->place = r->place;
    item->place.position += s->open->offset + item->index % s->open->local;
    q->counters.queued--;
    return true;
}

/* Holding the lock; lets go of the item's task. True when somebody must be told. */
static bool end_task(struct queue *q, struct item *item)
{
    struct queue_request *r = item->request;
    bool over = --r->left == 0;

    r->done.read_ns += item->read_ns;
    if (over)
        finish(q, r);
    item->request = NULL;
    item->link = q->free;
    q->free = item;
    (void)pthread_cond_signal(&q->to_read);
    return over;
}

static void *io_main(void *arg)
{
    struct thread *t = arg;
    struct queue *q = t->queue;

    lock(q);
    while (!q->stop) {
        struct item *item = q->free;
        const struct render_spec *spec;
        uint64_t begin;

        if (!item || !take_task(q, item)) {
            (void)pthread_cond_wait(&q->to_read, &q->mu);
            continue;
        }
        q->free = item->link;
        item->link = NULL;
        spec = item->request->stream->spec;
        unlock(q);

        begin = time_now_ns();
        item->code = dataset_read(spec->dataset,
                                  render_sample_at(spec, item->place.epoch, item->place.position),
                                  &item->buffer, &item->err);
        item->read_ns = time_now_ns() - begin;

        lock(q);
        if (q->read_last)
            q->read_last->link = item;
        else
            q->read_first = item;
        q->read_last = item;
        (void)pthread_cond_signal(&q->to_render);
    }
    unlock(q);
    return NULL;
}

/* Pixels, label and sample number of one item into its slot. Holding no lock. */
static int render_item(struct render_scratch *scratch, const struct item *item,
                       struct render_result *result, struct plenum_error *err)
{
    const struct queue_stream *s = item->request->stream;
    uint8_t *slot = ring_slot(s->ring, item->request->slot);
    int r;

    r = render_position(s->spec, scratch, item->place.epoch, item->place.position, &item->buffer,
                        item->code, &item->err, slot + item->index * render_bytes(s->spec), result,
                        err);
    if (r < 0)
        return r;
    ((int64_t *)(void *)(slot + s->layout.labels_at))[item->index] = result->label;
    ((uint32_t *)(void *)(slot + s->layout.samples_at))[item->index] = result->sample;
    return 0;
}

/* A failed sample fails its batch; the batch's other samples need not be made. Holding the lock. */
static void note_failure(struct queue *q, struct queue_request *r, int code,
                         const struct plenum_error *err)
{
    uint32_t untaken = r->count - r->next;

    if (r->done.status == 0) {
        r->done.status = code;
        memcpy(r->done.text, err->text, sizeof(r->done.text));
    }
    r->next = r->count;
    r->left -= untaken;
    q->counters.queued -= untaken;
}

static void *worker_main(void *arg)
{
    struct thread *t = arg;
    struct queue *q = t->queue;
    struct render_scratch scratch = {0};

    if (q->options.worker_start)
        q->options.worker_start(q->options.arg, t->index);
    lock(q);
    while (!q->stop) {
        struct item *item = q->read_first;
        struct render_result result = {0};
        struct queue_request *r;
        struct plenum_error err;
        uint64_t begin;
        bool over, skip;
        int code = 0;

        if (!item) {
            (void)pthread_cond_wait(&q->to_render, &q->mu);
            continue;
        }
        q->read_first = item->link;
        if (!q->read_first)
            q->read_last = NULL;
        r = item->request;
        skip = r->cancelled || r->done.status < 0;
        unlock(q);

        begin = time_now_ns();
        if (!skip)
            code = render_item(&scratch, item, &result, &err);
        begin = time_now_ns() - begin;
        if (item->buffer.cap > BUFFER_KEEP)
            dataset_buffer_fini(&item->buffer);

        lock(q);
        r->done.render_ns += begin;
        if (code < 0 && !r->cancelled)
            note_failure(q, r, code, &err);
        if (code == 0 && !skip) {
            q->counters.samples++;
            q->counters.substituted += result.substituted;
            r->done.substituted += result.substituted;
        }
        over = end_task(q, item);
        if (over) {
            unlock(q);
            q->options.wake(q->options.arg);
            lock(q);
        }
    }
    unlock(q);
    render_scratch_fini(&scratch);
    return NULL;
}

static int start_threads(struct queue *q)
{
    unsigned count = q->options.workers + q->options.io_threads;
    sigset_t all, old;
    int r = 0;

    q->threads = calloc(count, sizeof(*q->threads));
    if (!q->threads)
        return -ENOMEM;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are the loop's */
    for (unsigned i = 0; i < count && r == 0; i++) {
        bool worker = i < q->options.workers;

        q->threads[i] = (struct thread){.queue = q, .index = worker ? i : i - q->options.workers};
        r = -pthread_create(&q->threads[i].id, NULL, worker ? worker_main : io_main,
                            &q->threads[i]);
        q->started += r == 0;
    }
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    return r;
}

int queue_create(const struct queue_options *options, struct queue **ret)
{
    struct queue *q = calloc(1, sizeof(*q));
    int r;

    if (!q)
        return -ENOMEM;
    q->options = *options;
    (void)pthread_mutex_init(&q->mu, NULL);
    (void)pthread_cond_init(&q->to_read, NULL);
    (void)pthread_cond_init(&q->to_render, NULL);
    /* One in each thread's hands, and as many again waiting between the two kinds. */
    q->num_items = 2 * (options->workers + options->io_threads);
    q->items = calloc(q->num_items, sizeof(*q->items));
    r = q->items ? 0 : -ENOMEM;
    for (unsigned i = 0; r == 0 && i < q->num_items; i++) {
        q->items[i].link = q->free;
        q->free = &q->items[i];
    }
    if (r == 0)
        r = start_threads(q);
    if (r < 0) {
        queue_destroy(q);
        return r;
    }
    *ret = q;
    return 0;
}

void queue_destroy(struct queue *queue)
{
    struct queue_request *r;

    if (!queue)
        return;
    lock(queue);
    queue->stop = true;
    (void)pthread_cond_broadcast(&queue->to_read);
    (void)pthread_cond_broadcast(&queue->to_render);
    unlock(queue);
    for (unsigned i = 0; i < queue->started; i++)
        (void)pthread_join(queue->threads[i].id, NULL);
    while ((r = queue_take_finished(queue)))
        free(r);
    for (unsigned i = 0; queue->items && i < queue->num_items; i++)
        dataset_buffer_fini(&queue->items[i].buffer);
    free(queue->items);
    free(queue->threads);
    (void)pthread_cond_destroy(&queue->to_render);
    (void)pthread_cond_destroy(&queue->to_read);
    (void)pthread_mutex_destroy(&queue->mu);
    free(queue);
}

int queue_stream_open(struct queue *queue, const struct render_spec *spec,
                      const struct wire_open *open, struct ring *ring, void *owner,
                      struct queue_stream **ret)
{
    struct queue_stream *s = malloc(sizeof(*s)), **at;
    int r;

    if (!s)
        return -ENOMEM;
    *s = (struct queue_stream){
        .queue = queue,
        .spec = spec,
        .open = open,
        .steps = {.n = spec->order.n, .per_step = open->per_step, .last = open->last},
        .ring = ring,
        .owner = owner};
    r = wire_slot_init(open, &s->layout);
    if (r < 0) {
        free(s);
        return r;
    }
    lock(queue);
    for (at = &queue->streams; *at; at = &(*at)->link)
        ;
    *at = s;
    unlock(queue);
    *ret = s;
    return 0;
}

void queue_stream_close(struct queue_stream *stream)
{
    struct queue_stream **at;

    if (!stream)
        return;
    lock(stream->queue);
    for (at = &stream->queue->streams; *at != stream; at = &(*at)->link)
        ;
    *at = stream->link;
    unlock(stream->queue);
    free(stream);
}

int queue_submit(struct queue_stream *stream, uint64_t id, const struct wire_render *render)
{
    struct queue *q = stream->queue;
    struct queue_request *r = malloc(sizeof(*r));

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
    lock(q);
    if (stream->last)
        stream->last->link = r;
    else
        stream->first = r;
    stream->last = r;
    q->counters.queued += r->count;
    (void)pthread_cond_broadcast(&q->to_read);
    unlock(q);
    return 0;
}

bool queue_stream_has(struct queue_stream *stream, uint64_t id, uint32_t slot)
{
    struct queue_request *r;

    lock(stream->queue);
    for (r = stream->first; r && r->id != id && r->slot != slot; r = r->link)
        ;
    unlock(stream->queue);
    return r != NULL;
}

/* Holding the lock. True when the request is over at once. */
static bool cancel(struct queue *q, struct queue_request *r)
{
    uint32_t untaken = r->count - r->next;

    r->cancelled = true;
    r->next = r->count;
    r->left -= untaken;
    q->counters.queued -= untaken;
    if (r->left > 0)
        return false;
    finish(q, r);
    return true;
}

static void cancel_matching(struct queue_stream *stream, bool all, uint64_t id)
{
    struct queue *q = stream->queue;
    struct queue_request *next;
    bool over = false;

    lock(q);
    for (struct queue_request *r = stream->first; r; r = next) {
        next = r->link;
        if (all || r->id == id)
            over |= cancel(q, r);
    }
    unlock(q);
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

struct queue_request *queue_take_finished(struct queue *queue)
{
    struct queue_request *r;

    lock(queue);
    r = queue->finished_first;
    if (r) {
        queue->finished_first = r->link;
        if (!r->link)
            queue->finished_last = NULL;
        r->link = NULL;
    }
    unlock(queue);
    return r;
}

void queue_get_counters(struct queue *queue, struct queue_counters *ret)
{
    lock(queue);
    *ret = queue->counters;
    unlock(queue);
}
