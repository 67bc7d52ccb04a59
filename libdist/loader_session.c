/* SPDX-License-Identifier: MIT */
/* loader_session.c - the connection to one loader, and how it reconnects.
 *
 *     DOWN --connected--> HELLO --hello--> OPENING --OPENED--> OPEN --RENDER, DONE ...
 *      ^                     |                |                  |
 *      +--- refused, dead, silent, other version ----------------+
 *
 * A loader is lost when its socket ends, or when it sends nothing for `silence` although we wait
 * for something. Before that we send STATS, which a loader's event loop answers at once, however
 * busy its workers are. So a slow loader never counts as dead, but a stopped one (SIGSTOP) does. If
 * other loaders are open, a loader that takes much longer for that answer than ever before counts
 * as silent: its batches are requested from others long before it is abandoned (schedule.c).
 *
 * If a loader of this host is lost, its ring is abandoned, because a loader that was only stopped
 * could still write to it. Batches in it that are ready or leased stay valid; those being filled
 * are requested from another loader, into another ring. No batch is lost or repeated: a request
 * names a position in the stream, which determines the batch. A loader over TCP cannot write to our
 * memory: the bytes that follow its DONE are received into the slot, all such loaders share one
 * ring, and a cancelled slot is free at once. Bytes that still arrive for it are discarded.
 *
 * Not here: what a loader sends (loader_session_input.c).
 *
 * Connecting is retried for ever, with growing pauses. A rejection (ERROR) is not expected to go
 * away: once every loader has rejected the stream, it fails with the first one's reason. */
#include "config.h"

#include "libdist/loader_session.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/util/error_set.h"
#include "common/util/util.h"
#include "libdist/io.h"
#include "libdist/loader_session_core.h"

enum {
    /* After this many consecutive deaths while opening our data set, a loader is abandoned. */
    FAILED_OPENINGS_MAX = 8,
    /* After this many consecutive late answers to STATS, they count as the new normal. */
    ODD_PONGS_MAX = 3,
};

static const uint64_t retry_first_ns = 5 * NS_PER_MS, retry_last_ns = 1000 * NS_PER_MS,
                      retry_refused_ns = 10 * NS_PER_SEC;
/* The silence after which we ping a loader if there are others, and the time in which any loader
 * must have answered. */
static const uint64_t ping_others_ns = 100 * NS_PER_MS, pong_least_ns = 100 * NS_PER_MS;

static const struct state_row session_states[] = {
    [SESSION_DOWN] = {"down", STATE(SESSION_HELLO)},
    [SESSION_HELLO] = {"hello",
                       STATE(SESSION_FIELDS) | STATE(SESSION_OPENING) | STATE(SESSION_DOWN)},
    [SESSION_FIELDS] = {"fields", STATE(SESSION_OPENING) | STATE(SESSION_DOWN)},
    [SESSION_OPENING] = {"opening", STATE(SESSION_OPEN) | STATE(SESSION_DOWN)},
    [SESSION_OPEN] = {"open", STATE(SESSION_DOWN)},
};

static bool is_locked(const void *object)
{
    const struct loader_session *se = object;

    return lock_is_held(se->setup->lock);
}

static bool is_sound(const void *object)
{
    const struct loader_session *se = object;

    return (se->state == SESSION_DOWN) == (se->conn.fd < 0) &&
           (se->state < SESSION_OPENING || se->set);
}

static const struct state_machine session_machine = {.name = "session",
                                                     .states = session_states,
                                                     .count = ARRAY_LEN(session_states),
                                                     .holds = is_sound,
                                                     .is_locked = is_locked};

void session_move(struct loader_session *se, enum session_state to)
{
    enum session_state from = se->state;

    se->state = to;
    state_moved(&session_machine, se, 0, from, to);
}

struct loader_session *session_create(const struct session_setup *setup, struct loader *loader,
                                      const struct address *address)
{
    struct loader_session *se = malloc(sizeof(*se));

    if (!se)
        return NULL;
    *se = (struct loader_session){.setup = setup,
                                  .loader = loader,
                                  .address = address,
                                  .away_ns = time_now_ns(),
                                  .conn = {.fd = -1, .tx_fd = -1, .rx_fd = -1},
                                  .retry_delay_ns = retry_first_ns};
    return se;
}

void session_destroy(struct loader_session *se)
{
    assert(!se || se->state == SESSION_DOWN);
    free(se);
}

static void *close_main(void *arg)
{
    (void)close((int)(intptr_t)arg);
    return NULL;
}

/* Close a connection. That closes the descriptors queued in it, and the sender decides how long
 * that takes: with SO_LINGER, or with a socket with SO_LINGER in another socket's queue. So a
 * separate thread closes it. If no thread can be started, the connection stays open. */
static void close_connection(void *arg, int fd)
{
    struct loader_session *se = arg;

    (void)shutdown(fd, SHUT_RDWR); /* ends the input */
    if (frame_holds_fds(fd)) {
        se->sent_fds = true;
        io_unwatch(fd);
        (void)thread_start(NULL, close_main, (void *)(intptr_t)fd);
    } else {
        (void)close(fd);
    }
}

void session_close(struct loader_session *se, bool bye)
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
        session_move(se, SESSION_DOWN);
    se->setup->events->released(se->loader);
    se->filling = se->cancelling = se->naming = 0;
    se->receiving = NULL;
    se->discard = 0;
    slot_set_unref(se->set);
    se->set = NULL;
    se->ping = 0;
}

/* Leave the session in a forked child. Closing the last copy of a connection waits for the
 * descriptors in it, and the parent may have closed its copy. So the child leaves the connection
 * open. */
void session_leave(struct loader_session *se)
{
    if (se->conn.fd >= 0 && frame_holds_fds(se->conn.fd))
        se->conn.fd = -1;
    io_close(&se->conn.fd);
}

/* End a lost connection, report that to the session's owner, and schedule the next attempt. `text`
 * is the reason. The connection was of no use from `since_ns` on. */
static void lose_since(struct loader_session *se, uint64_t since_ns, const char *text)
{
    bool ran = se->state == SESSION_OPEN;
    bool opening = se->state == SESSION_FIELDS || se->state == SESSION_OPENING;
    uint64_t now = time_now_ns();

    if (opening && ++se->failed_openings >= FAILED_OPENINGS_MAX)
        se->refused = -ECONNRESET;
    (void)error_set(&se->error, 0, "%s", text);
    session_close(se, false);
    if (ran) { /* it may be restarted at this address: retry at once */
        se->retry_ns = now;
        se->retry_delay_ns = retry_first_ns;
    } else {
        se->retry_ns = now + se->retry_delay_ns;
        se->retry_delay_ns =
            min_u64(se->retry_delay_ns * 2, se->refused ? retry_refused_ns : retry_last_ns);
        se->turn++;
    }
    if (se->sent_fds) { /* closing each connection may need a waiting thread */
        se->refused = -EPROTO;
        se->retry_ns = UINT64_MAX;
    }
    se->setup->events->lost(se->loader, ran, since_ns);
}

void session_lose(struct loader_session *se, const char *text)
{
    assert(lock_is_held(se->setup->lock));
    lose_since(se, time_now_ns(), text);
}

int session_code(int code)
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

void session_refuse(struct loader_session *se, int code, const char *text)
{
    if (se->setup->events->refused(se->loader, code, text))
        se->failed_openings = 0; /* this loader did not die while opening our data set */
    else
        se->refused = session_code(code);
    session_lose(se, text);
}

/* Record that a message could not be built or sent, so that we reconnect. A socket that the loader
 * has closed is not such a failure, because its last message must be read first. */
static void note_broken(struct loader_session *se, int r)
{
    if (r == 0 || r == -EAGAIN || r == -EPIPE || r == -ECONNRESET)
        return;
    se->broken = r;
    io_poke();
}

int session_flush(struct loader_session *se)
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

static const char *why_not(const struct loader_session *se, int r)
{
    if (r == -EBADF)
        return io_closed_sentence;
    if (r == -ENOENT && !se->address->tcp)
        return "no such socket: is plenumd running?";
    if (r == -ECONNREFUSED)
        return "no program listens there: is plenumd running?";
    if (r == -EPERM)
        return "the program that listens there runs as another user, who is not root: use another "
               "loader, or ask that user to stop it";
    if (r == -EACCES && se->setup->tls && se->address->tcp)
        return "does not have the key of PLENUM_LOADER_KEY, or does not use TLS: give its plenumd "
               "the key that this one was made from, with --tls-key";
    if (r == -EAGAIN && !se->address->tcp)
        return "its connection queue is full: too many programs are connecting at once";
    if (r == -EPROTO && !se->address->tcp)
        return "sent a file descriptor, which loaders never do";
    if (r == -ECONNRESET || r == -EPIPE)
        return se->state == SESSION_HELLO ? "closed the connection at once"
               : se->setup->own_loader
                   ? "ended together with the process that had started it, or died"
                   : "died";
    return strerror(-r);
}

void session_lose_connection(struct loader_session *se, int r)
{
    if (r == -EACCES)
        session_refuse(se, r, why_not(se, r));
    else
        session_lose(se, why_not(se, r));
}

/* End a connection to an unauthenticated peer: another user's process listens at our loader's
 * address. */
static void lose_unauthenticated(struct loader_session *se, uint64_t now)
{
    if (se->setup->events->unauthenticated(se->loader))
        se->retry_ns = now;
    else
        session_refuse(se, -EPERM, why_not(se, -EPERM));
}

void session_lack(struct loader_session *se, int code, const char *text)
{
    if (se->setup->events->out_of(se->loader, code, text))
        session_refuse(se, code, text);
    else
        session_close(se, false);
}

/* Handle a failed attempt to connect. */
static void fail_connection(struct loader_session *se, int r)
{
    struct plenum_error err;

    if (r == -EMFILE || r == -ENFILE) {
        (void)error_set(&err, r, "no descriptor is left for a connection to %s: %s (ulimit -n)",
                        se->address->text, strerror(-r));
        session_lack(se, r, err.text);
        return;
    }
    se->setup->events->unreached(se->loader, r);
    if (r == -EAGAIN) /* the socket exists, but its queue was full */
        se->retry_delay_ns = retry_first_ns;
    session_lose(se, why_not(se, r));
}

/* Use this connection for our frames. Returns 0 or -errno. */
static int take_connection(struct loader_session *se, int fd)
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

static void connect_now(struct loader_session *se, uint64_t now)
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
    session_move(se, SESSION_HELLO);
    se->heard_ns = se->asked_ns = se->pinged_ns = now;
    wire_hello_init(&m, se->setup->name);
    (void)snprintf(m.job, sizeof(m.job), "%s", se->setup->job);
    (void)wire_put_hello(&se->conn.tx, &m);
    (void)session_flush(se);
}

/* Returns how long a loader may take to answer STATS before it counts as silent. */
static uint64_t patience(const struct loader_session *se)
{
    return min_u64(max_u64(rtt_late(&se->pong), pong_least_ns), se->setup->silence_ns);
}

/* Returns the time at which a loader that has not answered STATS counts as silent. */
static uint64_t silent_at(const struct loader_session *se)
{
    return max_u64(se->pinged_ns, se->heard_ns) + patience(se);
}

void session_pong(struct loader_session *se, uint64_t request)
{
    uint64_t took = se->heard_ns - se->pinged_ns;

    assert(lock_is_held(se->setup->lock));
    if (request != se->ping)
        return;
    se->ping = 0;
    /* Leave an outlier (the loader was stopped) out of the estimate, because otherwise we would
     * wait as long the next time. If several answers in a row are late, the round trip itself has
     * become longer. */
    if (took > patience(se) && se->odd_pongs < ODD_PONGS_MAX) {
        se->odd_pongs++;
        return;
    }
    se->odd_pongs = 0;
    rtt_update(&se->pong, took);
}

void session_opened(struct loader_session *se)
{
    se->failed_openings = 0;
    se->retry_delay_ns = retry_first_ns;
    se->refused = 0;
    session_move(se, SESSION_OPEN);
}

int session_render(struct loader_session *se, struct order_place place, uint64_t waited_ns,
                   struct plenum_lease *slot)
{
    const struct wire_open *open = se->setup->open;
    uint64_t request = ++*se->setup->requests, now = time_now_ns();

    assert(lock_is_held(se->setup->lock));
    assert(se->state == SESSION_OPEN && slot->set == se->set);
    if (!se->setup->mute && wire_put_render(&se->conn.tx, request,
                                            &(struct wire_render){.epoch = place.epoch,
                                                                  .position = place.position,
                                                                  .slot = slot->index,
                                                                  .waited_ns = waited_ns,
                                                                  .per_step = open->per_step,
                                                                  .offset = open->offset}) < 0)
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
    struct loader_session *se = slot->session;

    assert(se->setup->mute && se->filling > 0);
    se->filling--;
}

int session_ask_name(struct loader_session *se, uint64_t request, const struct wire_ask_name *m,
                     struct plenum_error *err)
{
    assert(lock_is_held(se->setup->lock));
    if (se->loader_minor < (m->of == WIRE_NAMED_CLASS ? WIRE_MINOR_CLASSES : WIRE_MINOR_NAME))
        return error_set(err, -ENOTSUP, "%s is too old to report the names of %s", se->loader_name,
                         m->of == WIRE_NAMED_CLASS ? "classes" : "samples");
    se->asked_ns = time_now_ns();
    if (wire_put_ask_name(&se->conn.tx, request, m) < 0)
        return -ENOMEM; /* session_flush() also fails */
    se->naming++;
    return 0;
}

void session_cancel(struct plenum_lease *slot)
{
    struct loader_session *se = slot->session;

    assert(lock_is_held(se->setup->lock));
    se->filling--;
    if (se->receiving == slot) { /* the loader has answered already */
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

/* Returns since when we have been waiting for the loader; 0: we are not. */
static uint64_t waiting_since(const struct loader_session *se)
{
    if (se->state == SESSION_OPEN && se->filling == 0 && se->cancelling == 0 && se->naming == 0)
        return 0;
    return max_u64(se->heard_ns, se->asked_ns);
}

bool session_is_silent(const struct loader_session *se, uint64_t now_ns)
{
    assert(lock_is_held(se->setup->lock));
    return se->state == SESSION_OPEN && se->ping && waiting_since(se) && now_ns >= silent_at(se);
}

uint64_t session_tick(struct loader_session *se, uint64_t now_ns, bool others)
{
    uint64_t since, next, ping_ns = se->setup->silence_ns / 4;

    assert(lock_is_held(se->setup->lock));
    if (others)
        ping_ns = min_u64(ping_ns, ping_others_ns);
    if (se->state == SESSION_DOWN && now_ns >= se->retry_ns)
        connect_now(se, now_ns);
    if (se->broken < 0)
        session_lose_connection(se, se->broken);
    if (se->state == SESSION_DOWN)
        return se->retry_ns;
    since = waiting_since(se);
    if (since == 0)
        return UINT64_MAX;
    if (now_ns >= sum_u64(since, se->setup->silence_ns)) {
        char text[64];

        (void)snprintf(text, sizeof(text), "sent nothing for %.1f s",
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

void session_retry_at(struct loader_session *se, uint64_t when_ns)
{
    assert(lock_is_held(se->setup->lock));
    assert(se->state == SESSION_DOWN);
    se->retry_ns = when_ns;
    se->refused = 0; /* the loader rejected an earlier request */
}

void session_forgive(struct loader_session *se, uint64_t now_ns)
{
    assert(lock_is_held(se->setup->lock));
    se->heard_ns = se->asked_ns = se->pinged_ns = se->away_ns = now_ns;
}

bool session_is_down(const struct loader_session *se)
{
    return se->state == SESSION_DOWN;
}

bool session_is_bound(const struct loader_session *se)
{
    return se->state > SESSION_HELLO && se->loader_minor < WIRE_MINOR_RESHAPE;
}

bool session_has_greeted(const struct loader_session *se)
{
    return se->state > SESSION_HELLO;
}

bool session_is_open(const struct loader_session *se)
{
    return se->state == SESSION_OPEN;
}

bool session_is_idle(const struct loader_session *se)
{
    return !se->filling && !se->cancelling && !se->discard && !se->naming;
}

bool session_may_come(const struct loader_session *se, uint64_t now_ns, uint64_t timeout_ns)
{
    if (se->state != SESSION_DOWN)
        return true;
    return !se->refused && se->retry_ns < UINT64_MAX && now_ns < sum_u64(se->away_ns, timeout_ns);
}

struct plenum_lease *session_free_slot(const struct loader_session *se)
{
    if (se->filling + se->cancelling + (se->discard > 0) >= se->set->num_slots)
        return NULL;
    return slot_set_find_free(se->set);
}

unsigned session_filling(const struct loader_session *se)
{
    return se->filling;
}

struct slot_set *session_set(const struct loader_session *se)
{
    return se->set;
}

struct loader *session_loader(const struct loader_session *se)
{
    return se->loader;
}

int session_refusal(const struct loader_session *se)
{
    return se->refused;
}

const char *session_error(const struct loader_session *se)
{
    return se->error.text;
}
