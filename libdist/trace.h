/* SPDX-License-Identifier: MIT */
/* trace.h - the way of each batch, written to a file that Perfetto and Chrome's trace viewer show.
 *
 * On when PLENUM_TRACE names a folder. All functions take NULL for "off", and are called with the
 * stream's lock held. */
#ifndef LIBDIST_TRACE_H
#define LIBDIST_TRACE_H

#include <stdint.h>

#include <plenum/error.h>
#include <plenum/job.h>

#include "common/wire.h"

struct trace;

/** What is told of one batch. Times are CLOCK_MONOTONIC, ns. */
struct trace_batch {
    uint64_t index, epoch, position;
    uint64_t asked_ns, done_ns, leased_ns, released_ns;
    struct wire_done done; /* what the loader told of it */
    uint32_t slot;
};

/**
 * Begin a file in the folder that PLENUM_TRACE names. `*ret` is NULL when it names none.
 *
 * 0, or -errno with a sentence: a stream that cannot be traced is streamed all the same.
 */
int trace_open(const struct plenum_job_info *info, const char *title, struct trace **ret,
               struct plenum_error *err);

/** Finish the file. */
void trace_close(struct trace *trace);

/** The program has waited in plenum_stream_next(). */
void trace_wait(struct trace *trace, uint64_t begin_ns, uint64_t end_ns);

/** A batch has been released: all its times are known. */
void trace_batch(struct trace *trace, const struct trace_batch *batch);

/** Something that went wrong, at this moment. */
void trace_incident(struct trace *trace, const char *text);

#endif
