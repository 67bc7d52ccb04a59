/* SPDX-License-Identifier: MIT */
/* moves.c - inverts the maps of operations that move pixels.
 *
 * A map says where a pixel of the result comes from. It is a matrix of integers, so the adjugate,
 * which is its inverse times a number, is exact. Products of such matrices are computed in double
 * precision.
 *
 * A rectangle is clipped before it is moved: each edge of each result is a line in the window
 * before the first operation. So a pixel that one operation moves out of the image stays out, the
 * visible area is that of the source, and no coordinate becomes huge at a perspective's horizon. */
#include "config.h"

#include "loader/render/moves.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "loader/image/ops/augment.h"

__extension__ typedef __int128 i128;

/* ---- matrices ---- */

/* Compute the adjugate of the map from result to source, both in pixels. The elements fit: a row
 * of a map has sums below 2^63 within the window. */
static void invert(const struct affine *map, double width, double height, double ret[3][3])
{
    const int64_t unit[3] = {0, 0, 1};
    const int64_t *const rows[3] = {map->x, map->y, map->divides ? map->d : unit};
    i128 m[3][3];

    for (int i = 0; i < 3; i++) { /* doubled, because a pixel's centre is at 1/2 */
        m[i][0] = 2 * (i128)rows[i][0];
        m[i][1] = 2 * (i128)rows[i][1];
        m[i][2] = 2 * (i128)rows[i][2] - rows[i][0] - rows[i][1];
    }
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) {
            int r = (k + 1) % 3, s = (k + 2) % 3, a = (i + 1) % 3, b = (i + 2) % 3;

            ret[i][k] = (double)(m[r][a] * m[s][b] - m[r][b] * m[s][a]);
            if (k < 2)
                ret[i][k] *= 1 << AFFINE_BITS;
        }
    for (int i = 0; i < 3 && map->mirror; i++) {
        ret[i][2] += ret[i][0] * width;
        ret[i][0] = -ret[i][0];
    }
    for (int i = 0; i < 3 && map->upside_down; i++) {
        ret[i][2] += ret[i][1] * height;
        ret[i][1] = -ret[i][1];
    }
}

static void scale(double m[3][3], double factor)
{
    for (int i = 0; i < 9; i++)
        m[i / 3][i % 3] *= factor;
}

/* Divide by the largest absolute value, so that products of many maps stay finite. Returns false if
 * all elements are zero. */
static bool scale_to_one(double m[3][3])
{
    double most = 0;

    for (int i = 0; i < 9; i++)
        most = fmax(most, fabs(m[i / 3][i % 3]));
    if (!(most > 0))
        return false;
    scale(m, 1 / most);
    return true;
}

/* Scale a map, and make w positive in the window if it has one sign there. Returns false if there
 * is no inverse. */
static bool normalise(struct moves_step *step, double width, double height)
{
    const double corners[4][2] = {{0, 0}, {width, 0}, {0, height}, {width, height}};
    double(*m)[3] = step->to;
    int positive = 0, negative = 0;

    if (!scale_to_one(m))
        return false;
    for (int i = 0; i < 4; i++) {
        double w = m[2][0] * corners[i][0] + m[2][1] * corners[i][1] + m[2][2];

        positive += w > 0;
        negative += w < 0;
    }
    /* An adjugate has a positive determinant. So the signs of w and of the factor decide whether it
     * mirrors; invert() has applied the map's own flips. */
    step->crosses = positive > 0 && negative > 0;
    step->mirrored = positive == 0;
    if (positive == 0)
        scale(m, -1);
    return positive + negative > 0;
}

/* Replace b by a * b. */
static void multiply_before(double b[3][3], const double a[3][3])
{
    double product[3][3];

    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++)
            product[i][k] = a[i][0] * b[0][k] + a[i][1] * b[1][k] + a[i][2] * b[2][k];
    memcpy(b, product, sizeof(product));
}

static void add_step(struct moves *moves, const struct affine *map)
{
    static const double same[3][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
    struct moves_step *step = &moves->step[moves->count];
    bool first = moves->count == 0;
    double so_far[3][3];

    memcpy(so_far, first ? same : step[-1].to, sizeof(so_far));
    invert(map, moves->width, moves->height, step->to);
    if (!normalise(step, moves->width, moves->height)) {
        moves->lost = true;
        return;
    }
    step->mirrored ^= map->mirror ^ map->upside_down ^ (!first && step[-1].mirrored);
    multiply_before(so_far, (const double(*)[3])step->to);
    (void)scale_to_one(so_far);
    memcpy(step->to, so_far, sizeof(so_far));
    moves->count++;
}

static bool erases(const struct pipeline *pipeline)
{
    for (uint32_t i = 0; i < pipeline->ops_count; i++)
        if (pipeline->ops[i].kind == PIPELINE_ERASE || pipeline->ops[i].kind == PIPELINE_CUTOUT)
            return true;
    return false;
}

void moves_draw(const struct pipeline *pipeline, const struct image_draw *draw, struct moves *ret)
{
    struct crop_tables tables = {0};
    struct augment_plan plan;

    ret->count = ret->covers = 0;
    ret->lost = false;
    ret->width = pipeline->width;
    ret->height = pipeline->height;
    if (!pipeline_moves(pipeline) && !erases(pipeline))
        return;
    augment_draw(pipeline, draw, &tables, &plan);
    for (uint32_t i = 0; i < plan.count && !ret->lost; i++) {
        const struct augment_step *step = &plan.steps[i];

        if (step->kind == PIPELINE_AFFINE)
            add_step(ret, &step->map);
        if (step->kind != PIPELINE_ERASE && step->kind != PIPELINE_CUTOUT)
            continue;
        assert(ret->covers < PIPELINE_OPS_MAX); /* an operation erases one rectangle */
        ret->cover[ret->covers++] = (struct moves_cover){ret->count, step->erase.rect};
    }
}

/* ---- points ---- */

static void apply(const double m[3][3], const double point[2], double ret[3])
{
    for (int i = 0; i < 3; i++)
        ret[i] = m[i][0] * point[0] + m[i][1] * point[1] + m[i][2];
}

/* Returns whether an operation that follows `steps` steps erases the pixel at a position. */
static bool is_covered(const struct moves *moves, uint32_t steps, const double at[2])
{
    for (uint32_t i = 0; i < moves->covers; i++) {
        const struct rect *rect = &moves->cover[i].rect;

        if (moves->cover[i].after == steps && at[0] >= rect->left && at[1] >= rect->top &&
            at[0] < (double)rect->left + rect->width && at[1] < (double)rect->top + rect->height)
            return true;
    }
    return false;
}

bool moves_point(const struct moves *moves, const double point[2], struct moves_place *ret)
{
    *ret = (struct moves_place){.at = {point[0], point[1]}};
    ret->covered = is_covered(moves, 0, point);
    for (uint32_t i = 0; i < moves->count; i++) {
        double to[3];

        apply(moves->step[i].to, point, to);
        ret->at[0] = to[0] / to[2];
        ret->at[1] = to[1] / to[2];
        if (!(ret->at[0] >= 0 && ret->at[0] <= moves->width && ret->at[1] >= 0 &&
              ret->at[1] <= moves->height))
            return false;
        ret->covered = ret->covered || is_covered(moves, i + 1, ret->at);
        ret->mirrored = moves->step[i].mirrored ^ (to[2] < 0);
    }
    return !moves->lost;
}

/* ---- rectangles ---- */

/* A convex polygon. Each line that clips it adds a corner at most; the room for four more is for
 * lines that rounding errors make cut it more than twice. */
struct moves_polygon {
    uint32_t count;
    double at[4 + 4 * MOVES_MAX + 4][2];
};

static void add_corner(struct moves_polygon *polygon, double x, double y)
{
    if (polygon->count == sizeof(polygon->at) / sizeof(polygon->at[0]))
        return;
    polygon->at[polygon->count][0] = x;
    polygon->at[polygon->count++][1] = y;
}

/* Keep the part where line[0] * x + line[1] * y + line[2] >= 0 (Sutherland and Hodgman, 1974). */
static void clip(const struct moves_polygon *from, const double line[3], struct moves_polygon *to)
{
    to->count = 0;
    for (uint32_t i = 0; i < from->count; i++) {
        const double *p = from->at[i], *q = from->at[i + 1 < from->count ? i + 1 : 0];
        double a = line[0] * p[0] + line[1] * p[1] + line[2];
        double b = line[0] * q[0] + line[1] * q[1] + line[2];

        if (a >= 0)
            add_corner(to, p[0], p[1]);
        if ((a > 0 && b < 0) || (a < 0 && b > 0)) {
            double part = a / (a - b);

            add_corner(to, p[0] + (q[0] - p[0]) * part, p[1] + (q[1] - p[1]) * part);
        }
    }
}

/* Keep the part that a result shows: 0 <= u <= width * w, and v in the same way. */
static void clip_to_result(struct moves_polygon *polygon, const struct moves *moves,
                           const double to[3][3], double sign)
{
    struct moves_polygon other;
    double lines[4][3];

    for (int k = 0; k < 3; k++) {
        lines[0][k] = sign * to[0][k];
        lines[1][k] = sign * (moves->width * to[2][k] - to[0][k]);
        lines[2][k] = sign * to[1][k];
        lines[3][k] = sign * (moves->height * to[2][k] - to[1][k]);
    }
    clip(polygon, lines[0], &other);
    clip(&other, lines[1], polygon);
    clip(polygon, lines[2], &other);
    clip(&other, lines[3], polygon);
}

static double area(const struct moves_polygon *polygon)
{
    const double *first = polygon->at[0];
    double sum = 0;

    for (uint32_t i = 1; i + 1 < polygon->count; i++) {
        const double *p = polygon->at[i], *q = polygon->at[i + 1];

        sum += (p[0] - first[0]) * (q[1] - first[1]) - (q[0] - first[0]) * (p[1] - first[1]);
    }
    return fabs(sum) / 2;
}

static double within(double x, double most)
{
    return x > 0 ? x < most ? x : most : 0;
}

/* Extend `ret` by where the result of the last operation shows a polygon. */
static void extend(struct moves_rect *ret, const struct moves *moves,
                   const struct moves_polygon *polygon)
{
    for (uint32_t i = 0; i < polygon->count; i++) {
        double at[3], x, y;

        apply(moves->step[moves->count - 1].to, polygon->at[i], at);
        x = within(at[0] / at[2], moves->width);
        y = within(at[1] / at[2], moves->height);
        ret->left = x < ret->left ? x : ret->left;
        ret->right = x > ret->right ? x : ret->right;
        ret->top = y < ret->top ? y : ret->top;
        ret->bottom = y > ret->bottom ? y : ret->bottom;
    }
}

/* Clip a rectangle to all results. Bit i of `sides`: use the side of the i-th horizon that crosses
 * the window where w is negative. */
static void clip_to_all(const struct moves *moves, const struct moves_rect *rect, uint32_t sides,
                        struct moves_polygon *ret)
{
    double sign = 1;

    ret->count = 0; /* the corners, up to 15 KiB, need no initial values */
    add_corner(ret, rect->left, rect->top);
    add_corner(ret, rect->right, rect->top);
    add_corner(ret, rect->right, rect->bottom);
    add_corner(ret, rect->left, rect->bottom);
    for (uint32_t i = 0; i < moves->count && ret->count > 0; i++) {
        if (moves->step[i].crosses) {
            sign = sides & 1 ? -sign : sign;
            sides >>= 1;
        }
        clip_to_result(ret, moves, moves->step[i].to, sign);
    }
}

double moves_rect(const struct moves *moves, const struct moves_rect *rect, struct moves_rect *ret)
{
    struct moves_polygon polygon;
    uint32_t horizons = 0;
    double sum = 0;

    if (moves->count == 0) {
        *ret = *rect;
        return moves->lost ? 0 : (rect->right - rect->left) * (rect->bottom - rect->top);
    }
    *ret = (struct moves_rect){moves->width, moves->height, 0, 0};
    for (uint32_t i = 0; i < moves->count; i++)
        horizons += moves->step[i].crosses;
    assert(horizons <= PIPELINE_OPS_MAX); /* only `perspective` has a horizon; policies do not */
    for (uint32_t sides = 0; sides >> horizons == 0 && !moves->lost; sides++) {
        clip_to_all(moves, rect, sides, &polygon);
        if (polygon.count < 3)
            continue;
        sum += area(&polygon);
        extend(ret, moves, &polygon);
    }
    return sum;
}
