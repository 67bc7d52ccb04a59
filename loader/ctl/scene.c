/* SPDX-License-Identifier: MIT */
/* scene.c - paints eight kinds of pictures from noise, cells and gradients.
 *
 * A small network learns to classify them within minutes, but cannot do so only by their mean
 * colour: light, hue, scale, angle and position vary from picture to picture. */
#include "config.h"

#include "loader/ctl/scene.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/order/philox.h"

/* The state while painting one picture. In its coordinates, the shorter side has the length 1. */
struct scene {
    uint64_t seed;
    uint32_t number;
    uint32_t drawn;  /* random numbers drawn so far */
    double hue[3];   /* colour of the light, about 1 */
    double p[12];    /* the painter's own parameters, 0 ... 1 */
    double cos, sin; /* rotation of the scene */
    double scale;
};

struct colour {
    double r, g, b;
};

static double uniform(struct scene *s)
{
    uint32_t n = s->drawn++, block = n / 4;

    return philox_draw(s->seed, s->number, block, DRAW_SAMPLE_SET, 0).word[n % 4] / 4294967296.0;
}

static double clamp01(double v)
{
    return v < 0 ? 0 : v > 1 ? 1 : v;
}

static double mix(double a, double b, double t)
{
    return a + (b - a) * t;
}

static struct colour blend(struct colour a, struct colour b, double t)
{
    t = clamp01(t);
    return (struct colour){mix(a.r, b.r, t), mix(a.g, b.g, t), mix(a.b, b.b, t)};
}

static struct colour shade(struct colour c, double f)
{
    return (struct colour){c.r * f, c.g * f, c.b * f};
}

static double smooth(double low, double high, double v)
{
    double t = clamp01((v - low) / (high - low));

    assert(low < high || low > high); /* the ramp may also fall */
    return t * t * (3 - 2 * t);
}

static int floor_of(double v)
{
    int i = (int)v;

    return v < i ? i - 1 : i;
}

/* Returns a wave of period 1 between -1 and 1: a parabola for each half, close enough to a sine for
 * a picture. */
static double wave(double turns)
{
    double t = turns - floor_of(turns);

    return t < 0.5 ? 16 * t * (0.5 - t) : -16 * (t - 0.5) * (1 - t);
}

static double absolute(double v)
{
    return v < 0 ? -v : v;
}

/* Hash integer coordinates to 0 ... 1, differently for each picture and purpose. */
static double hashed(const struct scene *s, int x, int y, uint32_t purpose)
{
    uint32_t h = (uint32_t)s->seed ^ s->number * 0x9E3779B9u ^ purpose * 0x85EBCA6Bu;

    h = (h ^ (uint32_t)x) * 0xC2B2AE35u;
    h ^= h >> 15;
    h = (h ^ (uint32_t)y) * 0x27D4EB2Fu;
    h ^= h >> 13;
    h *= 0x165667B1u;
    h ^= h >> 16;
    return h / 4294967296.0;
}

/* Compute value noise; the function below adds several octaves of it. */
static double noise(const struct scene *s, double x, double y, uint32_t purpose)
{
    int ix = floor_of(x), iy = floor_of(y);
    double fx = x - ix, fy = y - iy;

    fx = fx * fx * (3 - 2 * fx);
    fy = fy * fy * (3 - 2 * fy);
    return mix(mix(hashed(s, ix, iy, purpose), hashed(s, ix + 1, iy, purpose), fx),
               mix(hashed(s, ix, iy + 1, purpose), hashed(s, ix + 1, iy + 1, purpose), fx), fy);
}

static double clouds_of(const struct scene *s, double x, double y, uint32_t purpose)
{
    double sum = 0, weight = 0.5;

    for (uint32_t i = 0; i < 5; i++) {
        sum += weight * noise(s, x, y, purpose + i);
        x = x * 2.03 + 5.1;
        y = y * 2.03 + 3.7;
        weight *= 0.5;
    }
    return sum;
}

/* Find the distances to the two nearest of the scattered points, and the cell of the nearest.
 * sqrt() is rounded correctly, so the result is the same everywhere. */
static void cells_of(const struct scene *s, double x, double y, double *near, double *next,
                     int cell[2])
{
    int ix = floor_of(x), iy = floor_of(y);

    *near = *next = 9;
    for (int cy = iy - 1; cy <= iy + 1; cy++)
        for (int cx = ix - 1; cx <= ix + 1; cx++) {
            double dx = cx + hashed(s, cx, cy, 90) - x, dy = cy + hashed(s, cx, cy, 91) - y;
            double d = dx * dx + dy * dy;

            if (d < *near) {
                *next = *near;
                *near = d;
                cell[0] = cx;
                cell[1] = cy;
            } else if (d < *next) {
                *next = d;
            }
        }
    assert(*near <= *next && *next < 9); /* nine cells, a point in each */
    *near = sqrt(*near);
    *next = sqrt(*next);
}

static struct colour paint_bricks(const struct scene *s, double x, double y)
{
    double u = x * (3 + 4 * s->p[0]), v = y * (7 + 8 * s->p[0]);
    int row = floor_of(v), column;
    double fu, fv, joint, tone;
    struct colour brick, mortar = {0.72, 0.69, 0.64};

    u += row % 2 ? 0.5 : 0;
    column = floor_of(u);
    fu = u - column;
    fv = v - row;
    joint = smooth(0.02, 0.06, fu) * smooth(0.98, 0.94, fu) * smooth(0.05, 0.12, fv) *
            smooth(0.95, 0.88, fv);
    tone = hashed(s, column, row, 1);
    brick = blend((struct colour){0.62, 0.25, 0.17}, (struct colour){0.45, 0.28, 0.22}, s->p[1]);
    brick = shade(brick, 0.7 + 0.5 * tone + 0.3 * (clouds_of(s, x * 20, y * 20, 2) - 0.5));
    return blend(shade(mortar, 0.8 + 0.3 * noise(s, x * 60, y * 60, 9)), brick, joint);
}

static struct colour paint_clouds(const struct scene *s, double x, double y)
{
    struct colour high = {0.18, 0.38, 0.75}, low = {0.62, 0.78, 0.93}, white = {0.97, 0.97, 0.98};
    double depth = clouds_of(s, x * (2 + 3 * s->p[0]), y * (3 + 4 * s->p[0]), 11);
    double cover = smooth(0.62 - 0.3 * s->p[1], 0.85 - 0.2 * s->p[1], depth);
    double under = clouds_of(s, x * 3 + 0.1, y * 4 + 0.25, 11);

    return blend(blend(high, low, y), shade(white, 1.05 - 0.45 * under * s->p[2]), cover);
}

static struct colour paint_flowers(const struct scene *s, double x, double y)
{
    static const struct colour petals[] = {
        {0.92, 0.85, 0.25}, {0.85, 0.25, 0.45}, {0.95, 0.93, 0.95}, {0.55, 0.35, 0.80}};
    double near, next, u = x * (2.5 + 2.5 * s->p[0]), v = y * (2.5 + 2.5 * s->p[0]);
    struct colour grass, petal;
    int cell[2] = {0};
    double dx, dy, r, leaf, size;

    cells_of(s, u, v, &near, &next, cell);
    dx = cell[0] + hashed(s, cell[0], cell[1], 90) - u;
    dy = cell[1] + hashed(s, cell[0], cell[1], 91) - v;
    r = sqrt(dx * dx + dy * dy);
    /* Five or six petals: the radius is a wave of the angle around the middle. The angle, in turns,
     * is computed from the slope. */
    leaf = absolute(dx) + absolute(dy) > 0 ? dy / (absolute(dx) + absolute(dy)) : 0;
    leaf = (dx < 0 ? 2 - leaf : leaf) / 4;
    size = 0.22 + 0.16 * hashed(s, cell[0], cell[1], 30);
    size *= 0.78 + 0.22 * absolute(wave(leaf * 2.5 + hashed(s, cell[0], cell[1], 31)));
    grass = blend((struct colour){0.10, 0.25, 0.06}, (struct colour){0.35, 0.55, 0.15},
                  clouds_of(s, x * 25, y * 6, 33));
    petal = petals[(int)(s->p[1] * 3.99)];
    petal = shade(petal, 0.75 + 0.4 * r / size);
    if (r < size * 0.3)
        petal = shade((struct colour){0.85, 0.60, 0.10}, 0.7 + r);
    return blend(petal, grass, smooth(size * 0.94, size, r));
}

static struct colour paint_leaves(const struct scene *s, double x, double y)
{
    double near, next, u = x * (3 + 4 * s->p[0]), v = y * (1.6 + 2 * s->p[0]);
    int cell[2] = {0};
    double rib, tone;
    struct colour leaf;

    u += 0.4 * wave(v * 0.7 + s->p[1]);
    cells_of(s, u, v, &near, &next, cell);
    tone = hashed(s, cell[0], cell[1], 40);
    rib = absolute(cell[0] + hashed(s, cell[0], cell[1], 90) - u);
    leaf = blend((struct colour){0.06, 0.22, 0.05}, (struct colour){0.42, 0.62, 0.16},
                 tone * 0.7 + 0.3 * s->p[2]);
    leaf = shade(leaf, 0.65 + 0.6 * (1 - near) - 0.25 * smooth(0.03, 0.0, rib));
    leaf = shade(leaf, 0.9 + 0.25 * absolute(wave(near * 9)));
    return shade(leaf, 0.35 + 0.65 * smooth(0.0, 0.14, next - near));
}

static struct colour paint_pebbles(const struct scene *s, double x, double y)
{
    double near, next, u = x * (4 + 5 * s->p[0]), v = y * (4 + 5 * s->p[0]);
    int cell[2] = {0};
    double tone, light;
    struct colour stone;

    cells_of(s, u, v, &near, &next, cell);
    tone = hashed(s, cell[0], cell[1], 50);
    stone = blend((struct colour){0.38, 0.36, 0.35}, (struct colour){0.78, 0.73, 0.66}, tone);
    if (tone > 0.85)
        stone = (struct colour){0.55, 0.38, 0.30};
    light = 1.1 - 0.7 * near +
            0.35 * (cell[0] + hashed(s, cell[0], cell[1], 90) - u) * (s->p[1] - 0.5) * 4;
    light += 0.2 * (noise(s, x * 50, y * 50, 51) - 0.5);
    return shade(shade(stone, light), 0.2 + 0.8 * smooth(0.02, 0.22, next - near));
}

static struct colour paint_sunset(const struct scene *s, double x, double y)
{
    double horizon = 0.55 + 0.3 * s->p[0], sun_x = 0.2 + 0.8 * s->p[1];
    double sun_y = horizon - 0.05 - 0.3 * s->p[2], dx = x - sun_x, dy = y - sun_y;
    double r = sqrt(dx * dx + dy * dy), hill;
    struct colour sky = blend((struct colour){0.20, 0.12, 0.38}, (struct colour){0.97, 0.55, 0.18},
                              smooth(0.0, horizon, y));

    sky = blend(sky, (struct colour){1.0, 0.88, 0.55}, 0.9 * smooth(0.45, 0.05, r));
    sky = blend(sky, (struct colour){0.45, 0.20, 0.30},
                0.6 * smooth(0.5, 0.7, clouds_of(s, x * 2, y * 9, 60)));
    if (r < 0.06 + 0.05 * s->p[3])
        sky = (struct colour){1.0, 0.96, 0.80};
    hill = horizon + 0.12 * (clouds_of(s, x * 3, 0.5, 61) - 0.5);
    return y < hill ? sky : shade((struct colour){0.10, 0.06, 0.09}, 0.7 + 0.8 * (1 - y));
}

static struct colour paint_waves(const struct scene *s, double x, double y)
{
    double far = 0.25 + y, u = x / far, v = 3 / far;
    double swell = wave(v * (2 + 2 * s->p[0]) + 0.35 * wave(u * 1.3 + s->p[1]) +
                        1.2 * clouds_of(s, u * 3, v * 2, 70));
    struct colour deep = {0.03, 0.20, 0.34}, crest = {0.25, 0.60, 0.66};
    double foam = smooth(0.62, 0.95, swell) * smooth(0.35, 0.6, noise(s, u * 22, v * 9, 71));

    return blend(blend(deep, crest, 0.5 + 0.5 * swell), (struct colour){0.95, 0.97, 0.97},
                 foam * (0.5 + 0.5 * s->p[2]));
}

static struct colour paint_wood(const struct scene *s, double x, double y)
{
    double u = x - 0.5 - 2 * (s->p[0] - 0.5), v = (y - 0.5) * (0.12 + 0.3 * s->p[1]);
    double r = sqrt(u * u + v * v + 0.02) + 0.05 * clouds_of(s, x * 2, y * 0.8, 80);
    double ring = wave(r * (12 + 14 * s->p[2]));
    struct colour light =
        blend((struct colour){0.80, 0.60, 0.36}, (struct colour){0.62, 0.40, 0.22}, s->p[3]);
    double grain = noise(s, x * 120, y * 5, 81);

    return shade(blend(shade(light, 0.62), light, 0.5 + 0.5 * ring), 0.85 + 0.25 * grain);
}

static const struct {
    const char *name;
    struct colour (*paint)(const struct scene *s, double x, double y);
    bool upright; /* the sky must be at the top */
} kinds[SCENE_KINDS] = {
    {"bricks", paint_bricks, false},   {"clouds", paint_clouds, true},
    {"flowers", paint_flowers, false}, {"leaves", paint_leaves, false},
    {"pebbles", paint_pebbles, false}, {"sunset", paint_sunset, true},
    {"waves", paint_waves, true},      {"wood", paint_wood, false},
};

const char *scene_name(uint32_t kind)
{
    assert(kind < SCENE_KINDS);
    return kinds[kind].name;
}

static void set_scene(struct scene *s, uint32_t kind)
{
    double angle, length;

    for (int i = 0; i < 12; i++)
        s->p[i] = uniform(s);
    for (int i = 0; i < 3; i++)
        s->hue[i] = 0.82 + 0.36 * uniform(s);
    s->scale = 0.8 + 0.6 * uniform(s);
    angle = (uniform(s) - 0.5) * (kinds[kind].upright ? 0.2 : 1.2);
    length = sqrt(1 + angle * angle);
    s->cos = 1 / length;
    s->sin = angle / length;
}

static uint8_t to_byte(double v)
{
    return (uint8_t)(clamp01(v) * 255 + 0.5);
}

void scene_paint(uint32_t kind, uint64_t seed, uint32_t number, uint32_t width, uint32_t height,
                 uint8_t *pixels)
{
    struct scene s = {.seed = seed ^ (uint64_t)kind << 40, .number = number};
    double shorter = width < height ? width : height;

    assert(kind < SCENE_KINDS && width > 0 && height > 0);
    set_scene(&s, kind);
    for (uint32_t row = 0; row < height; row++)
        for (uint32_t column = 0; column < width; column++) {
            double x = column / shorter, y = row / shorter, dx, dy, light;
            struct colour c;
            uint8_t *p = pixels + ((size_t)row * width + column) * 3;

            dx = column / (double)width - 0.5;
            dy = row / (double)height - 0.5;
            light = 1.08 - 0.55 * (dx * dx + dy * dy); /* darker corners, as from a lens */
            light += 0.05 * (hashed(&s, (int)column, (int)row, 99) - 0.5); /* film grain */
            if (!kinds[kind].upright)
                x = x * s.scale + 3;
            c = kinds[kind].paint(&s, x * s.cos - y * s.sin, x * s.sin + y * s.cos);
            p[0] = to_byte(c.r * s.hue[0] * light);
            p[1] = to_byte(c.g * s.hue[1] * light);
            p[2] = to_byte(c.b * s.hue[2] * light);
        }
}
