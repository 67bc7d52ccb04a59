/* SPDX-License-Identifier: MIT */
/* loaders.h - the loaders of a stream, and what their sessions tell. All is called with the
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

/* For stream.c and io.c. */

/** Of a stream that is being made: those that `named` (addresses, or NULL for the job's own) stands
 * for. 0, or
 * -errno with a sentence; loaders_free() in any case. */
int loaders_create(struct plenum_stream *s, const char *named, struct plenum_error *err);
/** How many there are; is there one by TCP? */
unsigned loaders_count(struct plenum_stream *s);
bool loaders_has_remote(const struct plenum_stream *s);
/** The stream is made: they may be spoken to. */
void loaders_begin(struct plenum_stream *s);

/** Do what is due: connect, ping, hedge, give up. Returns when to be called next (CLOCK_MONOTONIC,
 * ns). */
uint64_t loaders_tick(struct plenum_stream *s, uint64_t now_ns);
/** Its connection is readable or writable: false where it is none of this stream's. */
bool loaders_ready(struct plenum_stream *s, const void *tag);
/** This process was stopped: forgive the loaders that were silent meanwhile. */
void loaders_forgive(struct plenum_stream *s, uint64_t now_ns);
/** The ring of the loader that is most likely to deliver, or NULL. */
const struct ring *loaders_ring(struct plenum_stream *s);
/** Add what is known of loaders. */
void loaders_get_stats(struct plenum_stream *s, struct plenum_stream_stats *ret);
/** Have loaders opened anew, since what is asked for has changed. */
void loaders_reopen(struct plenum_stream *s);
/** Does nobody listen at the job's own address, so that this process is to keep a loader there?
 * Asked once. */
bool loaders_want_keeper(struct plenum_stream *s, const char **ret_address);
/** The own loader's address was bound, or its queue full, and nobody could be met there: it is
 * believed to be taken when that happens again and again. */
void loaders_own_is_taken(struct plenum_stream *s);
/** In a forked child: close connections, and let go of the memory of rings, which would stay after
 * the program's end; but for those of which the program holds batches. */
void loaders_leave(struct plenum_stream *s);
/** End all connections for good. */
void loaders_fini(struct plenum_stream *s);
/** Free what is left then. Without the lock: nobody else has the stream any more. */
void loaders_free(struct plenum_stream *s);

/* What a session (session.h) tells. */

/** It could not be connected to. */
void loaders_unreached(struct loader *l, int code);
/** An unauthenticated peer listens there: is there another address to try now? */
bool loaders_unauthenticated(struct loader *l);
/** A loader has told the shapes of the stream's fields: 0; -ESTALE they are not those that another
 * has told; -EINVAL a batch would be too large. */
int loaders_fields(struct loader *l, const struct wire_fields *m, struct plenum_error *err);
/** It has greeted us, and can serve `open`: the ring that it is to fill, with a reference. Errors
 * are our own. */
int loaders_greeted(struct loader *l, const struct wire_open *open, struct slot_set **ret,
                    struct plenum_error *err);
/** Its keeper says that it is still starting, and with what that is busy. */
void loaders_starting(struct loader *l, const char *text);
/** Our own memory is short, or descriptors, and no other loader can help: true when that may pass;
 * else the stream has failed. */
bool loaders_short(struct loader *l, int code, const char *text);
/** It has told what the data set is: 0, or why that cannot be. */
int loaders_described(struct loader *l, const struct wire_opened *m, struct plenum_error *err);
/** It is open: give it work. */
void loaders_opened(struct loader *l, const struct wire_opened *m);
/** It says that it will not serve us: true where that may pass. */
bool loaders_refused(struct loader *l, int code, const char *text);
/** It is there, and not open yet. */
void loaders_alive(struct loader *l, uint64_t now_ns);
/** It has answered for a slot (FILLING) and let go of it. */
void loaders_done(struct loader *l, struct plenum_lease *slot, const struct wire_done *done);
/** It has answered for what was called back. */
void loaders_freed(struct loader *l);
/** A name has come: 0, or -EPROTO where it was not asked for. */
int loaders_named(struct loader *l, uint64_t request, const struct wire_name *m);
/** Nothing of what it was asked for and has not answered will come. */
void loaders_released(struct loader *l);
/** The session is down, and was useless since `since_ns`; `ran`: it was open. session_error() says
 * why. */
void loaders_lost(struct loader *l, bool ran, uint64_t since_ns);

#endif
