/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/util/util.h"
#include "libdist/collectives/combine.h"

static const double numbers[] = {NAN, -INFINITY, -2.5, -0.0, 0.0, 1.0, INFINITY};

/* Returns the result of numpy.minimum and numpy.maximum, with an order for zeros. */
static double slow(double a, double b, bool greatest)
{
    if (isnan(a) || isnan(b))
        return NAN;
    if (a == b)
        return (signbit(a) != 0) == greatest ? b : a;
    return (a < b) == greatest ? b : a;
}

static uint64_t bits(double x)
{
    uint64_t b;

    memcpy(&b, &x, sizeof(b));
    return b;
}

static double doubles(double a, double b, enum plenum_op op)
{
    combine(&a, &b, 1, PLENUM_FLOAT64, op);
    return a;
}

static double floats(double a, double b, enum plenum_op op)
{
    float x = (float)a, y = (float)b;

    combine(&x, &y, 1, PLENUM_FLOAT32, op);
    return x;
}

Test(combine, minimum_and_maximum_are_nan_if_any_is_in_any_order)
{
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        for (size_t k = 0; k < ARRAY_LEN(numbers); k++)
            for (int greatest = 0; greatest < 2; greatest++) {
                enum plenum_op op = greatest ? PLENUM_MAX : PLENUM_MIN;
                uint64_t want = bits(slow(numbers[i], numbers[k], greatest));

                cr_expect(eq(u64, bits(doubles(numbers[i], numbers[k], op)), want));
                cr_expect(eq(u64, bits(floats(numbers[i], numbers[k], op)), want));
            }
}

/* Whichever NaN an instance has, the result has the same bits. */
Test(combine, nan_is_the_canonical_one)
{
    uint64_t odd = UINT64_C(0xfff8000000000123);
    double nan;

    memcpy(&nan, &odd, sizeof(nan));
    cr_expect(eq(u64, bits(doubles(nan, 1, PLENUM_MAX)), bits(NAN)));
    cr_expect(eq(u64, bits(doubles(1, nan, PLENUM_MIN)), bits(NAN)));
    cr_expect(eq(u64, bits(doubles(nan, nan, PLENUM_MIN)), bits(NAN)));
}

Test(combine, integers_wrap_and_means_round_towards_zero)
{
    int32_t a[] = {INT32_MAX, -7, 5}, b[] = {1, 0, -3};
    int64_t c[] = {INT64_MIN}, d[] = {-1};

    combine(a, b, 3, PLENUM_INT32, PLENUM_MEAN);
    cr_expect(eq(i32, a[0], INT32_MIN));
    combine_divide(a, 3, PLENUM_INT32, 2);
    cr_expect(eq(i32, a[1], -3));
    cr_expect(eq(i32, a[2], 1));
    combine(c, d, 1, PLENUM_INT64, PLENUM_SUM);
    cr_expect(eq(i64, c[0], INT64_MAX));
    combine(c, d, 1, PLENUM_INT64, PLENUM_MIN);
    cr_expect(eq(i64, c[0], -1));
}

Test(combine, works_at_odd_addresses)
{
    unsigned char to[33], from[33];
    double a[4] = {1, 2, 3, 4}, b[4] = {4, 3, 2, NAN}, got[4];

    memcpy(to + 1, a, sizeof(a));
    memcpy(from + 1, b, sizeof(b));
    combine(to + 1, from + 1, 4, PLENUM_FLOAT64, PLENUM_MAX);
    memcpy(got, to + 1, sizeof(got));
    cr_expect(got[0] == 4 && got[1] == 3 && got[2] == 3 && isnan(got[3]));
}
