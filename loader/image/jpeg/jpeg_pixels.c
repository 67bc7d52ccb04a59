/* SPDX-License-Identifier: MIT */
/* jpeg_pixels.c - the loops of our JPEG decoder in plain C.
 *
 * The inverse DCT is the accurate one of Loeffler, Ligtenberg and Moschytz (ICASSP 1989), which has
 * 11 multiplications (12 in the form of rotations that is used here). Constants have 13 bits, two
 * more bits are kept between the passes, and columns come first. This is the usual meaning of
 * "accurate", and each rounding is part of it. */
#include "config.h"

#include "loader/image/jpeg/jpeg_idct.h"
#include "loader/image/jpeg/jpeg_pixels.h"

#include <string.h>

const struct jpeg_kernels *const jpeg_kernels[] = {
#ifdef __x86_64__
    &jpeg_avx2,
#endif
#ifdef __aarch64__
    &jpeg_neon,
#endif
    &jpeg_portable,
    NULL,
};

enum { CONST_BITS = 13, BETWEEN_BITS = 2, DOWN_1 = CONST_BITS - BETWEEN_BITS };
enum { DOWN_2 = CONST_BITS + BETWEEN_BITS + 3 };

static int16_t wrap(int32_t x)
{
    return (int16_t)(uint16_t)x;
}

static int32_t descale(int32_t x, uint32_t bits)
{
    return (x + (1 << (bits - 1))) >> bits;
}

static int16_t clamp16(int32_t x)
{
    return (int16_t)(x < INT16_MIN ? INT16_MIN : x > INT16_MAX ? INT16_MAX : x);
}

/* Transform eight numbers that are `step` apart, without descaling the results. */
static void transform(const int16_t *in, uint32_t step, int32_t out[8])
{
    int32_t in1 = in[step], in2 = in[2 * step], in3 = in[3 * step];
    int32_t in5 = in[5 * step], in6 = in[6 * step], in7 = in[7 * step];
    int32_t sum04 = wrap(in[0] + in[4 * step]), diff04 = wrap(in[0] - in[4 * step]);
    int32_t sum37 = wrap(in3 + in7), sum15 = wrap(in1 + in5);
    int32_t even2 = in2 * F_0_541 - in6 * (F_1_847 - F_0_541);
    int32_t even3 = in2 * (F_0_541 + F_0_765) + in6 * F_0_541;
    int32_t e0 = sum04 * (1 << CONST_BITS) + even3, e3 = sum04 * (1 << CONST_BITS) - even3;
    int32_t e1 = diff04 * (1 << CONST_BITS) + even2, e2 = diff04 * (1 << CONST_BITS) - even2;
    int32_t z3 = sum37 * (F_1_175 - F_1_961) + sum15 * F_1_175;
    int32_t z4 = sum37 * F_1_175 + sum15 * (F_1_175 - F_0_390);
    int32_t o0 = in7 * (F_0_298 - F_0_899) - in1 * F_0_899 + z3;
    int32_t o3 = in1 * (F_1_501 - F_0_899) - in7 * F_0_899 + z4;
    int32_t o1 = in5 * (F_2_053 - F_2_562) - in3 * F_2_562 + z4;
    int32_t o2 = in3 * (F_3_072 - F_2_562) - in5 * F_2_562 + z3;

    out[0] = e0 + o3;
    out[7] = e0 - o3;
    out[1] = e1 + o2;
    out[6] = e1 - o2;
    out[2] = e2 + o1;
    out[5] = e2 - o1;
    out[3] = e3 + o0;
    out[4] = e3 - o0;
}

static uint8_t sample_of(int32_t x)
{
    x = descale(x, DOWN_2);
    return (uint8_t)((x < -128 ? -128 : x > 127 ? 127 : x) + 128);
}

static void idct_block(const struct jpeg_block *b)
{
    int16_t work[64];
    int32_t sums[8];

    for (uint32_t i = 0; i < 64; i++)
        work[i] = wrap((int32_t)b->coef[i] * b->quant[i]);
    for (uint32_t x = 0; x < 8; x++) {
        transform(work + x, 8, sums);
        for (uint32_t y = 0; y < 8; y++)
            work[8 * y + x] = clamp16(descale(sums[y], DOWN_1));
    }
    for (uint32_t y = 0; y < 8; y++) {
        transform(work + 8 * y, 1, sums);
        for (uint32_t x = 0; x < 8; x++)
            b->to[y * b->pitch + x] = sample_of(sums[x]);
    }
}

static void idct(const struct jpeg_block *blocks, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        idct_block(&blocks[i]);
}

void jpeg_idct_row(const struct jpeg_block *b)
{
    int16_t work[8];
    int32_t sums[8];
    uint8_t row[8];

    for (uint32_t x = 0; x < 8; x++)
        work[x] = wrap(wrap((int32_t)b->coef[x] * b->quant[x]) * (1 << BETWEEN_BITS));
    transform(work, 1, sums);
    for (uint32_t x = 0; x < 8; x++)
        row[x] = sample_of(sums[x]);
    for (uint32_t y = 0; y < 8; y++)
        memcpy(b->to + y * b->pitch, row, 8);
}

static void h2v1(const uint8_t *in, uint32_t count, uint8_t *out)
{
    for (uint32_t i = 0; i < count; i++, in++) {
        out[2 * i] = (uint8_t)((3 * in[0] + in[-1] + 1) >> 2);
        out[2 * i + 1] = (uint8_t)((3 * in[0] + in[1] + 2) >> 2);
    }
}

static void h2v2(const uint8_t *near, const uint8_t *far, uint32_t count, uint8_t *out)
{
    for (uint32_t i = 0; i < count; i++, near++, far++) {
        int32_t before = 3 * near[-1] + far[-1], here = 3 * near[0] + far[0];
        int32_t behind = 3 * near[1] + far[1];

        out[2 * i] = (uint8_t)((3 * here + before + 8) >> 4);
        out[2 * i + 1] = (uint8_t)((3 * here + behind + 7) >> 4);
    }
}

static void h1v2(const uint8_t *near, const uint8_t *far, uint32_t bias, uint32_t count,
                 uint8_t *out)
{
    for (uint32_t i = 0; i < count; i++)
        out[i] = (uint8_t)((3U * near[i] + far[i] + bias) >> 2);
}

static uint8_t clamp8(int32_t x)
{
    return (uint8_t)(x < 0 ? 0 : x > 255 ? 255 : x);
}

/* Convert YCbCr to RGB by JFIF's equations, with constants of 16 bits. The terms of red and blue
 * are rounded separately, those of green together. */
static void ycc(const uint8_t *const *planes, uint32_t count, uint8_t *out)
{
    for (uint32_t i = 0; i < count; i++, out += 4) {
        int32_t y = planes[0][i], cb = planes[1][i] - 128, cr = planes[2][i] - 128;

        out[0] = clamp8(y + ((91881 * cr + 32768) >> 16));
        out[1] = clamp8(y + ((-22554 * cb - 46802 * cr + 32768) >> 16));
        out[2] = clamp8(y + ((116130 * cb + 32768) >> 16));
        out[3] = 255;
    }
}

static void rgb(const uint8_t *const *planes, uint32_t count, uint8_t *out)
{
    for (uint32_t i = 0; i < count; i++, out += 4) {
        out[0] = planes[0][i];
        out[1] = planes[1][i];
        out[2] = planes[2][i];
        out[3] = 255;
    }
}

static void grey(const uint8_t *const *planes, uint32_t count, uint8_t *out)
{
    const uint8_t *same[3] = {planes[0], planes[0], planes[0]};

    rgb(same, count, out);
}

static bool usable(void)
{
    return true;
}

const struct jpeg_kernels jpeg_portable = {
    .name = "portable",
    .usable = usable,
    .fill = jpeg_huff_fill,
    .idct = idct,
    .h2v1 = h2v1,
    .h2v2 = h2v2,
    .h1v2 = h1v2,
    .ycc = ycc,
    .rgb = rgb,
    .grey = grey,
};
