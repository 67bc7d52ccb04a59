/* SPDX-License-Identifier: MIT */
/* amend.h - changes of a stream's plan during the run. */
#ifndef LIBDIST_AMEND_H
#define LIBDIST_AMEND_H

#include <plenum/stream.h>

/** plenum_stream_amend(), between its begin and its end. The caller holds the lock. */
int amend_stream(struct plenum_stream *s, const char *lines, struct plenum_error *err);

#endif
