/* SPDX-License-Identifier: MIT */
/* session.c - one client's connection, from HELLO to the last task.
 *
 *     HELLO --hello--> IDLE --OPEN--> OPENING --index ready--> OPEN --RENDER, DONE ...
 *                                        |                       |
 *                  end of file, BYE, nonsense, an error: CLOSING: cancel, wait for tasks, free
 *
 * A session that drains passes over requests for batches; when those that were under way are
 * answered, the client is told (-ECANCELED) and the session closed. The client asks the next loader
 * for what was passed over. Neither side needs more of the protocol for that than for a crash.
 *
 * OPEN may take minutes (an index of millions of files): openings.c has threads for it, while the
 * session answers STATS and sends PROGRESS.
 *
 * A remote session (TCP) has no ring of its client's. It renders into memory of its own, and what
 * is done waits in `answers` until those before it are sent, each DONE with its pixels behind it. A
 * slot is in use until its last byte is sent; so a client that does not read stops itself, and when
 * it goes on for SEND_LIMIT it is closed, since its memory is ours.
 *
 * Memory is freed in one place only, maybe_free(), when nothing refers to the session any more: no
 * task that writes into its ring, no libuv handle.
 *
 * libuv has no documented way to receive a memfd on a pipe; so the descriptor is watched with
 * uv_poll, and common/frame.c does the reading and writing. */
#include "config.h"

#include "loader/serve/session.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/address.h"
#include "common/error.h"
#include "common/frame.h"
#include "common/log.h"
#include "common/text.h"
#include "common/util.h"
#include "loader/dataset/cache.h"
#include "loader/dataset/notes.h"
#include "loader/serve/monitor.h"
#include "loader/serve/room.h"
#include "loader/serve/snapshot.h"

enum {
    HELLO_LIMIT_MS = 10000, /* for HELLO and OPEN to come */
    PROGRESS_EVERY_MS = 500,
    TX_PENDING_MAX = 1 << 20, /* of answers that a client does not read */
    ANSWERS_PIECE = 64 << 10, /* of answers that wait: then no more are made */
    STATUS_LIMIT_MS = 10000,  /* for a client to read it */
    SEND_LIMIT_MS = 60000,    /* for a remote client to take some of its pixels */
    SLOTS_MAX = 4096,         /* as wire_open_check() has it */
    FRAMES_AT_ONCE = 256,     /* of one client, before others have their turn */
    ROOM_LIMIT_MS = 10000,    /* for an OPEN to wait for room that is about to be there */
    ROOM_EVERY_MS = 100,
    ROOM_TURN_MS = 20, /* from one OPEN that waits to the next: each looks at all sessions */
    HEARD_MS = 1500,  /* who was heard of so lately is there */
    SILENT_MS = 5000, /* who was asked, and is not heard of for so long, is not */
};

#define NO_SLOT UINT32_MAX

static const uint64_t silent_enough_ns = NS_PER_SEC;

enum state { STATE_HELLO, STATE_IDLE, STATE_OPENING, STATE_OPEN, STATE_CLOSING };

struct session {
    struct server *server;
    struct session *prev, *next;
    struct frame_conn conn;
    char name[WIRE_NAME_MAX];     /* the client's own word for itself */
    char user[160];               /* who that is, or whose host: as all that is shared goes by */
    char job[WIRE_NAME_MAX + 24]; /* the client's word: whose streams share the user's turns */
    struct peer peer;
    enum state state;
    uint64_t id;
    bool remote;
    bool more; /* has sent more than was looked at in this turn */

    /* libuv's; memory lives until all of them are closed. */
    uv_poll_t poll;
    uv_timer_t timer;
    unsigned handles; /* open ones */

    /* The stream. */
    uint64_t open_request;
    struct wire_open open;
    struct render_spec spec;
    struct ring *ring;
    uint64_t ring_bytes; /* counted in server->ring_bytes */
    int ring_fd;         /* the client's, until there is room for it; or -1 */
    uint64_t room_ns;    /* since when it waits for that; 0: it does not */
    struct queue_stream *stream;
    uint64_t opened_ns;
    struct wire_render asked; /* the last request */
    bool has_asked;
    uint64_t waited_ns; /* what the client told last */
    struct window window;
    unsigned under_way; /* requests submitted and not yet finished */
    bool draining;      /* the loader is about to end */
    bool told;          /* and the client has been told */

    /* A STATUS that is being answered, as fast as the client reads. */
    struct snapshot *status; /* or NULL */
    size_t status_next;
    uint64_t status_request, status_ns;

    /* Of a remote one: finished requests that wait to be sent, oldest first. */
    struct queue_request *answers, *last_answer;
    uint32_t sending;     /* the slot whose pixels are on their way, or NO_SLOT */
    bool busy[SLOTS_MAX]; /* slots from RENDER to the last byte sent */
    uint64_t sent_ns;     /* when some of it was taken last */
    uint64_t asked_ns;    /* since when it is being asked whether it is there; 0: it is not */
    uint64_t looked_ns;   /* when session_ask_if_there() looked last, */
    bool may_end;         /* and what it found */

    struct opening_waiter waiter; /* in STATE_OPENING */
    bool kept_out;                /* there are roots that are not this client's */
    struct dataset *dataset;
};

static void session_poll(struct session *s);
static void on_timer(uv_timer_t *timer);
static void await_room(struct session *s);
static void on_dataset_open(struct opening_waiter *waiter, struct dataset *dataset, int code,
                            const struct plenum_error *why);

static struct queue_request *take_answer(struct session *s)
{
    struct queue_request *r = s->answers;

    s->answers = r->link;
    if (!s->answers)
        s->last_answer = NULL;
    r->link = NULL;
    return r;
}

/* Descriptors that a client had a hand in are not closed by the loop. */
static void close_fd(void *arg, int fd)
{
    const struct session *s = arg;

    if (fd == s->conn.fd)
        chores_close_connection(s->server->chores, s->peer.uid, fd);
    else
        chores_close_fd(s->server->chores, s->peer.uid, fd);
}

/* Close one that a client has sent. */
static void drop_fd(struct session *s, int fd)
{
    if (fd >= 0)
        close_fd(s, fd);
}

/* The last to let a ring go frees its memory, which takes a while: the descriptor goes last. */
static void drop_ring(struct session *s)
{
    int fd = s->ring ? s->ring->fd : -1;

    if (s->ring)
        s->ring->fd = -1;
    ring_unref(s->ring);
    drop_fd(s, fd);
    drop_fd(s, s->ring_fd);
}

static void maybe_free(struct session *s)
{
    struct server *server = s->server;

    if (s->handles > 0 || s->under_way > 0)
        return;
    while (s->answers)
        free(take_answer(s));
    queue_stream_close(s->stream);
    drop_ring(s);
    server->ring_bytes -= s->ring_bytes;
    openings_release(server->chores, s->user, s->dataset);
    snapshot_unref(s->status);
    frame_conn_fini(&s->conn);
    peer_fini(&s->peer);
    if (s->prev)
        s->prev->next = s->next;
    else
        server->sessions = s->next;
    if (s->next)
        s->next->prev = s->prev;
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

static void wait_for_room(struct session *s)
{
    s->room_ns = time_now_ns();
    s->server->waiting_for_room++;
}

static void wait_no_longer(struct session *s)
{
    s->server->waiting_for_room -= s->room_ns > 0;
    s->room_ns = 0;
}

void session_close(struct session *session)
{
    if (session->state == STATE_CLOSING)
        return;
    session->state = STATE_CLOSING;
    wait_no_longer(session);
    openings_leave(&session->waiter);
    if (session->stream)
        queue_cancel_all(session->stream);
    uv_close((uv_handle_t *)&session->poll, on_handle_closed);
    uv_close((uv_handle_t *)&session->timer, on_handle_closed);
    frame_conn_hang_up(&session->conn); /* the client sees at once that it is over */
}

/* What messages about a session carry besides their text. */
struct about {
    struct log_field fields[5];
    char user[12], pid[12];
};

static const struct log_field *about(const struct session *s, struct about *a)
{
    (void)snprintf(a->user, sizeof(a->user), "%u", (unsigned)s->peer.uid);
    (void)snprintf(a->pid, sizeof(a->pid), "%d", (int)s->peer.pid);
    a->fields[0] = (struct log_field){"client", s->name};
    a->fields[1] = (struct log_field){"client_uid", a->user};
    a->fields[2] = (struct log_field){"client_pid", a->pid};
    if (s->open.dataset[0])
        a->fields[3] = (struct log_field){"dataset", s->open.dataset};
    return a->fields;
}

/* Bytes of a batch that are sent: all of its slot but what fills up the last page. */
static size_t batch_bytes(const struct session *s)
{
    struct wire_slot layout = {0};

    (void)wire_slot_init(&s->open, &layout);
    return wire_batch_bytes(&s->open, &layout);
}

static int put_answer(struct session *s, const struct queue_request *request)
{
    if (request->cancelled)
        return wire_put_empty(&s->conn.tx, WIRE_CANCELLED, request->id);
    if (request->done.status < 0)
        log_about(LOG_LEVEL_WARN, about(s, &(struct about){0}), "client %s: %s", s->name,
                  request->done.text);
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
    int r = 0;

    release_sent(s);
    while (r == 0 && s->answers && s->sending == NO_SLOT) {
        struct queue_request *request = take_answer(s);

        r = put_answer(s, request);
        s->busy[request->slot] = false;
        if (r == 0 && !request->cancelled && request->done.status == 0) {
            s->busy[request->slot] = true;
            s->sending = request->slot;
            s->sent_ns = time_now_ns();
            r = frame_conn_attach_bulk(&s->conn, ring_slot(s->ring, request->slot), batch_bytes(s));
        }
        free(request);
    }
    return r;
}

static void close_unread(struct session *s)
{
    log_about(LOG_LEVEL_WARN, about(s, &(struct about){0}),
              "client %s does not read its answers: closed", s->name);
    session_close(s);
}

/* Root and the loader's own user see all streams; others their own. */
static struct snapshot_viewer viewer_of(const struct session *s)
{
    return (struct snapshot_viewer){
        .all = s->peer.known && (s->peer.uid == 0 || s->peer.uid == geteuid()),
        .known = s->peer.known,
        .uid = s->peer.uid,
        .id = s->id};
}

/* More of an answer to STATUS, once little is left of what was put before. */
static int put_status(struct session *s)
{
    struct snapshot_viewer viewer = viewer_of(s);
    int r = 1;

    while (s->status && frame_conn_pending(&s->conn) < ANSWERS_PIECE) {
        r = snapshot_put_stream(s->status, &viewer, s->status_request, &s->status_next, &s->conn.tx);
        if (r > 0)
            continue;
        snapshot_unref(s->status);
        s->status = NULL;
    }
    return r < 0 ? r : 0;
}

/* Send what waits; on the loop's next turn if the socket is full. */
static void session_flush(struct session *s)
{
    size_t left = frame_conn_bulk_left(&s->conn);
    int r;

    do {
        r = put_answers(s);
        if (r == 0)
            r = put_status(s);
        if (r == 0)
            r = frame_conn_flush(&s->conn);
    } while (r == 0 && (s->answers || s->status));
    if (left != frame_conn_bulk_left(&s->conn))
        s->sent_ns = time_now_ns();
    if (r < 0 && r != -EAGAIN) {
        session_close(s);
        return;
    }
    if (frame_conn_pending(&s->conn) > TX_PENDING_MAX) {
        close_unread(s);
        return;
    }
    session_poll(s);
}

/* Who that is, for people: "job 17 instance 3 (pid 4711)", or "(tcp:10.0.0.7:40000)" behind it. */
static const char *describe(const struct session *s, char *text, size_t size)
{
    char address[128];

    if (!s->remote)
        (void)snprintf(text, size, "%s (pid %d)", s->name, (int)s->peer.pid);
    else if (s->state == STATE_HELLO) /* it has no name but its address */
        (void)snprintf(text, size, "%s", s->name);
    else
        (void)snprintf(text, size, "%s (%s)", s->name,
                       address_of_socket(s->conn.fd, true, address, sizeof(address)));
    return text;
}

/* Say in the log what became of a client ("refused"), once a minute for all of its user, or of its
 * host. */
static void log_once(struct session *s, enum log_level level, const char *what, const char *why)
{
    char who[WIRE_NAME_MAX + 150], times[64] = "";
    uint32_t untold;

    switch (refusals_add(&s->server->refusals, s->user, why, time_now_ns(), &untold)) {
    case REFUSALS_SILENT:
        log_debug("client %s: %s again: %s", describe(s, who, sizeof(who)), what, why);
        return;
    case REFUSALS_CROWD:
        log_warn("clients are refused for more reasons than are named in a minute");
        return;
    case REFUSALS_SAY:
        break;
    }
    if (untold > 0)
        (void)snprintf(times, sizeof(times), " (and %u times since that was said last)", untold);
    log_about(level, about(s, &(struct about){0}), "client %s: %s: %s%s",
              describe(s, who, sizeof(who)), what, why, times);
}

/* Tell the client why, and close. */
static void refuse(struct session *s, uint64_t request, int code, const char *text)
{
    struct wire_error m = {.code = code};

    s->server->refused += code != -ECANCELED && code != -ETIMEDOUT;
    strncpy(m.text, text, sizeof(m.text) - 1);
    if (code == -ECANCELED)
        log_debug("client %s: sent away", s->name);
    else
        log_once(s, LOG_LEVEL_INFO, "refused", text);
    if (wire_put_error(&s->conn.tx, request, &m) == 0)
        (void)frame_conn_flush(&s->conn);
    session_close(s);
}

static const char ending_text[] = "is being stopped or restarted";

/* A session that drains and has answered all: tell the client, and close when that is sent. */
static void maybe_leave(struct session *s)
{
    struct wire_error m = {.code = -ECANCELED};

    if (!s->draining || s->state != STATE_OPEN || s->under_way > 0 || s->answers)
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
        refuse(s, s->open_request, -ECANCELED, ending_text);
}

/* The names of the definitions of pixels that we render, with spaces between them. */
static void list_versions(const struct server *server, char *text, size_t size)
{
    size_t at = 0;

    text[0] = 0;
    for (int i = 0; i < PIPELINE_VERSIONS; i++)
        if (server->renders[i] && at < size)
            at += (size_t)snprintf(text + at, size - at, "%s%s", at ? " " : "",
                                   pipeline_version_name((enum pipeline_version)i));
}

static void handle_hello(struct session *s, struct frame_reader *payload)
{
    struct wire_hello theirs, ours;
    struct plenum_error err;
    char host[64] = "";
    int r = wire_get_hello(payload, &theirs);

    if (r < 0 || (r = wire_hello_check(&theirs, &err)) < 0) {
        refuse(s, 0, -EPROTONOSUPPORT, r == -EPROTO ? "this is no client of Plenum's" : err.text);
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
    s->state = STATE_IDLE;
    if (wire_put_hello(&s->conn.tx, &ours) < 0)
        session_close(s);
}

static const char *name_peer(const struct session *s, char *text, size_t size)
{
    if (!s->peer.known)
        return "a client over TCP";
    (void)snprintf(text, size, "user %u", (unsigned)s->peer.uid);
    return text;
}

/* Have the data set opened, below the roots that are this client's. */
static int ask_for_dataset(struct session *s, struct plenum_error *err)
{
    struct opening_request request = {
        .dataset = s->open.dataset, .user = s->user, .roots = s->server->roots};
    unsigned count = roots_count(request.roots);
    char who[32];

    request.allowed = calloc(count + 1, sizeof(*request.allowed));
    if (!request.allowed)
        return error_set(err, -ENOMEM, "the loader is out of memory");
    request.num_allowed = roots_for(request.roots, &s->peer, request.allowed);
    s->kept_out = request.num_allowed < count;
    if (count > 0 && request.num_allowed == 0) {
        free(request.allowed);
        return error_set(err, -EACCES,
                         "all roots of this loader are for certain readers, and %s is none of "
                         "them: whoever runs it names readers in plenumd.conf",
                         name_peer(s, who, sizeof(who)));
    }
    s->waiter.done = on_dataset_open;
    return openings_ask(s->server->openings, &request, &s->waiter) < 0
               ? error_set(err, -ENOMEM, "the loader is out of memory")
               : 0;
}

static int start_stream(struct session *s, struct plenum_error *err)
{
    struct order_steps steps;
    int r = wire_order(&s->open, dataset_get_samples(s->dataset), &s->spec.order, &steps, err);

    if (r < 0)
        return error_prefix(err, r, "%s", dataset_get_name(s->dataset));
    if (order_steps_left(&steps, (struct order_place){0}) == 0)
        return error_set(err, -EINVAL,
                         "%s has %u samples, fewer than the %u of one step: with last=drop no step "
                         "is left; use last=pad",
                         dataset_get_name(s->dataset), steps.n, s->open.per_step);
    s->spec.dataset = s->dataset;
    s->spec.store = (struct image_store){
        .dtype = s->open.dtype, .layout = s->open.layout, .channels = s->open.channels};
    s->spec.bad = s->open.bad;
    s->spec.jpeg = s->server->options->jpeg;
    r = queue_stream_open(
        s->server->queue,
        &(struct queue_stream_options){
            .user = s->user,
            .job = s->job,
            .spec = &s->spec,
            .open = &s->open,
            .ring = s->ring,
            .lane = s->remote
                        ? (unsigned)s->id /* its memory is nowhere yet: in turn */
                        : pin_lane_of_memory(s->server->pin, s->ring->base, s->ring->bytes),
            .owner = s},
        &s->stream);
    return r < 0 ? error_set(err, r, "the loader is out of memory") : 0;
}

/* Why nothing gets quicker from the second epoch on, for who wonders. */
static void tell_about_notes(const struct session *s)
{
    int code = dataset_get_notes_code(s->dataset);
    struct notes *notes = dataset_get_notes(s->dataset);

    if (notes)
        code = notes_state(notes);
    if (code < 0 && code != -EFBIG)
        log_debug("%s: where tiles of JPEGs begin cannot be noted (%s); nothing is wrong with that",
                  dataset_get_name(s->dataset), strerror(-code));
}

/* It is found again at each opening, which takes minutes where there are millions of files. */
static void tell_about_index(const struct session *s)
{
    char folder[4096] = "";

    if (dataset_get_index_path(s->dataset) || dataset_is_made_up(s->dataset))
        return;
    (void)cache_folder(s->server->options->cache_dir, folder, sizeof(folder));
    log_about(
        LOG_LEVEL_WARN, about(s, &(struct about){0}),
        "%s: its index cannot be kept in the cache folder %s and is made anew at each opening: is "
        "it full, or may it not be written? PLENUM_CACHE_DIR or --cache-dir names another",
        dataset_get_name(s->dataset), folder[0] ? folder : "(none: there is no HOME)");
}

static void on_dataset_open(struct opening_waiter *waiter, struct dataset *dataset, int code,
                            const struct plenum_error *why)
{
    struct session *s = container_of(waiter, struct session, waiter);
    struct wire_opened m = {0};
    char who[WIRE_NAME_MAX + 150], text[sizeof(why->text)];
    struct plenum_error err = {.text = ""};

    s->dataset = dataset;
    (void)uv_timer_stop(&s->timer);
    if (code == -EACCES && s->kept_out) {
        memcpy(text, why->text, sizeof(text));
        (void)error_set(&err, code,
                        "%s; there are roots for certain readers, and %s is none of them", text,
                        name_peer(s, who, sizeof(who)));
        why = &err;
    }
    if (code == 0) {
        code = start_stream(s, &err);
        why = &err;
    }
    if (code < 0) {
        refuse(s, s->open_request, code, why->text);
        return;
    }
    m.samples = dataset_get_samples(s->dataset);
    m.classes = dataset_get_classes(s->dataset);
    m.class_names = dataset_get_class_names(s->dataset);
    (void)snprintf(m.warning, sizeof(m.warning), "%s", dataset_get_warning(s->dataset));
    m.threads = s->server->threads;
    m.io_threads = s->server->io_threads;
    memcpy(m.fingerprint, dataset_get_fingerprint(s->dataset), sizeof(m.fingerprint));
    m.sum = *dataset_get_sum(s->dataset);
    s->state = STATE_OPEN;
    snapshot_forget(s->server);
    tell_about_index(s);
    tell_about_notes(s);
    s->opened_ns = time_now_ns();
    session_beat(s, s->opened_ns);
    log_about(LOG_LEVEL_INFO, about(s, &(struct about){0}),
              "client %s: %s, %u samples, '%s', batches of %llu", describe(s, who, sizeof(who)),
              dataset_get_name(s->dataset), m.samples, s->spec.pipeline.text,
              (unsigned long long)wire_batch_count(&s->open));
    if (s->remote)
        (void)uv_timer_start(&s->timer, on_timer, SEND_LIMIT_MS / 10, SEND_LIMIT_MS / 10);
    if (wire_put_opened(&s->conn.tx, s->open_request, &m) < 0)
        session_close(s);
    else
        session_flush(s);
}

static void on_timer(uv_timer_t *timer)
{
    struct session *s = timer->data;
    struct wire_progress progress;

    if (s->state == STATE_HELLO || s->state == STATE_IDLE) {
        refuse(s, 0, -ETIMEDOUT, "no stream was opened within ten seconds");
        return;
    }
    if (s->state == STATE_OPEN) {
        if (frame_conn_bulk_left(&s->conn) > 0 &&
            time_now_ns() - s->sent_ns > SEND_LIMIT_MS * NS_PER_MS) {
            log_warn("client %s has not taken its pixels for %d s: closed", s->name,
                     SEND_LIMIT_MS / 1000);
            session_close(s);
        }
        return;
    }
    if (s->room_ns > 0) {
        await_room(s);
        return;
    }
    if (s->state == STATE_OPENING && openings_get_progress(&s->waiter, &progress)) {
        (void)wire_put_progress(&s->conn.tx, s->open_request, &progress);
        session_flush(s);
    }
}

/* Pixels and order of an OPEN; its ring and the data set come later. */
static int check_open(struct session *s, struct plenum_error *err)
{
    struct server *server = s->server;
    int r = wire_open_check(&s->open, err);

    if (r == 0)
        r = pipeline_parse(s->open.pipeline, &s->spec.pipeline, err);
    if (r == 0 && !server->renders[s->spec.pipeline.version])
        r = error_set(err, -EPROTONOSUPPORT, "this loader does not render pixels of '%s'",
                      pipeline_version_name(s->spec.pipeline.version));
    if (r == 0 && s->spec.pipeline.side != s->open.side)
        r = error_set(err, -EINVAL, "the pipeline makes images of %u pixels a side, not %u",
                      s->spec.pipeline.side, s->open.side);
    if (r == 0 && s->ring_fd < 0 && !s->remote)
        r = error_set(err, -EINVAL, "no ring came with the request to open a stream");
    return r;
}

static int take_ring(struct session *s, struct plenum_error *err)
{
    uint64_t bytes = s->open.slots * s->open.slot_bytes;
    int fd = s->ring_fd, r = room_for_ring(s->server, s->user, bytes, err);

    if (r < 0)
        return r;
    s->ring_fd = -1;
    r = s->remote ? ring_create_private(s->open.slots, s->open.slot_bytes, &s->ring, err)
                  : ring_accept(fd, s->open.slots, s->open.slot_bytes, &s->ring, err);
    if (r < 0) {
        drop_fd(s, fd);
        return r;
    }
    s->ring_bytes = bytes;
    s->server->ring_bytes += bytes;
    return 0;
}

static void handle_open(struct session *s, uint64_t request, struct frame_reader *payload)
{
    struct plenum_error err;
    int r;

    s->ring_fd = frame_conn_take_fd(&s->conn);
    s->open_request = request;
    if (wire_get_open(payload, &s->open) < 0) {
        refuse(s, request, -EPROTO, "a request to open a stream was not understood");
        return;
    }
    r = check_open(s, &err);
    if (r < 0) {
        refuse(s, request, r, err.text);
        return;
    }
    s->state = STATE_OPENING;
    wait_for_room(s);
    await_room(s);
}

/* There is a ring: have the data set opened. */
static void begin_opening(struct session *s)
{
    uint64_t request = s->open_request;
    struct plenum_error err;
    int r = ask_for_dataset(s, &err);

    if (r < 0) {
        refuse(s, request, r, err.text);
        return;
    }
    (void)uv_timer_start(&s->timer, on_timer, PROGRESS_EVERY_MS, PROGRESS_EVERY_MS);
}

/* Take room for the ring, or wait for what its user is about to give back: a client that comes again
 * is here before its last session has ended. The more wait, the more seldom each looks. */
static void await_room(struct session *s)
{
    struct plenum_error err;
    int r = take_ring(s, &err);

    if (r == -ENOSPC && time_now_ns() < s->room_ns + ROOM_LIMIT_MS * NS_PER_MS &&
        room_is_coming(s->server, s->user)) {
        (void)uv_timer_start(&s->timer, on_timer,
                             ROOM_EVERY_MS + s->server->waiting_for_room * (uint64_t)ROOM_TURN_MS, 0);
        return;
    }
    wait_no_longer(s);
    if (r < 0)
        refuse(s, s->open_request, r, err.text);
    else
        begin_opening(s);
}

/* The first request of a session tells how long the program waited while it had other loaders, or
 * none: from then on we count. */
static void note_asked(struct session *s, const struct wire_render *m)
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

/* Does an answer that is not sent yet use this id? */
static bool is_being_sent(const struct session *s, uint64_t request)
{
    const struct queue_request *r;

    for (r = s->answers; r && r->id != request; r = r->link)
        ;
    return r;
}

/* A remote client's slots are its own affair: ours is any that is free. False when it has asked for
 * more batches at a time than it said that it would. */
static bool find_room(struct session *s, uint32_t *slot)
{
    release_sent(s);
    for (*slot = 0; *slot < s->open.slots && s->busy[*slot]; ++*slot)
        ;
    return *slot < s->open.slots;
}

/* What is done but not sent yet need not be sent. */
static void handle_cancel(struct session *s, uint64_t request)
{
    for (struct queue_request *r = s->answers; r; r = r->link)
        if (r->id == request)
            r->cancelled = true;
    queue_cancel(s->stream, request);
}

static void handle_render(struct session *s, uint64_t request, struct frame_reader *payload)
{
    struct plenum_error err;
    struct wire_render m;

    if (wire_get_render(payload, &m) < 0 || m.slot >= s->open.slots ||
        (s->remote && !find_room(s, &m.slot)) ||
        m.position >= max_u64(order_positions(&s->spec.order), s->open.span) ||
        m.epoch > UINT32_MAX) {
        refuse(s, request, -EPROTO, "a batch was asked for that does not exist");
        return;
    }
    if (queue_stream_has(s->stream, request, m.slot) || is_being_sent(s, request)) {
        refuse(s, request, -EPROTO, "a slot was asked for that is still being filled");
        return;
    }
    if (s->draining) /* the next loader will be asked for it */
        return;
    if (ring_check(s->ring, &err) < 0) {
        refuse(s, request, -EPERM, err.text);
        return;
    }
    note_asked(s, &m);
    if (queue_submit(s->stream, request, &m) < 0) {
        refuse(s, request, -ENOMEM, "the loader is out of memory");
        return;
    }
    s->busy[m.slot] = s->remote;
    s->under_way++;
}

static void handle_stats(struct session *s, uint64_t request)
{
    const struct server *server = s->server;
    struct queue_counters c;

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

static void handle_status(struct session *s, uint64_t request)
{
    struct snapshot_viewer viewer = viewer_of(s);

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
        refuse(s, request, -EPROTO, "a request for a name was not understood");
        return;
    }
    answer.text[0] = '\0'; /* of what does not exist */
    if (m.of == WIRE_NAMED_CLASS)
        (void)snprintf(answer.text, sizeof(answer.text), "%s",
                       dataset_get_class_name(s->spec.dataset, m.number));
    else if (m.number < dataset_get_samples(s->spec.dataset))
        (void)dataset_get_sample_name(s->spec.dataset, m.number, answer.text, sizeof(answer.text));
    if (wire_put_name(&s->conn.tx, request, &answer) < 0)
        session_close(s);
}

static void handle_frame(struct session *s, const struct frame_header *h,
                         struct frame_reader *payload)
{
    if (h->type == WIRE_HELLO && s->state == STATE_HELLO)
        handle_hello(s, payload);
    else if (h->type == WIRE_OPEN && s->state == STATE_IDLE)
        handle_open(s, h->request, payload);
    else if (h->type == WIRE_RENDER && s->state == STATE_OPEN)
        handle_render(s, h->request, payload);
    else if (h->type == WIRE_CANCEL && s->state == STATE_OPEN)
        handle_cancel(s, h->request);
    else if (h->type == WIRE_NAME && s->state == STATE_OPEN)
        handle_name(s, h->request, payload);
    else if (h->type == WIRE_STATS && s->state != STATE_HELLO)
        handle_stats(s, h->request);
    else if (h->type == WIRE_STATUS && s->state != STATE_HELLO)
        handle_status(s, h->request);
    else if (h->type == WIRE_BYE)
        session_close(s);
    else
        refuse(s, h->request, -EPROTO, "a message came that has no meaning here");
}

/* One that has no key, or another. In case that it speaks no TLS, in the one message that every
 * client understands; what it has sent is read, as closing would else take that message back. */
static void turn_away_stranger(struct session *s)
{
    struct wire_error m = {.code = -EACCES,
                           .text = "it serves only who has its key: name the file of the key in "
                                   "PLENUM_LOADER_KEY"};
    uint8_t bytes[4096];

    s->server->refused++;
    log_once(s, LOG_LEVEL_WARN, "refused",
             "it does not have the key of --tls-key, or speaks no TLS");
    s->conn.carrier->destroy(s->conn.carrier);
    s->conn.carrier = NULL;
    for (int i = 0; i < 16 && recv(s->conn.fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0; i++)
        ;
    if (wire_put_error(&s->conn.tx, 0, &m) == 0)
        (void)frame_conn_flush(&s->conn);
}

/* What has come: a client has its turn, and then others have theirs. Who does not read its answers is
 * not heard any further until it does. What is behind a STATUS waits until that is answered. */
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
            refuse(s, 0, -EPROTO, "what came is no message");
        else if (r > 0)
            handle_frame(s, &header, &payload);
    }
}

static void session_readable(struct session *s)
{
    int64_t n;

    if (s->more) {
        handle_frames(s);
        return;
    }
    if (chores_is_stuck(s->server->chores, s->peer.uid)) {
        refuse(s, 0, -EPROTO, "what its user sent to be closed is not closed yet");
        return;
    }
    n = frame_conn_fill(&s->conn);
    if (n < 0) {
        if (n == -EACCES && s->conn.carrier)
            turn_away_stranger(s);
        else if (n == -ENOMEM)
            log_once(s, LOG_LEVEL_WARN, "closed", "the loader is out of memory");
        else if (n != -EAGAIN && s->remote && s->state == STATE_HELLO)
            log_once(s, LOG_LEVEL_INFO, "gone", "it has not said who it is");
        if (n != -EAGAIN)
            session_close(s);
        return;
    }
    if (s->conn.unwanted_fds > 0)
        refuse(s, 0, -EPROTO, "it sent a descriptor that nobody asked for");
    else
        handle_frames(s);
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

/* Watch for what we wait for: to read once what came is looked at, to write while something waits. */
static void session_poll(struct session *s)
{
    bool write = s->more || frame_conn_wants_write(&s->conn);
    int events = (s->more ? 0 : UV_READABLE) | (write ? UV_WRITABLE : 0);

    if (uv_poll_start(&s->poll, events, on_poll) < 0)
        session_close(s);
}

void session_finished(struct session *session, struct queue_request *request)
{
    struct session *s = session;
    int r;

    s->under_way--;
    if (s->state == STATE_CLOSING) {
        free(request);
        maybe_free(s);
        return;
    }
    if (s->remote) {
        if (s->last_answer)
            s->last_answer->link = request;
        else
            s->answers = request;
        s->last_answer = request;
        r = 0;
    } else {
        r = put_answer(s, request);
        free(request);
    }
    if (r < 0)
        session_close(s);
    else
        session_flush(s);
    maybe_leave(s);
}

struct session *session_next(const struct session *session)
{
    return session->next;
}

/* Who has connected and opens no stream must not keep out who would. */
static bool make_room(struct server *server)
{
    struct session *oldest = NULL;

    for (struct session *other = server->sessions; other; other = other->next)
        if (other->state == STATE_HELLO || other->state == STATE_IDLE) /* the newest is the first */
            oldest = other;
    if (!oldest || time_now_ns() < oldest->opened_ns + silent_enough_ns)
        return false;
    refuse(oldest, 0, -ETIMEDOUT, "it opened no stream, and others are waiting");
    return true;
}

/* A host is a user. Of this host's own addresses anybody on it has as many as he likes. */
static void take_host(struct session *s)
{
    static const char *const own[] = {"tcp:127.", "tcp:[::1]", "tcp:[::ffff:127."};
    char *colon;

    (void)address_of_socket(s->conn.fd, true, s->user, sizeof(s->user));
    colon = strrchr(s->user, ':');
    if (colon)
        *colon = '\0'; /* another port each time */
    for (size_t i = 0; i < ARRAY_LEN(own); i++)
        if (strncmp(s->user, own[i], strlen(own[i])) == 0)
            (void)snprintf(s->user, sizeof(s->user), "tcp:localhost");
}

static int check_peer(struct session *s, struct plenum_error *err)
{
    const struct server_options *o = s->server->options;
    int r = 0;

    if (s->remote) { /* nobody tells who that is; its name does, until it has said another */
        s->peer = (struct peer){.uid = (uid_t)-1};
        (void)address_of_socket(s->conn.fd, true, s->name, sizeof(s->name));
        take_host(s);
    } else {
        r = peer_take(s->conn.fd, &s->peer);
        (void)snprintf(s->name, sizeof(s->name), "user %u", (unsigned)s->peer.uid);
        (void)snprintf(s->user, sizeof(s->user), "%u", (unsigned)s->peer.uid);
    }
    if (r < 0)
        return r;
    if (!s->remote && o->own_uid_only && s->peer.uid != geteuid() && s->peer.uid != 0)
        return -EACCES;
    r = room_for_client(s->server, s->user, err);
    if (r < 0 && room_is_coming(s->server, NULL)) /* who has hung up is closed by that */
        r = room_for_client(s->server, s->user, err);
    if (r < 0 && make_room(s->server))
        r = room_for_client(s->server, s->user, err);
    return r;
}

/* Tell a client that it is not served, in the one message that every client understands. */
static void turn_away(struct session *s, int code, const char *text)
{
    struct wire_error m = {.code = code};
    char why[160];

    s->server->refused++;
    if (code == -EUSERS) {
        (void)snprintf(m.text, sizeof(m.text), "%s", text);
        log_once(s, LOG_LEVEL_WARN, "refused", "there are as many as --max-clients allows");
    } else {
        (void)snprintf(
            m.text, sizeof(m.text),
            "it serves user %u alone: whoever runs it names the folders that others may read "
            "with --root, or root in plenumd.conf",
            (unsigned)geteuid());
        (void)snprintf(why, sizeof(why),
                       "it is of user %u, and this loader serves user %u alone, since no --root is "
                       "named",
                       (unsigned)s->peer.uid, (unsigned)geteuid());
        log_once(s, LOG_LEVEL_WARN, "refused", why);
    }
    if (wire_put_error(&s->conn.tx, 0, &m) == 0)
        (void)frame_conn_flush(&s->conn);
}

/* A host that has gone without a word must not keep its memory here for ever: while nothing is on
 * its way to it the kernel asks now and then, and what is on its way must be received in time. */
static void watch_peer(int fd)
{
    const int on = 1, idle_s = 30, every_s = 10, times = 3;
    const unsigned limit_ms = SEND_LIMIT_MS;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every_s, sizeof(every_s));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof(times));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit_ms, sizeof(limit_ms));
}

int session_create(struct server *server, int fd, bool remote)
{
    struct session *s = calloc(1, sizeof(*s));
    struct plenum_error err = {""};
    int r;

    if (!s) {
        chores_close_connection(server->chores, CHORES_STRANGER, fd);
        return -ENOMEM;
    }
    s->server = server;
    s->remote = remote;
    s->sending = NO_SLOT;
    s->ring_fd = -1;
    if (remote)
        watch_peer(fd);
    s->id = ++server->last_id;
    s->opened_ns = time_now_ns();
    (void)snprintf(s->name, sizeof(s->name), "?");
    (void)snprintf(s->job, sizeof(s->job), "session %llu", (unsigned long long)s->id);
    r = frame_conn_init(&s->conn, fd, WIRE_MAX_PAYLOAD);
    if (!remote) { /* of TCP nothing can come along */
        s->conn.takes_fd = true;
        s->conn.close_fd = close_fd;
        s->conn.close_arg = s;
    }
    if (r == 0)
        r = check_peer(s, &err);
    if (r == 0 && remote && server->tls)
        r = tls_carry(server->tls, fd, &s->conn.carrier);
    if (r < 0) {
        if (r == -EACCES || r == -EUSERS)
            turn_away(s, r, err.text);
        frame_conn_fini(&s->conn);
        peer_fini(&s->peer);
        free(s);
        return r;
    }
    s->next = server->sessions;
    if (s->next)
        s->next->prev = s;
    server->sessions = s;
    server->num_sessions++;
    s->poll.data = s;
    s->timer.data = s;
    (void)uv_timer_init(&server->loop, &s->timer);
    s->handles++;
    r = uv_poll_init(&server->loop, &s->poll, fd);
    if (r < 0) {
        s->state = STATE_CLOSING;
        uv_close((uv_handle_t *)&s->timer, on_handle_closed);
        return r;
    }
    s->handles++;
    (void)uv_timer_start(&s->timer, on_timer, HELLO_LIMIT_MS, 0);
    session_poll(s);
    return 0;
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

/* How long nothing has been heard of the other host, its kernel included. */
static uint64_t silent_ns(const struct session *s)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof(info);

    if (getsockopt(s->conn.fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0)
        return 0;
    return info.tcpi_last_ack_recv * NS_PER_MS;
}

/* It has, and the loop has not come to hear of it. */
static bool has_hung_up(const struct session *s)
{
    struct pollfd p = {.fd = s->conn.fd, .events = POLLRDHUP};

    return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

static bool ask_if_there(struct session *s)
{
    const int every_s = 1;

    if (has_hung_up(s)) {
        session_close(s);
        return true;
    }
    if (!s->remote || s->state != STATE_OPEN || silent_ns(s) < HEARD_MS * NS_PER_MS)
        return false;
    if (s->asked_ns == 0) {
        s->asked_ns = time_now_ns();
        (void)setsockopt(s->conn.fd, IPPROTO_TCP, TCP_KEEPIDLE, &every_s, sizeof(every_s));
        (void)setsockopt(s->conn.fd, IPPROTO_TCP, TCP_KEEPINTVL, &every_s, sizeof(every_s));
    }
    return true;
}

bool session_ask_if_there(struct session *session)
{
    uint64_t now = time_now_ns();

    if (session->looked_ns == 0 || now > session->looked_ns + ROOM_EVERY_MS * NS_PER_MS) {
        session->looked_ns = now;
        session->may_end = ask_if_there(session);
    }
    return session->may_end;
}

/* Of one that was asked whether it is there. */
static void watch_silent(struct session *s, uint64_t now_ns)
{
    uint64_t silent;

    if (s->asked_ns == 0)
        return;
    silent = silent_ns(s);
    if (silent < HEARD_MS * NS_PER_MS) {
        s->asked_ns = 0;
        watch_peer(s->conn.fd);
    } else if (silent >= SILENT_MS * NS_PER_MS && now_ns > s->asked_ns + SILENT_MS * NS_PER_MS) {
        log_about(LOG_LEVEL_WARN, about(s, &(struct about){0}),
                  "client %s has not been heard of for %d s, and others are waiting: closed", s->name,
                  SILENT_MS / 1000);
        session_close(s);
    }
}

void session_beat(struct session *session, uint64_t now_ns)
{
    struct session *s = session;
    struct window_point point = {.at_ns = now_ns, .waited_ns = s->waited_ns};

    if (s->state != STATE_OPEN)
        return;
    queue_stream_get_totals(s->stream, &point.totals);
    window_add(&s->window, &point);
    watch_silent(s, now_ns);
    if (s->state == STATE_OPEN && s->status && now_ns > s->status_ns + STATUS_LIMIT_MS * NS_PER_MS)
        close_unread(s);
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
                                       .lane = queue_stream_lane(s->stream),
                                       .waited = WIRE_UNKNOWN};
    memcpy(ret->client, s->name, sizeof(ret->client));
    memcpy(ret->dataset, s->open.dataset, sizeof(ret->dataset));
    memcpy(ret->pipeline, s->open.pipeline, sizeof(ret->pipeline));
    queue_stream_get_totals(s->stream, &all.totals);
    ret->samples = all.totals.samples;
    ret->substituted = all.totals.substituted;
    ret->batches = all.totals.batches;
    ret->failed = all.totals.failed;
    monitor_judge(s->server, &s->window, s->waited_ns != WIRE_UNKNOWN, ret);
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
                                 .spec = s->spec,
                                 .epoch = s->asked.epoch,
                                 .position = s->asked.position,
                                 .per_step = s->open.per_step,
                                 .deal = s->open.deal,
                                 .offset = s->open.offset,
                                 .count = s->open.local};
    ret->spec.dataset = dataset_ref(s->dataset);
    memcpy(ret->user, s->user, sizeof(ret->user));
    return true;
}
