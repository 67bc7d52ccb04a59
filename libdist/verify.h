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

/** What is kept of one batch; all zero where it is not verified. */
struct verify {
    bool wanted; /* two loaders are asked for it */
    /* they do not make the same of it: a third was asked, if one could be */
    bool undecided;
    struct plenum_lease *third; /* what that one fills; or NULL */
    uint64_t differs;           /* in this sample of the batch */
};

enum verify_verdict {
    VERIFY_WAIT,   /* for an answer */
    VERIFY_ALONE,  /* only one is left, which has answered: it is believed */
    VERIFY_ALIKE,  /* both have, and made the same of it */
    VERIFY_THIRD,  /* they did not: a third is to be asked, once */
    VERIFY_UNLIKE, /* and none is left to be waited for: the batch fails */
};

/** Is this one of the share of batches, 0 to 1, that are verified? A hash of their place
 * chooses. */
bool verify_is_wanted(double share, uint64_t seed, struct order_place place);

/** What becomes of the batch, of which `one` and `two` (NULL: nobody is asked any more) are made:
 * FILLING, or CHECKING where their loader has answered. */
enum verify_verdict verify_look(struct verify *v, const struct wire_open *open,
                                const struct plenum_lease *one, const struct plenum_lease *two);

/** Who made what, for the sentence. */
struct verify_side {
    const char *loader;
    const struct plenum_lease *slot; /* of the third: NULL where there is none */
};

/** A sentence about two that are not alike, with the sample and, where a third was asked, who is
 * alone with what it makes; returns -EBADMSG. `place`: of the batch's first step. */
int verify_judge(const struct verify *v, const struct wire_open *open, const struct order *order,
                 const struct order_steps *steps, struct order_place place,
                 const struct verify_side sides[3], struct plenum_error *err);

#endif
