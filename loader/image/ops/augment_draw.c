/* SPDX-License-Identifier: MIT */
/* augment_draw.c - draws which operations are applied to a sample, their strengths and positions.
 *
 * Mirroring costs no pass: the resize swaps left and right, and storing rows in reverse order swaps
 * top and bottom. Most operations do not depend on it; an erased rectangle is placed where it will
 * be visible, and operations that move pixels use the direction that will be visible. */
#include "config.h"

#include <assert.h>
#include <string.h>

#include "common/pipeline/philox.h"
#include "loader/image/ops/affine_draw.h"
#include "loader/image/ops/augment.h"
#include "loader/image/ops/augment_draw.h"
#include "loader/image/ops/augment_loops.h"
#include "loader/image/ops/fixed.h"
#include "loader/image/ops/policy.h"

enum { ERASE_TRIES = 10 };

static uint32_t to_factor(struct rational r)
{
    return (uint32_t)fixed_of(r.num, r.den, AUGMENT_BITS);
}

/* Draw a factor from a range; both ends are included. */
static uint32_t draw_factor(struct rational low, struct rational high, uint32_t word)
{
    uint32_t from = to_factor(low);

    assert(from <= to_factor(high));
    return from + philox_below(word, to_factor(high) - from + 1);
}

static int32_t to_turn(struct rational_signed r)
{
    uint64_t size = (uint64_t)(r.num < 0 ? -(int64_t)r.num : r.num);
    int32_t v = (int32_t)((2 * AUGMENT_TURN * size + r.den) / (2 * (uint64_t)r.den));

    return r.num < 0 ? -v : v;
}

/* Draw a turn from a range, both ends included; negative turns become the equal positive ones. */
static uint32_t draw_turn(const struct pipeline_op *op, uint32_t word)
{
    int32_t from = to_turn(op->hue_low), count = to_turn(op->hue_high) - from + 1;
    int32_t v;

    assert(count > 0);
    v = from + (int32_t)philox_below(word, (uint32_t)count);
    return (uint32_t)(v < 0 ? v + AUGMENT_TURN : v);
}

/* Draw brightness, contrast, saturation and possibly hue, in one of the orders of these parts. The
 * orders are numbered lexicographically. */
static void draw_jitter(const struct pipeline_op *op, uint32_t at, const struct image_draw *draw,
                        const struct philox_block *d, struct augment_plan *plan)
{
    static const enum pipeline_op_kind kinds[4] = {PIPELINE_BRIGHTNESS, PIPELINE_CONTRAST,
                                                   PIPELINE_SATURATION, PIPELINE_HUE};
    struct philox_block more = draw_words(draw, at, 1);
    uint32_t count = pipeline_has_hue(op) ? 4 : 3, orders = count == 4 ? 24 : 6;
    uint32_t order = philox_below(more.word[0], orders);
    uint8_t left[4] = {0, 1, 2, 3};

    for (; count > 0; count--) {
        uint32_t next, part, number;

        orders /= count;
        next = order / orders;
        order %= orders;
        part = left[next];
        memmove(left + next, left + next + 1, count - next - 1);
        number = part == 3 ? draw_turn(op, more.word[1])
                           : draw_factor(op->low[part], op->high[part], d->word[1 + part]);
        if (number != (part == 3 ? 0 : 1 << AUGMENT_BITS)) /* otherwise nothing changes */
            add_step(plan, kinds[part], number);
    }
}

/* Like torchvision's RandomErasing: up to ten tries for a rectangle smaller than the window. */
static bool draw_erased(const struct pipeline *pipeline, uint32_t at, const struct image_draw *draw,
                        struct crop_tables *ratios, struct rect *ret)
{
    const uint32_t window_width = pipeline->width, window_height = pipeline->height;

    for (uint32_t try = 0; try < ERASE_TRIES; try++) {
        struct philox_block d = draw_words(draw, at, 1 + try);
        uint64_t height, width;

        crop_draw_sides(&pipeline->ops[at].shape, (uint64_t)window_width * window_height, &d,
                        ratios, &height, &width);
        if (height == 0 || width == 0 || height >= window_height || width >= window_width)
            continue;
        *ret = (struct rect){
            .left = philox_below(d.word[3], window_width - (uint32_t)width + 1),
            .top = philox_below(d.word[2], window_height - (uint32_t)height + 1),
            .width = (uint32_t)width,
            .height = (uint32_t)height,
        };
        return true;
    }
    return false;
}

static bool is_erased(const struct augment_step *step)
{
    return step->kind == PIPELINE_ERASE || step->kind == PIPELINE_CUTOUT;
}

static void mirror_step(struct augment_step *step, uint32_t width)
{
    assert(!is_erased(step) || step->rect.left + step->rect.width <= width);
    step->mirror = !step->mirror;
    if (is_erased(step))
        step->rect.left = width - step->rect.left - step->rect.width;
    else if (step->kind == PIPELINE_AFFINE)
        affine_mirror(&step->map, width);
}

static void turn_step(struct augment_step *step, uint32_t height)
{
    assert(!is_erased(step) || step->rect.top + step->rect.height <= height);
    step->upside_down = !step->upside_down;
    if (is_erased(step))
        step->rect.top = height - step->rect.top - step->rect.height;
    else if (step->kind == PIPELINE_AFFINE)
        affine_turn_upside_down(&step->map, height);
}

/* Returns a square around a pixel, clipped to the window. */
static struct rect cut_out(uint32_t side, const struct philox_block *d,
                           const struct pipeline *pipeline)
{
    int64_t top = (int64_t)philox_below(d->word[1], pipeline->height) - side / 2;
    int64_t left = (int64_t)philox_below(d->word[2], pipeline->width) - side / 2;
    int64_t bottom = top + side < pipeline->height ? top + side : pipeline->height;
    int64_t right = left + side < pipeline->width ? left + side : pipeline->width;

    top = top < 0 ? 0 : top;
    left = left < 0 ? 0 : left;
    assert(top <= bottom && left <= right);
    return (struct rect){
        .left = (uint32_t)left,
        .top = (uint32_t)top,
        .width = (uint32_t)(right - left),
        .height = (uint32_t)(bottom - top),
    };
}

static void add_erased(const struct pipeline_op *op, uint32_t at, const struct image_draw *draw,
                       struct rect rect, struct augment_plan *plan)
{
    struct philox_block d = draw_words(draw, at, 1 + ERASE_TRIES);
    uint32_t levels = op->kind == PIPELINE_CUTOUT ? 0 : op->number;
    struct augment_step *step;

    if (op->fill == PIPELINE_FILL_RANDOM)
        levels = d.word[0] >> 24 | d.word[1] >> 24 << 8 | d.word[2] >> 24 << 16;
    add_step(plan, op->kind, levels);
    step = &plan->steps[plan->count - 1];
    step->rect = rect;
    step->fill = op->fill;
    step->key[0] = d.word[0];
    step->key[1] = d.word[1] | 1;
}

static void draw_steps(struct crop_tables *ratios, const struct pipeline *pipeline, uint32_t at,
                       const struct image_draw *draw, struct augment_plan *plan)
{
    const struct pipeline_op *op = &pipeline->ops[at];
    struct philox_block d = draw_words(draw, at, 0);
    struct affine map;
    struct rect rect;

    if (!rational_happens(op->p, d.word[0]))
        return;
    switch (op->kind) {
    case PIPELINE_FLIP:
        plan->mirror = !plan->mirror;
        return;
    case PIPELINE_VERTICAL_FLIP:
        plan->upside_down = !plan->upside_down;
        return;
    case PIPELINE_COLOR_JITTER:
        draw_jitter(op, at, draw, &d, plan);
        return;
    case PIPELINE_BRIGHTNESS:
    case PIPELINE_CONTRAST:
    case PIPELINE_SATURATION:
    case PIPELINE_SHARPNESS:
        add_step(plan, op->kind, draw_factor(op->low[0], op->high[0], d.word[1]));
        return;
    case PIPELINE_BLUR:
        add_step(plan, op->kind, draw_factor(op->low[0], op->high[0], d.word[1]));
        plan->steps[plan->count - 1].size = op->number;
        return;
    case PIPELINE_HUE:
        add_step(plan, op->kind, draw_turn(op, d.word[1]));
        return;
    case PIPELINE_ERASE:
        if (draw_erased(pipeline, at, draw, ratios, &rect))
            add_erased(op, at, draw, rect, plan);
        return;
    case PIPELINE_CUTOUT:
        add_erased(op, at, draw, cut_out(op->number, &d, pipeline), plan);
        return;
    case PIPELINE_ROTATE:
    case PIPELINE_TRANSLATE:
    case PIPELINE_SHEAR:
    case PIPELINE_AFFINE:
    case PIPELINE_PERSPECTIVE:
        if (!affine_draw(op, DRAWS * at, draw, pipeline->width, pipeline->height, &map))
            return;
        add_step(plan, PIPELINE_AFFINE, 0);
        plan->steps[plan->count - 1].map = map;
        return;
    case PIPELINE_RAND_AUGMENT:
    case PIPELINE_TRIVIAL_AUGMENT_WIDE:
    case PIPELINE_AUTO_AUGMENT:
    case PIPELINE_AUGMIX:
        policy_draw(op, at, draw, pipeline->width, pipeline->height, plan);
        return;
    default:
        add_step(plan, op->kind, op->number);
        return;
    }
}

/* Draw an operation as if all flips came before it; later flips are corrected at the end. */
static void draw_op(struct crop_tables *ratios, const struct pipeline *pipeline, uint32_t at,
                    const struct image_draw *draw, struct augment_plan *plan)
{
    uint32_t first = plan->count;

    draw_steps(ratios, pipeline, at, draw, plan);
    for (uint32_t i = first; i < plan->count; i++) {
        if (plan->mirror)
            mirror_step(&plan->steps[i], pipeline->width);
        if (plan->upside_down)
            turn_step(&plan->steps[i], pipeline->height);
    }
}

/* Draw one of the lists of one_of. */
static void draw_one_of(struct crop_tables *ratios, const struct pipeline *pipeline, uint32_t at,
                        const struct image_draw *draw, struct augment_plan *plan)
{
    const struct pipeline_op *op = &pipeline->ops[at];
    struct philox_block d = draw_words(draw, at, 0);
    uint32_t list = philox_below(d.word[1], op->policy.lists);

    if (!rational_happens(op->p, d.word[0]))
        return;
    for (uint32_t i = at + 1; i <= at + op->policy.count; i++)
        if (pipeline->ops[i].list == list)
            draw_op(ratios, pipeline, i, draw, plan);
}

void augment_draw(const struct pipeline *pipeline, const struct image_draw *draw,
                  struct crop_tables *ratios, struct augment_plan *ret)
{
    ret->count = 0;
    ret->mixed = 0;
    ret->mirror = ret->upside_down = false;
    for (uint32_t i = 0; i < pipeline->ops_count; i++)
        if (pipeline->ops[i].kind == PIPELINE_ONE_OF) {
            draw_one_of(ratios, pipeline, i, draw, ret);
            i += pipeline->ops[i].policy.count;
        } else {
            draw_op(ratios, pipeline, i, draw, ret);
        }
    /* In memory, left and right are already in their final order; top and bottom are not yet. */
    for (uint32_t i = 0; ret->mirror && i < ret->count; i++)
        mirror_step(&ret->steps[i], pipeline->width);
}
