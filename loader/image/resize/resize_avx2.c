/* SPDX-License-Identifier: MIT */
/* resize_avx2.c - the resize loops for x86 processors with AVX2.
 *
 * Everything is based on vpmaddwd, which multiplies sixteen words and adds neighbours. So words
 * that are added must be neighbours, in both passes:
 *
 * - across: one register holds two output pixels, x in the low half, x + 4 in the high one, as four
 *   channels of 32 bits. For two taps, a byte shuffle separates the bytes r0 g0 b0 x0 r1 g1 b1 x1
 *   of two neighbouring source pixels into words r0 r1 g0 g1 b0 b1 x0 x1, and the table has their
 *   coefficients c0 c1 four times. Pixels of three bytes are loaded in place by the same loads,
 *   with a different shuffle: sixteen bytes hold four of these pixels, too. Bytes loaded after the
 *   last one are ignored.
 * - down: the two rows of a pair are built together, and each 32 bits of the pair hold the level of
 *   the first row in the low word and that of the second in the high one.
 *
 * Outputs 8 g + j and 8 g + j + 4 share a register because packing the sums of j = 0 ... 3 down to
 * bytes then puts eight pixels in their natural order.
 *
 * Up to 64 taps the triangle has no negative coefficient (the largest is at least 2^14 / 64, and
 * the rounding remainder is at most 32), so no sum leaves 0 ... 255 * 2^14 and nothing must be
 * clamped; other filters clamp in the pass across (in the pass down, packing does it). Shapes with
 * more taps use the portable loops, and so do sources with fewer pixels than are loaded at once.
 *
 * There is no set for AVX-512: one that took two thirds of the time of these loops alone (vpermb,
 * vpdpwssd) made whole images 5 % slower, because the JPEG library's AVX2 code between them runs
 * slower on a processor that has just used its widest registers. */
#include "config.h"

#include "loader/image/resize/resize_kernels.h"

#ifdef __x86_64__

#include <string.h>

#include "common/util/util.h"
#include "loader/image/avx2.h"

enum { TAPS_MAX = 64, GROUP = 8 };

/* Offsets and coefficients of the resize across, in the order in which registers of two outputs
 * each use them. */
struct avx2_table {
    uint32_t outputs;   /* a multiple of GROUP; those beyond the width are ignored */
    uint32_t tap_pairs; /* per output: 1, or an even number */
    uint32_t *offset;   /* [outputs] in bytes: that of x, of x + 4, of x + 1, of x + 5 ... */
    __m256i *coef;      /* [outputs / 2][tap_pairs] */
};

static bool usable(void)
{
    return __builtin_cpu_supports("avx2");
}

static uint32_t tap_pairs_of(const struct resize_axis *across)
{
    return across->stride <= 2 ? 1 : (across->stride + 3) / 4 * 2;
}

static bool suits(const struct resize_axis *across, const struct resize_axis *down)
{
    return across->stride <= TAPS_MAX && down->stride <= TAPS_MAX &&
           across->end - across->begin >= 2 * tap_pairs_of(across);
}

static uint32_t outputs_of(uint32_t width)
{
    return (uint32_t)align_up(width, GROUP);
}

static size_t offset_bytes(uint32_t outputs)
{
    return align_up(outputs * sizeof(uint32_t), sizeof(__m256i));
}

static size_t table_bytes(const struct resize_axis *across)
{
    uint32_t outputs = outputs_of(across->count);

    return align_up(sizeof(struct avx2_table), sizeof(__m256i)) + offset_bytes(outputs) +
           (size_t)outputs / 2 * tap_pairs_of(across) * sizeof(__m256i);
}

static size_t pair_bytes(uint32_t width)
{
    return (size_t)outputs_of(width) * 4 * sizeof(uint32_t);
}

/* Spread the coefficients of one output to half a register for each pair of taps. */
AVX2_INLINE void spread(const int16_t *coef, uint32_t tap_pairs, __m128i *to)
{
    for (uint32_t k = 0; k < tap_pairs; k++) {
        int32_t two;

        memcpy(&two, coef + 2 * k, sizeof(two));
        to[2 * k] = _mm_set1_epi32(two);
    }
}

AVX2 static void prepare(const struct resize_axis *axis, void *memory)
{
    struct avx2_table *t = memory;
    uint32_t width = axis->end - axis->begin, last = axis->count - 1;
    uint8_t *room = (uint8_t *)memory + align_up(sizeof(*t), sizeof(__m256i));

    t->outputs = outputs_of(axis->count);
    t->tap_pairs = tap_pairs_of(axis);
    t->offset = (uint32_t *)room;
    t->coef = (__m256i *)(room + offset_bytes(t->outputs));
    for (uint32_t i = 0; i < t->outputs; i++) {
        uint32_t x = i / GROUP * GROUP + i % 2 * 4 + i % GROUP / 2, from = x < last ? x : last;
        uint32_t first = axis->first[from], latest = width - 2 * t->tap_pairs;
        uint32_t lead = first > latest ? first - latest : 0;
        const int16_t *coef = axis->coef + (size_t)from * axis->stride;
        int16_t padded[TAPS_MAX] = {0};

        /* So that loads stay within the row, begin earlier, with coefficients of 0. */
        for (uint32_t k = 0; k < axis->taps[from]; k++)
            padded[lead + k] = coef[k];
        t->offset[i] = (first - lead) * axis->pixel;
        spread(padded, t->tap_pairs, (__m128i *)(t->coef + i / 2 * t->tap_pairs) + i % 2);
    }
}

AVX2_INLINE __m256i load_halves(const uint8_t *low, const uint8_t *high)
{
    __m128i a = _mm_loadu_si128((const __m128i *)low), b = _mm_loadu_si128((const __m128i *)high);

    return _mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1);
}

/* Load two groups of 8 bytes, each twice into its half. */
AVX2_INLINE __m256i load_quarters(const uint8_t *low, const uint8_t *high)
{
    long long a, b;

    memcpy(&a, low, sizeof(a));
    memcpy(&b, high, sizeof(b));
    return _mm256_blend_epi32(_mm256_set1_epi64x(a), _mm256_set1_epi64x(b), 0xF0);
}

/* Returns, in each half, the words of pixels 0 and 1, channel by channel. */
AVX2_INLINE __m256i words_01(__m256i pixels)
{
    return _mm256_shuffle_epi8(pixels, _mm256_setr_epi8(0, -1, 4, -1, 1, -1, 5, -1, 2, -1, 6, -1, 3,
                                                        -1, 7, -1, 0, -1, 4, -1, 1, -1, 5, -1, 2,
                                                        -1, 6, -1, 3, -1, 7, -1));
}

AVX2_INLINE __m256i words_23(__m256i pixels)
{
    return _mm256_shuffle_epi8(pixels, _mm256_setr_epi8(8, -1, 12, -1, 9, -1, 13, -1, 10, -1, 14,
                                                        -1, 11, -1, 15, -1, 8, -1, 12, -1, 9, -1,
                                                        13, -1, 10, -1, 14, -1, 11, -1, 15, -1));
}

/* Like words_01() and words_23(), for pixels of three bytes. */
AVX2_INLINE __m256i rgb_words_01(__m256i pixels)
{
    return _mm256_shuffle_epi8(pixels, _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1,
                                                        -1, -1, -1, -1, 0, -1, 3, -1, 1, -1, 4, -1,
                                                        2, -1, 5, -1, -1, -1, -1, -1));
}

AVX2_INLINE __m256i rgb_words_23(__m256i pixels)
{
    return _mm256_shuffle_epi8(pixels, _mm256_setr_epi8(6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1,
                                                        -1, -1, -1, -1, 6, -1, 9, -1, 7, -1, 10, -1,
                                                        8, -1, 11, -1, -1, -1, -1, -1));
}

/* Returns the sums of two outputs of one row, with the half for rounding added. */
AVX2_INLINE __m256i sum_two_taps(const uint8_t *row, const uint32_t *offset, const __m256i *coef,
                                 bool rgb)
{
    __m256i pixels = load_quarters(row + offset[0], row + offset[1]);
    __m256i words = rgb ? rgb_words_01(pixels) : words_01(pixels);

    return _mm256_add_epi32(_mm256_madd_epi16(words, coef[0]), _mm256_set1_epi32(RESIZE_HALF));
}

AVX2_INLINE __m256i sum_four_taps(__m256i sum, const uint8_t *low, const uint8_t *high,
                                  const __m256i *coef, bool rgb)
{
    __m256i pixels = load_halves(low, high);
    __m256i words = rgb ? rgb_words_01(pixels) : words_01(pixels);
    __m256i more = rgb ? rgb_words_23(pixels) : words_23(pixels);

    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(words, coef[0]));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(more, coef[1]));
}

AVX2_INLINE __m256i sum_taps(const uint8_t *row, const uint32_t *offset, const __m256i *coef,
                             uint32_t tap_pairs, bool rgb)
{
    uint32_t step = rgb ? 6 : 8; /* bytes of two pixels */
    __m256i sum = _mm256_set1_epi32(RESIZE_HALF);

    if (tap_pairs == 1)
        return sum_two_taps(row, offset, coef, rgb);
    for (uint32_t k = 0; k < tap_pairs; k += 2)
        sum = sum_four_taps(sum, row + offset[0] + step * k, row + offset[1] + step * k, coef + k,
                            rgb);
    return sum;
}

/* Clamp the words of a pair to the range of a byte. */
AVX2_INLINE __m256i clamp_words(__m256i pair)
{
    return _mm256_max_epi16(_mm256_min_epi16(pair, _mm256_set1_epi16(255)), _mm256_setzero_si256());
}

AVX2_INLINE void across_taps(const struct avx2_table *t, const uint8_t *row, const uint8_t *next,
                             __m256i *out, uint32_t tap_pairs, bool clamp, bool rgb)
{
    const uint32_t *offset = t->offset;
    const __m256i *coef = t->coef;

    for (uint32_t i = 0; i < t->outputs; i += 2, offset += 2, coef += tap_pairs, out++) {
        __m256i a = sum_taps(row, offset, coef, tap_pairs, rgb);
        __m256i b = sum_taps(next, offset, coef, tap_pairs, rgb);

        /* A sum's whole part begins at bit 14, and fits into a word. */
        a = _mm256_srli_epi32(a, RESIZE_BITS);
        b = _mm256_slli_epi32(b, 16 - RESIZE_BITS);
        a = _mm256_blend_epi16(a, b, 0xAA);
        _mm256_store_si256(out, clamp ? clamp_words(a) : a);
    }
}

AVX2_INLINE void across_any(const struct avx2_table *t, const uint8_t *row, const uint8_t *next,
                            __m256i *out, bool clamp, bool rgb)
{
    switch (t->tap_pairs) {
    case 1:
        across_taps(t, row, next, out, 1, clamp, rgb);
        break;
    case 2:
        across_taps(t, row, next, out, 2, clamp, rgb);
        break;
    case 4:
        across_taps(t, row, next, out, 4, clamp, rgb);
        break;
    default:
        across_taps(t, row, next, out, t->tap_pairs, clamp, rgb);
        break;
    }
}

AVX2 static void across(const struct resize_axis *axis, const void *table, const uint8_t *row,
                        const uint8_t *next, void *pair)
{
    bool rgb = axis->pixel == 3;

    if (axis->negative && rgb)
        across_any(table, row, next, pair, true, true);
    else if (axis->negative)
        across_any(table, row, next, pair, true, false);
    else if (rgb)
        across_any(table, row, next, pair, false, true);
    else
        across_any(table, row, next, pair, false, false);
}

/* Returns eight finished pixels of four bytes. */
AVX2_INLINE __m256i down_group(const struct resize_line *line, size_t group, uint32_t pairs)
{
    const __m256i half = _mm256_set1_epi32(RESIZE_HALF);
    __m256i s0 = half, s1 = half, s2 = half, s3 = half;

    for (uint32_t k = 0; k < pairs; k++) {
        const __m256i *p = (const __m256i *)line->pairs[k] + 4 * group;
        int32_t two;
        __m256i c;

        memcpy(&two, line->coef + 2 * k, sizeof(two));
        c = _mm256_set1_epi32(two);
        s0 = _mm256_add_epi32(s0, _mm256_madd_epi16(p[0], c));
        s1 = _mm256_add_epi32(s1, _mm256_madd_epi16(p[1], c));
        s2 = _mm256_add_epi32(s2, _mm256_madd_epi16(p[2], c));
        s3 = _mm256_add_epi32(s3, _mm256_madd_epi16(p[3], c));
    }
    s0 = _mm256_packs_epi32(_mm256_srai_epi32(s0, RESIZE_BITS), _mm256_srai_epi32(s1, RESIZE_BITS));
    s2 = _mm256_packs_epi32(_mm256_srai_epi32(s2, RESIZE_BITS), _mm256_srai_epi32(s3, RESIZE_BITS));
    return _mm256_packus_epi16(s0, s2);
}

enum avx2_form { PIXELS_3, PIXELS_4, PLANES };

/* Store eight pixels, which are final except for their order. */
AVX2_INLINE void store_group(uint8_t *out, __m256i pixels, enum avx2_form form,
                             const struct resize_store *s)
{
    __m128i low, high;

    if (form == PIXELS_4) {
        _mm256_storeu_si256((__m256i *)out, pixels);
        return;
    }
    if (form == PIXELS_3) {
        pixels = _mm256_shuffle_epi8(
            pixels, _mm256_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1, 0, 1,
                                     2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1));
        pixels = _mm256_permutevar8x32_epi32(pixels, _mm256_setr_epi32(0, 1, 2, 4, 5, 6, 7, 7));
        _mm_storeu_si128((__m128i *)out, _mm256_castsi256_si128(pixels));
        _mm_storel_epi64((__m128i *)(out + 16), _mm256_extracti128_si256(pixels, 1));
        return;
    }
    pixels = _mm256_shuffle_epi8(pixels, _mm256_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3,
                                                          7, 11, 15, 0, 4, 8, 12, 1, 5, 9, 13, 2, 6,
                                                          10, 14, 3, 7, 11, 15));
    pixels = _mm256_permutevar8x32_epi32(pixels, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    low = _mm256_castsi256_si128(pixels);
    high = _mm256_extracti128_si256(pixels, 1);
    _mm_storel_epi64((__m128i *)out, low);
    _mm_storel_epi64((__m128i *)(out + s->plane), _mm_unpackhi_epi64(low, low));
    _mm_storel_epi64((__m128i *)(out + 2 * s->plane), high);
    if (s->fourth)
        _mm_storel_epi64((__m128i *)(out + 3 * s->plane), _mm_unpackhi_epi64(high, high));
}

AVX2_INLINE void down_form(const struct resize_line *line, uint32_t pairs, enum avx2_form form)
{
    const struct resize_store *s = line->store;
    __m256i flip = _mm256_set1_epi32(s->flip * 0x010101);
    __m256i keep = _mm256_set1_epi32(s->fourth ? 0x00FFFFFF : -1);
    __m256i zero = _mm256_set1_epi32(s->fourth ? (int)((uint32_t)s->zero << 24) : 0);
    size_t step = form == PIXELS_3 ? 24 : form == PIXELS_4 ? 32 : 8;
    uint32_t groups = line->width / GROUP, rest = line->width % GROUP;
    uint8_t *out = line->out;

    for (uint32_t g = 0; g < groups; g++, out += step) {
        __m256i pixels = _mm256_xor_si256(down_group(line, g, pairs), flip);

        if (form != PIXELS_3)
            pixels = _mm256_or_si256(_mm256_and_si256(pixels, keep), zero);
        store_group(out, pixels, form, s);
    }
    if (rest > 0) {
        uint8_t pixels[4 * GROUP];

        _mm256_storeu_si256((__m256i *)pixels, down_group(line, groups, pairs));
        resize_store_pixels(line, groups * GROUP, rest, pixels);
    }
}

AVX2_INLINE void down_pairs(const struct resize_line *line, uint32_t pairs)
{
    if (line->store->planes)
        down_form(line, pairs, PLANES);
    else if (line->store->fourth)
        down_form(line, pairs, PIXELS_4);
    else
        down_form(line, pairs, PIXELS_3);
}

AVX2 static void down(const struct resize_line *line)
{
    switch (line->pairs_count) {
    case 1:
        down_pairs(line, 1);
        break;
    case 2:
        down_pairs(line, 2);
        break;
    case 3:
        down_pairs(line, 3);
        break;
    default:
        down_pairs(line, line->pairs_count);
        break;
    }
}

const struct resize_kernels resize_avx2 = {
    .name = "avx2",
    .takes_rgb = true,
    .usable = usable,
    .suits = suits,
    .table_bytes = table_bytes,
    .pair_bytes = pair_bytes,
    .prepare = prepare,
    .across = across,
    .down = down,
};

#endif
