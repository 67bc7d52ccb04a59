/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/image/avif/yuv.h"

#include <assert.h>

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
    case 5: /* BT.601, which has two numbers (5 and 6) */
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

/* Returns 2^32 times n / d, rounded to nearest, halves away from 0. */
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

/* Two rows of a plane, and the constants to add their samples: m * a + n * b - zero. */
struct sum {
    const uint8_t *a, *b;
    int32_t m, n, zero;
    bool wide; /* samples have 16 bits */
};

static struct sum sum_of(const struct yuv_image *image, int plane, uint32_t a, uint32_t b)
{
    return (struct sum){
        .a = image->planes[plane] + a * image->pitches[plane],
        .b = image->planes[plane] + b * image->pitches[plane],
        .wide = image->depth > 8,
    };
}

/* Add `count` samples of both rows, starting at column `x`. */
static void add_rows(const struct sum *s, uint32_t x, uint32_t count, int32_t *restrict ret)
{
    const uint8_t *a = s->a, *b = s->b;
    const int32_t m = s->m, n = s->n, zero = s->zero;

    if (!s->wide) {
        for (uint32_t i = 0; i < count; i++)
            ret[i] = m * a[x + i] + n * b[x + i] - zero;
    } else {
        const uint16_t *wide_a = (const void *)a, *wide_b = (const void *)b;

        for (uint32_t i = 0; i < count; i++)
            ret[i] = m * wide_a[x + i] + n * wide_b[x + i] - zero;
    }
}

/* Returns the rows of chroma for a row of pixels: 3/4 of its own row and 1/4 of its neighbour. */
static struct sum chroma_rows(const struct yuv_image *image, int plane, uint32_t y, int32_t zero)
{
    uint32_t own = y, other = y;
    struct sum sum;

    if (image->half_y) {
        uint32_t last = (image->height + 1) / 2 - 1, below = y / 2 < last ? y / 2 + 1 : last;

        own = y / 2;
        other = y % 2 ? below : y > 0 ? y / 2 - 1 : 0;
        assert(own <= last && other <= last);
    }
    sum = sum_of(image, plane, own, other);
    sum.m = 3;
    sum.n = 1;
    sum.zero = 4 * zero;
    return sum;
}

/* Compute the chroma of some pixels of a row, in sixteenths. In a direction in which pixels share
 * samples, a pixel takes 3/4 of its own sample and 1/4 of the sample next to it (at the edge, of
 * its own). `sums` and `ret` have room for width + 2 numbers. Returns where the pixels begin in
 * `ret`. */
static const int32_t *spread_chroma(const struct yuv_image *image, const struct sum *rows,
                                    struct yuv_run run, int32_t *sums, int32_t *restrict ret)
{
    uint32_t columns = (image->width + 1) / 2, first, end;
    int32_t *s = sums + 1;

    if (!image->half_x) {
        add_rows(rows, run.left, run.width, sums);
        for (uint32_t i = 0; i < run.width; i++)
            ret[i] = 4 * sums[i];
        return ret;
    }
    first = run.left / 2; /* the pixels' own samples begin here */
    end = (run.left + run.width - 1) / 2 + 1;
    assert(first < end && end <= columns);
    add_rows(rows, first, end - first, s);
    s[-1] = s[0];
    s[end - first] = s[end - first - 1];
    if (first > 0)
        add_rows(rows, first - 1, 1, s - 1);
    if (end < columns)
        add_rows(rows, end, 1, s + (end - first));
    for (uint32_t i = 0; i < end - first; i++) {
        ret[2 * i] = 3 * s[i] + s[(int64_t)i - 1];
        ret[2 * i + 1] = 3 * s[i] + s[i + 1];
    }
    return ret + run.left % 2;
}

static uint8_t level(int64_t x)
{
    x = (x + ((int64_t)1 << 31)) >> 32;
    return (uint8_t)(x < 0 ? 0 : x > 255 ? 255 : x);
}

void yuv_convert(const struct yuv_image *image, const struct yuv_rule *rule, struct yuv_run run,
                 int32_t *room, uint8_t *ret)
{
    const struct yuv_rule r = *rule;
    size_t each = (size_t)run.width + 2;
    int32_t *luma = room, *sums = luma + each;
    struct sum rows;
    const int32_t *u, *v;

    assert(run.y < image->height && run.width > 0);
    assert(run.left < image->width && run.width <= image->width - run.left);
    rows = sum_of(image, 0, run.y, run.y);
    rows.m = 1;
    rows.zero = r.zero_y;
    add_rows(&rows, run.left, run.width, luma);
    if (image->mono) {
        for (uint32_t i = 0; i < run.width; i++, ret += 4) {
            ret[0] = ret[1] = ret[2] = level(r.y[0] * luma[i]);
            ret[3] = 255;
        }
        return;
    }
    rows = chroma_rows(image, 1, run.y, r.zero_uv);
    u = spread_chroma(image, &rows, run, sums, sums + each);
    rows = chroma_rows(image, 2, run.y, r.zero_uv);
    v = spread_chroma(image, &rows, run, sums, sums + 2 * each);
    for (uint32_t i = 0; i < run.width; i++, ret += 4) {
        ret[0] = level(r.y[0] * luma[i] + r.u[0] * u[i] + r.v[0] * v[i]);
        ret[1] = level(r.y[1] * luma[i] + r.u[1] * u[i] + r.v[1] * v[i]);
        ret[2] = level(r.y[2] * luma[i] + r.u[2] * u[i] + r.v[2] * v[i]);
        ret[3] = 255;
    }
}
