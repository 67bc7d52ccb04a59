/* SPDX-License-Identifier: MIT */
/* Tests mixtures of sets: each set's order continues without gaps from piece to piece. */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/order/mixture.h"
#include "common/order/order.h"
#include "common/util/util.h"

enum { SETS_MAX = 4, PIECES = 8 };

/* A mixture of plain sets. */
struct made {
    struct sampler_table tables[SETS_MAX];
    struct mixture_set sets[SETS_MAX];
    struct mixture_piece pieces[PIECES];
    struct mixture_parts parts;
    struct mixture *mixture;
};

static const char *const names[] = {"a", "b", "c", "d"};

static void make(struct made *m, uint64_t seed, const uint32_t *sizes, uint32_t sets,
                 uint32_t block, uint32_t positions)
{
    uint32_t first = 0;

    for (uint32_t i = 0; i < sets; i++) {
        m->tables[i] = (struct sampler_table){.kind = SAMPLER_PLAIN,
                                              .n = sizes[i],
                                              .positions = sizes[i],
                                              .plain = {.n = sizes[i], .shuffle = ORDER_GLOBAL}};
        m->sets[i] = (struct mixture_set){names[i], &m->tables[i], first};
        first += sizes[i];
    }
    m->parts.sets = m->sets;
    m->parts.num_sets = sets;
    m->parts.pieces = m->pieces;
    m->parts.block = block;
    m->parts.positions = positions;
    cr_assert(eq(int, mixture_create(&m->parts, seed, &m->mixture), 0));
}

static void add_piece(struct made *m, uint64_t start, const uint32_t *weights)
{
    m->pieces[m->parts.num_pieces++] = (struct mixture_piece){start, weights};
}

/* These are the values of the reference model: seed 5, sizes 10 4 6, weights 7:2:1, from 16 on
 * 1:1:1, K 8, N 40. */
Test(mixture, known_answers)
{
    static const uint32_t want[][2] = {
        {0, 4}, {0, 1},  {1, 1},  {1, 0}, {0, 0}, {0, 2},  {2, 0},  {0, 3}, {2, 1},  {0, 8}, {0, 6},
        {0, 7}, {0, 9},  {0, 10}, {1, 2}, {0, 5}, {0, 11}, {2, 4},  {1, 4}, {0, 12}, {2, 2}, {1, 3},
        {2, 3}, {0, 13}, {1, 7},  {1, 5}, {2, 6}, {0, 14}, {0, 15}, {2, 5}, {1, 6},  {0, 16}};
    struct made m = {0};

    add_piece(&m, 0, (uint32_t[]){7, 2, 1});
    add_piece(&m, 16, (uint32_t[]){1, 1, 1});
    make(&m, 5, (uint32_t[]){10, 4, 6}, 3, 8, 40);
    for (uint64_t g = 0; g < ARRAY_LEN(want); g++) {
        struct mixture_turn turn = mixture_locate(m.mixture, g);

        cr_expect(eq(u32, turn.set, want[g][0]), "position %u", (unsigned)g);
        cr_expect(eq(u64, turn.t, want[g][1]), "position %u", (unsigned)g);
    }
    mixture_destroy(m.mixture);
}

/* Checks that each set's t continues without gaps from block to block, that mixture_find() is the
 * inverse of mixture_locate(), and that mixture_before() agrees with counting. */
static void check_turns(const struct made *m, uint64_t begin, uint64_t end)
{
    uint64_t told[SETS_MAX];

    for (uint32_t i = 0; i < m->parts.num_sets; i++)
        told[i] = mixture_before(m->mixture, i, begin);
    for (uint64_t g = begin; g < end; g += m->parts.block) {
        uint64_t sum[SETS_MAX] = {0}, count[SETS_MAX] = {0};

        for (uint64_t p = g; p < g + m->parts.block; p++) {
            struct mixture_turn turn = mixture_locate(m->mixture, p);

            cr_assert(eq(u64, mixture_find(m->mixture, &turn), p));
            cr_assert(turn.t >= told[turn.set]);
            sum[turn.set] += turn.t - told[turn.set];
            count[turn.set]++;
        }
        for (uint32_t i = 0; i < m->parts.num_sets; i++) {
            /* find() has shown that all values of t differ, so this sum means that they are 0 ...
             * count - 1 */
            cr_assert(eq(u64, sum[i] * 2, count[i] * (count[i] - (count[i] > 0))));
            told[i] += count[i];
            cr_assert(eq(u64, mixture_before(m->mixture, i, g + m->parts.block), told[i]));
        }
    }
}

Test(mixture, turns_have_no_gaps)
{
    static const uint32_t blocks[] = {1, 4, 16, 32};

    for (size_t k = 0; k < ARRAY_LEN(blocks); k++) {
        struct made m = {0};
        uint64_t block = blocks[k];

        add_piece(&m, 0, (uint32_t[]){7, 2, 1, 0});
        add_piece(&m, 2 * block, (uint32_t[]){1, 1, 1, 0});
        add_piece(&m, 6 * block, (uint32_t[]){0, 3, 5, 2});
        add_piece(&m, 10 * block, (uint32_t[]){1, 0, 0, 0});
        make(&m, k, (uint32_t[]){50, 20, 11, 3}, 4, blocks[k], 1000);
        check_turns(&m, 0, 40 * block);
        mixture_destroy(m.mixture);
    }
}

Test(mixture, positions_have_63_bits)
{
    struct made m = {0};
    uint64_t far = (UINT64_C(1) << 62) + 32 * 7;

    add_piece(&m, 0, (uint32_t[]){70000, 29999, 1});
    add_piece(&m, UINT64_C(32000000000), (uint32_t[]){1, 1, 1});
    make(&m, 3, (uint32_t[]){500000000, 1000000000, 3}, 3, 32, 1000000000);
    check_turns(&m, UINT64_C(32000000000) - 64, UINT64_C(32000000000) + 64);
    check_turns(&m, far, far + 128);
    mixture_destroy(m.mixture);
}

/* Every pass of every set shows each of its samples once. */
Test(mixture, passes_are_complete)
{
    static const uint32_t sizes[] = {17, 40, 5};
    struct made m = {0};
    uint32_t shown[62] = {0}, count[3] = {0};

    add_piece(&m, 0, (uint32_t[]){3, 2, 1});
    make(&m, 8, sizes, 3, 16, 160);
    for (uint32_t e = 0; e < 8; e++)
        for (uint32_t p = 0; p < 160; p++) {
            uint32_t sample = mixture_sample(m.mixture, e, p);

            cr_assert(sample < 62);
            shown[sample]++;
            count[sample < 17 ? 0 : sample < 57 ? 1 : 2]++;
        }
    for (uint32_t i = 0, first = 0; i < 3; first += sizes[i++]) {
        uint32_t least = count[i] / sizes[i];

        for (uint32_t s = first; s < first + sizes[i]; s++)
            cr_expect(shown[s] >= least && shown[s] <= least + 1);
    }
    mixture_destroy(m.mixture);
}

/* A set that is added later does not change what the others show, before or afterwards. */
Test(mixture, a_later_set_does_not_change_earlier_positions)
{
    struct made before = {0}, after = {0};

    add_piece(&before, 0, (uint32_t[]){3, 2});
    add_piece(&before, 64, (uint32_t[]){1, 1});
    make(&before, 2, (uint32_t[]){50, 20}, 2, 16, 1000);
    add_piece(&after, 0, (uint32_t[]){3, 2, 0});
    add_piece(&after, 64, (uint32_t[]){1, 1, 1});
    make(&after, 2, (uint32_t[]){50, 20, 9}, 3, 16, 1000);
    for (uint32_t p = 0; p < 64; p++)
        cr_assert(
            eq(u32, mixture_sample(before.mixture, 0, p), mixture_sample(after.mixture, 0, p)));
    for (uint32_t i = 0; i < 2; i++)
        for (uint64_t t = 0; t < 60; t++) {
            struct mixture_turn turn = {i, t};
            uint64_t a = mixture_find(before.mixture, &turn),
                     b = mixture_find(after.mixture, &turn);

            cr_assert(eq(u32, mixture_sample(before.mixture, a / 1000, (uint32_t)(a % 1000)),
                         mixture_sample(after.mixture, b / 1000, (uint32_t)(b % 1000))));
        }
    mixture_destroy(before.mixture);
    mixture_destroy(after.mixture);
}

/* After its weight becomes 0, a set is no longer shown. */
Test(mixture, find_reports_that_a_set_has_ended)
{
    struct made m = {0};
    struct mixture_turn turn = {.set = 1};

    add_piece(&m, 0, (uint32_t[]){1, 1});
    add_piece(&m, 64, (uint32_t[]){1, 0});
    make(&m, 2, (uint32_t[]){50, 20}, 2, 16, 1000);
    for (turn.t = 0; turn.t < 32; turn.t++)
        cr_expect(mixture_find(m.mixture, &turn) < 64);
    cr_expect(eq(u64, mixture_find(m.mixture, &turn), UINT64_MAX));
    mixture_destroy(m.mixture);
}

/* No position before a pass's start shows that pass, and the block that begins there does. */
Test(mixture, passes_start_with_a_block)
{
    struct made m = {0};

    add_piece(&m, 0, (uint32_t[]){7, 2, 1, 0});
    add_piece(&m, 160, (uint32_t[]){1, 0, 3, 0});
    make(&m, 4, (uint32_t[]){50, 20, 9, 5}, 4, 16, 1000);
    for (uint32_t i = 0; i < 4; i++)
        for (uint64_t pass = 0; pass < 10; pass++) {
            uint64_t start = mixture_pass_start(m.mixture, i, pass), n = m.tables[i].positions;

            if (start == UINT64_MAX) { /* set b has 32 positions, and set d has none */
                cr_expect(i == 3 || (i == 1 && pass > 1), "pass %llu of set %u",
                          (unsigned long long)pass, i);
                continue;
            }
            cr_expect(eq(u64, start % 16, 0));
            cr_expect(mixture_before(m.mixture, i, start) <= pass * n);
            cr_expect(mixture_before(m.mixture, i, start + 16) > pass * n);
        }
    cr_expect(eq(u64, (mixture_pass_start(m.mixture, 0, UINT32_MAX) + 1000) / UINT32_MAX, 200));
    mixture_destroy(m.mixture);
    m = (struct made){0};
    add_piece(&m, 0, (uint32_t[]){UINT32_MAX - 1, 1});
    make(&m, 4, (uint32_t[]){50, 4000000000}, 2, 16, 1000);
    cr_expect(eq(u64, mixture_pass_start(m.mixture, 1, UINT32_MAX), UINT64_MAX));
    mixture_destroy(m.mixture);
}

/* With a single set, pass p is epoch p. */
Test(mixture, passes_of_a_single_set_are_epochs)
{
    struct made m = {0};

    add_piece(&m, 0, (uint32_t[]){1});
    make(&m, 4, (uint32_t[]){50}, 1, 16, 50);
    cr_expect(eq(u64, mixture_pass_start(m.mixture, 0, 3), 150));
    mixture_destroy(m.mixture);
}

/* Each place of a block shows a set equally often, and the sets of a place's neighbours do not
 * predict its own. */
Test(mixture, places_are_not_predictable)
{
    enum { K = 16, BLOCKS = 1000 };
    static const double share[] = {3.0 / 16, 8.0 / 16, 5.0 / 16};
    struct made m = {0};
    uint32_t at[K][3] = {{0}};
    static uint8_t line[K * BLOCKS];
    double mean = 0;

    add_piece(&m, 0, (uint32_t[]){3, 8, 5});
    make(&m, 77, (uint32_t[]){100, 100, 100}, 3, K, K);
    for (uint32_t g = 0; g < K * BLOCKS; g++) {
        uint32_t set = mixture_locate(m.mixture, g).set;

        at[g % K][set]++;
        line[g] = set == 0;
        mean += line[g];
    }
    mean /= K * BLOCKS;
    for (uint32_t x = 0; x < K; x++) {
        double chi = 0;

        for (uint32_t i = 0; i < 3; i++)
            chi += pow(at[x][i] - BLOCKS * share[i], 2) / (BLOCKS * share[i]);
        cr_expect(chi < 2 + 5 * 2 + 5, "place %u: chi-square %.1f", x, chi);
    }
    for (uint32_t lag = 1; lag <= 2 * K; lag++) {
        double sum = 0, inside = lag < K ? (double)(K - lag) / K : 0;

        for (uint32_t g = 0; g + lag < K * BLOCKS; g++)
            sum += (line[g] - mean) * (line[g + lag] - mean);
        sum /= (K * BLOCKS - lag) * mean * (1 - mean);
        cr_expect(fabs(sum + inside / (K - 1)) < 5 / sqrt(K * BLOCKS), "lag %u: %.4f", lag, sum);
    }
    mixture_destroy(m.mixture);
}

Test(mixture, an_epoch_shows_the_named_set_completely)
{
    static const uint32_t sizes[] = {100, 999};
    struct made m = {0};
    uint32_t set, one, all;

    add_piece(&m, 0, (uint32_t[]){1, 4});
    make(&m, 0, sizes, 2, 32, 1);
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t n = mixture_epoch(&m.parts, i, 0, &set);

        cr_expect(eq(u32, n % 32, 0));
        cr_expect(mixture_before(m.mixture, i, n) >= sizes[i]);
        cr_expect(mixture_before(m.mixture, i, n - 32) < sizes[i]);
    }
    one = mixture_epoch(&m.parts, 1, 0, &set);
    all = mixture_epoch(&m.parts, UINT32_MAX, 0, &set);
    cr_expect(eq(u32, all, one)); /* 999 / 4 is more than 100 / 1 */
    mixture_destroy(m.mixture);
}

Test(mixture, an_epoch_may_be_too_long)
{
    struct made m = {0};
    uint32_t set = 0;

    add_piece(&m, 0, (uint32_t[]){1000000, 1});
    make(&m, 0, (uint32_t[]){10, 41000}, 2, 64, 1);
    cr_expect(eq(u32, mixture_epoch(&m.parts, UINT32_MAX, 0, &set), 0));
    cr_expect(eq(u32, set, 1));
    mixture_destroy(m.mixture);
}

static void count_position(void *arg, uint32_t position)
{
    uint8_t *seen = arg;

    cr_assert(position < 200);
    seen[position]++;
}

/* Checks, for each kind of set, that a sample finds its position of an epoch, and no other. */
static void check_samples(const struct made *m, uint32_t samples)
{
    for (uint32_t e = 0; e < 3; e++)
        for (uint32_t s = 0; s < samples; s++) {
            uint8_t seen[200] = {0};

            mixture_find_sample(m->mixture, e, s, count_position, seen);
            for (uint32_t p = 0; p < m->parts.positions; p++)
                cr_assert(eq(u32, seen[p], mixture_sample(m->mixture, e, p) == s));
        }
}

Test(mixture, samples_are_found)
{
    static const uint32_t member[] = {1, 4, 5, 9};
    static const uint64_t sums[] = {3, 3, 10, 11};
    struct made m = {0};

    add_piece(&m, 0, (uint32_t[]){3, 2, 1});
    add_piece(&m, 160, (uint32_t[]){1, 1, 4});
    make(&m, 4, (uint32_t[]){17, 10, 5}, 3, 16, 100); /* epochs do not end with a block */
    mixture_destroy(m.mixture);
    m.tables[1] = (struct sampler_table){
        .kind = SAMPLER_QUOTA, .n = 4, .positions = 11, .member = member, .sums = sums};
    m.tables[2].plain.shuffle = ORDER_BLOCK;
    m.tables[2].plain.block = 2;
    cr_assert(eq(int, mixture_create(&m.parts, 4, &m.mixture), 0));
    check_samples(&m, 32);
    mixture_destroy(m.mixture);
}

/* A single set is shown as without a plan. */
Test(mixture, a_single_set_has_the_order_of_a_stream)
{
    struct made m = {0};
    struct order order = {.seed = 12, .n = 977, .shuffle = ORDER_GLOBAL};

    add_piece(&m, 0, (uint32_t[]){1});
    make(&m, 12, (uint32_t[]){977}, 1, 64, 977);
    for (uint32_t p = 0; p < 977; p++)
        cr_assert(eq(u32, mixture_sample(m.mixture, 3, p), order_sample(&order, 3, p)));
    mixture_destroy(m.mixture);
}
