/* SPDX-License-Identifier: MIT */
/* session.h - one client's connection. Everything here runs on the loop's thread. */
#ifndef LOADER_SERVE_SESSION_H
#define LOADER_SERVE_SESSION_H

#include <uv.h>

#include "common/list.h"
#include "common/tls.h"
#include "loader/serve/histogram.h"
#include "loader/serve/openings.h"
#include "loader/serve/queue.h"
#include "loader/serve/log_limit.h"
#include "loader/serve/roots.h"
#include "loader/serve/server.h"

struct session;

/** Counters of a stream or of the loader at one moment. */
struct window_point {
    uint64_t at_ns, waited_ns;
    struct queue_totals totals;
};

/** The last ten seconds, one point a second. {0}: empty. */
enum { WINDOW_POINTS = 11 };
struct window {
    struct window_point points[WINDOW_POINTS];
    unsigned count; /* points ever added */
};

void window_add(struct window *w, const struct window_point *point);
/** Returns the difference between the newest point and the oldest: at_ns is the time between them,
 * or 0 if there are fewer than two. */
struct window_point window_span(const struct window *w);

/** State that all sessions share. Owned by server.c. */
struct server {
    const struct server_options *options;
    struct roots *roots;
    uv_loop_t loop;
    struct queue *queue;
    struct blocking *blocking;
    struct openings *openings;
    struct pin *pin;
    struct tls *tls;      /* for TCP, or NULL */
    struct list sessions; /* see session_first() */
    unsigned num_sessions;
    unsigned waiting_for_room; /* sessions whose OPEN waits for room */
    uint64_t started_ns;
    uint64_t ring_bytes;        /* of all sessions */
    uint64_t own_bytes;         /* see monitor_own_bytes() */
    uint64_t last_id;           /* the id of the newest session */
    uint64_t refused;           /* clients that were rejected with a reason */
    struct log_limit log_limit; /* for messages about rejected clients */
    struct log_limit failures;  /* for messages about failed batches */
    struct log_budget lines;    /* for all messages about clients */
    struct snapshot *snapshot;  /* the latest one, or NULL */
    struct histogram waits;     /* times that programs waited for a batch */
    struct window window;
    unsigned threads, io_threads;    /* decoding threads, reading threads */
    bool renders[PIPELINE_VERSIONS]; /* the pixel definitions that this machine reproduces */
    bool stopping;
    void (*session_gone)(struct server *server);
};

/** Serve a connected socket, taking ownership of it. `remote`: a TCP client, whose pixels follow
 * each frame. Returns -errno if the client was rejected (and closed). */
int session_create(struct server *server, int fd, bool remote);

/** Close a session and cancel its requests. It is freed when the last task has stopped. */
void session_close(struct session *session);

/** The loader is about to end: finish the batches in progress, start no others, notify the client,
 * and close. */
void session_drain(struct session *session);

/** A request of the session has finished. Takes ownership of the request. */
void session_finished(struct session *session, struct queue_request *request);

/** Returns the user that it counts for, as text: a uid, or the host of a TCP client. Borrowed. */
const char *session_user(const struct session *session);
/** Is it being closed? */
bool session_is_ending(const struct session *session);
/** Returns the bytes of its ring while that is mapped. */
uint64_t session_ring_bytes(const struct session *session);
/** Returns the memory that each thread needs for a sample of its stream, while it has a ring. */
uint64_t session_working_bytes(const struct session *session);
/** Returns the memory that the reading threads need for the fields of its samples, while it
 * streams. */
uint64_t session_field_bytes(const struct session *session);
/** Has the client hung up, or has a TCP client been silent lately? A session whose client has hung
 * up is closed. A silent host is probed (TCP keepalive), and its session is closed if it does not
 * answer within a few seconds. */
bool session_ask_if_there(struct session *session);

/** Call this once a second: it records the stream's work. */
void session_beat(struct session *session, uint64_t now_ns);

/** Get the status of the session's stream. Returns false if it has none (yet). `ret` starts as
 * zeros. */
bool session_get_status(const struct session *session, struct wire_status_stream *ret);

/** Resident bytes of the private ring of a remote session. */
uint64_t session_private_bytes(const struct session *session);

/** Everything needed to render the batch that the stream requested last. Returns false if it has
 * requested none. The caller owns the reference to the data set. */
struct session_view {
    uint64_t id;
    char user[160];          /* see session_user() */
    struct dataset *dataset; /* a reference */
    char pipeline[VIEWS_TEXT_MAX];
    uint32_t height, width; /* of the first image of a sample */
    struct order order;
    enum plenum_bad bad;
    enum image_jpeg jpeg;
    uint64_t epoch, position;               /* of the step */
    uint32_t per_step, deal, offset, count; /* struct wire_open; count is `local` */
};
bool session_get_view(const struct session *session, struct session_view *ret);

/** Iterate over all sessions, newest first: the first one, and the one after another; or NULL. */
struct session *session_first(const struct server *server);
struct session *session_next(const struct session *session);

#endif
