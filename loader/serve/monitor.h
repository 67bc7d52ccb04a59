/* SPDX-License-Identifier: MIT */
/* monitor.h - reports what the loader does and what limits it. Everything here runs on the loop's
 * thread. */
#ifndef LOADER_SERVE_MONITOR_H
#define LOADER_SERVE_MONITOR_H

#include <stdbool.h>
#include <stdint.h>

#include "common/net/wire.h"

struct dataset;
struct server;
struct session;

/** Memory that threads need for the samples of a stream. */
struct stream_memory {
    uint64_t working; /* bytes for each rendering thread */
    uint64_t reading; /* bytes for all reading threads together */
};

/** The memory in bytes for reading a data set, in all threads together. */
uint64_t monitor_reading_bytes(const struct server *server, const struct dataset *dataset);

/** Returns the memory in bytes that the loader uses, or will use once its threads work, without
 * rings and without memory that the kernel can reclaim. It is the maximum since the loader last had
 * no client. `more`: needed for one more stream. */
uint64_t monitor_own_bytes(struct server *server, const struct stream_memory *more);

/** Call this about once a second, not more often. */
void monitor_beat(struct server *server, uint64_t now_ns);

/** Fill in the status of the loader as a whole. `ret` starts as zeros. */
void monitor_get_status(const struct server *server, struct wire_status *ret);

/** Get the status of the session's stream. Returns false if it has none (yet). `ret` starts as
 * zeros. */
bool monitor_get_stream(const struct server *server, const struct session *session,
                        struct wire_status_stream *ret);

#endif
