/* SPDX-License-Identifier: MIT */
/* session_events.c - handles the events of a session: a client connects, its socket is ready, a
 * request has finished, a second has passed, or the loader is about to end.
 *
 * A draining session ignores requests for batches. When the batches in progress are answered, the
 * client gets ERROR with -ECANCELED, and the session is closed. The client then requests the
 * ignored batches from the next loader. So the protocol needs no message for draining.
 *
 * libuv has no documented way to receive a memfd on a pipe. So the session watches its descriptor
 * with uv_poll, and common/net/frame.c reads and writes. */
#include "config.h"

#include "loader/serve/session_priv.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/util.h"
#include "loader/serve/server_priv.h"

enum {
    STATUS_LIMIT_MS = 10000, /* time for a client to read STATUS */
};

static const char ending_text[] = "is being stopped or restarted";

/* If a draining session has answered all requests, notify the client, and close the session once
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

void session_finished(struct session *session, struct queue_request *request)
{
    struct session *s = session;

    assert(s->under_way > 0 && request->owner == s);
    s->under_way--;
    if (s->state == STATE_CLOSING) {
        free(request);
        session_maybe_free(s);
        return;
    }
    if (session_answer(s, request) < 0)
        session_close(s);
    else
        session_flush(s);
    maybe_leave(s);
}

/* Add the session to the server's list, and start its handles. On failure, ends the session. */
static int begin(struct session *s)
{
    struct server *server = s->server;
    int r;

    list_add_first(&server->sessions, &s->link);
    server->num_sessions++;
    s->on_poll = on_poll;
    s->poll.data = s;
    s->timer.data = s;
    (void)uv_timer_init(&server->loop, &s->timer);
    s->handles++;
    r = uv_poll_init(&server->loop, &s->poll, s->conn.fd);
    if (r < 0) {
        session_move(s, STATE_CLOSING);
        uv_close((uv_handle_t *)&s->timer, session_on_handle_closed);
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
        s->conn.close_fd = session_close_fd;
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

void session_beat(struct session *session, uint64_t now_ns)
{
    struct session *s = session;

    if (s->state != STATE_OPEN)
        return;
    session_add_point(s, now_ns);
    session_watch_silent(s, now_ns);
    if (s->state == STATE_OPEN && s->status && now_ns > s->status_ns + STATUS_LIMIT_MS * NS_PER_MS)
        session_close_unread(s);
}
