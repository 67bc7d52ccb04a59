/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/image/yuv.h"

__extension__ typedef __int128 i128;

/* Find the weights of red and blue in luma, in ten-thousandths (H.273, table 4). */
static bool find_luma(uint32_t matrix, int64_t *kr, int64_t *kb)
{
    switch (matrix) {
    case 1: /* BT.709 */
        *kr = 2126;
        *kb = 722;
        return true;
    case 4: /* FCC */
        *kr = 3000;
        *kb = 1100;
        return true;
    case 2: /* unspecified */
    case 5: /* BT.601, two numbers */
    case 6:
        *kr = 2990;
        *kb = 1140;
        return true;
    case 7: /* SMPTE 240M */
        *kr = 2120;
        *kb = 870;
        return true;
    case 9: /* BT.2020 */
        *kr = 2627;
        *kb = 593;
        return true;
    default:
        return false;
    }
}

/* 2^32 times n / d, rounded to nearest, halves away from 0. */
static int64_t fixed(int64_t n, int64_t d)
{
    i128 twice = ((i128)(n < 0 ? -n : n) * 2 << 32) / d;
    int64_t r = (int64_t)((twice + 1) / 2);

    return n < 0 ? -r : r;
}

bool yuv_find_rule(const struct yuv_image *image, struct yuv_rule *ret)
{
    enum { IDENTITY = 0, YCGCO = 8, ONE = 10000 };
    int64_t k = (int64_t)1 << (image->depth - 8), most = ((int64_t)1 << image->depth) - 1;
    int64_t range_y = image->full_range ? most : 219 * k;
    int64_t range_uv = 16 * (image->full_range ? most : 224 * k), kr, kb, kg;

    *ret = (struct yuv_rule){.zero_y = (int32_t)(image->full_range ? 0 : 16 * k),
                             .zero_uv = (int32_t)(128 * k)};
    for (int c = 0; c < 3; c++)
        ret->y[c] = fixed(255, range_y);
    if (image->mono)
        return true;
    if (image->matrix == IDENTITY) { /* the planes are G, B and R */
        if (image->half_x || image->half_y)
            return false;
        ret->zero_uv = ret->zero_y;
        ret->y[0] = ret->y[2] = 0;
        ret->v[0] = ret->u[2] = fixed(255, 16 * range_y);
        return true;
    }
    if (image->matrix == YCGCO && image->full_range) {
        ret->u[1] = ret->v[0] = fixed(255, range_uv);
        ret->u[0] = ret->u[2] = ret->v[2] = -ret->u[1];
        return true;
    }
    if (!find_luma(image->matrix, &kr, &kb))
        return false;
    kg = ONE - kr - kb;
    ret->v[0] = fixed(255 * 2 * (ONE - kr), ONE * range_uv);
    ret->u[2] = fixed(255 * 2 * (ONE - kb), ONE * range_uv);
    ret->v[1] = fixed(-255 * 2 * kr * (ONE - kr), ONE * kg * range_uv);
    ret->u[1] = fixed(-255 * 2 * kb * (ONE - kb), ONE * kg * range_uv);
    return true;
}

/* Add samples of two rows of a plane, starting at column `x`, with the weights of the rows, minus
 * `zero`. */
static void add_rows(const struct yuv_image *image, int plane, const uint32_t rows[2],
                     const int32_t times[2], uint32_t x, uint32_t count, int32_t zero,
                     int32_t *restrict ret)
{
    const uint8_t *a = image->planes[plane] + rows[0] * image->pitches[plane];
    const uint8_t *b = image->planes[plane] + rows[1] * image->pitches[plane];
    int32_t m = times[0], n = times[1];

    if (image->depth == 8) {
        for (uint32_t i = 0; i < count; i++)
            ret[i] = m * a[x + i] + n * b[x + i] - zero;
    } else {
        const uint16_t *wide_a = (const void *)a, *wide_b = (const void *)b;

        for (uint32_t i = 0; i < count; i++)
            ret[i] = m * wide_a[x + i] + n * wide_b[x + i] - zero;
    }
}

/* Compute the chroma of some pixels of a row, in sixteenths. If it is shared, a pixel takes 3/4 of
 * its own sample and 1/4 of its neighbour's on the other side (or of its own at the edge), in each
 * direction. `sums` and `ret` have room for width + 2 numbers. Returns where the pixels begin in
 * `ret`. */
static const int32_t *spread_chroma(const struct yuv_image *image, int plane, uint32_t y,
                                    uint32_t left, uint32_t width, int32_t zero, int32_t *sums,
                                    int32_t *restrict ret)
{
    static const int32_t times[2] = {3, 1};
    uint32_t rows[2] = {y, y}, columns = (image->width + 1) / 2, first, end;
    int32_t *s = sums + 1;

    if (image->half_y) {
        uint32_t last = (image->height + 1) / 2 - 1, below = y / 2 < last ? y / 2 + 1 : last;

        rows[0] = y / 2;
        rows[1] = y % 2 ? below : y > 0 ? y / 2 - 1 : 0;
    }
    if (!image->half_x) {
        add_rows(image, plane, rows, times, left, width, 4 * zero, sums);
        for (uint32_t i = 0; i < width; i++)
            ret[i] = 4 * sums[i];
        return ret;
    }
    first = left / 2; /* of the pixels' own samples */
    end = (left + width - 1) / 2 + 1;
    add_rows(image, plane, rows, times, first, end - first, 4 * zero, s);
    s[-1] = s[0];
    s[end - first] = s[end - first - 1];
    if (first > 0)
        add_rows(image, plane, rows, times, first - 1, 1, 4 * zero, s - 1);
    if (end < columns)
        add_rows(image, plane, rows, times, end, 1, 4 * zero, s + (end - first));
    for (uint32_t i = 0; i < end - first; i++) {
        ret[2 * i] = 3 * s[i] + s[(int64_t)i - 1];
        ret[2 * i + 1] = 3 * s[i] + s[i + 1];
    }
    return ret + left % 2;
}

static uint8_t level(int64_t x)
{
    x = (x + ((int64_t)1 << 31)) >> 32;
    return (uint8_t)(x < 0 ? 0 : x > 255 ? 255 : x);
}

void yuv_convert(const struct yuv_image *image, const struct yuv_rule *rule, uint32_t y,
                 uint32_t left, uint32_t width, int32_t *room, uint8_t *ret)
{
    static const int32_t once[2] = {1, 0};
    const struct yuv_rule r = *rule;
    const uint32_t rows[2] = {y, y};
    size_t each = (size_t)width + 2;
    int32_t *luma = room, *sums = luma + each;
    const int32_t *u, *v;

    add_rows(image, 0, rows, once, left, width, r.zero_y, luma);
    if (image->mono) {
        for (uint32_t i = 0; i < width; i++, ret += 4) {
            ret[0] = ret[1] = ret[2] = level(r.y[0] * luma[i]);
            ret[3] = 255;
        }
        return;
    }
    u = spread_chroma(image, 1, y, left, width, r.zero_uv, sums, sums + each);
    v = spread_chroma(image, 2, y, left, width, r.zero_uv, sums, sums + 2 * each);
    for (uint32_t i = 0; i < width; i++, ret += 4) {
        ret[0] = level(r.y[0] * luma[i] + r.u[0] * u[i] + r.v[0] * v[i]);
        ret[1] = level(r.y[1] * luma[i] + r.u[1] * u[i] + r.v[1] * v[i]);
        ret[2] = level(r.y[2] * luma[i] + r.u[2] * u[i] + r.v[2] * v[i]);
        ret[3] = 255;
    }
}
