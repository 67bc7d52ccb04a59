/* SPDX-License-Identifier: MIT */
/* session.h - one client's connection. Everything here runs on the loop's thread. */
#ifndef LOADER_SERVE_SESSION_H
#define LOADER_SERVE_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "loader/serve/queue.h"

struct server;
struct session;

/** Serve a connected socket, taking ownership of it. `remote`: a TCP client, whose pixels follow
 * each frame. Returns -errno if the client was rejected (and closed). */
int session_create(struct server *server, int fd, bool remote);

/** Close a session and cancel its requests. It is freed when the last task has stopped. */
void session_close(struct session *session);

/** Prepare for the loader's shutdown: finish the batches in progress, start no others, notify the
 * client, and close. */
void session_drain(struct session *session);

/** Handle the end of one of the session's requests. Takes ownership of the request. */
void session_finished(struct session *session, struct queue_request *request);

/** Call this once a second: it records the stream's work, and closes the session if its client
 * does not answer a probe or does not read its status. */
void session_beat(struct session *session, uint64_t now_ns);

#endif
