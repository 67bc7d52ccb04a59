/* SPDX-License-Identifier: MIT */
/* augment_draw.c - draws which operations are applied to a sample, their strengths and positions.
 *
 * Mirroring takes no separate pass: the resize swaps left and right, and storing rows in reverse
 * order swaps top and bottom. Most operations do not depend on mirroring; an erased rectangle is
 * placed where it will be visible, and operations that move pixels use the direction that will be
 * visible. */
#include "config.h"

#include <assert.h>
#include <string.h>

#include "common/order/philox.h"
#include "loader/image/ops/affine_draw.h"
#include "loader/image/ops/augment.h"
#include "loader/image/ops/augment_draw.h"
#include "loader/image/ops/augment_loops.h"
#include "loader/image/ops/fixed.h"
#include "loader/image/ops/policy.h"

enum { ERASE_TRIES = 10 };

/* Draw a number with these fraction bits from a range; both ends are included. */
static uint32_t draw_fixed(const struct pipeline_factors *range, unsigned bits, uint32_t word)
{
    uint32_t from = (uint32_t)fixed_of(range->low.num, range->low.den, bits);
    uint32_t to = (uint32_t)fixed_of(range->high.num, range->high.den, bits);

    assert(from <= to);
    return from + philox_below(word, to - from + 1);
}

static uint32_t draw_factor(const struct pipeline_factors *range, uint32_t word)
{
    return draw_fixed(range, AUGMENT_BITS, word);
}

static uint32_t draw_gain(const struct pipeline_factors *range, uint32_t word)
{
    return draw_fixed(range, AUGMENT_GAIN_BITS, word);
}

static int32_t to_turn(struct rational_signed r)
{
    uint64_t size = (uint64_t)(r.num < 0 ? -(int64_t)r.num : r.num);
    int32_t v = (int32_t)((2 * AUGMENT_TURN * size + r.den) / (2 * (uint64_t)r.den));

    return r.num < 0 ? -v : v;
}

/* Draw a turn from a range, both ends included. Returns it as a non-negative number. */
static uint32_t draw_turn(const struct pipeline_turns *range, uint32_t word)
{
    int32_t from = to_turn(range->low), count = to_turn(range->high) - from + 1;
    int32_t v;

    assert(count > 0);
    v = from + (int32_t)philox_below(word, (uint32_t)count);
    return (uint32_t)(v < 0 ? v + AUGMENT_TURN : v);
}

static bool is_erased(const struct augment_step *step)
{
    return step->kind == PIPELINE_ERASE || step->kind == PIPELINE_CUTOUT;
}

static void mirror_step(struct augment_step *step, uint32_t width)
{
    if (is_erased(step)) {
        assert(step->erase.rect.left + step->erase.rect.width <= width);
        step->erase.rect.left = width - step->erase.rect.left - step->erase.rect.width;
        step->erase.mirror = !step->erase.mirror;
    } else if (step->kind == PIPELINE_AFFINE) {
        affine_mirror(&step->map, width);
    }
}

static void turn_step(struct augment_step *step, uint32_t height)
{
    if (is_erased(step)) {
        assert(step->erase.rect.top + step->erase.rect.height <= height);
        step->erase.rect.top = height - step->erase.rect.top - step->erase.rect.height;
        step->erase.upside_down = !step->erase.upside_down;
    } else if (step->kind == PIPELINE_AFFINE) {
        affine_turn_upside_down(&step->map, height);
    }
}

/* An operation that is drawn for a sample. */
struct drawing {
    const struct pipeline *pipeline;
    const struct image_draw *draw;
    struct crop_tables *ratios; /* kept from image to image */
    struct augment_plan *plan;
    uint32_t at; /* its number in the text */
    const struct pipeline_op *op;
    struct philox_block d; /* its first draw, whose first word decides whether it is applied */
};

static void draw_plain(const struct drawing *to)
{
    add_step(to->plan, to->op->kind, 0);
}

static void draw_turned(const struct drawing *to)
{
    bool *turned = to->op->kind == PIPELINE_FLIP ? &to->plan->mirror : &to->plan->upside_down;

    *turned = !*turned;
}

static void draw_factors(const struct drawing *to)
{
    add_step(to->plan, to->op->kind, draw_factor(&to->op->factors, to->d.word[1]));
}

static void draw_hues(const struct drawing *to)
{
    add_step(to->plan, to->op->kind, draw_turn(&to->op->turns, to->d.word[1]));
}

static void draw_number(const struct drawing *to)
{
    add_step(to->plan, to->op->kind, to->op->number);
}

static void draw_kernel(const struct drawing *to)
{
    struct augment_step *step = add_step(to->plan, to->op->kind, 0);

    step->blur.size = to->op->blur.size;
    step->blur.sigma = draw_factor(&to->op->blur.sigma, to->d.word[1]);
}

/* Draw the gains of hue, saturation and value. */
static void draw_gains(const struct drawing *to)
{
    const struct pipeline_factors *part = to->op->gains.part;
    uint32_t turn = draw_turn(&to->op->gains.hue, to->d.word[1]);
    uint32_t number =
        augment_gains(turn * AUGMENT_HUES / AUGMENT_TURN, draw_gain(&part[0], to->d.word[2]),
                      draw_gain(&part[1], to->d.word[3]));

    if (number != augment_gains(0, 1 << AUGMENT_GAIN_BITS, 1 << AUGMENT_GAIN_BITS))
        add_step(to->plan, to->op->kind, number);
}

/* Draw brightness, contrast, saturation and possibly hue, in one of the orders of these parts. The
 * orders are numbered lexicographically. */
static void draw_jitter(const struct drawing *to)
{
    static const enum pipeline_op_kind kinds[4] = {PIPELINE_BRIGHTNESS, PIPELINE_CONTRAST,
                                                   PIPELINE_SATURATION, PIPELINE_HUE};
    const struct pipeline_op *op = to->op;
    struct philox_block more = draw_words(to->draw, to->at, 1);
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
        number = part == 3 ? draw_turn(&op->jitter.hue, more.word[1])
                           : draw_factor(&op->jitter.part[part], to->d.word[1 + part]);
        if (number != (part == 3 ? 0 : 1 << AUGMENT_BITS)) /* otherwise it changes nothing */
            add_step(to->plan, kinds[part], number);
    }
}

/* Add a step that fills `rect`. Returns it, with levels of 0. */
static struct augment_step *add_erased(const struct drawing *to, struct rect rect,
                                       enum pipeline_fill fill, const struct philox_block *d)
{
    struct augment_step *step = add_step(to->plan, to->op->kind, 0);

    memset(&step->erase, 0, sizeof(step->erase));
    step->erase.rect = rect;
    step->erase.fill = fill;
    step->erase.key[0] = d->word[0];
    step->erase.key[1] = d->word[1] | 1;
    return step;
}

/* Draw a rectangle like torchvision's RandomErasing, with up to ten tries for one that is smaller
 * than the window. */
static bool draw_rect(const struct drawing *to, struct rect *ret)
{
    const uint32_t window_width = to->pipeline->width, window_height = to->pipeline->height;

    for (uint32_t try = 0; try < ERASE_TRIES; try++) {
        struct philox_block d = draw_words(to->draw, to->at, 1 + try);
        uint64_t height, width;

        crop_draw_sides(&to->op->erase.shape, (uint64_t)window_width * window_height, &d,
                        to->ratios, &height, &width);
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

static void draw_rectangle(const struct drawing *to)
{
    struct philox_block d = draw_words(to->draw, to->at, 1 + ERASE_TRIES);
    enum pipeline_fill fill = to->op->erase.fill;
    struct augment_step *step;
    struct rect rect;

    if (!draw_rect(to, &rect))
        return;
    step = add_erased(to, rect, fill, &d);
    for (int c = 0; c < 3; c++)
        step->erase.levels[c] =
            fill == PIPELINE_FILL_RANDOM ? (uint8_t)(d.word[c] >> 24) : to->op->erase.levels[c];
}

/* Draw a square around a pixel, clipped to the window. */
static void draw_square(const struct drawing *to)
{
    const struct pipeline *pipeline = to->pipeline;
    const uint32_t side = to->op->number;
    int64_t top = (int64_t)philox_below(to->d.word[1], pipeline->height) - side / 2;
    int64_t left = (int64_t)philox_below(to->d.word[2], pipeline->width) - side / 2;
    int64_t bottom = top + side < pipeline->height ? top + side : pipeline->height;
    int64_t right = left + side < pipeline->width ? left + side : pipeline->width;
    struct rect rect;

    top = top < 0 ? 0 : top;
    left = left < 0 ? 0 : left;
    assert(top <= bottom && left <= right);
    rect = (struct rect){
        .left = (uint32_t)left,
        .top = (uint32_t)top,
        .width = (uint32_t)(right - left),
        .height = (uint32_t)(bottom - top),
    };
    (void)add_erased(to, rect, PIPELINE_FILL_LEVELS, &to->d);
}

static void draw_map(const struct drawing *to)
{
    struct affine map;

    if (affine_draw(to->op, DRAWS * to->at, to->draw, to->pipeline->width, to->pipeline->height,
                    &map))
        add_step(to->plan, PIPELINE_AFFINE, 0)->map = map;
}

static void draw_policy(const struct drawing *to)
{
    policy_draw(to->op, to->at, to->draw, to->pipeline->width, to->pipeline->height, to->plan);
}

static void (*const draws[PIPELINE_ARGUMENTS])(const struct drawing *to) = {
    [PIPELINE_PLAIN] = draw_plain,     [PIPELINE_TURNED] = draw_turned,
    [PIPELINE_FACTORS] = draw_factors, [PIPELINE_HUES] = draw_hues,
    [PIPELINE_JITTER] = draw_jitter,   [PIPELINE_GAINS] = draw_gains,
    [PIPELINE_KERNEL] = draw_kernel,   [PIPELINE_NUMBER] = draw_number,
    [PIPELINE_SQUARE] = draw_square,   [PIPELINE_RECTANGLE] = draw_rectangle,
    [PIPELINE_MAP] = draw_map,         [PIPELINE_POLICY] = draw_policy,
};

/* Begin operation `at` of the text. Returns whether it is applied. */
static bool begin(struct drawing *to, uint32_t at)
{
    to->at = at;
    to->op = &to->pipeline->ops[at];
    to->d = draw_words(to->draw, at, 0);
    return rational_happens(to->op->p, to->d.word[0]);
}

/* Draw an operation as if all flips came before it; later flips are corrected at the end. */
static void draw_op(struct drawing *to, uint32_t at)
{
    uint32_t first = to->plan->count;

    if (!begin(to, at))
        return;
    draws[pipeline_op_arguments(to->op->kind)](to);
    for (struct augment_step *step = &to->plan->steps[first];
         step < &to->plan->steps[to->plan->count]; step++) {
        if (to->plan->mirror)
            mirror_step(step, to->pipeline->width);
        if (to->plan->upside_down)
            turn_step(step, to->pipeline->height);
    }
}

/* Draw one of the lists of one_of. */
static void draw_one_of(struct drawing *to, uint32_t at)
{
    uint32_t last = at + to->pipeline->ops[at].one_of.count, list;

    if (!begin(to, at))
        return;
    list = philox_below(to->d.word[1], to->op->one_of.lists);
    for (uint32_t i = at + 1; i <= last; i++)
        if (to->pipeline->ops[i].list == list)
            draw_op(to, i);
}

void augment_draw(const struct pipeline *pipeline, const struct image_draw *draw,
                  struct crop_tables *ratios, struct augment_plan *ret)
{
    struct drawing to = {.pipeline = pipeline, .draw = draw, .ratios = ratios, .plan = ret};

    ret->count = 0;
    ret->mixed = 0;
    ret->mirror = ret->upside_down = false;
    for (uint32_t i = 0; i < pipeline->ops_count; i++)
        if (pipeline->ops[i].kind == PIPELINE_ONE_OF) {
            draw_one_of(&to, i);
            i += pipeline->ops[i].one_of.count;
        } else {
            draw_op(&to, i);
        }
    /* In memory, left and right are already in their final order; top and bottom are not yet. */
    for (uint32_t i = 0; ret->mirror && i < ret->count; i++)
        mirror_step(&ret->steps[i], pipeline->width);
}
