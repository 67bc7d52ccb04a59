/* SPDX-License-Identifier: MIT */
/* pace_report.h - PACE: once a second, a shim reports how its program progresses
 * (common/job/pace.h) and what the kernel says about its host. With its header it takes at most 64
 * bytes: 512 for a host with eight instances. Times have 11 significant bits. */
#ifndef LAUNCHER_PACE_REPORT_H
#define LAUNCHER_PACE_REPORT_H

#include <stdint.h>

#include "common/net/frame.h"
#include "launcher/host/strain.h"

enum { PACE_REPORT_STEPS = 6 };

/** Shares of the second, in percent. */
enum pace_share {
    PACE_STOPPED, /* the program was stopped by a signal */
    PACE_STRAIN,  /* the first of enum strain_kind */
    PACE_SHARES = PACE_STRAIN + STRAIN_KINDS
};

struct pace_report {
    uint64_t step;  /* the last one in `steps`; each is `stride` before the next */
    uint32_t count; /* of `steps` */
    uint32_t stride;
    uint8_t meets; /* it uses Plenum's collectives */
    struct {
        uint64_t own_ns, wait_ns;
    } steps[PACE_REPORT_STEPS];
    /* Means of this second's batches: of a sample, and of a batch; 0: none. */
    uint64_t read_ns, render_ns;
    uint64_t rest_ns, network_ns;
    uint8_t share[PACE_SHARES];
};

/** Appends one frame: 0 or -ENOMEM. */
int pace_report_put(struct frame_buffer *b, const struct pace_report *m);
/** Reads one payload: 0 or -EPROTO. */
int pace_report_get(struct frame_reader *r, struct pace_report *ret);

#endif
