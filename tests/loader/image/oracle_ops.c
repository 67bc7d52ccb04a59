/* SPDX-License-Identifier: MIT */
/* oracle_ops.c - applies the operations after the crop to the whole window, one after another, as
 * docs/pixels.md, 10, defines them. Only the sides of an erased rectangle come from the renderer
 * (crop.c). */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "common/order/philox.h"
#include "tests/loader/image/oracle.h"

typedef uint8_t rgb_t[3];

static uint32_t word(const struct image_draw *d, uint32_t op, uint32_t draw, int i)
{
    return philox_draw(d->seed, d->position, d->epoch, DRAW_OPERATION, 16 * op + draw).word[i];
}

/* Returns a factor times 2^14. */
static int64_t factor(struct pipeline_factors f, uint32_t w)
{
    int64_t a = (2 * 16384 * (int64_t)f.low.num + f.low.den) / (2 * (int64_t)f.low.den);
    int64_t b = (2 * 16384 * (int64_t)f.high.num + f.high.den) / (2 * (int64_t)f.high.den);

    return a + (int64_t)(((uint64_t)w * (uint64_t)(b - a + 1)) >> 32);
}

static uint8_t blend(int64_t from, int64_t to, int64_t f)
{
    int64_t x = from * 16384 + f * (to - from); /* times 2^14 */

    return (uint8_t)(x <= 0 ? 0 : x >= 255 * 16384 ? 255 : x / 16384);
}

static int64_t gray(const rgb_t v)
{
    return (v[0] * 19595 + v[1] * 38470 + v[2] * 7471 + 32768) / 65536;
}

static void colour(enum pipeline_op_kind kind, int64_t f, rgb_t *v, uint32_t w, uint32_t h)
{
    int64_t n = (int64_t)w * h, sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += gray(v[i]);
    for (int64_t i = 0; i < n; i++) {
        int64_t from = kind == PIPELINE_BRIGHTNESS ? 0
                       : kind == PIPELINE_CONTRAST ? (2 * sum + n) / (2 * n)
                                                   : gray(v[i]);

        for (int c = 0; c < 3; c++)
            v[i][c] = blend(from, v[i][c], f);
    }
}

/* Returns a number of turns in units of 1/49152. */
static int64_t turns(struct rational_signed v)
{
    int64_t size = (2 * 49152 * llabs(v.num) + v.den) / (2 * (int64_t)v.den);

    return v.num < 0 ? -size : size;
}

/* Change the hue, by sixths of the colour circle. The hue x is scaled by 32 d. */
static void hue(struct pipeline_turns range, uint32_t w, rgb_t *v, size_t n)
{
    int64_t a = turns(range.low), b = turns(range.high);
    int64_t f = a + (int64_t)(((uint64_t)w * (uint64_t)(b - a + 1)) >> 32);

    if (f < 0)
        f += 49152;
    for (size_t i = 0; i < n; i++) {
        int64_t red = v[i][0], green = v[i][1], blue = v[i][2], rest, d, x, level[4];
        int64_t most = red > green ? red : green, least = red < green ? red : green;
        static const char *const sectors[] = {"vtp", "qvp", "pvt", "pqv", "tpv", "vpq"};

        most = blue > most ? blue : most;
        least = blue < least ? blue : least;
        d = most - least;
        if (d == 0)
            continue;
        x = most == red ? green - blue : most == green ? blue - red + 2 * d : red - green + 4 * d;
        x = (32 * x + d * f / 256 + 192 * d) % (192 * d);
        rest = x % (32 * d);
        level[0] = 32 * most;
        level[1] = 32 * least;
        level[2] = 32 * most - rest;
        level[3] = 32 * least + rest;
        for (int c = 0; c < 3; c++) {
            char which = sectors[x / (32 * d)][c];
            int64_t at = level[which == 'v' ? 0 : which == 'p' ? 1 : which == 'q' ? 2 : 3];

            v[i][c] = (uint8_t)((at + at * 257 / 65536) / 32);
        }
    }
}

/* Returns a / b, rounded to the nearest integer, halves up. */
static int64_t nearest(int64_t a, int64_t b)
{
    return (2 * a + b) / (2 * b);
}

/* Convert a pixel to bytes of hue, saturation and value, apply gains, and convert it back, sector
 * by sector. */
static void gain(int64_t turn, int64_t more, int64_t light, rgb_t v)
{
    int64_t red = v[0], green = v[1], blue = v[2], d, h = 0, s = 0, at, p, q, t;
    int64_t most = red > green ? red : green, least = red < green ? red : green;

    most = blue > most ? blue : most;
    least = blue < least ? blue : least;
    d = most - least;
    if (d > 0) {
        h = most == red     ? nearest(30 * (green - blue) + 180 * d, d)
            : most == green ? nearest(30 * (blue - red) + 60 * d, d)
                            : nearest(30 * (red - green) + 120 * d, d);
        s = nearest(255 * d, most);
    }
    h = (h + turn) % 180;
    s = s * more / 1024 > 255 ? 255 : s * more / 1024;
    most = most * light / 1024 > 255 ? 255 : most * light / 1024;
    at = h % 30;
    p = most * (255 - s) / 255;
    q = most * (7650 - s * at) / 7650;
    t = most * (7650 - s * (30 - at)) / 7650;
    v[0] = (uint8_t)(h < 30 || h >= 150 ? most : h < 60 ? q : h < 120 ? p : t);
    v[1] = (uint8_t)(h >= 30 && h < 90 ? most : h < 30 ? t : h < 120 ? q : p);
    v[2] = (uint8_t)(h >= 90 && h < 150 ? most : h < 60 ? p : h < 90 ? t : q);
}

/* Returns a gain times 2^10. */
static int64_t gain_of(struct pipeline_factors f, uint32_t w)
{
    int64_t a = nearest(1024 * (int64_t)f.low.num, f.low.den);
    int64_t b = nearest(1024 * (int64_t)f.high.num, f.high.den);

    return a + (int64_t)(((uint64_t)w * (uint64_t)(b - a + 1)) >> 32);
}

static void hsv(const struct pipeline_op *op, uint32_t at, const struct image_draw *draw, rgb_t *v,
                size_t n)
{
    int64_t a = turns(op->gains.hue.low), b = turns(op->gains.hue.high);
    int64_t f = a + (int64_t)(((uint64_t)word(draw, at, 0, 1) * (uint64_t)(b - a + 1)) >> 32);
    int64_t more = gain_of(op->gains.part[0], word(draw, at, 0, 2));
    int64_t light = gain_of(op->gains.part[1], word(draw, at, 0, 3));
    int64_t turn = (f < 0 ? f + 49152 : f) * 180 / 49152;

    if (turn == 0 && more == 1024 && light == 1024)
        return;
    for (size_t i = 0; i < n; i++)
        gain(turn, more, light, v[i]);
}

/* Returns exp(-d^2 / (2 sigma^2)) times 2^30; sigma is scaled by 2^14. */
static int64_t bell(int64_t d, int64_t sigma)
{
    static const int64_t a[] = {1073741824, -744261118, 257941248, -59597083, 10327387, -1431680,
                                165394,     -16377,     1419,      -109,      8};
    int64_t e = d * d * (831657068615270156 / (sigma * sigma)), y = 0;
    int64_t whole = e / ((int64_t)1 << 32), z = e % ((int64_t)1 << 32) / 256;

    for (int k = 10; k >= 0; k--)
        y = a[k] + ((y * z) >> 24);
    return whole > 30 ? 0 : y >> whole;
}

/* Get the coefficients c(-r) ... c(r); c[0] is c(-r). */
static void gauss(int64_t r, int64_t sigma, int64_t *c)
{
    int64_t all = 0, rest = 16384;

    for (int64_t d = -r; d <= r; d++)
        all += bell(d, sigma);
    for (int64_t d = r; d > 0; d--) {
        int64_t here = 0, outside = 0;

        for (int64_t k = d; k <= r; k++) {
            here += bell(k, sigma);
            outside += k > d ? bell(k, sigma) : 0;
        }
        c[r + d] = c[r - d] =
            (here * 32768 + all) / (2 * all) - (outside * 32768 + all) / (2 * all);
        rest -= 2 * c[r + d];
    }
    c[r] = rest;
}

static int64_t reflect(int64_t at, int64_t n)
{
    return at < 0 ? -at : at >= n ? 2 * n - 2 - at : at;
}

/* Blur down, then across. */
static void blur(const struct pipeline_op *op, int64_t sigma, rgb_t *v, int64_t width,
                 int64_t height)
{
    int64_t r = op->blur.size / 2, c[99];
    int64_t *down = malloc((size_t)(width * height * 3) * sizeof(*down));

    gauss(r, sigma, c);
    for (int64_t y = 0; y < height; y++)
        for (int64_t x = 0; x < 3 * width; x++) {
            int64_t sum = 128;

            for (int64_t d = -r; d <= r; d++)
                sum += c[r + d] * v[reflect(y + d, height) * width + x / 3][x % 3];
            down[y * 3 * width + x] = sum / 256;
        }
    for (int64_t y = 0; y < height; y++)
        for (int64_t x = 0; x < 3 * width; x++) {
            int64_t sum = (int64_t)1 << 19;

            for (int64_t d = -r; d <= r; d++)
                sum += c[r + d] * down[(y * width + reflect(x / 3 + d, width)) * 3 + x % 3];
            v[y * width + x / 3][x % 3] = (uint8_t)(sum >> 20);
        }
    free(down);
}

static void sharpen(int64_t f, rgb_t *v, uint32_t w, uint32_t h)
{
    size_t bytes = (size_t)w * h * 3;
    rgb_t *from = malloc(bytes);

    memcpy(from, v, bytes);
    for (uint32_t y = 1; y + 1 < h; y++)
        for (uint32_t x = 1; x + 1 < w; x++)
            for (int c = 0; c < 3; c++) {
                int64_t sum = 4 * from[y * w + x][c];

                for (uint32_t i = y - 1; i <= y + 1; i++)
                    for (uint32_t j = x - 1; j <= x + 1; j++)
                        sum += from[i * w + j][c];
                v[y * w + x][c] = blend((2 * sum + 13) / 26, from[y * w + x][c], f);
            }
    free(from);
}

static void remap(enum pipeline_op_kind kind, rgb_t *v, size_t n)
{
    for (int c = 0; c < 3; c++) {
        uint64_t count[256] = {0}, below = 0, step;
        int low = 255, high = 0;

        for (size_t i = 0; i < n; i++) {
            count[v[i][c]]++;
            low = v[i][c] < low ? v[i][c] : low;
            high = v[i][c] > high ? v[i][c] : high;
        }
        step = (n - count[high]) / 255;
        if (high == low || (kind == PIPELINE_EQUALIZE && step == 0))
            continue;
        for (size_t i = 0; i < n; i++) {
            uint8_t value = v[i][c];
            uint64_t to;

            below = 0;
            for (int k = 0; k < value; k++)
                below += count[k];
            to = kind == PIPELINE_EQUALIZE ? (step / 2 + below) / step
                                           : (uint64_t)(255 * (value - low) / (high - low));
            v[i][c] = (uint8_t)(to > 255 ? 255 : to);
        }
    }
}

static void turn(rgb_t *v, uint32_t w, uint32_t h, bool vertical)
{
    for (uint32_t y = 0; y < h; y++)
        for (uint32_t x = 0; x < w; x++) {
            uint32_t a = y * w + x;
            uint32_t b = vertical ? (h - 1 - y) * w + x : y * w + w - 1 - x;
            rgb_t kept;

            if (b <= a)
                continue;
            memcpy(kept, v[a], 3);
            memcpy(v[a], v[b], 3);
            memcpy(v[b], kept, 3);
        }
}

/* A channel of the pixel at (y, x) of an erased rectangle of height x width. */
struct erased {
    uint64_t height, width, y, x;
    int c;
};

/* Returns the value of an erased channel. */
static uint8_t fill(const struct pipeline_op *op, uint32_t at, const struct image_draw *draw,
                    const struct erased *e)
{
    uint32_t j = (uint32_t)((e->c * e->height + e->y) * ((e->width + 3) / 4) + e->x / 4);
    uint32_t h = word(draw, at, 11, 0) + j * (word(draw, at, 11, 1) | 1);

    if (op->erase.fill == PIPELINE_FILL_LEVELS)
        return op->erase.levels[e->c];
    if (op->erase.fill == PIPELINE_FILL_RANDOM)
        return (uint8_t)(word(draw, at, 11, e->c) >> 24);
    h ^= h >> 16;
    h *= 0x85EBCA6B;
    h ^= h >> 13;
    h *= 0xC2B2AE35;
    h ^= h >> 16;
    return (uint8_t)(h >> 8 * (e->x % 4));
}

static void cutout(const struct pipeline_op *op, uint32_t at, const struct image_draw *draw,
                   rgb_t *v, uint32_t w, uint32_t h)
{
    int64_t side = op->number;
    int64_t top = (int64_t)((uint64_t)word(draw, at, 0, 1) * h >> 32) - side / 2;
    int64_t left = (int64_t)((uint64_t)word(draw, at, 0, 2) * w >> 32) - side / 2;

    for (int64_t y = 0; y < h; y++)
        for (int64_t x = 0; x < w; x++)
            if (y >= top && y < top + side && x >= left && x < left + side)
                memset(v[y * w + x], 0, 3);
}

static void erase(const struct pipeline_op *op, uint32_t at, const struct image_draw *draw,
                  rgb_t *v, uint32_t w, uint32_t h)
{
    for (uint32_t try = 1; try <= 10; try++) {
        struct crop_tables tables = {0};
        struct philox_block d =
            philox_draw(draw->seed, draw->position, draw->epoch, DRAW_OPERATION, 16 * at + try);
        uint64_t height, width, top, left;

        crop_draw_sides(&op->erase.shape, (uint64_t)w * h, &d, &tables, &height, &width);
        if (height == 0 || width == 0 || height >= h || width >= w)
            continue;
        top = (d.word[2] * (h - height + 1)) >> 32;
        left = (d.word[3] * (w - width + 1)) >> 32;
        for (uint64_t y = top; y < top + height; y++)
            for (uint64_t x = left; x < left + width; x++)
                for (int c = 0; c < 3; c++)
                    v[y * w + x][c] = fill(
                        op, at, draw,
                        &(struct erased){
                            .height = height, .width = width, .y = y - top, .x = x - left, .c = c});
        return;
    }
}

static void jitter(const struct pipeline_op *op, uint32_t at, const struct image_draw *draw,
                   rgb_t *v, uint32_t w, uint32_t h)
{
    static const char three[6][4] = {"bcs", "bsc", "cbs", "csb", "sbc", "scb"};
    static const char four[24][5] = {"bcsh", "bchs", "bsch", "bshc", "bhcs", "bhsc",
                                     "cbsh", "cbhs", "csbh", "cshb", "chbs", "chsb",
                                     "sbch", "sbhc", "scbh", "schb", "shbc", "shcb",
                                     "hbcs", "hbsc", "hcbs", "hcsb", "hsbc", "hscb"};
    uint64_t drawn = word(draw, at, 1, 0);
    const struct pipeline_turns *range = &op->jitter.hue;
    const char *order =
        range->low.num || range->high.num ? four[drawn * 24 >> 32] : three[drawn * 6 >> 32];

    for (; *order; order++) {
        int part = *order == 'b' ? 0 : *order == 'c' ? 1 : 2;
        static const enum pipeline_op_kind kinds[] = {PIPELINE_BRIGHTNESS, PIPELINE_CONTRAST,
                                                      PIPELINE_SATURATION};

        if (*order == 'h') {
            hue(*range, word(draw, at, 1, 1), v, (size_t)w * h);
            continue;
        }
        colour(kinds[part], factor(op->jitter.part[part], word(draw, at, 0, 1 + part)), v, w, h);
    }
}

/* Apply one operation. */
static void operate(const struct pipeline_op *op, uint32_t at, const struct image_draw *draw,
                    uint8_t *pixels, uint32_t w, uint32_t h)
{
    uint32_t drawn = word(draw, at, 0, 1);
    size_t n = (size_t)w * h;
    rgb_t *v = (rgb_t *)pixels;

    switch (op->kind) {
    case PIPELINE_FLIP:
    case PIPELINE_VERTICAL_FLIP:
        turn(v, w, h, op->kind == PIPELINE_VERTICAL_FLIP);
        break;
    case PIPELINE_COLOR_JITTER:
        jitter(op, at, draw, v, w, h);
        break;
    case PIPELINE_BRIGHTNESS:
    case PIPELINE_CONTRAST:
    case PIPELINE_SATURATION:
        colour(op->kind, factor(op->factors, drawn), v, w, h);
        break;
    case PIPELINE_HUE:
        hue(op->turns, drawn, v, n);
        break;
    case PIPELINE_HSV:
        hsv(op, at, draw, v, n);
        break;
    case PIPELINE_BLUR:
        blur(op, factor(op->blur.sigma, drawn), v, w, h);
        break;
    case PIPELINE_SHARPNESS:
        sharpen(factor(op->factors, drawn), v, w, h);
        break;
    case PIPELINE_GRAYSCALE:
        for (size_t i = 0; i < n; i++)
            memset(v[i], (int)gray(v[i]), 3);
        break;
    case PIPELINE_INVERT:
    case PIPELINE_SOLARIZE:
        for (size_t i = 0; i < 3 * n; i++)
            if (op->kind == PIPELINE_INVERT || pixels[i] >= op->number)
                pixels[i] = (uint8_t)(255 - pixels[i]);
        break;
    case PIPELINE_POSTERIZE:
        for (size_t i = 0; i < 3 * n; i++)
            pixels[i] = (uint8_t)(pixels[i] >> (8 - op->number) << (8 - op->number));
        break;
    case PIPELINE_EQUALIZE:
    case PIPELINE_AUTOCONTRAST:
        remap(op->kind, v, n);
        break;
    case PIPELINE_CUTOUT:
        cutout(op, at, draw, v, w, h);
        break;
    case PIPELINE_ERASE:
        erase(op, at, draw, v, w, h);
        break;
    case PIPELINE_ROTATE:
    case PIPELINE_TRANSLATE:
    case PIPELINE_SHEAR:
    case PIPELINE_AFFINE:
    case PIPELINE_PERSPECTIVE:
        oracle_map(op, at, draw, pixels, w, h);
        break;
    default:
        abort();
    }
}

/* Apply what a policy drew. */
static void act(const struct oracle_action *action, uint8_t *pixels, uint32_t w, uint32_t h)
{
    static const struct {
        const char *name;
        enum pipeline_op_kind kind;
    } kinds[] = {
        {"Brightness", PIPELINE_BRIGHTNESS},
        {"Color", PIPELINE_SATURATION},
        {"Contrast", PIPELINE_CONTRAST},
        {"Sharpness", PIPELINE_SHARPNESS},
        {"Posterize", PIPELINE_POSTERIZE},
        {"Solarize", PIPELINE_SOLARIZE},
        {"AutoContrast", PIPELINE_AUTOCONTRAST},
        {"Equalize", PIPELINE_EQUALIZE},
        {"Invert", PIPELINE_INVERT},
    };
    const struct image_draw none = {0};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(action->name, kinds[i].name) == 0) {
            const struct rational f = {(uint32_t)action->amount, 16384};
            struct pipeline_op op = {.kind = kinds[i].kind, .factors = {f, f}};

            if (pipeline_op_arguments(op.kind) == PIPELINE_NUMBER)
                op.number = (uint32_t)action->amount;
            operate(&op, 0, &none, pixels, w, h);
            return;
        }
    if (strcmp(action->name, "SolarizeAdd") == 0) {
        for (size_t i = 0; i < (size_t)w * h * 3; i++)
            if (pixels[i] < 128)
                pixels[i] = (uint8_t)(pixels[i] + action->amount);
    } else if (strcmp(action->name, "Identity") != 0) {
        oracle_move(action, pixels, w, h);
    }
}

static void mix(const struct pipeline_op *op, uint32_t at, const struct image_draw *draw,
                uint8_t *pixels, uint32_t w, uint32_t h)
{
    size_t bytes = (size_t)w * h * 3;
    uint64_t *sum = malloc(bytes * sizeof(*sum));
    uint8_t *chain = malloc(bytes);
    struct oracle_action action;

    for (size_t i = 0; i < bytes; i++)
        sum[i] = pixels[i] * oracle_mix_weight(op, at, draw, 0);
    for (uint32_t c = 0; c < op->policy.count; c++) {
        memcpy(chain, pixels, bytes);
        for (uint32_t k = 0;
             oracle_chain_next(&(struct oracle_policy){op, at, draw, w, h}, c, k, &action); k++)
            act(&action, chain, w, h);
        for (size_t i = 0; i < bytes; i++)
            sum[i] += chain[i] * oracle_mix_weight(op, at, draw, 1 + c);
    }
    for (size_t i = 0; i < bytes; i++)
        pixels[i] = (uint8_t)(sum[i] / 65536);
    free(chain);
    free(sum);
}

static bool happens(const struct pipeline_op *op, uint32_t at, const struct image_draw *draw)
{
    return (uint64_t)word(draw, at, 0, 0) * op->p.den < (uint64_t)op->p.num << 32;
}

void oracle_operate(const struct pipeline *pipeline, const struct image_draw *draw, uint8_t *pixels)
{
    uint32_t w = pipeline->width, h = pipeline->height, end = 0, list = 0;

    for (uint32_t at = 0; at < pipeline->ops_count; at++) {
        const struct pipeline_op *op = &pipeline->ops[at];
        struct oracle_action action;

        if (at < end && op->list != list) /* the operation belongs to another list */
            continue;
        if (!happens(op, at, draw)) {
            at += op->kind == PIPELINE_ONE_OF ? op->one_of.count : 0;
        } else if (op->kind == PIPELINE_ONE_OF) {
            end = at + 1 + op->one_of.count;
            list = (uint32_t)((uint64_t)word(draw, at, 0, 1) * op->one_of.lists >> 32);
        } else if (op->kind == PIPELINE_AUGMIX) {
            mix(op, at, draw, pixels, w, h);
        } else if (oracle_policy_next(&(struct oracle_policy){op, at, draw, w, h}, 0, &action)) {
            for (uint32_t k = 0;
                 oracle_policy_next(&(struct oracle_policy){op, at, draw, w, h}, k, &action); k++)
                act(&action, pixels, w, h);
        } else {
            operate(op, at, draw, pixels, w, h);
        }
    }
}
