/* session.h - one client's connection. Everything here runs on the loop's thread. */
#ifndef LOADER_SERVE_SESSION_H
#define LOADER_SERVE_SESSION_H

#include <uv.h>

#include "loader/serve/queue.h"
#include "loader/serve/server.h"

struct session;

/** Canonical paths below which data sets may lie. Counted, because they can be replaced while a
 * data set is being opened in another thread. The count is the loop's. */
struct roots {
    unsigned refs, count;
    char *paths[];
};

struct roots *roots_ref(struct roots *roots);
void roots_unref(struct roots *roots);

/** What all sessions share. Owned by server.c. */
struct server {
    const struct server_options *options;
    struct roots *roots;
    uv_loop_t loop;
    struct queue *queue;
    struct pin *pin;
    struct session *sessions;
    unsigned num_sessions;
    uint64_t started_ns;
    uint64_t ring_bytes;          /* of all sessions */
    unsigned threads, io_threads; /* that decode, that read */
    bool stopping;
    void (*session_gone)(struct server *server);
};

/** Take a connected socket. -errno when it was refused (and closed). */
int session_create(struct server *server, int fd);

/** End a session: its work is cancelled, and it is freed when the last task has stopped. */
void session_close(struct session *session);

/** The loader is about to end: finish what is under way, begin nothing, tell the client, close. */
void session_drain(struct session *session);

/** A request of the session's has finished; the request is taken. */
void session_finished(struct session *session, struct queue_request *request);

struct session *session_next(const struct session *session);

#endif
