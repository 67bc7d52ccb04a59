/* SPDX-License-Identifier: MIT */
/* job_priv.h - the job, for the rest of libplenum and its tests. */
#ifndef LIBDIST_JOB_PRIV_H
#define LIBDIST_JOB_PRIV_H

#include <stdint.h>
#include <sys/types.h>

#include <plenum/job.h>

struct plenum_job {
    /* Constant after plenum_job_open(). */
    struct plenum_job_info info;
    char id[320]; /* room for a full host name and a port */
    char loader[2048];
    pid_t pid; /* the process that opened it */
    /* Under job.c's lock. */
    unsigned opens;
    /* Under comm.c's lock. */
    uint64_t timeout_ns; /* time limit of a collective; 0: none */
};

/** Take a reference, which plenum_job_close() drops. */
void job_ref(struct plenum_job *job);

/** If `info` is this process's own rank in its job, claim the rank until the process ends. Call it
 *  before the process receives samples. -EBUSY: another process already has the rank (claim.h). */
int job_claim(const struct plenum_job_info *info, struct plenum_error *err);

#endif
