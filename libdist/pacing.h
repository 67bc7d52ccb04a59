/* SPDX-License-Identifier: MIT */
/* pacing.h - records this instance's progress for plenumrun, in the page that the program shares
 * with its shim (common/job/pace.h).
 *
 * A step begins with plenum_job_should_stop(). In a program that never calls it, it begins with the
 * request for a batch, and steps are counted from 0.
 *
 * Without plenumrun, these functions do nothing. Times are time_now_ns(). Threads: any. */
#ifndef LIBDIST_PACING_H
#define LIBDIST_PACING_H

#include <stdbool.h>
#include <stdint.h>

#include <plenum/job.h>

#include "libdist/batch_trace.h"

/** Returns the page of this instance, valid until the process ends; NULL if there is none. The
 * other functions do nothing before the first call that finds it. */
struct stop_page *pacing_open(const struct plenum_job_info *info);

/** Record that the program ends a step and begins this one: plenum_job_should_stop() was called. */
void pacing_begin_step(uint64_t step, uint64_t now);

/** Record that plenum_stream_next() begins, and may wait. */
void pacing_wait(uint64_t now);
/**
 * Record that plenum_stream_next() ends.
 *
 * @param waits    the call was allowed to wait
 * @param batch    the batch's times; NULL: the call returned no batch
 * @param samples  number of samples in the batch
 */
void pacing_take(uint64_t began_ns, uint64_t now, bool waits, const struct trace_batch *batch,
                 uint64_t samples);

/** Record that the program arrives at a collective. */
void pacing_arrive(uint64_t now);
/** Record that the program leaves the collective. */
void pacing_depart(uint64_t now);

#endif
