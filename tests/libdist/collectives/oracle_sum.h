/* SPDX-License-Identifier: MIT */
/* oracle_sum.h - a second, slow implementation of sums: one element at a time, by the definition of
 * the tree in combine.h. */
#ifndef TESTS_ORACLE_SUM_H
#define TESTS_ORACLE_SUM_H

#include <stddef.h>
#include <stdint.h>

#include <plenum/comm.h>

/** Returns the bits of the result for the bits of each instance's element. */
uint64_t oracle_sum(const uint64_t *values, uint32_t instances, enum plenum_type type,
                    enum plenum_op op);

/** Read and write the bits of element `i`. */
uint64_t oracle_get(const unsigned char *from, size_t i, size_t size);
void oracle_put(unsigned char *to, size_t i, size_t size, uint64_t bits);

#endif
