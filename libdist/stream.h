/* SPDX-License-Identifier: MIT */
/* stream.h - how the rest of Plenum opens streams, beside plenum_stream_open(), and what the rest
 * of libplenum may have of them. */
#ifndef LIBDIST_STREAM_H
#define LIBDIST_STREAM_H

#include <stdbool.h>

#include <plenum/stream.h>

#include "common/message.h"

/** Settings by which an unchanged program is measured or checked. NULL: the environment's. */
struct stream_trial {
    const char *source; /* real, generated or synthetic: PLENUM_SOURCE */
    const char *verify; /* batches of a hundred that are verified: PLENUM_VERIFY_BATCHES */
};

/** As plenum_stream_open(). `trial` may be NULL. `held`: nothing is asked for until
 * stream_release(). */
int stream_open(const struct plenum_job_info *info, const struct plenum_stream_options *options,
                const struct stream_trial *trial, bool held, struct plenum_stream **ret,
                struct plenum_error *err);
/** Begin to prefetch; with `span` steps of split = file that the instances have agreed on. */
void stream_release(struct plenum_stream *s, uint64_t span);

/* Within libplenum. */

/** Nothing more will come of this stream, for this reason; the first one counts. With the lock
 * held. */
MESSAGE void stream_fail(struct plenum_stream *s, int code, const char *text);
/** Why nothing more comes: an error, with its sentence. With the lock held. */
int stream_over(const struct plenum_stream *s, struct plenum_error *err);
/** Something that plenum_stream_next() or another call may be waiting for has changed. With the
 * lock held. */
void stream_changed(struct plenum_stream *s);
/** The lock, for io.c. */
void stream_lock(struct plenum_stream *s);
void stream_unlock(struct plenum_stream *s);
/** In a forked child: let go of connections and memory. */
void stream_leave(struct plenum_stream *s);
/** Are there other instances of the job on this host? */
bool stream_has_neighbours(const struct plenum_stream *s);
/** One more reference. */
void stream_ref(struct plenum_stream *s);
/** Drop one reference; the last one frees. Without the stream's lock. */
void stream_unref(struct plenum_stream *s);
/** Remember one sentence for plenum_stream_take_warning(). With the lock held. */
MESSAGE_FORMAT(2, 3)
void stream_warn(struct plenum_stream *s, const char *format, ...);

#endif
