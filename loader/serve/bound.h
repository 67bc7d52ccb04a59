/* SPDX-License-Identifier: MIT */
/* bound.h - determines what limits a stream, from measured times. */
#ifndef LOADER_SERVE_BOUND_H
#define LOADER_SERVE_BOUND_H

#include <stdint.h>

#include "common/net/wire.h"

/** The input of bound_find(). Times cover the last few seconds; shares are in millionths. */
struct bound_load {
    uint64_t samples;            /* samples rendered for the stream */
    uint64_t render_ns, cpu_ns;  /* time spent rendering them, and the CPU time used for that */
    uint64_t waited;             /* share of time that the program waits */
    uint64_t rendering, reading; /* shares of time that the loader's threads work */
    uint64_t resting;            /* share of time that they wait for CPU tokens */
    uint64_t all_render_ns, all_cpu_ns; /* the same times of all streams */
};

/** Returns what limits a stream. A pure function. */
enum wire_bound bound_find(const struct bound_load *load);

#endif
