/* SPDX-License-Identifier: MIT */
/* Compares the weights of the filters with the published formulas, computed in floating point. */
#include "config.h"

#include <math.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "loader/image/resize/filter.h"

static double sinc(double x)
{
    return x == 0 ? 1 : sin(M_PI * x) / (M_PI * x);
}

static double formula(enum pipeline_filter filter, double x)
{
    if (filter == PIPELINE_LANCZOS)
        return x < 3 ? sinc(x) * sinc(x / 3) : 0;
    if (x < 1)
        return (1.5 * x - 2.5) * x * x + 1;
    return x < 2 ? ((2.5 - 0.5 * x) * x - 4) * x + 2 : 0;
}

static void follows_the_formula(enum pipeline_filter filter)
{
    const uint64_t one = 1 << FILTER_BITS;

    for (uint64_t t = 0; t <= 4 * one; t++) {
        double got = (double)filter_weight(filter, t) / (double)one;
        double far = fabs(got - formula(filter, (double)t / (double)one));

        cr_assert(far < 5.0 / (double)one, "at %llu: %g from the formula", (unsigned long long)t,
                  far);
    }
    cr_expect(eq(i64, filter_weight(filter, 0), (int64_t)one));
    cr_expect(eq(i64, filter_weight(filter, filter_support(filter) * one), 0));
    cr_expect(filter_has_negative(filter));
}

Test(filter, bicubic_is_keys_with_a_half)
{
    follows_the_formula(PIPELINE_BICUBIC);
}

Test(filter, lanczos_has_three_lobes)
{
    follows_the_formula(PIPELINE_LANCZOS);
}

Test(filter, the_simple_filters_have_no_negative_weight)
{
    cr_expect(not(filter_has_negative(PIPELINE_BILINEAR)));
    cr_expect(not(filter_has_negative(PIPELINE_NEAREST)));
}
