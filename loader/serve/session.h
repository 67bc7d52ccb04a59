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
    unsigned count; /* ever added */
};

void window_add(struct window *w, const struct window_point *point);
/** The difference between the newest point and the oldest: at_ns is the time between them, 0 when
 * there are not two. */
struct window_point window_span(const struct window *w);

/** What all sessions share. Owned by server.c. */
struct server {
    const struct server_options *options;
    struct roots *roots;
    uv_loop_t loop;
    struct queue *queue;
    struct blocking *blocking;
    struct openings *openings;
    struct pin *pin;
    struct tls *tls;      /* of TCP, or NULL */
    struct list sessions; /* session_first() */
    unsigned num_sessions;
    unsigned waiting_for_room; /* of these: their OPEN waits for room */
    uint64_t started_ns;
    uint64_t ring_bytes;        /* of all sessions */
    uint64_t own_bytes;         /* monitor_own_bytes() */
    uint64_t last_id;           /* of a session */
    uint64_t refused;           /* clients that were told why they are not served */
    struct log_limit log_limit; /* of messages about refused clients */
    struct log_limit failures;  /* of those about batches that failed */
    struct snapshot *snapshot;  /* the latest one, or NULL */
    struct histogram waits;     /* of programs, for a batch */
    struct window window;
    unsigned threads, io_threads;    /* that decode, that read */
    bool renders[PIPELINE_VERSIONS]; /* the definitions of pixels that this machine reproduces */
    bool stopping;
    void (*session_gone)(struct server *server);
};

/** Serve a connected socket, which it takes. `remote`: a TCP client, for which pixels follow their
 * frame. -errno when it was refused (and closed). */
int session_create(struct server *server, int fd, bool remote);

/** Close a session: cancel its requests; it is freed when the last task has stopped. */
void session_close(struct session *session);

/** The loader is about to end: finish the batches under way, begin no others, tell the client, and
 * close. */
void session_drain(struct session *session);

/** A request of the session has finished. Takes the request. */
void session_finished(struct session *session, struct queue_request *request);

/** The user that it counts for, as text: a uid, or the host of a TCP client. Borrowed. */
const char *session_user(const struct session *session);
/** Is it being closed? */
bool session_is_ending(const struct session *session);
/** Bytes of its ring, while that is mapped. */
uint64_t session_ring_bytes(const struct session *session);
/** What each thread needs for a sample of its stream, while it has a ring. */
uint64_t session_working_bytes(const struct session *session);
/** What the threads that read need for the fields of its samples, while it streams. */
uint64_t session_field_bytes(const struct session *session);
/** Has the client hung up, or has nothing been heard of a TCP client lately? A session whose client
 * has hung up is closed. A silent host is probed (TCP keepalive), and its session closed when it
 * does not answer within some seconds. */
bool session_ask_if_there(struct session *session);

/** Call this once a second: it records what the stream has done. */
void session_beat(struct session *session, uint64_t now_ns);

/** The status of the session's stream; false when it has none (yet). `ret` starts as zeros. */
bool session_get_status(const struct session *session, struct wire_status_stream *ret);

/** Resident bytes of the private ring of a remote session. */
uint64_t session_private_bytes(const struct session *session);

/** All that is needed to render the batch that the stream requested last; false when it has
 * requested none. The caller owns the reference to the data set. */
struct session_view {
    uint64_t id;
    char user[160];          /* session_user() */
    struct dataset *dataset; /* a reference */
    char pipeline[VIEWS_TEXT_MAX];
    uint32_t height, width; /* of the first of a sample's images */
    struct order order;
    enum plenum_bad bad;
    enum image_jpeg jpeg;
    uint64_t epoch, position;               /* of the step */
    uint32_t per_step, deal, offset, count; /* struct wire_open; count is `local` */
};
bool session_get_view(const struct session *session, struct session_view *ret);

/** All sessions, the newest first: the first one, and the one behind another; or NULL. */
struct session *session_first(const struct server *server);
struct session *session_next(const struct session *session);

#endif
