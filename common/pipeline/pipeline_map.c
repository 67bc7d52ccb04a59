/* SPDX-License-Identifier: MIT */
/* pipeline_map.c - operations that move pixels: rotate, translate, shear, affine, perspective. */
#include "config.h"

#include <errno.h>
#include <stdio.h>

#include "common/pipeline/pipeline_priv.h"

static bool is_between(int32_t least, struct rational_signed low, struct rational_signed high,
                       int32_t most)
{
    return !rational_signed_less(low, (struct rational_signed){least, 1}) &&
           !rational_signed_less(high, low) &&
           !rational_signed_less((struct rational_signed){most, 1}, high);
}

/* Parse "low:high", or x for -x:x. */
static int parse_spread(struct parser *p, struct rational_signed ret[2])
{
    int r = parser_signed(p, &ret[0]);

    if (r < 0)
        return r;
    if (parser_char(p, ':'))
        return parser_signed(p, &ret[1]);
    ret[1] = ret[0];
    ret[0].num = -ret[0].num;
    return 0;
}

static int parse_degrees(struct parser *p, struct pipeline_map *map)
{
    int r = parse_spread(p, map->degrees);

    if (r == 0 && !is_between(-360, map->degrees[0], map->degrees[1], 360))
        return parser_error(p, "degrees must be low:high with -360 <= low <= high <= 360");
    return r;
}

/* Parse degrees along x, and optionally along y after another colon. */
static int parse_shear(struct parser *p, struct pipeline_map *map)
{
    int r = parse_spread(p, map->shear_x);

    if (r == 0 && parser_char(p, ':')) {
        r = parser_signed(p, &map->shear_y[0]);
        if (r == 0)
            r = parser_char(p, ':')
                    ? parser_signed(p, &map->shear_y[1])
                    : parser_error(
                          p, "write shear as low:high along x, or low:high:low:high along x and y");
    }
    if (r == 0 && (!is_between(-89, map->shear_x[0], map->shear_x[1], 89) ||
                   !is_between(-89, map->shear_y[0], map->shear_y[1], 89)))
        return parser_error(p, "degrees of a shear must be low:high with -89 <= low <= high <= 89");
    return r;
}

static int parse_part(struct parser *p, struct rational *ret)
{
    int r = parser_rational(p, ret);

    return r == 0 && ret->num > ret->den ? parser_error(p, "a fraction must be from 0 to 1") : r;
}

/* Parse "x:y"; or, if translate() has nothing else, "x, y". */
static int parse_translate(struct parser *p, char between, struct pipeline_map *map)
{
    int r = parse_part(p, &map->translate[0]);

    if (r < 0)
        return r;
    if (!parser_char(p, between))
        return parser_error(p, "translate takes fractions of the width and the height, as in "
                               "translate(0.1, 0.1) or translate=0.1:0.1");
    return parse_part(p, &map->translate[1]);
}

static int parse_scale(struct parser *p, struct pipeline_map *map)
{
    const struct rational least = {1, 100}, most = {100, 1};
    int r = parser_range(p, &map->scale[0], &map->scale[1]);

    if (r == 0 &&
        (rational_less(map->scale[0], least) || rational_less(map->scale[1], map->scale[0]) ||
         rational_less(most, map->scale[1])))
        return parser_error(p, "scale must be low:high with 1/100 <= low <= high <= 100");
    return r;
}

int parser_map_interpolation(struct parser *p, bool *bilinear)
{
    *bilinear = parser_word(p, "bilinear");
    if (!*bilinear && !parser_word(p, "nearest"))
        return parser_error(p, "interpolation of this operation must be nearest or bilinear");
    return 0;
}

int parser_levels(struct parser *p, uint8_t ret[3])
{
    for (int i = 0; i < 3; i++) {
        struct rational level;
        int r;

        if (i > 0 && !parser_char(p, ':')) {
            if (i > 1)
                return parser_error(p, "write one level (128), or red:green:blue");
            ret[1] = ret[2] = ret[0];
            return 0;
        }
        r = parser_rational(p, &level);
        if (r < 0)
            return r;
        if (level.den != 1 || level.num > 255)
            return parser_error(p, "a level must be a whole number from 0 to 255");
        ret[i] = (uint8_t)level.num;
    }
    return 0;
}

/* Parse the named arguments. */
static int parse_named(struct parser *p, struct pipeline_op *op)
{
    struct pipeline_map *map = &op->map;
    bool affine = op->kind == PIPELINE_AFFINE;

    if (parser_key(p, "p"))
        return parser_probability(p, &op->p);
    if (parser_key(p, "interpolation"))
        return parser_map_interpolation(p, &map->bilinear);
    if (parser_key(p, "fill"))
        return parser_levels(p, map->fill);
    if (affine && parser_key(p, "translate"))
        return parse_translate(p, ':', map);
    if (affine && parser_key(p, "scale"))
        return parse_scale(p, map);
    if (affine && parser_key(p, "shear"))
        return parse_shear(p, map);
    return parser_error(p, p->takes);
}

int pipeline_parse_map(struct parser *p, struct pipeline_op *op)
{
    const struct rational_signed none = {0, 1};
    int r;

    op->map = (struct pipeline_map){
        .degrees = {none, none},
        .translate = {{0, 1}, {0, 1}},
        .scale = {{1, 1}, {1, 1}},
        .shear_x = {none, none},
        .shear_y = {none, none},
        .bilinear = op->kind == PIPELINE_PERSPECTIVE,
    };
    switch (op->kind) {
    case PIPELINE_TRANSLATE:
        r = parse_translate(p, ',', &op->map);
        break;
    case PIPELINE_SHEAR:
        r = parse_shear(p, &op->map);
        break;
    case PIPELINE_PERSPECTIVE:
        r = parse_part(p, &op->map.distortion);
        break;
    default:
        r = parse_degrees(p, &op->map);
        break;
    }
    while (r == 0 && parser_char(p, ','))
        r = parse_named(p, op);
    return r;
}

static void write_shear(FILE *f, const struct pipeline_map *map)
{
    rational_signed_write_range(f, map->shear_x[0], map->shear_x[1]);
    if (map->shear_y[0].num == 0 && map->shear_y[1].num == 0)
        return;
    (void)fputc(':', f);
    rational_signed_write_range(f, map->shear_y[0], map->shear_y[1]);
}

static void write_translate(FILE *f, char between, const struct pipeline_map *map)
{
    rational_write(f, map->translate[0]);
    (void)fputc(between, f);
    rational_write(f, map->translate[1]);
}

void pipeline_write_map(FILE *f, const struct pipeline_op *op)
{
    const struct pipeline_map *map = &op->map;

    switch (op->kind) {
    case PIPELINE_TRANSLATE:
        write_translate(f, ',', map);
        break;
    case PIPELINE_SHEAR:
        write_shear(f, map);
        break;
    case PIPELINE_PERSPECTIVE:
        rational_write(f, map->distortion);
        break;
    default:
        rational_signed_write_range(f, map->degrees[0], map->degrees[1]);
        break;
    }
    if (op->kind == PIPELINE_AFFINE) {
        (void)fputs(",translate=", f);
        write_translate(f, ':', map);
        (void)fputs(",scale=", f);
        rational_write_range(f, map->scale[0], map->scale[1]);
        (void)fputs(",shear=", f);
        write_shear(f, map);
    }
    if (map->bilinear != (op->kind == PIPELINE_PERSPECTIVE))
        (void)fprintf(f, ",interpolation=%s", map->bilinear ? "bilinear" : "nearest");
    if (map->fill[0] || map->fill[1] || map->fill[2])
        (void)fprintf(f, ",fill=%u:%u:%u", map->fill[0], map->fill[1], map->fill[2]);
}
