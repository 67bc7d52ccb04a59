/* SPDX-License-Identifier: MIT */
/* comm_header.h - what each instance sends about its collective before any data moves, and how the
 * headers of all instances are compared. All carriers use it. */
#ifndef LIBDIST_COLLECTIVES_COMM_HEADER_H
#define LIBDIST_COLLECTIVES_COMM_HEADER_H

#include <stdint.h>

#include <plenum/comm.h>

enum comm_kind {
    COMM_BROADCAST = 1,
    COMM_ALLREDUCE,
    COMM_ALLGATHER,
    COMM_BARRIER,
    COMM_REDUCE_SCATTER,
    COMM_ALLTOALL,
};

enum {
    COMM_NAME_MAX = 32,
    COMM_WHAT_MAX = 56,
    /* Data of at most this many bytes travels after the header. A collective of that size costs one
     * exchange, as it would without a header. */
    COMM_INLINE_BYTES = 128,
};

/** What describes a call. Every byte is compared, so there is no padding, and strings are padded
 * with zeros. */
struct comm_header {
    uint32_t version; /* COMM_HEADER_VERSION */
    uint32_t kind;    /* enum comm_kind */
    uint64_t number;  /* number of the collective, counted from 1 */
    uint64_t bytes;   /* bytes per instance; reduce-scatter: of the result; alltoall: for each */
    uint32_t root;    /* broadcast; otherwise 0 */
    uint32_t type;    /* reductions: enum plenum_type; otherwise 0 */
    uint32_t op;      /* reductions: enum plenum_op; otherwise 0 */
    uint32_t unused;
    char name[COMM_NAME_MAX]; /* the function that the program called */
    char what[COMM_WHAT_MAX]; /* its data, such as "float32 (2, 3)"; "": unknown */
};

enum { COMM_HEADER_VERSION = 1 };

/** What each instance sends first. */
struct comm_block {
    struct comm_header header;
    unsigned char data[COMM_INLINE_BYTES];
};

/** Returns the function's usual name, such as "broadcast". */
const char *comm_kind_name(enum comm_kind kind);

/**
 * Check that all instances have made the same call. Every instance reaches the same conclusion from
 * the same blocks.
 *
 * @param all  [instances], ordered by index
 *
 * Returns 0, or -EIO with a message that names this instance's call and the first different one.
 */
int comm_header_compare(const struct comm_block *all, uint32_t instances, uint32_t index,
                        struct plenum_error *err);

#endif
