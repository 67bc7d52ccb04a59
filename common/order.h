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

struct order {
    uint64_t seed;
    uint32_t n; /* samples in the data set, 1 ... 2^32 - 1 */
    enum order_shuffle shuffle;
    uint32_t block; /* ORDER_BLOCK: samples in a block, at least 1 */
};

/**
 * The sample at `position` (0 ... n - 1) of `epoch`: a bijection on [0, n) for each epoch.
 *
 * Constant time and memory: no table. Threads: any.
 */
uint32_t order_sample(const struct order *order, uint32_t epoch, uint32_t position);

/** "global", "none" or "block:B" into `*shuffle` and `*block`: 0 or -EINVAL. */
int order_parse_shuffle(const char *text, enum order_shuffle *shuffle, uint32_t *block,
                        struct plenum_error *err);

/** A place of the stream: the first position of a step. */
struct order_place {
    uint64_t epoch;
    uint64_t position;
};

/** The steps of a stream: `per_step` = R * M positions each, in every epoch from position 0 on. */
struct order_steps {
    uint32_t n;
    uint32_t per_step;
    enum order_last last;
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

/** Steps left in the epoch from `place` on (from position 0: steps of an epoch). */
uint64_t order_steps_left(const struct order_steps *steps, struct order_place place);

#endif
