/* SPDX-License-Identifier: MIT */
/* loaders.h - the loaders of a stream, and the events of their sessions. Call everything with the
 * stream's lock held. */
#ifndef LIBDIST_LOADERS_H
#define LIBDIST_LOADERS_H

#include <stdbool.h>
#include <stdint.h>

#include <plenum/stream.h>

#include "common/address.h"
#include "common/wire.h"
#include "libdist/slot.h"

struct loader;

/* For stream.c. */

/** Create the loaders of a new stream from `named` (addresses, or NULL for the job's own). 0, or
 *  -errno with a message; call loaders_free() in either case. */
int loaders_create(struct plenum_stream *s, const char *named, struct plenum_error *err);
/** How many there are, and whether one uses TCP. */
unsigned loaders_count(struct plenum_stream *s);
bool loaders_has_remote(const struct plenum_stream *s);
/** The stream is complete: loaders may be contacted. */
void loaders_begin(struct plenum_stream *s);

/** Do pending work: connect, ping, hedge, give up. `jumped`: this process was stopped, so do not
 *  count the loaders' silence. Returns the time of the next call (CLOCK_MONOTONIC, ns). */
uint64_t loaders_tick(struct plenum_stream *s, bool jumped);
/** A connection is readable or writable: returns false if it does not belong to this stream. */
bool loaders_ready(struct plenum_stream *s, const void *tag);
/** The ring of the loader most likely to deliver, or NULL. */
const struct ring *loaders_ring(struct plenum_stream *s);
/** Add the statistics about loaders. */
void loaders_get_stats(struct plenum_stream *s, struct plenum_stream_stats *ret);
/** Reopen all sessions, because the request has changed. */
void loaders_reopen(struct plenum_stream *s);
/** In a forked child: close connections and unmap rings, whose memory would otherwise outlive the
 *  program. Keeps rings in which the program holds batches. */
void loaders_leave(struct plenum_stream *s);
/** End all connections for good. */
void loaders_fini(struct plenum_stream *s);
/** Free everything. Without the lock, as the only user of the stream. */
void loaders_free(struct plenum_stream *s);

/* Events of a session (session.h). */

/** Connecting failed. */
void loaders_unreached(struct loader *l, int code);
/** The peer could not be authenticated: is there another address to try now? */
bool loaders_unauthenticated(struct loader *l);
/** A loader has reported the shapes of the stream's fields: 0; -ESTALE if they differ from those of
 *  another loader; -EINVAL if a batch would be too large. */
int loaders_fields(struct loader *l, const struct wire_fields *m, struct plenum_error *err);
/** A loader has said HELLO and can serve `open`. Returns the ring that it will fill, with a
 *  reference. Errors are local ones. */
int loaders_greeted(struct loader *l, const struct wire_open *open, struct slot_set **ret,
                    struct plenum_error *err);
/** The loader's keeper reports that it is still starting, and what it is doing. */
void loaders_starting(struct loader *l, const char *text);
/** This process lacks memory or descriptors, and no other loader can help: true if that may pass;
 *  otherwise the stream has failed. */
bool loaders_short(struct loader *l, int code, const char *text);
/** The loader has described the data set: 0, or an error if the description is not acceptable. */
int loaders_described(struct loader *l, const struct wire_opened *m, struct plenum_error *err);
/** The session is open: assign work to it. */
void loaders_opened(struct loader *l, const struct wire_opened *m);
/** The loader rejects the stream: true if that may pass. */
bool loaders_refused(struct loader *l, int code, const char *text);
/** The loader is alive but not open yet. */
void loaders_alive(struct loader *l, uint64_t now_ns);
/** The loader has answered for a slot (FILLING) and will not touch it again. */
void loaders_done(struct loader *l, struct plenum_lease *slot, const struct wire_done *done);
/** The loader has confirmed a cancellation. */
void loaders_freed(struct loader *l);
/** A name has arrived: 0, or -EPROTO if it was not requested. */
int loaders_named(struct loader *l, uint64_t request, const struct wire_name *m);
/** Pending requests of this loader will not be answered. */
void loaders_released(struct loader *l);
/** The session is down, and has been useless since `since_ns`; `ran`: it was open. session_error()
 *  has the reason. */
void loaders_lost(struct loader *l, bool ran, uint64_t since_ns);

#endif
