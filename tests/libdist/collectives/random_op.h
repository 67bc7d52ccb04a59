/* SPDX-License-Identifier: MIT */
/* random_op.h - random collectives, whose results every instance computes a second time. */
#ifndef TESTS_RANDOM_OP_H
#define TESTS_RANDOM_OP_H

#include <stdint.h>

#include <plenum/plenum.h>

/** What random_op_run() draws from: the same in all instances. */
struct random_op_limits {
    uint64_t seed;
    size_t bytes; /* at most, of an instance's data */
    int kind;     /* 0 to RANDOM_OP_KINDS - 1, or -1: any */
};

enum { RANDOM_OP_KINDS = 6 };

/**
 * Draw the collective with this number, call it, and check its result.
 *
 * Returns what the collective returned, or 1 after a message if the result is wrong.
 */
int random_op_run(struct plenum_job *job, const struct random_op_limits *limits, uint64_t number,
                  struct plenum_error *err);

#endif
