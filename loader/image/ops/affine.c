/* SPDX-License-Identifier: MIT */
/* affine.c - rotates, shears, moves and tilts a window.
 *
 * Matrices are computed with 40 fraction bits, and rounded to the 16 that Pillow has. Each row of
 * the result is split into the span whose pixels are inside the source, and the rest, so the loops
 * over a span need no checks. */
#include "config.h"

#include "loader/image/ops/affine.h"

#include <assert.h>
#include <string.h>

#include "common/util/util.h"

__extension__ typedef __int128 i128;

enum { FINE = 40 };

static const int64_t one = (int64_t)1 << FINE;

/* ---- matrices ---- */

static int64_t multiply(int64_t a, int64_t b)
{
    return (int64_t)(((i128)a * b) >> FINE);
}

/* Returns Taylor's series, summed from its end, for 0 <= u <= pi / 2: 1 - u^2 / (n (n + 1)) * (1 -
 * ...) with n = `first`, `first` + 2, ... */
static int64_t series(int64_t u, int64_t first)
{
    int64_t z = multiply(u, u), y = one;

    for (int64_t n = first + 18; n >= first; n -= 2)
        y = one - multiply(z, y) / (n * (n + 1));
    return y;
}

static void sine_and_cosine(int64_t degrees, int64_t *sine, int64_t *cosine)
{
    const int64_t right = (int64_t)90 << AFFINE_BITS;
    const i128 radian = 321956420358983237; /* pi / 180 * 2^64 */
    int64_t turned = (degrees % (4 * right) + 4 * right) % (4 * right);
    int64_t u = (int64_t)(turned % right * radian >> 40);
    int64_t s = multiply(u, series(u, 2)), c = series(u, 1);

    switch (turned / right) {
    case 0:
        *sine = s;
        *cosine = c;
        break;
    case 1:
        *sine = c;
        *cosine = -s;
        break;
    case 2:
        *sine = -s;
        *cosine = -c;
        break;
    default:
        *sine = -c;
        *cosine = s;
        break;
    }
}

static int64_t tangent(int64_t degrees)
{
    int64_t s, c;

    sine_and_cosine(degrees, &s, &c);
    return (int64_t)((i128)s * one / c);
}

/* Returns where on axis `main` the first pixel comes from, if the point at `centre` / 2 from the
 * upper left moves by `move`. `row` is the inverse matrix's row for that axis, with FINE bits. */
static int64_t first_position(const int64_t row[2], int main, const int64_t centre[2],
                              const int64_t move[2])
{
    i128 sum = (i128)centre[main] * one; /* twice the result */

    for (int i = 0; i < 2; i++)
        sum += row[i] * ((i128)1 - centre[i] - 2 * move[i]);
    return (int64_t)((sum + ((i128)1 << (FINE - AFFINE_BITS))) >> (FINE - AFFINE_BITS + 1));
}

static int64_t rounded(int64_t fine)
{
    return (fine + ((int64_t)1 << (FINE - AFFINE_BITS - 1))) >> (FINE - AFFINE_BITS);
}

void affine_of_parts(struct affine *ret, const struct affine_parts *parts, uint32_t width,
                     uint32_t height)
{
    const int64_t centre[2] = {width, height}, move[2] = {parts->dx, parts->dy};
    int64_t tan_x = tangent(parts->shear_x), tan_y = tangent(parts->shear_y);
    int64_t s, c, forth[2][2], back[2][2];

    sine_and_cosine(parts->degrees, &s, &c);
    forth[0][0] = c + multiply(s, tan_y);
    forth[1][0] = s - multiply(c, tan_y);
    forth[0][1] = -multiply(forth[0][0], tan_x) - s;
    forth[1][1] = -multiply(forth[1][0], tan_x) + c;
    back[0][0] = forth[1][1]; /* the determinant is 1 */
    back[0][1] = -forth[0][1];
    back[1][0] = -forth[1][0];
    back[1][1] = forth[0][0];
    for (int i = 0; i < 4; i++)
        back[i / 2][i % 2] =
            (int64_t)(((i128)back[i / 2][i % 2] * (1 << AFFINE_BITS)) / parts->scale);
    *ret = (struct affine){
        .x = {rounded(back[0][0]), rounded(back[0][1]), first_position(back[0], 0, centre, move)},
        .y = {rounded(back[1][0]), rounded(back[1][1]), first_position(back[1], 1, centre, move)},
    };
}

void affine_rotation(struct affine *ret, int64_t degrees, uint32_t width, uint32_t height)
{
    const struct affine_parts parts = {.degrees = -degrees, .scale = 1 << AFFINE_BITS};

    affine_of_parts(ret, &parts, width, height);
}

/* The centre of a pixel: half a pixel. A shear also shifts it by half of its factor, rounded. */
static const int64_t half = 1 << (AFFINE_BITS - 1);

void affine_shear_x(struct affine *ret, int64_t factor)
{
    *ret = (struct affine){
        .x = {2 * half, factor, half + ((factor + 1) >> 1)},
        .y = {0, 2 * half, half},
    };
}

void affine_shear_y(struct affine *ret, int64_t factor)
{
    *ret = (struct affine){
        .x = {2 * half, 0, half},
        .y = {factor, 2 * half, half + ((factor + 1) >> 1)},
    };
}

void affine_translate(struct affine *ret, int64_t dx, int64_t dy)
{
    *ret = (struct affine){.x = {2 * half, 0, half - dx}, .y = {0, 2 * half, half - dy}};
}

static bool on_a_line(const int64_t a[2], const int64_t b[2], const int64_t c[2])
{
    return (b[0] - a[0]) * (c[1] - a[1]) == (b[1] - a[1]) * (c[0] - a[0]);
}

/* Remove as few low bits as possible, so that sums over the window fit into 62 bits. */
static void shorten(const i128 rows[3][3], uint32_t width, uint32_t height, int64_t *const to[3])
{
    const i128 most = (i128)1 << 62;
    int shift = 0;

    for (int i = 0; i < 3; i++) {
        i128 sum;

        do {
            i128 size[3];

            for (int k = 0; k < 3; k++)
                size[k] = rows[i][k] >> shift < 0 ? -(rows[i][k] >> shift) : rows[i][k] >> shift;
            sum = size[0] * width + size[1] * height + size[2];
        } while (sum >= most && ++shift);
    }
    for (int i = 0; i < 9; i++)
        to[i / 3][i % 3] = (int64_t)(rows[i / 3][i % 3] >> shift);
}

/* Compute the map by Heckbert, "Fundamentals of texture mapping and image warping" (1989), 2.2.3:
 * the map of a unit square to the corners, times a common denominator. Its adjugate is the
 * inverse. */
bool affine_of_corners(struct affine *ret, const int64_t p[4][2], uint32_t width, uint32_t height)
{
    int64_t x1 = p[1][0] - p[2][0], x2 = p[3][0] - p[2][0];
    int64_t y1 = p[1][1] - p[2][1], y2 = p[3][1] - p[2][1];
    int64_t sx = p[0][0] - p[1][0] + p[2][0] - p[3][0];
    int64_t sy = p[0][1] - p[1][1] + p[2][1] - p[3][1];
    i128 g = sx * y2 - x2 * sy, h = x1 * sy - sx * y1, i = x1 * y2 - x2 * y1;
    i128 a = (p[1][0] - p[0][0]) * i + g * p[1][0], b = (p[3][0] - p[0][0]) * i + h * p[3][0];
    i128 d = (p[1][1] - p[0][1]) * i + g * p[1][1], e = (p[3][1] - p[0][1]) * i + h * p[3][1];
    i128 c = p[0][0] * i, f = p[0][1] * i;
    const i128 inverse[3][3] = {{e * i - f * h, c * h - b * i, b * f - c * e},
                                {f * g - d * i, a * i - c * g, c * d - a * f},
                                {d * h - e * g, b * g - a * h, a * e - b * d}};
    const int64_t scale[3] = {((int64_t)width - 1) << AFFINE_BITS,
                              ((int64_t)height - 1) << AFFINE_BITS, 1};
    int64_t *const to[3] = {ret->x, ret->y, ret->d};
    i128 rows[3][3];

    if (on_a_line(p[0], p[1], p[2]) || on_a_line(p[1], p[2], p[3]) || on_a_line(p[2], p[3], p[0]) ||
        on_a_line(p[3], p[0], p[1]))
        return false;
    for (int k = 0; k < 3; k++) { /* doubled, so that the centre of a pixel is an integer */
        rows[k][0] = 2 * inverse[k][0] * scale[k];
        rows[k][1] = 2 * inverse[k][1] * scale[k];
        rows[k][2] = (inverse[k][0] + inverse[k][1] + 2 * inverse[k][2]) * scale[k];
    }
    *ret = (struct affine){.divides = true};
    shorten(rows, width, height, to);
    return true;
}

/* Change the sums so that axis `axis` is counted from its other end. */
static void count_back(int64_t row[3], int axis, uint32_t side)
{
    row[2] += row[axis] * ((int64_t)side - 1);
    row[axis] = -row[axis];
}

/* Replace each position p by one whose integer part is `side` - 1 - floor(p). */
static void look_back(int64_t row[3], uint32_t side)
{
    row[0] = -row[0];
    row[1] = -row[1];
    row[2] = ((int64_t)side << AFFINE_BITS) - 1 - row[2];
}

void affine_mirror(struct affine *map, uint32_t width)
{
    count_back(map->x, 0, width);
    count_back(map->y, 0, width);
    count_back(map->d, 0, width);
    if (map->divides)
        map->mirror = !map->mirror;
    else
        look_back(map->x, width);
}

void affine_turn_upside_down(struct affine *map, uint32_t height)
{
    count_back(map->x, 1, height);
    count_back(map->y, 1, height);
    count_back(map->d, 1, height);
    if (map->divides)
        map->upside_down = !map->upside_down;
    else
        look_back(map->y, height);
}

/* ---- pixels ---- */

/* The state of mapping a window. */
struct affine_job {
    const struct affine_loops *loops;
    const struct affine *map;
    int64_t width, height;
    const uint8_t *from;
    uint8_t *to;
};

/* The pixels first ... end - 1 of a row. */
struct range {
    int64_t first, end;
};

static int64_t floor_divide(int64_t a, int64_t b)
{
    int64_t q = a / b;

    return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}

/* Returns the positions i of `range` for which low <= start + step * i < high. */
static struct range inside(struct range range, int64_t start, int64_t step, int64_t low,
                           int64_t high)
{
    int64_t first, last;

    if (step == 0)
        return start >= low && start < high ? range : (struct range){0, 0};
    first = -floor_divide(step > 0 ? start - low : start - high + 1, step);
    last = floor_divide(step > 0 ? high - 1 - start : low - start, step);
    if (first > range.first)
        range.first = first;
    if (last + 1 < range.end)
        range.end = last + 1;
    return range.first < range.end ? range : (struct range){0, 0};
}

static void fill(const struct affine_job *job, int64_t row, int64_t first, int64_t end)
{
    for (int c = 0; c < 3 && first < end; c++)
        memset(job->to + (c * job->height + row) * job->width + first, job->map->fill[c],
               (size_t)(end - first));
}

static int64_t clamp(int64_t v, int64_t most)
{
    return v < 0 ? 0 : v > most ? most : v;
}

/* Blend the four pixels around a position by their distance; beyond the edge, the edge pixel is
 * used. */
static void pixel_bilinear(const struct affine_job *job, int64_t x, int64_t y, uint8_t *to)
{
    int64_t left = (x - half) >> AFFINE_BITS, top = (y - half) >> AFFINE_BITS;
    uint32_t right_part = affine_part((uint32_t)(x - half));
    uint32_t low_part = affine_part((uint32_t)(y - half));
    size_t at = (size_t)(clamp(top, job->height - 1) * job->width + clamp(left, job->width - 1));
    size_t right = left < 0 || left + 1 >= job->width ? 0 : 1;
    size_t below = top < 0 || top + 1 >= job->height ? 0 : (size_t)job->width;

    for (size_t c = 0, plane = (size_t)(job->width * job->height); c < 3; c++)
        to[c * plane] =
            affine_blend(job->from + c * plane + at, right, below, right_part, low_part);
}

static void pixel_nearest(const struct affine_job *job, int64_t x, int64_t y, uint8_t *to)
{
    size_t plane = (size_t)(job->width * job->height);
    size_t at = (size_t)((y >> AFFINE_BITS) * job->width + (x >> AFFINE_BITS));

    for (size_t c = 0; c < 3; c++)
        to[c * plane] = job->from[c * plane + at];
}

static void pixel(const struct affine_job *job, int64_t x, int64_t y, uint8_t *to)
{
    if (job->map->bilinear)
        pixel_bilinear(job, x, y, to);
    else
        pixel_nearest(job, x, y, to);
}

/* Compute pixels of a row, one by one. */
static void walk(const struct affine_job *job, int64_t row, struct range range, int64_t x,
                 int64_t y)
{
    uint8_t *to = job->to + row * job->width;

    for (int64_t i = range.first; i < range.end; i++)
        pixel(job, x + job->map->x[0] * i, y + job->map->y[0] * i, to + i);
}

static void run_loop(const struct affine_job *job, int64_t row, struct range range, int64_t x,
                     int64_t y)
{
    const struct affine *map = job->map;
    int64_t shift = map->bilinear ? half : 0;
    bool several = range.end - range.first > 1;
    struct affine_span span = {
        .from = job->from,
        .plane = (size_t)(job->width * job->height),
        .width = (uint32_t)job->width,
        .x = (int32_t)(x + map->x[0] * range.first - shift),
        .y = (int32_t)(y + map->y[0] * range.first - shift),
        .dx = several ? (int32_t)map->x[0] : 0, /* fits if several pixels are inside */
        .dy = several ? (int32_t)map->y[0] : 0,
        .to = job->to + row * job->width + range.first,
        .count = (uint32_t)(range.end - range.first),
    };

    if (map->bilinear)
        job->loops->bilinear(&span);
    else
        job->loops->nearest(&span);
}

static void affine_row(const struct affine_job *job, int64_t row)
{
    const struct affine *map = job->map;
    int64_t x = map->x[1] * row + map->x[2], y = map->y[1] * row + map->y[2];
    int64_t right = job->width << AFFINE_BITS, low = job->height << AFFINE_BITS;
    struct range all = {0, job->width}, within, inner;

    within = inside(inside(all, x, map->x[0], 0, right), y, map->y[0], 0, low);
    inner = within;
    if (map->bilinear) /* all four neighbours exist */
        inner = inside(inside(within, x, map->x[0], half, right - half), y, map->y[0], half,
                       low - half);
    if (inner.first >= inner.end)
        inner.first = inner.end = within.first;
    fill(job, row, 0, within.first);
    walk(job, row, (struct range){within.first, inner.first}, x, y);
    if (inner.first < inner.end)
        run_loop(job, row, inner, x, y);
    walk(job, row, (struct range){inner.end, within.end}, x, y);
    fill(job, row, within.end, job->width);
}

/* Returns floor(a / b) for b > 0 if that is in 0 ... 2^40; otherwise a number above that range, or
 * a negative one. |a| < 2^62. The quotient of doubles is wrong by less than 1. */
static int64_t quotient(int64_t a, int64_t b)
{
    int64_t q = (int64_t)((double)a / (double)b), rest = a - q * b;

    return rest < 0 ? q - 1 : rest >= b ? q + 1 : q;
}

static void divided_row(const struct affine_job *job, int64_t row)
{
    const struct affine *map = job->map;
    int64_t x = map->x[1] * row + map->x[2], y = map->y[1] * row + map->y[2];
    int64_t d = map->d[1] * row + map->d[2];
    int64_t right = job->width << AFFINE_BITS, low = job->height << AFFINE_BITS;

    for (int64_t i = 0; i < job->width; i++) {
        bool back = d < 0;
        int64_t qx = d == 0 ? -1 : quotient(back ? -x : x, back ? -d : d);
        int64_t qy = d == 0 ? -1 : quotient(back ? -y : y, back ? -d : d);

        if (qx >= 0 && qx < right && qy >= 0 && qy < low)
            pixel(job, map->mirror ? right - 1 - qx : qx, map->upside_down ? low - 1 - qy : qy,
                  job->to + row * job->width + i);
        else
            fill(job, row, i, i + 1);
        x += map->x[0];
        y += map->y[0];
        d += map->d[0];
    }
}

void affine_apply(const struct affine_loops *loops, const struct affine *map, uint32_t width,
                  uint32_t height, const uint8_t *from, uint8_t *to)
{
    const struct affine_job job = {loops, map, width, height, from, to};

    for (int64_t row = 0; row < height; row++) {
        if (map->divides)
            divided_row(&job, row);
        else
            affine_row(&job, row);
    }
}

/* ---- plain loops ---- */

static void span_nearest(const struct affine_span *s)
{
    int32_t x = s->x, y = s->y;

    for (uint32_t i = 0; i < s->count; i++) {
        const uint8_t *v = s->from + (size_t)(y >> AFFINE_BITS) * s->width + (x >> AFFINE_BITS);

        s->to[i] = v[0];
        s->to[s->plane + i] = v[s->plane];
        s->to[2 * s->plane + i] = v[2 * s->plane];
        x += s->dx;
        y += s->dy;
    }
}

static void span_bilinear(const struct affine_span *s)
{
    int32_t x = s->x, y = s->y;

    for (uint32_t i = 0; i < s->count; i++) {
        const uint8_t *v = s->from + (size_t)(y >> AFFINE_BITS) * s->width + (x >> AFFINE_BITS);
        uint32_t right = affine_part((uint32_t)x), low = affine_part((uint32_t)y);

        for (size_t c = 0; c < 3; c++)
            s->to[c * s->plane + i] = affine_blend(v + c * s->plane, 1, s->width, right, low);
        x += s->dx;
        y += s->dy;
    }
}

const struct affine_loops affine_portable = {span_nearest, span_bilinear};
