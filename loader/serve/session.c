/* SPDX-License-Identifier: MIT */
/* session.c - one client's connection, from HELLO to the last task. A table below defines its
 * states.
 *
 * A draining session ignores requests for batches. When the batches in progress are answered, the
 * client gets ERROR with -ECANCELED, and the session is closed. The client then requests the
 * ignored batches from the next loader. So the protocol needs no message for draining.
 *
 * Only maybe_free() frees a session: once no task writes into its ring and no libuv handle is open.
 *
 * libuv has no documented way to receive a memfd on a pipe. So the session watches its descriptor
 * with uv_poll, and common/frame.c reads and writes. */
#include "config.h"

#include "loader/serve/session_priv.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "loader/serve/monitor.h"
#include "loader/serve/snapshot.h"

enum {
    HELLO_LIMIT_MS = 10000,  /* for HELLO and OPEN to arrive */
    STATUS_LIMIT_MS = 10000, /* for a client to read it */
};

/* The allowed transitions. Every state changes to CLOSING at end of file, on BYE, on a malformed
 * frame, and on an error. CLOSING cancels all requests and waits for their tasks. */
#define TO(state) (1U << (state))
static const unsigned may_become[STATES] = {
    [STATE_HELLO] = TO(STATE_IDLE) | TO(STATE_CLOSING),   /* HELLO */
    [STATE_IDLE] = TO(STATE_OPENING) | TO(STATE_CLOSING), /* FIELDS, OPEN */
    /* The index is ready, or the requested fields are known. */
    [STATE_OPENING] = TO(STATE_OPEN) | TO(STATE_IDLE) | TO(STATE_CLOSING),
    [STATE_OPEN] = TO(STATE_CLOSING), /* RENDER, DONE ... */
    [STATE_CLOSING] = 0,
};

void session_move(struct session *s, enum state to)
{
    assert(s->state < STATES && (may_become[s->state] & TO(to)));
    s->state = to;
}

/* Closing a descriptor that a client has sent may block, so it must not be done on the loop. */
static void close_fd(void *arg, int fd)
{
    const struct session *s = arg;

    if (fd == s->conn.fd)
        blocking_close_connection(s->server->blocking, s->peer.uid, fd);
    else
        blocking_close_fd(s->server->blocking, s->peer.uid, fd);
}

/* Close a descriptor that a client has sent. */
void session_drop_fd(struct session *s, int fd)
{
    if (fd >= 0)
        close_fd(s, fd);
}

/* Dropping the last reference to a ring frees its memory, which takes a while. So its descriptor is
 * closed last, in a thread. */
static void drop_ring(struct session *s)
{
    int fd = s->ring ? s->ring->fd : -1;

    if (s->ring)
        s->ring->fd = -1;
    ring_unref(s->ring);
    session_drop_fd(s, fd);
    session_drop_fd(s, s->ring_fd);
}

static void maybe_free(struct session *s)
{
    struct server *server = s->server;

    assert(s->state == STATE_CLOSING);
    if (s->handles > 0 || s->under_way > 0)
        return;
    session_drop_answers(s);
    queue_stream_close(s->stream);
    drop_ring(s);
    server->ring_bytes -= s->ring_bytes;
    openings_release(server->blocking, s->user, s->dataset);
    snapshot_unref(s->status);
    frame_conn_fini(&s->conn);
    peer_fini(&s->peer);
    list_remove(&s->link);
    assert(server->num_sessions > 0);
    server->num_sessions--;
    free(s);
    server->session_gone(server);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct session *s = handle->data;

    s->handles--;
    maybe_free(s);
}

void session_close(struct session *session)
{
    if (session->state == STATE_CLOSING)
        return;
    session_move(session, STATE_CLOSING);
    session_wait_no_longer(session);
    openings_leave(&session->waiter);
    if (session->stream)
        queue_cancel_all(session->stream);
    uv_close((uv_handle_t *)&session->poll, on_handle_closed);
    uv_close((uv_handle_t *)&session->timer, on_handle_closed);
    frame_conn_hang_up(&session->conn); /* the client sees end of file at once */
}

void session_limit_idle(struct session *s)
{
    (void)uv_timer_start(&s->timer, session_on_timer, HELLO_LIMIT_MS, 0);
}

static const char ending_text[] = "is being stopped or restarted";

/* When a draining session has answered all requests, notify the client, and close the session once
 * that message is sent. */
static void maybe_leave(struct session *s)
{
    struct wire_error m = {.code = -ECANCELED};

    if (!s->draining || s->state != STATE_OPEN || s->under_way > 0 || !list_is_empty(&s->answers))
        return;
    if (!s->told) {
        s->told = true;
        memcpy(m.text, ending_text, sizeof(ending_text));
        if (wire_put_error(&s->conn.tx, 0, &m) < 0)
            session_close(s);
        else
            session_flush(s);
    }
    if (s->state == STATE_OPEN && frame_conn_pending(&s->conn) == 0 &&
        frame_conn_bulk_left(&s->conn) == 0)
        session_close(s);
}

void session_drain(struct session *session)
{
    struct session *s = session;

    s->draining = true;
    if (s->state == STATE_OPEN)
        maybe_leave(s);
    else if (s->state != STATE_CLOSING)
        session_refuse(s, s->open_request, -ECANCELED, ending_text);
}

void session_on_timer(uv_timer_t *timer)
{
    struct session *s = timer->data;
    struct wire_progress progress;

    if (s->state == STATE_HELLO || s->state == STATE_IDLE) {
        session_refuse(s, 0, -ETIMEDOUT, "no stream was opened within ten seconds");
        return;
    }
    if (s->state == STATE_OPEN) {
        if (frame_conn_bulk_left(&s->conn) > 0 &&
            time_now_ns() - s->sent_ns > SEND_LIMIT_MS * NS_PER_MS) {
            if (session_may_log(s, LOG_LEVEL_WARN))
                log_warn("client %s has not taken its pixels for %d s: closed", s->name,
                         SEND_LIMIT_MS / 1000);
            session_close(s);
        }
        return;
    }
    if (s->room_ns > 0) {
        session_await_room(s);
        return;
    }
    if (s->state == STATE_OPENING && openings_get_progress(&s->waiter, &progress)) {
        (void)wire_put_progress(&s->conn.tx, s->open_request, &progress);
        session_flush(s);
    }
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct session *s = poll->data;

    if (status < 0) {
        session_close(s);
        return;
    }
    if ((events & UV_READABLE) || s->more || (s->conn.carrier && s->conn.carrier->wants_write))
        session_readable(s);
    if (s->state != STATE_CLOSING)
        session_flush(s);
    if (s->state != STATE_CLOSING)
        maybe_leave(s);
}

/* Wait for frames once those that arrived are handled, and for room to write while bytes are
 * waiting. */
void session_poll(struct session *s)
{
    bool write = s->more || frame_conn_wants_write(&s->conn);
    int events = (s->more ? 0 : UV_READABLE) | (write ? UV_WRITABLE : 0);

    if (uv_poll_start(&s->poll, events, on_poll) < 0)
        session_close(s);
}

void session_finished(struct session *session, struct queue_request *request)
{
    struct session *s = session;

    assert(s->under_way > 0 && request->owner == s);
    s->under_way--;
    if (s->state == STATE_CLOSING) {
        free(request);
        maybe_free(s);
        return;
    }
    if (session_answer(s, request) < 0)
        session_close(s);
    else
        session_flush(s);
    maybe_leave(s);
}

static struct session *session_of(struct list *link)
{
    return link ? container_of(link, struct session, link) : NULL;
}

struct session *session_first(const struct server *server)
{
    return session_of(list_first(&server->sessions));
}

struct session *session_next(const struct session *session)
{
    return session_of(list_next(&session->server->sessions, &session->link));
}

/* Add the session to the server's list. From then on session_close() ends it; if that is not yet
 * possible, this function does. */
static int begin(struct session *s)
{
    struct server *server = s->server;
    int r;

    list_add_first(&server->sessions, &s->link);
    server->num_sessions++;
    s->poll.data = s;
    s->timer.data = s;
    (void)uv_timer_init(&server->loop, &s->timer);
    s->handles++;
    r = uv_poll_init(&server->loop, &s->poll, s->conn.fd);
    if (r < 0) {
        session_move(s, STATE_CLOSING);
        uv_close((uv_handle_t *)&s->timer, on_handle_closed);
        return r;
    }
    s->handles++;
    session_limit_idle(s);
    session_poll(s);
    return 0;
}

int session_create(struct server *server, int fd, bool remote)
{
    struct session *s = calloc(1, sizeof(*s));
    struct plenum_error err = {""};
    int r;

    if (!s) {
        blocking_close_connection(server->blocking, BLOCKING_UNKNOWN_USER, fd);
        return -ENOMEM;
    }
    list_init(&s->answers);
    s->server = server;
    s->remote = remote;
    s->sending = NO_SLOT;
    s->ring_fd = -1;
    if (remote)
        session_watch_peer(fd);
    s->id = ++server->last_id;
    s->opened_ns = time_now_ns();
    (void)snprintf(s->name, sizeof(s->name), "?");
    (void)snprintf(s->job, sizeof(s->job), "session %llu", (unsigned long long)s->id);
    r = frame_conn_init(&s->conn, fd, WIRE_MAX_PAYLOAD);
    if (!remote) { /* TCP carries no descriptors */
        s->conn.takes_fd = true;
        s->conn.close_fd = close_fd;
        s->conn.close_arg = s;
    }
    if (r < 0)
        goto fail;
    r = session_check_peer(s, &err);
    if (r < 0)
        goto fail;
    if (remote && server->tls) {
        r = tls_carry(server->tls, fd, &s->conn.carrier);
        if (r < 0)
            goto fail;
    }
    return begin(s);

fail:
    if (r == -EACCES || r == -EUSERS)
        session_refuse_peer(s, r, err.text);
    frame_conn_fini(&s->conn);
    peer_fini(&s->peer);
    free(s);
    return r;
}

const char *session_user(const struct session *session)
{
    return session->user;
}

bool session_is_ending(const struct session *session)
{
    return session->state == STATE_CLOSING;
}

uint64_t session_ring_bytes(const struct session *session)
{
    return session->ring_bytes;
}

uint64_t session_working_bytes(const struct session *session)
{
    return session->ring_bytes > 0 ? render_working_bytes(&session->spec) : 0;
}

uint64_t session_field_bytes(const struct session *session)
{
    return session->stream ? dataset_get_field_memory(session->dataset, session->server->io_threads)
                           : 0;
}

void session_beat(struct session *session, uint64_t now_ns)
{
    struct session *s = session;
    struct window_point point = {.at_ns = now_ns, .waited_ns = s->waited_ns};

    if (s->state != STATE_OPEN)
        return;
    queue_stream_get_totals(s->stream, &point.totals);
    window_add(&s->window, &point);
    session_watch_silent(s, now_ns);
    if (s->state == STATE_OPEN && s->status && now_ns > s->status_ns + STATUS_LIMIT_MS * NS_PER_MS)
        session_close_unread(s);
}

bool session_get_status(const struct session *session, struct wire_status_stream *ret)
{
    const struct session *s = session;
    struct window_point all = {.at_ns = time_now_ns()};

    if (s->state != STATE_OPEN)
        return false;
    *ret = (struct wire_status_stream){.id = s->id,
                                       .pid = (uint32_t)s->peer.pid,
                                       .uid = s->peer.uid,
                                       .age_ns = all.at_ns - s->opened_ns,
                                       .epoch = s->asked.epoch,
                                       .position = s->asked.position,
                                       .epoch_samples = s->spec.order.n,
                                       .batch_samples = wire_batch_count(&s->open),
                                       .ring_bytes = s->ring_bytes,
                                       .slots = s->open.slots,
                                       .in_flight = s->under_way,
                                       .lane = queue_stream_node(s->stream),
                                       .waited = WIRE_UNKNOWN};
    memcpy(ret->client, s->name, sizeof(ret->client));
    (void)snprintf(ret->dataset, sizeof(ret->dataset), "%s", dataset_get_name(s->dataset));
    pipeline_write_decimals(s->open.pipeline, ret->pipeline, sizeof(ret->pipeline));
    queue_stream_get_totals(s->stream, &all.totals);
    ret->samples = all.totals.samples;
    ret->substituted = all.totals.substituted;
    ret->batches = all.totals.batches;
    ret->failed = all.totals.failed;
    monitor_stream(s->server, &s->window, s->waited_ns != WIRE_UNKNOWN, ret);
    return true;
}

uint64_t session_private_bytes(const struct session *session)
{
    return session->remote && session->ring ? ring_resident(session->ring) : 0;
}

bool session_get_view(const struct session *session, struct session_view *ret)
{
    const struct session *s = session;

    if (s->state != STATE_OPEN || !s->has_asked)
        return false;
    *ret = (struct session_view){.id = s->id,
                                 .dataset = dataset_ref(s->dataset),
                                 .height = s->open.height,
                                 .width = s->open.width,
                                 .order = s->spec.order,
                                 .bad = s->spec.bad,
                                 .jpeg = s->spec.jpeg,
                                 .epoch = s->asked.epoch,
                                 .position = s->asked.position,
                                 .per_step = s->open.per_step,
                                 .deal = s->open.deal,
                                 .offset = s->open.offset,
                                 .count = s->open.local};
    memcpy(ret->user, s->user, sizeof(ret->user));
    memcpy(ret->pipeline, s->open.pipeline, sizeof(ret->pipeline));
    return true;
}
