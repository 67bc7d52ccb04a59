/* SPDX-License-Identifier: MIT */
/* session.c - the connection to one loader, and how it comes back.
 *
 *     DOWN --connected--> HELLO --hello--> OPENING --OPENED--> OPEN --RENDER, DONE ...
 *      ^                     |                |                  |
 *      +--- refused, dead, silent, of another version -----------+
 *
 * A loader is lost when its socket ends or when it says nothing for `silence` although we wait for
 * something; before that we ask (STATS), which a loader's loop answers at once however busy its
 * workers are. So a loader that is slow is never taken for dead, and one that is stopped (SIGSTOP)
 * is. Where others are open, one that takes much longer for that answer than it has ever taken is
 * silent: its batches are asked of others long before it is given up (loaders.c).
 *
 * Losing a loader of this host abandons the ring: it may be stopped and write later. Batches of it
 * that are ready or leased stay valid; those that were being filled are asked for again, of another
 * loader, into another ring. Nothing is lost or repeated, because what is asked for is a place in
 * the stream, and the place says all. A loader behind TCP has no hand in our memory: what it sends
 * behind a DONE is received into the slot, all such loaders share one ring, and a slot that is called
 * back is free at once; bytes that come all the same are thrown away.
 *
 * A connection is tried again and again, with pauses that grow. A loader that refuses (ERROR) is a
 * bad sign that does not go away by itself: when every one has refused, the stream fails with the
 * first one's reason. */
#include "config.h"

#include "libdist/stream_priv.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/error.h"
#include "common/identity.h"
#include "common/util.h"

enum {
    /* A loader that greets us and dies of our data set again and again is as good as none. */
    FAILED_OPENINGS_MAX = 8,
    /* Answers to STATS in a row that are too late to be usual, before they are. */
    ODD_PONGS_MAX = 3,
    /* Received at once, so that the program does not wait long for the lock. */
    RECEIVE_MAX = 1 << 20,
    /* Tries, within a second or so, before the own loader's address is believed to be taken. */
    OWN_TAKEN_MAX = 8,
};

static const uint64_t retry_first_ns = 5 * NS_PER_MS, retry_last_ns = 1000 * NS_PER_MS,
                      retry_refused_ns = 10 * NS_PER_SEC;
/* How long we wait for any word before we ask for one, where there are other loaders, and what any
 * loader may take to answer. */
static const uint64_t ping_others_ns = 100 * NS_PER_MS, pong_least_ns = 100 * NS_PER_MS;

void spread_add(struct spread *s, uint64_t ns)
{
    uint64_t off = ns > s->mean_ns ? ns - s->mean_ns : s->mean_ns - ns;

    if (s->mean_ns == 0) {
        *s = (struct spread){.mean_ns = ns, .dev_ns = ns / 2};
        return;
    }
    s->mean_ns = (s->mean_ns * 7 + ns) / 8;
    s->dev_ns = (s->dev_ns * 3 + off) / 4;
}

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

static void leave_ring(struct slot_set *set)
{
    bool leased = false;

    for (uint32_t i = 0; set && i < set->num_slots; i++)
        leased |= set->slots[i].state == SLOT_LEASED;
    if (!set || leased || !set->ring->base)
        return;
    (void)munmap(set->ring->base, set->ring->bytes);
    set->ring->base = NULL;
    io_close(&set->ring->fd);
}

void slot_sets_leave(struct plenum_stream *s)
{
    FOR_SESSIONS(se, s)
        leave_ring(se->set);
    leave_ring(s->remote);
    for (struct slot_set *set = s->shown; set; set = set->next_shown)
        leave_ring(set);
    for (const struct entry *e = s->first; e; e = e->next)
        leave_ring(e->slot ? e->slot->set : NULL);
}

static int slot_set_create(struct plenum_stream *s, uint32_t n, struct slot_set **ret,
                           struct plenum_error *err)
{
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

/* The slots that the session fills. */
static int take_slots(struct session *se, struct plenum_error *err)
{
    struct plenum_stream *s = se->stream;
    uint32_t more = s->several ? HEDGE_SLOTS : 0;
    int r = 0;

    if (more > 0 && s->verify_share > 0)
        more = s->depth + 1;

    if (!se->address->tcp)
        return slot_set_create(s, s->open.slots, &se->set, err);
    if (!s->remote) {
        r = slot_set_create(s, s->open.slots + more, &s->remote, err);
        if (r == 0)
            io_close(&s->remote->ring->fd); /* nobody is sent it */
    }
    if (r == 0) {
        se->set = s->remote;
        se->set->refs++;
    }
    return r;
}

/* What is not answered yet is nobody's. */
static void forsake(struct session *se)
{
    struct plenum_stream *s = se->stream;

    for (struct entry *e = s->first; e; e = e->next) {
        if (e->third && e->third->session == se)
            e->third = NULL;
        if (e->hedge && e->hedge->session == se && e->hedge->state == SLOT_FILLING)
            e->hedge = NULL;
        if (e->slot && e->slot->session == se && e->slot->state == SLOT_FILLING) {
            e->slot = e->hedge;
            e->hedge = NULL;
        }
    }
    for (uint32_t i = 0; se->set && i < se->set->num_slots; i++) {
        struct plenum_lease *slot = &se->set->slots[i];

        /* In a ring of this loader's own they stay what they are: it may still write. */
        if (se->set == s->remote && slot->session == se &&
            slot->state == SLOT_FILLING)
            slot->state = SLOT_FREE;
    }
    se->filling = se->cancelling = 0;
    se->receiving = NULL;
    se->discard = 0;
    if (s->names == se) {
        s->names = NULL;
        for (struct name_ask *a = s->asks; a; a = a->next)
            a->sent = a->have; /* the rest is asked of another */
    }
}

static void *close_main(void *arg)
{
    (void)close((int)(intptr_t)arg);
    return NULL;
}

/* What a loader has sent along with its messages is closed with the connection, and that may take as long as
 * it likes: of a socket with SO_LINGER, or one in whose queue there is such a one. A thread of its own does
 * that; where none can be had it stays open: rather that than wait. */
static void close_connection(void *arg, int fd)
{
    struct session *se = arg;

    (void)shutdown(fd, SHUT_RDWR); /* nothing comes any more */
    if (frame_holds_fds(fd)) {
        se->sent_fds = true;
        io_unwatch(fd);
        (void)thread_start(NULL, close_main, (void *)(intptr_t)fd);
    } else {
        (void)close(fd);
    }
}

void session_close(struct session *se, bool bye)
{
    if (bye && se->state != SESSION_DOWN) {
        (void)wire_put_empty(&se->conn.tx, WIRE_BYE, 0);
        (void)frame_conn_flush(&se->conn);
    }
    if (se->state == SESSION_OPEN)
        se->away_ns = time_now_ns();
    frame_conn_fini(&se->conn); /* and it is out of epoll then: close_connection() */
    se->wants_write = false;
    se->broken = 0;
    se->state = SESSION_DOWN;
    forsake(se);
    slot_set_unref(se->set);
    se->set = NULL;
    se->ping = 0;
}

/* The connection is over. `text` says why, and `since_ns` from when on it was of no use. */
static void lose_since(struct session *se, uint64_t since_ns, const char *text)
{
    bool ran = se->state == SESSION_OPEN, opening = se->state == SESSION_OPENING;
    uint64_t now = time_now_ns();

    if (opening && ++se->failed_openings >= FAILED_OPENINGS_MAX)
        se->refused = -ECONNRESET;
    (void)error_set(&se->error, 0, "%s", text);
    session_close(se, false);
    if (ran) { /* it may be restarted under the same address: that is tried at once */
        se->retry_ns = now;
        se->retry_delay_ns = retry_first_ns;
    } else {
        se->retry_ns = now + se->retry_delay_ns;
        se->retry_delay_ns =
            min_u64(se->retry_delay_ns * 2, se->refused ? retry_refused_ns : retry_last_ns);
        se->turn++;
    }
    if (se->sent_fds) { /* each of its connections would leave a thread that waits */
        se->refused = -EPROTO;
        se->retry_ns = UINT64_MAX;
    }
    loaders_lost(se, ran, since_ns);
}

void session_lose(struct session *se, const char *text)
{
    lose_since(se, time_now_ns(), text);
}

/* A loader's word for a failure, where it is none that plenum_stream_next() has for the stream's
 * own state: a program would take those for "not yet" or "the epochs are over". */
static int code_of_loader(int code)
{
    switch (code) {
    case -EAGAIN:
    case -ENODATA:
    case -ENOBUFS:
    case -EBADF:
    case -ECHILD:
    case -ECONNRESET:
        return -EIO;
    default:
        return code < 0 && code > -4096 ? code : -EPROTO;
    }
}

/* A loader that has served the stream, or we, may be short of something for a moment (-EAGAIN:
 * threads): our session of before is not closed yet there, and batches of its ring are held here.
 *
 * Storage that fails (-EIO) is not among these: the file system has tried again by then, a batch that
 * cannot be read ends the stream as well, and who runs the job is to hear it at once. That storage has
 * not answered in time is (-ETIMEDOUT, handle_frame()). */
static bool is_for_later(const struct plenum_stream *s, int code)
{
    return s->opened && (code == -ENOSPC || code == -EUSERS || code == -ENOMEM ||
                         code == -EMFILE || code == -ENFILE || code == -EAGAIN);
}

/* Is no other loader connected? */
static bool is_only_one(const struct session *se)
{
    FOR_SESSIONS(other, se->stream)
        if (other != se && other->state != SESSION_DOWN)
            return false;
    return true;
}

/* The loader says that it will not serve this stream. */
static void refused(struct session *se, int code, const char *text)
{
    struct plenum_stream *s = se->stream;

    if (is_for_later(s, code)) {
        if (!se->warned && !s->alone_ns)
            stream_warn(s, "loader %s is not used for now: %s", se->address->text, text);
        se->warned = !s->alone_ns;
        se->failed_openings = 0; /* it was none that died of us */
        if (s->alone_ns && se->alone_ns && is_only_one(se)) /* what it did until it said so was of no use */
            s->alone_ns = se->alone_ns;
    } else {
        se->refused = code_of_loader(code);
    }
    session_lose(se, text);
}

/* A message could not be written down or sent, and nobody would hear of it: start anew. A socket that
 * the other side has closed is none of these: what it said last is read first. */
static void note_broken(struct session *se, int r)
{
    if (r == 0 || r == -EAGAIN || r == -EPIPE || r == -ECONNRESET)
        return;
    se->broken = r;
    io_poke();
}

int session_flush(struct session *se)
{
    int r = frame_conn_flush(&se->conn);
    bool write = (r == 0 || r == -EAGAIN) && frame_conn_wants_write(&se->conn);

    note_broken(se, r);
    if (write != se->wants_write) {
        se->wants_write = write;
        note_broken(se, io_watch(se, write));
    }
    return r;
}

/* The own loader's address is another user's: 0 when the next one is tried from now on. */
static int try_next_own(struct plenum_stream *s)
{
    if (!s->own_loader || s->own_turn + 1 >= OWNLOADER_TURNS)
        return -EADDRINUSE;
    s->own_taken = 0;
    ownloader_address(&s->own_key, ++s->own_turn, &s->named[0].address);
    return 0;
}

void session_own_is_taken(struct plenum_stream *s)
{
    if (++s->own_taken >= OWN_TAKEN_MAX)
        (void)try_next_own(s);
}

static const char *why_not(const struct session *se, int r)
{
    if (r == -ENOENT && !se->address->tcp)
        return "no such socket: is plenumd running?";
    if (r == -ECONNREFUSED)
        return "nobody listens there: is plenumd running?";
    if (r == -EPERM)
        return "another user listens there, who is neither root nor this user: name another loader, "
               "or have that user end it";
    if (r == -EACCES && se->stream->tls && se->address->tcp)
        return "does not have the key of PLENUM_LOADER_KEY, or speaks no TLS: its plenumd must have "
               "the one that this was made from, with --tls-key";
    if (r == -EPROTO && !se->address->tcp)
        return "sent a descriptor, which no loader does";
    if (r == -ECONNRESET || r == -EPIPE)
        return se->state == SESSION_HELLO    ? "closed the connection at once"
               : se->stream->own_loader ? "ended with the process that had started it, or died"
                                        : "died";
    return strerror(-r);
}

/* Reading or writing has failed. */
static void lose_connection(struct session *se, int r)
{
    if (r == -EACCES)
        refused(se, r, why_not(se, r));
    else
        session_lose(se, why_not(se, r));
}

/* Somebody else listens where our loader should. */
static void lose_to_stranger(struct session *se, uint64_t now)
{
    if (try_next_own(se->stream) == 0)
        se->retry_ns = now;
    else
        refused(se, -EPERM, why_not(se, -EPERM));
}

static void connect_now(struct session *se, uint64_t now)
{
    struct plenum_stream *s = se->stream;
    struct wire_hello m;
    int fd, r;

    fd = address_connect(se->address, se->turn);
    r = fd;
    se->sent_fds = false;
    if (fd >= 0 && address_check_peer(se->address, fd) < 0) {
        close_connection(se, fd);
        lose_to_stranger(se, now);
        return;
    }
    if (fd >= 0)
        r = frame_conn_init(&se->conn, fd, WIRE_MAX_PAYLOAD);
    if (fd >= 0 && !se->address->tcp) {
        se->conn.leaves_fds = true;
        se->conn.close_fd = close_connection;
        se->conn.close_arg = se;
    }
    if (r >= 0 && s->tls && se->address->tcp)
        r = tls_carry(s->tls, fd, &se->conn.carrier);
    if (r >= 0)
        r = io_watch(se, false);
    if (r < 0) {
        if (fd >= 0)
            frame_conn_fini(&se->conn);
        s->wants_keeper = s->own_loader && r == -ECONNREFUSED;
        if (s->own_loader && r == -EAGAIN)
            session_own_is_taken(s);
        session_lose(se, why_not(se, r));
        return;
    }
    se->state = SESSION_HELLO;
    se->alone_ns = s->alone_ns;
    se->heard_ns = se->asked_ns = se->pinged_ns = now;
    wire_hello_init(&m, s->name);
    memcpy(m.job, s->job, sizeof(m.job));
    (void)wire_put_hello(&se->conn.tx, &m);
    (void)session_flush(se);
}

/* Our own memory is short, or descriptors: no other loader can help. */
static void fail_here(struct session *se, int code, const char *text)
{
    if (is_for_later(se->stream, code)) {
        refused(se, code, text);
        return;
    }
    stream_fail(se->stream, code, text);
    session_close(se, false);
}

static void handle_hello(struct session *se, struct frame_reader *payload)
{
    struct plenum_stream *s = se->stream;
    struct wire_hello m;
    struct wire_open open = s->open;
    const char *version = pipeline_version_name(s->pipeline.version);
    struct plenum_error err;
    int r;

    r = wire_get_hello(payload, &m) < 0
            ? error_set(&err, -EPROTONOSUPPORT, "the other side does not speak Plenum's protocol")
            : wire_hello_check(&m, &err);
    if (r == 0 && !wire_hello_has_version(&m, version))
        r = error_set(&err, -EPROTONOSUPPORT,
                      "it renders pixel versions '%s', but '%s' is asked for", m.versions, version);
    if (r < 0) {
        refused(se, r, err.text);
        return;
    }
    memcpy(se->loader_name, m.name, sizeof(se->loader_name));
    s->own_taken = 0;
    se->loader_minor = m.minor;
    if (m.minor < WIRE_MINOR_SUBSET && (s->open.subset.first || s->open.subset.end ||
                                        s->open.repeat > 1 || s->split == PLENUM_SPLIT_FILE)) {
        refused(se, -EPROTONOSUPPORT,
                "it is too old for subset, repeat and split = file: install the version of this "
                "library there");
        return;
    }
    if (m.minor < WIRE_MINOR_DEAL && s->open.deal) {
        refused(se, -EPROTONOSUPPORT,
                "it is too old for deal = round-robin: install the version of this library there");
        return;
    }
    r = take_slots(se, &err);
    if (r < 0) {
        fail_here(se, r, err.text);
        return;
    }
    if (!se->address->tcp) { /* closed when it is sent: it would keep the memory in forked children */
        (void)frame_conn_attach_fd(&se->conn, se->set->ring->fd);
        se->set->ring->fd = -1;
    }
    open.slots = se->set->num_slots;
    (void)wire_put_open(&se->conn.tx, ++s->next_request, &open);
    se->state = SESSION_OPENING;
    se->asked_ns = se->pinged_ns = time_now_ns();
    (void)session_flush(se);
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
    s->num_class_names = m->class_names;
    if (m->warning[0])
        stream_warn(s, "data set '%s': %s", s->open.dataset, m->warning);
    memcpy(s->fingerprint, m->fingerprint, sizeof(s->fingerprint));
    identity_of(s->fingerprint, s->num_samples, &s->open, s->identity);
    s->opened = true;
    return 0;
}

/* PLENUM_SOURCE=synthetic: what every slot holds, once and for all. Pixels are the zero point. */
static void fill_synthetic(struct session *se)
{
    struct plenum_stream *s = se->stream;
    size_t count = wire_batch_count(&s->open);
    struct wire_slot layout = {0};

    (void)wire_slot_init(&s->open, &layout);
    for (uint32_t i = 0; i < se->set->num_slots; i++) {
        uint8_t *bytes = ring_slot(se->set->ring, i);
        int64_t *labels = (int64_t *)(void *)(bytes + layout.labels_at);
        uint32_t *samples = (uint32_t *)(void *)(bytes + layout.samples_at);

        memset(bytes, s->open.dtype == PLENUM_UINT8 ? 128 : 0, count * wire_sample_bytes(&s->open));
        for (size_t k = 0; k < count; k++) {
            labels[k] = (int64_t)(k % max_u64(s->num_classes, 1));
            samples[k] = s->order.first + (uint32_t)(k % s->order.n);
        }
    }
}

static void handle_opened(struct session *se, struct frame_reader *payload)
{
    struct plenum_stream *s = se->stream;
    struct wire_opened m;
    struct plenum_error err;
    int r;

    if (wire_get_opened(payload, &m) < 0 || m.samples == 0) {
        session_lose(se, "sent what was not understood");
        return;
    }
    if (se->loader_minor < WIRE_MINOR_CLASSES)
        m.class_names = m.classes; /* perhaps: who asks is told that it cannot say */
    r = take_opened(s, &m, &err);
    if (r < 0) {
        refused(se, r, err.text);
        return;
    }
    se->threads = m.threads;
    se->io_threads = m.io_threads;
    se->failed_openings = 0;
    se->retry_delay_ns = retry_first_ns;
    se->refused = 0;
    se->warned = false;
    se->service_ns = se->avoid_ns = 0;
    se->state = SESSION_OPEN;
    if (s->synthetic)
        fill_synthetic(se);
    loaders_opened(se);
}

static struct plenum_lease *find_slot(const struct session *se, uint64_t request)
{
    for (uint32_t i = 0; i < se->set->num_slots; i++) {
        struct plenum_lease *slot = &se->set->slots[i];

        if ((slot->state == SLOT_FILLING || slot->state == SLOT_CANCELLING) &&
            slot->session == se && slot->request == request)
            return slot;
    }
    return NULL;
}

/* The loader's hands are off the slot. */
static void let_go(struct session *se, struct plenum_lease *slot, const struct wire_done *m)
{
    if (slot->state == SLOT_CANCELLING) {
        slot->state = SLOT_FREE;
        se->cancelling--;
        loaders_pump(se->stream);
        return;
    }
    se->filling--;
    loaders_done(se, slot, m);
}

static uint64_t batch_bytes(const struct plenum_stream *s)
{
    struct wire_slot layout = {0};

    (void)wire_slot_init(&s->open, &layout);
    return wire_batch_bytes(&s->open, &layout);
}

/* An answer to a request that has no slot any more: true when it was one. */
static bool take_cancelled(struct session *se, uint64_t request)
{
    for (unsigned i = 0; se->address->tcp && i < se->cancelling; i++)
        if (se->cancelled[i] == request) {
            se->cancelled[i] = se->cancelled[--se->cancelling];
            return true;
        }
    return false;
}

/* DONE or CANCELLED. Over TCP a batch's bytes follow its DONE. */
static void handle_done(struct session *se, const struct frame_header *h,
                        struct frame_reader *payload)
{
    struct plenum_lease *slot = find_slot(se, h->request);
    struct wire_done m = {0};
    bool follows, cancelled = !slot && take_cancelled(se, h->request);

    if ((!slot && !cancelled) || (h->type == WIRE_DONE && wire_get_done(payload, &m) < 0) ||
        (h->type == WIRE_CANCELLED && slot && slot->state != SLOT_CANCELLING)) {
        session_lose(se, "sent an answer to nothing that was asked");
        return;
    }
    follows = se->address->tcp && h->type == WIRE_DONE && m.status >= 0;
    if (m.status < 0)
        m.status = code_of_loader(m.status);
    if (cancelled) {
        se->discard = follows ? batch_bytes(se->stream) : 0;
        loaders_pump(se->stream);
    } else if (follows) {
        se->receiving = slot;
        se->received = 0;
        se->done = m;
    } else {
        let_go(se, slot, &m);
    }
}

/* Receive more of a batch: as frame_conn_read_bulk(). */
static int64_t receive(struct session *se)
{
    static uint8_t nowhere[65536]; /* written by this thread alone, read by none */
    struct plenum_lease *slot = se->receiving;
    uint64_t bytes = batch_bytes(se->stream);
    int64_t n;

    if (se->discard) {
        n = frame_conn_read_bulk(&se->conn, nowhere, min_u64(se->discard, sizeof(nowhere)));
        se->discard -= n > 0 ? (uint64_t)n : 0;
        return n;
    }
    n = frame_conn_read_bulk(&se->conn, ring_slot(slot->set->ring, slot->index) + se->received,
                             min_u64(bytes - se->received, RECEIVE_MAX));
    if (n <= 0)
        return n;
    se->received += (uint64_t)n;
    if (se->received == bytes) {
        se->receiving = NULL;
        let_go(se, slot, &se->done);
    }
    return n;
}

/* Names come in the order in which they were asked for. */
static void handle_name(struct session *se, const struct frame_header *h,
                        struct frame_reader *payload)
{
    struct name_ask *a = se->stream->asks;
    struct wire_name m;

    if (wire_get_name(payload, &m) < 0 || se != se->stream->names || !a || a->have == a->sent ||
        h->request != a->base + a->have) {
        session_lose(se, "sent a name that was not asked for");
        return;
    }
    if (!m.text[0] && a->of == WIRE_NAMED_SAMPLE) {
        a->code = error_set(&a->err, -EINVAL, "the data set has no sample %u", a->samples[a->have]);
    } else {
        a->names[a->have] = strdup(m.text);
        if (!a->names[a->have])
            a->code = error_set(&a->err, -ENOMEM, "out of memory");
    }
    a->have++;
    loaders_ask_names(se->stream);
}

/* How long a loader may take to answer STATS before it is silent. */
static uint64_t patience(const struct session *se)
{
    uint64_t usual = se->pong.mean_ns + 4 * se->pong.dev_ns;

    return min_u64(max_u64(2 * usual, pong_least_ns), se->stream->silence_ns);
}

/* When a loader that has not answered STATS becomes silent. */
static uint64_t silent_at(const struct session *se)
{
    return max_u64(se->pinged_ns, se->heard_ns) + patience(se);
}

/* That it came is what it tells: an index of millions of files takes its time. */
static void note_life(struct session *se, const struct frame_header *h, uint64_t now)
{
    if (se->stream->alone_ns)
        se->stream->alone_ns = now;
    if (h->type != WIRE_STATS || h->request != se->ping)
        return;
    se->ping = 0;
    /* One that was stopped meanwhile tells nothing of what is usual: with it, we would wait as long
     * the next time. If all are late it is the way that has become longer. */
    if (now - se->pinged_ns > patience(se) && se->odd_pongs < ODD_PONGS_MAX) {
        se->odd_pongs++;
        return;
    }
    se->odd_pongs = 0;
    spread_add(&se->pong, now - se->pinged_ns);
}

static void handle_frame(struct session *se, const struct frame_header *h,
                         struct frame_reader *payload)
{
    struct wire_error m;

    if (h->type == WIRE_HELLO && se->state == SESSION_HELLO) {
        handle_hello(se, payload);
    } else if (h->type == WIRE_OPENED && se->state == SESSION_OPENING) {
        handle_opened(se, payload);
    } else if ((h->type == WIRE_DONE || h->type == WIRE_CANCELLED) && se->state == SESSION_OPEN) {
        handle_done(se, h, payload);
    } else if (h->type == WIRE_NAME && se->state == SESSION_OPEN) {
        handle_name(se, h, payload);
    } else if (h->type == WIRE_ERROR) {
        if (wire_get_error(payload, &m) < 0)
            session_lose(se, "sent what was not understood");
        else if (m.code == -ETIMEDOUT ||
                 m.code == -ECANCELED) /* it is ending, or we were stopped */
            session_lose(se, m.text);
        else
            refused(se, m.code, m.text);
    } else if (h->type == WIRE_STATS || h->type == WIRE_PROGRESS) {
        note_life(se, h, se->heard_ns);
    } else {
        session_lose(se, "sent a message that has no meaning here");
    }
}

/* Understand what has been read, up to the bytes of a batch. */
static void handle_frames(struct session *se)
{
    struct frame_header header;
    struct frame_reader payload;
    int r;

    while (se->state != SESSION_DOWN && !se->receiving && !se->discard &&
           (r = frame_conn_next(&se->conn, &header, &payload)) != 0) {
        if (r < 0)
            session_lose(se, "sent what is no message");
        else
            handle_frame(se, &header, &payload);
    }
}

void session_ready(struct session *se)
{
    size_t budget = RECEIVE_MAX; /* what is left makes us ready again */
    int r;

    if (se->state == SESSION_DOWN)
        return;
    r = session_flush(se);
    if (r < 0 && r != -EAGAIN && se->state == SESSION_HELLO) { /* it could not be connected */
        lose_connection(se, r);
        return;
    }
    while (se->state != SESSION_DOWN && (budget > 0 || frame_conn_has_read(&se->conn))) {
        int64_t n = se->receiving || se->discard ? receive(se) : frame_conn_fill(&se->conn);

        if (n == -EAGAIN)
            break;
        if (n < 0) {
            lose_connection(se, (int)n);
            return;
        }
        se->heard_ns = time_now_ns();
        budget -= min_u64(budget, (uint64_t)n);
        handle_frames(se);
    }
    /* A handshake that ended while we read has let go what waited for it. */
    if (se->state != SESSION_DOWN && frame_conn_wants_write(&se->conn) != se->wants_write)
        (void)session_flush(se);
}

int session_render(struct session *se, struct order_place place, struct plenum_lease *slot)
{
    struct plenum_stream *s = se->stream;
    uint64_t request = ++s->next_request, now = time_now_ns(), waited = s->stats.wait_ns;

    if (s->waiting_ns && now > s->waiting_ns)
        waited += now - s->waiting_ns;
    if (!s->synthetic && wire_put_render(&se->conn.tx, request,
                                         &(struct wire_render){.epoch = place.epoch,
                                                               .position = place.position,
                                                               .slot = slot->index,
                                                               .waited_ns = waited}) < 0)
        return -ENOMEM;
    slot->request = request;
    slot->session = se;
    slot->state = SLOT_FILLING;
    slot->times = (struct trace_batch){.epoch = place.epoch,
                                       .position = place.position,
                                       .asked_ns = now,
                                       .slot = slot->index};
    if (se->filling++ == 0 && !s->synthetic) {
        se->asked_ns = se->since_ns = now;
        io_poke(); /* there is something to wait for now */
    }
    return 0;
}

void session_cancel(struct plenum_lease *slot)
{
    struct session *se = slot->session;

    se->filling--;
    if (se->receiving == slot) { /* it is answered already */
        se->discard = batch_bytes(se->stream) - se->received;
        se->receiving = NULL;
        slot->state = SLOT_FREE;
        return;
    }
    slot->state = se->address->tcp ? SLOT_FREE : SLOT_CANCELLING;
    if (se->address->tcp)
        se->cancelled[se->cancelling] = slot->request;
    se->cancelling++;
    (void)wire_put_empty(&se->conn.tx, WIRE_CANCEL, slot->request);
    (void)session_flush(se);
}

/* Since when have we been waiting for a word of the loader's? 0: we are not. */
static uint64_t waiting_since(const struct session *se)
{
    if (se->state == SESSION_OPEN && se->filling == 0 && se->cancelling == 0 &&
        !(se->stream->asks && se->stream->names == se))
        return 0;
    return max_u64(se->heard_ns, se->asked_ns);
}

bool session_is_silent(const struct session *se, uint64_t now_ns)
{
    return se->state == SESSION_OPEN && se->ping && waiting_since(se) && now_ns >= silent_at(se);
}

uint64_t session_tick(struct session *se, uint64_t now_ns, bool others)
{
    struct plenum_stream *s = se->stream;
    uint64_t since, next, ping_ns = s->silence_ns / 4;

    if (others)
        ping_ns = min_u64(ping_ns, ping_others_ns);
    if (se->state == SESSION_DOWN && now_ns >= se->retry_ns)
        connect_now(se, now_ns);
    if (se->broken < 0)
        lose_connection(se, se->broken);
    if (se->state == SESSION_DOWN)
        return se->retry_ns;
    since = waiting_since(se);
    if (since == 0)
        return UINT64_MAX;
    if (now_ns >= sum_u64(since, s->silence_ns)) {
        char text[64];

        (void)snprintf(text, sizeof(text), "said nothing for %.1f s",
                       (double)(now_ns - since) / (double)NS_PER_SEC);
        lose_since(se, since, text);
        return now_ns;
    }
    next = sum_u64(since, s->silence_ns);
    if (se->state == SESSION_HELLO)
        return next;
    if (!se->ping && now_ns >= max_u64(since, se->pinged_ns) + ping_ns) {
        se->pinged_ns = now_ns;
        se->ping = ++s->next_request;
        (void)wire_put_empty(&se->conn.tx, WIRE_STATS, se->ping);
        (void)session_flush(se);
    }
    if (!se->ping)
        return min_u64(next, max_u64(since, se->pinged_ns) + ping_ns);
    return others && silent_at(se) > now_ns ? min_u64(next, silent_at(se)) : next;
}
