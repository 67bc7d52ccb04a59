/* SPDX-License-Identifier: MIT */
/* jpeg_pixels_avx2.c - the loops of our JPEG decoder for x86 processors with AVX2.
 *
 * Two blocks are transformed at once, one in each half of the registers; a register holds a row, or
 * a column, of both. vpmaddwd computes the rotations: words that are multiplied and added are
 * neighbours. See jpeg_pixels.c for the arithmetic.
 *
 * Colours: a constant c with 16 bits after the point is split into a whole number and a rest r that
 * fits into a word, and x * c = x * whole + ((2 * x * r >> 16) + 1 >> 1), which rounds exactly like
 * (x * r + 2^15) >> 16. */
#include "config.h"

#include "loader/image/jpeg/jpeg_idct.h"
#include "loader/image/jpeg/jpeg_pixels.h"

#ifdef __x86_64__

#include "loader/image/avx2.h"

static bool usable(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
}

/* Returns a register with these two words, eight times. */
AVX2_INLINE __m256i words(int32_t first, int32_t second)
{
    return _mm256_set1_epi32((int32_t)((uint32_t)second << 16 | (uint16_t)first));
}

/* Half of one pass: 32-bit sums for four of the eight columns, with the rounding added, shifted
 * down. `interleave` selects the half: it interleaves the words of two registers. */
#define HALF_PASS(interleave, v, out, bits)                                           \
    do {                                                                              \
        const __m256i zero_ = _mm256_setzero_si256();                                 \
        const __m256i round_ = _mm256_set1_epi32(1 << ((bits)-1));                    \
        __m256i e26_ = interleave((v)[2], (v)[6]);                                    \
        __m256i even2_ = _mm256_madd_epi16(e26_, words(F_0_541, F_0_541 - F_1_847));  \
        __m256i even3_ = _mm256_madd_epi16(e26_, words(F_0_541 + F_0_765, F_0_541));  \
        __m256i s04_ = _mm256_srai_epi32(interleave(zero_, sum04), 3);                \
        __m256i d04_ = _mm256_srai_epi32(interleave(zero_, diff04), 3);               \
        __m256i z_ = interleave(sum37, sum15);                                        \
        __m256i z3_ = _mm256_madd_epi16(z_, words(F_1_175 - F_1_961, F_1_175));       \
        __m256i z4_ = _mm256_madd_epi16(z_, words(F_1_175, F_1_175 - F_0_390));       \
        __m256i i71_ = interleave((v)[7], (v)[1]), i53_ = interleave((v)[5], (v)[3]); \
        __m256i o0_ = _mm256_madd_epi16(i71_, words(F_0_298 - F_0_899, -F_0_899));    \
        __m256i o3_ = _mm256_madd_epi16(i71_, words(-F_0_899, F_1_501 - F_0_899));    \
        __m256i o1_ = _mm256_madd_epi16(i53_, words(F_2_053 - F_2_562, -F_2_562));    \
        __m256i o2_ = _mm256_madd_epi16(i53_, words(-F_2_562, F_3_072 - F_2_562));    \
        __m256i e0_, e1_, e2_, e3_;                                                   \
                                                                                      \
        s04_ = _mm256_add_epi32(s04_, round_);                                        \
        d04_ = _mm256_add_epi32(d04_, round_);                                        \
        e0_ = _mm256_add_epi32(s04_, even3_);                                         \
        e3_ = _mm256_sub_epi32(s04_, even3_);                                         \
        e1_ = _mm256_add_epi32(d04_, even2_);                                         \
        e2_ = _mm256_sub_epi32(d04_, even2_);                                         \
        o0_ = _mm256_add_epi32(o0_, z3_);                                             \
        o1_ = _mm256_add_epi32(o1_, z4_);                                             \
        o2_ = _mm256_add_epi32(o2_, z3_);                                             \
        o3_ = _mm256_add_epi32(o3_, z4_);                                             \
        (out)[0] = _mm256_srai_epi32(_mm256_add_epi32(e0_, o3_), bits);               \
        (out)[7] = _mm256_srai_epi32(_mm256_sub_epi32(e0_, o3_), bits);               \
        (out)[1] = _mm256_srai_epi32(_mm256_add_epi32(e1_, o2_), bits);               \
        (out)[6] = _mm256_srai_epi32(_mm256_sub_epi32(e1_, o2_), bits);               \
        (out)[2] = _mm256_srai_epi32(_mm256_add_epi32(e2_, o1_), bits);               \
        (out)[5] = _mm256_srai_epi32(_mm256_sub_epi32(e2_, o1_), bits);               \
        (out)[3] = _mm256_srai_epi32(_mm256_add_epi32(e3_, o0_), bits);               \
        (out)[4] = _mm256_srai_epi32(_mm256_sub_epi32(e3_, o0_), bits);               \
    } while (0)

#define PASS(v, bits)                                          \
    do {                                                       \
        __m256i sum04 = _mm256_add_epi16((v)[0], (v)[4]);      \
        __m256i diff04 = _mm256_sub_epi16((v)[0], (v)[4]);     \
        __m256i sum37 = _mm256_add_epi16((v)[3], (v)[7]);      \
        __m256i sum15 = _mm256_add_epi16((v)[1], (v)[5]);      \
        __m256i low_[8], high_[8];                             \
                                                               \
        HALF_PASS(_mm256_unpacklo_epi16, v, low_, bits);       \
        HALF_PASS(_mm256_unpackhi_epi16, v, high_, bits);      \
        for (int i_ = 0; i_ < 8; i_++)                         \
            (v)[i_] = _mm256_packs_epi32(low_[i_], high_[i_]); \
    } while (0)

/* Transpose rows to columns, in both halves. */
AVX2_INLINE void transpose(__m256i v[8])
{
    __m256i a[8], b[8];

    for (int i = 0; i < 4; i++) {
        a[2 * i] = _mm256_unpacklo_epi16(v[2 * i], v[2 * i + 1]);
        a[2 * i + 1] = _mm256_unpackhi_epi16(v[2 * i], v[2 * i + 1]);
    }
    for (int i = 0; i < 2; i++) {
        b[4 * i] = _mm256_unpacklo_epi32(a[4 * i], a[4 * i + 2]);
        b[4 * i + 1] = _mm256_unpackhi_epi32(a[4 * i], a[4 * i + 2]);
        b[4 * i + 2] = _mm256_unpacklo_epi32(a[4 * i + 1], a[4 * i + 3]);
        b[4 * i + 3] = _mm256_unpackhi_epi32(a[4 * i + 1], a[4 * i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        v[2 * i] = _mm256_unpacklo_epi64(b[i], b[4 + i]);
        v[2 * i + 1] = _mm256_unpackhi_epi64(b[i], b[4 + i]);
    }
}

AVX2_INLINE __m256i load_both(const int16_t *low, const int16_t *high)
{
    __m128i a = _mm_loadu_si128((const __m128i *)low), b = _mm_loadu_si128((const __m128i *)high);

    return _mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1);
}

AVX2_INLINE void store_two_rows(const struct jpeg_block *block, uint32_t row, __m128i samples)
{
    uint8_t *to = block->to + row * block->pitch;

    _mm_storel_epi64((__m128i *)to, samples);
    _mm_storel_epi64((__m128i *)(to + block->pitch), _mm_unpackhi_epi64(samples, samples));
}

/* Store columns of words as rows of bytes. */
AVX2_INLINE void store_both(const struct jpeg_block *low, const struct jpeg_block *high,
                            const __m256i v[8])
{
    const __m256i middle = _mm256_set1_epi8(-128);
    __m256i c01 = _mm256_packs_epi16(v[0], v[1]), c23 = _mm256_packs_epi16(v[2], v[3]);
    __m256i c45 = _mm256_packs_epi16(v[4], v[5]), c67 = _mm256_packs_epi16(v[6], v[7]);
    __m256i c02 = _mm256_unpacklo_epi8(c01, c23), c13 = _mm256_unpackhi_epi8(c01, c23);
    __m256i c46 = _mm256_unpacklo_epi8(c45, c67), c57 = _mm256_unpackhi_epi8(c45, c67);
    __m256i top_left = _mm256_unpacklo_epi8(c02, c13), left = _mm256_unpackhi_epi8(c02, c13);
    __m256i top_right = _mm256_unpacklo_epi8(c46, c57), right = _mm256_unpackhi_epi8(c46, c57);
    __m256i rows[4] = {
        _mm256_unpacklo_epi32(top_left, top_right),
        _mm256_unpackhi_epi32(top_left, top_right),
        _mm256_unpacklo_epi32(left, right),
        _mm256_unpackhi_epi32(left, right),
    };

    for (uint32_t i = 0; i < 4; i++) {
        __m256i samples = _mm256_xor_si256(rows[i], middle);

        store_two_rows(low, 2 * i, _mm256_castsi256_si128(samples));
        store_two_rows(high, 2 * i, _mm256_extracti128_si256(samples, 1));
    }
}

AVX2 static void idct(const struct jpeg_block *blocks, uint32_t count)
{
    for (uint32_t i = 0; i < count; i += 2) {
        const struct jpeg_block *low = &blocks[i], *high = &blocks[i + (i + 1 < count)];
        __m256i v[8];

        for (uint32_t k = 0; k < 8; k++)
            v[k] = _mm256_mullo_epi16(load_both(low->coef + 8 * k, high->coef + 8 * k),
                                      load_both(low->quant + 8 * k, high->quant + 8 * k));
        PASS(v, 11);
        transpose(v);
        PASS(v, 18);
        store_both(low, high, v);
    }
}

AVX2_INLINE __m256i widen(const uint8_t *samples)
{
    return _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)samples));
}

AVX2_INLINE __m256i three_times(__m256i x)
{
    return _mm256_add_epi16(x, _mm256_add_epi16(x, x));
}

/* Interleave and store sixteen even and sixteen odd samples, which are words. */
AVX2_INLINE void store_alternating(uint8_t *to, __m256i even, __m256i odd)
{
    _mm256_storeu_si256((__m256i *)to, _mm256_or_si256(even, _mm256_slli_epi16(odd, 8)));
}

AVX2 static void h2v1(const uint8_t *in, uint32_t count, uint8_t *out)
{
    const __m256i one = _mm256_set1_epi16(1), two = _mm256_set1_epi16(2);

    for (uint32_t i = 0; i < count; i += 16, in += 16, out += 32) {
        __m256i here = three_times(widen(in));
        __m256i even = _mm256_add_epi16(_mm256_add_epi16(here, widen(in - 1)), one);
        __m256i odd = _mm256_add_epi16(_mm256_add_epi16(here, widen(in + 1)), two);

        store_alternating(out, _mm256_srli_epi16(even, 2), _mm256_srli_epi16(odd, 2));
    }
}

AVX2_INLINE __m256i mix_rows(const uint8_t *near, const uint8_t *far)
{
    return _mm256_add_epi16(three_times(widen(near)), widen(far));
}

AVX2 static void h2v2(const uint8_t *near, const uint8_t *far, uint32_t count, uint8_t *out)
{
    const __m256i seven = _mm256_set1_epi16(7), eight = _mm256_set1_epi16(8);

    for (uint32_t i = 0; i < count; i += 16, near += 16, far += 16, out += 32) {
        __m256i here = three_times(mix_rows(near, far));
        __m256i even = _mm256_add_epi16(_mm256_add_epi16(here, mix_rows(near - 1, far - 1)), eight);
        __m256i odd = _mm256_add_epi16(_mm256_add_epi16(here, mix_rows(near + 1, far + 1)), seven);

        store_alternating(out, _mm256_srli_epi16(even, 4), _mm256_srli_epi16(odd, 4));
    }
}

AVX2 static void h1v2(const uint8_t *near, const uint8_t *far, uint32_t bias, uint32_t count,
                      uint8_t *out)
{
    const __m256i round = _mm256_set1_epi16((int16_t)bias);

    for (uint32_t i = 0; i < count; i += 16) {
        __m256i sum = _mm256_add_epi16(mix_rows(near + i, far + i), round);
        __m256i bytes = _mm256_packus_epi16(_mm256_srli_epi16(sum, 2), sum);

        bytes = _mm256_permute4x64_epi64(bytes, 0x08);
        _mm_storeu_si128((__m128i *)(out + i), _mm256_castsi256_si128(bytes));
    }
}

/* Store words of 0 ... 255 as sixteen pixels of four bytes. */
AVX2_INLINE void store_pixels(uint8_t *to, __m256i r, __m256i g, __m256i b)
{
    const __m256i opaque = _mm256_set1_epi16((int16_t)0xFF00);
    __m256i rg = _mm256_or_si256(r, _mm256_slli_epi16(g, 8)), bx = _mm256_or_si256(b, opaque);
    __m256i low = _mm256_unpacklo_epi16(rg, bx), high = _mm256_unpackhi_epi16(rg, bx);

    _mm256_storeu_si256((__m256i *)to, _mm256_permute2x128_si256(low, high, 0x20));
    _mm256_storeu_si256((__m256i *)(to + 32), _mm256_permute2x128_si256(low, high, 0x31));
}

/* Returns x * c / 2^16, rounded as the comment at the top explains. */
AVX2_INLINE __m256i times(__m256i x, int16_t c)
{
    const __m256i one = _mm256_set1_epi16(1);
    __m256i twice = _mm256_mulhi_epi16(_mm256_add_epi16(x, x), _mm256_set1_epi16(c));

    return _mm256_srai_epi16(_mm256_add_epi16(twice, one), 1);
}

AVX2_INLINE __m256i clamp(__m256i x)
{
    x = _mm256_max_epi16(x, _mm256_setzero_si256());
    return _mm256_min_epi16(x, _mm256_set1_epi16(255));
}

AVX2 static void ycc(const uint8_t *const *planes, uint32_t count, uint8_t *out)
{
    const __m256i middle = _mm256_set1_epi16(128), half = _mm256_set1_epi32(1 << 15);
    const __m256i green = words(-22554, 65536 - 46802);

    for (uint32_t i = 0; i < count; i += 16, out += 64) {
        __m256i y = widen(planes[0] + i);
        __m256i cb = _mm256_sub_epi16(widen(planes[1] + i), middle);
        __m256i cr = _mm256_sub_epi16(widen(planes[2] + i), middle);
        __m256i low = _mm256_madd_epi16(_mm256_unpacklo_epi16(cb, cr), green);
        __m256i high = _mm256_madd_epi16(_mm256_unpackhi_epi16(cb, cr), green);
        __m256i r = _mm256_add_epi16(_mm256_add_epi16(y, cr), times(cr, 91881 - 65536));
        __m256i b = _mm256_add_epi16(_mm256_add_epi16(y, _mm256_add_epi16(cb, cb)),
                                     times(cb, 116130 - 131072));
        __m256i g;

        low = _mm256_srai_epi32(_mm256_add_epi32(low, half), 16);
        high = _mm256_srai_epi32(_mm256_add_epi32(high, half), 16);
        g = _mm256_add_epi16(_mm256_sub_epi16(y, cr), _mm256_packs_epi32(low, high));
        store_pixels(out, clamp(r), clamp(g), clamp(b));
    }
}

AVX2 static void rgb(const uint8_t *const *planes, uint32_t count, uint8_t *out)
{
    for (uint32_t i = 0; i < count; i += 16, out += 64)
        store_pixels(out, widen(planes[0] + i), widen(planes[1] + i), widen(planes[2] + i));
}

AVX2 static void grey(const uint8_t *const *planes, uint32_t count, uint8_t *out)
{
    for (uint32_t i = 0; i < count; i += 16, out += 64) {
        __m256i y = widen(planes[0] + i);

        store_pixels(out, y, y, y);
    }
}

const struct jpeg_kernels jpeg_avx2 = {
    .name = "avx2",
    .usable = usable,
    .bmi2 = true,
    .fill = jpeg_huff_fill_avx2,
    .idct = idct,
    .h2v1 = h2v1,
    .h2v2 = h2v2,
    .h1v2 = h1v2,
    .ycc = ycc,
    .rgb = rgb,
    .grey = grey,
};

#endif
