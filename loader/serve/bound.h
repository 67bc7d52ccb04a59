/* SPDX-License-Identifier: MIT */
/* bound.h - what limits a stream, from numbers alone. */
#ifndef LOADER_SERVE_BOUND_H
#define LOADER_SERVE_BOUND_H

#include <stdint.h>

#include "common/wire.h"

/** What decides what limits a stream: times of the last seconds, and shares in millionths. */
struct bound_load {
    uint64_t samples;            /* of the stream */
    uint64_t render_ns, cpu_ns;  /* of these: the time that they took, and the CPU time of it */
    uint64_t waited;             /* share of its time that the program waits */
    uint64_t rendering, reading; /* share of their time that the loader's threads work */
    uint64_t resting;            /* ... and that they wait for CPU tokens */
    uint64_t all_render_ns, all_cpu_ns; /* of all streams */
};

/** What limits a stream. A pure function. */
enum wire_bound bound_find(const struct bound_load *load);

#endif
