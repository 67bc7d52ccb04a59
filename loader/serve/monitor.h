/* SPDX-License-Identifier: MIT */
/* monitor.h - what the loader does, and what holds it back. All of it on the loop's thread. */
#ifndef LOADER_SERVE_MONITOR_H
#define LOADER_SERVE_MONITOR_H

#include "common/wire.h"
#include "loader/serve/session.h"

/** Memory that the loader holds itself, or will as soon as it works, in bytes: neither rings nor
 * what the kernel may drop. The most that was seen since there was no client. */
uint64_t monitor_own_bytes(struct server *server);

/** A second has passed, at the least. */
void monitor_beat(struct server *server, uint64_t now_ns);

/** The loader as a whole. `ret` starts as zeros. */
void monitor_get_status(const struct server *server, struct wire_status *ret);

/** Fill in rate, waiting, times, bound and cores of a stream, from its last seconds and the
 * loader's. `knows_wait`: the client tells how long its program waits. */
void monitor_judge(const struct server *server, const struct window *window, bool knows_wait,
                   struct wire_status_stream *ret);

#endif
