/* SPDX-License-Identifier: MIT */
/* Tests streams of one queue that share renderings: random streams, batches and cancellations.
 * Each sample must have the pixels and the text that one thread renders. This is a plain program,
 * so that it also runs under ThreadSanitizer. */
#include "config.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/util.h"
#include "loader/serve/queue.h"
#include "tests/tap.h"
#include "tests/tree.h"

enum { SAMPLES = 24, CLIENTS = 6, SLOTS = 4, SIDE = 16, TURNS = 1500 };

static struct tree tree;
static struct dataset *dataset; /* its field is text of varying length */
static unsigned random_state = 1;

static unsigned below(unsigned n)
{
    return (unsigned)rand_r(&random_state) % n;
}

/* Write the text of a picture; its length, which is returned, depends on the name's digits. */
static int text_of(const char *name, char *ret, size_t size)
{
    return snprintf(ret, size, "%.*s is picture %.2s", atoi(name) % 7, "so long", name);
}

static void wake(void *arg)
{
    (void)arg;
}

/* A stream as a session creates it, which requests one batch after the other. */
struct client {
    struct wire_open open;
    struct wire_slot layout;
    struct render_spec spec;
    struct order_share share;
    struct ring *ring;
    struct queue_stream *stream; /* NULL: it is closed */
    struct order_place next;
    struct order_place asked[SLOTS];
    bool busy[SLOTS];
    unsigned under_way;
};

static struct client clients[CLIENTS];
static struct {
    unsigned batches, samples, wrong, failed, cancelled;
} seen;

static void set_form(struct client *c)
{
    uint32_t replicas = 1 + below(3), each = 1 + below(4), own = 1 + below(replicas);

    c->open = (struct wire_open){.per_step = replicas * each,
                                 .local = own * each,
                                 .offset = below(replicas - own + 1) * each,
                                 .steps = 1 + below(3),
                                 .channels = 3 + below(2),
                                 .width = SIDE,
                                 .height = SIDE,
                                 .slots = SLOTS,
                                 .deal = below(3) == 0 ? each : 0,
                                 .dtype = below(2) ? PLENUM_UINT8 : PLENUM_INT8,
                                 .layout = below(2) ? PLENUM_NHWC : PLENUM_NCHW,
                                 .num_fields = 1,
                                 .field = {dataset_get_fields(dataset)->shape[0]}};
    (void)wire_slot_init(&c->open, &c->layout);
    c->open.slot_bytes = c->layout.bytes;
    c->share = (struct order_share){
        .steps = {.n = SAMPLES, .per_step = c->open.per_step, .last = ORDER_PAD},
        .deal = c->open.deal,
        .offset = c->open.offset};
}

static void client_open(struct client *c, struct queue *q)
{
    struct plenum_error err;

    *c = (struct client){.next = {.epoch = below(3)}};
    set_form(c);
    c->spec = (struct render_spec){.dataset = dataset,
                                   .order = {.seed = 3, .n = SAMPLES},
                                   .store = {c->open.dtype, c->open.layout, c->open.channels},
                                   .run = 1};
    if (views_parse("rrc(16) flip(0.5)", &c->spec.views, &err) < 0 ||
        ring_create(SLOTS, c->open.slot_bytes, &c->ring, &err) < 0 ||
        queue_stream_open(q,
                          &(struct queue_stream_options){.user = below(4) ? "anna" : "bert",
                                                         .job = "job",
                                                         .spec = &c->spec,
                                                         .open = &c->open,
                                                         .layout = &c->layout,
                                                         .ring = c->ring,
                                                         .owner = c},
                          &c->stream) < 0)
        abort();
}

static void submit(struct client *c)
{
    uint32_t slot = 0;

    while (c->busy[slot])
        slot++;
    c->asked[slot] = c->next;
    c->busy[slot] = true;
    c->under_way++;
    if (queue_submit(c->stream, slot,
                     &(struct wire_render){
                         .epoch = c->next.epoch, .position = c->next.position, .slot = slot},
                     &c->share) < 0)
        abort();
    c->next = order_place_skip(&c->share.steps, c->next, c->open.steps);
}

/* Compare a sample's text with that of its file. */
static bool has_text(const struct client *c, const uint8_t *slot, uint32_t i, uint32_t sample)
{
    uint32_t len = ((const uint32_t *)(const void *)(slot + c->layout.lengths_at[0]))[i];
    const uint8_t *text =
        slot + c->layout.fields_at[0] + i * wire_field_bytes(&c->open, c->open.field);
    char name[100], want[100];
    int n;

    (void)dataset_get_sample_name(dataset, sample, name, sizeof(name));
    n = text_of(strrchr(name, '/') + 1, want, sizeof(want));
    return len == (uint32_t)n && memcmp(text, want, len) == 0;
}

/* Compare a slot with what one thread renders. */
static void check(const struct client *c, uint32_t slot)
{
    const uint8_t *bytes = ring_slot(c->ring, slot);
    struct order_place place = c->asked[slot];
    struct render_scratch scratch = {0};
    uint8_t pixels[SIDE * SIDE * 4];
    size_t size = render_bytes(&c->spec);

    for (uint32_t i = 0; i < wire_batch_count(&c->open); i++) {
        uint32_t index = i % c->open.local;
        struct render_result result;

        if (i > 0 && index == 0)
            place = order_place_skip(&c->share.steps, place, 1);
        if (render_position(
                &c->spec, &scratch,
                (struct order_place){place.epoch, order_share_position(&c->share, place, index)},
                pixels, &result, NULL) < 0)
            abort();
        seen.wrong += memcmp(pixels, bytes + i * size, size) != 0;
        seen.wrong +=
            ((const int64_t *)(const void *)(bytes + c->layout.labels_at))[i] != result.label;
        seen.wrong +=
            ((const uint32_t *)(const void *)(bytes + c->layout.samples_at))[i] != result.sample;
        seen.wrong += !has_text(c, bytes, i, result.sample);
        seen.samples++;
    }
    render_scratch_fini(&scratch);
}

/* Take the next finished request, if there is one. */
static bool take(struct queue *q)
{
    struct queue_request *r = queue_pop_finished(q);
    struct client *c;

    if (!r)
        return false;
    c = r->owner;
    seen.batches++;
    seen.failed += r->done.status < 0;
    seen.cancelled += r->cancelled;
    if (!r->cancelled && r->done.status == 0)
        check(c, r->slot);
    c->busy[r->slot] = false;
    c->under_way--;
    free(r);
    return true;
}

static void client_close(struct client *c, struct queue *q)
{
    if (below(2))
        queue_cancel_all(c->stream);
    while (c->under_way > 0)
        if (!take(q))
            (void)usleep(100);
    queue_stream_close(c->stream);
    ring_destroy(c->ring);
    c->stream = NULL;
}

static void act(struct queue *q)
{
    struct client *c = &clients[below(CLIENTS)];

    if (!c->stream) {
        client_open(c, q);
    } else if (c->next.epoch > 4 && below(2)) {
        client_close(c, q);
    } else if (below(100) == 0) {
        client_close(c, q);
    } else if (below(20) == 0) {
        queue_cancel(c->stream, below(SLOTS));
    } else if (below(50) == 0) {
        c->next = order_place_skip(&c->share.steps, c->next, below(10)); /* it jumps */
    } else if (c->under_way < 1 + below(SLOTS)) {
        submit(c);
    } else {
        (void)take(q);
    }
    if (below(100) == 0)
        queue_beat(q);
}

static void streams_get_their_own_pixels(uint64_t memory)
{
    const struct queue_options options = {
        .workers = 3, .io_threads = 2, .share_memory = memory, .wake = wake};
    struct renderings_counts counts;
    struct queue *q;

    memset(&seen, 0, sizeof(seen));
    if (queue_create(&options, &q) < 0)
        abort();
    for (unsigned i = 0; i < TURNS; i++)
        act(q);
    queue_get_shared(q, &counts);
    for (unsigned i = 0; i < CLIENTS; i++)
        if (clients[i].stream)
            client_close(&clients[i], q);
    queue_beat(q);
    tap_ok(seen.samples > 0 && seen.wrong == 0 && seen.failed == 0,
           "%u KiB: %u samples have the pixels and the text of one thread",
           (unsigned)(memory >> 10), seen.samples);
    tap_ok(seen.cancelled > 0, "some batches are cancelled");
    tap_ok((counts.shared > 0) == (memory > 0), "%u samples are copied", (unsigned)counts.shared);
    tap_ok(counts.bytes <= memory, "the kept renderings are within the limit");
    queue_get_shared(q, &counts);
    tap_ok(counts.kept == 0 && counts.bytes == 0, "at the end, nothing is kept");
    queue_destroy(q);
}

int main(void)
{
    struct plenum_error err;
    const struct dataset_options options = {.fields = "text:txt"};
    char name[64], text[100];

    tree_init(&tree);
    for (unsigned i = 0; i < SAMPLES - 1; i++) {
        (void)snprintf(name, sizeof(name), "data/%c/%02u.jpg", 'a' + (int)(i % 2), i);
        tree_write_jpeg(&tree, name, 40 + i % 7 * 5, 30 + i % 5 * 8, i);
        (void)text_of(strrchr(name, '/') + 1, text, sizeof(text));
        (void)strcpy(strrchr(name, '.'), ".txt");
        tree_write_text(&tree, name, text);
    }
    tree_write(&tree, "data/a/bad.jpg", "not a picture", 13);
    tree_write_text(&tree, "data/a/bad.txt", "text without a picture");
    if (dataset_open(tree_path(&tree, "data"), &options, &dataset, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    streams_get_their_own_pixels(0);
    streams_get_their_own_pixels(10 << 10);
    streams_get_their_own_pixels(40 << 10);
    streams_get_their_own_pixels(16 << 20);
    dataset_unref(dataset);
    tree_fini(&tree);
    return tap_end();
}
