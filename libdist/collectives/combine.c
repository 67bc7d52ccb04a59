/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "libdist/collectives/combine.h"

#include <assert.h>
#include <math.h>

size_t combine_size(enum plenum_type type)
{
    assert(type <= PLENUM_FLOAT64);
    return type == PLENUM_INT32 || type == PLENUM_FLOAT32 ? 4 : 8;
}

/* A type for a program's buffers, which may be unaligned. */
#define AT_ANY_ADDRESS __attribute__((aligned(1), may_alias))
typedef int32_t AT_ANY_ADDRESS any_int32;
typedef int64_t AT_ANY_ADDRESS any_int64;
typedef float AT_ANY_ADDRESS any_float32;
typedef double AT_ANY_ADDRESS any_float64;

#define LESS_INT(x, y) ((x) < (y) ? (x) : (y))
#define MORE_INT(x, y) ((x) > (y) ? (x) : (y))
/* Is x less than y? Equal values may be zeros of different sign. */
#define LESS_FLOAT(x, y) \
    (isnan(x) || isnan(y) ? NAN : (x) < (y) || ((x) == (y) && signbit(x)) ? (x) : (y))
#define MORE_FLOAT(x, y) \
    (isnan(x) || isnan(y) ? NAN : (x) > (y) || ((x) == (y) && !signbit(x)) ? (x) : (y))

/* Integers wrap, as they do in MPI: they are added as unsigned. */
#define COMBINE(name, type, sum, less, more)                                                \
    static void combine_##name(type *to, const type *from, size_t count, enum plenum_op op) \
    {                                                                                       \
        if (op == PLENUM_MIN)                                                               \
            for (size_t i = 0; i < count; i++)                                              \
                to[i] = less(to[i], from[i]);                                               \
        else if (op == PLENUM_MAX)                                                          \
            for (size_t i = 0; i < count; i++)                                              \
                to[i] = more(to[i], from[i]);                                               \
        else                                                                                \
            for (size_t i = 0; i < count; i++)                                              \
                to[i] = (type)((sum)to[i] + (sum)from[i]);                                  \
    }

COMBINE(int32, any_int32, uint32_t, LESS_INT, MORE_INT)
COMBINE(int64, any_int64, uint64_t, LESS_INT, MORE_INT)
COMBINE(float32, any_float32, float, LESS_FLOAT, MORE_FLOAT)
COMBINE(float64, any_float64, double, LESS_FLOAT, MORE_FLOAT)

void combine(void *to, const void *from, size_t count, enum plenum_type type, enum plenum_op op)
{
    switch (type) {
    case PLENUM_INT32:
        combine_int32(to, from, count, op);
        break;
    case PLENUM_INT64:
        combine_int64(to, from, count, op);
        break;
    case PLENUM_FLOAT32:
        combine_float32(to, from, count, op);
        break;
    case PLENUM_FLOAT64:
        combine_float64(to, from, count, op);
        break;
    }
}

void combine_divide(void *values, size_t count, enum plenum_type type, uint32_t instances)
{
    for (size_t i = 0; i < count; i++)
        switch (type) {
        case PLENUM_INT32:
            ((any_int32 *)values)[i] /= (int32_t)instances;
            break;
        case PLENUM_INT64:
            ((any_int64 *)values)[i] /= (int64_t)instances;
            break;
        case PLENUM_FLOAT32:
            ((any_float32 *)values)[i] /= (float)instances;
            break;
        case PLENUM_FLOAT64:
            ((any_float64 *)values)[i] /= (double)instances;
            break;
        }
}
