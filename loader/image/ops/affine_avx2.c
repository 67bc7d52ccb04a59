/* SPDX-License-Identifier: MIT */
/* affine_avx2.c - the loops of affine.c for x86 processors with AVX2: eight pixels at a time. */
#include "config.h"

#ifdef __x86_64__

#include "loader/image/ops/affine.h"

#include <immintrin.h>
#include <string.h>

#include "loader/image/avx2.h"

/* The positions of eight pixels. */
struct lanes {
    __m256i x, y, dx, dy, width;
};

AVX2_INLINE struct lanes lanes_of(const struct affine_span *s)
{
    const __m256i count = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i dx = _mm256_set1_epi32(s->dx), dy = _mm256_set1_epi32(s->dy);

    return (struct lanes){
        .x = _mm256_add_epi32(_mm256_set1_epi32(s->x), _mm256_mullo_epi32(dx, count)),
        .y = _mm256_add_epi32(_mm256_set1_epi32(s->y), _mm256_mullo_epi32(dy, count)),
        .dx = _mm256_slli_epi32(dx, 3),
        .dy = _mm256_slli_epi32(dy, 3),
        .width = _mm256_set1_epi32((int)s->width),
    };
}

/* Returns the offsets of the (upper left) pixels in a plane of less than 2^31 bytes. */
AVX2_INLINE __m256i offsets(const struct lanes *l)
{
    return _mm256_add_epi32(_mm256_mullo_epi32(_mm256_srai_epi32(l->y, AFFINE_BITS), l->width),
                            _mm256_srai_epi32(l->x, AFFINE_BITS));
}

AVX2_INLINE void advance(struct lanes *l)
{
    l->x = _mm256_add_epi32(l->x, l->dx);
    l->y = _mm256_add_epi32(l->y, l->dy);
}

AVX2_INLINE __m256i gather(const uint8_t *from, __m256i at)
{
    return _mm256_i32gather_epi32((const int *)(const void *)from, at, 1);
}

/* Store eight pixels to their planes. Each is a lane with red lowest, then green and blue. */
AVX2_INLINE void store(const struct affine_span *s, uint32_t i, __m256i pixels)
{
    const __m256i planes = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    __m256i v = _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(pixels, planes),
                                            _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    __m128i low = _mm256_castsi256_si128(v);

    _mm_storel_epi64((__m128i *)(void *)(s->to + i), low);
    _mm_storel_epi64((__m128i *)(void *)(s->to + s->plane + i), _mm_unpackhi_epi64(low, low));
    _mm_storel_epi64((__m128i *)(void *)(s->to + 2 * s->plane + i), _mm256_extracti128_si256(v, 1));
}

/* Returns the rest of a span, after its first `done` pixels. */
static struct affine_span rest_of(const struct affine_span *s, uint32_t done)
{
    struct affine_span rest = *s;

    rest.x += s->dx * (int32_t)done;
    rest.y += s->dy * (int32_t)done;
    rest.to += done;
    rest.count -= done;
    return rest;
}

AVX2 static void span_nearest(const struct affine_span *s)
{
    const __m256i level = _mm256_set1_epi32(255);
    const uint8_t *red = s->from, *green = red + s->plane, *blue = green + s->plane;
    struct lanes l = lanes_of(s);
    struct affine_span rest;
    uint32_t i = 0;

    for (; i + 8 <= s->count; i += 8) {
        __m256i at = offsets(&l);
        __m256i r = _mm256_and_si256(gather(red, at), level);
        __m256i g = _mm256_and_si256(gather(green, at), level);
        __m256i b = _mm256_and_si256(gather(blue, at), level);

        store(
            s, i,
            _mm256_or_si256(_mm256_or_si256(r, _mm256_slli_epi32(g, 8)), _mm256_slli_epi32(b, 16)));
        advance(&l);
    }
    rest = rest_of(s, i);
    affine_portable.nearest(&rest);
}

/* Returns affine_part() in the high word, and 4096 minus that in the low one. */
AVX2_INLINE __m256i parts(__m256i position)
{
    const __m256i all = _mm256_set1_epi32(4096);
    __m256i part =
        _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi32(position, 4), _mm256_set1_epi32(4094)),
                        _mm256_set1_epi32(1));

    return _mm256_or_si256(_mm256_slli_epi32(part, 16), _mm256_sub_epi32(all, part));
}

/* Blend the first two bytes of each lane, with the weights in `right`. */
AVX2_INLINE __m256i across(__m256i pair, __m256i right)
{
    const __m256i words = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13, -1));

    return _mm256_madd_epi16(_mm256_shuffle_epi8(pair, words), right);
}

AVX2_INLINE __m256i blend(const uint8_t *from, __m256i at, __m256i width, __m256i right,
                          __m256i low)
{
    __m256i upper = across(gather(from, at), right);
    __m256i lower = across(gather(from, _mm256_add_epi32(at, width)), right);
    __m256i high = _mm256_and_si256(low, _mm256_set1_epi32(0xFFFF));
    __m256i sum = _mm256_add_epi32(_mm256_mullo_epi32(upper, high),
                                   _mm256_mullo_epi32(lower, _mm256_srli_epi32(low, 16)));

    return _mm256_srli_epi32(_mm256_add_epi32(sum, _mm256_set1_epi32(1 << 23)), 24);
}

AVX2 static void span_bilinear(const struct affine_span *s)
{
    const uint8_t *red = s->from, *green = red + s->plane, *blue = green + s->plane;
    struct lanes l = lanes_of(s);
    struct affine_span rest;
    uint32_t i = 0;

    for (; i + 8 <= s->count; i += 8) {
        __m256i at = offsets(&l), right = parts(l.x), low = parts(l.y);
        __m256i r = blend(red, at, l.width, right, low);
        __m256i g = blend(green, at, l.width, right, low);
        __m256i b = blend(blue, at, l.width, right, low);

        store(
            s, i,
            _mm256_or_si256(_mm256_or_si256(r, _mm256_slli_epi32(g, 8)), _mm256_slli_epi32(b, 16)));
        advance(&l);
    }
    rest = rest_of(s, i);
    affine_portable.bilinear(&rest);
}

const struct affine_loops affine_avx2 = {span_nearest, span_bilinear};

#endif
