/* monitor.h - what the loader does, and what holds it back. All of it on the loop's thread. */
#ifndef LOADER_SERVE_MONITOR_H
#define LOADER_SERVE_MONITOR_H

#include "common/wire.h"
#include "loader/serve/session.h"

/** A second has passed, at the least. */
/** Memory that the loader holds itself, in bytes: neither rings nor what the kernel may drop. */
uint64_t monitor_own_bytes(void);

void monitor_beat(struct server *server, uint64_t now_ns);

/** The loader as a whole. `ret` starts as zeros. */
void monitor_get_status(const struct server *server, struct wire_status *ret);

/** Fill in rate, waiting, times, bound and cores of a stream, from its last seconds and the
 * loader's. `knows_wait`: the client tells how long its program waits. */
void monitor_judge(const struct server *server, const struct window *window, bool knows_wait,
                   struct wire_status_stream *ret);

#endif
