/* SPDX-License-Identifier: MIT */
/* slot.h - the memory for batches: rings, and the slots that they are cut into. Call everything
 * with the stream's lock held. */
#ifndef LIBDIST_SLOT_H
#define LIBDIST_SLOT_H

#include <stdbool.h>
#include <stdint.h>

#include <plenum/stream.h>

#include "common/net/ring.h"
#include "common/net/wire.h"
#include "common/util/lock.h"
#include "libdist/batch_trace.h"

struct loader_session;

enum { DEPTH_MAX = 64, EXTRA_SLOTS = 2, HEDGE_SLOTS = 2 };
/* When batches are verified, each batch in flight needs a second slot, and one of them a third. */
enum { SLOTS_MAX = DEPTH_MAX + EXTRA_SLOTS + DEPTH_MAX + 1 };

enum slot_state {
    SLOT_FREE,
    SLOT_FILLING,    /* requested from a loader */
    SLOT_CANCELLING, /* abandoned, but its loader may still write */
    SLOT_CHECKING,   /* filled, and to be compared with another loader's result */
    SLOT_READY,
    SLOT_LEASED,
};

/** Room for one batch, and what the client knows about it. A lease is a pointer to one. */
struct plenum_lease {
    /* Written by slot.c only. */
    struct slot_set *set;
    uint32_t index;
    enum slot_state state;
    struct loader_session
        *session;     /* FILLING, CANCELLING, CHECKING: the session whose work it is */
    uint64_t request; /* number of the last RENDER */
    /* For the slot's user. */
    struct trace_batch times;
    uint64_t *positions; /* [S * local] */
    uint8_t *valid;      /* [S * local] */
    uint64_t *epochs;    /* [S], filled in when the batch is returned */
    /* [S * local] in the slot, filled in when the batch is returned; NULL: no mixing */
    int64_t *labels2;
    /* [S * local] in the slot, filled in when the batch is returned; NULL: no mixing */
    float *weights;
    bool has_geometry; /* the loader has reported the geometry */
};

/** A ring with its slots. There is one for each session on this host, and one shared by all remote
 *  sessions, which never write into it themselves. It lives as long as a session, a lease or a
 *  ready batch needs it. */
struct slot_set {
    /* Constant. */
    struct plenum_stream *stream;
    struct lock *lock;
    struct ring *ring;
    uint32_t num_slots;
    /* Written by slot.c only. */
    /* One for each session that uses it, and each CHECKING, READY or LEASED slot; one each for
     * stream->shown and stream->loaders->remote. */
    unsigned refs;
    /* For stream.c: the list of rings that the program knows. */
    bool shown;
    struct slot_set *next_shown;
    struct plenum_lease slots[];
};

/** Move FREE to FILLING: a batch is requested from the session. */
void slot_fill(struct plenum_lease *slot, struct loader_session *session, uint64_t request);
/** Move FILLING to CANCELLING: the request is cancelled, but its loader may still write. */
void slot_call_back(struct plenum_lease *slot);
/** Move FILLING to CHECKING: the result must be compared. */
void slot_keep(struct plenum_lease *slot);
/** Move FILLING or CHECKING to READY: the batch can be returned. */
void slot_settle(struct plenum_lease *slot);
/** Move READY to LEASED: the program has the batch. */
void slot_lease(struct plenum_lease *slot);
/** Move any state but FREE to FREE. May free the ring, too. */
void slot_free(struct plenum_lease *slot);

/** Create a ring of `n` slots, with one reference. Returns 0, or -errno with a message. */
int slot_set_create(const struct wire_open *open, uint32_t n, struct plenum_stream *stream,
                    struct lock *lock, struct slot_set **ret, struct plenum_error *err);
struct slot_set *slot_set_ref(struct slot_set *set);
/** Drop a reference. NULL is ignored. */
void slot_set_unref(struct slot_set *set);
/** In a forked child: unmap the memory, because the child would keep it after the parent has ended.
 *  If the program holds batches in it, it stays mapped. NULL is ignored. */
void slot_set_leave(struct slot_set *set);

/** Returns a FREE slot, or NULL. */
struct plenum_lease *slot_set_find_free(struct slot_set *set);
/** Returns the slot, FILLING or CANCELLING, of this request to the session; or NULL. */
struct plenum_lease *slot_set_find_asked(struct slot_set *set, const struct loader_session *session,
                                         uint64_t request);
/** Free the slots that the session was to fill. Its loader must be a remote one, which never writes
 * into them itself. */
void slot_set_free_asked(struct slot_set *set, const struct loader_session *session);
unsigned slot_set_count(const struct slot_set *set, enum slot_state state);

#endif
