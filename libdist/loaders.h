/* SPDX-License-Identifier: MIT */
/* loaders.h - the loaders of a stream. Call everything with the stream's lock held. */
#ifndef LIBDIST_LOADERS_H
#define LIBDIST_LOADERS_H

#include <stdbool.h>
#include <stdint.h>

#include <plenum/stream.h>

struct ring;

/** Create the loaders of a new stream from `named` (addresses, or NULL for the job's own). Returns
 * 0, or -errno with a message; call loaders_free() in either case. */
int loaders_create(struct plenum_stream *s, const char *named, struct plenum_error *err);
/** Returns the number of loaders. */
unsigned loaders_count(struct plenum_stream *s);
/** Returns whether one of the loaders uses TCP. */
bool loaders_has_remote(const struct plenum_stream *s);
/** Fill in what all sessions share, once the stream is complete. Before that, contact no loader. */
void loaders_begin(struct plenum_stream *s);

/** Do pending work: connect, ping, hedge, give up. `jumped`: this process was stopped, so do not
 *  count the loaders' silence. Returns the time of the next call (CLOCK_MONOTONIC, ns). */
uint64_t loaders_tick(struct plenum_stream *s, bool jumped);
/** Handle a connection that is readable or writable. Returns false if it does not belong to this
 * stream. */
bool loaders_ready(struct plenum_stream *s, const void *tag);
/** Returns the ring of an open loader, preferably of one on this host; NULL if none is open. */
const struct ring *loaders_ring(struct plenum_stream *s);
/** Add the statistics about loaders and batches. */
void loaders_get_stats(struct plenum_stream *s, struct plenum_stream_stats *ret);
/** Reopen all sessions, because the request has changed. */
void loaders_reopen(struct plenum_stream *s);
/** Adapt to a new share of steps, while nothing is requested: reopen the sessions whose loaders
 * cannot use it. */
void loaders_reshape(struct plenum_stream *s);
/** In a forked child: close its copies of connections, and unmap rings, because the child would
 * keep their memory after the parent has ended. Rings with batches that the program holds stay
 * mapped. */
void loaders_leave(struct plenum_stream *s);
/** End all connections for good. */
void loaders_fini(struct plenum_stream *s);
/** Free everything. Call it without the lock, as the only user of the stream. */
void loaders_free(struct plenum_stream *s);

#endif
