/* SPDX-License-Identifier: MIT */
/* session.c - the connection to one loader, and how it reconnects.
 *
 *     DOWN --connected--> HELLO --hello--> OPENING --OPENED--> OPEN --RENDER, DONE ...
 *      ^                     |                |                  |
 *      +--- refused, dead, silent, other version ----------------+
 *
 * A loader is lost when its socket ends, or when it sends nothing for `silence` although we wait
 * for something. Before that we send STATS, which a loader's event loop answers at once, however
 * busy its workers are. So a slow loader never counts as dead, and a stopped one (SIGSTOP) does. If
 * other loaders are open, one that takes much longer for that answer than it ever has counts as
 * silent: its batches are requested from others long before it is given up (schedule.c).
 *
 * Losing a loader of this host abandons its ring, because the loader may only be stopped and write
 * later. Its batches that are ready or leased stay valid; those being filled are requested from
 * another loader, into another ring. No batch is lost or repeated, because a request names a
 * position in the stream, which determines the batch. A loader over TCP cannot write to our memory:
 * the bytes that follow its DONE are received into the slot, all such loaders share one ring, and a
 * cancelled slot is free at once. Bytes that still arrive for it are discarded.
 *
 * Connecting is retried for ever, with growing pauses. A rejection (ERROR) is not expected to go
 * away: once every loader has rejected the stream, it fails with the first one's reason. */
#include "config.h"

#include "libdist/session.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/error.h"
#include "common/frame.h"
#include "common/message.h"
#include "common/util.h"
#include "libdist/io.h"
#include "libdist/rtt.h"

enum {
    /* After this many consecutive deaths while opening our data set, a loader is given up. */
    FAILED_OPENINGS_MAX = 8,
    /* After this many consecutive late answers to STATS, they count as the new normal. */
    ODD_PONGS_MAX = 3,
    /* Bytes received per turn, so that the program does not wait long for the lock. */
    RECEIVE_MAX = 1 << 20,
};

static const uint64_t retry_first_ns = 5 * NS_PER_MS, retry_last_ns = 1000 * NS_PER_MS,
                      retry_refused_ns = 10 * NS_PER_SEC;
/* Silence after which we ping if there are other loaders, and the time that any loader may take to
 * answer. */
static const uint64_t ping_others_ns = 100 * NS_PER_MS, pong_least_ns = 100 * NS_PER_MS;

enum session_state {
    SESSION_DOWN,    /* no connection; next attempt at retry_ns */
    SESSION_HELLO,   /* HELLO sent */
    SESSION_FIELDS,  /* FIELDS sent, if the stream has fields */
    SESSION_OPENING, /* OPEN sent */
    SESSION_OPEN,
};

#define TO(state) (1U << (state))

static const unsigned session_may[] = {
    [SESSION_DOWN] = TO(SESSION_HELLO),
    [SESSION_HELLO] = TO(SESSION_FIELDS) | TO(SESSION_OPENING) | TO(SESSION_DOWN),
    [SESSION_FIELDS] = TO(SESSION_OPENING) | TO(SESSION_DOWN),
    [SESSION_OPENING] = TO(SESSION_OPEN) | TO(SESSION_DOWN),
    [SESSION_OPEN] = TO(SESSION_DOWN),
};

struct session {
    const struct session_setup *setup;
    struct loader *loader; /* receives our events */
    const struct address *address;
    enum session_state state;
    struct frame_conn conn; /* fd -1 when SESSION_DOWN */
    struct slot_set *set;   /* or NULL */
    char loader_name[WIRE_NAME_MAX];
    uint16_t loader_minor; /* of its protocol version */
    bool wants_write;
    bool sent_fds;      /* it sent descriptors, which no loader does: do not reconnect */
    int broken;         /* error that makes it useless, for which the next tick closes it; or 0 */
    uint64_t heard_ns;  /* time of the last byte received */
    uint64_t asked_ns;  /* time when we last began to wait for something */
    uint64_t pinged_ns; /* time of the last STATS sent */
    uint64_t ping;      /* request number of the pending STATS; 0: answered */
    struct rtt pong;    /* time that it takes to answer STATS */
    unsigned odd_pongs; /* consecutive outliers, which the estimate leaves out */

    /* Requests that it has not answered. */
    unsigned filling;    /* slots to fill */
    unsigned cancelling; /* slots to leave alone */
    unsigned naming;     /* names */

    uint64_t batch_bytes; /* of each batch that it renders */

    /* The batch whose bytes are arriving. */
    struct plenum_lease *receiving; /* or NULL */
    uint64_t received;
    struct wire_done done;
    uint64_t discard; /* remaining bytes of a batch that is no longer needed */

    /* Over TCP: cancelled requests without an answer. Their slots have already been reused. */
    uint64_t cancelled[SLOTS_MAX];

    /* For reconnecting. */
    uint64_t away_ns;  /* since when it has not been open */
    unsigned turn;     /* index among its host's addresses */
    uint64_t retry_ns; /* SESSION_DOWN: time of the next attempt */
    uint64_t retry_delay_ns;
    struct plenum_error error; /* the last error, "" if none */
    int refused;               /* error with which it rejects the stream; 0: none */
    unsigned failed_openings;  /* consecutive ones: HELLO arrived, OPENED did not */
};

/* The only place that writes a session's state. */
static void move(struct session *se, enum session_state to)
{
    assert(lock_is_held(se->setup->lock));
    assert(session_may[se->state] & TO(to));
    se->state = to;
}

struct session *session_create(const struct session_setup *setup, struct loader *loader,
                               const struct address *address)
{
    struct session *se = malloc(sizeof(*se));

    if (!se)
        return NULL;
    *se = (struct session){.setup = setup,
                           .loader = loader,
                           .address = address,
                           .away_ns = time_now_ns(),
                           .conn = {.fd = -1, .tx_fd = -1, .rx_fd = -1},
                           .retry_delay_ns = retry_first_ns};
    return se;
}

void session_destroy(struct session *se)
{
    assert(!se || se->state == SESSION_DOWN);
    free(se);
}

static void *close_main(void *arg)
{
    (void)close((int)(intptr_t)arg);
    return NULL;
}

/* Closing the connection closes the descriptors queued in it, and the sender decides how long that
 * takes: with SO_LINGER, or with a socket with SO_LINGER in another socket's queue. So a separate
 * thread closes it. If no thread can be started, the connection stays open. */
static void close_connection(void *arg, int fd)
{
    struct session *se = arg;

    (void)shutdown(fd, SHUT_RDWR); /* ends the input */
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
    assert(lock_is_held(se->setup->lock));
    if (bye && se->state != SESSION_DOWN) {
        (void)wire_put_empty(&se->conn.tx, WIRE_BYE, 0);
        (void)frame_conn_flush(&se->conn);
    }
    if (se->state == SESSION_OPEN)
        se->away_ns = time_now_ns();
    frame_conn_fini(&se->conn); /* also removes it from epoll: close_connection() */
    se->wants_write = false;
    se->broken = 0;
    if (se->state != SESSION_DOWN)
        move(se, SESSION_DOWN);
    se->setup->events->released(se->loader);
    se->filling = se->cancelling = se->naming = 0;
    se->receiving = NULL;
    se->discard = 0;
    slot_set_unref(se->set);
    se->set = NULL;
    se->ping = 0;
}

/* Closing the last copy of a connection waits for the descriptors in it, and the parent may have
 * closed its copy. So the child leaves the connection open. */
void session_leave(struct session *se)
{
    if (se->conn.fd >= 0 && frame_holds_fds(se->conn.fd))
        se->conn.fd = -1;
    io_close(&se->conn.fd);
}

/* The connection is lost. `text` is the reason, and `since_ns` the time since when it was
 * useless. */
static void lose_since(struct session *se, uint64_t since_ns, const char *text)
{
    bool ran = se->state == SESSION_OPEN;
    bool opening = se->state == SESSION_FIELDS || se->state == SESSION_OPENING;
    uint64_t now = time_now_ns();

    if (opening && ++se->failed_openings >= FAILED_OPENINGS_MAX)
        se->refused = -ECONNRESET;
    (void)error_set(&se->error, 0, "%s", text);
    session_close(se, false);
    if (ran) { /* it may be restarted under the same address: try that at once */
        se->retry_ns = now;
        se->retry_delay_ns = retry_first_ns;
    } else {
        se->retry_ns = now + se->retry_delay_ns;
        se->retry_delay_ns =
            min_u64(se->retry_delay_ns * 2, se->refused ? retry_refused_ns : retry_last_ns);
        se->turn++;
    }
    if (se->sent_fds) { /* each of its connections would leave a waiting thread behind */
        se->refused = -EPROTO;
        se->retry_ns = UINT64_MAX;
    }
    se->setup->events->lost(se->loader, ran, since_ns);
}

MESSAGE static void lose_now(struct session *se, const char *text)
{
    assert(lock_is_held(se->setup->lock));
    lose_since(se, time_now_ns(), text);
}

/* Translate a loader's error code. Codes that plenum_stream_next() uses for the stream's own state
 * become -EIO, because a program would take them for "not yet" or "all epochs have ended". */
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

/* The loader rejects this stream. */
MESSAGE static void refused(struct session *se, int code, const char *text)
{
    if (se->setup->events->refused(se->loader, code, text))
        se->failed_openings = 0; /* this loader did not die while opening our data set */
    else
        se->refused = code_of_loader(code);
    lose_now(se, text);
}

/* A message could not be built or sent: reconnect. A socket that the loader has closed is not such
 * a failure, because its last message must be read first. */
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

    assert(lock_is_held(se->setup->lock));
    note_broken(se, r);
    if (write != se->wants_write) {
        se->wants_write = write;
        note_broken(se, io_watch(se->conn.fd, se->loader, write));
    }
    return r;
}

static const char *why_not(const struct session *se, int r)
{
    if (r == -EBADF)
        return io_closed_sentence;
    if (r == -ENOENT && !se->address->tcp)
        return "no such socket: is plenumd running?";
    if (r == -ECONNREFUSED)
        return "no program listens there: is plenumd running?";
    if (r == -EPERM)
        return "another user listens there, who is neither root nor this user: name another "
               "loader, "
               "or have that user end it";
    if (r == -EACCES && se->setup->tls && se->address->tcp)
        return "does not have the key of PLENUM_LOADER_KEY, or speaks no TLS: its plenumd must "
               "have "
               "the one that this was made from, with --tls-key";
    if (r == -EAGAIN && !se->address->tcp)
        return "its queue of connections is full: too many connect to it at once";
    if (r == -EPROTO && !se->address->tcp)
        return "sent a descriptor, which no loader does";
    if (r == -ECONNRESET || r == -EPIPE)
        return se->state == SESSION_HELLO ? "closed the connection at once"
               : se->setup->own_loader    ? "ended with the process that had started it, or died"
                                          : "died";
    return strerror(-r);
}

/* Reading or writing has failed. */
static void lose_connection(struct session *se, int r)
{
    if (r == -EACCES)
        refused(se, r, why_not(se, r));
    else
        lose_now(se, why_not(se, r));
}

/* An unauthenticated peer, a process of another user, listens at our loader's address. */
static void lose_unauthenticated(struct session *se, uint64_t now)
{
    if (se->setup->events->unauthenticated(se->loader))
        se->retry_ns = now;
    else
        refused(se, -EPERM, why_not(se, -EPERM));
}

/* This process lacks memory or descriptors: no other loader can help. */
static void fail_here(struct session *se, int code, const char *text)
{
    if (se->setup->events->out_of(se->loader, code, text))
        refused(se, code, text);
    else
        session_close(se, false);
}

/* Connecting failed. */
static void fail_connection(struct session *se, int r)
{
    struct plenum_error err;

    if (r == -EMFILE || r == -ENFILE) {
        (void)error_set(&err, r, "no descriptor is left for a connection to %s: %s (ulimit -n)",
                        se->address->text, strerror(-r));
        fail_here(se, r, err.text);
        return;
    }
    se->setup->events->unreached(se->loader, r);
    if (r == -EAGAIN) /* it exists, but its queue was full */
        se->retry_delay_ns = retry_first_ns;
    lose_now(se, why_not(se, r));
}

/* Use this connection for our frames: 0 or -errno. */
static int take_connection(struct session *se, int fd)
{
    int r = frame_conn_init(&se->conn, fd, WIRE_MAX_PAYLOAD);

    if (!se->address->tcp) {
        se->conn.leaves_fds = true;
        se->conn.close_fd = close_connection;
        se->conn.close_arg = se;
    }
    if (r < 0)
        goto fail;
    if (se->setup->tls && se->address->tcp) {
        r = tls_carry(se->setup->tls, fd, &se->conn.carrier);
        if (r < 0)
            goto fail;
    }
    r = io_watch(se->conn.fd, se->loader, false);
    if (r < 0)
        goto fail;
    return 0;

fail:
    frame_conn_fini(&se->conn);
    return r;
}

static void connect_now(struct session *se, uint64_t now)
{
    struct wire_hello m;
    int fd = address_connect(se->address, se->turn), r = fd;

    se->sent_fds = false;
    if (fd >= 0 && address_check_peer(se->address, fd) < 0) {
        close_connection(se, fd);
        lose_unauthenticated(se, now);
        return;
    }
    if (fd >= 0)
        r = take_connection(se, fd);
    if (r < 0) {
        fail_connection(se, r);
        return;
    }
    move(se, SESSION_HELLO);
    se->heard_ns = se->asked_ns = se->pinged_ns = now;
    wire_hello_init(&m, se->setup->name);
    (void)snprintf(m.job, sizeof(m.job), "%s", se->setup->job);
    (void)wire_put_hello(&se->conn.tx, &m);
    (void)session_flush(se);
}

static bool tells_geometry(const struct session *se)
{
    return se->loader_minor >= WIRE_MINOR_VIEWS && se->setup->open->geometry;
}

static bool asks_for_new_fields(const struct wire_open *open)
{
    struct fields fields;
    struct plenum_error err;

    return fields_parse(open->fields, &fields, &err) == 0 && fields_are_new(&fields);
}

/* What the stream requires that loaders of this minor version would ignore; NULL: nothing. */
static const char *lacks(uint16_t minor, const struct wire_open *open, enum plenum_split split)
{
    if (minor < WIRE_MINOR_SUBSET &&
        (open->subset.first || open->subset.end || open->repeat > 1 || split == PLENUM_SPLIT_FILE))
        return "subset, repeat and split = file";
    if (minor < WIRE_MINOR_DEAL && open->deal)
        return "deal = round-robin";
    if (minor < WIRE_MINOR_MIX && open->mix)
        return "mixup and cutmix";
    if (minor < WIRE_MINOR_SHAPE && open->width != open->height)
        return "images that are not square";
    if (minor < WIRE_MINOR_VIEWS && open->views > 0)
        return "views";
    if (minor < WIRE_MINOR_JUNK && strstr(open->pipeline, " junk "))
        return "the word junk of pipelines";
    if (minor < WIRE_MINOR_BOXES && open->height == 0)
        return "streams without images";
    if (minor < WIRE_MINOR_FIELDS && open->fields[0])
        return "fields";
    return minor < WIRE_MINOR_BOXES && asks_for_new_fields(open) ? "boxes and members of JSON"
                                                                 : NULL;
}

static void send_open(struct session *se)
{
    struct wire_open open = *se->setup->open;
    struct wire_slot layout = {0};
    struct plenum_error err;
    int r;

    /* Older loaders do not report geometry, and their slots end earlier. */
    open.geometry = tells_geometry(se);
    (void)wire_slot_init(&open, &layout);
    open.slot_bytes = layout.bytes;
    se->batch_bytes = layout.end;
    r = se->setup->events->greeted(se->loader, &open, &se->set, &err);
    if (r < 0) {
        fail_here(se, r, err.text);
        return;
    }
    /* Closed once it is sent: it would keep the memory alive in forked children. */
    if (!se->address->tcp) {
        (void)frame_conn_attach_fd(&se->conn, se->set->ring->fd);
        se->set->ring->fd = -1;
    }
    open.slots = se->set->num_slots;
    (void)wire_put_open(&se->conn.tx, ++*se->setup->requests, &open);
    move(se, SESSION_OPENING);
    se->asked_ns = se->pinged_ns = time_now_ns();
    (void)session_flush(se);
}

/* The size of a slot is known once the shapes of all fields are. */
static void send_fields(struct session *se)
{
    const struct wire_open *open = se->setup->open;
    struct wire_ask_fields m;

    memcpy(m.dataset, open->dataset, sizeof(m.dataset));
    memcpy(m.fields, open->fields, sizeof(m.fields));
    (void)wire_put_ask_fields(&se->conn.tx, ++*se->setup->requests, &m);
    move(se, SESSION_FIELDS);
    se->asked_ns = se->pinged_ns = time_now_ns();
    (void)session_flush(se);
}

static void handle_fields(struct session *se, const struct frame_header *h,
                          struct frame_reader *payload)
{
    struct wire_fields m;
    struct plenum_error err;
    int r;

    (void)h;
    if (wire_get_fields(payload, &m) < 0) {
        lose_now(se, "sent what was not understood");
        return;
    }
    r = se->setup->events->fields(se->loader, &m, &err);
    if (r < 0)
        refused(se, r, err.text);
    else
        send_open(se);
}

static void handle_hello(struct session *se, const struct frame_header *h,
                         struct frame_reader *payload)
{
    struct wire_hello m;
    const struct wire_open *open = se->setup->open;
    const char *version = se->setup->version, *what;
    struct plenum_error err;
    int r;

    (void)h;
    r = wire_get_hello(payload, &m) < 0
            ? error_set(&err, -EPROTONOSUPPORT, "the other side does not speak Plenum's protocol")
            : wire_hello_check(&m, &err);
    if (r == 0 && !wire_hello_has_version(&m, version))
        r = error_set(&err, -EPROTONOSUPPORT,
                      "it renders pixel versions '%s', but '%s' is requested", m.versions, version);
    if (r < 0) {
        refused(se, r, err.text);
        return;
    }
    memcpy(se->loader_name, m.name, sizeof(se->loader_name));
    se->loader_minor = m.minor;
    what = lacks(m.minor, open, se->setup->split);
    if (what) {
        (void)error_set(&err, -EPROTONOSUPPORT,
                        "it is too old for %s: install the version of this library there", what);
        refused(se, -EPROTONOSUPPORT, err.text);
        return;
    }
    if (open->fields[0])
        send_fields(se);
    else
        send_open(se);
}

static void handle_opened(struct session *se, const struct frame_header *h,
                          struct frame_reader *payload)
{
    struct wire_opened m;
    struct plenum_error err;
    int r;

    (void)h;
    if (wire_get_opened(payload, &m) < 0 || m.samples == 0) {
        lose_now(se, "sent what was not understood");
        return;
    }
    if (se->loader_minor < WIRE_MINOR_CLASSES)
        m.class_names = m.classes; /* unknown for older loaders */
    r = se->setup->events->described(se->loader, &m, &err);
    if (r < 0) {
        refused(se, r, err.text);
        return;
    }
    se->failed_openings = 0;
    se->retry_delay_ns = retry_first_ns;
    se->refused = 0;
    move(se, SESSION_OPEN);
    se->setup->events->opened(se->loader, &m);
}

/* The loader no longer touches the slot. */
static void let_go(struct session *se, struct plenum_lease *slot, const struct wire_done *m)
{
    if (slot->state == SLOT_CANCELLING) {
        slot_free(slot);
        se->cancelling--;
        se->setup->events->done(se->loader, NULL, NULL);
        return;
    }
    se->filling--;
    slot->has_geometry = tells_geometry(se);
    se->setup->events->done(se->loader, slot, m);
}

/* Is this the answer to a request whose slot has been reused? */
static bool forget_cancelled(struct session *se, uint64_t request)
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
    struct plenum_lease *slot = slot_set_find_asked(se->set, se, h->request);
    struct wire_done m = {0};
    bool follows, cancelled = !slot && forget_cancelled(se, h->request);

    if ((!slot && !cancelled) || (h->type == WIRE_DONE && wire_get_done(payload, &m) < 0) ||
        (h->type == WIRE_CANCELLED && slot && slot->state != SLOT_CANCELLING)) {
        lose_now(se, "sent an answer to nothing that was asked");
        return;
    }
    follows = se->address->tcp && h->type == WIRE_DONE && m.status >= 0;
    if (m.status < 0)
        m.status = code_of_loader(m.status);
    if (cancelled) {
        se->discard = follows ? se->batch_bytes : 0;
        se->setup->events->done(se->loader, NULL, NULL);
    } else if (follows) {
        se->receiving = slot;
        se->received = 0;
        se->done = m;
    } else {
        let_go(se, slot, &m);
    }
}

/* Receive more of a batch; returns like frame_conn_read_bulk(). */
static int64_t receive(struct session *se)
{
    static uint8_t nowhere[65536]; /* written by this thread only, never read */
    struct plenum_lease *slot = se->receiving;
    uint64_t bytes = se->batch_bytes;
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

static void handle_name(struct session *se, const struct frame_header *h,
                        struct frame_reader *payload)
{
    struct wire_name m;

    if (wire_get_name(payload, &m) < 0 || se->naming == 0 ||
        se->setup->events->named(se->loader, h->request, &m) < 0) {
        lose_now(se, "sent a name that was not asked for");
        return;
    }
    se->naming--;
}

/* How long a loader may take to answer STATS before it counts as silent. */
static uint64_t patience(const struct session *se)
{
    return min_u64(max_u64(rtt_late(&se->pong), pong_least_ns), se->setup->silence_ns);
}

/* Time at which a loader that has not answered STATS becomes silent. */
static uint64_t silent_at(const struct session *se)
{
    return max_u64(se->pinged_ns, se->heard_ns) + patience(se);
}

/* PROGRESS and STATS show that the loader lives while it builds a large index. */
static void handle_life(struct session *se, const struct frame_header *h,
                        struct frame_reader *payload)
{
    uint64_t took = se->heard_ns - se->pinged_ns;

    (void)payload;
    se->setup->events->alive(se->loader, se->heard_ns);
    if (h->type != WIRE_STATS || h->request != se->ping)
        return;
    se->ping = 0;
    /* An outlier (the loader was stopped meanwhile) is left out of the estimate, or we would wait
     * as long the next time. If several in a row are late, the round trip itself has become
     * longer. */
    if (took > patience(se) && se->odd_pongs < ODD_PONGS_MAX) {
        se->odd_pongs++;
        return;
    }
    se->odd_pongs = 0;
    rtt_update(&se->pong, took);
}

/* It is still starting. */
MESSAGE static void lose_starting(struct session *se, const char *text)
{
    se->setup->events->starting(se->loader, text);
    lose_now(se, text);
}

static void handle_error(struct session *se, const struct frame_header *h,
                         struct frame_reader *payload)
{
    struct wire_error m;

    (void)h;
    if (wire_get_error(payload, &m) < 0)
        lose_now(se, "sent what was not understood");
    else if (m.code == -EINPROGRESS) /* from its keeper: jobloader.c */
        lose_starting(se, m.text);
    else if (m.code == -ETIMEDOUT || m.code == -ECANCELED) /* it is ending, or we were stopped */
        lose_now(se, m.text);
    else
        refused(se, m.code, m.text);
}

/* The messages allowed in each state. */
static const struct {
    enum wire_type type;
    unsigned states;
    void (*handle)(struct session *se, const struct frame_header *h, struct frame_reader *payload);
} messages[] = {
    {WIRE_HELLO, TO(SESSION_HELLO), handle_hello},
    {WIRE_FIELDS, TO(SESSION_FIELDS), handle_fields},
    {WIRE_OPENED, TO(SESSION_OPENING), handle_opened},
    {WIRE_DONE, TO(SESSION_OPEN), handle_done},
    {WIRE_CANCELLED, TO(SESSION_OPEN), handle_done},
    {WIRE_NAME, TO(SESSION_OPEN), handle_name},
    {WIRE_ERROR, ~0U, handle_error},
    {WIRE_STATS, ~0U, handle_life},
    {WIRE_PROGRESS, ~0U, handle_life},
};

static void handle_frame(struct session *se, const struct frame_header *h,
                         struct frame_reader *payload)
{
    for (size_t i = 0; i < ARRAY_LEN(messages); i++)
        if (messages[i].type == h->type && (messages[i].states & TO(se->state))) {
            messages[i].handle(se, h, payload);
            return;
        }
    lose_now(se, "sent a message that has no meaning here");
}

/* Handle what has been read, up to the bytes of a batch. */
static void handle_frames(struct session *se)
{
    struct frame_header header;
    struct frame_reader payload;
    int r;

    while (se->state != SESSION_DOWN && !se->receiving && !se->discard &&
           (r = frame_conn_next(&se->conn, &header, &payload)) != 0) {
        if (r < 0)
            lose_now(se, "sent a malformed frame");
        else
            handle_frame(se, &header, &payload);
    }
}

void session_ready(struct session *se)
{
    size_t budget = RECEIVE_MAX; /* the rest makes us ready again */
    int r;

    assert(lock_is_held(se->setup->lock));
    if (se->state == SESSION_DOWN)
        return;
    r = session_flush(se);
    if (r < 0 && r != -EAGAIN && se->state == SESSION_HELLO) { /* connecting failed */
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
    /* The TLS handshake ended while we read: send what waited for it. */
    if (se->state != SESSION_DOWN && frame_conn_wants_write(&se->conn) != se->wants_write)
        (void)session_flush(se);
}

int session_render(struct session *se, struct order_place place, uint64_t waited_ns,
                   struct plenum_lease *slot)
{
    uint64_t request = ++*se->setup->requests, now = time_now_ns();

    assert(lock_is_held(se->setup->lock));
    assert(se->state == SESSION_OPEN && slot->set == se->set);
    if (!se->setup->mute && wire_put_render(&se->conn.tx, request,
                                            &(struct wire_render){.epoch = place.epoch,
                                                                  .position = place.position,
                                                                  .slot = slot->index,
                                                                  .waited_ns = waited_ns}) < 0)
        return -ENOMEM;
    slot_fill(slot, se, request);
    slot->times = (struct trace_batch){
        .epoch = place.epoch, .position = place.position, .asked_ns = now, .slot = slot->index};
    if (se->filling++ == 0 && !se->setup->mute) {
        se->asked_ns = now;
        io_poke(); /* there is something to wait for now */
    }
    return 0;
}

void session_answer(struct plenum_lease *slot)
{
    struct session *se = slot->session;

    assert(se->setup->mute && se->filling > 0);
    se->filling--;
}

int session_ask_name(struct session *se, uint64_t request, const struct wire_ask_name *m,
                     struct plenum_error *err)
{
    assert(lock_is_held(se->setup->lock));
    if (se->loader_minor < (m->of == WIRE_NAMED_CLASS ? WIRE_MINOR_CLASSES : WIRE_MINOR_NAME))
        return error_set(err, -ENOTSUP, "%s is too old to tell the names of %s", se->loader_name,
                         m->of == WIRE_NAMED_CLASS ? "classes" : "samples");
    se->asked_ns = time_now_ns();
    if (wire_put_ask_name(&se->conn.tx, request, m) < 0)
        return -ENOMEM; /* session_flush() reports it, too */
    se->naming++;
    return 0;
}

void session_cancel(struct plenum_lease *slot)
{
    struct session *se = slot->session;

    assert(lock_is_held(se->setup->lock));
    se->filling--;
    if (se->receiving == slot) { /* it has been answered already */
        se->discard = se->batch_bytes - se->received;
        se->receiving = NULL;
        slot_free(slot);
        return;
    }
    if (se->address->tcp) {
        se->cancelled[se->cancelling] = slot->request;
        slot_free(slot);
    } else {
        slot_call_back(slot);
    }
    se->cancelling++;
    (void)wire_put_empty(&se->conn.tx, WIRE_CANCEL, slot->request);
    (void)session_flush(se);
}

/* Since when have we been waiting for the loader? 0: we are not. */
static uint64_t waiting_since(const struct session *se)
{
    if (se->state == SESSION_OPEN && se->filling == 0 && se->cancelling == 0 && se->naming == 0)
        return 0;
    return max_u64(se->heard_ns, se->asked_ns);
}

bool session_is_silent(const struct session *se, uint64_t now_ns)
{
    assert(lock_is_held(se->setup->lock));
    return se->state == SESSION_OPEN && se->ping && waiting_since(se) && now_ns >= silent_at(se);
}

uint64_t session_tick(struct session *se, uint64_t now_ns, bool others)
{
    uint64_t since, next, ping_ns = se->setup->silence_ns / 4;

    assert(lock_is_held(se->setup->lock));
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
    if (now_ns >= sum_u64(since, se->setup->silence_ns)) {
        char text[64];

        (void)snprintf(text, sizeof(text), "said nothing for %.1f s",
                       (double)(now_ns - since) / (double)NS_PER_SEC);
        lose_since(se, since, text);
        return now_ns;
    }
    next = sum_u64(since, se->setup->silence_ns);
    if (se->state == SESSION_HELLO)
        return next;
    if (!se->ping && now_ns >= max_u64(since, se->pinged_ns) + ping_ns) {
        se->pinged_ns = now_ns;
        se->ping = ++*se->setup->requests;
        (void)wire_put_empty(&se->conn.tx, WIRE_STATS, se->ping);
        (void)session_flush(se);
    }
    if (!se->ping)
        return min_u64(next, max_u64(since, se->pinged_ns) + ping_ns);
    return others && silent_at(se) > now_ns ? min_u64(next, silent_at(se)) : next;
}

void session_retry_at(struct session *se, uint64_t when_ns)
{
    assert(lock_is_held(se->setup->lock));
    assert(se->state == SESSION_DOWN);
    se->retry_ns = when_ns;
}

void session_forgive(struct session *se, uint64_t now_ns)
{
    assert(lock_is_held(se->setup->lock));
    se->heard_ns = se->asked_ns = se->pinged_ns = se->away_ns = now_ns;
}

bool session_is_down(const struct session *se)
{
    return se->state == SESSION_DOWN;
}

bool session_has_greeted(const struct session *se)
{
    return se->state > SESSION_HELLO;
}

bool session_is_open(const struct session *se)
{
    return se->state == SESSION_OPEN;
}

bool session_is_idle(const struct session *se)
{
    return !se->filling && !se->cancelling && !se->discard && !se->naming;
}

bool session_may_come(const struct session *se, uint64_t now_ns, uint64_t timeout_ns)
{
    if (se->state != SESSION_DOWN)
        return true;
    return !se->refused && se->retry_ns < UINT64_MAX && now_ns < sum_u64(se->away_ns, timeout_ns);
}

struct plenum_lease *session_free_slot(const struct session *se)
{
    if (se->filling + se->cancelling + (se->discard > 0) >= se->set->num_slots)
        return NULL;
    return slot_set_find_free(se->set);
}

unsigned session_filling(const struct session *se)
{
    return se->filling;
}

struct slot_set *session_set(const struct session *se)
{
    return se->set;
}

struct loader *session_loader(const struct session *se)
{
    return se->loader;
}

int session_refusal(const struct session *se)
{
    return se->refused;
}

const char *session_error(const struct session *se)
{
    return se->error.text;
}
