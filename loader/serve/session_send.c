/* SPDX-License-Identifier: MIT */
/* session_send.c - sends answers and the status to a client.
 *
 * A remote session (TCP) has no shared ring. It renders into private memory. Finished requests wait
 * in `answers` until earlier ones are sent; each DONE is followed by its pixels. A slot is in use
 * until its last byte is sent. So a client that does not read gets no further batches, and it is
 * closed after SEND_LIMIT_MS, because its slots are the loader's memory. */
#include "config.h"

#include "loader/serve/session_priv.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/util/util.h"
#include "loader/serve/server_priv.h"
#include "loader/serve/snapshot.h"

enum {
    TX_PENDING_MAX = 1 << 20, /* bytes of answers that a client has not read */
};

static struct queue_request *pop_answer(struct session *s)
{
    struct list *first = list_pop_first(&s->answers);

    return first ? container_of(first, struct queue_request, link) : NULL;
}

/* Log why a batch failed. Each reason is logged once a minute per client, because its other batches
 * often fail for the same reason. */
static void log_failure(struct session *s, const char *why)
{
    struct session_about about;
    char times[64] = "";
    uint32_t untold;

    if (session_is_muted(s))
        return;
    switch (log_limit_check(&s->server->failures, s->name, why, time_now_ns(), &untold)) {
    case LOG_LIMIT_DROP:
        return;
    case LOG_LIMIT_LOG_OVERFLOW:
        log_warn("batches fail for more reasons than are logged in a minute");
        return;
    case LOG_LIMIT_LOG:
        break;
    }
    if (untold > 0)
        (void)snprintf(times, sizeof(times), " (logged once for the last %u times)", untold + 1);
    log_budget_spend(&s->server->lines, s->user, time_now_ns());
    log_about(LOG_LEVEL_WARN, session_about(s, &about), "client %s: %s%s", s->name, why, times);
}

static int put_answer(struct session *s, const struct queue_request *request)
{
    if (request->cancelled)
        return wire_put_empty(&s->conn.tx, WIRE_CANCELLED, request->id);
    if (request->done.status < 0)
        log_failure(s, request->done.text);
    return wire_put_done(&s->conn.tx, request->id, &request->done);
}

/* Free the slot whose last byte was sent. */
static void release_sent(struct session *s)
{
    if (s->sending == NO_SLOT || frame_conn_bulk_left(&s->conn) > 0)
        return;
    assert(s->busy[s->sending]);
    s->busy[s->sending] = false;
    s->sending = NO_SLOT;
}

/* Put the answer of a remote session, followed by its pixels if there are any. */
static int put_remote_answer(struct session *s, const struct queue_request *request)
{
    int r = put_answer(s, request);

    assert(s->sending == NO_SLOT && request->slot < s->open.slots && s->busy[request->slot]);
    s->busy[request->slot] = false;
    if (r < 0 || request->cancelled || request->done.status < 0)
        return r;
    s->busy[request->slot] = true;
    s->sending = request->slot;
    s->sent_ns = time_now_ns();
    return frame_conn_attach_bulk(&s->conn, ring_slot(s->ring, request->slot), s->layout.end);
}

/* Put the next answers of a remote session, up to the first with pixels, which must be sent before
 * another answer can follow. */
static int put_answers(struct session *s)
{
    struct queue_request *request;
    int r;

    release_sent(s);
    while (s->sending == NO_SLOT && (request = pop_answer(s))) {
        r = put_remote_answer(s, request);
        free(request);
        if (r < 0)
            return r;
    }
    return 0;
}

void session_close_unread(struct session *s)
{
    if (session_may_log(s, LOG_LEVEL_WARN))
        log_about(LOG_LEVEL_WARN, session_about(s, &(struct session_about){0}),
                  "client %s does not read its answers: closed", s->name);
    session_close(s);
}

/* Close a session whose client has received no byte of its pixels for SEND_LIMIT_MS. */
static void on_send_timer(uv_timer_t *timer)
{
    struct session *s = timer->data;

    assert(s->state == STATE_OPEN);
    if (frame_conn_bulk_left(&s->conn) == 0 ||
        time_now_ns() - s->sent_ns <= SEND_LIMIT_MS * NS_PER_MS)
        return;
    if (session_may_log(s, LOG_LEVEL_WARN))
        log_warn("client %s has not read its pixels for %d s: closed", s->name,
                 SEND_LIMIT_MS / 1000);
    session_close(s);
}

void session_watch_sending(struct session *s)
{
    (void)uv_timer_start(&s->timer, on_send_timer, SEND_LIMIT_MS / 10, SEND_LIMIT_MS / 10);
}

/* Put more of the answer to STATUS unless many bytes are waiting to be sent. */
static int put_status(struct session *s)
{
    struct snapshot_viewer viewer = session_viewer(s);
    int r = 1;

    while (s->status && frame_conn_pending(&s->conn) < ANSWERS_PIECE) {
        r = snapshot_put_stream(s->status, &viewer, s->status_request, &s->status_next,
                                &s->conn.tx);
        if (r > 0)
            continue;
        snapshot_unref(s->status);
        s->status = NULL;
    }
    return r < 0 ? r : 0;
}

/* Put and send all waiting answers. Returns 0, -EAGAIN if the socket is full, or -errno. */
static int send_all(struct session *s)
{
    int r;

    do {
        r = put_answers(s);
        if (r < 0)
            return r;
        r = put_status(s);
        if (r < 0)
            return r;
        r = frame_conn_flush(&s->conn);
        if (r < 0)
            return r;
    } while (!list_is_empty(&s->answers) || s->status);
    return r;
}

void session_poll(struct session *s)
{
    bool write = s->more || frame_conn_wants_write(&s->conn);
    int events = (s->more ? 0 : UV_READABLE) | (write ? UV_WRITABLE : 0);

    if (uv_poll_start(&s->poll, events, s->on_poll) < 0)
        session_close(s);
}

void session_flush(struct session *s)
{
    size_t left = frame_conn_bulk_left(&s->conn);
    int r = send_all(s);

    if (left != frame_conn_bulk_left(&s->conn))
        s->sent_ns = time_now_ns();
    if (r < 0 && r != -EAGAIN) {
        session_close(s);
        return;
    }
    if (frame_conn_pending(&s->conn) > TX_PENDING_MAX) {
        session_close_unread(s);
        return;
    }
    session_poll(s);
}

int session_answer(struct session *s, struct queue_request *request)
{
    int r = 0;

    if (s->remote) {
        list_add_last(&s->answers, &request->link);
    } else {
        r = put_answer(s, request);
        free(request);
    }
    return r;
}

/* Returns the unsent answer with this id, or NULL. */
static struct queue_request *find_answer(const struct session *s, uint64_t request)
{
    for (struct list *at = list_first(&s->answers); at; at = list_next(&s->answers, at))
        if (container_of(at, struct queue_request, link)->id == request)
            return container_of(at, struct queue_request, link);
    return NULL;
}

bool session_is_being_sent(const struct session *s, uint64_t request)
{
    return find_answer(s, request) != NULL;
}

void session_forget_answer(struct session *s, uint64_t request)
{
    struct queue_request *answer = find_answer(s, request);

    if (answer)
        answer->cancelled = true;
}

/* Find a free slot for a remote client. Its slot numbers have no meaning here, so any free slot
 * will do. Returns false if the client has more requests in flight than it announced in OPEN. */
bool session_find_room(struct session *s, uint32_t *slot)
{
    assert(s->remote && s->open.slots <= SLOTS_MAX);
    release_sent(s);
    for (*slot = 0; *slot < s->open.slots && s->busy[*slot]; ++*slot)
        ;
    return *slot < s->open.slots;
}
