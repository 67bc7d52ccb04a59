/* SPDX-License-Identifier: MIT */
/* session_frames.c - handles the messages of a client, with one function per message. */
#include "config.h"

#include "loader/serve/session_priv.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/util/text.h"
#include "common/util/error_set.h"
#include "common/util/util.h"
#include "loader/serve/server_priv.h"

enum {
    FRAMES_AT_ONCE = 256, /* frames of one client before other clients get a turn */
};

/* List the pixel definitions that we render, separated by spaces. */
static void list_versions(const struct server *server, char *text, size_t size)
{
    size_t at = 0;

    text[0] = 0;
    for (int i = 0; i < PIPELINE_VERSIONS; i++)
        if (server->renders[i] && at < size)
            at += (size_t)snprintf(text + at, size - at, "%s%s", at ? " " : "",
                                   pipeline_version_name((enum pipeline_version)i));
}

static void handle_hello(struct session *s, uint64_t request, struct frame_reader *payload)
{
    struct wire_hello theirs, ours;
    struct plenum_error err;
    char host[64] = "";
    int r = wire_get_hello(payload, &theirs);

    (void)request;
    if (r < 0 || (r = wire_hello_check(&theirs, &err)) < 0) {
        session_refuse(s, 0, -EPROTONOSUPPORT,
                       r == -EPROTO ? "this is not a Plenum client" : err.text);
        return;
    }
    memcpy(s->name, text_make_plain(theirs.name), sizeof(s->name));
    if (theirs.job[0])
        (void)snprintf(s->job, sizeof(s->job), "job %s", theirs.job);
    (void)gethostname(host, sizeof(host) - 1);
    wire_hello_init(&ours, "");
    (void)snprintf(ours.name, sizeof(ours.name), "plenumd %s, host %s, pid %ld", PACKAGE_VERSION,
                   host, (long)getpid());
    list_versions(s->server, ours.versions, sizeof(ours.versions));
    session_move(s, STATE_IDLE);
    if (wire_put_hello(&s->conn.tx, &ours) < 0)
        session_close(s);
}

/* Track the program's waiting. A session's first request includes the time that the program waited
 * before it turned to this loader, which does not count here. */
static void track_asked(struct session *s, const struct wire_render *m)
{
    if (m->waited_ns == WIRE_UNKNOWN) {
        s->waited_ns = WIRE_UNKNOWN;
    } else if (!s->has_asked) {
        s->waited_ns = m->waited_ns;
        for (unsigned i = 0; i < WINDOW_POINTS; i++)
            s->window.points[i].waited_ns = m->waited_ns;
    } else if (m->waited_ns >= s->waited_ns && s->waited_ns != WIRE_UNKNOWN) {
        histogram_add(&s->server->waits, m->waited_ns - s->waited_ns);
        s->waited_ns = m->waited_ns;
    }
    s->asked = *m;
    s->has_asked = true;
}

static void handle_cancel(struct session *s, uint64_t request, struct frame_reader *payload)
{
    (void)payload;
    session_forget_answer(s, request);
    queue_cancel(s->stream, request);
}

/* Adopt the share of steps that a request names, if it has changed. Returns 0 or -EINVAL. */
static int change_share(struct session *s, const struct wire_render *m, struct plenum_error *err)
{
    struct order_steps steps = s->steps;
    int r;

    if (m->per_step == 0 || (m->per_step == s->open.per_step && m->offset == s->open.offset))
        return 0;
    if (s->open.span)
        return error_set(err, -EINVAL,
                         "the share of steps cannot change in a stream with split = file");
    r = wire_open_check_share(&s->open, m->per_step, m->offset, err);
    if (r < 0)
        return r;
    steps.per_step = m->per_step;
    if (!order_has_steps(&steps))
        return error_set(err, -EINVAL, "an epoch is shorter than one step of %u samples",
                         m->per_step);
    s->steps = steps;
    s->open.per_step = m->per_step;
    s->open.offset = m->offset;
    return 0;
}

static void handle_render(struct session *s, uint64_t request, struct frame_reader *payload)
{
    struct plenum_error err;
    struct wire_render m;

    if (wire_get_render(payload, &m) < 0 || m.slot >= s->open.slots ||
        (s->remote && !session_find_room(s, &m.slot)) ||
        m.position >= max_u64(order_positions(&s->spec.order), s->open.span) ||
        m.epoch > UINT32_MAX) {
        session_refuse(s, request, -EPROTO, "a batch that does not exist was requested");
        return;
    }
    if (queue_stream_has(s->stream, request, m.slot) || session_is_being_sent(s, request)) {
        session_refuse(s, request, -EPROTO, "a slot that is still being filled was requested");
        return;
    }
    if (s->draining) /* the client will request it from the next loader */
        return;
    if (ring_check(s->ring, &err) < 0) {
        session_refuse(s, request, -EPERM, err.text);
        return;
    }
    if (change_share(s, &m, &err) < 0) {
        session_refuse(s, request, -EPROTO, err.text);
        return;
    }
    track_asked(s, &m);
    if (queue_submit(s->stream, request, &m,
                     &(struct order_share){
                         .steps = s->steps, .deal = s->open.deal, .offset = s->open.offset}) < 0) {
        session_refuse(s, request, -ENOMEM, "the loader is out of memory");
        return;
    }
    assert(!s->busy[m.slot]);
    s->busy[m.slot] = s->remote;
    s->under_way++;
}

static void handle_stats(struct session *s, uint64_t request, struct frame_reader *payload)
{
    const struct server *server = s->server;
    struct queue_counters c;

    (void)payload;
    queue_get_counters(server->queue, &c);
    (void)wire_put_stats(&s->conn.tx, request,
                         &(struct wire_stats){.uptime_ns = time_now_ns() - server->started_ns,
                                              .sessions = server->num_sessions,
                                              .samples = c.all.samples,
                                              .substituted = c.all.substituted,
                                              .queued = c.queued,
                                              .ring_bytes = server->ring_bytes,
                                              .threads = server->threads});
}

static void handle_status(struct session *s, uint64_t request, struct frame_reader *payload)
{
    struct snapshot_viewer viewer = session_viewer(s);

    (void)payload;
    s->status = snapshot_get(s->server);
    s->status_next = 0;
    s->status_request = request;
    s->status_ns = time_now_ns();
    if (!s->status || snapshot_put_loader(s->status, &viewer, request, &s->conn.tx) < 0)
        session_close(s);
}

static void handle_name(struct session *s, uint64_t request, struct frame_reader *payload)
{
    struct wire_ask_name m;
    struct wire_name answer;

    if (wire_get_ask_name(payload, &m) < 0) {
        session_refuse(s, request, -EPROTO, "a request for a name was not understood");
        return;
    }
    answer.text[0] = '\0'; /* in case the number does not exist */
    if (m.of == WIRE_NAMED_CLASS)
        (void)snprintf(answer.text, sizeof(answer.text), "%s",
                       dataset_get_class_name(s->spec.dataset, m.number));
    else if (m.number < dataset_get_samples(s->spec.dataset))
        (void)dataset_get_sample_name(s->spec.dataset, m.number, answer.text, sizeof(answer.text));
    if (wire_put_name(&s->conn.tx, request, &answer) < 0)
        session_close(s);
}

static void handle_bye(struct session *s, uint64_t request, struct frame_reader *payload)
{
    (void)request;
    (void)payload;
    session_close(s);
}

/* The messages of a client, the states in which each is allowed, and its handler. */
#define IN(state) (1U << (state))
static const struct {
    unsigned states;
    void (*handle)(struct session *s, uint64_t request, struct frame_reader *payload);
} messages[] = {
    [WIRE_HELLO] = {IN(STATE_HELLO), handle_hello},
    [WIRE_FIELDS] = {IN(STATE_IDLE), session_handle_fields},
    [WIRE_OPEN] = {IN(STATE_IDLE), session_handle_open},
    [WIRE_RENDER] = {IN(STATE_OPEN), handle_render},
    [WIRE_CANCEL] = {IN(STATE_OPEN), handle_cancel},
    [WIRE_NAME] = {IN(STATE_OPEN), handle_name},
    [WIRE_STATS] = {IN(STATE_IDLE) | IN(STATE_OPENING) | IN(STATE_OPEN), handle_stats},
    [WIRE_STATUS] = {IN(STATE_IDLE) | IN(STATE_OPENING) | IN(STATE_OPEN), handle_status},
    [WIRE_BYE] = {~0U, handle_bye},
};

static void handle_frame(struct session *s, const struct frame_header *h,
                         struct frame_reader *payload)
{
    assert(s->state != STATE_CLOSING);
    if (h->type < ARRAY_LEN(messages) && (messages[h->type].states & IN(s->state)))
        messages[h->type].handle(s, h->request, payload);
    else
        session_refuse(s, h->request, -EPROTO, "an unexpected message arrived");
}

/* Handle frames that have arrived, a limited number at once, so that other clients get a turn. A
 * client that does not read its answers is not served until it does. Frames after a STATUS wait
 * until that is answered. */
static void handle_frames(struct session *s)
{
    struct frame_header header;
    struct frame_reader payload;
    int r = 1;

    s->more = false;
    for (unsigned n = 0; r > 0 && s->state != STATE_CLOSING; n++) {
        if (n == FRAMES_AT_ONCE || s->status || frame_conn_pending(&s->conn) >= ANSWERS_PIECE) {
            s->more = true;
            return;
        }
        r = frame_conn_next(&s->conn, &header, &payload);
        if (r < 0)
            session_refuse(s, 0, -EPROTO, "a malformed frame arrived");
        else if (r > 0)
            handle_frame(s, &header, &payload);
    }
}

void session_readable(struct session *s)
{
    int64_t n;

    if (s->more) {
        handle_frames(s);
        return;
    }
    if (blocking_is_stuck(s->server->blocking, s->peer.uid)) {
        session_refuse(s, 0, -EPROTO,
                       "file descriptors that its user sent have not been closed yet");
        return;
    }
    n = frame_conn_fill(&s->conn);
    if (n < 0) {
        if (n == -EACCES && s->conn.carrier)
            session_refuse_unauthenticated(s);
        else if (n == -ENOMEM)
            session_log_once(s, LOG_LEVEL_WARN, "closed", "the loader is out of memory");
        else if (n != -EAGAIN && s->remote && s->state == STATE_HELLO)
            session_log_once(s, LOG_LEVEL_INFO, "gone", "it has not identified itself");
        if (n != -EAGAIN)
            session_close(s);
        return;
    }
    if (s->conn.unwanted_fds > 0)
        session_refuse(s, 0, -EPROTO, "it sent a file descriptor that was not requested");
    else
        handle_frames(s);
}
