/* SPDX-License-Identifier: MIT */
/* comm_moved.h - reductions and exchanges over carriers that only move bytes. */
#ifndef LIBDIST_COLLECTIVES_COMM_MOVED_H
#define LIBDIST_COLLECTIVES_COMM_MOVED_H

#include <stdint.h>

#include "libdist/collectives/comm_priv.h"

/** What moves the bytes. */
struct comm_mover {
    const struct plenum_carrier *carrier;
    int (*exchange)(const struct comm_exchange *x, struct plenum_error *err); /* or NULL */
    uint32_t instances, index;
};

/** Like those of struct comm_backend. Sums have the bits that every other carrier's have. */
int comm_moved_allreduce(const struct comm_mover *by, const struct comm_reduction *x,
                         struct plenum_error *err);
int comm_moved_reduce_scatter(const struct comm_mover *by, const struct comm_reduction *x,
                              struct plenum_error *err);
int comm_moved_exchange(const struct comm_mover *by, const struct comm_exchange *x,
                        struct plenum_error *err);

#endif
