/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>

#include "common/order/order.h"
#include "common/order/philox.h"
#include "common/util/util.h"

static const uint64_t seeds[] = {0, 1, 0xfeedface12345678};

/* Returns whether every sample occurs exactly once. */
static int is_bijection(const struct order *order, uint32_t epoch, uint8_t *seen)
{
    memset(seen, 0, order->n);
    for (uint32_t p = 0; p < order->n; p++) {
        uint32_t s = order_sample(order, epoch, p);

        if (s >= order->n || seen[s]++)
            return 0;
    }
    return 1;
}

/* Each position is the partner of exactly one other, and shows a different sample if there are
 * two. */
Test(order, partners_are_a_bijection)
{
    static const struct order orders[] = {{.n = 1},
                                          {.n = 2},
                                          {.n = 5, .repeat = 1},
                                          {.n = 977},
                                          {.n = 1, .repeat = 3},
                                          {.n = 2, .repeat = 2},
                                          {.n = 50, .first = 3, .repeat = 7}};

    for (size_t i = 0; i < ARRAY_LEN(orders); i++) {
        const struct order *o = &orders[i];
        uint32_t positions = order_positions(o);
        uint8_t seen[1000] = {0};

        for (uint32_t p = 0; p < positions; p++) {
            uint32_t partner = order_partner(o, p);

            cr_assert(partner < positions && !seen[partner]++);
            cr_expect(eq(int, order_sample(o, 0, p) == order_sample(o, 0, partner), o->n == 1));
        }
    }
}

/* Each position is in exactly four mosaics, each shows four different positions of a block, and two
 * of a block share at most one. */
Test(order, mosaics_show_each_position_four_times)
{
    static const struct order orders[] = {{.n = 7, .seed = 3},
                                          {.n = 13, .seed = 1},
                                          {.n = 129, .seed = 9},
                                          {.n = 50, .first = 3, .repeat = 7, .seed = 2}};

    for (size_t i = 0; i < ARRAY_LEN(orders); i++) {
        const struct order *o = &orders[i];
        uint32_t positions = order_positions(o), repeat = o->repeat ? o->repeat : 1;
        uint32_t four[400][4];
        uint8_t seen[400] = {0};

        for (uint32_t p = 0; p < positions; p++)
            for (uint32_t k = 0; k < 4; k++) {
                uint32_t q = four[p][k] = order_mosaic(o, 2, p, 16, k);

                cr_assert(q < positions);
                seen[q]++;
                cr_expect(eq(int, q == p, k == 0));
                cr_expect(eq(u32, q % repeat, p % repeat));
                cr_expect(q / repeat / 16 == p / repeat / 16 || q / repeat / 16 + 2 > o->n / 16);
                for (uint32_t j = 0; j < k; j++)
                    cr_expect(ne(u32, four[p][j], q));
            }
        for (uint32_t p = 0; p < positions; p++) {
            cr_expect(eq(u8, seen[p], 4));
            for (uint32_t q = 0; q < p && o->n >= 13; q++) {
                uint32_t common = 0;

                for (uint32_t k = 0; k < 16; k++)
                    common += four[p][k / 4] == four[q][k % 4];
                cr_expect(le(u32, common, 1));
            }
        }
    }
}

/* These numbers are those of a model in another language. */
Test(order, mosaics_are_those_of_the_page)
{
    static const struct order order = {.n = 16, .seed = 5};
    static const uint32_t four[4][4] = {
        {0, 11, 10, 3}, {1, 9, 7, 10}, {2, 12, 14, 15}, {3, 2, 8, 4}};

    for (uint32_t i = 0; i < 16; i++)
        cr_expect(eq(u32, order_mosaic(&order, 0, i / 4, 16, i % 4), four[i / 4][i % 4]));
}

Test(order, the_last_position_of_the_largest_epoch_has_a_partner)
{
    struct order order = {.n = UINT32_MAX - 1};

    cr_expect(eq(u32, order_partner(&order, UINT32_MAX - 2), 0));
}

/* Everything else depends on this law. */
Test(order, every_sample_exactly_once_for_all_sizes_to_3000)
{
    uint8_t *seen = malloc(3000);

    for (uint32_t n = 1; n <= 3000; n++)
        for (size_t i = 0; i < ARRAY_LEN(seeds); i++) {
            struct order order = {.seed = seeds[i], .n = n, .shuffle = ORDER_GLOBAL};

            if (!is_bijection(&order, (uint32_t)i, seen))
                cr_fatal("n = %u, seed %zu", n, i);
        }
    free(seen);
}

Test(order, block_shuffle_gives_every_sample_exactly_once)
{
    static const uint32_t blocks[] = {1, 2, 3, 7, 64, 100, 3000, 100000};
    uint8_t *seen = malloc(3000);

    for (uint32_t n = 1; n <= 3000; n += n < 300 ? 1 : 37)
        for (size_t b = 0; b < ARRAY_LEN(blocks); b++)
            for (size_t i = 0; i < ARRAY_LEN(seeds); i++) {
                struct order order = {
                    .seed = seeds[i], .n = n, .shuffle = ORDER_BLOCK, .block = blocks[b]};

                if (!is_bijection(&order, 3, seen))
                    cr_fatal("n = %u, blocks of %u, seed %zu", n, blocks[b], i);
            }
    free(seen);
}

/* A reader of consecutive positions must find its samples in few runs of adjacent blocks. */
Test(order, block_shuffle_stays_within_its_window)
{
    enum { N = 20000, B = 32 };
    struct order order = {.seed = 5, .n = N, .shuffle = ORDER_BLOCK, .block = B};

    for (uint32_t w = 0; (w + 1) * ORDER_WINDOW_BLOCKS * B <= N; w++) {
        uint8_t *in = calloc(1, N);
        uint32_t blocks = 0; /* runs of storage: adjacent blocks count as one */

        for (uint32_t i = 0; i < ORDER_WINDOW_BLOCKS * B; i++)
            in[order_sample(&order, 1, w * ORDER_WINDOW_BLOCKS * B + i)] = 1;
        for (uint32_t s = 0; s < N; s++)
            blocks += in[s] && !in[(s + N - 1) % N];
        free(in);
        cr_assert(le(u32, blocks, ORDER_WINDOW_BLOCKS), "window %u: %u runs", w, blocks);
    }
}

Test(order, none_is_the_identity)
{
    struct order order = {.seed = 9, .n = 1000, .shuffle = ORDER_NONE};

    for (uint32_t p = 0; p < 1000; p++)
        cr_assert(eq(u32, order_sample(&order, 4, p), p));
}

/* Computes the inverse, written again from docs/order.md: where order_sample() is not a bijection,
 * the round trip fails. */
static uint32_t unpermute(const struct order *order, uint32_t epoch, enum draw_purpose purpose,
                          uint32_t tweak, uint32_t n, uint32_t x)
{
    unsigned bits, low_bits;

    if (n < 2)
        return x;
    for (bits = 1; bits < 32 && (n - 1) >> bits; bits++)
        ;
    low_bits = bits / 2;
    do {
        uint32_t low = x & ((1u << low_bits) - 1), high = x >> low_bits;

        for (uint32_t round = bits <= 12 ? 24 : 12; round-- > 0;)
            if (round % 2)
                low ^= philox_draw(order->seed, high | round << 16, epoch, purpose, tweak).word[0] &
                       ((1u << low_bits) - 1);
            else
                high ^= philox_draw(order->seed, low | round << 16, epoch, purpose, tweak).word[0] &
                        ((1u << (bits - low_bits)) - 1);
        x = high << low_bits | low;
    } while (x >= n);
    return x;
}

static uint32_t position_of(const struct order *order, uint32_t epoch, uint32_t sample)
{
    uint64_t n = order->n, block = min_u64(order->block, n), blocks, window, windows, len, slot,
             storage, q;

    if (order->shuffle == ORDER_GLOBAL)
        return unpermute(order, epoch, DRAW_ORDER, 0, order->n, sample);
    blocks = n / block;
    windows = (blocks + 15) / 16;
    storage = (sample + n -
               philox_below(philox_draw(order->seed, 0, epoch, DRAW_ROTATE, 0).word[0], order->n)) %
              n;
    slot = storage / block < blocks ? unpermute(order, epoch, DRAW_BLOCK, 0, (uint32_t)blocks,
                                                (uint32_t)(storage / block))
                                    : blocks;
    window = min_u64(slot / 16, windows - 1);
    len = window == windows - 1 ? n - window * 16 * block : 16 * block;
    q = (slot - window * 16) * block + storage % block;
    return (uint32_t)(window * 16 * block + unpermute(order, epoch, DRAW_WINDOW, (uint32_t)window,
                                                      (uint32_t)len, (uint32_t)q));
}

static void comes_back(const struct order *order, uint32_t position)
{
    uint32_t sample = order_sample(order, 1, position);

    if (sample >= order->n || position_of(order, 1, sample) != position ||
        order_position(order, 1, sample) != position)
        cr_fatal("n %u, block %u, position %u shows %u", order->n, order->block, position, sample);
}

/* Checks the first and last positions, those next to powers of two, and some others. */
static void positions_come_back(const struct order *order)
{
    for (uint32_t i = 0; i < 12 && i < order->n; i++) {
        comes_back(order, i);
        comes_back(order, order->n - 1 - i);
        comes_back(order,
                   philox_below(philox_draw(1, i, order->n, DRAW_SAMPLE_SET, 0).word[0], order->n));
    }
    for (unsigned bit = 4; bit < 32; bit++)
        for (uint32_t p = (1u << bit) - 2; p <= (1u << bit) + 1 && p < order->n; p++)
            comes_back(order, p);
}

Test(order, the_inverse_gives_the_first_position_of_a_subset_and_its_repeats)
{
    static const enum order_shuffle shuffles[] = {ORDER_GLOBAL, ORDER_BLOCK, ORDER_NONE};

    for (uint32_t n = 1; n <= 400; n += n < 40 ? 1 : 37)
        for (uint32_t i = 0; i < 9; i++) {
            struct order order = {.seed = seeds[n % 3],
                                  .n = n,
                                  .shuffle = shuffles[i % 3],
                                  .block = 1 + n / 7,
                                  .first = 13 * i,
                                  .repeat = i / 3};

            for (uint32_t p = 0; p < order_positions(&order); p++)
                cr_assert(eq(u32, order_position(&order, i, order_sample(&order, i, p)),
                             p - p % (order.repeat ? order.repeat : 1)));
        }
}

Test(order, dealing_has_an_inverse)
{
    for (uint32_t replicas = 1; replicas < 8; replicas++)
        for (uint32_t m = 1; m < 8; m++)
            for (uint32_t i = 0; i < replicas * m; i++)
                for (uint32_t deal = 0; deal <= m; deal += m)
                    cr_assert(
                        eq(u32, order_undeal(replicas * m, deal, order_deal(replicas * m, deal, i)),
                           i));
}

Test(order, is_a_bijection_near_all_powers_of_two, .timeout = 600)
{
    static const int besides[] = {-17, -16, -15, -2, -1, 0, 1, 2, 15, 16};

    for (unsigned bit = 1; bit <= 32; bit++)
        for (size_t i = 0; i < ARRAY_LEN(besides); i++) {
            int64_t n = (INT64_C(1) << bit) + besides[i];
            struct order order = {
                .seed = seeds[bit % 3], .n = (uint32_t)n, .shuffle = ORDER_GLOBAL};

            if (n < 1 || n > UINT32_MAX)
                continue;
            positions_come_back(&order);
            order.shuffle = ORDER_BLOCK;
            for (unsigned b = 0; b < 32; b += b < 5 ? 1 : 9) {
                order.block = (1u << b) + (uint32_t)i % 2;
                positions_come_back(&order);
            }
            order.block = order.n / 2 + 1;
            positions_come_back(&order);
        }
}

/* With 2^32 - 15 blocks and more, the number of windows was once 0, and the walk never ended. */
Test(order, blocks_of_one_sample_terminate_at_the_largest_size, .timeout = 600)
{
    for (uint32_t n = UINT32_MAX - 20; n >= UINT32_MAX - 20; n++) {
        struct order order = {.seed = 1, .n = n, .shuffle = ORDER_BLOCK, .block = 1};
        uint32_t moved = 0;

        for (uint32_t p = n - 1000; p < n; p++)
            moved += order_sample(&order, 0, p) != p;
        cr_expect(gt(u32, moved, 990), "n = %u must be mixed", n);
    }
}

/* Returns the correlation of neighbours' positions, which for unrelated orders is about 0 +- 1 /
 * sqrt(n). */
static double correlation(const struct order *a, uint32_t epoch_a, const struct order *b,
                          uint32_t epoch_b, uint32_t shift)
{
    double n = a->n, mean = (n - 1) / 2, sum = 0, var = (n * n - 1) / 12;

    for (uint32_t p = 0; p < a->n; p++)
        sum += (order_sample(a, epoch_a, p) - mean) *
               (order_sample(b, epoch_b, (p + shift) % b->n) - mean);
    return sum / n / var;
}

Test(order, orders_of_two_seeds_and_two_epochs_are_unrelated)
{
    enum { N = 20011 };
    struct order a = {.seed = 1, .n = N}, b = {.seed = 2, .n = N},
                 none = {.n = N, .shuffle = ORDER_NONE};
    double limit = 4.5 / sqrt(N);

    cr_expect(lt(dbl, fabs(correlation(&a, 0, &b, 0, 0)), limit), "two seeds");
    cr_expect(lt(dbl, fabs(correlation(&a, 0, &a, 1, 0)), limit), "two epochs");
    cr_expect(lt(dbl, fabs(correlation(&a, 0, &a, 0, 1)), limit), "neighbours");
    cr_expect(lt(dbl, fabs(correlation(&a, 0, &none, 0, 0)), limit),
              "a shuffled and a plain order");
    cr_expect(gt(dbl, fabs(correlation(&a, 0, &a, 0, 0)), 0.999),
              "the test must detect a relation");
}

/* Counts how often two epochs show the same sample at a position. For random orders of any size,
 * that is once on average. */
Test(order, two_epochs_agree_in_about_one_position)
{
    enum { N = 4099, EPOCHS = 400 };
    struct order a = {.seed = 77, .n = N};
    double agreed = 0;

    for (uint32_t e = 0; e < EPOCHS; e++)
        for (uint32_t p = 0; p < N; p++)
            agreed += order_sample(&a, e, p) == order_sample(&a, e + 1, p);
    /* A sum of 400 Poisson(1): 400 +- 20. */
    cr_expect(lt(dbl, fabs(agreed - EPOCHS), 5 * 20.0), "%g agreements in %d epochs", agreed,
              EPOCHS);
}

/* Over epochs, each sample must be at each position equally often. Chi-square has (n-1)^2 degrees
 * of freedom. */
static void expect_uniform_cells(uint32_t n, uint32_t epochs, enum order_shuffle shuffle)
{
    struct order order = {.seed = 3, .n = n, .shuffle = shuffle, .block = 2};
    double *count = calloc((size_t)n * n, sizeof(double)), chi = 0, expected = (double)epochs / n;
    double freedom = (double)(n - 1) * (n - 1);

    for (uint32_t e = 0; e < epochs; e++)
        for (uint32_t p = 0; p < n; p++)
            count[p * n + order_sample(&order, e, p)]++;
    for (uint32_t i = 0; i < n * n; i++)
        chi += (count[i] - expected) * (count[i] - expected) / expected;
    free(count);
    cr_expect(lt(dbl, fabs(chi - freedom), 5 * sqrt(2 * freedom)), "n = %u: chi-square %g of %g", n,
              chi, freedom);
}

Test(order, every_position_shows_every_sample_equally_often)
{
    static const uint32_t sizes[] = {2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 17, 31, 33, 50};

    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        expect_uniform_cells(sizes[i], 6000, ORDER_GLOBAL);
        expect_uniform_cells(sizes[i], 6000, ORDER_BLOCK);
    }
}

/* All n! permutations must be equally likely: a network with too few rounds fails this. */
static void expect_uniform_permutations(uint32_t n, uint32_t factorial)
{
    enum { EACH = 100 };
    struct order order = {.seed = 11, .n = n};
    double *count = calloc(factorial, sizeof(double)), chi = 0, freedom = factorial - 1.0;

    for (uint32_t e = 0; e < factorial * EACH; e++) {
        uint32_t number = 0;

        for (uint32_t p = 0; p < n; p++) {
            uint32_t smaller = 0, s = order_sample(&order, e, p);

            for (uint32_t q = p + 1; q < n; q++)
                smaller += order_sample(&order, e, q) < s;
            number = number * (n - p) + smaller;
        }
        count[number]++;
    }
    for (uint32_t i = 0; i < factorial; i++)
        chi += (count[i] - EACH) * (count[i] - EACH) / EACH;
    free(count);
    cr_expect(lt(dbl, fabs(chi - freedom), 5 * sqrt(2 * freedom)), "n = %u: chi-square %g of %g", n,
              chi, freedom);
}

Test(order, all_permutations_of_few_samples_are_equally_likely)
{
    expect_uniform_permutations(2, 2);
    expect_uniform_permutations(3, 6);
    expect_uniform_permutations(4, 24);
    expect_uniform_permutations(5, 120);
    expect_uniform_permutations(6, 720);
}

struct shuffle_case {
    char text[24];
    int want;
    enum order_shuffle shuffle;
    uint32_t block;
};

ParameterizedTestParameters(order, parses_shuffle)
{
    static struct shuffle_case cases[] = {
        {"global", 0, ORDER_GLOBAL, 0},
        {"none", 0, ORDER_NONE, 0},
        {"block:1024", 0, ORDER_BLOCK, 1024},
        {"block:0", -EINVAL, 0, 0},
        {"block:", -EINVAL, 0, 0},
        {"block:-1", -EINVAL, 0, 0},
        {"block:4294967296", -EINVAL, 0, 0},
        {"blocks", -EINVAL, 0, 0},
        {"", -EINVAL, 0, 0},
    };
    return cr_make_param_array(struct shuffle_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct shuffle_case *c, order, parses_shuffle)
{
    enum order_shuffle shuffle = 0;
    uint32_t block = 0;
    struct plenum_error err = {""};

    cr_expect(eq(int, order_parse_shuffle(c->text, &shuffle, &block, &err), c->want), "'%s'",
              c->text);
    cr_expect(eq(int, shuffle, c->shuffle), "'%s'", c->text);
    cr_expect(eq(u32, block, c->block), "'%s'", c->text);
    if (c->want < 0)
        cr_expect(ne(str, err.text, ""));
}

/* Counts steps by counting positions one by one. */
static uint64_t count_steps(uint64_t n, uint64_t per_step, enum order_last last, uint64_t from)
{
    uint64_t steps = 0;

    while (from < n) {
        if (last == ORDER_DROP && from + per_step > n)
            break;
        steps++;
        from += per_step;
    }
    return steps;
}

Test(steps, agree_with_counting)
{
    for (uint32_t n = 1; n < 40; n++)
        for (uint32_t per_step = 1; per_step < 45; per_step++)
            for (int last = ORDER_PAD; last <= ORDER_DROP; last++)
                for (uint64_t from = 0; from <= n; from++) {
                    struct order_steps steps = {.n = n, .per_step = per_step, .last = last};
                    struct order_place place = {7, from};

                    cr_assert(eq(u64, order_steps_left(&steps, place),
                                 count_steps(n, per_step, last, from)),
                              "n %u, step %u, last %d, from %llu", n, per_step, last,
                              (unsigned long long)from);
                    cr_assert(eq(int, order_place_has_step(&steps, place),
                                 count_steps(n, per_step, last, from) > 0));
                }
}

/* Walking from step to step visits each valid position exactly once per epoch, even if the step
 * size changes midway. */
Test(steps, skipping_equals_going_step_by_step)
{
    for (uint32_t n = 1; n < 25; n++)
        for (uint32_t per_step = 1; per_step < 8; per_step++)
            for (int i = 0; i < 6; i++) {
                struct order_steps steps = {.n = n,
                                            .per_step = per_step,
                                            .last = i % 2 ? ORDER_DROP : ORDER_PAD,
                                            .span = (uint64_t[]){0, n + 9, n / 2 + 1}[i / 2]};

                if (order_steps_left(&steps, (struct order_place){0}) == 0)
                    continue;
                for (uint64_t from = 0; from < max_u64(n, steps.span); from++) {
                    struct order_place first = {3, from}, place = first, skipped;

                    for (uint64_t k = 1; k < 70; k++) {
                        place = order_place_settle(&steps, order_place_after(&steps, place));
                        skipped = order_place_skip(&steps, first, k);
                        cr_assert(skipped.epoch == place.epoch &&
                                      skipped.position == place.position,
                                  "n %u span %u, steps of %u, %u from %u", n, (unsigned)steps.span,
                                  per_step, (unsigned)k, (unsigned)from);
                    }
                }
            }
}

Test(steps, a_run_that_changes_its_step_visits_each_position_once)
{
    for (uint32_t n = 1; n < 30; n++)
        for (uint32_t a = 1; a < 12; a++)
            for (uint32_t b = 1; b < 12; b++) {
                struct order_steps first = {.n = n, .per_step = a, .last = ORDER_PAD},
                                   second = {.n = n, .per_step = b, .last = ORDER_PAD};
                struct order_place place = {0, 0};
                unsigned seen[2][32] = {{0}};

                for (int step = 0; place.epoch < 2; step++) {
                    const struct order_steps *steps = step < 2 ? &first : &second;

                    place = order_place_settle(steps, place);
                    if (place.epoch >= 2)
                        break;
                    for (uint64_t p = place.position; p < place.position + steps->per_step; p++)
                        if (p < n)
                            seen[place.epoch][p]++;
                    place = order_place_after(steps, place);
                }
                for (uint32_t e = 0; e < 2; e++)
                    for (uint32_t p = 0; p < n; p++)
                        cr_assert(eq(u32, seen[e][p], 1), "n %u, steps %u then %u: %u.%u", n, a, b,
                                  e, p);
            }
}

/* A span comes from a client: up to 2^64 - 1. */
Test(steps, are_exact_near_2_to_the_64)
{
    for (uint32_t i = 0; i < 40000; i++) {
        struct philox_block d = philox_draw(6, i, 0, DRAW_SAMPLE_SET, 0);
        uint32_t per_step = i % 3 ? 1 + d.word[0] % 9 : UINT32_MAX - d.word[0] % 3;
        struct order_steps steps = {.n = 1 + d.word[1] % 99,
                                    .per_step = per_step,
                                    .last = (enum order_last)(i % 2),
                                    .span = UINT64_MAX - d.word[2] % 20};
        struct order_place place = {7, UINT64_MAX - d.word[3] % 40},
                           after = order_place_after(&steps, place);
        unsigned __int128 left = place.position < steps.span ? steps.span - place.position : 0;

        cr_assert(
            eq(u64, order_steps_left(&steps, place),
               (uint64_t)((steps.last == ORDER_PAD ? left + per_step - 1 : left) / per_step)));
        cr_assert(eq(u64, after.epoch, left > per_step ? 7 : 8));
        cr_assert(eq(u64, after.position, left > per_step ? place.position + per_step : 0));
        cr_assert(gt(u64, order_steps_left(&steps, (struct order_place){0}), 0));
    }
}

Test(steps, positions_dropped_by_large_steps_serve_smaller_ones)
{
    struct order_steps large = {.n = 10, .per_step = 4, .last = ORDER_DROP},
                       small = {.n = 10, .per_step = 2, .last = ORDER_DROP};
    struct order_place after = order_place_after(&large, (struct order_place){3, 4});

    cr_expect(eq(u64, after.epoch, 3));
    cr_expect(eq(u64, after.position, 8));
    cr_expect(eq(u64, order_place_settle(&large, after).epoch, 4), "no step of 4 must be left");
    cr_expect(eq(u64, order_place_settle(&small, after).position, 8), "a step of 2 must be left");
}

/* Skipped positions in epochs of 40: at the beginning, one step apart, and across an end. */
static const struct order_gap gaps[] = {{0, 2}, {16, 32}, {34, 36}, {37, 43}, {80, 120}};

static bool is_in_gap(uint64_t g)
{
    for (size_t i = 0; i < ARRAY_LEN(gaps); i++)
        if (g >= gaps[i].begin && g < gaps[i].end)
            return true;
    return false;
}

/* From any position on, with any step size, each position that is not skipped must count once, in
 * order. Padding within an epoch must not be skipped positions. */
Test(steps, gaps_are_never_shown)
{
    enum { N = 40, END = 4 * N };

    for (uint32_t per_step = 1; per_step <= 17; per_step++)
        for (uint64_t cut = 0; cut < END; cut++) {
            struct order_steps steps = {
                .n = N, .per_step = per_step, .gaps = gaps, .num_gaps = ARRAY_LEN(gaps)};
            struct order_place place =
                order_place_settle(&steps, (struct order_place){cut / N, cut % N});
            uint64_t next = cut;

            while (place.epoch < END / N) {
                for (uint32_t at = 0; at < per_step; at++) {
                    uint64_t position = order_step_position(&steps, place, at);
                    uint64_t g = place.epoch * N + position % N;

                    if (!order_step_counts(&steps, place, at)) {
                        cr_assert(position >= N || !is_in_gap(g));
                        continue;
                    }
                    while (is_in_gap(next))
                        next++;
                    cr_assert(eq(u64, g, next));
                    next++;
                }
                place = order_place_settle(&steps, order_place_after(&steps, place));
            }
            while (is_in_gap(next))
                next++;
            cr_assert(eq(u64, next, END));
        }
}

Test(steps, gaps_end_steps)
{
    struct order_steps steps = {.n = 40, .per_step = 10, .gaps = gaps, .num_gaps = ARRAY_LEN(gaps)};
    struct order_place place = {0};
    uint64_t left = order_steps_left(&steps, place);

    cr_expect(eq(u64, left, 4)); /* 2-11, 12-15, 32-33, 36, and from 43 on the next epoch */
    cr_expect(eq(u64, order_steps_left(&steps, (struct order_place){2, 0}), 0));
    place = order_place_skip(&steps, place, 4);
    cr_expect(eq(u64, place.epoch, 1));
    cr_expect(eq(u64, place.position, 3));
}

static struct order_place walk_steps(const struct order_steps *steps, struct order_place place,
                                     uint64_t count)
{
    place = order_place_settle(steps, place);
    for (; count > 0; count--)
        place = order_place_settle(steps, order_place_after(steps, place));
    return place;
}

static void expect_place(struct order_place got, struct order_place want, const char *what,
                         uint64_t number)
{
    cr_assert(got.epoch == want.epoch && got.position == want.position,
              "%s %llu: %llu.%llu instead of %llu.%llu", what, (unsigned long long)number,
              (unsigned long long)got.epoch, (unsigned long long)got.position,
              (unsigned long long)want.epoch, (unsigned long long)want.position);
}

/* Make the i-th random steps of the tests below, with up to four gaps in the first epochs. */
static struct order_steps random_steps(uint32_t i, struct order_gap *ret)
{
    struct philox_block d = philox_draw(8, i, 0, DRAW_SAMPLE_SET, 0),
                        e = philox_draw(8, i, 1, DRAW_SAMPLE_SET, 0);
    uint32_t n = 1 + d.word[0] % 23, per_step = 1 + d.word[1] % (n + 4);
    struct order_steps steps = {.n = n,
                                .per_step = per_step,
                                .last = per_step <= n && i % 2 ? ORDER_DROP : ORDER_PAD,
                                .gaps = ret,
                                .num_gaps = 1 + d.word[2] % 4};
    uint64_t at = d.word[3] % (3 * n);

    for (uint32_t k = 0; k < steps.num_gaps; k++) {
        ret[k].begin = at;
        ret[k].end = at + 1 + e.word[k] % (k % 2 ? 2 * n : 3);
        at = ret[k].end + 1 + e.word[k] / 64 % (k % 2 ? n : 3 * n);
    }
    return steps;
}

Test(steps, skipping_over_gaps_equals_going_step_by_step)
{
    for (uint32_t i = 0; i < 500; i++) {
        struct order_gap random[4];
        struct order_steps steps = random_steps(i, random);
        uint64_t end = random[steps.num_gaps - 1].end + 2 * steps.n;

        for (uint64_t from = 0; from < end; from++) {
            struct order_place first = {from / steps.n, from % steps.n}, place = first;

            place = order_place_settle(&steps, place);
            for (uint64_t k = 0; place.epoch <= end / steps.n; k++) {
                expect_place(order_place_skip(&steps, first, k), place, "step", k);
                place = order_place_settle(&steps, order_place_after(&steps, place));
            }
        }
    }
}

/* Checks that far steps follow from near ones: skipping a and then b equals skipping a + b, and
 * whole epochs before a far gap are jumped over. Step by step, this would take centuries. */
Test(steps, far_ones_are_found_at_once, .timeout = 60)
{
    for (uint32_t i = 0; i < 2000; i++) {
        struct philox_block d = philox_draw(9, i, 0, DRAW_SAMPLE_SET, 0);
        struct order_gap random[4];
        struct order_steps steps = random_steps(i, random);
        uint64_t far = (UINT64_C(1) << 50) + d.word[0], whole, before, k;
        struct order_place place;

        random[steps.num_gaps - 1].begin += far * steps.n;
        random[steps.num_gaps - 1].end += far * steps.n;
        whole = order_steps_whole(&steps);
        before = order_steps_total(&steps, far); /* steps of the epochs before the last gap */
        for (k = before; k < before + 3 * whole; k++)
            expect_place(order_place_skip(&steps, (struct order_place){0}, k),
                         walk_steps(&steps, (struct order_place){.epoch = far}, k - before),
                         "far step", k);
        place = order_place_skip(&steps, (struct order_place){0}, d.word[1]);
        expect_place(order_place_skip(&steps, place, k),
                     order_place_skip(&steps, (struct order_place){0}, d.word[1] + k),
                     "sum of steps", k);
    }
}

/* Each position must belong to the step that shows it. */
Test(steps, of_positions_agree_with_walking)
{
    for (uint32_t i = 0; i < 500; i++) {
        struct order_gap random[4];
        struct order_steps steps = random_steps(i, random);
        struct order_place place = {0};
        uint64_t epoch = 0, step = 0, begin;

        if (i % 5 == 0)
            steps.num_gaps = 0;
        place = order_place_settle(&steps, place);
        for (; place.epoch < 20; step++) {
            if (place.epoch != epoch)
                step = 0;
            epoch = place.epoch;
            for (uint32_t at = 0; at < steps.per_step; at++) {
                struct order_place shown = {epoch, order_step_position(&steps, place, at)};

                if (!order_step_counts(&steps, place, at))
                    continue;
                cr_assert(eq(u64, order_step_of(&steps, shown, &begin), step));
                cr_assert(eq(u64, begin, place.position));
            }
            place = order_place_settle(&steps, order_place_after(&steps, place));
        }
    }
}

/* With gaps anywhere, the number of steps from the beginning must agree with counting. */
Test(steps, their_total_agrees_with_counting)
{
    enum { N = 7, EPOCHS = 6, END = EPOCHS * N };

    for (uint32_t per_step = 1; per_step <= N; per_step++)
        for (uint64_t begin = 0; begin < END; begin++)
            for (uint64_t end = begin + 1; end <= END; end++) {
                struct order_gap two[] = {{begin, end}, {end + 3, end + 4}};
                struct order_steps steps = {.n = N,
                                            .per_step = per_step,
                                            .last = begin % 2 ? ORDER_PAD : ORDER_DROP,
                                            .gaps = two,
                                            .num_gaps = 2};
                struct order_place place = order_place_settle(&steps, (struct order_place){0});
                uint64_t count = 0;

                cr_assert(order_has_steps(&steps));
                for (uint64_t epochs = 0; epochs <= EPOCHS + 2; epochs++) {
                    for (; place.epoch < epochs; count++)
                        place = order_place_settle(&steps, order_place_after(&steps, place));
                    cr_assert(eq(u64, order_steps_total(&steps, epochs), count));
                }
            }
}

Test(steps, without_any_step_is_recognised)
{
    struct order_gap all = {0, INT64_MAX}, far[] = {{2, 3}, {INT64_MAX / 2, INT64_MAX / 2 + 1}};
    struct order_steps steps = {.n = 8, .per_step = 9, .last = ORDER_DROP};

    cr_expect(not(order_has_steps(&steps)));
    steps.gaps = far; /* a gap ends a step of any length, but other epochs have none */
    steps.num_gaps = 2;
    cr_expect(not(order_has_steps(&steps)));
    steps.per_step = 8;
    cr_expect(order_has_steps(&steps));
    steps.gaps = &all;
    steps.num_gaps = 1;
    cr_expect(not(order_has_steps(&steps)));
    all.end = 100 * 8;
    cr_expect(order_has_steps(&steps));
    cr_expect(eq(u64, order_steps_total(&steps, 100), 0));
    cr_expect(eq(u64, order_steps_total(&steps, 105), 5));
}
