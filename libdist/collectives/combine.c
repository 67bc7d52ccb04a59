/* SPDX-License-Identifier: MIT */
/* combine.c - chooses the loops that add, and gives them a defined floating-point mode. */
#include "config.h"

#include "libdist/collectives/combine.h"

#include <assert.h>

#ifdef __x86_64__
#include <xmmintrin.h>
#endif

#include "libdist/collectives/combine_loops.h"

const struct combine_loops *const combine_loops[] = {
#ifdef __x86_64__
    &combine_avx2,
#endif
    &combine_portable,
    NULL,
};

size_t combine_size(enum plenum_type type)
{
    static const size_t sizes[] = {
        [PLENUM_INT32] = 4,   [PLENUM_INT64] = 8,   [PLENUM_FLOAT32] = 4,
        [PLENUM_FLOAT64] = 8, [PLENUM_FLOAT16] = 2, [PLENUM_BFLOAT16] = 2,
    };

    assert(type <= PLENUM_BFLOAT16);
    return sizes[type];
}

/* A program may flush denormals to zero, or round differently: frameworks offer that as an option.
 * If one instance did so, its part of a sum would differ from the others'. */
#if defined(__x86_64__)
typedef unsigned float_mode;

static float_mode set_float_mode(void)
{
    float_mode before = _mm_getcsr();

    _mm_setcsr(0x1f80); /* round to nearest, keep denormals, raise no signals */
    return before;
}

static void restore_float_mode(float_mode before)
{
    _mm_setcsr(before);
}
#elif defined(__aarch64__)
typedef uint64_t float_mode;

static float_mode set_float_mode(void)
{
    float_mode before;

    __asm__ volatile("mrs %0, fpcr" : "=r"(before));
    __asm__ volatile("msr fpcr, %0" : : "r"(UINT64_C(0)));
    return before;
}

static void restore_float_mode(float_mode before)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(before));
}
#else
typedef int float_mode;

static float_mode set_float_mode(void)
{
    return 0;
}

static void restore_float_mode(float_mode before)
{
    (void)before;
}
#endif

void combine_node(void *to, const struct combine_inputs *node, size_t count, enum plenum_type type,
                  enum plenum_op op)
{
    static _Atomic(const struct combine_loops *) chosen;
    const struct combine_loops *loops = chosen;
    float_mode before;

    assert(type <= PLENUM_BFLOAT16 && op <= PLENUM_MEAN && node->inputs > 0);
    if (!loops) {
        unsigned i = 0;

        while (!combine_loops[i]->usable())
            i++;
        chosen = loops = combine_loops[i];
    }
    before = set_float_mode();
    loops->run[type][op == PLENUM_MEAN ? PLENUM_SUM : op](
        to, (const unsigned char *const *)node->from, node->inputs, count, node->divisor);
    restore_float_mode(before);
}

void combine(void *to, const void *const *from, uint32_t instances, size_t count,
             enum plenum_type type, enum plenum_op op)
{
    const struct combine_inputs all = {
        .from = from, .inputs = instances, .divisor = op == PLENUM_MEAN ? instances : 0};

    combine_node(to, &all, count, type, op);
}
