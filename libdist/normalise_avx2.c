/* SPDX-License-Identifier: MIT */
/* normalise_avx2.c - the loops of plenum_normalise() for x86 processors with AVX2 and F16C.
 *
 * Eight pixels become three registers of eight levels. If the floats are planes, each register
 * holds one channel; otherwise the registers hold floats 0 to 7, 8 to 15 and 16 to 23 of 24
 * consecutive ones. One shuffle turns bytes into a register, in any order, including the zeros
 * between them. Two such steps fill whole registers of half-precision floats.
 *
 * 32-bit floats that will not stay in the cache bypass it, which saves reading each line before it
 * is written. Such stores must be aligned, so pixels before the first aligned float use the table.
 * So do, in every mode, the fewer than sixteen pixels that remain at the end.
 *
 * Nothing may be fused here (normalise.c explains why), even if the compiler flags allow it. */
#include "config.h"

#include "libdist/normalise_loops.h"

#ifdef __x86_64__

#include <cpuid.h>
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2,f16c")))
#define AVX2_INLINE static inline __attribute__((always_inline, target("avx2,f16c")))

/* How pixels are stored. */
enum normalise_source { PLANES = 1, PACKED_3 = 3, PACKED_4 = 4 };

enum { AT_ONCE = 16 };

/* Three registers: the levels or floats of eight pixels, or the factors or offsets for them. */
struct levels {
    __m256i a, b, c;
};
struct floats {
    __m256 a, b, c;
};

static bool usable(void)
{
    unsigned a, b, c = 0, d;

    /* Not every compiler knows the name "f16c" here. */
    return __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) != 0;
}

AVX2_INLINE __m128i load_8(const uint8_t *at, __m128i flip)
{
    return _mm_xor_si128(_mm_loadl_epi64((const __m128i *)(const void *)at), flip);
}

AVX2_INLINE __m128i load_16(const uint8_t *at, __m128i flip)
{
    return _mm_xor_si128(_mm_loadu_si128((const __m128i *)(const void *)at), flip);
}

/* Select bytes of `v`, within their own 16-byte lane, as 32-bit integers; -1 gives zero. */
#define PICK(v, a, b, c, d, e, f, g, h)                                                            \
    _mm256_shuffle_epi8(v, _mm256_setr_epi32(BYTE(a), BYTE(b), BYTE(c), BYTE(d), BYTE(e), BYTE(f), \
                                             BYTE(g), BYTE(h)))
#define BYTE(at) ((at) < 0 ? -1 : ((at) | -0x100))

AVX2_INLINE __m256i twice(__m128i v)
{
    return _mm256_broadcastsi128_si256(v);
}

/* Load the levels of eight pixels, grouped by channel. `at` points to each channel's first
 * pixel. */
AVX2_INLINE struct levels load_planes(enum normalise_source source, const uint8_t *const at[3],
                                      size_t i, __m128i flip)
{
    const uint8_t *p = at[0] + i * source;
    __m256i v;

    if (source == PACKED_3) { /* four pixels per lane; nothing after the eighth pixel is read */
        v = _mm256_set_m128i(load_16(p + 8, flip), load_16(p, flip));
        return (struct levels){PICK(v, 0, 3, 6, 9, 4, 7, 10, 13),
                               PICK(v, 1, 4, 7, 10, 5, 8, 11, 14),
                               PICK(v, 2, 5, 8, 11, 6, 9, 12, 15)};
    }
    if (source == PACKED_4) {
        v = _mm256_set_m128i(load_16(p + 16, flip), load_16(p, flip));
        return (struct levels){PICK(v, 0, 4, 8, 12, 0, 4, 8, 12), PICK(v, 1, 5, 9, 13, 1, 5, 9, 13),
                               PICK(v, 2, 6, 10, 14, 2, 6, 10, 14)};
    }
    return (struct levels){_mm256_cvtepu8_epi32(load_8(at[0] + i, flip)),
                           _mm256_cvtepu8_epi32(load_8(at[1] + i, flip)),
                           _mm256_cvtepu8_epi32(load_8(at[2] + i, flip))};
}

/* Load the levels of eight pixels, grouped by pixel. */
AVX2_INLINE struct levels load_packed(enum normalise_source source, const uint8_t *const at[3],
                                      size_t i, __m128i flip)
{
    const uint8_t *p = at[0] + i * source;
    __m256i rg, b;

    if (source == PACKED_3)
        return (struct levels){_mm256_cvtepu8_epi32(load_8(p, flip)),
                               _mm256_cvtepu8_epi32(load_8(p + 8, flip)),
                               _mm256_cvtepu8_epi32(load_8(p + 16, flip))};
    if (source == PACKED_4)
        return (struct levels){PICK(twice(load_16(p, flip)), 0, 1, 2, 4, 5, 6, 8, 9),
                               PICK(twice(load_16(p + 8, flip)), 2, 4, 5, 6, 8, 9, 10, 12),
                               PICK(twice(load_16(p + 16, flip)), 5, 6, 8, 9, 10, 12, 13, 14)};
    rg = twice(_mm_unpacklo_epi8(load_8(at[0] + i, flip), load_8(at[1] + i, flip)));
    b = twice(load_8(at[2] + i, flip));
    return (struct levels){
        _mm256_or_si256(PICK(rg, 0, 1, -1, 2, 3, -1, 4, 5), PICK(b, -1, -1, 0, -1, -1, 1, -1, -1)),
        _mm256_or_si256(PICK(rg, -1, 6, 7, -1, 8, 9, -1, 10), PICK(b, 2, -1, -1, 3, -1, -1, 4, -1)),
        _mm256_or_si256(PICK(rg, 11, -1, 12, 13, -1, 14, 15, -1),
                        PICK(b, -1, 5, -1, -1, 6, -1, -1, 7))};
}

AVX2_INLINE __m256 compute_one(__m256i levels, __m256 scale, __m256 bias)
{
    __m256 product = _mm256_mul_ps(_mm256_cvtepi32_ps(levels), scale);

    __asm__("" : "+x"(product)); /* emits nothing, but keeps compilers from fusing the two steps */
    return _mm256_add_ps(product, bias);
}

AVX2_INLINE struct floats compute(struct levels levels, struct floats scale, struct floats bias)
{
    return (struct floats){compute_one(levels.a, scale.a, bias.a),
                           compute_one(levels.b, scale.b, bias.b),
                           compute_one(levels.c, scale.c, bias.c)};
}

/* Round finite floats to the nearest bfloat16, ties to even; the result is stored as 32-bit
 * integers. */
AVX2_INLINE __m256i bfloat16s(__m256 v)
{
    __m256i bits = _mm256_castps_si256(v);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));

    bits = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    return _mm256_srli_epi32(bits, 16);
}

/* Convert sixteen floats to `type`, and store them. `past`: write float32 past the cache. */
AVX2_INLINE void store(enum plenum_float type, bool past, uint8_t *to, __m256 v, __m256 w)
{
    float *floats = (float *)(void *)to;
    __m256i halves;

    if (type == PLENUM_TO_FLOAT32 && past) {
        _mm256_stream_ps(floats, v);
        _mm256_stream_ps(floats + 8, w);
    } else if (type == PLENUM_TO_FLOAT32) {
        _mm256_storeu_ps(floats, v);
        _mm256_storeu_ps(floats + 8, w);
    } else {
        if (type == PLENUM_TO_FLOAT16)
            halves = _mm256_set_m128i(_mm256_cvtps_ph(w, _MM_FROUND_TO_NEAREST_INT),
                                      _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
        else
            halves =
                _mm256_permute4x64_epi64(_mm256_packus_epi32(bfloat16s(v), bfloat16s(w)), 0xd8);
        _mm256_storeu_si256((__m256i *)(void *)to, halves);
    }
}

/* Returns three floats repeated in turn, beginning with the n-th. */
AVX2_INLINE __m256 in_turn(const float v[3], uint32_t n)
{
    float a = v[n % 3], b = v[(n + 1) % 3], c = v[(n + 2) % 3];

    return _mm256_setr_ps(a, b, c, a, b, c, a, b);
}

AVX2_INLINE struct floats constants(bool planes, const float v[3])
{
    if (planes)
        return (struct floats){_mm256_set1_ps(v[0]), _mm256_set1_ps(v[1]), _mm256_set1_ps(v[2])};
    return (struct floats){in_turn(v, 0), in_turn(v, 8), in_turn(v, 16)};
}

AVX2_INLINE void loop(enum normalise_source source, bool planes, enum plenum_float type, bool past,
                      const struct normalise_values *values, const struct normalise_run *r,
                      size_t begin, size_t end)
{
    const size_t one = normalise_float_bytes(type);
    const __m128i flip = _mm_set1_epi8((char)values->flip);
    const struct floats scale = constants(planes, values->scale);
    const struct floats bias = constants(planes, values->bias);
    const uint8_t *const at[3] = {r->from[0], r->from[1], r->from[2]};
    uint8_t *const to[3] = {r->to[0], r->to[1], r->to[2]};

    for (size_t i = begin; i < end; i += AT_ONCE) {
        struct floats v, w;

        if (planes) {
            v = compute(load_planes(source, at, i, flip), scale, bias);
            w = compute(load_planes(source, at, i + 8, flip), scale, bias);
            store(type, past, to[0] + i * one, v.a, w.a);
            store(type, past, to[1] + i * one, v.b, w.b);
            store(type, past, to[2] + i * one, v.c, w.c);
        } else {
            v = compute(load_packed(source, at, i, flip), scale, bias);
            w = compute(load_packed(source, at, i + 8, flip), scale, bias);
            store(type, past, to[0] + 3 * i * one, v.a, v.b);
            store(type, past, to[0] + (3 * i + 16) * one, v.c, w.a);
            store(type, past, to[0] + (3 * i + 32) * one, w.b, w.c);
        }
    }
}

/* A loop: one function per combination of parameters, which are constants in it. */
typedef void loop_function(const struct normalise_values *values, const struct normalise_run *run,
                           size_t begin, size_t end);

#define LOOP(source, layout, name, type, past)                                                \
    AVX2 static void loop_##source##_##layout##_##name(const struct normalise_values *values, \
                                                       const struct normalise_run *run,       \
                                                       size_t begin, size_t end)              \
    {                                                                                         \
        loop(source, PLENUM_##layout == PLENUM_NCHW, type, past, values, run, begin, end);    \
    }
#define LOOPS_TO(source, layout)                              \
    LOOP(source, layout, float32, PLENUM_TO_FLOAT32, false)   \
    LOOP(source, layout, float16, PLENUM_TO_FLOAT16, false)   \
    LOOP(source, layout, bfloat16, PLENUM_TO_BFLOAT16, false) \
    LOOP(source, layout, past, PLENUM_TO_FLOAT32, true)
#define LOOPS(source) LOOPS_TO(source, NHWC) LOOPS_TO(source, NCHW)

LOOPS(PLANES)
LOOPS(PACKED_3)
LOOPS(PACKED_4)

enum { PAST = 3 }; /* added to a type's index */

#define NAMES_TO(source, layout)                                    \
    {                                                               \
        [PLENUM_TO_FLOAT32] = loop_##source##_##layout##_float32,   \
        [PLENUM_TO_FLOAT16] = loop_##source##_##layout##_float16,   \
        [PLENUM_TO_BFLOAT16] = loop_##source##_##layout##_bfloat16, \
        [PAST] = loop_##source##_##layout##_past,                   \
    }
#define NAMES(source)                                                                  \
    {                                                                                  \
        [PLENUM_NHWC] = NAMES_TO(source, NHWC), [PLENUM_NCHW] = NAMES_TO(source, NCHW) \
    }

static loop_function *const all_loops[][2][PAST + 1] = {
    [PLANES] = NAMES(PLANES),
    [PACKED_3] = NAMES(PACKED_3),
    [PACKED_4] = NAMES(PACKED_4),
};

/* Returns the first pixel whose floats are aligned (in all three planes, if they are planes), or
 * `count` if there is none. */
static size_t first_aligned(const struct normalise_run *r)
{
    for (size_t i = 0; i < sizeof(__m256) / sizeof(float) && i < r->count; i++) {
        uintptr_t off = 0;

        for (size_t c = 0; c < (r->to_step == 1 ? 3U : 1U); c++)
            off |= (uintptr_t)r->to[c] + i * r->to_step * sizeof(float);
        if (off % sizeof(__m256) == 0)
            return i;
    }
    return r->count;
}

static void run_avx2(struct normalise_values *values, const struct normalise_run *run, bool past)
{
    enum plenum_layout layout = run->to_step == 1 ? PLENUM_NCHW : PLENUM_NHWC;
    size_t begin = 0, end;

    past = past && values->type == PLENUM_TO_FLOAT32; /* the others are not limited by stores */
    if (past) {
        begin = first_aligned(run);
        past = begin < run->count;
        begin = past ? begin : 0;
    }
    end = begin + (run->count - begin) / AT_ONCE * AT_ONCE;
    normalise_by_table(values, run, 0, begin);
    all_loops[run->from_step][layout][past ? PAST : (int)values->type](values, run, begin, end);
    normalise_by_table(values, run, end, run->count);
    if (past)
        _mm_sfence(); /* stores past the cache are not ordered with others */
}

const struct normalise_loops normalise_avx2 = {
    .name = "avx2",
    .usable = usable,
    .run = run_avx2,
};

#endif
