/* SPDX-License-Identifier: MIT */
/* Tests the queue of plenumd with its threads, without sockets. This is a plain program, so that it
 * also runs under ThreadSanitizer. */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/util.h"
#include "loader/serve/token_bucket.h"
#include "loader/serve/queue.h"
#include "tests/tap.h"
#include "tests/tree.h"

enum { SAMPLES = 50 };

static struct tree tree;
static struct dataset *dataset;
static atomic_uint wakes;

/* An optional slow disk, on which samples that were not announced take a millisecond. It is used
 * with one stream and one reading thread, so that samples are read in the order of the stream. */
enum { SLOW_SAMPLES = 2000, SLOW_SEQUENCE = SLOW_SAMPLES + 2000 };

static struct {
    bool on;
    uint32_t sequence[SLOW_SEQUENCE]; /* of the stream's samples */
    bool announced[SLOW_SEQUENCE];
    uint32_t reads, late, announcements, next; /* `next`: 1 + the last announced sample's place */
    bool astray;                               /* a sample was announced or read out of order */
} disk;

int __real_dataset_read(const struct dataset *d, uint32_t sample, struct dataset_buffer *buffer,
                        struct plenum_error *err);
int __wrap_dataset_read(const struct dataset *d, uint32_t sample, struct dataset_buffer *buffer,
                        struct plenum_error *err);
void __real_dataset_announce(const struct dataset *d, uint32_t sample);
void __wrap_dataset_announce(const struct dataset *d, uint32_t sample);

/* One data set's storage hangs until released. */
static struct {
    const struct dataset *dataset;
    pthread_mutex_t mu;
    pthread_cond_t change;
    unsigned calls; /* reads and announcements that hang */
    unsigned first; /* the number of next calls that take a millisecond instead of hanging */
} hung = {.mu = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};

static atomic_uint reads; /* of all data sets */

/* Records, for one reading thread and several slow reads in a row, whether each is passed on before
 * the next begins. */
static struct {
    struct queue *queue;
    unsigned reads, slow, kept;
} slowed;

static void slow_down(void)
{
    unsigned before = slowed.reads++, in_period = before % 100;
    struct queue_counters counters = {.all = {.samples = 0}};

    if (in_period < 40 || in_period > 43)
        return;
    (void)usleep(2000); /* a slow read */
    if (in_period == 40)
        return;
    for (int i = 0; i < 1000 && counters.all.samples < before; i++) {
        (void)usleep(1000);
        queue_get_counters(slowed.queue, &counters);
    }
    slowed.slow++;
    slowed.kept += counters.all.samples < before;
}

static void hang(const struct dataset *d)
{
    (void)pthread_mutex_lock(&hung.mu);
    if (d == hung.dataset && hung.first > 0) {
        hung.first--;
        (void)usleep(1000);
        d = NULL;
    }
    hung.calls += d && d == hung.dataset;
    while (d && d == hung.dataset)
        (void)pthread_cond_wait(&hung.change, &hung.mu);
    (void)pthread_mutex_unlock(&hung.mu);
}

static unsigned hung_calls(void)
{
    unsigned calls;

    (void)pthread_mutex_lock(&hung.mu);
    calls = hung.calls;
    (void)pthread_mutex_unlock(&hung.mu);
    return calls;
}

static void set_hung(const struct dataset *d, unsigned first)
{
    (void)pthread_mutex_lock(&hung.mu);
    hung.dataset = d;
    hung.calls = 0;
    hung.first = first;
    (void)pthread_cond_broadcast(&hung.change);
    (void)pthread_mutex_unlock(&hung.mu);
}

int __wrap_dataset_read(const struct dataset *d, uint32_t sample, struct dataset_buffer *buffer,
                        struct plenum_error *err)
{
    (void)atomic_fetch_add(&reads, 1);
    hang(d);
    if (slowed.queue)
        slow_down();
    if (disk.on && disk.reads < SLOW_SAMPLES) {
        disk.astray |= sample != disk.sequence[disk.reads];
        if (!disk.announced[disk.reads++]) {
            disk.late++;
            (void)usleep(1000);
        }
    }
    return __real_dataset_read(d, sample, buffer, err);
}

void __wrap_dataset_announce(const struct dataset *d, uint32_t sample)
{
    if (disk.on) {
        if (disk.next < disk.reads)
            disk.next = disk.reads;
        disk.astray |= disk.next >= SLOW_SEQUENCE || sample != disk.sequence[disk.next];
        disk.announced[disk.next] = true;
        disk.next += disk.next < SLOW_SEQUENCE - 1;
        disk.announcements++;
    }
    hang(d);
    __real_dataset_announce(d, sample);
}

static void wake(void *arg)
{
    (void)arg;
    (void)atomic_fetch_add(&wakes, 1);
}

/* One stream of the queue, as a session creates it. */
struct client {
    struct wire_open open;
    struct wire_slot layout;
    struct order_steps steps;
    struct render_spec spec;
    struct ring *ring;
    struct queue_stream *stream;
};

struct client_options {
    const char *user, *job;
    uint32_t per_step, steps, slots;
    uint32_t side; /* of the images, in pixels; 0 means 16 */
};

static void client_init_with(struct client *c, struct queue *q, const struct client_options *o)
{
    uint32_t side = o->side ? o->side : 16;
    static unsigned node;
    struct plenum_error err;
    char pipeline[64];

    *c = (struct client){.open = {.per_step = o->per_step,
                                  .local = o->per_step,
                                  .steps = o->steps,
                                  .channels = 3,
                                  .width = side,
                                  .height = side,
                                  .slots = o->slots,
                                  .dtype = PLENUM_UINT8}};
    (void)wire_slot_init(&c->open, &c->layout);
    c->open.slot_bytes = c->layout.bytes;
    c->spec = (struct render_spec){.dataset = dataset,
                                   .order = {.seed = 3, .n = SAMPLES},
                                   .store = {PLENUM_UINT8, PLENUM_NHWC, 3}};
    c->steps = (struct order_steps){.n = SAMPLES, .per_step = o->per_step, .last = c->open.last};
    (void)snprintf(pipeline, sizeof(pipeline), "rrc(%u) flip(0.5)", side);
    if (views_parse(pipeline, &c->spec.views, &err) < 0 ||
        ring_create(o->slots, c->open.slot_bytes, &c->ring, &err) < 0 ||
        queue_stream_open(q,
                          &(struct queue_stream_options){.user = o->user,
                                                         .job = o->job,
                                                         .spec = &c->spec,
                                                         .open = &c->open,
                                                         .layout = &c->layout,
                                                         .ring = c->ring,
                                                         .node = node++,
                                                         .owner = c},
                          &c->stream) < 0)
        abort();
}

/* Initialise a client that is a job by itself. */
static void client_init(struct client *c, struct queue *q, uint32_t per_step, uint32_t steps,
                        uint32_t slots)
{
    static unsigned jobs;
    char job[32];

    (void)snprintf(job, sizeof(job), "job %u", ++jobs);
    client_init_with(
        c, q,
        &(struct client_options){
            .user = "", .job = job, .per_step = per_step, .steps = steps, .slots = slots});
}

static void client_fini(struct client *c)
{
    queue_stream_close(c->stream);
    ring_destroy(c->ring);
}

static void submit(struct client *c, uint64_t id, uint64_t epoch, uint64_t position, uint32_t slot)
{
    struct wire_render render = {.epoch = epoch, .position = position, .slot = slot};
    struct order_share share = {.steps = c->steps, .deal = c->open.deal, .offset = c->open.offset};

    if (queue_submit(c->stream, id, &render, &share) < 0)
        abort();
}

/* Returns the next request to finish. */
static struct queue_request *take(struct queue *q)
{
    for (int i = 0; i < 300000; i++) { /* give up after five minutes */
        struct queue_request *r = queue_pop_finished(q);

        if (r)
            return r;
        (void)usleep(1000);
    }
    tap_ok(false, "a request finishes");
    exit(1);
}

/* Returns whether a slot equals the result of render_position() for this position. */
static bool slot_is_right(const struct client *c, uint32_t slot, struct order_place place)
{
    const struct order_steps *steps = &c->steps;
    const uint8_t *bytes = ring_slot(c->ring, slot);
    struct render_scratch scratch = {0};
    uint8_t pixels[16 * 16 * 3];
    bool right = true;

    for (uint32_t i = 0; i < wire_batch_count(&c->open); i++) {
        struct render_result result;

        if (i && i % c->open.local == 0)
            place = order_place_settle(steps, order_place_after(steps, place));
        if (render_position(&c->spec, &scratch,
                            (struct order_place){place.epoch, place.position + c->open.offset +
                                                                  i % c->open.local},
                            pixels, &result, NULL) < 0)
            abort();
        right &= memcmp(pixels, bytes + i * sizeof(pixels), sizeof(pixels)) == 0;
        right &= ((const int64_t *)(const void *)(bytes + c->layout.labels_at))[i] == result.label;
        right &=
            ((const uint32_t *)(const void *)(bytes + c->layout.samples_at))[i] == result.sample;
    }
    render_scratch_fini(&scratch);
    return right;
}

/* Assign the workers to the nodes in turn: worker 0 to node 0, worker 1 to node 1, and so on. */
static unsigned worker_node(void *arg, unsigned worker)
{
    (void)arg;
    return worker;
}

static struct queue *started_with_nodes(unsigned workers, unsigned io_threads, unsigned nodes)
{
    struct queue_options options = {.workers = workers,
                                    .io_threads = io_threads,
                                    .nodes = nodes,
                                    .worker_node = worker_node,
                                    .wake = wake};
    struct queue *q;

    if (queue_create(&options, &q) < 0)
        abort();
    return q;
}

static struct queue *started(unsigned workers, unsigned io_threads)
{
    return started_with_nodes(workers, io_threads, 1);
}

static void batches_are_what_one_thread_renders(unsigned workers, unsigned io_threads,
                                                unsigned nodes)
{
    struct queue *q = started_with_nodes(workers, io_threads, nodes);
    struct queue_counters counters;
    struct client a, b;
    bool right = true, answered = true;

    client_init(&a, q, 16, 1, 4);
    client_init(&b, q, 12, 5, 3);
    for (int round = 0; round < 6; round++) {
        uint64_t seen = 0;

        for (uint32_t i = 0; i < 4; i++)
            submit(&a, i, (uint64_t)round, i * 16 % SAMPLES, i);
        for (uint32_t i = 0; i < 3; i++)
            submit(&b, 10 + i, (uint64_t)round, i * 12, i);
        for (int i = 0; i < 7; i++) {
            struct queue_request *r = take(q);

            answered &= !r->cancelled && r->done.status == 0 && r->done.total_ns > 0;
            answered &= (r->owner == &a) == (r->id < 10);
            seen |= UINT64_C(1) << r->id;
            free(r);
        }
        answered &= seen == 0x1c0f;
        for (uint32_t i = 0; i < 4; i++)
            right &= slot_is_right(&a, i, (struct order_place){(uint64_t)round, i * 16 % SAMPLES});
        for (uint32_t i = 0; i < 3; i++)
            right &= slot_is_right(&b, i, (struct order_place){(uint64_t)round, i * 12});
    }
    tap_ok(answered, "every request is answered once (%u workers, %u readers)", workers,
           io_threads);
    tap_ok(right, "every slot has the pixels of render_position()");
    queue_get_counters(q, &counters);
    tap_ok(counters.all.samples == 6 * (4 * 16 + 3 * 60) && counters.queued == 0,
           "each sample was rendered once, and nothing is queued");
    client_fini(&a);
    client_fini(&b);
    queue_destroy(q);
}

/* Make the first sample hang until all streams have submitted their requests. Otherwise their
 * shares would depend on how fast this thread submits: it may be preempted. Works only for queues
 * with one I/O thread. */
static void begin_submitting(void)
{
    set_hung(dataset, 0);
}

static void end_submitting(void)
{
    set_hung(NULL, 0);
}

/* A stream with a large backlog must not delay another. */
static void streams_take_turns(void)
{
    struct queue *q = started(1, 1);
    struct client busy, late;
    struct queue_request *r;
    unsigned before = 0;

    client_init(&busy, q, 50, 1, 20);
    client_init(&late, q, 4, 1, 1);
    begin_submitting();
    for (uint32_t i = 0; i < 20; i++)
        submit(&busy, i, i, 0, i);
    submit(&late, 99, 0, 0, 0);
    end_submitting();
    for (;; before++) {
        uint64_t id;

        r = take(q);
        id = r->id;
        free(r);
        if (id == 99)
            break;
    }
    tap_ok(before <= 2,
           "4 samples of one stream wait for no more than 2 batches of 50 of another (%u)", before);
    for (; before < 20; before++)
        free(take(q));
    client_fini(&busy);
    client_fini(&late);
    queue_destroy(q);
}

/* A job with many streams gets no more than one with a single stream. */
static void jobs_take_turns(void)
{
    enum { STREAMS = 5, BATCHES = 16, BATCH = 10 };
    struct queue *q = started(1, 1);
    struct client many[STREAMS], one;
    unsigned of_many = 0, of_one = 0;
    bool fair = true;

    for (uint32_t i = 0; i < STREAMS; i++)
        client_init_with(
            &many[i], q,
            &(struct client_options){
                .user = "", .job = "many", .per_step = BATCH, .steps = 1, .slots = BATCHES});
    client_init_with(
        &one, q,
        &(struct client_options){
            .user = "", .job = "one", .per_step = BATCH, .steps = 1, .slots = BATCHES});
    begin_submitting();
    for (uint32_t k = 0; k < BATCHES; k++) {
        for (uint32_t i = 0; i < STREAMS; i++)
            submit(&many[i], i * BATCHES + k, k, 0, k);
        submit(&one, 1000 + k, k, 0, k);
    }
    end_submitting();
    /* A batch of the job with one stream has as many samples as the batches of all the other job's
     * streams together: when the one stream has finished k batches, each of the others is at k /
     * STREAMS. */
    for (unsigned n = 0; n < (STREAMS + 1) * BATCHES; n++) {
        struct queue_request *r = take(q);

        of_one += r->owner == &one;
        of_many += r->owner != &one;
        if (of_one < BATCHES)
            fair &= of_many <= of_one + 2 * STREAMS;
        if (of_many < STREAMS)
            fair &= of_one <= 2 * STREAMS;
        free(r);
    }
    tap_ok(fair && of_one == BATCHES, "five streams of one job get no more than one of another");
    for (uint32_t i = 0; i < STREAMS; i++)
        client_fini(&many[i]);
    client_fini(&one);
    queue_destroy(q);
}

/* Turns are measured in time, not in samples: while both clients have work, the one with expensive
 * samples gets no more CPU time. */
static void dear_samples_get_no_more_time(void)
{
    enum { BATCH = 50, BATCHES = 100, DEAR = 400, ALL = BATCHES + DEAR };
    struct queue *q = started(2, 1);
    struct queue_totals of_dear, of_cheap;
    struct client dear, cheap;
    unsigned tries = 0;

    do { /* until both have work while we measure */
        unsigned taken = 0;

        client_init_with(&dear, q,
                         &(struct client_options){.user = "alice",
                                                  .job = "job",
                                                  .per_step = 1,
                                                  .steps = 1,
                                                  .slots = DEAR,
                                                  .side = 512});
        client_init_with(
            &cheap, q,
            &(struct client_options){
                .user = "bob", .job = "job", .per_step = BATCH, .steps = 1, .slots = BATCHES});
        for (uint32_t i = 0; i < DEAR; i++)
            submit(&dear, i, 0, i % SAMPLES, i);
        for (uint32_t i = 0; i < BATCHES; i++)
            submit(&cheap, i, i, 0, i);
        for (unsigned left = BATCHES / 2; left > 0; taken++) {
            struct queue_request *r = take(q);

            left -= r->owner == &cheap;
            free(r);
        }
        queue_stream_get_totals(cheap.stream, &of_cheap);
        queue_stream_get_totals(dear.stream, &of_dear);
        queue_cancel_all(dear.stream);
        queue_cancel_all(cheap.stream);
        for (; taken < ALL; taken++)
            free(take(q));
        client_fini(&dear);
        client_fini(&cheap);
    } while (of_cheap.samples == BATCH * BATCHES && ++tries < 10);
    tap_ok(of_dear.samples > 0 && of_dear.samples < DEAR, "no client starves (%u dear samples)",
           (unsigned)of_dear.samples);
    tap_ok(
        of_dear.cpu_ns < 2 * of_cheap.cpu_ns,
        "while a user's small samples take %u us of the processors, another's large ones take %u",
        (unsigned)(of_cheap.cpu_ns / 1000), (unsigned)(of_dear.cpu_ns / 1000));
    queue_destroy(q);
}

/* Check that, over any period and whatever the work, no more CPU time is used than granted, except
 * for the reserve of a tenth of a second and the last item of each thread. */
static void budget_is_kept(uint32_t millicores, unsigned threads, uint64_t item_ns)
{
    struct token_bucket b;
    uint64_t wall = 5, cpu = 7, busy_until[8] = {0}, begin = 0, begin_cpu = 0, worst = 0,
             rested = 0;
    uint64_t slack = threads * item_ns + (uint64_t)millicores * NS_PER_MS / 10 + 1000000;
    uint32_t random = 1;

    token_bucket_init(&b, millicores, wall, cpu);
    /* The threads work whenever they may; the clock advances from the end of one item to the
     * next. */
    for (unsigned step = 0; step < 20000; step++) {
        unsigned t = 0;

        for (unsigned i = 1; i < threads; i++)
            t = busy_until[i] < busy_until[t] ? i : t;
        wall = max_u64(wall, busy_until[t]);
        random = random * 1664525 + 1013904223;
        rested = token_bucket_wait_ns(&b, wall, cpu);
        if (random >> 20 == 0) /* idle for a while */
            rested += NS_PER_SEC / 2;
        if (rested == 0)
            cpu += item_ns;
        busy_until[t] = wall + (rested ? rested : item_ns);
        if (random >> 24 == 7) { /* a period begins */
            begin = wall;
            begin_cpu = cpu;
        }
        if (begin > 0 && (cpu - begin_cpu) * 1000 > (wall - begin) * millicores)
            worst = max_u64(worst, cpu - begin_cpu - (wall - begin) / 1000 * millicores);
    }
    tap_ok(worst <= slack, "%u.%03u cores, %u threads, items of %llu us: the budget is kept",
           millicores / 1000, millicores % 1000, threads, (unsigned long long)item_ns / 1000);
    tap_ok(cpu * 1000 >= wall * millicores / 2 || threads * 1000 < millicores,
           "the budget is used where there is work");
    token_bucket_fini(&b);
}

/* Very small items: the budget must not go into putting threads to sleep and waking them. */
static void resting_is_cheap(uint32_t millicores, unsigned threads)
{
    enum { ITEM_NS = 100000, WAKE_NS = 40000 };

    struct token_bucket b;
    uint64_t wall = 5, cpu = 7, busy_until[8] = {0}, worked = 0, rested = 0;

    token_bucket_init(&b, millicores, wall, cpu);
    while (wall < 20 * NS_PER_SEC) {
        unsigned t = 0;

        for (unsigned i = 1; i < threads; i++)
            t = busy_until[i] < busy_until[t] ? i : t;
        wall = max_u64(wall, busy_until[t]);
        rested = token_bucket_wait_ns(&b, wall, cpu);
        cpu += rested ? WAKE_NS : ITEM_NS;
        worked += rested ? 0 : ITEM_NS;
        busy_until[t] = wall + (rested ? rested : ITEM_NS);
    }
    tap_ok(worked * 1000 >= wall * millicores * 8 / 10,
           "%u.%03u cores, %u threads: %u ms of %u go into work", millicores / 1000,
           millicores % 1000, threads, (unsigned)(worked / NS_PER_MS),
           (unsigned)(wall * millicores / 1000 / NS_PER_MS));
    token_bucket_fini(&b);
}

/* Check that no CPU time is lost when the bucket is queried very often. */
static void short_times_count(void)
{
    struct token_bucket b;
    uint64_t wall = 5, cpu = 7, waits = 0;

    token_bucket_init(&b, 1000, wall, cpu);
    wall += NS_PER_MS;
    for (unsigned i = 0; i < 20000; i++) {
        wall += 1999;
        cpu += 1990;
        waits += token_bucket_wait_ns(&b, wall, cpu) > 0;
    }
    tap_ok(waits == 0, "a process that uses less than its budget never rests");
    token_bucket_fini(&b);
}

/* Compare the moments when each request's first sample was started. (When its last one finishes
 * depends on the scheduler: a thread may lose its core in the middle of a sample.) */
static void oldest_request_is_taken_up_first(void)
{
    struct queue *q = started(2, 2);
    struct client c;
    uint64_t taken[8];
    bool in_order = true;

    client_init(&c, q, 30, 1, 8);
    for (uint32_t i = 0; i < 8; i++)
        submit(&c, i, 0, 0, i);
    for (uint64_t i = 0; i < 8; i++) {
        struct queue_request *r = take(q);

        taken[r->id] = r->arrived_ns + r->done.queue_ns;
        free(r);
    }
    for (uint64_t i = 1; i < 8; i++)
        in_order &= taken[i] > taken[i - 1];
    tap_ok(in_order, "all threads work on the oldest batch: batches are taken up in order");
    client_fini(&c);
    queue_destroy(q);
}

/* A slot whose request was answered CANCELLED must not be written any more. */
static void cancelled_work_stops(void)
{
    struct queue *q = started(4, 2);
    bool still = true, counted = true;

    for (int round = 0; round < 30; round++) {
        struct queue_counters counters;
        struct client c;
        size_t bytes;

        client_init(&c, q, 40, 1, 4);
        bytes = c.ring->bytes;
        for (uint32_t i = 0; i < 4; i++)
            submit(&c, i, 0, 0, i);
        (void)usleep((useconds_t)(round * 97)); /* any moment */
        if (round % 2) {
            queue_cancel_all(c.stream);
        } else {
            for (uint64_t i = 4; i-- > 0;)
                queue_cancel(c.stream, i);
            queue_cancel(c.stream, 77); /* there is no such request */
        }
        for (int i = 0; i < 4; i++)
            free(take(q));
        memset(c.ring->base, 0xa5, bytes);
        (void)usleep(2000); /* to see that nothing is written */
        for (size_t i = 0; i < bytes; i++)
            still &= c.ring->base[i] == 0xa5;
        queue_get_counters(q, &counters);
        counted &= counters.queued == 0;
        client_fini(&c);
    }
    tap_ok(still, "nothing is written after the answer to a cancelled request");
    tap_ok(counted, "nothing of the request is left in the queue");
    queue_destroy(q);
}

static void a_bad_sample_fails_its_batch_alone(void)
{
    struct queue *q = started(2, 1);
    struct client c;
    struct queue_request *r;

    tree_write_text(&tree, "data/a/00.jpg", "no image any more");
    client_init(&c, q, SAMPLES, 1, 2);
    c.spec.bad = PLENUM_BAD_FAIL;
    submit(&c, 1, 0, 0, 0);
    r = take(q);
    tap_ok(r->done.status == -ESTALE && strstr(r->done.text, "00.jpg"),
           "a file that changed fails the batch and is named: %s", r->done.text);
    free(r);
    client_fini(&c);
    client_init(&c, q, 1, 1, 1);
    c.spec.order.shuffle = ORDER_NONE;
    submit(&c, 2, 0, 7, 0);
    r = take(q);
    tap_ok(r->done.status == 0, "the next batch is not affected");
    free(r);
    client_fini(&c);
    queue_destroy(q);
}

/* With slow reads, upcoming samples are announced, in order and ahead of the requests. */
static void slow_reading_is_announced(void)
{
    enum { BATCH = 50, BATCHES = SLOW_SAMPLES / BATCH, DEPTH = 3 };
    struct queue *q = started(1, 1);
    struct client c;
    uint32_t asked = 0;

    client_init(&c, q, BATCH, 1, DEPTH);
    for (uint32_t i = 0; i < SLOW_SEQUENCE; i++)
        disk.sequence[i] = render_sample_at(&c.spec, i / SAMPLES, i % SAMPLES);
    disk.on = true;
    for (uint32_t taken = 0; taken < BATCHES; taken++) {
        for (; asked < BATCHES && asked < taken + DEPTH; asked++)
            submit(&c, asked, asked, 0, asked % DEPTH);
        free(take(q));
    }
    client_fini(&c);
    queue_destroy(q);
    disk.on = false;
    tap_ok(!disk.astray, "samples are announced and read in order");
    tap_ok(disk.reads == SLOW_SAMPLES && disk.late <= SLOW_SAMPLES / 10,
           "where reading is slow, hardly any sample is read without an announcement (%u of %u)",
           disk.late, disk.reads);
    tap_ok(disk.announcements <= SLOW_SAMPLES + 1024 && disk.announcements > SLOW_SAMPLES,
           "1 to 1024 samples beyond the requests are announced (%u announcements in all)",
           disk.announcements);
}

/* Storage that hangs for one stream, after `first` slow calls, stops no other, even if it occupied
 * all reading threads. */
static void storage_that_hangs_stops_nobody_else(unsigned io_threads, unsigned first)
{
    /* the hanging stream has more samples than there can be readers */
    enum { BATCH = 20, BATCHES = 16 };
    struct queue *q = started(2, io_threads);
    struct dataset *other;
    struct plenum_error err;
    struct client stuck, well;
    bool right = true;
    struct queue_request *r;

    if (dataset_open(tree_path(&tree, "data"), NULL, &other, &err) < 0)
        abort();
    client_init_with(
        &stuck, q,
        &(struct client_options){
            .user = "alice", .job = "job", .per_step = BATCH, .steps = 1, .slots = BATCHES});
    client_init_with(
        &well, q,
        &(struct client_options){
            .user = "alice", .job = "job", .per_step = BATCH, .steps = 1, .slots = BATCHES});
    stuck.spec.dataset = other;
    set_hung(other, first);
    for (uint32_t i = 0; i < BATCHES; i++)
        submit(&stuck, i, 0, 0, i);
    while (hung_calls() < io_threads)
        (void)usleep(1000);
    submit(&well, 0, 0, 0, 0);
    for (unsigned done = 0, idle = 0; right && done < BATCHES; idle = r ? 0 : idle + 1) {
        if (idle % 50 == 49) /* less often than turns are taken */
            queue_beat(q);
        r = queue_pop_finished(q);
        right = idle < 20000 && (!r || r->owner == &well);
        done += r != NULL;
        if (r && done < BATCHES) { /* meanwhile readers have only the hanging work */
            (void)usleep(20000);
            submit(&well, done, done, 0, done);
        }
        free(r);
        (void)usleep(r ? 0 : 1000);
    }
    tap_ok(right, "one stream's batches are rendered while all %u readers hang for another, %s",
           io_threads, first ? "which was slow before" : "from its first sample on");
    set_hung(NULL, 0);
    for (uint32_t i = 0; i < BATCHES && right; i++)
        free(take(q));
    client_fini(&stuck);
    client_fini(&well);
    queue_destroy(q);
    dataset_unref(other);
}

/* Cheap samples are read several at a time, but if reads become slow, a thread does not hold back
 * the others. */
static void a_slow_sample_is_not_waited_for_by_others(void)
{
    enum { STEP = 50, STEPS = 10, BATCHES = 4 };
    struct queue *q = started(1, 1);
    struct client c;
    bool right = true;

    slowed.queue = q;
    client_init(&c, q, STEP, STEPS, BATCHES);
    for (uint32_t i = 0; i < BATCHES; i++)
        submit(&c, i, (uint64_t)i * STEPS, 0, i);
    for (uint32_t i = 0; i < BATCHES; i++)
        free(take(q));
    slowed.queue = NULL;
    for (uint32_t i = 0; i < BATCHES; i++)
        right &= slot_is_right(&c, i, (struct order_place){(uint64_t)i * STEPS, 0});
    client_fini(&c);
    queue_destroy(q);
    tap_ok(slowed.slow > 0 && slowed.kept == 0,
           "samples that were read slowly are passed on at "
           "once (%u of %u kept)",
           slowed.kept, slowed.slow);
    tap_ok(right && slowed.reads == STEP * STEPS * BATCHES,
           "each sample is read once, and its pixels are right");
}

/* Returns a data set in which the first image of every `period` is valid and the others are
 * damaged. */
static struct dataset *open_damaged(const char *name, unsigned period)
{
    struct plenum_error err;
    struct dataset *d;
    char file[64];

    for (unsigned i = 0; i < SAMPLES; i++) {
        (void)snprintf(file, sizeof(file), "%s/a/%02u.jpg", name, i);
        if (i % period == 0)
            tree_write_jpeg(&tree, file, 40 + i % 7 * 5, 30, i);
        else
            tree_write_text(&tree, file, "no image");
    }
    if (dataset_open(tree_path(&tree, name), NULL, &d, &err) < 0)
        abort();
    return d;
}

/* Check that substitutes equal those of render_position(), whichever thread reads them. They are
 * always found, even in large batches, where a thread takes many samples at once. */
static void substitutes_are_those_of_one_thread(uint32_t steps)
{
    enum { BATCH = 25, BATCHES = 6 };
    struct queue *q = started(3, 2);
    struct dataset *damaged = open_damaged("damaged", 5);
    uint32_t all = BATCH * BATCHES * steps;
    struct queue_counters counters;
    uint32_t substituted = 0;
    struct client c;
    bool right = true;

    client_init(&c, q, BATCH, steps, BATCHES);
    c.spec.dataset = damaged;
    for (uint32_t i = 0; i < BATCHES; i++)
        submit(&c, i, i * steps / 2, i * steps % 2 * BATCH, i);
    for (uint32_t i = 0; i < BATCHES; i++) {
        struct queue_request *r = take(q);

        right &= r->done.status == 0;
        substituted += r->done.substituted;
        free(r);
    }
    for (uint32_t i = 0; i < BATCHES; i++)
        right &= slot_is_right(&c, i, (struct order_place){i * steps / 2, i * steps % 2 * BATCH});
    queue_get_counters(q, &counters);
    tap_ok(right, "substitutes of bad samples are those that render_position() finds");
    tap_ok(substituted == all / 5 * 4 && counters.all.substituted == substituted &&
               counters.all.samples == all && counters.queued == 0,
           "each sample is counted once, and so is each substitute (%u)", substituted);
    client_fini(&c);
    queue_destroy(q);
    dataset_unref(damaged);
}

/* Check that consecutive positions in one step that show the same sample are rendered from a
 * single read, and that, if the sample is bad, each position gets the substitute that it would get
 * alone. */
static void repeats_are_read_once(uint32_t repeat, const char *views, unsigned period,
                                  unsigned workers)
{
    enum { STEP = 10, STEPS = 2, BATCHES = 5, ALL = STEP * STEPS * BATCHES };
    struct queue *q = started(workers, 2);
    struct dataset *some = period > 1 ? open_damaged("repeated", period) : dataset_ref(dataset);
    struct queue_counters counters;
    struct client c;
    bool right = true;
    unsigned runs = 0;

    client_init(&c, q, STEP, STEPS, BATCHES);
    c.spec.dataset = some;
    c.spec.order.repeat = c.spec.run = repeat;
    c.steps.n = order_positions(&c.spec.order);
    if (views_parse(views, &c.spec.views, NULL) < 0)
        abort();
    for (uint32_t at = 0, run; at < ALL; at += run, runs++) {
        run = repeat - at % repeat;
        run = (uint32_t)min_u64(run, STEP - at % STEP);
        run = (uint32_t)min_u64(run, VIEWS_IMAGES_MAX);
    }
    atomic_store(&reads, 0);
    for (uint32_t i = 0; i < BATCHES; i++)
        submit(&c, i, 0, i * STEP * STEPS, i);
    for (uint32_t i = 0; i < BATCHES; i++) {
        struct queue_request *r = take(q);

        right &= r->done.status == 0;
        free(r);
    }
    if (period == 1 && workers > 1)
        tap_ok(atomic_load(&reads) >= runs && atomic_load(&reads) <= ALL,
               "%u readings by %u threads, each of which gets some", atomic_load(&reads), workers);
    else if (period == 1)
        tap_ok(atomic_load(&reads) == runs, "%u readings of %d samples, repeated %u times",
               atomic_load(&reads), ALL, repeat);
    for (uint32_t i = 0; i < BATCHES; i++)
        right &= slot_is_right(&c, i, (struct order_place){0, i * STEP * STEPS});
    queue_get_counters(q, &counters);
    tap_ok(right, "each position has the pixels of render_position()");
    tap_ok(counters.all.samples == ALL && counters.queued == 0,
           "each position is counted once "
           "(%llu)",
           (unsigned long long)counters.all.samples);
    client_fini(&c);
    queue_destroy(q);
    dataset_unref(some);
}

static void without_a_substitute_a_batch_fails(void)
{
    struct queue *q = started(2, 2);
    struct dataset *damaged = open_damaged("ruins", SAMPLES);
    struct queue_request *r;
    struct client c;

    client_init(&c, q, 20, 1, 2);
    c.spec.dataset = damaged;
    c.spec.order.first = 1;
    c.spec.order.n = SAMPLES - 1;
    submit(&c, 1, 0, 0, 0);
    submit(&c, 2, 0, 20, 1);
    queue_cancel(c.stream, 2);
    for (unsigned i = 0; i < 2; i++) {
        r = take(q);
        tap_ok(r->id == 2 ? r->cancelled
                          : r->done.status == -EBADMSG && strstr(r->done.text, "in 100 tries"),
               "where all samples are bad, a batch fails or is cancelled: %s", r->done.text);
        free(r);
    }
    client_fini(&c);
    queue_destroy(q);
    dataset_unref(damaged);
}

/* Storage that hangs while a substitute is read blocks a reader, but no worker. */
static void substitutes_that_hang_stop_nobody_else(void)
{
    enum { BATCH = 10 };
    struct queue *q = started(1, 2);
    struct dataset *damaged = open_damaged("wreck", SAMPLES);
    struct queue_request *r = NULL;
    struct client stuck, well;

    client_init_with(&stuck, q,
                     &(struct client_options){
                         .user = "alice", .job = "job", .per_step = BATCH, .steps = 1, .slots = 1});
    client_init_with(&well, q,
                     &(struct client_options){
                         .user = "bob", .job = "job", .per_step = BATCH, .steps = 1, .slots = 1});
    stuck.spec.dataset = damaged;
    stuck.spec.order.first = 1; /* all are bad */
    stuck.spec.order.n = SAMPLES - 1;
    set_hung(damaged, 1);
    submit(&stuck, 1, 0, 0, 0);
    while (hung_calls() < 2)
        (void)usleep(1000);
    submit(&well, 2, 0, 0, 0);
    for (unsigned i = 0; i < 300000 && !r; i++) {
        if (i % 50 == 49)
            queue_beat(q);
        (void)usleep(1000);
        r = queue_pop_finished(q);
    }
    tap_ok(r && r->owner == &well, "a worker does not wait for a substitute's storage");
    free(r);
    queue_cancel(stuck.stream, 1);
    set_hung(NULL, 0);
    free(take(q));
    client_fini(&stuck);
    client_fini(&well);
    queue_destroy(q);
    dataset_unref(damaged);
}

int main(void)
{
    struct plenum_error err;
    char name[64];

    tree_init(&tree);
    for (unsigned i = 0; i < SAMPLES; i++) {
        (void)snprintf(name, sizeof(name), "data/%c/%02u.jpg", 'a' + (int)(i % 2), i);
        tree_write_jpeg(&tree, name, 40 + i % 7 * 5, 30 + i % 5 * 8, i);
    }
    if (dataset_open(tree_path(&tree, "data"), NULL, &dataset, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    batches_are_what_one_thread_renders(1, 1, 1);
    batches_are_what_one_thread_renders(4, 3, 1);
    batches_are_what_one_thread_renders(4, 2, 2);
    batches_are_what_one_thread_renders(2, 1, 5); /* nodes without a worker: others help */
    streams_take_turns();
    jobs_take_turns();
    dear_samples_get_no_more_time();
    storage_that_hangs_stops_nobody_else(1, 0);
    storage_that_hangs_stops_nobody_else(3, 0);
    storage_that_hangs_stops_nobody_else(1, 20); /* it hangs in announcements, too */
    storage_that_hangs_stops_nobody_else(3, 20);
    budget_is_kept(400, 1, 1000000);
    budget_is_kept(400, 4, 30000000);
    budget_is_kept(2500, 4, 700000);
    budget_is_kept(10, 2, 5000000);
    resting_is_cheap(50, 1);
    resting_is_cheap(500, 4);
    resting_is_cheap(2500, 3);
    short_times_count();
    oldest_request_is_taken_up_first();
    cancelled_work_stops();
    repeats_are_read_once(2, "rrc(16) flip(0.5)", 1, 1);
    repeats_are_read_once(7, "rrc(16) rotate(30) flip(0.5)", 1, 1);
    repeats_are_read_once(500, "rrc(16) flip(0.5)", 1, 1);
    repeats_are_read_once(500, "rrc(16) flip(0.5)", 1, 7);
    repeats_are_read_once(3, "rrc(16) flip(0.5)", 2, 3);
    slow_reading_is_announced();
    a_slow_sample_is_not_waited_for_by_others();
    a_bad_sample_fails_its_batch_alone();
    substitutes_are_those_of_one_thread(1);
    substitutes_are_those_of_one_thread(40);
    without_a_substitute_a_batch_fails();
    substitutes_that_hang_stop_nobody_else();
    tap_ok(atomic_load(&wakes) > 0, "the loop is woken");
    dataset_unref(dataset);
    tree_fini(&tree);
    return tap_end();
}
