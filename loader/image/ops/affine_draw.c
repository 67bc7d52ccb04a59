/* SPDX-License-Identifier: MIT */
/* affine_draw.c - draws the values of rotate, translate, shear, affine and perspective, like
 * torchvision's RandomRotation, RandomAffine and RandomPerspective. */
#include "config.h"

#include "loader/image/ops/affine_draw.h"

#include "common/order/philox.h"
#include "loader/image/ops/fixed.h"

/* The random words of an operation, in order. */
struct affine_words {
    const struct image_draw *draw;
    uint32_t number; /* index of the next word; each draw has four */
};

static uint32_t next_word(struct affine_words *w)
{
    struct philox_block block = image_draw_words(w->draw, DRAW_OPERATION, w->number / 4);

    return block.word[w->number++ % 4];
}

/* Draw an integer; both ends are included. */
static int64_t between(struct affine_words *w, int64_t low, int64_t high)
{
    return low + philox_below(next_word(w), (uint32_t)(high - low + 1));
}

static int64_t draw_range(struct affine_words *w, const struct rational_signed range[2])
{
    return between(w, fixed_of(range[0].num, range[0].den, AFFINE_BITS),
                   fixed_of(range[1].num, range[1].den, AFFINE_BITS));
}

/* Draw a whole number of pixels, up to a part of a side in either direction. */
static int64_t draw_move(struct affine_words *w, struct rational part, uint32_t side)
{
    int64_t most = fixed_of((int64_t)part.num * side, part.den, AFFINE_BITS);

    return (between(w, -most, most) + (1 << (AFFINE_BITS - 1))) >> AFFINE_BITS;
}

static void draw_parts(const struct pipeline_op *op, struct affine_words *w, uint32_t width,
                       uint32_t height, struct affine *ret)
{
    const struct pipeline_map *map = &op->map;
    struct affine_parts parts = {0};

    parts.degrees = draw_range(w, map->degrees);
    parts.dx = draw_move(w, map->translate[0], width);
    parts.dy = draw_move(w, map->translate[1], height);
    parts.scale = between(w, fixed_of(map->scale[0].num, map->scale[0].den, AFFINE_BITS),
                          fixed_of(map->scale[1].num, map->scale[1].den, AFFINE_BITS));
    parts.shear_x = draw_range(w, map->shear_x);
    parts.shear_y = draw_range(w, map->shear_y);
    if (op->kind == PIPELINE_ROTATE)
        parts.degrees = -parts.degrees; /* counterclockwise */
    affine_of_parts(ret, &parts, width, height);
}

static bool draw_corners(const struct pipeline_op *op, struct affine_words *w, uint32_t width,
                         uint32_t height, struct affine *ret)
{
    const struct rational part = op->map.distortion;
    int64_t x = (int64_t)part.num * (width / 2) / part.den;
    int64_t y = (int64_t)part.num * (height / 2) / part.den;
    int64_t corners[4][2];

    for (int i = 0; i < 4; i++) { /* clockwise from the upper left */
        bool right = i == 1 || i == 2, low = i >= 2;

        corners[i][0] = right ? between(w, width - 1 - x, width - 1) : between(w, 0, x);
        corners[i][1] = low ? between(w, height - 1 - y, height - 1) : between(w, 0, y);
    }
    return affine_of_corners(ret, corners, width, height);
}

bool affine_draw(const struct pipeline_op *op, uint32_t first, const struct image_draw *draw,
                 uint32_t width, uint32_t height, struct affine *ret)
{
    /* The first word decides whether the operation is applied. */
    struct affine_words w = {draw, 4 * first + 1};

    if (op->kind == PIPELINE_PERSPECTIVE) {
        if (!draw_corners(op, &w, width, height, ret))
            return false;
    } else {
        draw_parts(op, &w, width, height, ret);
    }
    ret->bilinear = op->map.bilinear;
    for (int c = 0; c < 3; c++)
        ret->fill[c] = op->map.fill[c];
    return true;
}
