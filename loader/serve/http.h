/* SPDX-License-Identifier: MIT */
/* http.h - the status page and what monitoring systems ask for, over HTTP. */
#ifndef LOADER_SERVE_HTTP_H
#define LOADER_SERVE_HTTP_H

#include <plenum/error.h>

#include "loader/serve/session.h"

/** The HTTP server. Its thread uses nothing of the loop's: it serves the texts that were published
 * last. Opaque. */
struct http;

/** Serve at options->http_fd, or listen on http_address and http_port: 0, or -errno with a
 * sentence. `blocking` is borrowed: its threads make thumbnails. */
int http_start(const struct server_options *options, struct blocking *blocking, struct http **ret,
               struct plenum_error *err);

/** Show what the loader does now. On the loop's thread; once a second. NULL is nothing. */
void http_publish(struct http *http, const struct server *server);

void http_stop(struct http *http);

#endif
