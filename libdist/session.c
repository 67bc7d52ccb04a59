/* session.c - a stream's connection to a loader, and how it gets another one.
 *
 *     DOWN --connected--> HELLO --hello--> OPENING --OPENED--> OPEN --RENDER, DONE ...
 *      ^                     |                |                  |
 *      +--- refused, dead, silent, of another version -----------+
 *
 * A loader is lost when its socket ends or when it says nothing for `silence` although we wait for
 * something; after a quarter of that we ask (STATS), which a loader's loop answers at once however
 * busy its workers are. So a loader that is slow is never taken for dead, and one that is stopped
 * (SIGSTOP) is.
 *
 * Losing a loader abandons the ring: it may be stopped and write later. Batches of it that are
 * ready or leased stay valid; those that were being filled are asked for again, of the next loader,
 * into a new ring. Nothing is lost or repeated, because what is asked for is a place in the stream,
 * and the place says all.
 *
 * Addresses are tried in turn, with pauses that grow. A loader that refuses (ERROR) is a bad sign
 * that does not go away by itself: when every address has refused, the stream fails with the first
 * one's reason. */
#include "config.h"

#include "libdist/stream_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/error.h"
#include "common/identity.h"
#include "common/util.h"

/* A loader that greets us and dies of our data set again and again is as good as none. */
enum { FAILED_OPENINGS_MAX = 8, NAMES_UNDER_WAY = 64 };

static const uint64_t retry_first_ns = 5 * NS_PER_MS, retry_last_ns = 1000 * NS_PER_MS;

void slot_set_unref(struct slot_set *set)
{
    if (!set || --set->refs > 0)
        return;
    ring_unref(set->ring);
    for (uint32_t i = 0; i < set->num_slots; i++) {
        free(set->slots[i].positions);
        free(set->slots[i].valid);
        free(set->slots[i].epochs);
    }
    free(set);
}

static int slot_set_create(struct plenum_stream *s, struct slot_set **ret, struct plenum_error *err)
{
    uint32_t n = s->open.slots;
    size_t count = wire_batch_count(&s->open);
    struct slot_set *set = calloc(1, sizeof(*set) + n * sizeof(set->slots[0]));
    int r;

    if (!set)
        return error_set(err, -ENOMEM, "out of memory");
    set->stream = s;
    set->num_slots = n;
    set->refs = 1;
    r = ring_create(n, s->open.slot_bytes, &set->ring, err);
    for (uint32_t i = 0; i < n && r == 0; i++) {
        struct plenum_lease *slot = &set->slots[i];

        slot->set = set;
        slot->index = i;
        slot->positions = malloc(count * sizeof(*slot->positions));
        slot->valid = malloc(count);
        slot->epochs = malloc(s->open.steps * sizeof(*slot->epochs));
        if (!slot->positions || !slot->valid || !slot->epochs)
            r = error_set(err, -ENOMEM, "out of memory");
    }
    if (r < 0) {
        slot_set_unref(set);
        return r;
    }
    *ret = set;
    return 0;
}

void session_fail(struct plenum_stream *s, int code, const char *text)
{
    if (s->error_code == 0) {
        s->error_code = code;
        (void)error_set(&s->error, code, "%s", text);
    }
    stream_changed(s);
}

static void close_connection(struct plenum_stream *s)
{
    frame_conn_fini(&s->conn); /* closing takes it out of epoll, too */
    s->wants_write = false;
    s->state = SESSION_DOWN;
    for (struct entry *e = s->first; e; e = e->next)
        if (!e->ready)
            e->slot = NULL; /* to be asked for again */
    for (struct name_ask *a = s->asks; a; a = a->next)
        a->sent = a->have; /* the rest, too */
    slot_set_unref(s->set);
    s->set = NULL;
}

/* This address did not work out: try the next one, after a pause when all have been tried. */
static void try_next(struct plenum_stream *s, uint64_t now)
{
    s->address = (s->address + 1) % s->num_addresses;
    s->retry_ns = now;
    if (s->address == 0) {
        s->retry_ns += s->retry_delay_ns;
        s->retry_delay_ns = min_u64(s->retry_delay_ns * 2, retry_last_ns);
    }
}

static void no_loader(struct plenum_stream *s, uint64_t now)
{
    char text[sizeof(s->error.text)] = "";
    size_t n = 0;

    for (int i = 0; i < s->num_addresses && n < sizeof(text) - 1; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s (%s)", i ? ", " : "",
                              s->addresses[i].text,
                              s->address_error[i].text[0] ? s->address_error[i].text : "not tried");
    (void)error_set(&s->error, 0, "no loader answered for %.0f s: %s",
                    (double)(now - s->alone_ns) / (double)NS_PER_SEC, text);
    s->error_code = -ECONNRESET;
    stream_changed(s);
}

/* The connection is over. `text` says why, of this address, and `since_ns` from when on it was of
 * no use. */
static void lose_since(struct plenum_stream *s, uint64_t since_ns, const char *text)
{
    uint64_t now = time_now_ns();
    bool ran = s->state == SESSION_OPEN;

    if (s->state == SESSION_OPENING)
        s->failed_openings++;

    (void)error_set(&s->address_error[s->address], 0, "%s", text);
    if (ran && s->lost_ns == 0) {
        s->lost_ns = since_ns;
        (void)snprintf(s->lost_text, sizeof(s->lost_text), "loader %s %s",
                       s->addresses[s->address].text, text);
        s->stats.incidents++;
    }
    if (s->alone_ns == 0)
        s->alone_ns = now;
    close_connection(s);
    if (ran) { /* it may be restarted under the same address: that is tried first, at once */
        s->retry_ns = now;
        s->retry_delay_ns = retry_first_ns;
        if (s->num_addresses > 1)
            try_next(s, now);
    } else {
        try_next(s, now);
    }
    if (s->failed_openings >= FAILED_OPENINGS_MAX)
        no_loader(s, now);
}

static void lose(struct plenum_stream *s, const char *text)
{
    lose_since(s, time_now_ns(), text);
}

/* The loader says that it will not serve this stream. */
static void refused(struct plenum_stream *s, int code, const char *text)
{
    int all = 0, first = s->address;

    s->refused[s->address] = code;
    lose(s, text);
    for (int i = 0; i < s->num_addresses; i++)
        all += s->refused[i] != 0;
    if (all == s->num_addresses)
        session_fail(s, s->refused[first], s->address_error[first].text);
}

static void flush(struct plenum_stream *s)
{
    int r = frame_conn_flush(&s->conn);
    bool write = r == -EAGAIN;

    /* A broken socket is noticed by the I/O thread, which reads its end. */
    if (write != s->wants_write) {
        s->wants_write = write;
        (void)io_watch(s, write);
    }
}

static void put_hello(struct plenum_stream *s)
{
    struct wire_hello m;

    wire_hello_init(&m, s->name);
    if (s->info.job_id)
        (void)snprintf(m.job, sizeof(m.job), "%s", s->info.job_id);
    (void)wire_put_hello(&s->conn.tx, &m);
    flush(s);
}

static void connect_now(struct plenum_stream *s, uint64_t now)
{
    int fd = address_connect(&s->addresses[s->address], 0);
    int r = fd;

    if (fd >= 0)
        r = frame_conn_init(&s->conn, fd, WIRE_MAX_PAYLOAD);
    if (r >= 0)
        r = io_watch(s, false);
    if (r < 0) {
        const char *why = strerror(-r);

        if (fd >= 0)
            frame_conn_fini(&s->conn);
        s->state = SESSION_DOWN;
        if (r == -ENOENT)
            why = "no such socket: is plenumd running?";
        else if (r == -ECONNREFUSED)
            why = "nobody listens there: is plenumd running?";
        s->wants_keeper = s->own_loader && r == -ECONNREFUSED;
        if (s->alone_ns == 0)
            s->alone_ns = now;
        (void)error_set(&s->address_error[s->address], 0, "%s", why);
        try_next(s, now);
        return;
    }
    s->state = SESSION_HELLO;
    s->heard_ns = s->asked_ns = s->pinged_ns = now;
    put_hello(s);
}

static void handle_hello(struct plenum_stream *s, struct frame_reader *payload)
{
    struct wire_hello m;
    const char *version = pipeline_version_name(s->pipeline.version);
    struct plenum_error err;
    int fd, r;

    r = wire_get_hello(payload, &m) < 0
            ? error_set(&err, -EPROTONOSUPPORT, "the other side does not speak Plenum's protocol")
            : wire_hello_check(&m, &err);
    if (r == 0 && !wire_hello_has_version(&m, version))
        r = error_set(&err, -EPROTONOSUPPORT,
                      "it renders pixel versions '%s', but '%s' is asked for", m.versions, version);
    if (r < 0) {
        refused(s, r, err.text);
        return;
    }
    memcpy(s->loader_name, m.name, sizeof(s->loader_name));
    s->loader_minor = m.minor;
    if (m.minor < WIRE_MINOR_SUBSET && (s->open.subset.first || s->open.subset.end ||
                                        s->open.repeat > 1 || s->split == PLENUM_SPLIT_FILE)) {
        refused(s, -EPROTONOSUPPORT,
                "it is too old for subset, repeat and split = file: install the version of this "
                "library there");
        return;
    }
    r = slot_set_create(s, &s->set, &err);
    if (r < 0) { /* our own memory: no loader can help */
        session_fail(s, r, err.text);
        close_connection(s);
        return;
    }
    fd = dup(s->set->ring->fd);
    if (fd < 0) {
        session_fail(s, -EMFILE,
                     "no descriptor is left to send the ring to the loader (see ulimit -n)");
        close_connection(s);
        return;
    }
    (void)frame_conn_attach_fd(&s->conn, fd);
    (void)wire_put_open(&s->conn.tx, ++s->next_request, &s->open);
    s->state = SESSION_OPENING;
    s->asked_ns = s->pinged_ns = time_now_ns();
    flush(s);
}

/* The first OPENED tells what is to be streamed; every later one must tell the same. */
static int take_opened(struct plenum_stream *s, const struct wire_opened *m,
                       struct plenum_error *err)
{
    int r;

    if (s->opened) {
        char difference[200];

        if (m->samples == s->num_samples && memcmp(m->fingerprint, s->fingerprint, 16) == 0)
            return 0;
        return error_set(err, -ESTALE, "%s is another data set now, under the same name: %s",
                         s->open.dataset,
                         datasum_difference(&s->sum, &m->sum, difference, sizeof(difference)));
    }
    r = wire_order(&s->open, m->samples, &s->order, &s->steps, err);
    if (r < 0)
        return r;
    s->sum = m->sum;
    s->num_samples = m->samples;
    s->num_classes = m->classes;
    s->stats.loader_threads = m->threads;
    s->stats.loader_io_threads = m->io_threads;
    memcpy(s->fingerprint, m->fingerprint, sizeof(s->fingerprint));
    identity_of(s->fingerprint, &s->open, s->identity);
    s->opened = true;
    return 0;
}

/* PLENUM_SOURCE=synthetic: what every slot holds, once and for all. Pixels are the zero point. */
static void fill_synthetic(struct plenum_stream *s)
{
    size_t count = wire_batch_count(&s->open);
    struct wire_slot layout = {0};

    (void)wire_slot_init(&s->open, &layout);
    for (uint32_t i = 0; i < s->open.slots; i++) {
        uint8_t *bytes = ring_slot(s->set->ring, i);
        int64_t *labels = (int64_t *)(void *)(bytes + layout.labels_at);
        uint32_t *samples = (uint32_t *)(void *)(bytes + layout.samples_at);

        memset(bytes, s->open.dtype == PLENUM_UINT8 ? 128 : 0, count * wire_sample_bytes(&s->open));
        for (size_t k = 0; k < count; k++) {
            labels[k] = (int64_t)(k % max_u64(s->num_classes, 1));
            samples[k] = s->order.first + (uint32_t)(k % s->order.n);
        }
    }
}

static void handle_opened(struct plenum_stream *s, struct frame_reader *payload)
{
    uint64_t now = time_now_ns();
    struct wire_opened m;
    struct plenum_error err;
    int r;

    if (wire_get_opened(payload, &m) < 0 || m.samples == 0) {
        lose(s, "sent what was not understood");
        return;
    }
    r = take_opened(s, &m, &err);
    if (r < 0) {
        refused(s, r, err.text);
        return;
    }
    if (s->lost_ns) {
        s->stats.lost_ns += now - s->lost_ns;
        stream_warn(s, "%s; batches come from %s again after %.2f s", s->lost_text,
                    s->addresses[s->address].text, (double)(now - s->lost_ns) / (double)NS_PER_SEC);
    }
    s->lost_ns = s->alone_ns = 0;
    s->failed_openings = 0;
    s->retry_delay_ns = retry_first_ns;
    memset(s->refused, 0, sizeof(s->refused));
    s->state = SESSION_OPEN;
    if (s->synthetic)
        fill_synthetic(s);
    session_pump(s);
    session_ask_names(s);
    stream_changed(s);
}

static struct plenum_lease *find_slot(struct plenum_stream *s, uint64_t request)
{
    for (uint32_t i = 0; i < s->set->num_slots; i++) {
        struct plenum_lease *slot = &s->set->slots[i];

        if ((slot->state == SLOT_FILLING || slot->state == SLOT_CANCELLING) &&
            slot->request == request)
            return slot;
    }
    return NULL;
}

/* The slot is filled, or cannot be: its batch may be handed out. */
static void settle(struct plenum_stream *s, struct entry *e, const struct wire_done *m)
{
    struct plenum_lease *slot = e->slot;

    slot->times.done_ns = time_now_ns();
    slot->times.done = *m;
    s->stats.queue_ns += m->queue_ns;
    s->stats.read_ns += m->read_ns;
    s->stats.render_ns += m->render_ns;
    e->ready = true;
    e->substituted = m->substituted;
    if (m->status < 0) {
        e->code = m->status;
        (void)error_set(&e->err, 0, "%s", m->text);
        e->slot = NULL;
        slot->state = SLOT_FREE;
    } else {
        s->stats.rendered += wire_batch_count(&s->open);
        slot->state = SLOT_READY;
        s->set->refs++;
    }
}

/* DONE or CANCELLED: the loader's hands are off the slot. */
static void handle_done(struct plenum_stream *s, const struct frame_header *h,
                        struct frame_reader *payload)
{
    struct plenum_lease *slot = find_slot(s, h->request);
    struct wire_done m = {0};
    struct entry *e;

    if (!slot || (h->type == WIRE_DONE && wire_get_done(payload, &m) < 0) ||
        (h->type == WIRE_CANCELLED && slot->state != SLOT_CANCELLING)) {
        lose(s, "sent an answer to nothing that was asked");
        return;
    }
    if (slot->state == SLOT_CANCELLING) {
        slot->state = SLOT_FREE;
        session_pump(s);
        return;
    }
    for (e = s->first; e->slot != slot; e = e->next)
        ;
    settle(s, e, &m);
    session_pump(s);
    if (e == s->first)
        stream_changed(s);
}

/* Names come in the order in which they were asked for. */
static void handle_name(struct plenum_stream *s, const struct frame_header *h,
                        struct frame_reader *payload)
{
    struct name_ask *a = s->asks;
    struct wire_name m;

    if (wire_get_name(payload, &m) < 0 || !a || a->have == a->sent ||
        h->request != a->base + a->have) {
        lose(s, "sent a name that was not asked for");
        return;
    }
    if (!m.text[0]) {
        a->code = error_set(&a->err, -EINVAL, "the data set has no sample %u", a->samples[a->have]);
    } else {
        a->names[a->have] = strdup(m.text);
        if (!a->names[a->have])
            a->code = error_set(&a->err, -ENOMEM, "out of memory");
    }
    a->have++;
    session_ask_names(s);
}

static void handle_frame(struct plenum_stream *s, const struct frame_header *h,
                         struct frame_reader *payload)
{
    struct wire_error m;

    if (h->type == WIRE_HELLO && s->state == SESSION_HELLO) {
        handle_hello(s, payload);
    } else if (h->type == WIRE_OPENED && s->state == SESSION_OPENING) {
        handle_opened(s, payload);
    } else if ((h->type == WIRE_DONE || h->type == WIRE_CANCELLED) && s->state == SESSION_OPEN) {
        handle_done(s, h, payload);
    } else if (h->type == WIRE_NAME && s->state == SESSION_OPEN) {
        handle_name(s, h, payload);
    } else if (h->type == WIRE_ERROR) {
        if (wire_get_error(payload, &m) < 0)
            lose(s, "sent what was not understood");
        else if (m.code == -ETIMEDOUT ||
                 m.code == -ECANCELED) /* it is ending, or we were stopped */
            lose(s, m.text);
        else
            refused(s, m.code, m.text);
    } else if (h->type == WIRE_STATS || h->type == WIRE_PROGRESS) {
        /* That it came is what it tells: an index of millions of files takes its time. */
        if (s->alone_ns)
            s->alone_ns = time_now_ns();
    } else {
        lose(s, "sent a message that has no meaning here");
    }
}

void session_ready(struct plenum_stream *s)
{
    struct frame_header header;
    struct frame_reader payload;

    if (s->state == SESSION_DOWN)
        return;
    flush(s);
    for (;;) {
        int64_t n = frame_conn_fill(&s->conn);
        int r;

        if (n == -EAGAIN)
            return;
        if (n < 0) {
            lose(s, s->state == SESSION_HELLO ? "closed the connection at once" : "died");
            return;
        }
        s->heard_ns = time_now_ns();
        while (s->state != SESSION_DOWN &&
               (r = frame_conn_next(&s->conn, &header, &payload)) != 0) {
            if (r < 0)
                lose(s, "sent what is no message");
            else
                handle_frame(s, &header, &payload);
        }
        if (s->state == SESSION_DOWN)
            return;
    }
}

static unsigned count_slots(const struct plenum_stream *s, enum slot_state state)
{
    unsigned n = 0;

    for (uint32_t i = 0; i < s->set->num_slots; i++)
        n += s->set->slots[i].state == state;
    return n;
}

/* The next entry to ask for: one that lost its loader, or a new one at the end of the list. */
static struct entry *next_to_ask(struct plenum_stream *s)
{
    struct entry *e;

    for (e = s->first; e; e = e->next)
        if (!e->slot && !e->ready)
            return e;
    if (s->epochs && s->next_place.epoch >= s->epochs)
        return NULL;
    e = calloc(1, sizeof(*e));
    if (!e)
        return NULL;
    e->place = e->after = s->next_place;
    for (uint32_t i = 0; i < s->open.steps; i++) {
        if (s->epochs && s->next_place.epoch >= s->epochs)
            break; /* what fills up the last batch does not count */
        e->after = order_place_after(&s->steps, s->next_place);
        s->next_place = order_place_settle(&s->steps, e->after);
    }
    if (s->last)
        s->last->next = e;
    else
        s->first = e;
    s->last = e;
    return e;
}

/* Have a free slot filled for this batch: 0 or -ENOMEM. */
static int ask(struct plenum_stream *s, struct entry *e, struct plenum_lease *slot)
{
    uint64_t request = ++s->next_request, now = time_now_ns(), waited = s->stats.wait_ns;

    if (s->waiting_ns && now > s->waiting_ns)
        waited += now - s->waiting_ns;
    if (!s->synthetic && wire_put_render(&s->conn.tx, request,
                                         &(struct wire_render){.epoch = e->place.epoch,
                                                               .position = e->place.position,
                                                               .slot = slot->index,
                                                               .waited_ns = waited}) < 0)
        return -ENOMEM;
    slot->request = request;
    slot->state = SLOT_FILLING;
    slot->times = (struct trace_batch){.epoch = e->place.epoch,
                                       .position = e->place.position,
                                       .asked_ns = now,
                                       .slot = slot->index};
    e->slot = slot;
    return 0;
}

void session_pump(struct plenum_stream *s)
{
    unsigned filling;
    bool asked = false, idle;

    if (s->state != SESSION_OPEN || s->error_code < 0 || s->held)
        return;
    filling = count_slots(s, SLOT_FILLING);
    idle = filling == 0;
    for (uint32_t i = 0; i < s->set->num_slots && filling < s->depth; i++) {
        struct plenum_lease *slot = &s->set->slots[i];
        struct entry *e;

        if (slot->state != SLOT_FREE)
            continue;
        e = next_to_ask(s);
        if (!e)
            break;
        if (ask(s, e, slot) < 0)
            break;
        if (s->synthetic) {
            settle(s, e, &(struct wire_done){0});
            continue;
        }
        if (filling++ == 0)
            s->asked_ns = slot->times.asked_ns;
        asked = true;
    }
    if (asked)
        flush(s);
    if (asked && idle)
        io_poke(); /* there is something to wait for now */
}

void session_reopen(struct plenum_stream *s)
{
    if (s->state != SESSION_DOWN) {
        (void)wire_put_empty(&s->conn.tx, WIRE_BYE, 0);
        (void)frame_conn_flush(&s->conn);
    }
    close_connection(s);
    s->retry_ns = s->alone_ns = time_now_ns();
}

void session_ask_names(struct plenum_stream *s)
{
    struct name_ask *a = s->asks;
    bool asked = false;

    if (!a || s->state != SESSION_OPEN)
        return;
    if (s->loader_minor < WIRE_MINOR_NAME)
        a->code = error_set(&a->err, -ENOTSUP, "%s is too old to tell the names of samples",
                            s->loader_name);
    while (a->code == 0 && a->sent < a->count && a->sent - a->have < NAMES_UNDER_WAY) {
        struct wire_ask_name m = {.sample = a->samples[a->sent]};

        if (wire_put_ask_name(&s->conn.tx, a->base + a->sent, &m) < 0)
            break;
        a->sent++;
        asked = true;
    }
    /* What failed must still hear the answers to what it has asked. */
    if (a->have == a->sent && (a->code < 0 || a->have == a->count)) {
        s->asks = a->next;
        a->over = true;
        stream_changed(s);
        session_ask_names(s);
        return;
    }
    if (asked) {
        s->asked_ns = time_now_ns();
        flush(s);
    }
}

void session_cancel(struct plenum_stream *s, struct plenum_lease *slot)
{
    slot->state = SLOT_CANCELLING;
    (void)wire_put_empty(&s->conn.tx, WIRE_CANCEL, slot->request);
    flush(s);
}

/* Since when have we been waiting for a word of the loader's? 0: we are not. */
static uint64_t waiting_since(const struct plenum_stream *s)
{
    if (s->state == SESSION_OPEN && count_slots(s, SLOT_FILLING) == 0 &&
        count_slots(s, SLOT_CANCELLING) == 0 && !s->asks)
        return 0;
    return max_u64(s->heard_ns, s->asked_ns);
}

uint64_t session_tick(struct plenum_stream *s, uint64_t now_ns)
{
    uint64_t since, ping_ns = s->silence_ns / 4;

    if (s->error_code < 0) {
        if (s->state != SESSION_DOWN)
            close_connection(s);
        return UINT64_MAX;
    }
    if (s->alone_ns && now_ns >= s->alone_ns + s->loader_timeout_ns) {
        no_loader(s, now_ns);
        return now_ns;
    }
    if (s->state == SESSION_DOWN && now_ns >= s->retry_ns)
        connect_now(s, now_ns);
    if (s->state == SESSION_DOWN)
        return s->alone_ns ? min_u64(s->retry_ns, s->alone_ns + s->loader_timeout_ns) : s->retry_ns;
    since = waiting_since(s);
    if (since == 0)
        return UINT64_MAX;
    if (now_ns >= since + s->silence_ns) {
        char text[64];

        (void)snprintf(text, sizeof(text), "said nothing for %.1f s",
                       (double)(now_ns - since) / (double)NS_PER_SEC);
        lose_since(s, since, text);
        return now_ns;
    }
    if (s->state != SESSION_HELLO && now_ns >= max_u64(since, s->pinged_ns) + ping_ns) {
        s->pinged_ns = now_ns;
        (void)wire_put_empty(&s->conn.tx, WIRE_STATS, ++s->next_request);
        flush(s);
    }
    since += s->silence_ns;
    if (s->state != SESSION_HELLO)
        since = min_u64(since, max_u64(waiting_since(s), s->pinged_ns) + ping_ns);
    return s->alone_ns ? min_u64(since, s->alone_ns + s->loader_timeout_ns) : since;
}

void session_forgive(struct plenum_stream *s, uint64_t now_ns)
{
    s->heard_ns = s->asked_ns = s->pinged_ns = now_ns;
    if (s->alone_ns)
        s->alone_ns = now_ns;
}

void session_fini(struct plenum_stream *s)
{
    if (s->state != SESSION_DOWN) {
        (void)wire_put_empty(&s->conn.tx, WIRE_BYE, 0);
        (void)frame_conn_flush(&s->conn);
    }
    close_connection(s);
}
