/* SPDX-License-Identifier: MIT */
/* bound.c - determines what limits a stream.
 *
 * A stream is bound by its own program if the program hardly ever waits: no loader could make it
 * faster. If the program waits, usually one stage is busy all the time: reading (the I/O threads
 * wait for storage), or decoding (the workers compute, or wait for a CPU that others use). If no
 * stage is busy and the program still waits, the transport is too slow: requests or answers arrive
 * late, or too few batches are requested in advance. But if decoding waits longer for a CPU than it
 * runs, the host is busy, which also delays requests and answers. */
#include "config.h"

#include "loader/serve/bound.h"

#include <stdbool.h>

enum {
    MILLIONTHS = 1000000,
    /* A program that waits for at least this share of its time (2 %) is waiting for the loader. */
    WAITS = 20000,
    WORKS = 200000,  /* from this busy share on, the CPU time of threads is significant */
    BUSY = 700000,   /* from this share on, threads count as busy all the time */
    SHARED = 800000, /* busy threads that get less CPU than this share it with other processes */
};

/* Returns whether computing waited longer for a CPU than it ran on one. */
static bool waits_for_cpu(uint64_t render_ns, uint64_t cpu_ns)
{
    return render_ns > cpu_ns && render_ns - cpu_ns > cpu_ns;
}

enum wire_bound bound_find(const struct bound_load *l)
{
    if (l->waited < WAITS)
        return l->samples == 0 ? WIRE_BOUND_IDLE : WIRE_BOUND_TRAINER;
    if (l->reading > l->rendering && l->reading >= BUSY)
        return WIRE_BOUND_STORAGE;
    if (l->resting >= WORKS)
        return WIRE_BOUND_CPU; /* the token bucket is empty */
    if (l->rendering >= WORKS && l->all_cpu_ns < l->all_render_ns / MILLIONTHS * SHARED)
        return WIRE_BOUND_CPU;
    /* Threads that wait for a CPU before they find work are not busy. */
    if (waits_for_cpu(l->render_ns, l->cpu_ns))
        return WIRE_BOUND_CPU;
    return l->rendering >= BUSY ? WIRE_BOUND_DECODE : WIRE_BOUND_TRANSPORT;
}
