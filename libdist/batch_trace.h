/* SPDX-License-Identifier: MIT */
/* batch_trace.h - traces of batches, written to a file for Perfetto and Chrome's trace viewer.
 *
 * Enabled if PLENUM_TRACE names a folder. All functions accept NULL for "disabled". Hold the
 * stream's lock. */
#ifndef LIBDIST_BATCH_TRACE_H
#define LIBDIST_BATCH_TRACE_H

#include <stdint.h>

#include <plenum/error.h>
#include <plenum/job.h>

#include "common/net/wire.h"

struct trace;

/** The trace of one batch. Times are CLOCK_MONOTONIC, ns. */
struct trace_batch {
    uint64_t index, epoch, position;
    uint64_t asked_ns, done_ns, leased_ns, released_ns;
    struct wire_done done; /* reported by the loader */
    uint32_t slot;
};

/**
 * Create a file in the folder that PLENUM_TRACE names. `*ret` is NULL if it names none.
 *
 * Returns 0, or -errno with a message. A stream works even if it cannot be traced.
 */
int trace_open(const struct plenum_job_info *info, const char *title, struct trace **ret,
               struct plenum_error *err);

/** Complete the file, and free the trace. */
void trace_close(struct trace *trace);

/** Record that the program has waited in plenum_stream_next(). */
void trace_wait(struct trace *trace, uint64_t begin_ns, uint64_t end_ns);

/** Record a batch that has been released, so that all its times are known. */
void trace_batch(struct trace *trace, const struct trace_batch *batch);

/** Record an incident that has just happened. */
void trace_incident(struct trace *trace, const char *text);

#endif
