/* SPDX-License-Identifier: MIT */
/* cursor_check.h - checks that a stream can continue where another run stopped. */
#ifndef LIBDIST_CURSOR_CHECK_H
#define LIBDIST_CURSOR_CHECK_H

#include <plenum/stream.h>

/** Check that the cursor is valid for the stream. The caller holds the lock. Returns 0;
 *  -ESTALE with a message that says how the run that made the cursor differed, as far as this is
 *  known; or -ENOMEM. */
int cursor_check(const struct plenum_stream *s, const struct plenum_cursor *cursor,
                 struct plenum_error *err);

#endif
