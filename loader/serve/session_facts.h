/* SPDX-License-Identifier: MIT */
/* session_facts.h - describes sessions to the rest of the loader. Everything here runs on the
 * loop's thread. */
#ifndef LOADER_SERVE_SESSION_FACTS_H
#define LOADER_SERVE_SESSION_FACTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/net/ring.h"
#include "common/net/wire.h"
#include "loader/render/render.h"
#include "loader/serve/window.h"

struct server;
struct session;

/** Pointers are borrowed until the loop handles its next event. */
struct session_facts {
    uint64_t id;
    const char *name; /* from HELLO */
    const char *user; /* the user charged for it, as text: a uid, or the host of a TCP client */
    pid_t pid;
    uid_t uid;
    bool ending;                     /* it is being closed */
    uint64_t ring_bytes;             /* size of its ring while it is mapped */
    const struct ring *private_ring; /* of a TCP client, or NULL */
    const struct render_spec *spec;  /* NULL while it has no ring */
    const struct dataset *dataset;   /* NULL while it has no stream */
    /* Its stream is open and not ending. */
    bool streams;
    struct queue_stream *stream;
    const struct wire_open *open;
    const struct wire_render *asked; /* the most recent request; zeros before the first */
    const struct window *window;
    bool knows_wait; /* the client reports how long its program waits */
    uint64_t opened_ns;
    unsigned under_way; /* submitted requests that have not finished */
};
void session_get_facts(const struct session *session, struct session_facts *ret);

/** Everything needed to render a stream's most recently requested batch. session_get_view() returns
 * false if no batch was requested. The caller owns the reference to the data set. */
struct session_view {
    uint64_t id;
    char user[160];          /* see struct session_facts */
    struct dataset *dataset; /* a reference */
    char pipeline[VIEWS_TEXT_MAX];
    uint32_t height, width; /* size of the first image of a sample */
    struct order order;
    enum plenum_bad bad;
    enum image_jpeg jpeg;
    uint64_t epoch, position;               /* where the batch's first step begins */
    uint32_t per_step, deal, offset, count; /* struct wire_open; count is `local` */
};
bool session_get_view(const struct session *session, struct session_view *ret);

/** Iterate over all sessions, newest first. Both return NULL at the end. */
struct session *session_first(const struct server *server);
struct session *session_next(const struct session *session);

#endif
