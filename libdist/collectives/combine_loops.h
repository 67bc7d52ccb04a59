/* SPDX-License-Identifier: MIT */
/* combine_loops.h - the loops of combine(), of which there are several sets. */
#ifndef LIBDIST_COLLECTIVES_COMBINE_LOOPS_H
#define LIBDIST_COLLECTIVES_COMBINE_LOOPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/comm.h>

enum { COMBINE_TYPES = PLENUM_BFLOAT16 + 1, COMBINE_OPS = PLENUM_MAX + 1 };

/** Combines along the tree, and then divides by `divisor` unless that is 0. */
typedef void combine_loop(unsigned char *to, const unsigned char *const *from, uint32_t instances,
                          size_t count, uint32_t divisor);

/** One set of loops. */
struct combine_loops {
    const char *name;
    bool (*usable)(void);
    combine_loop *run[COMBINE_TYPES][COMBINE_OPS];
};

/** All sets, the fastest first, ended by NULL. The last one works everywhere. */
extern const struct combine_loops *const combine_loops[];

extern const struct combine_loops combine_portable;
#ifdef __x86_64__
extern const struct combine_loops combine_avx2;
#endif

#endif
