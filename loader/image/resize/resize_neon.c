/* SPDX-License-Identifier: MIT */
/* resize_neon.c - the resize loops for 64-bit Arm processors, all of which have NEON.
 *
 * A pair is two rows of [outputs][4] words, one after the other. The words are whole levels, so
 * `down` need not widen them. A lane is a channel, both across and down, and a coefficient is
 * multiplied by one lane of a register of four: only the bytes to be stored must be reordered.
 *
 * Up to 64 taps the triangle has no negative coefficient (resize_avx2.c explains why): sums stay
 * within 0 ... 255 * 2^14, and nothing must be clamped. Other filters clamp in both passes. */
#include "config.h"

#include "loader/image/resize/resize_kernels.h"

#ifdef __aarch64__

/* Short loops of fixed length work on registers, so they must be unrolled, which gcc does only at
 * -O3. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#include <arm_neon.h>
#include <string.h>

#include "common/util/util.h"

#define NEON_INLINE static inline __attribute__((always_inline))

enum { TAPS_MAX = 64, GROUP = 8 };

/* The horizontal table: where the taps of each output begin, and their coefficients. */
struct neon_table {
    uint32_t outputs;
    uint32_t taps;    /* per output: 2, or a multiple of 4 */
    uint32_t *offset; /* [outputs] in bytes */
    int16_t *coef;    /* [outputs][taps], and two more, because they are loaded by fours */
};

static bool usable(void)
{
    return true;
}

static uint32_t taps_of(const struct resize_axis *across)
{
    return across->stride <= 2 ? 2 : (uint32_t)align_up(across->stride, 4);
}

static bool suits(const struct resize_axis *across, const struct resize_axis *down)
{
    return across->stride <= TAPS_MAX && down->stride <= TAPS_MAX &&
           across->end - across->begin >= taps_of(across);
}

static size_t offset_bytes(uint32_t outputs)
{
    return align_up(outputs * sizeof(uint32_t), 16);
}

static size_t table_bytes(const struct resize_axis *across)
{
    return align_up(sizeof(struct neon_table), 16) + offset_bytes(across->count) +
           ((size_t)across->count * taps_of(across) + 2) * sizeof(int16_t);
}

static size_t pair_bytes(uint32_t width)
{
    return align_up(width, GROUP) * 2 * 4 * sizeof(uint16_t);
}

static void prepare(const struct resize_axis *axis, void *memory)
{
    struct neon_table *t = memory;
    uint32_t width = axis->end - axis->begin;
    uint8_t *room = (uint8_t *)memory + align_up(sizeof(*t), 16);

    t->outputs = axis->count;
    t->taps = taps_of(axis);
    t->offset = (uint32_t *)room;
    t->coef = (int16_t *)(room + offset_bytes(t->outputs));
    memset(t->coef, 0, ((size_t)t->outputs * t->taps + 2) * sizeof(int16_t));
    for (uint32_t i = 0; i < t->outputs; i++) {
        uint32_t first = axis->first[i], latest = width - t->taps;
        uint32_t lead = first > latest ? first - latest : 0;

        /* So that loads stay within the row, begin earlier, with coefficients of 0. */
        memcpy(t->coef + (size_t)i * t->taps + lead, axis->coef + (size_t)i * axis->stride,
               axis->taps[i] * sizeof(int16_t));
        t->offset[i] = (first - lead) * 4;
    }
}

/* Add two pixels, times the first two coefficients. */
NEON_INLINE int32x4_t sum_two(int32x4_t sum, const uint8_t *pixels, int16x4_t coef)
{
    int16x8_t p = vreinterpretq_s16_u16(vmovl_u8(vld1_u8(pixels)));

    sum = vmlal_lane_s16(sum, vget_low_s16(p), coef, 0);
    return vmlal_high_lane_s16(sum, p, coef, 1);
}

NEON_INLINE int32x4_t sum_four(int32x4_t sum, const uint8_t *pixels, int16x4_t coef)
{
    uint8x16_t bytes = vld1q_u8(pixels);
    int16x8_t p01 = vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(bytes)));
    int16x8_t p23 = vreinterpretq_s16_u16(vmovl_high_u8(bytes));

    sum = vmlal_lane_s16(sum, vget_low_s16(p01), coef, 0);
    sum = vmlal_high_lane_s16(sum, p01, coef, 1);
    sum = vmlal_lane_s16(sum, vget_low_s16(p23), coef, 2);
    return vmlal_high_lane_s16(sum, p23, coef, 3);
}

/* Clamp to 0 ... 255. Sums of such filters are below 2 * 255 * 2^14, so they fit a word after
 * shifting. */
NEON_INLINE int16x4_t clamp_levels(int16x4_t levels)
{
    return vmax_s16(vmin_s16(levels, vdup_n_s16(255)), vdup_n_s16(0));
}

NEON_INLINE void across_taps(const struct neon_table *t, const uint8_t *row, const uint8_t *next,
                             int16_t *out, uint32_t taps, bool clamp)
{
    size_t other = align_up(t->outputs, GROUP) * 4;
    const int16_t *coef = t->coef;

    for (uint32_t i = 0; i < t->outputs; i++, coef += taps, out += 4) {
        int32x4_t a = vdupq_n_s32(RESIZE_HALF), b = a;
        uint32_t at = t->offset[i];

        if (taps == 2) {
            int16x4_t c = vld1_s16(coef);

            a = sum_two(a, row + at, c);
            b = sum_two(b, next + at, c);
        }
        for (uint32_t k = 0; taps > 2 && k < taps; k += 4) {
            int16x4_t c = vld1_s16(coef + k);

            a = sum_four(a, row + at + 4 * k, c);
            b = sum_four(b, next + at + 4 * k, c);
        }
        vst1_s16(out,
                 clamp ? clamp_levels(vshrn_n_s32(a, RESIZE_BITS)) : vshrn_n_s32(a, RESIZE_BITS));
        vst1_s16(out + other,
                 clamp ? clamp_levels(vshrn_n_s32(b, RESIZE_BITS)) : vshrn_n_s32(b, RESIZE_BITS));
    }
}

NEON_INLINE void across_any(const struct neon_table *t, const uint8_t *row, const uint8_t *next,
                            int16_t *out, bool clamp)
{
    switch (t->taps) {
    case 2:
        across_taps(t, row, next, out, 2, clamp);
        break;
    case 4:
        across_taps(t, row, next, out, 4, clamp);
        break;
    case 8:
        across_taps(t, row, next, out, 8, clamp);
        break;
    default:
        across_taps(t, row, next, out, t->taps, clamp);
        break;
    }
}

static void across(const struct resize_axis *axis, const void *table, const uint8_t *row,
                   const uint8_t *next, void *pair)
{
    if (axis->negative)
        across_any(table, row, next, pair, true);
    else
        across_any(table, row, next, pair, false);
}

/* Add eight pixels of one row, times lane `lane` of the coefficients. */
#define ADD_ROW(sums, from, coef, lane)                                                    \
    do {                                                                                   \
        for (int j_ = 0; j_ < 4; j_++) {                                                   \
            int16x8_t p_ = vld1q_s16((from) + 8 * j_);                                     \
                                                                                           \
            (sums)[2 * j_] = vmlal_lane_s16((sums)[2 * j_], vget_low_s16(p_), coef, lane); \
            (sums)[2 * j_ + 1] = vmlal_high_lane_s16((sums)[2 * j_ + 1], p_, coef, lane);  \
        }                                                                                  \
    } while (0)

NEON_INLINE uint8x16_t four_pixels(const int32x4_t *sums)
{
    int16x8_t low = vshrn_high_n_s32(vshrn_n_s32(sums[0], RESIZE_BITS), sums[1], RESIZE_BITS);
    int16x8_t high = vshrn_high_n_s32(vshrn_n_s32(sums[2], RESIZE_BITS), sums[3], RESIZE_BITS);

    return vqmovun_high_s16(vqmovun_s16(low), high);
}

/* Returns eight finished pixels of four bytes. */
NEON_INLINE uint8x16x2_t down_group(const struct resize_line *line, size_t group, uint32_t pairs)
{
    size_t at = group * GROUP * 4, other = align_up(line->width, GROUP) * 4 + at;
    int32x4_t sums[8];

    for (uint32_t i = 0; i < 8; i++)
        sums[i] = vdupq_n_s32(RESIZE_HALF);
    for (uint32_t k = 0; k < pairs; k++) {
        const int16_t *pair = line->pairs[k];
        int16x4_t c;
        int32_t two;

        memcpy(&two, line->coef + 2 * k, sizeof(two));
        c = vreinterpret_s16_s32(vdup_n_s32(two));
        ADD_ROW(sums, pair + at, c, 0);
        ADD_ROW(sums, pair + other, c, 1);
    }
    return (uint8x16x2_t){{four_pixels(sums), four_pixels(sums + 4)}};
}

enum neon_form { PIXELS_3, PIXELS_4, PLANES };

/* The order in which the bytes of eight pixels of four bytes are stored: without the fourth, or
 * plane by plane. */
static const uint8_t three_of_four[24] = {0,  1,  2,  4,  5,  6,  8,  9,  10, 12, 13, 14,
                                          16, 17, 18, 20, 21, 22, 24, 25, 26, 28, 29, 30};
static const uint8_t by_planes[32] = {0, 4, 8,  12, 16, 20, 24, 28, 1, 5, 9,  13, 17, 21, 25, 29,
                                      2, 6, 10, 14, 18, 22, 26, 30, 3, 7, 11, 15, 19, 23, 27, 31};

/* Store eight finished pixels in the output's layout. */
NEON_INLINE void store_group(uint8_t *out, uint8x16x2_t pixels, enum neon_form form,
                             const struct resize_store *s)
{
    if (form == PIXELS_4) {
        vst1q_u8(out, pixels.val[0]);
        vst1q_u8(out + 16, pixels.val[1]);
    } else if (form == PIXELS_3) {
        vst1q_u8(out, vqtbl2q_u8(pixels, vld1q_u8(three_of_four)));
        vst1_u8(out + 16, vqtbl2_u8(pixels, vld1_u8(three_of_four + 16)));
    } else {
        uint8x16_t rg = vqtbl2q_u8(pixels, vld1q_u8(by_planes));
        uint8x16_t bx = vqtbl2q_u8(pixels, vld1q_u8(by_planes + 16));

        vst1_u8(out, vget_low_u8(rg));
        vst1_u8(out + s->plane, vget_high_u8(rg));
        vst1_u8(out + 2 * s->plane, vget_low_u8(bx));
        if (s->fourth)
            vst1_u8(out + 3 * s->plane, vget_high_u8(bx));
    }
}

NEON_INLINE void down_form(const struct resize_line *line, uint32_t pairs, enum neon_form form)
{
    const struct resize_store *s = line->store;
    uint8x16_t flip = vreinterpretq_u8_u32(vdupq_n_u32(s->flip * 0x010101U));
    uint8x16_t keep = vreinterpretq_u8_u32(vdupq_n_u32(s->fourth ? 0x00FFFFFF : UINT32_MAX));
    uint8x16_t zero = vreinterpretq_u8_u32(vdupq_n_u32(s->fourth ? (uint32_t)s->zero << 24 : 0));
    size_t step = form == PIXELS_3 ? 24 : form == PIXELS_4 ? 32 : 8;
    uint32_t groups = line->width / GROUP, rest = line->width % GROUP;
    uint8_t *out = line->out;

    for (uint32_t g = 0; g < groups; g++, out += step) {
        uint8x16x2_t pixels = down_group(line, g, pairs);

        for (uint32_t i = 0; i < 2; i++) {
            pixels.val[i] = veorq_u8(pixels.val[i], flip);
            if (form != PIXELS_3)
                pixels.val[i] = vorrq_u8(vandq_u8(pixels.val[i], keep), zero);
        }
        store_group(out, pixels, form, s);
    }
    if (rest > 0) {
        uint8x16x2_t last = down_group(line, groups, pairs);
        uint8_t pixels[4 * GROUP];

        vst1q_u8(pixels, last.val[0]);
        vst1q_u8(pixels + 16, last.val[1]);
        resize_store_pixels(line, groups * GROUP, rest, pixels);
    }
}

NEON_INLINE void down_pairs(const struct resize_line *line, uint32_t pairs)
{
    if (line->store->planes)
        down_form(line, pairs, PLANES);
    else if (line->store->fourth)
        down_form(line, pairs, PIXELS_4);
    else
        down_form(line, pairs, PIXELS_3);
}

static void down(const struct resize_line *line)
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

const struct resize_kernels resize_neon = {
    .name = "neon",
    .usable = usable,
    .suits = suits,
    .table_bytes = table_bytes,
    .pair_bytes = pair_bytes,
    .prepare = prepare,
    .across = across,
    .down = down,
};

#endif
