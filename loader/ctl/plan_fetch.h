/* SPDX-License-Identifier: MIT */
/* plan_fetch.h - computes what an epoch of a data set in an object store fetches, for plenumctl
 * plan. */
#ifndef LOADER_CTL_PLAN_FETCH_H
#define LOADER_CTL_PLAN_FETCH_H

#include "common/util/json.h"
#include "loader/ctl/ctl.h"

/** What one epoch fetches; zeros if the data set is on a disk. */
struct plan_fetch {
    uint64_t samples, bytes;
    uint64_t requests;   /* minimum number, on one host */
    uint64_t request_ns; /* the measured mean time of a request */
};

/** Compute everything except the time of a request. */
void plan_fetch_init(const struct ctl_stream *stream, struct plan_fetch *ret);

/** Returns the highest rate, in samples per second, that a loader's number of connections allows;
 * 0: the time of a request was not measured. */
double plan_fetch_rate(const struct plan_fetch *fetch);

void plan_fetch_print(const struct plan_fetch *fetch);
/** Add the member "store". */
void plan_fetch_json(const struct plan_fetch *fetch, struct json *j);

#endif
