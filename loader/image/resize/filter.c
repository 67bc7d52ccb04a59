/* SPDX-License-Identifier: MIT */
/* filter.c - computes Pillow's BICUBIC (a = -1/2) and LANCZOS (3 lobes) in integers.
 *
 * R. Keys: "Cubic convolution interpolation for digital image processing", IEEE ASSP 29 (1981);
 * C. Duchon: "Lanczos filtering in one and two dimensions", J. Appl. Meteorology 18 (1979). */
#include "config.h"

#include "loader/image/resize/filter.h"

#include <assert.h>

#include "common/util/util.h"

#define ONE (INT64_C(1) << FILTER_BITS)

uint32_t filter_support(enum pipeline_filter filter)
{
    static const uint32_t supports[] = {
        [PIPELINE_BILINEAR] = 1,
        [PIPELINE_BICUBIC] = 2,
        [PIPELINE_LANCZOS] = 3,
        [PIPELINE_NEAREST] = 0,
    };

    assert((size_t)filter < ARRAY_LEN(supports));
    return supports[filter];
}

bool filter_has_negative(enum pipeline_filter filter)
{
    return filter == PIPELINE_BICUBIC || filter == PIPELINE_LANCZOS;
}

/* Returns (3 t^3 - 5 t^2 + 2) / 2 for t up to 1, (-t^3 + 5 t^2 - 8 t + 4) / 2 for t up to 2. */
static int64_t cubic(int64_t t)
{
    if (t < ONE)
        return (t * t * (3 * t - 5 * ONE) + 2 * ONE * ONE * ONE) >> (2 * FILTER_BITS + 1);
    return (((5 * ONE - t) * t - 8 * ONE * ONE) * t + 4 * ONE * ONE * ONE) >> (2 * FILTER_BITS + 1);
}

/* Returns sin(pi t) / (pi t) times 2^30, for 0 < t < 3, from the series of sin(pi r) / (pi r),
 * where r is the distance of t from the nearest integer. */
static int64_t sinc(int64_t t)
{
    static const int64_t series[] = {1073741824, -1766234505, 871601792, -204818212,
                                     28076038,   -2519085,    159374,    -7490};
    int64_t rest = t % ONE, r = rest <= ONE / 2 ? rest : ONE - rest, sum = 0;
    bool negative = t / ONE % 2 == 1;

    for (size_t k = ARRAY_LEN(series); k-- > 0;)
        sum = series[k] + ((sum * (r * r >> FILTER_BITS)) >> FILTER_BITS);
    sum = r * sum / t;
    return negative ? -sum : sum;
}

/* Returns sinc(t) sinc(t / 3). */
static int64_t lanczos(int64_t t)
{
    if (t < 3) /* t / 3 would be 0; the weight is 1 to the last bit */
        return ONE;
    return (sinc(t) * sinc(t / 3)) >> (60 - FILTER_BITS);
}

int64_t filter_weight(enum pipeline_filter filter, uint64_t distance)
{
    if (distance >= filter_support(filter) * (uint64_t)ONE)
        return 0;
    return filter == PIPELINE_BICUBIC ? cubic((int64_t)distance) : lanczos((int64_t)distance);
}

static uint64_t distance_of(const struct filter_window *w, int64_t at)
{
    return ((uint64_t)(at < 0 ? -at : at) * w->scale) >> 32;
}

int64_t filter_weights(enum pipeline_filter filter, const struct filter_window *w, int32_t *weights)
{
    int64_t sum = 0, at = w->first;

    /* Bicubic has its own loop, without the tests in filter_weight(), because this is a hot
     * path. */
    if (filter == PIPELINE_BICUBIC)
        for (uint32_t k = 0; k < w->taps; k++, at += w->apart)
            weights[k] = (int32_t)cubic((int64_t)distance_of(w, at));
    else
        for (uint32_t k = 0; k < w->taps; k++, at += w->apart)
            weights[k] = (int32_t)filter_weight(filter, distance_of(w, at));
    for (uint32_t k = 0; k < w->taps; k++)
        sum += weights[k];
    assert(sum > 0);
    return sum;
}
