/* SPDX-License-Identifier: MIT */
/* session_send.c - what a client is sent: answers, and a status.
 *
 * A remote session (TCP) has no ring of its client's. It renders into memory of its own, and what
 * is done waits in `answers` until those before it are sent, each DONE with its pixels behind it. A
 * slot is in use until its last byte is sent; so a client that does not read stops itself, and when
 * it goes on for SEND_LIMIT it is closed, since its memory is ours. */
#include "config.h"

#include "loader/serve/session_priv.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "common/util.h"
#include "loader/serve/snapshot.h"

enum {
    TX_PENDING_MAX = 1 << 20, /* of answers that a client does not read */
};

static struct queue_request *pop_answer(struct session *s)
{
    struct list *first = list_pop_first(&s->answers);

    return first ? container_of(first, struct queue_request, link) : NULL;
}

void session_drop_answers(struct session *s)
{
    struct queue_request *request;

    while ((request = pop_answer(s)))
        free(request);
}

static int put_answer(struct session *s, const struct queue_request *request)
{
    if (request->cancelled)
        return wire_put_empty(&s->conn.tx, WIRE_CANCELLED, request->id);
    if (request->done.status < 0)
        log_about(LOG_LEVEL_WARN, session_about(s, &(struct session_about){0}), "client %s: %s",
                  s->name, request->done.text);
    return wire_put_done(&s->conn.tx, request->id, &request->done);
}

/* The slot whose last byte is sent is free. */
static void release_sent(struct session *s)
{
    if (s->sending == NO_SLOT || frame_conn_bulk_left(&s->conn) > 0)
        return;
    s->busy[s->sending] = false;
    s->sending = NO_SLOT;
}

/* The next answers of a remote session, up to one with pixels: these must be sent before another
 * can follow. */
static int put_answers(struct session *s)
{
    struct queue_request *request;
    int r = 0;

    release_sent(s);
    while (r == 0 && s->sending == NO_SLOT && (request = pop_answer(s))) {
        r = put_answer(s, request);
        assert(request->slot < s->open.slots);
        s->busy[request->slot] = false;
        if (r == 0 && !request->cancelled && request->done.status == 0) {
            s->busy[request->slot] = true;
            s->sending = request->slot;
            s->sent_ns = time_now_ns();
            r = frame_conn_attach_bulk(&s->conn, ring_slot(s->ring, request->slot),
                                       wire_batch_bytes(&s->open, &s->layout));
        }
        free(request);
    }
    return r;
}

void session_close_unread(struct session *s)
{
    log_about(LOG_LEVEL_WARN, session_about(s, &(struct session_about){0}),
              "client %s does not read its answers: closed", s->name);
    session_close(s);
}

/* More of an answer to STATUS, once little is left of what was put before. */
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

/* Send what waits; on the loop's next turn if the socket is full. */
void session_flush(struct session *s)
{
    size_t left = frame_conn_bulk_left(&s->conn);
    int r;

    do {
        r = put_answers(s);
        if (r == 0)
            r = put_status(s);
        if (r == 0)
            r = frame_conn_flush(&s->conn);
    } while (r == 0 && (!list_is_empty(&s->answers) || s->status));
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

/* The answer that is not sent yet and has this id, or NULL. */
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

/* A remote client's slots are its own affair: ours is any that is free. False when it has asked for
 * more batches at a time than it said that it would. */
bool session_find_room(struct session *s, uint32_t *slot)
{
    release_sent(s);
    for (*slot = 0; *slot < s->open.slots && s->busy[*slot]; ++*slot)
        ;
    return *slot < s->open.slots;
}
