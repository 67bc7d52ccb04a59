/* SPDX-License-Identifier: MIT */
/* stream.h - how the rest of Plenum opens streams, in addition to plenum_stream_open(), and how the
 * rest of libplenum uses them. */
#ifndef LIBDIST_STREAM_H
#define LIBDIST_STREAM_H

#include <stdbool.h>

#include <plenum/stream.h>

#include "common/message.h"

/** Settings that measure or check an unchanged program. NULL: from the environment. */
struct stream_trial {
    const char *source; /* real, generated or synthetic: PLENUM_SOURCE */
    const char *verify; /* percentage of batches to verify: PLENUM_VERIFY_BATCHES */
};

/** Like plenum_stream_open(). `trial` may be NULL. `held`: nothing is requested until
 *  stream_release(). */
int stream_open(const struct plenum_job_info *info, const struct plenum_stream_options *options,
                const struct stream_trial *trial, bool held, struct plenum_stream **ret,
                struct plenum_error *err);
/** Start prefetching; with `span`, the steps of split = file that the instances have agreed on. */
void stream_release(struct plenum_stream *s, uint64_t span);

/* Within libplenum. */

/** Fail the stream permanently; the first error counts. Hold the lock. */
MESSAGE void stream_fail(struct plenum_stream *s, int code, const char *text);
/** The error with which the stream has ended, with its message. Hold the lock. */
int stream_over(const struct plenum_stream *s, struct plenum_error *err);
/** Wake plenum_stream_next() and other waiting calls, after a change of state. Hold the lock. */
void stream_changed(struct plenum_stream *s);
/** Drop one reference; the last one frees the stream. Do not hold the stream's lock. */
void stream_unref(struct plenum_stream *s);
/** Queue one message for plenum_stream_take_warning(). Hold the lock. */
MESSAGE_FORMAT(2, 3)
void stream_warn(struct plenum_stream *s, const char *format, ...);

#endif
