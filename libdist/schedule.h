/* SPDX-License-Identifier: MIT */
/* schedule.h - the batches of a stream: which loader is asked for which, and when. All is called
 * with the stream's lock held. */
#ifndef LIBDIST_SCHEDULE_H
#define LIBDIST_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include <plenum/stream.h>

#include "common/order.h"
#include "common/wire.h"
#include "libdist/slot.h"

struct loader;
struct session;

/* For stream.c. */

/** 0 or -ENOMEM. */
int schedule_create(struct plenum_stream *s, struct plenum_error *err);
/** After schedule_drop(). NULL is nothing. */
void schedule_free(struct plenum_stream *s);
/** Ask for as many batches as there are free slots and depth allows. */
void schedule_pump(struct plenum_stream *s);
/** Nothing is decided on any more. */
void schedule_drop(struct plenum_stream *s);
/** The same, and go on from this place, which is settled. */
void schedule_seek(struct plenum_stream *s, struct order_place place);

/** A batch that was made. */
struct made {
    struct order_place place;  /* of its first step */
    struct order_place after;  /* behind its last step that counts */
    struct plenum_lease *slot; /* READY */
    uint32_t substituted;
};

/** Would schedule_next() have an answer? */
bool schedule_has_next(struct plenum_stream *s);
/** The next batch in the order of delivery; or its error, which stays. */
int schedule_next(struct plenum_stream *s, struct made *ret, struct plenum_error *err);
/** Was the last batch of the last epoch taken? */
bool schedule_is_through(struct plenum_stream *s);

/** Is every slot in the program's hands, so that waiting would be for ever? */
bool schedule_starved(struct plenum_stream *s);

/* For loaders.c and lookup.c. */

/** A loader has come. */
void schedule_admit(const struct loader *l);
/** It has answered for a slot (FILLING) and let go of it. */
void schedule_done(struct loader *l, struct plenum_lease *slot, const struct wire_done *done);
/** What this session has not answered is to be asked of another. */
void schedule_release(struct plenum_stream *s, const struct session *se);
/** A session is lost: it will not confirm the batches that it was asked to (verify.h). */
void schedule_confirm(struct plenum_stream *s);
/** Batches that are to be asked of others now; they are counted as moved. */
unsigned schedule_count_moved(struct plenum_stream *s);
/** Is its work wanted, or what it made to be compared? */
bool schedule_waits_for(const struct plenum_stream *s, const struct session *se);
/** Look for batches that are late, and ask others for them. Returns when to look again. */
uint64_t schedule_tick(struct plenum_stream *s, uint64_t now_ns);
/** In a forked child: let go of the memory of rings. */
void schedule_leave(struct plenum_stream *s);
/** Add what is known here. */
void schedule_get_stats(const struct plenum_stream *s, struct plenum_stream_stats *ret);

#endif
