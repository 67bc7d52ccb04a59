/* SPDX-License-Identifier: MIT */
/* combine.h - the arithmetic of allreduce, shared by all carriers. */
#ifndef LIBDIST_COLLECTIVES_COMBINE_H
#define LIBDIST_COLLECTIVES_COMBINE_H

#include <stddef.h>
#include <stdint.h>

#include <plenum/comm.h>

/** Returns the bytes of one element. */
size_t combine_size(enum plenum_type type);

/**
 * Combine `count` elements of `from` into `to`. PLENUM_MEAN adds, like PLENUM_SUM.
 *
 * The minimum or maximum of floats is NaN (the canonical quiet one) if either is NaN, and -0 is
 * less than +0, so that the result depends neither on the order nor on the carrier.
 *
 * @param to, from  at any alignment; they must not overlap
 */
void combine(void *to, const void *from, size_t count, enum plenum_type type, enum plenum_op op);

/** Second half of PLENUM_MEAN: divide by the number of instances; integers round towards zero. */
void combine_divide(void *values, size_t count, enum plenum_type type, uint32_t instances);

#endif
