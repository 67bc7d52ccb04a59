/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fenv.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef __x86_64__
#include <xmmintrin.h>
#endif

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/util/util.h"
#include "libdist/collectives/combine.h"
#include "libdist/collectives/combine_loops.h"
#include "tests/libdist/collectives/oracle_sum.h"

enum { MOST = 64, COUNT = 300 };

static unsigned char inputs[MOST][COUNT * 8 + 1], result[COUNT * 8 + 2];
static const void *from[MOST];

static uint64_t draw(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state ^ *state >> 29;
}

/* Any bits are numbers; some become special ones: zeros, infinities, NaN, denormals, ties. */
static void fill(uint64_t seed, uint32_t instances, enum plenum_type type)
{
    static const uint64_t halves[] = {0,      0x8000, 0x7c00, 0xfc00, 0x7e01, 0x7c01, 1,     0x8001,
                                      0x3c00, 0x7bff, 0x7f80, 0xff80, 0x7fc1, 0x3f80, 0x7f7f};
    size_t size = combine_size(type);

    for (uint32_t i = 0; i < instances; i++) {
        from[i] = inputs[i] + seed % 2; /* at odd addresses, too */
        for (size_t k = 0; k < COUNT; k++) {
            uint64_t bits = draw(&seed), special = halves[(bits >> 40) % ARRAY_LEN(halves)];

            if (bits >> 60 < 3)
                bits = special << 8 * (size - 2);
            else if (bits >> 60 < 8) /* of similar size, so that bits are rounded off */
                bits = (bits & ((UINT64_C(1) << (8 * size - 4)) - 1)) | UINT64_C(3)
                                                                            << (8 * size - 4);
            oracle_put(inputs[i] + (from[i] != inputs[i]), k, size, bits);
        }
    }
}

static void check(const char *name, uint32_t instances, enum plenum_type type, enum plenum_op op,
                  size_t count)
{
    size_t size = combine_size(type);

    for (size_t k = 0; k < count; k++) {
        uint64_t values[MOST], want, got = oracle_get(result + 1, k, size);

        for (uint32_t i = 0; i < instances; i++)
            values[i] = oracle_get(from[i], k, size);
        want = oracle_sum(values, instances, type, op);
        cr_assert(eq(u64, got, want), "%s, %u instances, type %d, operation %d, element %zu of %zu",
                  name, instances, (int)type, (int)op, k, count);
    }
}

static void each_case(void (*run)(uint32_t instances, enum plenum_type type, enum plenum_op op,
                                  size_t count))
{
    static const uint32_t sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 16, 21, 23, 32, 63, 64};
    uint64_t seed = 1;

    for (size_t s = 0; s < ARRAY_LEN(sizes); s++)
        for (int type = 0; type <= PLENUM_BFLOAT16; type++)
            for (int op = 0; op <= PLENUM_MEAN; op++) {
                size_t count = draw(&seed) % 4 ? draw(&seed) % 40 : COUNT;

                fill(seed, sizes[s], (enum plenum_type)type);
                run(sizes[s], (enum plenum_type)type, (enum plenum_op)op, count);
            }
}

static void run_all_sets(uint32_t instances, enum plenum_type type, enum plenum_op op, size_t count)
{
    for (size_t i = 0; combine_loops[i]; i++) {
        if (!combine_loops[i]->usable())
            continue;
        memset(result, 0xee, sizeof(result)); /* one byte more than results can have */
        combine_loops[i]->run[type][op == PLENUM_MEAN ? PLENUM_SUM : op](
            result + 1, (const unsigned char *const *)from, instances, count,
            op == PLENUM_MEAN ? instances : 0);
        check(combine_loops[i]->name, instances, type, op, count);
        cr_assert(eq(int, result[1 + count * combine_size(type)], 0xee));
    }
}

Test(combine, all_loops_give_the_bits_of_the_tree)
{
    each_case(run_all_sets);
}

static void run_in_place(uint32_t instances, enum plenum_type type, enum plenum_op op, size_t count)
{
    static unsigned char copy[COUNT * 8];
    size_t bytes = count * combine_size(type);

    memcpy(copy, from[instances - 1], bytes);
    from[instances - 1] = copy;
    combine(result + 1, from, instances, count, type, op);
    combine(copy, from, instances, count, type, op);
    cr_assert(memcmp(copy, result + 1, bytes) == 0);
}

Test(combine, the_result_may_replace_an_input)
{
    each_case(run_in_place);
}

static void run_in_another_mode(uint32_t instances, enum plenum_type type, enum plenum_op op,
                                size_t count)
{
#ifdef __x86_64__
    unsigned before = _mm_getcsr();

    _mm_setcsr(before | 0x8040); /* denormals are zero */
#endif
    (void)fesetround(FE_UPWARD);
    combine(result + 1, from, instances, count, type, op);
    cr_assert(eq(int, fegetround(), FE_UPWARD));
    (void)fesetround(FE_TONEAREST);
#ifdef __x86_64__
    _mm_setcsr(before);
#endif
    check("in another mode", instances, type, op, count);
}

Test(combine, the_mode_of_the_program_does_not_matter)
{
    each_case(run_in_another_mode);
}

/* Which bits a sum has depends on the order of its additions. */
Test(combine, the_tree_splits_at_powers_of_two)
{
    const float x[] = {0x1p24f, 1, 1, 1, 1};
    const void *leaves[] = {&x[0], &x[1], &x[2], &x[3], &x[4]};
    float sum;

    combine(&sum, leaves, 3, 1, PLENUM_FLOAT32, PLENUM_SUM);
    cr_expect(sum == 0x1p24f); /* (2^24 + 1) + 1: both are rounded off */
    combine(&sum, leaves, 4, 1, PLENUM_FLOAT32, PLENUM_SUM);
    cr_expect(sum == 0x1p24f + 2); /* (2^24 + 1) + (1 + 1) */
    combine(&sum, leaves, 5, 1, PLENUM_FLOAT32, PLENUM_SUM);
    cr_expect(sum == 0x1p24f + 4); /* (2^24 + 2) + 1: a tie */
}
