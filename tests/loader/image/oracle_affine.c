/* SPDX-License-Identifier: MIT */
/* oracle_affine.c - computes the operations that move pixels, one pixel at a time, as
 * docs/pixels.md, 10.1, defines them. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "common/order/philox.h"
#include "tests/loader/image/oracle.h"

__extension__ typedef __int128 wide;

/* Returns floor(a / b), for b > 0. */
static wide down(wide a, wide b)
{
    return a >= 0 ? a / b : -((-a + b - 1) / b);
}

static uint32_t word(const struct image_draw *d, uint32_t op, uint32_t number)
{
    return philox_draw(d->seed, d->position, d->epoch, DRAW_OPERATION, 16 * op + number / 4)
        .word[number % 4];
}

static int64_t from_to(int64_t low, int64_t high, uint32_t w)
{
    return low + (int64_t)(((uint64_t)w * (uint64_t)(high - low + 1)) >> 32);
}

static int64_t q16(int64_t num, int64_t den)
{
    return (int64_t)down(2 * 65536 * (wide)num + den, 2 * den);
}

static int64_t in_range(const struct rational_signed r[2], uint32_t w)
{
    return from_to(q16(r[0].num, r[0].den), q16(r[1].num, r[1].den), w);
}

static int64_t moved(struct rational part, int64_t side, uint32_t w)
{
    int64_t m = q16(part.num * side, part.den);

    return (int64_t)down(from_to(-m, m, w) + 32768, 65536);
}

/* ---- Q40 ---- */

static const wide q40 = (wide)1 << 40;

/* Compute sine and cosine, for 0 <= degrees < 90. */
static void sine_of_acute(int64_t degrees, wide *s, wide *c)
{
    wide u = down(degrees * (wide)321956420358983237, q40), z = down(u * u, q40);
    wide ys = q40, yc = q40;

    for (int k = 10; k >= 1; k--) {
        ys = q40 - down(z * ys, q40) / (2 * k * (2 * k + 1));
        yc = q40 - down(z * yc, q40) / (2 * k * (2 * k - 1));
    }
    *s = down(u * ys, q40);
    *c = yc;
}

static void sine(int64_t degrees, wide *s, wide *c)
{
    int64_t turn = degrees % 23592960;

    if (turn < 0)
        turn += 23592960;
    sine_of_acute(turn % 5898240, s, c);
    for (int64_t i = 0; i < turn / 5898240; i++) { /* add one quarter turn at a time */
        wide kept = *s;

        *s = *c;
        *c = -kept;
    }
}

static wide tangent(int64_t degrees)
{
    wide s, c;

    sine(degrees, &s, &c);
    return s * q40 / c;
}

/* Where each pixel of the result comes from in the source: numerators and denominator. */
struct place {
    wide x[3], y[3], d[3];
};

static void affine_place(const struct pipeline_op *op, uint32_t at, const struct image_draw *draw,
                         int64_t width, int64_t height, struct place *ret)
{
    const struct pipeline_map *map = &op->map;
    int64_t degrees = in_range(map->degrees, word(draw, at, 1));
    int64_t dx = moved(map->translate[0], width, word(draw, at, 2));
    int64_t dy = moved(map->translate[1], height, word(draw, at, 3));
    int64_t scale = from_to(q16(map->scale[0].num, map->scale[0].den),
                            q16(map->scale[1].num, map->scale[1].den), word(draw, at, 4));
    wide tx = tangent(in_range(map->shear_x, word(draw, at, 5)));
    wide ty = tangent(in_range(map->shear_y, word(draw, at, 6)));
    wide s, c, a, b, cc, d, m[4];

    sine(op->kind == PIPELINE_ROTATE ? -degrees : degrees, &s, &c);
    a = c + down(s * ty, q40);
    cc = s - down(c * ty, q40);
    b = -down(a * tx, q40) - s;
    d = -down(cc * tx, q40) + c;
    m[0] = d * 65536 / scale;
    m[1] = -b * 65536 / scale;
    m[2] = -cc * 65536 / scale;
    m[3] = a * 65536 / scale;
    memset(ret, 0, sizeof(*ret));
    ret->d[2] = 1;
    for (int i = 0; i < 2; i++) {
        ret->x[i] = down(m[i] + (1 << 23), 1 << 24);
        ret->y[i] = down(m[2 + i] + (1 << 23), 1 << 24);
    }
    ret->x[2] =
        down(m[0] * (1 - width - 2 * dx) + m[1] * (1 - height - 2 * dy) + width * q40 + (1 << 24),
             1 << 25);
    ret->y[2] =
        down(m[2] * (1 - width - 2 * dx) + m[3] * (1 - height - 2 * dy) + height * q40 + (1 << 24),
             1 << 25);
}

static wide cross(int64_t p[4][2], int a, int b, int c)
{
    return (wide)(p[b][0] - p[a][0]) * (p[c][1] - p[a][1]) -
           (wide)(p[b][1] - p[a][1]) * (p[c][0] - p[a][0]);
}

static wide size(wide v)
{
    return v < 0 ? -v : v;
}

static bool fits(const wide row[3], int shift, int64_t width, int64_t height)
{
    wide cut = (wide)1 << shift;

    return size(down(row[0], cut)) * width + size(down(row[1], cut)) * height +
               size(down(row[2], cut)) <
           (wide)1 << 62;
}

static bool perspective_place(const struct pipeline_op *op, uint32_t at,
                              const struct image_draw *draw, int64_t width, int64_t height,
                              struct place *ret)
{
    int64_t far_x = op->map.distortion.num * (width / 2) / op->map.distortion.den;
    int64_t far_y = op->map.distortion.num * (height / 2) / op->map.distortion.den;
    int64_t p[4][2];
    wide f[9], inverse[9];
    wide *rows[3] = {ret->x, ret->y, ret->d};
    int shift = 0;

    for (int i = 0; i < 4; i++) {
        p[i][0] = from_to(0, far_x, word(draw, at, 1 + 2 * i));
        p[i][1] = from_to(0, far_y, word(draw, at, 2 + 2 * i));
        if (i == 1 || i == 2)
            p[i][0] += width - 1 - far_x;
        if (i >= 2)
            p[i][1] += height - 1 - far_y;
    }
    if (cross(p, 0, 1, 2) == 0 || cross(p, 1, 2, 3) == 0 || cross(p, 2, 3, 0) == 0 ||
        cross(p, 3, 0, 1) == 0)
        return false;
    /* This maps the unit square to the corners; f[8] is the common denominator. */
    {
        int64_t x1 = p[1][0] - p[2][0], x2 = p[3][0] - p[2][0];
        int64_t y1 = p[1][1] - p[2][1], y2 = p[3][1] - p[2][1];
        int64_t x3 = p[0][0] - p[1][0] + p[2][0] - p[3][0];
        int64_t y3 = p[0][1] - p[1][1] + p[2][1] - p[3][1];

        f[6] = (wide)x3 * y2 - (wide)x2 * y3;
        f[7] = (wide)x1 * y3 - (wide)x3 * y1;
        f[8] = (wide)x1 * y2 - (wide)x2 * y1;
    }
    for (int k = 0; k < 2; k++) {
        f[3 * k] = (p[1][k] - p[0][k]) * f[8] + f[6] * p[1][k];
        f[3 * k + 1] = (p[3][k] - p[0][k]) * f[8] + f[7] * p[3][k];
        f[3 * k + 2] = p[0][k] * f[8];
    }
    for (int i = 0; i < 3; i++) /* cofactors, transposed */
        for (int j = 0; j < 3; j++) {
            int a = (j + 1) % 3, b = (j + 2) % 3, c = (i + 1) % 3, d = (i + 2) % 3;

            inverse[3 * i + j] = f[3 * a + c] * f[3 * b + d] - f[3 * a + d] * f[3 * b + c];
        }
    for (int i = 0; i < 3; i++) {
        wide by = i == 0 ? (width - 1) * 65536 : i == 1 ? (height - 1) * 65536 : 1;
        const wide *v = inverse + 3 * i;

        rows[i][0] = 2 * v[0] * by;
        rows[i][1] = 2 * v[1] * by;
        rows[i][2] = (v[0] + v[1] + 2 * v[2]) * by;
    }
    while (!fits(ret->x, shift, width, height) || !fits(ret->y, shift, width, height) ||
           !fits(ret->d, shift, width, height))
        shift++;
    for (int i = 0; i < 9; i++)
        rows[i / 3][i % 3] = down(rows[i / 3][i % 3], (wide)1 << shift);
    return true;
}

static int64_t nearest_of(int64_t v, int64_t count)
{
    return v < 0 ? 0 : v >= count ? count - 1 : v;
}

/* An image, and how it is read between its pixels. */
struct sampled {
    const uint8_t *from;
    int64_t width, height;
    bool bilinear;
};

/* Returns channel `c` at (x, y), which are in Q16. */
static uint8_t sample(const struct sampled *s, int64_t x, int64_t y, int c)
{
    int64_t sum = 0, left, top;

    if (!s->bilinear)
        return s->from[3 * ((y >> 16) * s->width + (x >> 16)) + c];
    left = (int64_t)down(x - 32768, 65536);
    top = (int64_t)down(y - 32768, 65536);
    for (int i = 0; i < 4; i++) {
        int64_t px = nearest_of(left + i % 2, s->width), py = nearest_of(top + i / 2, s->height);
        int64_t fx = 2 * ((x - 32768 - left * 65536) / 32) + 1;
        int64_t fy = 2 * ((y - 32768 - top * 65536) / 32) + 1;

        sum += (i % 2 ? fx : 4096 - fx) * (i / 2 ? fy : 4096 - fy) *
               s->from[3 * (py * s->width + px) + c];
    }
    return (uint8_t)((sum + (1 << 23)) >> 24);
}

static void move(const struct place *place, bool bilinear, const uint8_t fill[3], uint8_t *pixels,
                 uint32_t width, uint32_t height)
{
    size_t bytes = (size_t)width * height * 3;
    uint8_t *from = malloc(bytes);
    struct sampled s = {.from = from, .width = width, .height = height, .bilinear = bilinear};

    memcpy(from, pixels, bytes);
    for (int64_t j = 0; j < height; j++)
        for (int64_t i = 0; i < width; i++) {
            wide x = place->x[0] * i + place->x[1] * j + place->x[2];
            wide y = place->y[0] * i + place->y[1] * j + place->y[2];
            wide d = place->d[0] * i + place->d[1] * j + place->d[2];
            bool in = d != 0;

            if (d < 0) {
                x = -x;
                y = -y;
                d = -d;
            }
            if (in) {
                x = down(x, d);
                y = down(y, d);
                in = x >= 0 && x < (wide)width * 65536 && y >= 0 && y < (wide)height * 65536;
            }
            for (int c = 0; c < 3; c++)
                pixels[3 * (j * width + i) + c] =
                    in ? sample(&s, (int64_t)x, (int64_t)y, c) : fill[c];
        }
    free(from);
}

void oracle_map(const struct pipeline_op *op, uint32_t at, const struct image_draw *draw,
                uint8_t *pixels, uint32_t width, uint32_t height)
{
    struct place place;

    if (op->kind != PIPELINE_PERSPECTIVE)
        affine_place(op, at, draw, width, height, &place);
    else if (!perspective_place(op, at, draw, width, height, &place))
        return;
    move(&place, op->map.bilinear, op->map.fill, pixels, width, height);
}

void oracle_move(const struct oracle_action *action, uint8_t *pixels, uint32_t width,
                 uint32_t height)
{
    const uint8_t fill[2][3] = {{0, 0, 0}, {124, 116, 104}};
    struct place place = {.x = {65536, 0, 32768}, .y = {0, 65536, 32768}, .d = {0, 0, 1}};
    int64_t by = action->amount;

    if (strcmp(action->name, "Rotate") == 0) {
        const struct rational_signed degrees = {(int32_t)by, 65536}, none = {0, 1};
        const struct pipeline_op op = {.kind = PIPELINE_ROTATE,
                                       .map = {.degrees = {degrees, degrees},
                                               .translate = {{0, 1}, {0, 1}},
                                               .scale = {{1, 1}, {1, 1}},
                                               .shear_x = {none, none},
                                               .shear_y = {none, none}}};

        affine_place(&op, 0, &(struct image_draw){0}, width, height, &place);
    } else if (strcmp(action->name, "ShearX") == 0) {
        place.x[1] = by;
        place.x[2] += down(by + 1, 2);
    } else if (strcmp(action->name, "ShearY") == 0) {
        place.y[0] = by;
        place.y[2] += down(by + 1, 2);
    } else if (strcmp(action->name, "TranslateX") == 0) {
        place.x[2] -= by;
    } else {
        place.y[2] -= by;
    }
    move(&place, action->bilinear, fill[action->timm], pixels, width, height);
}
