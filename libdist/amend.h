/* SPDX-License-Identifier: MIT */
/* amend.h - changes of a stream's plan during the run. */
#ifndef LIBDIST_AMEND_H
#define LIBDIST_AMEND_H

#include <plenum/stream.h>

/** The body of plenum_stream_amend(). The caller has entered the stream and holds its lock. */
int amend_stream(struct plenum_stream *s, const char *lines, struct plenum_error *err);

#endif
