/* SPDX-License-Identifier: MIT */
/* pack_job.h - packs a data set into archives, for plenumctl pack. */
#ifndef LOADER_CTL_PACK_JOB_H
#define LOADER_CTL_PACK_JOB_H

#include "loader/ctl/pack_record.h"
#include "loader/dataset/dataset.h"

struct pack_job_options {
    struct dataset *source; /* borrowed, like all fields */
    const char *folder;     /* must exist */
    const struct pack_plan *plan;
    struct pack_record *record;
    unsigned threads; /* 0: one per CPU */
    /** Called about every 100 ms in the thread that called pack_job_run(), with counts of this
     * run's samples. */
    void (*progress)(void *arg, const char *what, uint64_t done, uint64_t total);
};

/** Create all missing archives; `*made` receives their number. Returns 0, or -errno with a
 * message. */
int pack_job_run(const struct pack_job_options *options, uint32_t *made, struct plenum_error *err);

#endif
