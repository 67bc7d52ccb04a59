/* SPDX-License-Identifier: MIT */
/* pace_report.h - PACE: once a second, a shim reports how its program progresses
 * (common/job/pace.h) and what the kernel reports about its host. A frame has at most 64 bytes, so
 * a host with eight instances sends at most 512. Times have 11 significant bits. */
#ifndef LAUNCHER_PACE_REPORT_H
#define LAUNCHER_PACE_REPORT_H

#include <stdint.h>

#include "common/net/frame.h"
#include "launcher/host/strain.h"

enum { PACE_REPORT_STEPS = 6 };

/** Conditions, whose share of the second is reported in percent. */
enum pace_share {
    PACE_STOPPED, /* the program was stopped by a signal */
    PACE_STRAIN,  /* the first of enum strain_kind */
    PACE_SHARES = PACE_STRAIN + STRAIN_KINDS
};

struct pace_report {
    uint64_t step;   /* number of the last step in `steps` */
    uint32_t count;  /* number of steps in `steps` */
    uint32_t stride; /* distance between two of them */
    uint8_t meets;   /* the program uses Plenum's collectives */
    struct {
        uint64_t own_ns, wait_ns;
    } steps[PACE_REPORT_STEPS];
    uint64_t read_ns, render_ns;  /* means per sample in this second; 0: no sample */
    uint64_t rest_ns, network_ns; /* means per batch in this second; 0: no batch */
    uint8_t share[PACE_SHARES];
};

/** Append one frame. Returns 0 or -ENOMEM. */
int pace_report_put(struct frame_buffer *b, const struct pace_report *m);
/** Read one payload. Returns 0 or -EPROTO. */
int pace_report_get(struct frame_reader *r, struct pace_report *ret);

#endif
