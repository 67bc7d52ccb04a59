/* SPDX-License-Identifier: MIT */
/* pause.h - how long to wait before restarting a failed job. */
#ifndef LAUNCHER_PAUSE_H
#define LAUNCHER_PAUSE_H

#include <stdbool.h>
#include <stdint.h>

/** Zero-initialised: the job has not failed yet. */
struct pause {
    unsigned failures; /* number of failures in quick succession */
    unsigned wait_s;   /* last wait for hosts; 0: none since the job ran */
};

/**
 * Returns the seconds to wait after an attempt that took `took_ns`. `ran`: the programs started.
 *
 * If programs ran: 0 the first time, then 1, 2, 4 and so on, at most 60; an attempt of ten minutes
 * starts again from 0. If programs could not be started because a host was not ready: 5, 10, 20 and
 * so on, at most 60.
 */
unsigned pause_next(struct pause *pause, bool ran, uint64_t took_ns);

#endif
