/* SPDX-License-Identifier: MIT */
/* monitor.h - measures and reports what the loader does and what limits it. Everything here runs on
 * the loop's thread. */
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

/** Returns the memory in bytes for reading a data set, in all threads together. */
uint64_t monitor_reading_bytes(const struct server *server, const struct dataset *dataset);

/** Returns the memory in bytes that the loader uses, or will use once its threads work: the maximum
 * since the loader last had at most one client. Rings and memory that the kernel can reclaim do not
 * count. `more`: the memory for one more stream; zeros for none. */
uint64_t monitor_own_bytes(struct server *server, const struct stream_memory *more);

/** Call this about once a second, not more often. */
void monitor_beat(struct server *server, uint64_t now_ns);

/** Fill in the status of the loader as a whole. `ret` starts as zeros. */
void monitor_get_status(const struct server *server, struct wire_status *ret);

/** Get the status of the session's stream. Returns false if it has none, or none yet. `ret` starts
 * as zeros. */
bool monitor_get_stream(const struct server *server, const struct session *session,
                        struct wire_status_stream *ret);

#endif
