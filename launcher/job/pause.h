/* SPDX-License-Identifier: MIT */
/* pause.h - how long a failed job rests before it starts again. */
#ifndef LAUNCHER_PAUSE_H
#define LAUNCHER_PAUSE_H

#include <stdbool.h>
#include <stdint.h>

/** Zero-initialised: the job has not failed yet. */
struct pause {
    unsigned failures; /* one soon after the other */
    unsigned wait_s;   /* the last wait for hosts; 0: none since the job ran */
};

/**
 * Seconds to wait after an attempt that took `took_ns`, in which the programs ran or did not.
 *
 * Programs that ran: 0 the first time, then 1, 2, 4 and so on, 60 at most; an attempt of ten
 * minutes begins with 0 again. Programs that could not be started, as a host was not ready: 5, 10
 * and so on, 60 at most.
 */
unsigned pause_next(struct pause *pause, bool ran, uint64_t took_ns);

#endif
