/* SPDX-License-Identifier: MIT */
/* blur_avx2.c - the loops of blur.h for x86 processors with AVX2: 16 levels at a time, two taps in
 * one multiplication. The last block overlaps the one before it. */
#include "config.h"

#ifdef __x86_64__

#include "loader/image/avx2.h"
#include "loader/image/ops/blur.h"

enum { BLOCK = 16 };

struct sums {
    __m256i low, high; /* quarters 0 and 2 of a block; quarters 1 and 3 */
};

/* Returns two coefficients as a pair of words; the second is 0 past the last one. */
AVX2_INLINE __m256i pair(const struct blur_kernel *kernel, uint32_t d)
{
    uint32_t second = d < kernel->radius ? (uint16_t)kernel->coef[d + 1] : 0;

    return _mm256_set1_epi32((int)(second << 16 | (uint16_t)kernel->coef[d]));
}

AVX2_INLINE void add(struct sums *s, __m256i first, __m256i second, __m256i coef)
{
    s->low =
        _mm256_add_epi32(s->low, _mm256_madd_epi16(_mm256_unpacklo_epi16(first, second), coef));
    s->high =
        _mm256_add_epi32(s->high, _mm256_madd_epi16(_mm256_unpackhi_epi16(first, second), coef));
}

AVX2_INLINE __m256i bytes(const uint8_t *at)
{
    return _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)at));
}

AVX2_INLINE __m256i words(const int16_t *at)
{
    return _mm256_loadu_si256((const __m256i *)at);
}

AVX2_INLINE __m256i rows_at(const uint8_t *const *middle, uint32_t d, size_t x)
{
    return _mm256_add_epi16(bytes(middle[-(ptrdiff_t)d] + x), bytes(middle[d] + x));
}

AVX2_INLINE __m256i words_at(const int16_t *middle, uint32_t d)
{
    return _mm256_add_epi16(words(middle - d), words(middle + d));
}

AVX2 static void down(const struct blur_kernel *kernel, const uint8_t *const *rows, size_t width,
                      int16_t *to)
{
    const uint8_t *const *middle = rows + kernel->radius;
    uint32_t radius = kernel->radius;

    if (width < BLOCK || radius == 0) {
        blur_portable.down(kernel, rows, width, to);
        return;
    }
    for (size_t next = 0; next < width; next += BLOCK) {
        size_t x = next + BLOCK <= width ? next : width - BLOCK;
        struct sums s = {_mm256_set1_epi32(1 << 7), _mm256_set1_epi32(1 << 7)};
        uint32_t d = 2;

        add(&s, bytes(middle[0] + x), rows_at(middle, 1, x), pair(kernel, 0));
        for (; d + 1 <= radius; d += 2)
            add(&s, rows_at(middle, d, x), rows_at(middle, d + 1, x), pair(kernel, d));
        if (d == radius)
            add(&s, rows_at(middle, d, x), _mm256_setzero_si256(), pair(kernel, d));
        _mm256_storeu_si256((__m256i *)(to + x), _mm256_packs_epi32(_mm256_srai_epi32(s.low, 8),
                                                                    _mm256_srai_epi32(s.high, 8)));
    }
}

AVX2 static void across(const struct blur_kernel *kernel, const int16_t *from, size_t width,
                        uint8_t *to)
{
    uint32_t radius = kernel->radius;

    if (width < BLOCK || radius == 0) {
        blur_portable.across(kernel, from, width, to);
        return;
    }
    for (size_t next = 0; next < width; next += BLOCK) {
        size_t x = next + BLOCK <= width ? next : width - BLOCK;
        const int16_t *middle = from + radius + x;
        struct sums s = {_mm256_set1_epi32(1 << 19), _mm256_set1_epi32(1 << 19)};
        uint32_t d = 2;
        __m256i v;

        add(&s, words(middle), words_at(middle, 1), pair(kernel, 0));
        for (; d + 1 <= radius; d += 2)
            add(&s, words_at(middle, d), words_at(middle, d + 1), pair(kernel, d));
        if (d == radius)
            add(&s, words_at(middle, d), _mm256_setzero_si256(), pair(kernel, d));
        v = _mm256_packs_epi32(_mm256_srai_epi32(s.low, 20), _mm256_srai_epi32(s.high, 20));
        v = _mm256_permute4x64_epi64(_mm256_packus_epi16(v, v), 0x08);
        _mm_storeu_si128((__m128i *)(to + x), _mm256_castsi256_si128(v));
    }
}

const struct blur_loops blur_avx2 = {.name = "avx2", .down = down, .across = across};

#endif
