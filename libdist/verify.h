/* SPDX-License-Identifier: MIT */
/* verify.h - batches that two loaders make, which must be alike. */
#ifndef LIBDIST_VERIFY_H
#define LIBDIST_VERIFY_H

#include <stdbool.h>
#include <stdint.h>

#include <plenum/error.h>

#include "common/order.h"
#include "common/wire.h"
#include "libdist/slot.h"

/** The state of one batch; all zero where it is not verified. */
struct verify {
    bool wanted;    /* two loaders are asked for it */
    bool undecided; /* their batches differ, and a third loader was asked to arbitrate */
    struct plenum_lease *arbiter; /* the slot that the third fills; NULL: there is none */
    uint64_t differs;             /* the first sample of the batch that is not the same */
};

enum verify_verdict {
    VERIFY_WAIT,      /* an answer is still to come */
    VERIFY_ALONE,     /* one loader is left, and has answered: its batch is used */
    VERIFY_ALIKE,     /* both have answered, and their batches are the same */
    VERIFY_ARBITRATE, /* they differ: a third is to be asked, once */
    VERIFY_UNLIKE,    /* they differ, and no third can answer: the batch fails */
};

/** Is this one of the share of batches, 0 to 1, that are verified? A hash of their place
 * chooses. */
bool verify_is_wanted(double share, uint64_t seed, struct order_place place);

/** What becomes of the batch, of which `one` and `two` (NULL: nobody is asked any more) are made:
 * FILLING, or CHECKING where their loader has answered. */
enum verify_verdict verify_look(struct verify *v, const struct wire_open *open,
                                const struct plenum_lease *one, const struct plenum_lease *two);

/** A loader and the slot that it has filled. */
struct verify_side {
    const char *loader;
    const struct plenum_lease *slot; /* NULL where there is no third */
};

/** Write the sentence about two loaders whose batches differ: it names the sample and, where a
 * third was asked, the loader that is outvoted. Returns -EBADMSG. `place`: of the batch's first
 * step. */
int verify_arbitrate(const struct verify *v, const struct wire_open *open,
                     const struct order *order, const struct order_steps *steps,
                     struct order_place place, const struct verify_side sides[3],
                     struct plenum_error *err);

#endif
