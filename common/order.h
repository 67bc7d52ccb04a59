/* SPDX-License-Identifier: MIT */
/* order.h - which sample a position of an epoch shows, and where the steps of an epoch begin. */
#ifndef COMMON_ORDER_H
#define COMMON_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include <plenum/error.h>

enum order_shuffle {
    ORDER_GLOBAL, /* one permutation of all samples */
    ORDER_NONE,   /* position = sample */
    ORDER_BLOCK,  /* blocks of neighbours permuted, then samples within a window of blocks */
};

enum order_last {
    ORDER_PAD,  /* the last step is whole: positions >= N repeat samples and do not count */
    ORDER_DROP, /* a last step that would not be whole is left out */
};

/** How many blocks' samples are mixed with each other by shuffle=block:B. */
enum { ORDER_WINDOW_BLOCKS = 16 };

/** Samples [first, first + n) of the data set, each `repeat` times an epoch. */
struct order {
    uint64_t seed;
    uint32_t n; /* samples that are shown, 1 ... 2^32 - 1 */
    enum order_shuffle shuffle;
    uint32_t block;  /* ORDER_BLOCK: samples in a block, at least 1 */
    uint32_t first;  /* of a subset: what lies before it is never shown */
    uint32_t repeat; /* positions in a row that show a sample, each with draws of its own; 0 is 1 */
};

/** N: positions in an epoch. */
static inline uint32_t order_positions(const struct order *order)
{
    return order->n * (order->repeat ? order->repeat : 1);
}

/**
 * The sample at `position` (0 ... N - 1) of `epoch`: each sample of the subset `repeat` times an
 * epoch; with repeat 1 a bijection.
 *
 * Constant time and memory: no table. Threads: any.
 */
uint32_t order_sample(const struct order *order, uint32_t epoch, uint32_t position);

/**
 * The position whose sample is mixed into that of `position` (0 ... N - 1): the next one that shows
 * another sample, so that its file is read anyhow at about this time. Behind the last comes the
 * first: a bijection, and the position itself where there is only one sample.
 */
static inline uint32_t order_partner(const struct order *order, uint32_t position)
{
    return (uint32_t)(((uint64_t)position + (order->repeat ? order->repeat : 1)) %
                      order_positions(order));
}

/** Samples of a data set, [first, end); end 0: to its end. */
struct order_subset {
    uint32_t first, end;
};

/** "a:b", where a or b may be missing, into `*ret`: 0, or -EINVAL with a sentence. */
int order_parse_subset(const char *text, struct order_subset *ret, struct plenum_error *err);

/**
 * Have `order` show this subset of `samples` samples, `repeat` times (0 is 1): sets n, first and
 * repeat.
 *
 * -EINVAL: the subset goes beyond the data set, or there are 2^32 - 1 positions or more.
 */
int order_init(struct order *order, uint32_t samples, const struct order_subset *subset,
               uint32_t repeat, struct plenum_error *err);

/** "global", "none" or "block:B" into `*shuffle` and `*block`: 0 or -EINVAL. */
int order_parse_shuffle(const char *text, enum order_shuffle *shuffle, uint32_t *block,
                        struct plenum_error *err);

/** The seed of one part of a data set (split = file): parts are shuffled and cropped each in a way
 * of its own. */
uint64_t order_part_seed(uint64_t seed, uint32_t part);

/**
 * Which of a step's positions, counted from its first, is place i of R * M, where each replica has
 * M places in a row.
 *
 * `deal` 0: position i. `deal` M: positions are dealt to the replicas in turn (round-robin), so
 * that neighbours lie on different replicas.
 */
static inline uint32_t order_deal(uint32_t per_step, uint32_t deal, uint32_t i)
{
    return deal ? i % deal * (per_step / deal) + i / deal : i;
}

/** A place of the stream: the first position of a step. */
struct order_place {
    uint64_t epoch;
    uint64_t position;
};

/**
 * The steps of a stream: `per_step` = R * M positions each, in every epoch from position 0 on.
 *
 * Where instances have data of their own (split = file), steps end together: `span` is then how
 * many positions an epoch's steps cover in every instance, which is more than n where another has
 * more samples (pad) and less where another has fewer (drop).
 */
struct order_steps {
    uint32_t n; /* positions that count */
    uint32_t per_step;
    enum order_last last;
    uint64_t span; /* 0: n */
};

/** Does a step begin at this place, or is the epoch over for steps of this size? */
bool order_place_has_step(const struct order_steps *steps, struct order_place place);

/**
 * The place where the next step begins: `place` itself, or the start of the next epoch.
 *
 * A cursor is kept as the run left it and made so when it is used: with last=drop, what is too
 * little for a step of one size may be enough for another run's.
 */
struct order_place order_place_settle(const struct order_steps *steps, struct order_place place);

/** The place behind the step at `place`, not settled. */
struct order_place order_place_after(const struct order_steps *steps, struct order_place place);

/** The place where a step begins that is `count` steps behind the one at `place`, settled; in
 * constant time. An epoch must have steps. */
struct order_place order_place_skip(const struct order_steps *steps, struct order_place place,
                                    uint64_t count);

/** Steps left in the epoch from `place` on (from position 0: steps of an epoch). */
uint64_t order_steps_left(const struct order_steps *steps, struct order_place place);

#endif
