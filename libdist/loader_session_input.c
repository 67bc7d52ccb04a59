/* SPDX-License-Identifier: MIT */
/* loader_session_input.c - handles what a loader sends: its frames, each accepted only in some
 * states of the session, and the bytes of batches.
 *
 * HELLO and FIELDS are answered in this file, because the next request depends on them. */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/util.h"
#include "libdist/loader_session_core.h"

/* Bytes received at most per turn, so that the program does not wait long for the lock. */
enum { RECEIVE_MAX = 1 << 20 };

static bool tells_geometry(const struct loader_session *se)
{
    return se->loader_minor >= WIRE_MINOR_VIEWS && se->setup->open->geometry;
}

static bool asks_for_new_fields(const struct wire_open *open)
{
    struct fields fields;
    struct plenum_error err;

    return fields_parse(open->fields, &fields, &err) == 0 && fields_are_new(&fields);
}

static bool asks_for_keypoints(const struct wire_open *open)
{
    struct fields fields;
    struct plenum_error err;

    return fields_parse(open->fields, &fields, &err) == 0 && fields_have_keypoints(&fields);
}

static bool asks_for_instances(const struct wire_open *open)
{
    struct fields fields;
    struct plenum_error err;

    return fields_parse(open->fields, &fields, &err) == 0 && fields_have_instances(&fields);
}

/* Returns whether masks or boxes follow operations that move pixels. */
static bool moves_fields(const struct wire_open *open)
{
    struct fields fields;
    struct views views;
    struct plenum_error err;

    return open->fields[0] && fields_parse(open->fields, &fields, &err) == 0 &&
           fields_follow_pixels(&fields) && views_parse(open->pipeline, &views, &err) == 0 &&
           views_move(&views);
}

/* Name something that the stream requires but loaders of this minor version would ignore; NULL:
 * nothing. */
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
    if (minor < WIRE_MINOR_PLAN && open->plan[0])
        return "mixtures, weights and selections of samples";
    if (minor < WIRE_MINOR_REWEIGH && strstr(open->plan, "\nweights "))
        return "weights of samples that change";
    if (minor < WIRE_MINOR_JUNK && strstr(open->pipeline, " junk "))
        return "the word junk in pipelines";
    if (minor < WIRE_MINOR_BOXES && open->height == 0)
        return "streams without images";
    if (minor < WIRE_MINOR_FIELDS && open->fields[0])
        return "fields";
    if (minor < WIRE_MINOR_BOXES && asks_for_new_fields(open))
        return "boxes and members of JSON";
    if (minor < WIRE_MINOR_KEYPOINTS && asks_for_keypoints(open))
        return "key points";
    if (minor < WIRE_MINOR_INSTANCES && asks_for_instances(open))
        return "masks of instances";
    return minor < WIRE_MINOR_MOVES && moves_fields(open)
               ? "masks and boxes with operations that move pixels"
               : NULL;
}

static void send_open(struct loader_session *se)
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
        session_lack(se, r, err.text);
        return;
    }
    /* Closed once it is sent, because a forked child's copy would keep the memory alive. */
    if (!se->address->tcp) {
        (void)frame_conn_attach_fd(&se->conn, se->set->ring->fd);
        se->set->ring->fd = -1;
    }
    open.slots = se->set->num_slots;
    (void)wire_put_open(&se->conn.tx, ++*se->setup->requests, &open);
    session_move(se, SESSION_OPENING);
    se->asked_ns = se->pinged_ns = time_now_ns();
    (void)session_flush(se);
}

/* Request the shapes of the fields, from which the size of a slot is computed. */
static void send_fields(struct loader_session *se)
{
    const struct wire_open *open = se->setup->open;
    struct wire_ask_fields m;

    memcpy(m.dataset, open->dataset, sizeof(m.dataset));
    memcpy(m.fields, open->fields, sizeof(m.fields));
    memcpy(m.plan, open->plan, sizeof(m.plan));
    (void)wire_put_ask_fields(&se->conn.tx, ++*se->setup->requests, &m);
    session_move(se, SESSION_FIELDS);
    se->asked_ns = se->pinged_ns = time_now_ns();
    (void)session_flush(se);
}

static void handle_fields(struct loader_session *se, const struct frame_header *h,
                          struct frame_reader *payload)
{
    struct wire_fields m;
    struct plenum_error err;
    int r;

    (void)h;
    if (wire_get_fields(payload, &m) < 0) {
        session_lose(se, "sent a malformed message");
        return;
    }
    r = se->setup->events->fields(se->loader, &m, &err);
    if (r < 0)
        session_refuse(se, r, err.text);
    else
        send_open(se);
}

static void handle_hello(struct loader_session *se, const struct frame_header *h,
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
                      "it renders pixel versions '%s', but '%s' was requested", m.versions,
                      version);
    if (r < 0) {
        session_refuse(se, r, err.text);
        return;
    }
    memcpy(se->loader_name, m.name, sizeof(se->loader_name));
    se->loader_minor = m.minor;
    what = lacks(m.minor, open, se->setup->split);
    if (what) {
        (void)error_set(&err, -EPROTONOSUPPORT,
                        "it is too old for %s: install the same version as this library there",
                        what);
        session_refuse(se, -EPROTONOSUPPORT, err.text);
        return;
    }
    if (open->fields[0])
        send_fields(se);
    else
        send_open(se);
}

static void handle_opened(struct loader_session *se, const struct frame_header *h,
                          struct frame_reader *payload)
{
    struct wire_opened m;
    struct plenum_error err;
    int r;

    (void)h;
    if (wire_get_opened(payload, &m) < 0 || m.samples == 0) {
        session_lose(se, "sent a malformed message");
        return;
    }
    if (se->loader_minor < WIRE_MINOR_CLASSES)
        m.class_names = m.classes; /* unknown for older loaders */
    r = se->setup->events->described(se->loader, &m, &err);
    if (r < 0) {
        session_refuse(se, r, err.text);
        return;
    }
    session_opened(se);
    se->setup->events->opened(se->loader, &m);
}

/* The loader no longer touches the slot: free it if its request was cancelled, or report its
 * answer. */
static void let_go(struct loader_session *se, struct plenum_lease *slot, const struct wire_done *m)
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

/* Returns whether this is the answer to a cancelled request whose slot is in use again, and if so,
 * forgets the request. */
static bool forget_cancelled(struct loader_session *se, uint64_t request)
{
    for (unsigned i = 0; se->address->tcp && i < se->cancelling; i++)
        if (se->cancelled[i] == request) {
            se->cancelled[i] = se->cancelled[--se->cancelling];
            return true;
        }
    return false;
}

/* Handle DONE or CANCELLED. Over TCP a batch's bytes follow its DONE. */
static void handle_done(struct loader_session *se, const struct frame_header *h,
                        struct frame_reader *payload)
{
    struct plenum_lease *slot = slot_set_find_asked(se->set, se, h->request);
    struct wire_done m = {0};
    bool follows, cancelled = !slot && forget_cancelled(se, h->request);

    if ((!slot && !cancelled) || (h->type == WIRE_DONE && wire_get_done(payload, &m) < 0) ||
        (h->type == WIRE_CANCELLED && slot && slot->state != SLOT_CANCELLING)) {
        session_lose(se, "sent an answer to a request that was never made");
        return;
    }
    follows = se->address->tcp && h->type == WIRE_DONE && m.status >= 0;
    if (m.status < 0)
        m.status = session_code(m.status);
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
static int64_t receive(struct loader_session *se)
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

static void handle_name(struct loader_session *se, const struct frame_header *h,
                        struct frame_reader *payload)
{
    struct wire_name m;

    if (wire_get_name(payload, &m) < 0 || se->naming == 0 ||
        se->setup->events->named(se->loader, h->request, &m) < 0) {
        session_lose(se, "sent a name that was not requested");
        return;
    }
    se->naming--;
}

/* Handle PROGRESS and STATS, which show that the loader is alive while it builds a large index. */
static void handle_life(struct loader_session *se, const struct frame_header *h,
                        struct frame_reader *payload)
{
    (void)payload;
    se->setup->events->alive(se->loader, se->heard_ns);
    if (h->type == WIRE_STATS)
        session_pong(se, h->request);
}

/* The keeper reports that the loader is still starting: pass on its message, end the connection,
 * and reconnect later. */
MESSAGE static void lose_starting(struct loader_session *se, const char *text)
{
    se->setup->events->starting(se->loader, text);
    session_lose(se, text);
}

static void handle_error(struct loader_session *se, const struct frame_header *h,
                         struct frame_reader *payload)
{
    struct wire_error m;

    (void)h;
    if (wire_get_error(payload, &m) < 0)
        session_lose(se, "sent a malformed message");
    else if (m.code == -EINPROGRESS) /* from its keeper: jobloader.c */
        lose_starting(se, m.text);
    else if (m.code == -ETIMEDOUT || m.code == -ECANCELED) /* temporary: try again */
        session_lose(se, m.text);
    else
        session_refuse(se, m.code, m.text);
}

/* The messages allowed in each state. */
static const struct {
    enum wire_type type;
    unsigned states;
    void (*handle)(struct loader_session *se, const struct frame_header *h,
                   struct frame_reader *payload);
} messages[] = {
    {WIRE_HELLO, STATE(SESSION_HELLO), handle_hello},
    {WIRE_FIELDS, STATE(SESSION_FIELDS), handle_fields},
    {WIRE_OPENED, STATE(SESSION_OPENING), handle_opened},
    {WIRE_DONE, STATE(SESSION_OPEN), handle_done},
    {WIRE_CANCELLED, STATE(SESSION_OPEN), handle_done},
    {WIRE_NAME, STATE(SESSION_OPEN), handle_name},
    {WIRE_ERROR, ~0U, handle_error},
    {WIRE_STATS, ~0U, handle_life},
    {WIRE_PROGRESS, ~0U, handle_life},
};

static void handle_frame(struct loader_session *se, const struct frame_header *h,
                         struct frame_reader *payload)
{
    for (size_t i = 0; i < ARRAY_LEN(messages); i++)
        if (messages[i].type == h->type && (messages[i].states & STATE(se->state))) {
            messages[i].handle(se, h, payload);
            return;
        }
    session_lose(se, "sent an unexpected message");
}

/* Handle what has been read, up to the bytes of a batch. */
static void handle_frames(struct loader_session *se)
{
    struct frame_header header;
    struct frame_reader payload;
    int r;

    while (se->state != SESSION_DOWN && !se->receiving && !se->discard &&
           (r = frame_conn_next(&se->conn, &header, &payload)) != 0) {
        if (r < 0)
            session_lose(se, "sent a malformed frame");
        else
            handle_frame(se, &header, &payload);
    }
}

void session_ready(struct loader_session *se)
{
    size_t budget = RECEIVE_MAX; /* the rest makes us ready again */
    int r;

    assert(lock_is_held(se->setup->lock));
    if (se->state == SESSION_DOWN)
        return;
    r = session_flush(se);
    if (r < 0 && r != -EAGAIN && se->state == SESSION_HELLO) { /* connecting failed */
        session_lose_connection(se, r);
        return;
    }
    while (se->state != SESSION_DOWN && (budget > 0 || frame_conn_has_read(&se->conn))) {
        int64_t n = se->receiving || se->discard ? receive(se) : frame_conn_fill(&se->conn);

        if (n == -EAGAIN)
            break;
        if (n < 0) {
            session_lose_connection(se, (int)n);
            return;
        }
        se->heard_ns = time_now_ns();
        budget -= min_u64(budget, (uint64_t)n);
        handle_frames(se);
    }
    /* The TLS handshake ended while we were reading: send what has waited for that. */
    if (se->state != SESSION_DOWN && frame_conn_wants_write(&se->conn) != se->wants_write)
        (void)session_flush(se);
}
