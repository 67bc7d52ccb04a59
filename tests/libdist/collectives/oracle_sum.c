/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tests/libdist/collectives/oracle_sum.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

uint64_t oracle_get(const unsigned char *from, size_t i, size_t size)
{
    uint64_t bits = 0;

    for (size_t k = size; k > 0; k--)
        bits = bits << 8 | from[i * size + k - 1];
    return bits;
}

void oracle_put(unsigned char *to, size_t i, size_t size, uint64_t bits)
{
    for (size_t k = 0; k < size; k++)
        to[i * size + k] = (unsigned char)(bits >> 8 * k);
}

/* A binary format for floats of up to 32 bits. */
struct format {
    unsigned fraction; /* bits */
    int least;         /* smallest exponent of a normal number */
    unsigned sign;     /* its bit */
};

static const struct format half = {10, -14, 15}, brain = {7, -126, 15}, single = {23, -126, 31};

static double decode(uint64_t bits, const struct format *f)
{
    uint64_t fraction = bits & ((UINT64_C(1) << f->fraction) - 1);
    int exponent = (int)(bits >> f->fraction & ((UINT64_C(1) << (f->sign - f->fraction)) - 1));
    int all = (1 << (f->sign - f->fraction)) - 1;
    double x;

    if (exponent == all)
        x = fraction ? NAN : INFINITY;
    else if (exponent == 0)
        x = ldexp((double)fraction, f->least - (int)f->fraction);
    else
        x = ldexp((double)(fraction | UINT64_C(1) << f->fraction),
                  exponent - 1 + f->least - (int)f->fraction);
    return bits >> f->sign & 1 ? -x : x;
}

/* Round to nearest, ties to even. */
static uint64_t encode(double x, const struct format *f)
{
    uint64_t sign = (uint64_t)(signbit(x) != 0) << f->sign;
    uint64_t infinity = ((UINT64_C(1) << (f->sign - f->fraction)) - 1) << f->fraction;
    int exponent;
    double quanta;

    if (isnan(x))
        return infinity | UINT64_C(1) << (f->fraction - 1);
    x = fabs(x);
    if (isinf(x))
        return sign | infinity;
    exponent = x > 0 && ilogb(x) > f->least ? ilogb(x) : f->least;
    quanta = rint(ldexp(x, (int)f->fraction - exponent));
    /* One more than the largest fraction carries into the exponent, as it should. */
    quanta += ldexp(exponent - f->least, (int)f->fraction);
    return sign | (quanta >= (double)infinity ? infinity : (uint64_t)quanta);
}

static double combine_two(double a, double b, enum plenum_op op, bool wide)
{
    if (op == PLENUM_SUM || op == PLENUM_MEAN)
        return wide ? a + b : (double)((float)a + (float)b);
    if (isnan(a) || isnan(b))
        return NAN;
    if (a == b)
        return (signbit(a) != 0) == (op == PLENUM_MIN) ? a : b;
    return (a < b) == (op == PLENUM_MIN) ? a : b;
}

static double tree(const double *x, uint32_t count, enum plenum_op op, bool wide)
{
    uint32_t first = 1;

    if (count == 1)
        return x[0];
    while (first * 2 < count)
        first *= 2;
    return combine_two(tree(x, first, op, wide), tree(x + first, count - first, op, wide), op,
                       wide);
}

static uint64_t sum_floats(const double *x, uint32_t instances, const struct format *f,
                           enum plenum_op op)
{
    double sum = tree(x, instances, op, !f);
    uint64_t bits;

    if (op == PLENUM_MEAN)
        sum = f ? (double)((float)sum / (float)instances) : sum / instances;
    if (f)
        return encode(sum, f);
    if (isnan(sum))
        return UINT64_C(0x7ff8000000000000);
    memcpy(&bits, &sum, sizeof(bits));
    return bits;
}

static uint64_t sum_integers(const uint64_t *values, uint32_t instances, unsigned bits,
                             enum plenum_op op)
{
    int64_t result = 0;

    for (uint32_t i = 0; i < instances; i++) {
        int64_t x = bits == 32 ? (int32_t)values[i] : (int64_t)values[i];

        if (op == PLENUM_SUM || op == PLENUM_MEAN)
            result = (int64_t)((uint64_t)result + (uint64_t)x);
        else if (i == 0 || (x < result) == (op == PLENUM_MIN))
            result = x;
    }
    if (bits == 32)
        result = (int32_t)result;
    if (op == PLENUM_MEAN)
        result /= (int64_t)instances;
    return bits == 32 ? (uint32_t)result : (uint64_t)result;
}

uint64_t oracle_sum(const uint64_t *values, uint32_t instances, enum plenum_type type,
                    enum plenum_op op)
{
    const struct format *f = type == PLENUM_FLOAT16    ? &half
                             : type == PLENUM_BFLOAT16 ? &brain
                             : type == PLENUM_FLOAT32  ? &single
                                                       : NULL;
    double x[64];

    if (type == PLENUM_INT32 || type == PLENUM_INT64)
        return sum_integers(values, instances, type == PLENUM_INT32 ? 32 : 64, op);
    for (uint32_t i = 0; i < instances && i < 64; i++)
        if (f)
            x[i] = decode(values[i], f);
        else
            memcpy(&x[i], &values[i], sizeof(x[i]));
    return sum_floats(x, instances, f, op);
}
