/* SPDX-License-Identifier: MIT */
/* order.h - which sample each position of an epoch shows, and where the steps of an epoch begin. */
#ifndef COMMON_ORDER_H
#define COMMON_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include <plenum/error.h>

#include "common/order/philox.h"

struct mixture;

enum order_shuffle {
    ORDER_GLOBAL, /* one permutation of all samples */
    ORDER_NONE,   /* position = sample */
    ORDER_BLOCK, /* permute blocks of consecutive samples, then samples within a window of blocks */
};

enum order_last {
    ORDER_PAD,  /* the last step is full: positions >= N repeat samples and do not count */
    ORDER_DROP, /* an incomplete last step is dropped */
};

/** Number of blocks whose samples are shuffled together by shuffle=block:B. */
enum { ORDER_WINDOW_BLOCKS = 16 };

/** Samples [first, first + n) of the data set, each `repeat` times per epoch. */
struct order {
    uint64_t seed;
    uint32_t n; /* number of samples, 1 ... 2^32 - 1 */
    enum order_shuffle shuffle;
    uint32_t block;  /* ORDER_BLOCK: samples in a block, at least 1 */
    uint32_t first;  /* start of a subset: samples before it are never shown */
    uint32_t repeat; /* consecutive positions that show the same sample; 0 means 1 */
    /* The order of a plan (mixture.h), which replaces shuffle, block, first and repeat; n is then
     * the number of positions in an epoch. Borrowed. NULL: there is no plan. */
    const struct mixture *mixture;
};

/** Returns N, the number of positions in an epoch. */
static inline uint32_t order_positions(const struct order *order)
{
    return order->n * (order->repeat ? order->repeat : 1);
}

/** Returns the image of x under a permutation of [0, n), n >= 1 (docs/order.md, section 2).
 *  Threads: any. */
uint32_t order_permute(uint64_t seed, uint32_t epoch, enum draw_purpose purpose, uint32_t tweak,
                       uint32_t n, uint32_t x);
/** Returns the image of x under the inverse of order_permute()'s permutation. */
uint32_t order_unpermute(uint64_t seed, uint32_t epoch, enum draw_purpose purpose, uint32_t tweak,
                         uint32_t n, uint32_t x);

/**
 * Returns the sample at `position` (0 ... N - 1) of `epoch`. Each sample of the subset appears
 * `repeat` times per epoch; with repeat 1 this is a bijection.
 *
 * Constant time and memory: there is no table. Threads: any.
 */
uint32_t order_sample(const struct order *order, uint32_t epoch, uint32_t position);

/**
 * Returns the first of the `repeat` consecutive positions of `epoch` that show `sample`, which must
 * be one of the order's samples: the inverse of order_sample(). The order must not have a mixture.
 *
 * Constant time and memory. Threads: any.
 */
uint32_t order_position(const struct order *order, uint32_t epoch, uint32_t sample);

/** Returns the sample to try in place of a bad one at this position: the attempt-th substitute. */
uint32_t order_substitute(const struct order *order, uint32_t epoch, uint32_t position,
                          uint32_t attempt);

/**
 * Returns the position whose sample is mixed into that of `position` (0 ... N - 1): the next
 * position with a different sample, which is read at about the same time anyway. The last position
 * wraps to the first. This is a bijection, and the identity if there is only one sample.
 */
static inline uint32_t order_partner(const struct order *order, uint32_t position)
{
    return (uint32_t)(((uint64_t)position + (order->repeat ? order->repeat : 1)) %
                      order_positions(order));
}

enum { ORDER_MOSAIC_LEAST = 7 }; /* with fewer samples, a mosaic would show one of them twice */

/**
 * Returns the position whose picture is the k-th of the mosaic at `position` (0 ... N - 1), k = 0
 * ... 3; the 0-th is its own. The others are among about `block` positions, which does not depend
 * on the steps of a run. For each k this is a bijection, so each picture is in four mosaics.
 *
 * Constant time and memory. Threads: any.
 */
uint32_t order_mosaic(const struct order *order, uint32_t epoch, uint32_t position, uint32_t block,
                      uint32_t k);

/** Samples of a data set, [first, end); end 0: to its end. */
struct order_subset {
    uint32_t first, end;
};

/** Parse "a:b", where a or b may be missing. Returns 0, or -EINVAL with a message. */
int order_parse_subset(const char *text, struct order_subset *ret, struct plenum_error *err);

/**
 * Make `order` show this subset of `samples` samples, `repeat` times (0 means 1): sets n, first and
 * repeat.
 *
 * -EINVAL: the subset extends beyond the data set, or there would be 2^32 - 1 positions or more.
 */
int order_init(struct order *order, uint32_t samples, const struct order_subset *subset,
               uint32_t repeat, struct plenum_error *err);

/** Parse "global", "none" or "block:B". Returns 0 or -EINVAL. */
int order_parse_shuffle(const char *text, enum order_shuffle *shuffle, uint32_t *block,
                        struct plenum_error *err);

/** Returns the seed of one part of a data set (split = file): each part is shuffled and cropped
 *  differently. */
uint64_t order_part_seed(uint64_t seed, uint32_t part);

/**
 * Returns the position, counted from the first of the step, that index i of R * M takes. Replica r
 * has the M consecutive indices starting at r * M.
 *
 * If `deal` is 0, that is position i. If it is M, positions go to the replicas in turn
 * (round-robin), so neighbours belong to different replicas.
 */
static inline uint32_t order_deal(uint32_t per_step, uint32_t deal, uint32_t i)
{
    return deal ? i % deal * (per_step / deal) + i / deal : i;
}

/** Returns the inverse of order_deal(): the index that takes the position at this distance from the
 *  first of its step. */
static inline uint32_t order_undeal(uint32_t per_step, uint32_t deal, uint32_t at)
{
    uint32_t replicas = deal ? per_step / deal : 1;

    return deal ? at % replicas * deal + at / replicas : at;
}

/** A position in the stream: the first position of a step. */
struct order_place {
    uint64_t epoch;
    uint64_t position;
};

/** Global positions (epoch * n + position) that are never shown: [begin, end). */
struct order_gap {
    uint64_t begin, end;
};

/**
 * The steps of a stream: `per_step` = R * M positions each, from position 0 of every epoch.
 *
 * If each instance has its own data (split = file), steps end together: `span` is the number of
 * positions that an epoch's steps cover in every instance. It is more than n if another instance
 * has more samples (pad), and less if another has fewer (drop).
 */
struct order_steps {
    uint32_t n; /* positions per epoch that count */
    uint32_t per_step;
    enum order_last last;
    uint64_t span; /* 0: the span is n */
    /* Gaps, in ascending order and apart from each other; borrowed. A step that reaches a gap ends
     * there: the rest of the step is padding and does not count. Not with a span. */
    const struct order_gap *gaps;
    uint32_t num_gaps;
};

/** Is this position in a gap? */
bool order_is_skipped(const struct order_steps *steps, struct order_place place);

/** Does a step begin at this place? False if no step of this size is left in the epoch. */
bool order_place_has_step(const struct order_steps *steps, struct order_place place);

/**
 * Returns the place where the next step begins: `place` itself, or the start of the next epoch.
 *
 * A cursor is stored as the run left it and settled when it is used: with last=drop, the samples
 * that are left may be too few for a step of this run, but enough for a smaller step of another
 * run.
 */
struct order_place order_place_settle(const struct order_steps *steps, struct order_place place);

/** These do the work of order_step_position() and order_step_counts() if there are gaps. */
uint64_t order_gap_position(const struct order_steps *steps, struct order_place place, uint32_t at);
bool order_gap_counts(const struct order_steps *steps, struct order_place place, uint32_t at);

/** Returns the position at the distance `at` (order_deal()) from the first one of the step at
 *  `place`. After the beginning of a gap, that is a position that the step has already shown. */
static inline uint64_t order_step_position(const struct order_steps *steps,
                                           struct order_place place, uint32_t at)
{
    return steps->num_gaps == 0 ? place.position + at : order_gap_position(steps, place, at);
}

/** Does the position at this distance from the first of a step count? */
static inline bool order_step_counts(const struct order_steps *steps, struct order_place place,
                                     uint32_t at)
{
    return place.position + at < steps->n &&
           (steps->num_gaps == 0 || order_gap_counts(steps, place, at));
}

/** Returns the position right after the step at `place`; not settled (order_place_settle()). */
struct order_place order_place_after(const struct order_steps *steps, struct order_place place);

/** Returns the position of the step that is `count` steps after the one at `place`, settled.
 *  Takes constant time between gaps, however large `count` is. Epochs must have steps. */
struct order_place order_place_skip(const struct order_steps *steps, struct order_place place,
                                    uint64_t count);

/** Returns the number, within its epoch, of the step that shows the position `place`, which must
 *  not be in a gap. `*begin` receives the first position of that step. Takes constant time between
 *  gaps. Positions that last=drop leaves out belong to the step that would follow the last one. */
uint64_t order_step_of(const struct order_steps *steps, struct order_place place, uint64_t *begin);

/** Returns the number of steps left in the epoch, starting at `place`. */
uint64_t order_steps_left(const struct order_steps *steps, struct order_place place);
/** Returns the number of steps of an epoch in which nothing is skipped. */
uint64_t order_steps_whole(const struct order_steps *steps);
/** Returns the number of steps of the first `epochs` epochs. */
uint64_t order_steps_total(const struct order_steps *steps, uint64_t epochs);
/** Returns whether there is any step. A stream must have one: otherwise, a search would not end. */
bool order_has_steps(const struct order_steps *steps);

/** A client's share of each step: consecutive indices starting at `offset`. */
struct order_share {
    struct order_steps steps;
    uint32_t deal; /* order_deal() */
    uint32_t offset;
};

/** Are two shares of one stream equal? */
static inline bool order_share_is_same(const struct order_share *a, const struct order_share *b)
{
    return a->steps.per_step == b->steps.per_step && a->offset == b->offset;
}

/** Returns the position in the step at `place` of the share's i-th index. */
static inline uint64_t order_share_position(const struct order_share *share,
                                            struct order_place place, uint32_t i)
{
    return order_step_position(&share->steps, place,
                               order_deal(share->steps.per_step, share->deal, share->offset + i));
}

#endif
