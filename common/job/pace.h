/* SPDX-License-Identifier: MIT */
/* pace.h - the part of the page shared with the shim (stop_page.h) in which libplenum records how
 * the program progresses: its last activity, and how long its steps take.
 *
 * A step's time is divided into its own time, the wait for batches, and the time in collectives,
 * where it waits for other instances. Only the first two are recorded.
 *
 * The program writes steps into a small ring that the shim reads once a second. If steps are short,
 * only each `stride`-th is recorded, with the mean of those before it. Step numbers are multiples
 * of the stride, so that those of several instances can be compared. */
#ifndef COMMON_PACE_H
#define COMMON_PACE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { PACE_STEPS = 16 }; /* size of the ring */

/** What the program is doing, as far as libplenum knows. */
enum pace_doing {
    PACE_COMPUTES, /* anything that is not below */
    PACE_WAITS,    /* it waits for a batch */
    PACE_MEETS,    /* it is in a collective */
    PACE_DOINGS
};

/** The shared memory; all zero at the start. Times are time_now_ns() of this host. */
struct pace {
    /* Written by the program. */
    _Atomic int32_t writer;     /* the process that records steps; 0: none yet */
    _Atomic uint32_t doing;     /* enum pace_doing */
    _Atomic uint64_t active_ns; /* when it last took a batch, began a step, or was in a collective;
                                 * 0: never */
    _Atomic uint32_t met;       /* it has been in a collective */
    _Atomic uint64_t step;      /* 1 + the step in progress; 0: none */
    _Atomic uint64_t recorded;  /* number of steps written to the ring so far */
    struct {
        _Atomic uint64_t step, own_ns, wait_ns;
    } ring[PACE_STEPS];
    /* Sums over all batches that were returned, as reported by loaders. */
    _Atomic uint64_t batches, samples;
    _Atomic uint64_t read_ns, render_ns; /* summed over samples */
    _Atomic uint64_t rest_ns;            /* waits for the loader's CPU budget */
    _Atomic uint64_t network_ns;         /* from request to answer, without the loader's time */
    /* Written by the shim. */
    _Atomic uint32_t stride; /* a power of two; 0: 1 */
};

/** A recorded step: the mean of the steps since the last recorded one. */
struct pace_step {
    uint64_t step, own_ns, wait_ns;
};

/** Make this process the one that records steps: returns 0, or -EBUSY if another running process
 * does. */
int pace_claim(struct pace *pace);

/** Record a step. Only the claiming process, one thread at a time. */
void pace_record(struct pace *pace, const struct pace_step *step);

/**
 * Read the steps that were recorded since the last call, the oldest first. Steps that have been
 * overwritten are left out. Returns the number of steps.
 *
 * @param seen  counts the steps read so far; 0 at first
 */
size_t pace_read(const struct pace *pace, uint64_t *seen, struct pace_step ret[PACE_STEPS]);

#endif
