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

/** What a stream or the loader has done so far, at a moment. */
struct window_point {
    uint64_t at_ns, waited_ns;
    struct queue_totals totals;
};

/** The last ten seconds, second by second. {0}: nothing yet. */
enum { WINDOW_POINTS = 11 };
struct window {
    struct window_point points[WINDOW_POINTS];
    unsigned count; /* ever added */
};

void window_add(struct window *w, const struct window_point *point);
/** What was done between the oldest point and the newest: at_ns is the time between them, 0 when
 * there is none. */
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
    unsigned waiting_for_room; /* of these: with an OPEN for which there may soon be room */
    uint64_t started_ns;
    uint64_t ring_bytes;        /* of all sessions */
    uint64_t own_bytes;         /* monitor_own_bytes() */
    uint64_t last_id;           /* of a session */
    uint64_t refused;           /* clients that were told why they are not served */
    struct log_limit log_limit; /* of messages about refused clients */
    struct snapshot *snapshot;  /* the latest one, or NULL */
    struct histogram waits;     /* of programs, for a batch */
    struct window window;
    unsigned threads, io_threads;    /* that decode, that read */
    bool renders[PIPELINE_VERSIONS]; /* the definitions of pixels that this machine keeps to */
    bool stopping;
    void (*session_gone)(struct server *server);
};

/** Take a connected socket; `remote`: of TCP, where pixels follow their frame. -errno when it was
 * refused (and closed). */
int session_create(struct server *server, int fd, bool remote);

/** End a session: its work is cancelled, and it is freed when the last task has stopped. */
void session_close(struct session *session);

/** The loader is about to end: finish what is under way, begin nothing, tell the client, close. */
void session_drain(struct session *session);

/** A request of the session's has finished; the request is taken. */
void session_finished(struct session *session, struct queue_request *request);

/** Whose it is: a uid, or of TCP a host, as text. Borrowed. */
const char *session_user(const struct session *session);
/** Is it being closed? */
bool session_is_ending(const struct session *session);
/** Of its ring, while it is mapped. */
uint64_t session_ring_bytes(const struct session *session);
/** Has it hung up, or, of TCP, has nothing been heard of it lately? The former is closed; the host
 * of the latter is asked whether it is still there, and the session closed when there is no answer
 * within some seconds. */
bool session_ask_if_there(struct session *session);

/** A second has passed: look at what the stream has done. */
void session_beat(struct session *session, uint64_t now_ns);

/** What there is to know of a session's stream; false when it has none (yet). `ret` starts as
 * zeros. */
bool session_get_status(const struct session *session, struct wire_status_stream *ret);

/** Memory of the loader's own that it has written a remote client's pixels to. */
uint64_t session_private_bytes(const struct session *session);

/** What is needed to render what the stream asked for last, anywhere: false when it has asked for
 * nothing. The data set is a reference of the caller's. */
struct session_view {
    uint64_t id;
    char user[160]; /* session_user() */
    struct render_spec spec;
    uint64_t epoch, position;               /* of the step */
    uint32_t per_step, deal, offset, count; /* struct wire_open; count is `local` */
};
bool session_get_view(const struct session *session, struct session_view *ret);

/** All sessions, the newest first: the first one, and the one behind another; or NULL. */
struct session *session_first(const struct server *server);
struct session *session_next(const struct session *session);

#endif
