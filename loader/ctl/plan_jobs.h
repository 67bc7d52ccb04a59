/* SPDX-License-Identifier: MIT */
/* plan_jobs.h - predicts how much several jobs save if they share renderings (plenumd
 * --share-memory), for plenumctl plan. */
#ifndef LOADER_CTL_PLAN_JOBS_H
#define LOADER_CTL_PLAN_JOBS_H

#include <stdint.h>

#include "common/util/json.h"
#include "loader/ctl/ctl.h"

struct plan_jobs {
    uint32_t jobs;           /* 0: nothing is predicted */
    uint64_t spread;         /* positions between the first and the last job */
    uint64_t share_memory;   /* bytes to predict for; 0: only the usual rows */
    uint64_t image_ns;       /* CPU time of a rendering */
    uint64_t copy_ns, bytes; /* CPU time and memory of a kept rendering; set by plan_jobs_find() */
};

/** Measure a copy, and compute its memory. -EINVAL: jobs with these options share nothing; -ENOMEM
 * or an error of ctl_stream_open(), with `err` set. */
int plan_jobs_find(const char *dataset, const struct ctl_stream_args *args, struct plan_jobs *plan,
                   struct plenum_error *err);

/** Returns the loader's CPU time for all jobs, divided by that for one job. */
double plan_jobs_cpu(const struct plan_jobs *plan, uint64_t share_memory);

void plan_jobs_print(const struct plan_jobs *plan);
/** Add the member "sharing". */
void plan_jobs_json(const struct plan_jobs *plan, struct json *j);

#endif
