/* SPDX-License-Identifier: MIT */
/* Checks that shares of blocks obey the laws of quotas, by counting. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/order/shares.h"
#include "common/util/util.h"

enum { PARTS_MAX = 8, BLOCKS = 64 };

/* Shares with their edges. */
struct made {
    struct shares shares;
    uint64_t edges[PARTS_MAX + 1];
    uint64_t sum;
    uint32_t places;
    const uint32_t *weights;
};

static const struct shares *make(struct made *m, uint32_t places, const uint32_t *weights,
                                 uint32_t parts, uint32_t shift)
{
    *m = (struct made){.places = places, .weights = weights};
    for (uint32_t i = 0; i < parts; i++)
        m->sum += weights[i];
    shares_fill(m->edges, places, weights, parts);
    m->shares = (struct shares){.parts = parts, .shift = shift, .edges = m->edges};
    return &m->shares;
}

/* Returns whether `count` is within `by` of the quota of part i in `blocks` blocks. The quota is
 * exact, except that edges are rounded by less than 2^-32 of a place per block. */
static bool is_near(const struct made *m, uint32_t i, uint64_t blocks, uint64_t count, double by)
{
    double quota = (double)blocks * m->places * m->weights[i] / (double)m->sum;
    double off = (double)count - quota;

    return (off < 0 ? -off : off) < by + 1e-6;
}

/* Checks that every block is full, that its parts follow each other, and that each part has its
 * quota, rounded down or up, in each block and in each aligned group of blocks. Prefixes must equal
 * what counting gives, and differ from their quota by less than the popcount of the number of
 * blocks. */
static void check_laws(const struct made *m)
{
    const struct shares *s = &m->shares;
    uint64_t seen[PARTS_MAX] = {0}, at[PARTS_MAX][BLOCKS + 1];

    for (uint64_t b = 0; b <= BLOCKS; b++) {
        cr_assert(eq(u32, shares_edge(s, 0, b), 0));
        cr_assert(eq(u32, shares_edge(s, s->parts, b), m->places));
        for (uint32_t i = 0; i < s->parts; i++) {
            uint32_t begin = shares_edge(s, i, b), end = shares_edge(s, i + 1, b);

            at[i][b] = seen[i];
            cr_assert(eq(u64, shares_before(s, i, b), seen[i]));
            cr_assert(is_near(m, i, b, seen[i], __builtin_popcountll(b)));
            cr_assert(begin <= end && is_near(m, i, 1, end - begin, 1));
            for (uint32_t x = begin; x < end; x++)
                cr_assert(eq(u32, shares_part(s, b, x), i));
            if (end > begin)
                cr_assert(eq(u64, shares_block(s, i, seen[i]), b));
            seen[i] += end - begin;
        }
    }
    for (uint32_t i = 0; i < s->parts; i++)
        for (uint64_t len = 1; len <= BLOCKS; len *= 2)
            for (uint64_t b = 0; b + len <= BLOCKS; b += len)
                cr_assert(is_near(m, i, len, at[i][b + len] - at[i][b], 1));
}

Test(shares, every_small_case_keeps_the_laws)
{
    static const uint32_t shifts[] = {0, UINT32_MAX, 0x9e3779b9};
    struct made m;

    for (uint32_t places = 1; places <= 8; places++)
        for (uint32_t a = 0; a <= 12; a++)
            for (uint32_t b = 0; a + b <= 12; b++)
                for (uint32_t c = 0; a + b + c <= 12; c++) {
                    if (a + b + c == 0)
                        continue;
                    for (size_t k = 0; k < ARRAY_LEN(shifts); k++) {
                        (void)make(&m, places, (uint32_t[]){a, b, c}, 3, shifts[k]);
                        check_laws(&m);
                    }
                }
}

Test(shares, large_weights_and_blocks_keep_the_laws)
{
    static const uint32_t weights[][5] = {{1, 999999, 5, 70000, 3},
                                          {UINT32_MAX - 4, 1, 1, 1, 1},
                                          {62, 25, 10, 2, 1},
                                          {0, 0, 1, 0, 0},
                                          {1000003, 1000033, 1000037, 7, 0}};
    struct made m;

    srand(1);
    for (size_t k = 0; k < ARRAY_LEN(weights); k++)
        for (uint32_t places = 1; places <= 300; places += 23) {
            (void)make(&m, places, weights[k], 5, (uint32_t)rand() * 2654435761U);
            check_laws(&m);
        }
}

/* Near block 2^32 and beyond, each prefix must grow by exactly the number of places that the part
 * has in the next block. */
Test(shares, block_numbers_have_64_bits)
{
    static const uint64_t begins[] = {UINT32_MAX - 3, (UINT64_C(1) << 32) - 1, UINT64_C(1) << 40,
                                      (UINT64_C(1) << 57) + 12345};
    struct made m;
    const struct shares *s = make(&m, 64, (uint32_t[]){70000, 29999, 1}, 3, 77);

    for (size_t k = 0; k < ARRAY_LEN(begins); k++)
        for (uint64_t b = begins[k]; b < begins[k] + 6; b++)
            for (uint32_t i = 0; i < 3; i++)
                cr_assert(eq(u64, shares_before(s, i, b + 1) - shares_before(s, i, b),
                             shares_edge(s, i + 1, b) - shares_edge(s, i, b)));
}

/* Averaged over all seeds, a part has its quota in each block. */
Test(shares, no_block_is_biased)
{
    static const uint32_t weights[] = {3, 4, 6};
    uint64_t sums[3] = {0};
    struct made m;

    for (uint32_t k = 0; k < 4096; k++) {
        const struct shares *s = make(&m, 10, weights, 3, k << 20);

        for (uint32_t i = 0; i < 3; i++)
            sums[i] += shares_edge(s, i + 1, 5) - shares_edge(s, i, 5);
    }
    for (uint32_t i = 0; i < 3; i++)
        cr_expect(is_near(&m, i, 4096, sums[i], 4));
}

/* The published values of the phase must be reproduced. */
Test(shares, phase_is_van_der_corputs_sequence)
{
    static const uint32_t want[] = {0,          0x80000000, 0x40000000, 0xc0000000,
                                    0x20000000, 0xa0000000, 0x60000000, 0xe0000000};

    for (uint32_t k = 0; k < ARRAY_LEN(want); k++)
        cr_expect(eq(u32, shares_phase(k, 0), want[k]));
}
