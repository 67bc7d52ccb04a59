/* SPDX-License-Identifier: MIT */
/* combine.h - the arithmetic of allreduce and reduce-scatter, shared by all carriers. */
#ifndef LIBDIST_COLLECTIVES_COMBINE_H
#define LIBDIST_COLLECTIVES_COMBINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/comm.h>

/** Returns the bytes of one element. */
size_t combine_size(enum plenum_type type);

/**
 * Combine one run of elements from each instance, along a tree that depends only on the number of
 * instances. The result for one instance is its value. More instances are split in two parts, whose
 * results are combined; the first part has the largest power of two that is less than their number.
 * So a result has the same bits for every carrier, piece and processor, and whatever floating-point
 * mode the program has set.
 *
 * float16 and bfloat16 are added as float32 along the whole tree, and rounded once. A NaN becomes
 * the canonical quiet one. The minimum or maximum of floats is NaN if any value is, and -0 is less
 * than +0. Integers wrap; their mean is rounded towards zero.
 *
 * @param to    [count]; may be one of `from`, and must not overlap them otherwise
 * @param from  [instances][count], ordered by instance, at any alignment
 */
void combine(void *to, const void *const *from, uint32_t instances, size_t count,
             enum plenum_type type, enum plenum_op op);

/** A node of the tree: `inputs` runs of elements, which are its leaves, or two that are its
 * children. The result is divided by `divisor`, unless that is 0; a mean is the sum until then. */
struct combine_inputs {
    const void *const *from; /* [inputs][count] */
    uint32_t inputs, divisor;
};

/** Like combine(), for one node. */
void combine_node(void *to, const struct combine_inputs *node, size_t count, enum plenum_type type,
                  enum plenum_op op);

/** Are sums of this type float32 until they are rounded once? */
bool combine_is_wide(enum plenum_type type, enum plenum_op op);

/** Convert float16 or bfloat16 to float32, and float32 to them like combine() does. Buffers do not
 * overlap, and have any alignment. */
void combine_widen(void *to, const void *from, size_t count, enum plenum_type type);
void combine_narrow(void *to, const void *from, size_t count, enum plenum_type type);

#endif
