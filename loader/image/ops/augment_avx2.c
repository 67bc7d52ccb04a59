/* SPDX-License-Identifier: MIT */
/* augment_avx2.c - the loops of the operations for x86 processors with AVX2.
 *
 * Loops without "wide" in their names are those of augment_loops.inc, which the compiler
 * vectorises. The others are written by hand, with 16-bit words where a compiler uses 32 bits; they
 * process groups of 32 values, and leave the rest to the plain loop.
 *
 * Factors have 14 fractional bits. A factor of 2 or more does not fit into a signed word:
 * interpreted as one, it is 2^16 too small, so the other operand of the multiplication is added to
 * the high half of the product. */
#include "config.h"

#ifdef __x86_64__
#if defined(__GNUC__) && !defined(__clang__) /* gcc vectorises loops only at -O3 */
#pragma GCC optimize("O3")
#endif

#include "loader/image/ops/augment_loops.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "loader/image/avx2.h"

#define LOOP AVX2
#include "loader/image/ops/augment_hsv.inc"
#include "loader/image/ops/augment_hue.inc"
#include "loader/image/ops/augment_loops.inc"

enum { GROUP = 32 };

/* Two registers of words. */
struct noise_words {
    __m256i a, b;
};

AVX2_INLINE __m256i load(const uint8_t *v)
{
    return _mm256_loadu_si256((const __m256i *)v);
}

AVX2_INLINE void store(uint8_t *v, __m256i x)
{
    _mm256_storeu_si256((__m256i *)v, x);
}

/* Widen 32 bytes to words, in an order that pack() undoes. */
AVX2_INLINE struct noise_words widen(__m256i v)
{
    const __m256i zero = _mm256_setzero_si256();

    return (struct noise_words){_mm256_unpacklo_epi8(v, zero), _mm256_unpackhi_epi8(v, zero)};
}

AVX2_INLINE __m256i pack(struct noise_words w)
{
    return _mm256_packus_epi16(w.a, w.b);
}

AVX2_INLINE __m256i scale_words(__m256i v, __m256i factor)
{
    return _mm256_mulhi_epu16(_mm256_slli_epi16(v, 2), factor);
}

AVX2 static void scale_wide(uint8_t *v, size_t n, uint32_t factor)
{
    __m256i f = _mm256_set1_epi16((int16_t)factor);
    size_t i = 0;

    for (; i + GROUP <= n; i += GROUP) {
        struct noise_words w = widen(load(v + i));

        store(v + i, pack((struct noise_words){scale_words(w.a, f), scale_words(w.b, f)}));
    }
    scale(v + i, n - i, factor);
}

AVX2_INLINE __m256i blend_register(__m256i from, __m256i v, __m256i factor, bool word)
{
    __m256i x = _mm256_slli_epi16(_mm256_sub_epi16(v, from), 2);
    __m256i y = _mm256_add_epi16(from, _mm256_mulhi_epi16(x, factor));

    return word ? y : _mm256_add_epi16(y, x);
}

AVX2_INLINE void blend_group(const uint8_t *v, struct noise_words from, __m256i factor, bool word,
                             uint8_t *to)
{
    struct noise_words w = widen(load(v));

    store(to, pack((struct noise_words){blend_register(from.a, w.a, factor, word),
                                        blend_register(from.b, w.b, factor, word)}));
}

AVX2_INLINE size_t blend_level_groups(uint8_t *v, size_t n, uint32_t level, uint32_t factor,
                                      bool word)
{
    __m256i from = _mm256_set1_epi16((int16_t)level), f = _mm256_set1_epi16((int16_t)factor);
    size_t i = 0;

    for (; i + GROUP <= n; i += GROUP)
        blend_group(v + i, (struct noise_words){from, from}, f, word, v + i);
    return i;
}

AVX2 static void blend_level_wide(uint8_t *v, size_t n, uint32_t level, uint32_t factor)
{
    size_t done = is_word(factor) ? blend_level_groups(v, n, level, factor, true)
                                  : blend_level_groups(v, n, level, factor, false);

    blend_level(v + done, n - done, level, factor);
}

/* Returns grey levels. The coefficients of grey add up to 2^16, so grey = G + ((19595 (R - G) +
 * 7471 (B - G) + 2^15) >> 16). */
AVX2_INLINE __m256i gray_register(__m256i red, __m256i green, __m256i blue)
{
    const __m256i coef = _mm256_set1_epi32(7471 << 16 | 19595), half = _mm256_set1_epi32(0x8000);
    __m256i r = _mm256_sub_epi16(red, green), b = _mm256_sub_epi16(blue, green);
    __m256i low = _mm256_madd_epi16(_mm256_unpacklo_epi16(r, b), coef);
    __m256i high = _mm256_madd_epi16(_mm256_unpackhi_epi16(r, b), coef);

    low = _mm256_srai_epi32(_mm256_add_epi32(low, half), 16);
    high = _mm256_srai_epi32(_mm256_add_epi32(high, half), 16);
    return _mm256_add_epi16(green, _mm256_packs_epi32(low, high));
}

AVX2_INLINE struct noise_words gray_group(const uint8_t *v, size_t plane)
{
    struct noise_words r = widen(load(v)), g = widen(load(v + plane)),
                       b = widen(load(v + 2 * plane));

    return (struct noise_words){gray_register(r.a, g.a, b.a), gray_register(r.b, g.b, b.b)};
}

AVX2_INLINE size_t blend_gray_groups(uint8_t *v, size_t plane, size_t n, uint32_t factor, bool word)
{
    __m256i f = _mm256_set1_epi16((int16_t)factor);
    size_t i = 0;

    for (; i + GROUP <= n; i += GROUP) {
        struct noise_words from = gray_group(v + i, plane);

        for (uint8_t *p = v + i; p < v + 3 * plane; p += plane)
            blend_group(p, from, f, word, p);
    }
    return i;
}

AVX2 static void blend_gray_wide(uint8_t *v, size_t plane, size_t n, uint32_t factor)
{
    size_t done = is_word(factor) ? blend_gray_groups(v, plane, n, factor, true)
                                  : blend_gray_groups(v, plane, n, factor, false);

    blend_gray(v + done, plane, n - done, factor);
}

AVX2 static void gray_wide(uint8_t *v, size_t plane, size_t n, uint32_t unused)
{
    size_t i = 0;

    for (; i + GROUP <= n; i += GROUP) {
        __m256i x = pack(gray_group(v + i, plane));

        for (size_t c = 0; c < 3; c++)
            store(v + c * plane + i, x);
    }
    gray(v + i, plane, n - i, unused);
}

AVX2 static uint32_t sum_gray_wide(const uint8_t *v, size_t plane, size_t n)
{
    __m256i sums = _mm256_setzero_si256();
    uint32_t parts[8];
    size_t i = 0;

    for (; i + GROUP <= n; i += GROUP)
        sums = _mm256_add_epi64(
            sums, _mm256_sad_epu8(pack(gray_group(v + i, plane)), _mm256_setzero_si256()));
    _mm256_storeu_si256((__m256i *)parts, sums);
    return parts[0] + parts[2] + parts[4] + parts[6] + sum_gray(v + i, plane, n - i);
}

/* Look up bytes in a table of 256 values. A shuffle looks up one of 16 values by the low four bits
 * of an index, or gives 0 if the highest bit of the index is set. The table has rows of 16 values;
 * `rows` has the first, and then the XOR of each row and the one before it. Step k looks up x - 16
 * k: if that is negative, it adds nothing; otherwise the XOR turns the value from row k - 1 into
 * that of row k. So the value for x is complete after the step of its own row. Bytes from 128 on
 * look negative from the start, so they have separate steps, with the top bit flipped. */
AVX2_INLINE __m256i look_up(const __m256i *rows, __m256i x)
{
    const __m256i step = _mm256_set1_epi8(16);
    __m256i found = _mm256_shuffle_epi8(rows[0], x);

    for (int k = 1; k < 8; k++) {
        x = _mm256_subs_epi8(x, step);
        found = _mm256_xor_si256(found, _mm256_shuffle_epi8(rows[k], x));
    }
    return found;
}

AVX2 static void table_wide(uint8_t *v, size_t n, const uint8_t *values)
{
    const __m256i top = _mm256_set1_epi8(-128);
    __m256i rows[16];
    size_t i = 0;

    for (int k = 15; k >= 0; k--) {
        __m128i row = _mm_loadu_si128((const __m128i *)(values + 16 * k));

        if (k % 8 > 0)
            row = _mm_xor_si128(row, _mm_loadu_si128((const __m128i *)(values + 16 * (k - 1))));
        rows[k] = _mm256_broadcastsi128_si256(row);
    }
    for (; i + GROUP <= n; i += GROUP) {
        __m256i x = load(v + i);

        store(v + i,
              _mm256_or_si256(look_up(rows, x), look_up(rows + 8, _mm256_xor_si256(x, top))));
    }
    table(v + i, n - i, values);
}

/* Returns weighted sums of x and y, two rows of 32 bytes, as words; `weights` has their factors. */
AVX2_INLINE struct noise_words sum_rows(__m256i x, __m256i y, __m256i weights)
{
    return (struct noise_words){_mm256_maddubs_epi16(_mm256_unpacklo_epi8(x, y), weights),
                                _mm256_maddubs_epi16(_mm256_unpackhi_epi8(x, y), weights)};
}

AVX2_INLINE struct noise_words add_words(struct noise_words x, struct noise_words y)
{
    return (struct noise_words){_mm256_add_epi16(x.a, y.a), _mm256_add_epi16(x.b, y.b)};
}

/* Returns floor((2 sum + 13) / 26) = floor((sum + 6) / 13), for sum <= 13 * 255. */
AVX2_INLINE __m256i smooth_register(__m256i sum)
{
    return _mm256_mulhi_epu16(_mm256_add_epi16(sum, _mm256_set1_epi16(6)),
                              _mm256_set1_epi16((1 << 16) / 13 + 1));
}

/* Smooth 32 values of a row from `v` on; all of them have eight neighbours. */
AVX2_INLINE struct noise_words smooth_group(const uint8_t *v, size_t width)
{
    const __m256i ones = _mm256_set1_epi8(1), centre = _mm256_set1_epi16(5 << 8 | 1);
    const uint8_t *above = v - width, *below = v + width;
    struct noise_words sum = sum_rows(load(above - 1), load(above), ones);

    sum = add_words(sum, sum_rows(load(above + 1), load(v - 1), ones));
    sum = add_words(sum, sum_rows(load(v + 1), load(v), centre));
    sum = add_words(sum, sum_rows(load(below - 1), load(below), ones));
    sum = add_words(sum, widen(load(below + 1)));
    return (struct noise_words){smooth_register(sum.a), smooth_register(sum.b)};
}

AVX2_INLINE void sharpen_group(const uint8_t *v, size_t width, __m256i factor, bool word,
                               uint8_t *to)
{
    blend_group(v, smooth_group(v, width), factor, word, to);
}

AVX2 static void sharpen_wide(const uint8_t *from, uint8_t *to, size_t width, size_t height,
                              uint32_t factor)
{
    __m256i f = _mm256_set1_epi16((int16_t)factor);
    size_t last = width - 1 - GROUP; /* start of the last group of a row */

    if (width < GROUP + 2) {
        sharpen(from, to, width, height, factor);
        return;
    }
    memcpy(to, from, width);
    for (size_t y = 1; y + 1 < height; y++) {
        const uint8_t *v = from + y * width;
        uint8_t *row = to + y * width;

        row[0] = v[0];
        for (size_t x = 1; x < last; x += GROUP)
            sharpen_group(v + x, width, f, is_word(factor), row + x);
        sharpen_group(v + last, width, f, is_word(factor), row + last);
        row[width - 1] = v[width - 1];
    }
    memcpy(to + (height - 1) * width, from + (height - 1) * width, width);
}

/* Store a register, past the caches if `past`: then `v` is a multiple of 32. */
AVX2_INLINE void put(uint8_t *v, __m256i x, bool past)
{
    if (past)
        _mm256_stream_si256((__m256i *)(void *)v, x);
    else
        store(v, x);
}

/* Interleave 32 values of each channel into pixels of four bytes. */
AVX2_INLINE void put_four(__m256i r, __m256i g, __m256i b, __m256i zero, uint8_t *to, bool past)
{
    __m256i rg = _mm256_unpacklo_epi8(r, g), bz = _mm256_unpacklo_epi8(b, zero);
    __m256i p0 = _mm256_unpacklo_epi16(rg, bz), p4 = _mm256_unpackhi_epi16(rg, bz), p8, p12;

    rg = _mm256_unpackhi_epi8(r, g);
    bz = _mm256_unpackhi_epi8(b, zero);
    p8 = _mm256_unpacklo_epi16(rg, bz);
    p12 = _mm256_unpackhi_epi16(rg, bz);
    put(to, _mm256_permute2x128_si256(p0, p4, 0x20), past);
    put(to + 32, _mm256_permute2x128_si256(p8, p12, 0x20), past);
    put(to + 64, _mm256_permute2x128_si256(p0, p4, 0x31), past);
    put(to + 96, _mm256_permute2x128_si256(p8, p12, 0x31), past);
}

/* Interleave 32 values of each channel into pixels of three bytes. Sixteen pixels fill three
 * registers. At the same byte of each, these registers have different channels, so one order of a
 * channel's values suits all three. */
AVX2_INLINE void put_three(__m256i r, __m256i g, __m256i b, uint8_t *to, bool past)
{
    const __m256i order = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 11, 6, 1, 12, 7, 2, 13, 8, 3, 14, 9, 4, 15, 10, 5));
    const __m256i second = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0));
    const __m256i third = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0));
    __m256i x, y, z;

    r = _mm256_shuffle_epi8(r, order);
    g = _mm256_shuffle_epi8(g, _mm256_alignr_epi8(order, order, 15));
    b = _mm256_shuffle_epi8(b, _mm256_alignr_epi8(order, order, 14));
    x = _mm256_blendv_epi8(_mm256_blendv_epi8(r, g, second), b, third);
    y = _mm256_blendv_epi8(_mm256_blendv_epi8(g, b, second), r, third);
    z = _mm256_blendv_epi8(_mm256_blendv_epi8(b, r, second), g, third);
    put(to, _mm256_permute2x128_si256(x, y, 0x20), past);
    put(to + 32, _mm256_permute2x128_si256(z, x, 0x30), past);
    put(to + 64, _mm256_permute2x128_si256(y, z, 0x31), past);
}

AVX2_INLINE void put_pixels(const uint8_t *from, size_t plane, size_t n, uint32_t channels,
                            uint8_t flip, uint8_t zero, uint8_t *to, bool past)
{
    __m256i flips = _mm256_set1_epi8((char)flip), zeros = _mm256_set1_epi8((char)zero);
    size_t i = 0;

    for (; channels == 4 && i + GROUP <= n; i += GROUP)
        put_four(_mm256_xor_si256(load(from + i), flips),
                 _mm256_xor_si256(load(from + plane + i), flips),
                 _mm256_xor_si256(load(from + 2 * plane + i), flips), zeros, to + 4 * i, past);
    for (; channels == 3 && i + GROUP <= n; i += GROUP)
        put_three(_mm256_xor_si256(load(from + i), flips),
                  _mm256_xor_si256(load(from + plane + i), flips),
                  _mm256_xor_si256(load(from + 2 * plane + i), flips), to + 3 * i, past);
    store_pixels(from + i, plane, n - i, channels, flip, zero, to + channels * i);
}

AVX2 static void store_pixels_wide(const uint8_t *from, size_t plane, size_t n, uint32_t channels,
                                   uint8_t flip, uint8_t zero, uint8_t *to)
{
    put_pixels(from, plane, n, channels, flip, zero, to, false);
}

/* Returns after how many steps of `each` bytes an address is a multiple of 32, or `n`: after none
 * of the first n. */
static size_t find_aligned(const uint8_t *to, uint32_t each, size_t n)
{
    for (size_t i = 0; i < GROUP && i < n; i++)
        if ((uintptr_t)(to + i * each) % 32 == 0)
            return i;
    return n;
}

AVX2 static void stream_pixels(const uint8_t *from, size_t plane, size_t n, uint32_t channels,
                               uint8_t flip, uint8_t zero, uint8_t *to)
{
    size_t head = find_aligned(to, channels, n);

    store_pixels_wide(from, plane, head, channels, flip, zero, to);
    put_pixels(from + head, plane, n - head, channels, flip, zero, to + head * channels, true);
    _mm_sfence(); /* before the caller says that the pixels are stored */
}

AVX2 static void stream_bytes(const uint8_t *from, size_t n, uint8_t flip, uint8_t *to)
{
    __m256i flips = _mm256_set1_epi8((char)flip);
    size_t i = find_aligned(to, 1, n);

    store_bytes(from, i, flip, to);
    for (; i + GROUP <= n; i += GROUP)
        put(to + i, _mm256_xor_si256(load(from + i), flips), true);
    store_bytes(from + i, n - i, flip, to + i);
    _mm_sfence();
}

const struct augment_loops augment_avx2 = {
    .name = "avx2",
    .affine = &affine_avx2,
    .pointwise = {PLAIN_POINTWISE, [PIPELINE_BRIGHTNESS] = {.levels = scale_wide},
                  [PIPELINE_SATURATION] = {.pixels = blend_gray_wide},
                  [PIPELINE_GRAYSCALE] = {.pixels = gray_wide}},
    .blend_level = blend_level_wide,
    .sum_gray = sum_gray_wide,
    .find_range = find_range,
    .noise = noise,
    .sharpen = sharpen_wide,
    .table = table_wide,
    .sum_windows = sum_windows,
    .store_pixels = store_pixels_wide,
    .store_bytes = store_bytes,
    .stream_pixels = stream_pixels,
    .stream_bytes = stream_bytes,
    .mix = mix,
};

#endif
