/* SPDX-License-Identifier: MIT */
/* departures.h - reports the ends of instances to all others (common/job/departed.h), in batches:
 * instances often end together, and a message for each end to each other instance would make their
 * number quadratic.
 *
 * A batch is a set of instances that had reached the same collective. There is a pause between
 * rounds of batches, which is longer in larger jobs, and a round has at most DEPARTURES_ROUND of
 * them. So the messages to an instance are bounded by time, not by the number of instances. */
#ifndef LAUNCHER_DEPARTURES_H
#define LAUNCHER_DEPARTURES_H

#include <stdbool.h>
#include <stdint.h>

#include "launcher/control/control.h"

enum {
    DEPARTURES_ROUND = 8,
    DEPARTURES_PAUSE_NS = 100000, /* for each instance of the job */
};

struct departures {
    uint64_t
        *reached;  /* [count]: 1 + what an instance had reached; 0: the others know, or it runs */
    uint8_t *bits; /* of the last batch */
    uint32_t count;
    uint32_t untold;
    uint64_t due_ns;  /* when the next round begins; UINT64_MAX: there is nothing to tell */
    uint64_t told_ns; /* when the last one began */
};

/** For a job of `count` instances: 0 or -ENOMEM. */
int departures_init(struct departures *d, uint32_t count);
void departures_fini(struct departures *d);

/** Note that an instance has ended. Ignored if `d` has not been initialised. */
void departures_note(struct departures *d, uint32_t instance, uint64_t reached, uint64_t now);

/** Take the next batch: false if there is none. `ret` is valid until the next call. */
bool departures_take(struct departures *d, struct control_departed *ret);

/** Note that the round that was due has been sent. */
void departures_told(struct departures *d, uint64_t now);

#endif
