/* SPDX-License-Identifier: MIT */
/* job_priv.h - the job, for the rest of libplenum and its tests. */
#ifndef LIBDIST_JOB_PRIV_H
#define LIBDIST_JOB_PRIV_H

#include <stdbool.h>
#include <sys/types.h>

#include <plenum/job.h>

struct plenum_job {
    /* Constant after plenum_job_open(). */
    struct plenum_job_info info;
    char id[320]; /* a host's whole name, and a port */
    char loader[2048];
    pid_t pid; /* that opened it */
    /* Under job.c's lock. */
    unsigned opens;
    /* Under comm.c's lock. */
    uint64_t timeout_ns; /* of collectives; 0: none */
};

/** getenv(), or a test's stand-in. */
typedef const char *(*job_getenv)(const char *name);

int job_from_environment(job_getenv get, struct plenum_job *job, struct plenum_error *err);
/** Keep it until one more plenum_job_close(). */
void job_ref(struct plenum_job *job);

/** Is it the same place, by numbers? */
bool job_same_place(const struct plenum_job_info *a, const struct plenum_job_info *b);

/** This process is about to take the samples of `info`: if that is its own place in its job, make
 * it that instance until it ends. -EBUSY: another process is (claim.h). */
int job_claim(const struct plenum_job_info *info, struct plenum_error *err);

int job_from_info(job_getenv get, const struct plenum_job_info *info, struct plenum_job *job,
                  struct plenum_error *err);

#endif
