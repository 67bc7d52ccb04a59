/* SPDX-License-Identifier: MIT */
/* schedule.h - the batches of a stream: which loader renders which one, and when. Call everything
 * with the stream's lock held. */
#ifndef LIBDIST_SCHEDULE_H
#define LIBDIST_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include <plenum/stream.h>

#include "common/net/wire.h"
#include "common/order/order.h"
#include "libdist/slot.h"

struct loader;
struct loader_session;

/* For stream.c. */

/** Create the schedule. Returns 0, or -ENOMEM with a message. */
int schedule_create(struct plenum_stream *s, struct plenum_error *err);
/** Begin with the first step, once the stream's order is known. */
void schedule_begin(struct plenum_stream *s);
/** Free the schedule, after schedule_drop(). Has no effect if it was not created. */
void schedule_free(struct plenum_stream *s);
/** Request as many batches as free slots and the depth allow. */
void schedule_pump(struct plenum_stream *s);
/** Drop all batches, and cancel the requests for them. */
void schedule_drop(struct plenum_stream *s);
/** Drop all batches, and continue from this position, at which a step begins. */
void schedule_seek(struct plenum_stream *s, struct order_place place);

/** A rendered batch. */
struct made_batch {
    struct order_place place;  /* position of its first step */
    struct order_place after;  /* position after its last step that counts */
    struct plenum_lease *slot; /* READY */
    uint32_t substituted;
};

/** Returns whether schedule_next() would return something. */
bool schedule_has_next(struct plenum_stream *s);
/** Get the next batch in the order of delivery; or its error, which is permanent. */
int schedule_next(struct plenum_stream *s, struct made_batch *ret, struct plenum_error *err);
/** Returns whether the last batch of the last epoch has been taken. */
bool schedule_is_through(struct plenum_stream *s);

/** Returns whether the program holds every slot, so that waiting would never end. */
bool schedule_starved(struct plenum_stream *s);

/* For loaders.c and lookup.c. */

/** Forget the failures of the removed loader whose bit this new loader has taken over. */
void schedule_admit(const struct loader *l);
/** Handle a loader's answer for a slot (FILLING), which it will not touch again; NULL: a slot whose
 * request was cancelled is free. */
void schedule_done(struct loader *l, struct plenum_lease *slot, const struct wire_done *done);
/** Take back the requests that this session has not answered. The next schedule_pump() requests
 * their batches again, unless another loader is rendering them already. */
void schedule_release(struct plenum_stream *s, const struct loader_session *se);
/** After a session is lost: decide again about the batches that are being verified
 * (batch_verify.h), which get no answers from it. */
void schedule_confirm(struct plenum_stream *s);
/** Returns the number of batches to request from other loaders now; they are counted as moved. */
unsigned schedule_count_moved(struct plenum_stream *s);
/** Is the session's work, or its result for a comparison, still needed? */
bool schedule_waits_for(const struct plenum_stream *s, const struct loader_session *se);
/** Find late batches and request them from other loaders. Returns the time of the next call. */
uint64_t schedule_tick(struct plenum_stream *s, uint64_t now_ns);
/** In a forked child: unmap the rings. */
void schedule_leave(struct plenum_stream *s);
/** Add the statistics about batches. */
void schedule_get_stats(const struct plenum_stream *s, struct plenum_stream_stats *ret);

#endif
