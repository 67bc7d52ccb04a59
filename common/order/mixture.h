/* SPDX-License-Identifier: MIT */
/* mixture.h - the order of a plan: several data sets with weights that may change, or one.
 *
 * Several sets share blocks of K positions by quota (shares.h), counted from the beginning of the
 * run: global position g = epoch * N + position. The run consists of pieces; each begins at a
 * position and has its own weights. Each set has its own order (sampler.h) and its own passes,
 * which do not depend on epochs. With a single set, each pass is an epoch. */
#ifndef COMMON_MIXTURE_H
#define COMMON_MIXTURE_H

#include <stdint.h>

#include "common/order/philox.h"
#include "common/order/sampler.h"

enum {
    MIXTURE_SETS_MAX = 64,
    MIXTURE_PIECES_MAX = 1024,
    MIXTURE_WEIGHTS_MAX = 16384, /* pieces * sets */
    MIXTURE_BLOCK = 64,          /* positions per block, unless the plan sets another number */
};

/** The weights that apply starting at a global position. */
struct mixture_piece {
    uint64_t start;          /* a multiple of the block; 0 for the first */
    const uint32_t *weights; /* [sets]; their sum is 1 to 2^32 - 1 */
};

/** One set. */
struct mixture_set {
    const char *name;
    const struct sampler_table *table;
    uint32_t first; /* index of its first sample among those of all sets */
};

/** The parts of a mixture. All are borrowed; the tables must outlive the mixture. */
struct mixture_parts {
    const struct mixture_set *sets;
    uint32_t num_sets;
    const struct mixture_piece *pieces;
    uint32_t num_pieces;
    uint32_t block;     /* K */
    uint32_t positions; /* N: positions per epoch */
};

/** Opaque and constant. Threads: any. */
struct mixture;

/** Create a mixture. Returns 0 or -ENOMEM. */
int mixture_create(const struct mixture_parts *parts, uint64_t seed, struct mixture **ret);
/** Destroy a mixture. NULL is ignored. */
void mixture_destroy(struct mixture *mixture);

/** A place in the order of a set: the t-th sample that it shows in the run, from 0. */
struct mixture_turn {
    uint32_t set;
    uint64_t t;
};

/** Find the turn that global position g shows. */
struct mixture_turn mixture_locate(const struct mixture *mixture, uint64_t g);
/** Find the global position that shows this turn. Returns UINT64_MAX if none does, because the
 * set's weight stays 0. */
uint64_t mixture_find(const struct mixture *mixture, const struct mixture_turn *turn);
/** Returns the start of the first block that may show a pass of a set; UINT64_MAX if the pass is
 * never shown. */
uint64_t mixture_pass_start(const struct mixture *mixture, uint32_t set, uint64_t pass);
/** Count the samples of a set that positions below g show; g is a multiple of the block. */
uint64_t mixture_before(const struct mixture *mixture, uint32_t set, uint64_t g);

/** Count the samples of each set that are shown before the block of a position: `ret` [sets].
 *  Returns the number of sets, or 0 if there is one order of all samples. */
uint32_t mixture_shown(const struct mixture *mixture, uint64_t epoch, uint64_t position,
                       uint64_t ret[MIXTURE_SETS_MAX]);

/** Like mixture_shown(), but exact, and for global position g. Takes up to half a microsecond for
 * each position of a block. */
uint32_t mixture_count(const struct mixture *mixture, uint64_t g, uint64_t ret[MIXTURE_SETS_MAX]);

/** Returns the sample that a position of an epoch shows, numbered through all sets. */
uint32_t mixture_sample(const struct mixture *mixture, uint64_t epoch, uint32_t position);
/** Returns a substitute for a bad sample, chosen by a draw: see sampler_substitute(). */
uint32_t mixture_substitute(const struct mixture *mixture, uint64_t epoch, uint32_t position,
                            const struct philox_block *block);

/** Call `found` for each position of an epoch that shows a sample, numbered through all sets, in
 * any order. See sampler_find(). */
void mixture_find_sample(const struct mixture *mixture, uint64_t epoch, uint32_t sample,
                         sampler_found *found, void *arg);

/**
 * Returns how many positions an epoch needs to show all samples of set `named` with the first
 * piece's weights. If `named` is UINT32_MAX, it is the number of positions that show all samples of
 * every set with a weight in that piece. Returns 0 if that is more than 2^32 - 2; `ret_set` is then
 * the set that needs them.
 */
uint32_t mixture_epoch(const struct mixture_parts *parts, uint32_t named, uint64_t seed,
                       uint32_t *ret_set);

#endif
