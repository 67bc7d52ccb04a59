/* SPDX-License-Identifier: MIT */
/* order.c - the order of an epoch, as a function instead of a shuffled table.
 *
 * A table of a million samples costs every process 4 MB, and time at the start, and has to be equal
 * everywhere. A pseudo-random permutation costs nothing and is equal everywhere by definition:
 *
 *     b = bits of n - 1, cut into two halves; each round mixes one half with Philox of the other
 *     (a Feistel network: a bijection on [0, 2^b) whatever the round function is);
 *     a result >= n is permuted again until it is below n ("cycle walking": the cycle of the
 *     permutation through a point below n returns below n, so it ends, and the map restricted to
 *     [0, n) is again a bijection). 2^b < 2n, so fewer than two walks on average.
 *
 * docs/order.md specifies everything, for a second implementation.
 *
 * Small domains get more rounds: with halves of one or two bits, eight rounds are visibly not
 * random (tests/common/order/test_order.c counts all permutations of four and five samples).
 *
 * Blocks: storage is a ring, cut open at a random sample (so that the incomplete block at the end
 * is elsewhere in each epoch) and cut into blocks of B, which are permuted. Then the samples of
 * each window of ORDER_WINDOW_BLOCKS consecutive blocks are permuted. So a reader of consecutive
 * positions uses only a few blocks at a time, each a run of neighbours in storage.
 *
 * Not here: the pixels of a sample (loader/render), and which positions a client takes
 * (wire_step_position() in common/net/wire.h).
 */
#include "config.h"

#include "common/order/order.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/order/mixture.h"
#include "common/order/philox.h"
#include "common/util/error_set.h"
#include "common/util/util.h"

enum {
    ROUNDS = 12,
    ROUNDS_SMALL = 24, /* for domains of at most SMALL_BITS bits */
    SMALL_BITS = 12,
};

/* The type of positions and samples. tests/common/order/test_order_small.c compiles this file
 * with 8-bit words and tries all of them. Sums and products have the type `wide`, which is large
 * enough for either. */
#ifndef ORDER_WORD
#define ORDER_WORD uint32_t
#endif
typedef ORDER_WORD word;
typedef uint64_t wide;
enum { WORD_BITS = 8 * sizeof(word) };

static word narrow(wide x)
{
    assert(x == (word)x);
    return (word)x;
}

/* The parameters of a permutation; `tweak` distinguishes the permutations of one purpose. */
struct permutation {
    uint64_t seed;
    uint32_t epoch;
    enum draw_purpose purpose;
    word tweak;
};

static inline uint32_t round_of(const struct permutation *k, uint32_t half, uint32_t round)
{
    /* A half has at most 16 bits, so the round's number fits beside it. */
    return philox_draw(k->seed, half | round << 16, k->epoch, k->purpose, k->tweak).word[0];
}

/* Apply the network, or its inverse, once to x in [0, 2^bits). */
static inline word feistel(const struct permutation *k, unsigned bits, word x, bool backwards)
{
    unsigned low_bits = bits / 2, high_bits = bits - low_bits;
    uint32_t low_mask = (uint32_t)((UINT64_C(1) << low_bits) - 1);
    uint32_t high_mask = (uint32_t)((UINT64_C(1) << high_bits) - 1);
    uint32_t low = x & low_mask, high = (uint32_t)x >> low_bits;
    uint32_t rounds = bits <= SMALL_BITS ? ROUNDS_SMALL : ROUNDS;

    assert(bits >= 1 && bits <= WORD_BITS);
    for (uint32_t i = rounds; backwards && i > 0; i -= 2) {
        low ^= round_of(k, high, i - 1) & low_mask;
        high ^= round_of(k, low, i - 2) & high_mask;
    }
    for (uint32_t round = 0; !backwards && round < rounds; round += 2) {
        high ^= round_of(k, low, round) & high_mask;
        low ^= round_of(k, high, round + 1) & low_mask;
    }
    return narrow((wide)high << low_bits | low);
}

/* Returns the number of bits of the numbers below n; n >= 2. */
static unsigned bits_below(word n)
{
    assert(n >= 2);
    return 64 - (unsigned)__builtin_clzll((wide)n - 1);
}

/* Returns the image of x under a permutation of [0, n), or under its inverse.
 *
 * It terminates: a walk never meets a point twice before it is back at x, so it takes at most one
 * pass more than there are points in [n, 2^bits). This requires x < n: the cycle of a point beyond
 * n need not lead below n at all. */
static inline word walk(const struct permutation *k, word n, word x, bool backwards)
{
    unsigned bits;
    wide left;

    assert(x < n);
    if (n < 2)
        return x;
    bits = bits_below(n);
    assert(bits <= WORD_BITS);
    left = ((wide)1 << bits) - n + 1;
    do {
        assert(left > 0);
        left--;
        x = feistel(k, bits, x, backwards);
    } while (x >= n);
    return x;
}

static word permute(uint64_t seed, uint32_t epoch, enum draw_purpose purpose, word tweak, word n,
                    word x)
{
    return walk(&(struct permutation){seed, epoch, purpose, tweak}, n, x, false);
}

static word unpermute(uint64_t seed, uint32_t epoch, enum draw_purpose purpose, word tweak, word n,
                      word x)
{
    return walk(&(struct permutation){seed, epoch, purpose, tweak}, n, x, true);
}

uint32_t order_permute(uint64_t seed, uint32_t epoch, enum draw_purpose purpose, uint32_t tweak,
                       uint32_t n, uint32_t x)
{
    return permute(seed, epoch, purpose, (word)tweak, narrow(n), narrow(x));
}

uint32_t order_unpermute(uint64_t seed, uint32_t epoch, enum draw_purpose purpose, uint32_t tweak,
                         uint32_t n, uint32_t x)
{
    return unpermute(seed, epoch, purpose, (word)tweak, narrow(n), narrow(x));
}

/* How n samples are cut into blocks and windows. */
struct block_cut {
    wide block, blocks; /* the length of a block, and the number of whole blocks */
    wide windows;       /* the last one also has the rest after the last whole block */
    word n, rotation;   /* sample = storage + rotation, modulo n */
};

static struct block_cut cut_blocks(uint64_t seed, uint32_t epoch, word n, word block_len)
{
    wide blocks = n / block_len;

    assert(block_len > 0 && block_len <= n);
    return (struct block_cut){
        .block = block_len,
        .blocks = blocks,
        .windows = (blocks + ORDER_WINDOW_BLOCKS - 1) / ORDER_WINDOW_BLOCKS,
        .n = n,
        .rotation = narrow(philox_below(philox_draw(seed, 0, epoch, DRAW_ROTATE, 0).word[0], n))};
}

static wide window_start(const struct block_cut *c, wide window)
{
    return window * c->block * ORDER_WINDOW_BLOCKS;
}

static word window_length(const struct block_cut *c, wide window)
{
    wide len = c->block * ORDER_WINDOW_BLOCKS;

    assert(window < c->windows);
    return narrow(window == c->windows - 1 ? c->n - window_start(c, window) : len);
}

static word block_sample(uint64_t seed, uint32_t epoch, word n, word block_len, word position)
{
    struct block_cut c = cut_blocks(seed, epoch, n, block_len);
    wide window = min_u64(position / (c.block * ORDER_WINDOW_BLOCKS), c.windows - 1);
    wide start = window_start(&c, window), q, slot, storage;

    assert(position < n);
    q = permute(seed, epoch, DRAW_WINDOW, narrow(window), window_length(&c, window),
                narrow(position - start));
    slot = window * ORDER_WINDOW_BLOCKS + q / c.block;
    if (slot < c.blocks)
        storage = permute(seed, epoch, DRAW_BLOCK, 0, narrow(c.blocks), narrow(slot)) * c.block +
                  q % c.block;
    else
        storage = start + q; /* the rest after the last whole block */
    assert(storage < n);
    return narrow((storage + c.rotation) % n);
}

static word block_position(uint64_t seed, uint32_t epoch, word n, word block_len, word sample)
{
    struct block_cut c = cut_blocks(seed, epoch, n, block_len);
    wide storage = ((wide)sample + n - c.rotation) % n, window = c.windows - 1, slot, q;

    assert(sample < n);
    if (storage < c.blocks * c.block) {
        slot = unpermute(seed, epoch, DRAW_BLOCK, 0, narrow(c.blocks), narrow(storage / c.block));
        window = slot / ORDER_WINDOW_BLOCKS;
        q = slot % ORDER_WINDOW_BLOCKS * c.block + storage % c.block;
    } else {
        q = storage - window_start(&c, window);
    }
    return narrow(window_start(&c, window) + unpermute(seed, epoch, DRAW_WINDOW, narrow(window),
                                                       window_length(&c, window), narrow(q)));
}

uint32_t order_sample(const struct order *order, uint32_t epoch, uint32_t position)
{
    word n, p;

    if (order->mixture)
        return mixture_sample(order->mixture, epoch, position);
    n = narrow(order->n);
    p = narrow(position / (order->repeat ? order->repeat : 1));
    assert(p < n);
    switch (order->shuffle) {
    case ORDER_GLOBAL:
        p = permute(order->seed, epoch, DRAW_ORDER, 0, n, p);
        break;
    case ORDER_BLOCK:
        p = block_sample(order->seed, epoch, n, (word)min_u64(order->block, n), p);
        break;
    case ORDER_NONE:
        break;
    }
    assert(p < n);
    return narrow((wide)order->first + p);
}

uint32_t order_position(const struct order *order, uint32_t epoch, uint32_t sample)
{
    word n = narrow(order->n), p = narrow(sample - order->first);

    assert(!order->mixture && sample >= order->first && p < n);
    switch (order->shuffle) {
    case ORDER_GLOBAL:
        p = unpermute(order->seed, epoch, DRAW_ORDER, 0, n, p);
        break;
    case ORDER_BLOCK:
        p = block_position(order->seed, epoch, n, (word)min_u64(order->block, n), p);
        break;
    case ORDER_NONE:
        break;
    }
    assert(p < n);
    return p * (order->repeat ? order->repeat : 1);
}

uint32_t order_substitute(const struct order *order, uint32_t epoch, uint32_t position,
                          uint32_t attempt)
{
    struct philox_block block = philox_draw(order->seed, position, epoch, DRAW_PROBE, attempt);

    if (order->mixture)
        return mixture_substitute(order->mixture, epoch, position, &block);
    return order->first + philox_below(block.word[0], order->n);
}

uint32_t order_mosaic(const struct order *order, uint32_t epoch, uint32_t position, uint32_t block,
                      uint32_t k)
{
    static const uint32_t steps[] = {0, 1, 4, 6}; /* all differences are different */
    uint32_t repeat = order->repeat ? order->repeat : 1, samples = order->n;
    uint32_t at = position / repeat, blocks = samples / block ? samples / block : 1;
    uint32_t number = at / block < blocks ? at / block : blocks - 1, begin = number * block;
    uint32_t len = number + 1 < blocks ? block : samples - begin, slot;

    assert(k < ARRAY_LEN(steps) && block > 0 && position < order_positions(order));
    slot = order_permute(order->seed, epoch, DRAW_RING, number, len, at - begin);
    slot = order_unpermute(order->seed, epoch, DRAW_RING, number, len,
                           (uint32_t)(((uint64_t)slot + steps[k]) % len));
    return (begin + slot) * repeat + position % repeat;
}

int order_parse_subset(const char *text, struct order_subset *ret, struct plenum_error *err)
{
    const char *colon = strchr(text, ':');
    char first[16] = "";
    uint64_t a = 0, b = 0;
    bool good = colon && (size_t)(colon - text) < sizeof(first);

    if (good) {
        memcpy(first, text, (size_t)(colon - text));
        good = (!first[0] || parse_u64(first, UINT32_MAX - 1, &a) == 0) &&
               (!colon[1] || parse_u64(colon + 1, UINT32_MAX - 1, &b) == 0);
    }
    if (!good)
        return error_set(err, -EINVAL,
                         "subset '%s' must have the form a:b, which selects samples a to b - 1",
                         text);
    if (colon[1] && a >= b)
        return error_set(err, -EINVAL, "subset '%s' holds no samples", text);
    *ret = (struct order_subset){.first = (uint32_t)a, .end = (uint32_t)b};
    return 0;
}

int order_init(struct order *order, uint32_t samples, const struct order_subset *subset,
               uint32_t repeat, struct plenum_error *err)
{
    uint32_t end = subset->end ? subset->end : samples;

    repeat = repeat ? repeat : 1;
    if (end > samples || subset->first >= end)
        return error_set(err, -EINVAL, "subset %u:%u goes beyond the %u samples of the data set",
                         subset->first, end, samples);
    if ((uint64_t)(end - subset->first) * repeat >= UINT32_MAX)
        return error_set(err, -EINVAL,
                         "%u samples, %u times each, are more than 2^32 - 2 positions",
                         end - subset->first, repeat);
    assert(end > subset->first && repeat > 0);
    order->first = subset->first;
    order->n = end - subset->first;
    order->repeat = repeat;
    return 0;
}

int order_parse_shuffle(const char *text, enum order_shuffle *shuffle, uint32_t *block,
                        struct plenum_error *err)
{
    uint64_t value;

    if (strcmp(text, "global") == 0) {
        *shuffle = ORDER_GLOBAL;
        *block = 0;
        return 0;
    }
    if (strcmp(text, "none") == 0) {
        *shuffle = ORDER_NONE;
        *block = 0;
        return 0;
    }
    if (strncmp(text, "block:", 6) == 0 && parse_u64(text + 6, UINT32_MAX, &value) == 0 &&
        value > 0) {
        *shuffle = ORDER_BLOCK;
        *block = (uint32_t)value;
        return 0;
    }
    return error_set(err, -EINVAL,
                     "shuffle '%s' is not one of global, none and block:B (B samples in a block)",
                     text);
}

uint64_t order_part_seed(uint64_t seed, uint32_t part)
{
    struct philox_block block = philox_draw(seed, part, 0, DRAW_PART, 0);

    return (uint64_t)block.word[1] << 32 | block.word[0];
}

static uint64_t span_of(const struct order_steps *steps)
{
    return steps->span ? steps->span : steps->n;
}

/* Returns the first gap that ends after global position g, or NULL. */
static const struct order_gap *gap_after(const struct order_steps *steps, uint64_t g)
{
    for (uint32_t i = 0; i < steps->num_gaps; i++)
        if (g < steps->gaps[i].end)
            return &steps->gaps[i];
    return NULL;
}

static uint64_t global_of(const struct order_steps *steps, struct order_place place)
{
    return place.epoch * steps->n + place.position;
}

bool order_is_skipped(const struct order_steps *steps, struct order_place place)
{
    uint64_t g = global_of(steps, place);
    const struct order_gap *gap = gap_after(steps, g);

    return gap && gap->begin <= g;
}

/* Returns the number of positions from `place`, which is in no gap, to the next gap or the end of
 * the epoch; `*ends_at_gap` is true for a gap. */
static uint64_t run_of(const struct order_steps *steps, struct order_place place, bool *ends_at_gap)
{
    uint64_t left = span_of(steps) - place.position, g;
    const struct order_gap *gap;

    *ends_at_gap = false;
    if (steps->num_gaps == 0)
        return left;
    g = global_of(steps, place);
    gap = gap_after(steps, g);
    if (!gap || gap->begin <= g || gap->begin - g >= left) /* a client may name any place */
        return left;
    *ends_at_gap = true;
    return gap->begin - g;
}

bool order_place_has_step(const struct order_steps *steps, struct order_place place)
{
    bool at_gap;

    if (place.position >= span_of(steps))
        return false;
    if (steps->last == ORDER_PAD || span_of(steps) - place.position >= steps->per_step)
        return true;
    (void)run_of(steps, place, &at_gap);
    return at_gap;
}

/* Leave the gap that `place` is in, if it is in one. */
static struct order_place leave_gap(const struct order_steps *steps, struct order_place place)
{
    uint64_t g = global_of(steps, place);
    const struct order_gap *gap = gap_after(steps, g);

    if (!gap || g < gap->begin)
        return place;
    return (struct order_place){.epoch = gap->end / steps->n, .position = gap->end % steps->n};
}

struct order_place order_place_settle(const struct order_steps *steps, struct order_place place)
{
    for (;;) {
        if (steps->num_gaps > 0 && place.position < span_of(steps))
            place = leave_gap(steps, place);
        if (order_place_has_step(steps, place))
            return place;
        place = (struct order_place){.epoch = place.epoch + 1, .position = 0};
        if (!gap_after(steps, global_of(steps, place)))
            return place;
    }
}

struct order_place order_place_after(const struct order_steps *steps, struct order_place place)
{
    uint64_t span = span_of(steps), left;
    bool at_gap;

    if (place.position >= span) /* nothing is left, whatever the step size */
        return (struct order_place){.epoch = place.epoch + 1, .position = 0};
    left = run_of(steps, place, &at_gap);
    if (!at_gap && left <= steps->per_step)
        return (struct order_place){.epoch = place.epoch + 1, .position = 0};
    place.position += min_u64(left, steps->per_step);
    return place;
}

uint64_t order_gap_position(const struct order_steps *steps, struct order_place place, uint32_t at)
{
    bool at_gap = false;
    uint64_t run;

    if (place.position >= span_of(steps))
        return place.position + at;
    run = run_of(steps, place, &at_gap);
    return place.position + (at_gap ? at % run : at);
}

bool order_gap_counts(const struct order_steps *steps, struct order_place place, uint32_t at)
{
    bool at_gap;

    return at < run_of(steps, place, &at_gap);
}

static uint64_t steps_in(const struct order_steps *steps, uint64_t left)
{
    assert(steps->per_step > 0);
    return left / steps->per_step + (steps->last == ORDER_PAD && left % steps->per_step > 0);
}

uint64_t order_steps_left(const struct order_steps *steps, struct order_place place)
{
    uint64_t count = 0, run, epoch = place.epoch;
    bool at_gap;

    if (place.position >= span_of(steps))
        return 0;
    if (steps->num_gaps == 0)
        return steps_in(steps, span_of(steps) - place.position);
    for (;;) { /* run by run, between the gaps */
        place = leave_gap(steps, place);
        if (place.epoch != epoch || place.position >= span_of(steps))
            return count;
        run = run_of(steps, place, &at_gap);
        if (!at_gap)
            return count + steps_in(steps, run);
        count += (run + steps->per_step - 1) / steps->per_step;
        place.position += run;
    }
}

uint64_t order_steps_whole(const struct order_steps *steps)
{
    return steps_in(steps, span_of(steps));
}

/* Returns the number of whole epochs, starting at `epoch`, until a gap begins, at most `most`. */
static uint64_t epochs_to_gap(const struct order_steps *steps, uint64_t epoch, uint64_t most)
{
    const struct order_gap *gap = gap_after(steps, epoch * steps->n);

    return gap ? min_u64(gap->begin / steps->n - min_u64(gap->begin / steps->n, epoch), most)
               : most;
}

uint64_t order_steps_total(const struct order_steps *steps, uint64_t epochs)
{
    uint64_t total = 0;

    for (uint64_t epoch = 0; epoch < epochs;) {
        struct order_place place = leave_gap(steps, (struct order_place){epoch, 0});
        uint64_t count = epochs_to_gap(steps, epoch, epochs - epoch);

        if (place.epoch > epoch) { /* the whole epoch is skipped, and perhaps others after it */
            epoch = place.epoch;
        } else if (count > 0) {
            total += count * order_steps_whole(steps);
            epoch += count;
        } else {
            total += order_steps_left(steps, (struct order_place){epoch, 0});
            epoch++;
        }
    }
    return total;
}

bool order_has_steps(const struct order_steps *steps)
{
    return order_steps_whole(steps) > 0 &&
           order_place_settle(steps, (struct order_place){0}).epoch < UINT32_MAX;
}

uint64_t order_step_of(const struct order_steps *steps, struct order_place place, uint64_t *begin)
{
    struct order_place at = {.epoch = place.epoch};
    uint64_t step = 0, run;
    bool at_gap;

    for (;; at.position += run) { /* run by run, between the gaps */
        if (steps->num_gaps > 0)
            at = leave_gap(steps, at);
        assert(at.epoch == place.epoch && at.position <= place.position);
        run = run_of(steps, at, &at_gap);
        if (!at_gap || place.position - at.position < run)
            break;
        step += (run + steps->per_step - 1) / steps->per_step;
    }
    *begin = place.position - (place.position - at.position) % steps->per_step;
    return step + (place.position - at.position) / steps->per_step;
}

/* Skip `count` steps after the last gap, where all epochs have the same steps. */
static struct order_place skip_regular(const struct order_steps *steps, struct order_place place,
                                       uint64_t count)
{
    uint64_t whole = order_steps_whole(steps);
    /* skip the rest of an epoch if it is smaller than a step */
    uint64_t left = max_u64(order_steps_left(steps, place), 1);

    assert(whole > 0);
    if (count == 0)
        return order_place_settle(steps, place);
    if (count < left)
        return (struct order_place){.epoch = place.epoch,
                                    .position = place.position + count * steps->per_step};
    count -= left;
    return (struct order_place){.epoch = place.epoch + 1 + count / whole,
                                .position = count % whole * steps->per_step};
}

/* Skip at most `*count` steps up to the next gap or the end of the epoch, or whole epochs before
 * the next gap. `place` is settled and has a step. */
static struct order_place skip_run(const struct order_steps *steps, struct order_place place,
                                   uint64_t *count)
{
    uint64_t whole = order_steps_whole(steps), run, k;
    uint64_t epochs = epochs_to_gap(steps, place.epoch, *count / whole);
    bool at_gap;

    if (place.position == 0 && epochs > 0) {
        *count -= epochs * whole;
        return (struct order_place){.epoch = place.epoch + epochs};
    }
    run = run_of(steps, place, &at_gap);
    k = at_gap ? (run + steps->per_step - 1) / steps->per_step : steps_in(steps, run);
    assert(k > 0);
    if (*count < k)
        place.position += *count * steps->per_step;
    else if (at_gap)
        place.position += run;
    else
        place = (struct order_place){.epoch = place.epoch + 1};
    *count -= min_u64(*count, k);
    return place;
}

struct order_place order_place_skip(const struct order_steps *steps, struct order_place place,
                                    uint64_t count)
{
    if (steps->num_gaps == 0)
        return skip_regular(steps, place, count);
    place = order_place_settle(steps, place);
    while (count > 0 && gap_after(steps, global_of(steps, place)))
        place = order_place_settle(steps, skip_run(steps, place, &count));
    return skip_regular(steps, place, count);
}
