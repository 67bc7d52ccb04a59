/* SPDX-License-Identifier: MIT */
/* stream_open.h - how the rest of Plenum opens streams, in addition to plenum_stream_open(). */
#ifndef LIBDIST_STREAM_OPEN_H
#define LIBDIST_STREAM_OPEN_H

#include <stdbool.h>

#include <plenum/stream.h>

/** Settings with which an unchanged program is measured or checked. NULL: from the environment. */
struct stream_trial {
    const char *source; /* real, generated or synthetic: PLENUM_SOURCE */
    const char *verify; /* percentage of batches to verify: PLENUM_VERIFY_BATCHES */
};

/** Like plenum_stream_open(), but also accepts split = file. `trial` may be NULL. `held`: nothing
 *  is requested until stream_release(). */
int stream_open(const struct plenum_job_info *info, const struct plenum_stream_options *options,
                const struct stream_trial *trial, bool held, struct plenum_stream **ret,
                struct plenum_error *err);
/** Start prefetching; with `span`, the steps of split = file that the instances have agreed on. */
void stream_release(struct plenum_stream *s, uint64_t span);

#endif
