/* SPDX-License-Identifier: MIT */
/* monitor.h - what the loader does, and what limits it. All on the loop's thread. */
#ifndef LOADER_SERVE_MONITOR_H
#define LOADER_SERVE_MONITOR_H

#include "common/wire.h"
#include "loader/serve/session.h"

/** Memory in bytes that the loader holds itself, or will hold as soon as it works: without rings
 * and without what the kernel may drop. It is the maximum since the loader last had no client.
 * `working`: what each thread would need for a sample of one more stream. */
uint64_t monitor_own_bytes(struct server *server, uint64_t working);

/** What decides what a stream is limited by: times of the last seconds, and shares in millionths. */
struct monitor_load {
    uint64_t samples;            /* of the stream */
    uint64_t render_ns, cpu_ns;  /* of these: the time that they took, and the CPU time of it */
    uint64_t waited;             /* share of its time that the program waits */
    uint64_t rendering, reading; /* share of their time that the loader's threads work */
    uint64_t resting;            /* ... and that they wait for CPU tokens */
    uint64_t all_render_ns, all_cpu_ns; /* of all streams */
};

/** What limits a stream. A pure function. */
enum wire_bound monitor_find_bound(const struct monitor_load *load);

/** Call this about once a second, not more often. */
void monitor_beat(struct server *server, uint64_t now_ns);

/** The loader as a whole. `ret` starts as zeros. */
void monitor_get_status(const struct server *server, struct wire_status *ret);

/** Fill in rate, waiting, times, bound and cores of a stream, from the last seconds of the stream
 * and of the loader. `knows_wait`: the client tells how long its program waits. */
void monitor_stream(const struct server *server, const struct window *window, bool knows_wait,
                    struct wire_status_stream *ret);

#endif
