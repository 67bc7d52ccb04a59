/* SPDX-License-Identifier: MIT */
/* sharing.c - renders a position once for all streams that show the same pixels there.
 *
 * A rendering is a function of the data set's contents, the pipeline, the seed, the order or the
 * plan, the fields, the epoch and the position. make_key() lists them all. Streams of one user with
 * equal keys share renderings; their world sizes, batches, layouts and paces do not matter.
 * render_cannot_share() names the streams that render their own pixels.
 *
 * A stream's sample takes one of four ways (renderings.h). FILL renders it into separate memory, as
 * uint8 planes, from where it is stored into the slot. COPY only stores. WAIT parks the sample
 * until another stream's FILL has ended: then the same thread copies it, while the planes are in
 * its cache, or, if the FILL has failed or was cancelled, it is rendered on its own. A stream that
 * shares with no other one takes none of these ways, and its samples are rendered straight into
 * their slots.
 *
 * Memory of renderings that are not needed any more is used for the next ones: fresh memory costs
 * as much as a copy, because the kernel clears it page by page. */
#include "config.h"

#include "loader/serve/sharing.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/lock.h"
#include "common/util/util.h"
#include "loader/serve/queue_priv.h"

enum {
    TIDY_PIECE = 256, /* renderings per turn of the lock */
    COPIES_MAX = 16,  /* samples that a thread copies after rendering one; others take the rest */
    SPARE_BYTES = 4 << 20,
    SPARE_SHARE = 8, /* spare memory is at most this part of --share-memory */
};

/* Memory for a rendering. It begins with this while it is not used. */
struct sharing_spare {
    struct sharing_spare *next;
    uint64_t bytes;
};

/* ---- which streams share ---- */

/* A stream's key: this, followed by the data set's name, the text of the fields, and that of each
 * view's pipeline. */
struct key_head {
    uint64_t seed, checksum; /* checksum: of the index, with the stamps of all files */
    uint8_t fingerprint[16]; /* of a plan: with its text and its tables */
    uint8_t fields[16];
    uint32_t n, first, block;
    uint32_t shuffle, bad, views;
    uint32_t counts[VIEWS_MAX]; /* images of each view */
};

static struct key_head make_head(const struct render_spec *spec)
{
    struct key_head head;

    memset(&head, 0, sizeof(head)); /* with its padding */
    head.seed = spec->order.seed;
    head.checksum = dataset_get_checksum(spec->dataset);
    memcpy(head.fingerprint, dataset_get_fingerprint(spec->dataset), sizeof(head.fingerprint));
    memcpy(head.fields, dataset_get_fields_hash(spec->dataset), sizeof(head.fields));
    head.n = spec->order.n;
    head.first = spec->order.first;
    head.shuffle = (uint32_t)spec->order.shuffle;
    head.block = spec->order.shuffle == ORDER_BLOCK ? spec->order.block : 0;
    head.bad = (uint32_t)spec->bad;
    head.views = spec->views.count;
    for (uint32_t i = 0; i < spec->views.count; i++)
        head.counts[i] = spec->views.view[i].count;
    return head;
}

/* Returns a stream's key (malloc), or NULL if its files are not known. */
static char *make_key(const struct render_spec *spec, size_t *len)
{
    const char *text[2 + VIEWS_MAX] = {dataset_get_name(spec->dataset),
                                       dataset_get_fields(spec->dataset)->text};
    const struct key_head head = make_head(spec);
    uint32_t texts = 2;
    char *key, *at;

    for (uint32_t i = 0; i < spec->views.count; i++)
        text[texts++] = spec->views.view[i].pipeline.text;
    *len = sizeof(head);
    for (uint32_t i = 0; i < texts; i++)
        *len += strlen(text[i]) + 1;
    key = head.checksum ? malloc(*len) : NULL;
    if (!key)
        return NULL;
    memcpy(key, &head, sizeof(head));
    at = key + sizeof(head);
    for (uint32_t i = 0; i < texts; i++)
        at = stpcpy(at, text[i]) + 1;
    assert(at == key + *len);
    return key;
}

/* ---- the bytes of a rendering: planes, boxes, sizes, lengths of fields, flips, fields ---- */

static uint64_t boxes_at(const struct render_spec *planes)
{
    return (render_bytes(planes) + 7) / 8 * 8;
}

static uint64_t fields_at(const struct render_spec *planes)
{
    return boxes_at(planes) + planes->views.images * (4 * sizeof(float) + 1) +
           (2 + FIELDS_MAX) * sizeof(uint32_t);
}

static uint64_t bytes_of(const struct render_spec *planes)
{
    return fields_at(planes) + render_field_bytes(planes);
}

/* Returns the lengths [FIELDS_MAX] of a rendering's fields. */
static uint32_t *lengths_in(const struct render_spec *planes, uint8_t *bytes)
{
    return (uint32_t *)(void *)(bytes + boxes_at(planes) +
                                planes->views.images * 4 * sizeof(float)) +
           2;
}

/* `lengths` [FIELDS_MAX] is written: those of the rendering itself only while it is filled. */
static struct render_target target_in(const struct render_spec *planes, uint8_t *bytes,
                                      uint32_t *lengths)
{
    struct render_target target = render_target_in(planes, bytes);

    target.boxes = (float *)(void *)(bytes + boxes_at(planes));
    target.size = lengths_in(planes, bytes) - 2;
    target.flips = (uint8_t *)(lengths_in(planes, bytes) + FIELDS_MAX);
    assert(target.flips + planes->views.images == bytes + fields_at(planes));
    render_target_fields(planes, bytes + fields_at(planes), lengths, &target);
    return target;
}

/* Store the fields of a rendering into a slot. */
static void store_fields(const struct queue_stream *s, const struct render_target *from,
                         const uint32_t *lengths, const struct render_target *dst)
{
    for (uint32_t i = 0; i < s->open->num_fields; i++) {
        memcpy(dst->field[i], from->field[i], wire_field_bytes(s->open, &s->open->field[i]));
        if (dst->length[i])
            *dst->length[i] = lengths[i];
    }
}

/* Store a rendering into a slot. */
static void store(const struct queue_stream *s, const struct rendering *r,
                  const struct render_target *dst)
{
    uint32_t rooms[FIELDS_MAX];
    const struct render_target from = target_in(s->planes, r->bytes, rooms);
    const struct views *views = &s->spec->views;

    for (uint32_t i = 0; i < views->count; i++) {
        const struct pipeline *pipeline = &views->view[i].pipeline;
        size_t pixels = (size_t)pipeline->width * pipeline->height;

        for (uint32_t k = 0; k < views->view[i].count; k++)
            image_store_planes(from.view[i] + k * 3 * pixels, pixels, &s->spec->store,
                               dst->view[i] + k * render_view_bytes(s->spec, i));
    }
    store_fields(s, &from, lengths_in(s->planes, r->bytes), dst);
    if (!dst->boxes)
        return;
    memcpy(dst->boxes, from.boxes, views->images * 4 * sizeof(float));
    memcpy(dst->size, from.size, 2 * sizeof(uint32_t));
    memcpy(dst->flips, from.flips, views->images);
}

static int fill(const struct render_job *job, const struct queue_stream *s, struct rendering *r,
                struct plenum_error *err)
{
    struct render_target target = target_in(s->planes, r->bytes, lengths_in(s->planes, r->bytes));
    struct render_job planes = *job;
    uint64_t begin = time_cpu_ns();
    int code;

    planes.spec = s->planes;
    planes.dst = &target;
    code = render_bytes_of(&planes, &r->result, err);
    r->cost_ns = time_cpu_ns() - begin;
    return code;
}

int sharing_render(const struct render_job *job, const struct queue_stream *s, struct hold *hold,
                   struct render_result *ret, struct plenum_error *err)
{
    struct rendering *r = hold->rendering;
    int code;

    assert(job->count == 1 && hold->way != RENDERINGS_WAIT);
    if (hold->way == RENDERINGS_FILL) {
        if (!r->bytes) /* no spare one, and it was not tried before, with a bad sample */
            r->bytes = malloc(r->size);
        if (!r->bytes) /* share nothing */
            return render_bytes_of(job, ret, err);
        code = fill(job, s, r, err);
        if (code < 0)
            return code;
    }
    store(s, r, job->dst);
    *ret = r->result;
    hold->done = true;
    return 0;
}

/* ---- under the lock ---- */

void sharing_open(struct queue_stream *s)
{
    struct renderings_stream stream = {.user = s->user->name, .local = s->open->local};
    char *key;

    assert(lock_is_held(&s->queue->mu));
    if (!s->queue->renderings || render_cannot_share(s->spec))
        return;
    s->planes = malloc(sizeof(*s->planes));
    if (!s->planes)
        return;
    memcpy(s->planes, s->spec, sizeof(*s->planes));
    s->planes->store =
        (struct image_store){.dtype = PLENUM_UINT8, .layout = PLENUM_NCHW, .channels = 3};
    stream.positions = order_positions(&s->spec->order);
    stream.bytes = bytes_of(s->planes);
    key = make_key(s->spec, &stream.key_len);
    stream.key = key;
    if (key)
        s->reader = renderings_join(s->queue->renderings, &stream);
    free(key);
}

void sharing_close(struct queue_stream *s)
{
    assert(lock_is_held(&s->queue->mu) && list_is_empty(&s->parked));
    if (!s->reader)
        return;
    renderings_leave(s->reader);
    s->reader = NULL;
    (void)renderings_tidy(s->queue->renderings, TIDY_PIECE, time_now_ns());
}

/* Returns spare memory for renderings of this stream, or NULL. */
static void *take_spare(struct queue *q, uint64_t bytes)
{
    assert(lock_is_held(&q->mu));
    for (struct sharing_spare **at = &q->spares, *spare; (spare = *at); at = &spare->next)
        if (spare->bytes == bytes) {
            *at = spare->next;
            q->spare_bytes -= bytes;
            return spare;
        }
    return NULL;
}

/* Keep the memory of a rendering, if there is room. */
static void keep_spare(struct queue *q, struct rendering *r)
{
    uint64_t most = min_u64(SPARE_BYTES, q->options.share_memory / SPARE_SHARE);
    struct sharing_spare *spare = r->bytes;

    assert(lock_is_held(&q->mu));
    if (!spare || q->spare_bytes + r->size > most)
        return;
    assert(r->size >= sizeof(*spare));
    *spare = (struct sharing_spare){.next = q->spares, .bytes = r->size};
    q->spares = spare;
    q->spare_bytes += r->size;
    r->bytes = NULL;
}

struct hold sharing_begin(struct queue_stream *s, const struct queue_request *r, uint32_t in_step,
                          uint64_t position)
{
    struct hold hold = {0};
    uint64_t now;

    assert(lock_is_held(&s->queue->mu));
    if (!s->reader || !renderings_are_shared(s->reader) || r->share.steps.num_gaps > 0)
        return hold;
    now = time_now_ns();
    renderings_begin(s->reader, &r->share, r->place, in_step, now);
    hold.way = renderings_take(s->reader, (struct order_place){r->place.epoch, position}, now,
                               &hold.rendering);
    if (hold.way == RENDERINGS_FILL) {
        hold.rendering->size = bytes_of(s->planes);
        hold.rendering->bytes = take_spare(s->queue, hold.rendering->size);
    }
    return hold;
}

bool sharing_has(const struct queue_stream *s, struct order_place place)
{
    assert(lock_is_held(&s->queue->mu));
    return s->reader && renderings_has(s->reader, place);
}

bool sharing_park(struct queue_request *r, const struct render_try *try, const struct hold *hold)
{
    struct retry *retry = malloc(sizeof(*retry));

    assert(lock_is_held(&r->stream->queue->mu) && hold->way == RENDERINGS_WAIT);
    if (!retry) {
        renderings_unpin(hold->rendering);
        return false;
    }
    *retry = (struct retry){.request = r, .index = r->next, .count = 1, .try = *try, .hold = *hold};
    list_add_last(&r->stream->parked, &retry->link);
    return true;
}

uint32_t sharing_drop_parked(struct queue_request *r)
{
    struct list *list = &r->stream->parked, *next;
    uint32_t count = 0;

    assert(lock_is_held(&r->stream->queue->mu));
    for (struct list *at = list_first(list); at; at = next) {
        struct retry *retry = container_of(at, struct retry, link);

        next = list_next(list, at);
        if (retry->request != r)
            continue;
        renderings_unpin(retry->hold.rendering);
        list_remove(at);
        free(retry);
        count++;
    }
    return count;
}

/* A rendering has ended: let a stream's samples that waited for it continue. Those to copy go to
 * `copies`, which has room for `room` more. Returns how many of these are left. */
static unsigned unpark(struct queue_stream *s, struct rendering *r, struct list *copies,
                       unsigned room)
{
    struct list *next;

    for (struct list *at = list_first(&s->parked); at; at = next) {
        struct retry *retry = container_of(at, struct retry, link);

        next = list_next(&s->parked, at);
        if (retry->hold.rendering != r)
            continue;
        list_remove(at);
        retry->hold.way = RENDERINGS_COPY;
        if (r->ready && room > 0) {
            list_add_last(copies, &retry->link);
            room--;
            continue;
        }
        if (!r->ready) {
            renderings_unpin(r);
            retry->hold = (struct hold){0};
        }
        list_add_last(&s->retries, &retry->link);
        queue_add_waiting(s, 1);
        (void)pthread_cond_broadcast(&s->queue->to_read);
    }
    return room;
}

static void end_fill(struct queue *q, struct rendering *r, bool done, struct list *copies)
{
    unsigned room = COPIES_MAX;

    if (done)
        renderings_publish(r);
    else
        renderings_abandon(r);
    if (r->pins == 1) /* nothing waits for it */
        return;
    for (struct list *at = list_first(&q->streams); at; at = list_next(&q->streams, at))
        room = unpark(container_of(at, struct queue_stream, link), r, copies, room);
}

void sharing_end(struct queue *q, struct hold *hold, struct list *copies)
{
    assert(lock_is_held(&q->mu));
    if (!hold->rendering)
        return;
    if (hold->way == RENDERINGS_FILL)
        end_fill(q, hold->rendering, hold->done, copies);
    else if (hold->done)
        renderings_count_copy(hold->rendering);
    renderings_unpin(hold->rendering);
    *hold = (struct hold){0};
}

struct rendering *sharing_reap(struct queue *q)
{
    struct rendering *unused = q->renderings ? renderings_reap(q->renderings) : NULL;

    assert(lock_is_held(&q->mu));
    for (struct rendering *r = unused; r; r = r->dead)
        keep_spare(q, r);
    return unused;
}

/* ---- without the lock ---- */

void sharing_free(struct rendering *unused)
{
    struct rendering *next;

    for (; unused; unused = next) {
        next = unused->dead;
        free(unused->bytes);
        free(unused);
    }
}

static void free_spares(struct queue *q)
{
    struct sharing_spare *spare, *next;

    lock_acquire(&q->mu);
    spare = q->spares;
    q->spares = NULL;
    q->spare_bytes = 0;
    lock_release(&q->mu);
    for (; spare; spare = next) {
        next = spare->next;
        free(spare);
    }
}

void sharing_beat(struct queue *q)
{
    struct rendering *unused;
    bool more = q->renderings != NULL;

    if (!more)
        return;
    lock_acquire(&q->mu);
    renderings_expire(q->renderings, time_now_ns());
    lock_release(&q->mu);
    while (more) {
        lock_acquire(&q->mu);
        more = renderings_tidy(q->renderings, TIDY_PIECE, time_now_ns());
        unused = sharing_reap(q);
        lock_release(&q->mu);
        sharing_free(unused);
    }
    free_spares(q);
}
