/* SPDX-License-Identifier: MIT */
/* session.c - the states of one client's connection, which a table below defines, and its end.
 *
 * Only session_maybe_free() frees a session: once no task writes into its ring and no libuv handle
 * is open. */
#include "config.h"

#include "loader/serve/session_priv.h"

#include <assert.h>
#include <stdlib.h>

#include "common/util/state.h"
#include "common/util/util.h"
#include "loader/serve/server_priv.h"
#include "loader/serve/snapshot.h"

/* Every state changes to CLOSING at end of file, on BYE, on a malformed frame, and on an error.
 * CLOSING cancels all requests and waits for their tasks. */
static const struct state_row session_states[] = {
    [STATE_HELLO] = {"hello", STATE(STATE_IDLE) | STATE(STATE_CLOSING)},  /* HELLO */
    [STATE_IDLE] = {"idle", STATE(STATE_OPENING) | STATE(STATE_CLOSING)}, /* FIELDS, OPEN */
    /* The index is ready, or the requested fields are known. */
    [STATE_OPENING] = {"opening", STATE(STATE_OPEN) | STATE(STATE_IDLE) | STATE(STATE_CLOSING)},
    [STATE_OPEN] = {"open", STATE(STATE_CLOSING)}, /* RENDER, DONE ... */
    [STATE_CLOSING] = {"closing", 0},
};

static const struct state_machine session_machine = {.name = "session",
                                                     .states = session_states,
                                                     .count = ARRAY_LEN(session_states),
                                                     .trace = state_log};

void session_move(struct session *s, enum client_state to)
{
    enum client_state from = s->state;

    s->state = to;
    state_moved(&session_machine, s, (unsigned)s->id, from, to);
}

void session_close_fd(void *arg, int fd)
{
    const struct session *s = arg;

    if (fd == s->conn.fd)
        blocking_close_connection(s->server->blocking, s->peer.uid, fd);
    else
        blocking_close_fd(s->server->blocking, s->peer.uid, fd);
}

void session_drop_fd(struct session *s, int fd)
{
    if (fd >= 0)
        session_close_fd(s, fd);
}

/* Unmap the ring. Dropping the last reference frees its memory, which takes a while, so its
 * descriptor is closed last, in a thread. */
static void drop_ring(struct session *s)
{
    int fd = s->ring ? s->ring->fd : -1;

    if (s->ring)
        s->ring->fd = -1;
    ring_destroy(s->ring);
    session_drop_fd(s, fd);
    session_drop_fd(s, s->ring_fd);
}

void session_wait_no_longer(struct session *s)
{
    assert(s->room_ns == 0 || s->server->waiting_for_room > 0);
    s->server->waiting_for_room -= s->room_ns > 0;
    s->room_ns = 0;
}

/* Free the answers that were not sent. */
static void drop_answers(struct session *s)
{
    struct list *first;

    while ((first = list_pop_first(&s->answers)))
        free(container_of(first, struct queue_request, link));
}

void session_maybe_free(struct session *s)
{
    struct server *server = s->server;

    assert(s->state == STATE_CLOSING);
    if (s->handles > 0 || s->under_way > 0)
        return;
    assert(!s->waiter.opening && server->ring_bytes >= s->ring_bytes);
    drop_answers(s);
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

void session_on_handle_closed(uv_handle_t *handle)
{
    struct session *s = handle->data;

    assert(s->handles > 0);
    s->handles--;
    session_maybe_free(s);
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
    uv_close((uv_handle_t *)&session->poll, session_on_handle_closed);
    uv_close((uv_handle_t *)&session->timer, session_on_handle_closed);
    frame_conn_hang_up(&session->conn); /* the client gets end of file at once */
}

void session_add_point(struct session *s, uint64_t now_ns)
{
    struct window_point point = {.at_ns = now_ns, .waited_ns = s->waited_ns};

    assert(s->state == STATE_OPEN);
    queue_stream_get_totals(s->stream, &point.totals);
    window_add(&s->window, &point);
}
