/* SPDX-License-Identifier: MIT */
/* slot.h - the memory of batches: rings, and the slots that they are cut into. All is called with
 * the stream's lock held. */
#ifndef LIBDIST_SLOT_H
#define LIBDIST_SLOT_H

#include <stdbool.h>
#include <stdint.h>

#include <plenum/stream.h>

#include "common/lock.h"
#include "common/ring.h"
#include "common/wire.h"
#include "libdist/trace.h"

struct session;

enum { DEPTH_MAX = 64, EXTRA_SLOTS = 2, HEDGE_SLOTS = 2 };
/* Where batches are verified, a second for each that is under way, and a third for one. */
enum { SLOTS_MAX = DEPTH_MAX + EXTRA_SLOTS + DEPTH_MAX + 1 };

enum slot_state {
    SLOT_FREE,
    SLOT_FILLING,    /* asked for */
    SLOT_CANCELLING, /* given up, but its loader may still write */
    SLOT_CHECKING,   /* filled, and to be compared with what another loader makes */
    SLOT_READY,
    SLOT_LEASED,
};

/** Room for one batch, and what the client itself knows of it. A lease is a pointer to one. */
struct plenum_lease {
    /* Written by slot.c alone. */
    struct slot_set *set;
    uint32_t index;
    enum slot_state state;
    struct session *session; /* FILLING, CANCELLING, CHECKING: whose work it is */
    uint64_t request;        /* of the last RENDER */
    /* The slot's user's. */
    struct trace_batch times;
    uint64_t *positions; /* [S * local], */
    uint8_t *valid;      /* [S * local], */
    uint64_t *epochs;    /* [S]: filled when the batch is handed out */
    int64_t *labels2;    /* [S * local] in the slot, likewise; NULL: the pipeline does not mix */
    float *weights;      /* likewise */
    bool has_geometry;   /* its loader has told where pixels come from */
};

/** A ring with its slots: one for each session on this host, and one for all others together, which
 * never write into it themselves. It lives as long as a session or a lease or a ready batch needs
 * it. */
struct slot_set {
    /* Constant. */
    struct plenum_stream *stream;
    struct lock *lock;
    struct ring *ring;
    uint32_t num_slots;
    /* Written by slot.c alone. */
    /* sessions, each CHECKING, READY and LEASED slot, the list of those shown, s->remote */
    unsigned refs;
    /* stream.c's: of those that the program was told of. */
    bool shown;
    struct slot_set *next_shown;
    struct plenum_lease slots[];
};

/** FREE to FILLING: the session is asked for a batch. */
void slot_fill(struct plenum_lease *slot, struct session *session, uint64_t request);
/** FILLING to CANCELLING: it is called back, but its loader may still write. */
void slot_call_back(struct plenum_lease *slot);
/** FILLING to CHECKING: what came is to be compared. */
void slot_keep(struct plenum_lease *slot);
/** FILLING or CHECKING to READY: it may be handed out. */
void slot_settle(struct plenum_lease *slot);
/** READY to LEASED: the program has it. */
void slot_lease(struct plenum_lease *slot);
/** Any state but FREE to FREE. The ring may go with it. */
void slot_free(struct plenum_lease *slot);

/** A ring of so many slots, with one reference. */
int slot_set_create(const struct wire_open *open, uint32_t n, struct plenum_stream *stream,
                    struct lock *lock, struct slot_set **ret, struct plenum_error *err);
struct slot_set *slot_set_ref(struct slot_set *set);
/** NULL is nothing. */
void slot_set_unref(struct slot_set *set);
/** In a forked child: let go of the memory, which would stay after the program's end; but not where
 * the program holds batches of it. NULL is nothing. */
void slot_set_leave(struct slot_set *set);

/** A FREE one, or NULL. */
struct plenum_lease *slot_set_find_free(struct slot_set *set);
/** The one, FILLING or CANCELLING, that the session was asked to fill by this request; or NULL. */
struct plenum_lease *slot_set_find_asked(struct slot_set *set, const struct session *session,
                                         uint64_t request);
/** All that the session was asked to fill are FREE: it never writes into them itself. */
void slot_set_free_asked(struct slot_set *set, const struct session *session);
unsigned slot_set_count(const struct slot_set *set, enum slot_state state);

#endif
