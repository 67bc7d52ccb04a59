/* SPDX-License-Identifier: MIT */
/* plan_fetch.h - what an epoch of a data set in an object store fetches: its part of plenumctl
 * plan. */
#ifndef LOADER_CTL_PLAN_FETCH_H
#define LOADER_CTL_PLAN_FETCH_H

#include "common/util/json.h"
#include "loader/ctl/ctl.h"

/** One epoch; zero if the data set is on a disk. */
struct plan_fetch {
    uint64_t samples, bytes;
    uint64_t requests;   /* at least, on one host */
    uint64_t request_ns; /* the mean time of one, measured */
};

/** Compute it, but not the time of a request. */
void plan_fetch_init(const struct ctl_stream *stream, struct plan_fetch *ret);

/** The most samples per second that a loader requests with the number of connections that it has;
 * 0: it was not measured. */
double plan_fetch_rate(const struct plan_fetch *fetch);

void plan_fetch_print(const struct plan_fetch *fetch);
/** Add a member "store". */
void plan_fetch_json(const struct plan_fetch *fetch, struct json *j);

#endif
