/* SPDX-License-Identifier: MIT */
/* jpeg_huff_avx2.c - fills the tables `two` and `many`, eight entries at a time.
 *
 * Many photographs have their own tables, and filling these entry by entry took a tenth of the
 * total time. See jpeg_huff.h for the meaning of the entries. */
#include "config.h"

#include "loader/image/jpeg/jpeg_huff.h"

#ifdef __x86_64__

#include "loader/image/avx2.h"

AVX2_INLINE __m256i number(uint32_t x)
{
    return _mm256_set1_epi32((int32_t)x);
}

AVX2_INLINE __m256i byte_of(__m256i entries, int which)
{
    return _mm256_and_si256(_mm256_srli_epi32(entries, 8 * which), number(255));
}

/* Returns the entries for the bits after the first `length` of these 11 bits. */
AVX2_INLINE __m256i entries_behind(const jpeg_entry *one, __m256i bits, __m256i length)
{
    __m256i at = _mm256_and_si256(_mm256_sllv_epi32(bits, length), number(JPEG_LOOKS - 1));

    return _mm256_i32gather_epi32((const int *)one, at, 4);
}

/* Returns all ones where an entry's code lies within the 11 bits after the first `length`. */
AVX2_INLINE __m256i fits(__m256i entry, __m256i length)
{
    __m256i rare = _mm256_cmpeq_epi32(entry, _mm256_setzero_si256());
    __m256i end = _mm256_add_epi32(length, byte_of(entry, 2));

    return _mm256_andnot_si256(_mm256_or_si256(rare, _mm256_cmpgt_epi32(end, number(JPEG_LOOK))),
                               number(UINT32_MAX));
}

/* Returns jpeg_value() of the first symbol. */
AVX2_INLINE __m256i values_of(__m256i bits, __m256i code, __m256i size)
{
    __m256i t = _mm256_sllv_epi32(_mm256_slli_epi32(bits, 32 - JPEG_LOOK), code);
    __m256i value = _mm256_srlv_epi32(_mm256_srli_epi32(t, 1), _mm256_sub_epi32(number(31), size));
    __m256i negative = _mm256_cmpgt_epi32(t, number(UINT32_MAX)); /* the value's first bit is 0 */
    __m256i less = _mm256_sub_epi32(number(1), _mm256_sllv_epi32(number(1), size));

    return _mm256_add_epi32(value, _mm256_and_si256(negative, less));
}

AVX2_INLINE __m256i two_of(const jpeg_entry *one, __m256i bits, __m256i first)
{
    __m256i length = byte_of(first, 0), step = byte_of(first, 1), code = byte_of(first, 2);
    __m256i size = byte_of(first, 3), next = entries_behind(one, bits, length);
    __m256i alone = _mm256_or_si256(_mm256_cmpgt_epi32(size, number(3)),
                                    _mm256_cmpeq_epi32(step, number(JPEG_STEP_EOB)));
    __m256i both = _mm256_andnot_si256(alone, fits(next, length));
    __m256i second = _mm256_and_si256(next, both);
    __m256i value = _mm256_and_si256(values_of(bits, code, size), both);
    __m256i begin = _mm256_blendv_epi8(code, _mm256_add_epi32(length, byte_of(second, 2)), both);
    __m256i last = _mm256_blendv_epi8(size, byte_of(second, 3), both);
    __m256i all = _mm256_add_epi32(length, byte_of(second, 0));

    all = _mm256_or_si256(all, _mm256_slli_epi32(begin, 6));
    all = _mm256_or_si256(all, _mm256_slli_epi32(last, 10));
    all = _mm256_or_si256(all, _mm256_slli_epi32(step, 14));
    all = _mm256_or_si256(all, _mm256_slli_epi32(byte_of(second, 1), 21));
    return _mm256_or_si256(all, _mm256_slli_epi32(value, 28));
}

AVX2_INLINE __m256i many_of(const jpeg_entry *one, __m256i bits, __m256i first)
{
    __m256i length = byte_of(first, 0), steps = byte_of(first, 1);
    __m256i before = _mm256_setzero_si256(), going = number(UINT32_MAX);

    for (;;) {
        __m256i next = entries_behind(one, bits, length);

        going = _mm256_and_si256(going, _mm256_cmpgt_epi32(number(64), steps));
        going = _mm256_and_si256(going, fits(next, length));
        if (_mm256_testz_si256(going, going))
            break;
        next = _mm256_and_si256(next, going);
        before = _mm256_blendv_epi8(before, steps, going);
        steps = _mm256_add_epi32(steps, byte_of(next, 1));
        length = _mm256_add_epi32(length, byte_of(next, 0));
    }
    length = _mm256_or_si256(length, _mm256_slli_epi32(steps, 8));
    return _mm256_or_si256(length, _mm256_slli_epi32(before, 16));
}

AVX2 void jpeg_huff_fill_avx2(struct jpeg_huff *h)
{
    __m256i bits = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);

    for (uint32_t i = 0; i < JPEG_LOOKS; i += 8, bits = _mm256_add_epi32(bits, number(8))) {
        __m256i first = _mm256_load_si256((const __m256i *)(h->one + i));
        __m256i rare = _mm256_cmpeq_epi32(first, _mm256_setzero_si256());
        __m256i two = two_of(h->one, bits, first), many = many_of(h->one, bits, first);

        _mm256_store_si256((__m256i *)(h->two + i), _mm256_andnot_si256(rare, two));
        _mm256_store_si256((__m256i *)(h->many + i), _mm256_andnot_si256(rare, many));
    }
}

#endif
