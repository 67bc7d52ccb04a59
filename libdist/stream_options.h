/* SPDX-License-Identifier: MIT */
/* stream_options.h - sets the options of a stream. Callers hold the stream's lock. */
#ifndef LIBDIST_STREAM_OPTIONS_H
#define LIBDIST_STREAM_OPTIONS_H

#include <plenum/stream.h>

#include "libdist/stream_open.h"

/** Check that an instance can own these replicas. Returns 0 or -EINVAL. */
int stream_check_share(const struct plenum_share *share, struct plenum_error *err);
/** Set the stream's rank in the job; without `info`, it is alone. Returns 0 or -EINVAL. */
int stream_set_job(struct plenum_stream *s, const struct plenum_job_info *info,
                   struct plenum_error *err);
/** Set everything else, once the loaders are known. Returns 0, or an error in an option or a
 * variable. */
int stream_set_options(struct plenum_stream *s, const struct plenum_stream_options *options,
                       const struct stream_trial *trial, struct plenum_error *err);

#endif
