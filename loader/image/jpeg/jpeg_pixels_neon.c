/* SPDX-License-Identifier: MIT */
/* jpeg_pixels_neon.c - the loops of our JPEG decoder for 64-bit Arm processors, all of which have
 * NEON.
 *
 * A register holds a row, or a column, of a block; see jpeg_pixels.c for the arithmetic. Sums wrap
 * and are clamped at the same points as in that file, so that all coefficients give equal results.
 * Colours: as in jpeg_pixels_avx2.c; vqdmulh computes its 2 * x * r >> 16, and rounding shifts do
 * the rest. */
#include "config.h"

#include "loader/image/jpeg/jpeg_idct.h"
#include "loader/image/jpeg/jpeg_pixels.h"

#ifdef __aarch64__

/* Short loops of fixed length work on registers, so they must be unrolled, which gcc does only at
 * -O3. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#include <arm_neon.h>

#define NEON_INLINE static inline __attribute__((always_inline))

/* Factors for the 16-bit values, in the lanes of registers: `even` and `z` take half a register
 * each, `odd` a whole one. */
static const int16_t even_factors[4] = {F_0_541, F_0_541 - F_1_847, F_0_541 + F_0_765, 0};
static const int16_t z_factors[4] = {F_1_175 - F_1_961, F_1_175, F_1_175 - F_0_390, 0};
static const int16_t odd_factors[8] = {F_0_298 - F_0_899,
                                       -F_0_899,
                                       F_1_501 - F_0_899,
                                       F_2_053 - F_2_562,
                                       -F_2_562,
                                       F_3_072 - F_2_562,
                                       0,
                                       0};

struct factors {
    int16x4_t even, z;
    int16x8_t odd;
};

static bool usable(void)
{
    return true;
}

/* The even and odd parts of four columns of a pass, as 32-bit sums: output i is even[i] + odd[i],
 * and output 7 - i is even[i] - odd[i]. One half of the columns is finished before the other, so
 * that everything stays in registers. */
struct half {
    int32x4_t even[4], odd[4];
};

/* The sums and differences of rows with which both halves begin. */
struct heads {
    int16x8_t sum04, diff04, sum37, sum15;
};

NEON_INLINE struct heads heads_of(const int16x8_t v[8])
{
    return (struct heads){vaddq_s16(v[0], v[4]), vsubq_s16(v[0], v[4]), vaddq_s16(v[3], v[7]),
                          vaddq_s16(v[1], v[5])};
}

#define HALF_PASS(part, name)                                                                     \
    NEON_INLINE struct half name(const int16x8_t v[8], const struct heads *s,                     \
                                 const struct factors *f)                                         \
    {                                                                                             \
        int16x4_t v1 = part(v[1]), v2 = part(v[2]), v3 = part(v[3]), v5 = part(v[5]);             \
        int16x4_t v6 = part(v[6]), v7 = part(v[7]), sum37 = part(s->sum37);                       \
        int16x4_t sum15 = part(s->sum15);                                                         \
        int32x4_t even2 = vmlal_lane_s16(vmull_lane_s16(v2, f->even, 0), v6, f->even, 1);         \
        int32x4_t even3 = vmlal_lane_s16(vmull_lane_s16(v2, f->even, 2), v6, f->even, 0);         \
        int32x4_t sum = vshll_n_s16(part(s->sum04), 13), diff = vshll_n_s16(part(s->diff04), 13); \
        int32x4_t z3 = vmlal_lane_s16(vmull_lane_s16(sum37, f->z, 0), sum15, f->z, 1);            \
        int32x4_t z4 = vmlal_lane_s16(vmull_lane_s16(sum37, f->z, 1), sum15, f->z, 2);            \
                                                                                                  \
        return (struct half){                                                                     \
            {vaddq_s32(sum, even3), vaddq_s32(diff, even2), vsubq_s32(diff, even2),               \
             vsubq_s32(sum, even3)},                                                              \
            {vmlal_laneq_s16(vmlal_laneq_s16(z4, v1, f->odd, 2), v7, f->odd, 1),                  \
             vmlal_laneq_s16(vmlal_laneq_s16(z3, v3, f->odd, 5), v5, f->odd, 4),                  \
             vmlal_laneq_s16(vmlal_laneq_s16(z4, v5, f->odd, 3), v3, f->odd, 4),                  \
             vmlal_laneq_s16(vmlal_laneq_s16(z3, v7, f->odd, 0), v1, f->odd, 1)}};                \
    }
HALF_PASS(vget_low_s16, low_half)
HALF_PASS(vget_high_s16, high_half)

/* Compute the first pass: round off 11 bits, and clamp to 16. */
NEON_INLINE void first_pass(int16x8_t v[8], const struct factors *f)
{
    const struct heads s = heads_of(v);
    struct half h = low_half(v, &s, f);
    int16x4_t low[8];

    for (uint32_t i = 0; i < 4; i++) {
        low[i] = vqrshrn_n_s32(vaddq_s32(h.even[i], h.odd[i]), 11);
        low[7 - i] = vqrshrn_n_s32(vsubq_s32(h.even[i], h.odd[i]), 11);
    }
    h = high_half(v, &s, f);
    for (uint32_t i = 0; i < 4; i++) {
        v[i] = vqrshrn_high_n_s32(low[i], vaddq_s32(h.even[i], h.odd[i]), 11);
        v[7 - i] = vqrshrn_high_n_s32(low[7 - i], vsubq_s32(h.even[i], h.odd[i]), 11);
    }
}

/* Compute the second pass. Sums are rounded by 18 bits at once: taking their upper halves removes
 * 16 of these, and the caller must still shift the result by 2 and clamp it to bytes. */
NEON_INLINE void second_pass(int16x8_t v[8], const struct factors *f)
{
    const int32x4_t round = vdupq_n_s32(1 << 17);
    const struct heads s = heads_of(v);
    struct half h = low_half(v, &s, f);
    int16x4_t low[8];

    for (uint32_t i = 0; i < 4; i++) {
        int32x4_t even = vaddq_s32(h.even[i], round);

        low[i] = vaddhn_s32(even, h.odd[i]);
        low[7 - i] = vsubhn_s32(even, h.odd[i]);
    }
    h = high_half(v, &s, f);
    for (uint32_t i = 0; i < 4; i++) {
        int32x4_t even = vaddq_s32(h.even[i], round);

        v[i] = vaddhn_high_s32(low[i], even, h.odd[i]);
        v[7 - i] = vsubhn_high_s32(low[7 - i], even, h.odd[i]);
    }
}

/* Transpose rows to columns. */
NEON_INLINE void transpose(int16x8_t v[8])
{
    int32x4_t a[8];
    int64x2_t b[8];

    for (uint32_t i = 0; i < 4; i++) {
        a[2 * i] = vreinterpretq_s32_s16(vtrn1q_s16(v[2 * i], v[2 * i + 1]));
        a[2 * i + 1] = vreinterpretq_s32_s16(vtrn2q_s16(v[2 * i], v[2 * i + 1]));
    }
    for (uint32_t i = 0; i < 8; i += 4)
        for (uint32_t k = 0; k < 2; k++) {
            b[i + k] = vreinterpretq_s64_s32(vtrn1q_s32(a[i + k], a[i + k + 2]));
            b[i + k + 2] = vreinterpretq_s64_s32(vtrn2q_s32(a[i + k], a[i + k + 2]));
        }
    for (uint32_t i = 0; i < 4; i++) {
        v[i] = vreinterpretq_s16_s64(vtrn1q_s64(b[i], b[i + 4]));
        v[i + 4] = vreinterpretq_s16_s64(vtrn2q_s64(b[i], b[i + 4]));
    }
}

NEON_INLINE int8x16_t two_columns(int16x8_t low, int16x8_t high)
{
    return vqshrn_high_n_s16(vqshrn_n_s16(low, 2), high, 2);
}

NEON_INLINE void store_two_rows(const struct jpeg_block *block, uint32_t row, uint32x4_t samples)
{
    uint8x16_t bytes = veorq_u8(vreinterpretq_u8_u32(samples), vdupq_n_u8(128));
    uint8_t *to = block->to + row * block->pitch;

    vst1_u8(to, vget_low_u8(bytes));
    vst1_u8(to + block->pitch, vget_high_u8(bytes));
}

/* Store columns as rows of bytes. */
NEON_INLINE void store(const struct jpeg_block *block, const int16x8_t v[8])
{
    int8x16_t c04 = two_columns(v[0], v[4]), c15 = two_columns(v[1], v[5]);
    int8x16_t c26 = two_columns(v[2], v[6]), c37 = two_columns(v[3], v[7]);
    uint16x8_t c01 = vreinterpretq_u16_s8(vzip1q_s8(c04, c15));
    uint16x8_t c45 = vreinterpretq_u16_s8(vzip2q_s8(c04, c15));
    uint16x8_t c23 = vreinterpretq_u16_s8(vzip1q_s8(c26, c37));
    uint16x8_t c67 = vreinterpretq_u16_s8(vzip2q_s8(c26, c37));
    uint32x4_t top_left = vreinterpretq_u32_u16(vzip1q_u16(c01, c23));
    uint32x4_t left = vreinterpretq_u32_u16(vzip2q_u16(c01, c23));
    uint32x4_t top_right = vreinterpretq_u32_u16(vzip1q_u16(c45, c67));
    uint32x4_t right = vreinterpretq_u32_u16(vzip2q_u16(c45, c67));

    store_two_rows(block, 0, vzip1q_u32(top_left, top_right));
    store_two_rows(block, 2, vzip2q_u32(top_left, top_right));
    store_two_rows(block, 4, vzip1q_u32(left, right));
    store_two_rows(block, 6, vzip2q_u32(left, right));
}

static void idct(const struct jpeg_block *blocks, uint32_t count)
{
    const struct factors f = {vld1_s16(even_factors), vld1_s16(z_factors), vld1q_s16(odd_factors)};

    for (uint32_t i = 0; i < count; i++) {
        const struct jpeg_block *b = &blocks[i];
        int16x8_t v[8];

        for (uint32_t k = 0; k < 8; k++)
            v[k] = vmulq_s16(vld1q_s16(b->coef + 8 * k), vld1q_s16(b->quant + 8 * k));
        first_pass(v, &f);
        transpose(v);
        second_pass(v, &f);
        store(b, v);
    }
}

static void h2v1(const uint8_t *in, uint32_t count, uint8_t *out)
{
    const uint8x8_t three = vdup_n_u8(3);
    const uint16x8_t one = vdupq_n_u16(1);

    for (uint32_t i = 0; i < count; i += 8, in += 8, out += 16) {
        uint8x8_t here = vld1_u8(in);
        uint16x8_t before = vmlal_u8(vmovl_u8(vld1_u8(in - 1)), here, three);
        uint16x8_t behind = vmlal_u8(vmovl_u8(vld1_u8(in + 1)), here, three);

        vst2_u8(out,
                ((uint8x8x2_t){{vshrn_n_u16(vaddq_u16(before, one), 2), vrshrn_n_u16(behind, 2)}}));
    }
}

/* Returns 3 * near + far for eight samples: 4 times the samples between two rows. */
NEON_INLINE uint16x8_t mix_rows(const uint8_t *near, const uint8_t *far)
{
    return vmlal_u8(vmovl_u8(vld1_u8(far)), vld1_u8(near), vdup_n_u8(3));
}

static void h2v2(const uint8_t *near, const uint8_t *far, uint32_t count, uint8_t *out)
{
    const uint16x8_t seven = vdupq_n_u16(7);

    for (uint32_t i = 0; i < count; i += 8, near += 8, far += 8, out += 16) {
        uint16x8_t here = vmulq_n_u16(mix_rows(near, far), 3);
        uint16x8_t even = vaddq_u16(here, mix_rows(near - 1, far - 1));
        uint16x8_t odd = vaddq_u16(here, mix_rows(near + 1, far + 1));

        vst2_u8(out,
                ((uint8x8x2_t){{vrshrn_n_u16(even, 4), vshrn_n_u16(vaddq_u16(odd, seven), 4)}}));
    }
}

static void h1v2(const uint8_t *near, const uint8_t *far, uint32_t bias, uint32_t count,
                 uint8_t *out)
{
    const uint16x8_t round = vdupq_n_u16((uint16_t)bias);

    for (uint32_t i = 0; i < count; i += 8)
        vst1_u8(out + i, vshrn_n_u16(vaddq_u16(mix_rows(near + i, far + i), round), 2));
}

NEON_INLINE int16x8_t widen(const uint8_t *samples)
{
    return vreinterpretq_s16_u16(vmovl_u8(vld1_u8(samples)));
}

/* Returns x * c / 2^16, rounded: see jpeg_pixels_avx2.c. */
NEON_INLINE int16x8_t times(int16x8_t x, int16_t c)
{
    return vrshrq_n_s16(vqdmulhq_n_s16(x, c), 1);
}

NEON_INLINE int32x4_t green_of(int16x4_t cb, int16x4_t cr)
{
    return vmlal_n_s16(vmull_n_s16(cb, -22554), cr, 65536 - 46802);
}

static void ycc(const uint8_t *const *planes, uint32_t count, uint8_t *out)
{
    const int16x8_t middle = vdupq_n_s16(128);
    const uint8x8_t opaque = vdup_n_u8(255);

    for (uint32_t i = 0; i < count; i += 8, out += 32) {
        int16x8_t y = widen(planes[0] + i);
        int16x8_t cb = vsubq_s16(widen(planes[1] + i), middle);
        int16x8_t cr = vsubq_s16(widen(planes[2] + i), middle);
        int32x4_t low = green_of(vget_low_s16(cb), vget_low_s16(cr));
        int32x4_t high = green_of(vget_high_s16(cb), vget_high_s16(cr));
        int16x8_t green = vrshrn_high_n_s32(vrshrn_n_s32(low, 16), high, 16);
        int16x8_t r = vaddq_s16(vaddq_s16(y, cr), times(cr, 91881 - 65536));
        int16x8_t g = vaddq_s16(vsubq_s16(y, cr), green);
        int16x8_t b = vaddq_s16(vaddq_s16(y, vaddq_s16(cb, cb)), times(cb, 116130 - 131072));

        vst4_u8(out, ((uint8x8x4_t){{vqmovun_s16(r), vqmovun_s16(g), vqmovun_s16(b), opaque}}));
    }
}

static void rgb(const uint8_t *const *planes, uint32_t count, uint8_t *out)
{
    const uint8x16_t opaque = vdupq_n_u8(255);

    for (uint32_t i = 0; i < count; i += 16, out += 64)
        vst4q_u8(out, ((uint8x16x4_t){{vld1q_u8(planes[0] + i), vld1q_u8(planes[1] + i),
                                       vld1q_u8(planes[2] + i), opaque}}));
}

static void grey(const uint8_t *const *planes, uint32_t count, uint8_t *out)
{
    const uint8_t *const same[3] = {planes[0], planes[0], planes[0]};

    rgb(same, count, out);
}

const struct jpeg_kernels jpeg_neon = {
    .name = "neon",
    .usable = usable,
    .fill = jpeg_huff_fill_neon,
    .idct = idct,
    .h2v1 = h2v1,
    .h2v2 = h2v2,
    .h1v2 = h1v2,
    .ycc = ycc,
    .rgb = rgb,
    .grey = grey,
};

#endif
