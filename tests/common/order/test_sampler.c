/* SPDX-License-Identifier: MIT */
/* Tests the orders of one set: by weights, stratified, balanced, and with P classes of k
 * samples. */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/order/sampler.h"
#include "common/order/shares.h"
#include "common/util/util.h"

enum { MOST = 64 };

/* Makes a table of weights, with their sums. */
static struct sampler_table by_weight(const uint64_t *weights, uint64_t *sums, uint32_t n,
                                      uint32_t positions)
{
    for (uint32_t i = 0; i < n; i++)
        sums[i] = weights[i] + (i > 0 ? sums[i - 1] : 0);
    return (struct sampler_table){
        .kind = SAMPLER_QUOTA, .n = n, .positions = positions, .sums = sums};
}

/* Makes a table of classes of these sizes. */
static struct sampler_table by_class(enum sampler_kind kind, const uint32_t *sizes,
                                     uint32_t classes, uint32_t *start)
{
    start[0] = 0;
    for (uint32_t c = 0; c < classes; c++)
        start[c + 1] = start[c] + sizes[c];
    return (struct sampler_table){.kind = kind,
                                  .n = start[classes],
                                  .positions = start[classes],
                                  .classes = classes,
                                  .start = start};
}

static void check_answers(const struct sampler_table *table, uint64_t pass, const uint32_t *want)
{
    struct sampler s;

    cr_assert(eq(int, sampler_init(&s, table, 5), 0));
    for (uint32_t p = 0; p < table->positions; p++)
        cr_expect(eq(u32, sampler_at(&s, pass, p), want[p]), "position %u", p);
    sampler_fini(&s);
}

/* From each change of weights on, a sampler shows what one with the new table shows. */
Test(sampler, weights_change_at_a_pass)
{
    uint64_t sums[2][4];
    struct sampler_column columns[4];
    struct sampler_table plain = {.n = 4, .positions = 4, .plain = {.n = 4}};
    struct sampler_table one = by_weight((uint64_t[]){3, 1, 1, 2}, sums[0], 4, 4);
    struct sampler_table two = by_weight((uint64_t[]){0, 5, 1, 2}, sums[1], 4, 4);
    struct sampler_table drawn = {
        .kind = SAMPLER_DRAWN, .n = 4, .positions = 4, .columns = columns};
    const struct sampler_reweigh later[] = {{2, &one}, {3, &drawn}, {7, &two}};
    const struct sampler_table *of_pass[10] = {&plain, &plain, &one, &drawn, &drawn,
                                               &drawn, &drawn, &two, &two,   &two};
    struct sampler_table changing = plain;
    struct philox_block block = philox_draw(1, 2, 3, DRAW_PROBE, 0);

    cr_assert(eq(int, sampler_fill_columns(columns, (uint32_t[]){1, 2, 3, 4}, 4), 0));
    changing.later = later;
    changing.num_later = ARRAY_LEN(later);
    for (uint64_t pass = 0; pass < ARRAY_LEN(of_pass); pass++) {
        struct sampler all, own;

        cr_assert(eq(int, sampler_init(&all, &changing, 9), 0));
        cr_assert(eq(int, sampler_init(&own, of_pass[pass], 9), 0));
        for (uint32_t p = 0; p < 4; p++) {
            cr_expect(eq(u32, sampler_at(&all, pass, p), sampler_at(&own, pass, p)));
            cr_expect(eq(u32, sampler_substitute(&all, pass, p, &block),
                         sampler_substitute(&own, pass, p, &block)));
        }
        sampler_fini(&all);
        sampler_fini(&own);
    }
}

/* The values of the reference model of docs/order.md. */
Test(sampler, known_answers)
{
    uint64_t sums[4];
    uint32_t start[4];
    struct sampler_table weighted = by_weight((uint64_t[]){3, 1, 1, 2}, sums, 4, 10);
    struct sampler_table strata = by_class(SAMPLER_STRATA, (uint32_t[]){6, 3, 3}, 3, start);

    check_answers(&weighted, 0, (uint32_t[]){3, 2, 0, 1, 2, 3, 0, 0, 3, 0});
    check_answers(&weighted, 1, (uint32_t[]){2, 0, 1, 1, 3, 3, 0, 0, 0, 3});
    strata.block = 4;
    check_answers(&strata, 0, (uint32_t[]){4, 3, 10, 8, 5, 11, 7, 1, 0, 2, 6, 9});
}

Test(sampler, known_alias_table)
{
    static const struct sampler_column want[] = {
        {3681400539U, 3}, {2454267026U, 0}, {2454267026U, 0}, {UINT32_MAX, 3}};
    struct sampler_column got[4];

    cr_assert(eq(int, sampler_fill_columns(got, (uint32_t[]){3, 1, 1, 2}, 4), 0));
    for (size_t i = 0; i < 4; i++) {
        cr_expect(eq(u32, got[i].threshold, want[i].threshold));
        cr_expect(eq(u32, got[i].other, want[i].other));
    }
}

/* Checks that each pass has N positions, and shows each sample as often as expected, rounded down
 * or up. The same must hold for the sum of each aligned group of 2^k passes. After E passes, the
 * error must be less than popcount(E). */
static void check_quota(const uint64_t *weights, uint32_t n, uint32_t positions, uint64_t seed)
{
    uint64_t sums[MOST], seen[MOST] = {0};
    struct sampler_table table = by_weight(weights, sums, n, positions);
    uint64_t all = sums[n - 1];
    struct sampler s;

    cr_assert(eq(int, sampler_init(&s, &table, seed), 0));
    for (uint64_t pass = 0; pass < 32; pass++) {
        uint32_t got[MOST] = {0};

        for (uint32_t p = 0; p < positions; p++)
            got[sampler_at(&s, pass, p)]++;
        for (uint32_t i = 0; i < n; i++) {
            uint64_t up = weights[i] * positions, bound;

            cr_assert(got[i] >= up / all && got[i] <= (up + all - 1) / all);
            seen[i] += got[i];
            bound = all * (uint64_t)__builtin_popcountll(pass + 1);
            cr_assert(seen[i] * all < (pass + 1) * up + bound &&
                      (pass + 1) * up < seen[i] * all + bound);
        }
    }
    sampler_fini(&s);
}

Test(sampler, weights_are_kept_in_every_pass)
{
    srand(2);
    for (uint32_t round = 0; round < 12; round++) {
        uint32_t n = 1 + (uint32_t)rand() % 39;
        uint64_t weights[MOST];

        for (uint32_t i = 0; i < n; i++)
            weights[i] = (uint64_t)rand() % 300;
        weights[0] += weights[0] == 0;
        check_quota(weights, n, n, round);
        check_quota(weights, n, 3 * n + 1, round);
        check_quota(weights, n, n / 2 + 1, round);
    }
}

/* A table's guides only make searches faster: they must not change a result. */
Test(sampler, guides_find_the_same_members)
{
    static const uint64_t scales[] = {1, 1000, UINT64_C(1) << 40};

    srand(5);
    for (size_t k = 0; k < ARRAY_LEN(scales); k++) {
        uint64_t weights[MOST], sums[MOST];
        struct sampler_table table, guided;
        struct sampler one, two;
        uint32_t *guide;

        for (uint32_t i = 0; i < MOST; i++)
            weights[i] = (uint64_t)(rand() % 5) * scales[k] + (uint64_t)(i == 7);
        table = guided = by_weight(weights, sums, MOST, 500);
        guide = sampler_make_guide(&guided);
        cr_assert(ne(ptr, guide, NULL));
        cr_assert(eq(int, sampler_init(&one, &table, k), 0));
        cr_assert(eq(int, sampler_init(&two, &guided, k), 0));
        for (uint32_t p = 0; p < 500; p++)
            cr_assert(eq(u32, sampler_at(&one, 3, p), sampler_at(&two, 3, p)));
        free(guide);
    }
}

Test(sampler, whole_repetitions_are_exact)
{
    static const uint32_t want[] = {1, 3, 2, 1, 5};
    uint64_t sums[5];
    struct sampler_table table = by_weight((uint64_t[]){1, 3, 2, 1, 5}, sums, 5, 12);

    for (uint64_t seed = 0; seed < 8; seed++) {
        struct sampler s;
        uint32_t got[5] = {0};

        cr_assert(eq(int, sampler_init(&s, &table, seed), 0));
        for (uint32_t p = 0; p < 12; p++)
            got[sampler_at(&s, seed * 7, p)]++;
        cr_expect(eq(int, memcmp(got, want, sizeof(got)), 0));
        sampler_fini(&s);
    }
}

/* Over all columns, each sample has exactly its weight, and one of weight 0 is never shown. */
Test(sampler, alias_tables_are_exact)
{
    srand(3);
    for (uint32_t round = 0; round < 20; round++) {
        uint32_t n = 2 + (uint32_t)rand() % 58, weights[MOST];
        uint64_t share[MOST] = {0}, sum = 0;
        struct sampler_column columns[MOST];

        for (uint32_t i = 0; i < n; i++)
            sum += weights[i] = rand() % 4 ? (uint32_t)rand() : 0;
        if (sum == 0)
            continue;
        cr_assert(eq(int, sampler_fill_columns(columns, weights, n), 0));
        for (uint32_t i = 0; i < n; i++) {
            uint64_t own = columns[i].other == i ? UINT64_C(1) << 32 : columns[i].threshold;

            share[i] += own;
            share[columns[i].other] += (UINT64_C(1) << 32) - own;
        }
        for (uint32_t i = 0; i < n; i++) {
            double want = (double)n * weights[i] / (double)sum * 0x1p32;

            cr_assert(weights[i] > 0 || share[i] == 0);
            cr_assert(fabs((double)share[i] - want) < n + 1);
        }
    }
}

Test(sampler, drawn_samples_have_their_shares)
{
    static const uint32_t weights[] = {1, 2, 3, 10, 0, 4};
    struct sampler_column columns[6];
    struct sampler_table table = {
        .kind = SAMPLER_DRAWN, .n = 6, .positions = 20000, .columns = columns};
    uint32_t got[6] = {0};
    double chi = 0;
    struct sampler s;

    cr_assert(eq(int, sampler_fill_columns(columns, weights, 6), 0));
    cr_assert(eq(int, sampler_init(&s, &table, 4), 0));
    for (uint32_t p = 0; p < table.positions; p++)
        got[sampler_at(&s, 3, p)]++;
    cr_expect(eq(u32, got[4], 0));
    for (uint32_t i = 0; i < 6; i++) {
        double want = 20000.0 * weights[i] / 20, off = got[i] - want;

        chi += want > 0 ? off * off / want : 0;
    }
    cr_expect(chi < 24, "chi-square %.1f with 4 degrees of freedom", chi);
    sampler_fini(&s);
}

/* Checks that a pass shows each sample once, and that in each whole block, the number of samples of
 * each class differs from the class's share by less than 1 + 1/B. */
static void check_strata(const uint32_t *sizes, uint32_t classes, uint32_t block, uint64_t seed)
{
    uint32_t start[16];
    struct sampler_table table = by_class(SAMPLER_STRATA, sizes, classes, start);
    uint32_t blocks = table.n / block;
    struct sampler s;

    table.block = block;
    cr_assert(eq(int, sampler_init(&s, &table, seed), 0));
    for (uint64_t pass = 0; pass < 3; pass++) {
        uint8_t seen[256] = {0};
        uint32_t count[16] = {0};

        for (uint32_t p = 0; p < table.n; p++) {
            uint32_t sample = sampler_at(&s, pass, p), c = 0;

            cr_assert(sample < table.n && !seen[sample]++);
            while (start[c + 1] <= sample)
                c++;
            count[c]++;
            if ((p + 1) % block)
                continue;
            for (c = 0; c < classes; c++) { /* |count - G n_c / n| < 1 + 1/B, times n B */
                int64_t off = ((int64_t)count[c] * table.n - (int64_t)block * sizes[c]) * blocks;

                cr_assert(llabs(off) <= (int64_t)table.n * (blocks + 1));
                count[c] = 0;
            }
        }
    }
    sampler_fini(&s);
}

Test(sampler, strata_show_each_sample_once_and_each_class_by_its_share)
{
    for (uint32_t block = 1; block <= 40;
         block++) { /* some larger than the set, some that divide it */
        check_strata((uint32_t[]){6, 3, 3}, 3, block, block);
        check_strata((uint32_t[]){1, 20, 2, 9}, 4, block, block);
        check_strata((uint32_t[]){30}, 1, block, block);
        check_strata((uint32_t[]){17, 1, 1, 1, 1, 16}, 6, block, block);
    }
}

/* Each block has equally many samples of all classes, and each class's passes show each of its
 * samples once. */
Test(sampler, balanced_blocks_have_equal_classes)
{
    static const uint32_t sizes[] = {3, 20, 7};
    uint32_t start[4];
    struct sampler_table table = by_class(SAMPLER_BALANCED, sizes, 3, start);
    uint32_t order[3][400], shown[3] = {0}, count[3] = {0};
    struct sampler s;

    table.block = 8;
    cr_assert(eq(int, sampler_init(&s, &table, 9), 0));
    for (uint32_t g = 0; g < 800; g++) {
        uint32_t sample = sampler_at(&s, g / table.n, g % table.n), c = 0;

        while (start[c + 1] <= sample)
            c++;
        order[c][shown[c]++] = sample - start[c];
        count[c]++;
        for (uint32_t i = 0; g % 8 == 7 && i < 3; i++) {
            cr_assert(count[i] == 2 || count[i] == 3);
            count[i] = 0;
        }
    }
    for (uint32_t c = 0; c < 3; c++) /* passes may overlap within a block */
        for (uint32_t t = 0; t + sizes[c] <= shown[c]; t++) {
            uint32_t times = 0;

            for (uint32_t k = 0; k <= t; k++)
                times += order[c][k] == order[c][t];
            cr_assert(times <= t / sizes[c] + 2);
        }
    sampler_fini(&s);
}

/* Checks that every block has P different classes with k samples each, and that every C consecutive
 * class slots have each class once. */
static void check_classes(uint32_t classes, uint32_t per_block, uint32_t each)
{
    uint32_t sizes[24], start[25], shown[24] = {0}, blocks = 6 * classes;
    struct sampler_table table;
    struct sampler s;

    for (uint32_t c = 0; c < classes; c++)
        sizes[c] = 1 + c * 5 % 7;
    table = by_class(SAMPLER_CLASSES, sizes, classes, start);
    table.per_block = per_block;
    table.each = each;
    cr_assert(eq(int, sampler_init(&s, &table, 6), 0));
    for (uint32_t b = 0; b < blocks; b++) {
        uint32_t count[24] = {0}, different = 0;

        for (uint32_t x = 0; x < per_block * each; x++) {
            uint64_t g = (uint64_t)b * per_block * each + x;
            uint32_t sample = sampler_at(&s, g / table.n, (uint32_t)(g % table.n)), c = 0;

            while (start[c + 1] <= sample)
                c++;
            different += count[c]++ == 0;
            shown[c]++;
        }
        cr_assert(eq(u32, different, per_block));
        for (uint32_t c = 0; c < classes; c++)
            cr_assert(count[c] == 0 || count[c] == each);
        if ((b + 1) * per_block % classes == 0) /* class epochs end with this block */
            for (uint32_t c = 0; c < classes; c++)
                cr_assert(eq(u32, shown[c], (b + 1) * per_block / classes * each));
    }
    sampler_fini(&s);
}

Test(sampler, blocks_of_classes_are_distinct_and_complete)
{
    check_classes(10, 2, 3);
    check_classes(7, 2, 2);
    check_classes(20, 6, 1);
    check_classes(13, 4, 4);
    check_classes(6, 6, 2);
    check_classes(24, 8, 2);
    check_classes(9, 3, 5);
}

/* Each pair of classes appears in the same block about equally often. */
Test(sampler, pairs_of_classes_meet_equally_often)
{
    enum { CLASSES = 12, P = 4, BLOCKS = 1500, PAIRS = CLASSES * (CLASSES - 1) / 2 };
    uint32_t sizes[CLASSES], start[CLASSES + 1], met[CLASSES][CLASSES] = {{0}};
    double want = (double)BLOCKS * P * (P - 1) / 2 / PAIRS, chi = 0;
    struct sampler_table table;
    struct sampler s;

    for (uint32_t c = 0; c < CLASSES; c++)
        sizes[c] = 1;
    table = by_class(SAMPLER_CLASSES, sizes, CLASSES, start);
    table.per_block = P;
    table.each = 1;
    cr_assert(eq(int, sampler_init(&s, &table, 11), 0));
    for (uint32_t b = 0; b < BLOCKS; b++)
        for (uint32_t x = 0; x < P; x++)
            for (uint32_t y = 0; y < P; y++) {
                uint32_t g = b * P + x, h = b * P + y;

                met[sampler_at(&s, g / CLASSES, g % CLASSES)]
                   [sampler_at(&s, h / CLASSES, h % CLASSES)]++;
            }
    for (uint32_t a = 0; a < CLASSES; a++)
        for (uint32_t b = 0; b < a; b++)
            chi += (met[a][b] - want) * (met[a][b] - want) / want;
    cr_expect(chi < 65 + 5 * 12, "chi-square %.1f with 65 degrees of freedom", chi);
    sampler_fini(&s);
}

/* A substitute has the class of the sample that it replaces, and can be any sample of it. */
Test(sampler, substitutes_are_of_the_same_class)
{
    uint32_t start[4];
    struct sampler_table table = by_class(SAMPLER_STRATA, (uint32_t[]){6, 3, 3}, 3, start);
    struct sampler s;

    table.block = 4;
    cr_assert(eq(int, sampler_init(&s, &table, 5), 0));
    for (uint32_t p = 0; p < table.n; p++) {
        uint32_t sample = sampler_at(&s, 0, p), c = sample < 6 ? 0 : sample < 9 ? 1 : 2, seen = 0;

        for (uint32_t t = 0; t < 64; t++) {
            struct philox_block block = philox_draw(5, p, 0, DRAW_PROBE, t);
            uint32_t other = sampler_substitute(&s, 0, p, &block);

            cr_assert(other >= start[c] && other < start[c + 1]);
            seen |= 1U << (other - start[c]);
        }
        cr_expect(eq(u32, seen, (1U << (start[c + 1] - start[c])) - 1));
    }
    sampler_fini(&s);
}

Test(sampler, roots_are_rounded_down)
{
    static const uint64_t numbers[] = {0, 1, 2, 3, 4, 99, 100, UINT64_C(1) << 62, UINT64_MAX};

    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        unsigned __int128 root = sqrt_product(numbers[i], 1);

        cr_expect(root * root <= numbers[i] && (root + 1) * (root + 1) > numbers[i]);
    }
}
