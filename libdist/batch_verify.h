/* SPDX-License-Identifier: MIT */
/* batch_verify.h - batches that two loaders render, and that must be equal. */
#ifndef LIBDIST_BATCH_VERIFY_H
#define LIBDIST_BATCH_VERIFY_H

#include <stdbool.h>
#include <stdint.h>

#include <plenum/error.h>

#include "common/net/wire.h"
#include "common/order/order.h"
#include "libdist/slot.h"

/** The state of one batch; all zeros if it is not verified. */
struct batch_verify {
    bool wanted;    /* the batch is requested from two loaders */
    bool undecided; /* the two differ, and a third loader has been asked to arbitrate */
    struct plenum_lease *arbiter; /* the slot that the third loader fills; NULL: none */
    uint64_t differs;             /* the first sample of the batch that differs */
};

/** What all batches of a stream have in common. */
struct verify_stream {
    const struct wire_open *open;
    const struct wire_slot *layout;
    const struct order *order;
    const struct order_steps *steps;
};

enum verify_verdict {
    VERIFY_WAIT,      /* a result is still missing */
    VERIFY_ALONE,     /* only one loader is left, and has answered: use its batch */
    VERIFY_ALIKE,     /* both have answered, and their batches are equal */
    VERIFY_ARBITRATE, /* the batches differ: request a third one, once */
    VERIFY_UNLIKE,    /* the batches differ, and no third loader can answer: failure */
};

/** Returns whether a hash of this batch's position puts it into the share (0 to 1) to verify. */
bool verify_is_wanted(double share, uint64_t seed, struct order_place place);

/** Decide about a batch from its slots `one` and `two`. Records in `v` that they differ, and where.
 * A slot is FILLING; or CHECKING, once its loader has answered; or NULL, if the batch is no longer
 * requested from that loader. */
enum verify_verdict verify_look(struct batch_verify *v, const struct verify_stream *stream,
                                const struct plenum_lease *one, const struct plenum_lease *two);

/** A loader and the slot that it has filled. */
struct verify_side {
    const char *loader;
    const struct plenum_lease *slot; /* NULL if there is no third loader */
};

/** Write the message about two loaders whose batches differ. It names the sample and, if there was
 * a third loader, the one that is outvoted. `place` is that of the batch's first step. Returns
 * -EBADMSG. */
int verify_arbitrate(const struct batch_verify *v, const struct verify_stream *stream,
                     struct order_place place, const struct verify_side sides[3],
                     struct plenum_error *err);

#endif
