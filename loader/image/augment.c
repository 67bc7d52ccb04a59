/* SPDX-License-Identifier: MIT */
/* augment.c - the operations behind the crop.
 *
 *     draw -> plan: what is done, how strongly, and where
 *     resize -> window (three planes) -> steps, in place -> stored, each byte once
 *
 * Steps that look at one pixel alone, and the store, go together through the window band by band:
 * a band stays in the processor's first cache from step to step. A contrast needs the mean of all
 * that the steps before it have made: their bands count it.
 *
 * Mirroring costs no pass: left and right are the resize's, top and bottom are done by storing rows
 * from the last one on. All operations but erasing are blind to it, and an erased rectangle is put
 * where it will be seen. */
#include "config.h"

#include "loader/image/augment.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/philox.h"
#include "common/util.h"
#include "loader/image/augment_loops.h"
#include "loader/image/scratch.h"

enum {
    DRAWS = 16, /* draws of an operation: from this many times its number in the text on */
    ERASE_TRIES = 10,
    BAND = 4096,            /* pixels */
    WINDOW_KEPT = 64 << 20, /* bytes that stay from image to image */
};

struct augment {
    const struct augment_loops *loops;
    struct crop_tables ratios; /* of erasing */
    struct scratch window;     /* [3][side][side] */
    struct scratch plane;      /* [side][side] */
    uint32_t mean;             /* the level of the contrast that is done next */
};

static const struct augment_loops *const sets[] = {
#ifdef __x86_64__
    &augment_avx2,
#endif
    &augment_portable,
};

int augment_create(struct augment **ret)
{
    struct augment *a = malloc(sizeof(*a));

    if (!a)
        return -ENOMEM;
    *a = (struct augment){.loops = &augment_portable};
    *ret = a;
    return 0;
}

void augment_destroy(struct augment *a)
{
    if (!a)
        return;
    scratch_free(&a->window);
    scratch_free(&a->plane);
    free(a);
}

const struct augment_loops *augment_loops_of(const char *kernels)
{
    for (size_t i = 0; i < ARRAY_LEN(sets); i++)
        if (strcmp(sets[i]->name, kernels) == 0)
            return sets[i];
    return &augment_portable;
}

void augment_use(struct augment *a, const char *kernels)
{
    a->loops = augment_loops_of(kernels);
}

/* ---- what is drawn ---- */

static struct philox_block draw_words(const struct image_draw *d, uint32_t op, uint32_t draw)
{
    return philox_draw(d->seed, d->position, d->epoch, DRAW_OPERATION, DRAWS * op + draw);
}

static uint32_t to_factor(struct rational r)
{
    return (uint32_t)((((uint64_t)r.num << (AUGMENT_BITS + 1)) + r.den) / (2 * (uint64_t)r.den));
}

/* A factor of a range, both ends included. */
static uint32_t draw_factor(struct rational low, struct rational high, uint32_t word)
{
    uint32_t from = to_factor(low);

    return from + philox_below(word, to_factor(high) - from + 1);
}

enum { HUE_TURN = 6 << 13 }; /* a turn of the hue: sixths at 2^13 */

static int32_t to_turn(struct rational_signed r)
{
    uint64_t size = (uint64_t)(r.num < 0 ? -(int64_t)r.num : r.num);
    int32_t v = (int32_t)((2 * HUE_TURN * size + r.den) / (2 * (uint64_t)r.den));

    return r.num < 0 ? -v : v;
}

/* A turn of a range, both ends included, as one forwards. */
static uint32_t draw_turn(const struct pipeline_op *op, uint32_t word)
{
    int32_t from = to_turn(op->hue_low), count = to_turn(op->hue_high) - from + 1;
    int32_t v = from + (int32_t)philox_below(word, (uint32_t)count);

    return (uint32_t)(v < 0 ? v + HUE_TURN : v);
}

static void add_step(struct augment_plan *plan, enum pipeline_op_kind kind, uint32_t number)
{
    assert(plan->count < AUGMENT_STEPS_MAX);
    plan->steps[plan->count++] = (struct augment_step){.kind = kind, .number = number};
}

/* Brightness, contrast, saturation and perhaps hue, in one of the orders of so many parts: they are
 * numbered as the words of a dictionary are. */
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
        if (number != (part == 3 ? 0 : 1 << AUGMENT_BITS)) /* which changes nothing */
            add_step(plan, kinds[part], number);
    }
}

/* torchvision's RandomErasing: up to ten tries for a rectangle that is smaller than the window. */
static bool draw_erased(struct augment *a, const struct pipeline_op *op, uint32_t at,
                        const struct image_draw *draw, uint32_t side, struct rect *ret)
{
    for (uint32_t try = 0; try < ERASE_TRIES; try++) {
        struct philox_block d = draw_words(draw, at, 1 + try);
        uint64_t height, width;

        crop_draw_sides(&op->shape, (uint64_t)side * side, &d, &a->ratios, &height, &width);
        if (height == 0 || width == 0 || height >= side || width >= side)
            continue;
        *ret = (struct rect){
            .left = philox_below(d.word[3], side - (uint32_t)width + 1),
            .top = philox_below(d.word[2], side - (uint32_t)height + 1),
            .width = (uint32_t)width,
            .height = (uint32_t)height,
        };
        return true;
    }
    return false;
}

static void draw_op(struct augment *a, const struct pipeline *pipeline, uint32_t at,
                    const struct image_draw *draw, struct augment_plan *plan)
{
    const struct pipeline_op *op = &pipeline->ops[at];
    struct philox_block d = draw_words(draw, at, 0);
    uint32_t side = pipeline->side;
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
    case PIPELINE_HUE:
        add_step(plan, op->kind, draw_turn(op, d.word[1]));
        return;
    case PIPELINE_ERASE:
        if (!draw_erased(a, op, at, draw, side, &rect))
            return;
        /* As if all flips came before it; what comes behind is put right at the end. */
        if (plan->mirror)
            rect.left = side - rect.left - rect.width;
        if (plan->upside_down)
            rect.top = side - rect.top - rect.height;
        add_step(plan, op->kind, op->number);
        plan->steps[plan->count - 1].rect = rect;
        return;
    default:
        add_step(plan, op->kind, op->number);
        return;
    }
}

void augment_draw(struct augment *a, const struct pipeline *pipeline, const struct image_draw *draw,
                  struct augment_plan *ret)
{
    ret->count = 0;
    ret->mirror = ret->upside_down = false;
    for (uint32_t i = 0; i < pipeline->ops_count; i++)
        draw_op(a, pipeline, i, draw, ret);
    /* In memory, left and right are already as they will be seen, top and bottom are not yet. */
    for (uint32_t i = 0; ret->mirror && i < ret->count; i++) {
        struct rect *rect = &ret->steps[i].rect;

        if (ret->steps[i].kind == PIPELINE_ERASE)
            rect->left = pipeline->side - rect->left - rect->width;
    }
}

/* ---- what is done ---- */

uint8_t *augment_window(struct augment *a, uint32_t side)
{
    size_t plane = (size_t)side * side;

    if (scratch_reserve(&a->window, 3 * plane) < 0 || scratch_reserve(&a->plane, plane) < 0)
        return NULL;
    return a->window.bytes;
}

static void count_levels(const uint8_t *v, size_t n, uint32_t counts[256])
{
    uint32_t other[3][256] = {{0}};
    size_t i = 0;

    memset(counts, 0, 256 * sizeof(*counts));
    for (; i + 4 <= n; i += 4) { /* neighbours are often equal, and a count waits for itself */
        counts[v[i]]++;
        other[0][v[i + 1]]++;
        other[1][v[i + 2]]++;
        other[2][v[i + 3]]++;
    }
    for (; i < n; i++)
        counts[v[i]]++;
    for (int level = 0; level < 256; level++)
        counts[level] += other[0][level] + other[1][level] + other[2][level];
}

/* The darkest level to 0, the brightest to 255. False: nothing changes. */
static bool stretch_table(uint8_t low, uint8_t high, uint8_t table[256])
{
    if (high <= low)
        return false;
    memset(table, 0, 256);
    for (uint32_t v = low; v <= high; v++)
        table[v] = (uint8_t)(255 * (v - low) / ((uint32_t)high - low));
    return true;
}

/* As many pixels of each level as can be. */
static bool equal_table(const uint32_t counts[256], size_t n, uint8_t table[256])
{
    uint32_t last = 255;
    size_t step, sum;

    while (last > 0 && counts[last] == 0)
        last--;
    step = (n - counts[last]) / 255;
    if (step == 0)
        return false;
    sum = step / 2;
    for (uint32_t v = 0; v < 256; v++) {
        table[v] = (uint8_t)min_u64(sum / step, 255);
        sum += counts[v];
    }
    return true;
}

static void remap(struct augment *a, enum pipeline_op_kind kind, uint8_t *planes, size_t n)
{
    uint32_t counts[256];
    uint8_t table[256], low, high;
    bool changes;

    for (uint8_t *v = planes; v < planes + 3 * n; v += n) {
        if (kind == PIPELINE_EQUALIZE) {
            count_levels(v, n, counts);
            changes = equal_table(counts, n, table);
        } else {
            a->loops->find_range(v, n, &low, &high);
            changes = stretch_table(low, high, table);
        }
        if (changes)
            a->loops->table(v, n, table);
    }
}

static void sharpen(struct augment *a, uint8_t *planes, uint32_t side, uint32_t factor)
{
    size_t n = (size_t)side * side;

    if (side < 3)
        return;
    for (uint8_t *v = planes; v < planes + 3 * n; v += n) {
        a->loops->sharpen(v, a->plane.bytes, side, side, factor);
        memcpy(v, a->plane.bytes, n);
    }
}

static void erase(uint8_t *planes, uint32_t side, const struct rect *rect, uint32_t level)
{
    for (uint32_t c = 0; c < 3; c++)
        for (uint32_t y = 0; y < rect->height; y++)
            memset(planes + ((size_t)c * side + rect->top + y) * side + rect->left, (int)level,
                   rect->width);
}

/* Whether a step does to each pixel what that pixel alone, and the step, say. */
static bool is_pointwise(enum pipeline_op_kind kind)
{
    switch (kind) {
    case PIPELINE_BRIGHTNESS:
    case PIPELINE_SATURATION:
    case PIPELINE_HUE:
    case PIPELINE_GRAYSCALE:
    case PIPELINE_INVERT:
    case PIPELINE_SOLARIZE:
    case PIPELINE_POSTERIZE:
        return true;
    default:
        return false;
    }
}

/* To one of the three channels. */
static void do_levels(const struct augment *a, const struct augment_step *step, uint8_t *v,
                      size_t n)
{
    const struct augment_loops *loops = a->loops;

    switch (step->kind) {
    case PIPELINE_BRIGHTNESS:
        loops->scale(v, n, step->number);
        break;
    case PIPELINE_CONTRAST:
        loops->blend_level(v, n, a->mean, step->number);
        break;
    case PIPELINE_INVERT:
        loops->invert(v, n);
        break;
    case PIPELINE_SOLARIZE:
        loops->solarize(v, n, step->number);
        break;
    case PIPELINE_POSTERIZE:
        loops->mask(v, n, 0xFF00u >> step->number & 0xFF);
        break;
    default:
        assert(false);
    }
}

/* To n pixels of planes that are `plane` bytes apart. */
static void do_pixels(const struct augment *a, const struct augment_step *step, uint8_t *v,
                      size_t plane, size_t n)
{
    switch (step->kind) {
    case PIPELINE_SATURATION:
        a->loops->blend_gray(v, plane, n, step->number);
        break;
    case PIPELINE_HUE:
        a->loops->hue(v, plane, n, step->number);
        break;
    case PIPELINE_GRAYSCALE:
        a->loops->gray(v, plane, n);
        break;
    default:
        for (uint32_t c = 0; c < 3; c++)
            do_levels(a, step, v + c * plane, n);
    }
}

/* A step that must see all of the window. */
static void do_window(struct augment *a, const struct augment_step *step, uint8_t *v, uint32_t side)
{
    switch (step->kind) {
    case PIPELINE_SHARPNESS:
        sharpen(a, v, side, step->number);
        break;
    case PIPELINE_EQUALIZE:
    case PIPELINE_AUTOCONTRAST:
        remap(a, step->kind, v, (size_t)side * side);
        break;
    case PIPELINE_ERASE:
        erase(v, side, &step->rect, step->number);
        break;
    default:
        assert(false);
    }
}

static void store_row(const struct augment *a, const struct image_store *store, const uint8_t *from,
                      uint32_t side, uint32_t y, uint8_t *dst)
{
    uint8_t flip = image_store_flip(store), zero = image_store_zero(store);
    size_t plane = (size_t)side * side, at = (size_t)y * side;

    if (store->layout == PLENUM_NHWC) {
        a->loops->store_pixels(from, plane, side, store->channels, flip, zero,
                               dst + at * store->channels);
        return;
    }
    for (uint32_t c = 0; c < 3; c++)
        a->loops->store_bytes(from + c * plane, side, flip, dst + c * plane + at);
    if (store->channels == 4)
        memset(dst + 3 * plane + at, zero, side);
}

/* One way through the window, band by band: some steps that look at one pixel alone, and then the
 * store, or the sum for the contrast that is next. */
struct pass {
    const struct augment_step *steps;
    uint32_t count;
    bool sums;
    const struct image_store *store; /* NULL: not yet */
    bool upside_down;
    uint8_t *dst;
};

static void do_pass(struct augment *a, const struct pass *pass, uint32_t side)
{
    uint32_t rows = (uint32_t)max_u64(BAND / side, 1);
    size_t plane = (size_t)side * side;
    uint64_t sum = 0;

    for (uint32_t top = 0, end; top < side; top = end) {
        uint8_t *v = (uint8_t *)a->window.bytes + (size_t)top * side;
        size_t n;

        end = (uint32_t)min_u64(top + rows, side);
        n = (size_t)(end - top) * side;
        for (uint32_t i = 0; i < pass->count; i++)
            do_pixels(a, &pass->steps[i], v, plane, n);
        if (pass->sums)
            sum += a->loops->sum_gray(v, plane, n);
        for (uint32_t y = top; pass->store && y < end; y++, v += side)
            store_row(a, pass->store, v, side, pass->upside_down ? side - 1 - y : y, pass->dst);
    }
    if (pass->sums) /* the mean, to the nearest integer */
        a->mean = (uint32_t)((2 * sum + plane) / (2 * plane));
}

void augment_finish(struct augment *a, const struct augment_plan *plan, uint32_t side,
                    const struct image_store *store, uint8_t *dst)
{
    struct pass pass = {.steps = plan->steps, .upside_down = plan->upside_down, .dst = dst};
    const struct augment_step *step = plan->steps, *end = step + plan->count;

    for (;;) {
        if (pass.sums) /* the contrast, whose mean is known now */
            step++;
        while (step < end && is_pointwise(step->kind))
            step++;
        pass.count = (uint32_t)(step - pass.steps);
        pass.sums = step < end && step->kind == PIPELINE_CONTRAST;
        pass.store = step < end ? NULL : store;
        if (pass.count > 0 || pass.sums || pass.store)
            do_pass(a, &pass, side);
        if (pass.store)
            break;
        if (!pass.sums)
            do_window(a, step++, a->window.bytes, side);
        pass.steps = step;
    }
    scratch_trim(&a->window, WINDOW_KEPT);
    scratch_trim(&a->plane, WINDOW_KEPT);
}
