/* SPDX-License-Identifier: MIT */
/* http.h - serves the status page and the metrics for monitoring systems over HTTP. */
#ifndef LOADER_SERVE_HTTP_H
#define LOADER_SERVE_HTTP_H

#include <plenum/error.h>

#include "loader/serve/blocking.h"
#include "loader/serve/server.h"

struct server;

/** The HTTP server. Its thread does not access the loop's data: it serves the most recently
 * published texts. Opaque. */
struct http;

/** Serve on options->http_fd, or listen on http_address and http_port. Returns 0, or -errno with a
 * message. `blocking` is borrowed; its threads render thumbnails. */
int http_start(const struct server_options *options, struct blocking *blocking, struct http **ret,
               struct plenum_error *err);

/** Publish the loader's current state. Call on the loop's thread, once a second. NULL is
 * ignored. */
void http_publish(struct http *http, const struct server *server);

void http_stop(struct http *http);

#endif
