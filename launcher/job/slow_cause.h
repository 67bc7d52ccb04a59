/* SPDX-License-Identifier: MIT */
/* slow_cause.h - why a host is slow (slow.h): the first cause that explains half of the time by
 * which it exceeds the others. Pure. */
#ifndef LAUNCHER_SLOW_CAUSE_H
#define LAUNCHER_SLOW_CAUSE_H

#include "launcher/job/slow.h"

/** What one host, or the run, needs for a step. */
struct slow_need {
    double x_s, wait_s;
    struct slow_facts facts;
};

/** Returns the cause for `is`, compared with `usual`. */
enum slow_cause slow_find_cause(const struct slow_need *is, const struct slow_need *usual);

/** Returns half of the time by which `is` exceeds `usual`, in percent of the time of `is`. */
double slow_half_share(const struct slow_need *is, const struct slow_need *usual);

#endif
