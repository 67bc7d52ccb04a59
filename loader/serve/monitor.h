/* SPDX-License-Identifier: MIT */
/* monitor.h - what the loader does, and what limits it. All on the loop's thread. */
#ifndef LOADER_SERVE_MONITOR_H
#define LOADER_SERVE_MONITOR_H

#include "common/wire.h"
#include "loader/serve/session.h"

/** What threads need for the samples of a stream. */
struct stream_memory {
    uint64_t working; /* each thread that renders */
    uint64_t reading; /* all threads that read */
};

/** Memory in bytes that the loader holds itself, or will hold as soon as it works: without rings
 * and without what the kernel may drop. It is the maximum since the loader last had no client.
 * `more`: what one more stream would need. */
uint64_t monitor_own_bytes(struct server *server, const struct stream_memory *more);

/** Call this about once a second, not more often. */
void monitor_beat(struct server *server, uint64_t now_ns);

/** The loader as a whole. `ret` starts as zeros. */
void monitor_get_status(const struct server *server, struct wire_status *ret);

/** Fill in rate, waiting, times, bound and cores of a stream, from the last seconds of the stream
 * and of the loader. `knows_wait`: the client tells how long its program waits. */
void monitor_stream(const struct server *server, const struct window *window, bool knows_wait,
                    struct wire_status_stream *ret);

#endif
