/* SPDX-License-Identifier: MIT */
/* sampler.h - the order of one data set of a plan: which of its samples it shows, and how often.
 *
 * A sampler has passes of `positions` positions. It is a function of (seed, pass, position), and
 * has no state. docs/order.md, sections 3, 10 and 11, has the formulas. */
#ifndef COMMON_SAMPLER_H
#define COMMON_SAMPLER_H

#include <stdint.h>

#include "common/order/order.h"

enum sampler_kind {
    SAMPLER_PLAIN,    /* each member `repeat` times per pass, shuffled like a stream */
    SAMPLER_QUOTA,    /* by weight: the expected number per pass, rounded down or up */
    SAMPLER_DRAWN,    /* by weight: an independent draw for each position */
    SAMPLER_STRATA,   /* each member once per pass; each class has its share of each block */
    SAMPLER_BALANCED, /* equal classes in each block, which has a position for each class */
    SAMPLER_CLASSES,  /* blocks of `per_block` different classes with `each` samples */
};

/** A column of an alias table. */
struct sampler_column {
    uint32_t threshold; /* `other` is shown if the second word is not below it */
    uint32_t other;     /* the column itself if it is never replaced */
};

struct sampler_table;

/** The table that is used starting at a pass. */
struct sampler_reweigh {
    uint64_t pass;
    const struct sampler_table *table; /* PLAIN, QUOTA or DRAWN, with the same `positions` */
};

/** The properties of a set's samples that its order depends on, equal for all seeds. The arrays are
 *  borrowed. */
struct sampler_table {
    enum sampler_kind kind;
    uint32_t n;             /* members: the selected samples */
    const uint32_t *member; /* [n] sample numbers; strata and classes: sorted by class. NULL: all */
    uint32_t positions;     /* N: positions per pass */
    struct order plain;     /* PLAIN: n, shuffle, block, repeat */
    const uint64_t *sums;   /* QUOTA [n]: the sum of the weights up to and including each member */
    const uint32_t *guide;  /* QUOTA, or NULL: see sampler_make_guide() */
    unsigned guide_shift;
    const struct sampler_column *columns; /* DRAWN [n] */
    uint32_t classes;                     /* STRATA, BALANCED, CLASSES: classes with members */
    const uint32_t *start;                /* [classes + 1] where each class begins in `member` */
    uint32_t block;                       /* STRATA, BALANCED: G: positions per block */
    uint32_t per_block, each;             /* CLASSES: P and k */
    const struct sampler_reweigh *later;  /* [num_later] by pass, ascending */
    uint32_t num_later;
};

/** A table with a seed. */
struct sampler {
    const struct sampler_table *table; /* borrowed */
    uint64_t seed;
    uint32_t shift;  /* shift of its phase */
    uint64_t *edges; /* BALANCED [classes + 1]; owned */
};

/** Initialise a sampler. Returns 0 or -ENOMEM. */
int sampler_init(struct sampler *sampler, const struct sampler_table *table, uint64_t seed);
void sampler_fini(struct sampler *sampler);

/** Returns the table for a pass: this one, or one of those that replace it. */
const struct sampler_table *sampler_table_at(const struct sampler_table *table, uint64_t pass);

/** Returns the sample at a position, 0 ... N - 1, of a pass. Threads: any. */
uint32_t sampler_at(const struct sampler *sampler, uint64_t pass, uint32_t position);

/** Returns a substitute for a bad sample at this position, chosen by a draw from those that the
 *  position could have shown; so it has the same class if classes have shares. */
uint32_t sampler_substitute(const struct sampler *sampler, uint64_t pass, uint32_t position,
                            const struct philox_block *block);

/** Receives a position. */
typedef void sampler_found(void *arg, uint32_t position);

/** Call `found` for each position of a pass that shows a sample, in any order. Takes microseconds
 * for plain orders without blocks and for weights by quota; otherwise as long as a whole pass. */
void sampler_find(const struct sampler *sampler, uint64_t pass, uint32_t sample,
                  sampler_found *found, void *arg);

/** Build the guide that finds a member among many sums in a few steps. Returns it (malloc), or
 *  NULL. Sets the table's guide and shift. */
uint32_t *sampler_make_guide(struct sampler_table *table);

/** Returns the number of the guide's entries, for a table with sums and a shift. */
uint32_t sampler_guide_entries(const struct sampler_table *table);

/** Fill the columns [n] of an alias table; weights are below 2^32, and their sum is not 0. Returns
 *  0 or -ENOMEM. */
int sampler_fill_columns(struct sampler_column *columns, const uint32_t *weights, uint32_t n);

#endif
