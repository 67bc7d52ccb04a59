/* SPDX-License-Identifier: MIT */
/* augment.c - applies the operations after the crop.
 *
 *     draw -> plan
 *     resize -> window (three planes) -> steps, in place -> stored, each byte once
 *
 * Pointwise steps and the store are applied band by band: a band stays in the processor's
 * first-level cache from step to step. A contrast needs the mean of its input, which is computed
 * together with the bands of the steps before it.
 *
 * Not here: drawing the operations (augment_draw.c, policy.c), and the loops (augment_loops.h). */
#include "config.h"

#include "loader/image/ops/augment.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/util.h"
#include "loader/image/ops/augment_loops.h"
#include "loader/image/ops/blur.h"
#include "loader/image/scratch.h"

enum { BAND = 4096 }; /* pixels that are processed at a time */

struct augment {
    const struct augment_loops *loops;
    const struct blur_loops *blur;
    struct scratch window; /* [3][height][width] */
    struct scratch other;  /* a window for operations that are not done in place */
    struct scratch row;    /* a row of a blur, or of noise */
    struct scratch mixed;  /* windows to mix, the original first */
    uint32_t weights[AUGMENT_MIXED_MAX];
    uint32_t mixed_count;
    uint32_t mean; /* mean level for the next contrast */
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
    *a = (struct augment){.loops = &augment_portable, .blur = &blur_portable};
    *ret = a;
    return 0;
}

void augment_destroy(struct augment *a)
{
    if (!a)
        return;
    scratch_free(&a->window);
    scratch_free(&a->other);
    scratch_free(&a->row);
    scratch_free(&a->mixed);
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
    a->blur = blur_loops_find(kernels);
}

uint64_t augment_most_bytes(const struct pipeline *pipeline)
{
    bool pads = pipeline->crop == PIPELINE_LETTERBOX || pipeline->crop == PIPELINE_SCALE_JITTER ||
                pipeline_is_mosaic(pipeline) || pipeline->pad > 0 || pipeline->zoom.p.num > 0;
    uint64_t windows = pads ? 3 : pipeline->ops_count > 0 ? 2 : 0, mixed = 0;

    for (uint32_t i = 0; i < pipeline->ops_count; i++)
        if (pipeline->ops[i].kind == PIPELINE_AUGMIX)
            mixed = max_u64(mixed, 1 + pipeline->ops[i].policy.count);
    return (windows + mixed) * 3 * pipeline->width * pipeline->height;
}

uint8_t *augment_window(struct augment *a, const struct augment_plan *plan, uint32_t width,
                        uint32_t height)
{
    size_t bytes = 3 * (size_t)width * height + AFFINE_SLACK;

    if (scratch_reserve(&a->window, bytes) < 0 || scratch_reserve(&a->other, bytes) < 0 ||
        scratch_reserve(&a->row, blur_row_samples(width) * sizeof(int16_t)) < 0 ||
        (plan->mixed > 0 && scratch_reserve(&a->mixed, plan->mixed * bytes) < 0))
        return NULL;
    return a->window.bytes;
}

static void count_levels(const uint8_t *v, size_t n, uint32_t counts[256])
{
    uint32_t other[3][256] = {{0}};
    size_t i = 0;

    memset(counts, 0, 256 * sizeof(*counts));
    /* Four tables, because neighbours are often equal, and an increment waits for the previous one
     * of its counter. */
    for (; i + 4 <= n; i += 4) {
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

/* Fill a table that maps the darkest level to 0 and the brightest to 255. Returns false if nothing
 * changes. */
static bool stretch_table(uint8_t low, uint8_t high, uint8_t table[256])
{
    if (high <= low)
        return false;
    memset(table, 0, 256);
    for (uint32_t v = low; v <= high; v++)
        table[v] = (uint8_t)(255 * (v - low) / ((uint32_t)high - low));
    return true;
}

/* Fill a table that makes the numbers of pixels of all levels as equal as possible. Returns false
 * if nothing changes. */
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

/* The functions below that apply a step which needs the whole window all have the parameters of
 * remap(), for the table `windows`. */

/* Apply equalize or autocontrast. */
static void remap(struct augment *a, const struct augment_step *step, uint8_t *planes,
                  uint32_t width, uint32_t height)
{
    size_t n = (size_t)width * height;
    uint32_t counts[256];
    uint8_t table[256], low, high;
    bool changes;

    for (uint8_t *v = planes; v < planes + 3 * n; v += n) {
        if (step->kind == PIPELINE_EQUALIZE) {
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

static void swap_windows(struct augment *a)
{
    struct scratch window = a->window;

    a->window = a->other;
    a->other = window;
}

static void sharpen(struct augment *a, const struct augment_step *step, uint8_t *planes,
                    uint32_t width, uint32_t height)
{
    size_t n = (size_t)width * height;

    if (width < 3 || height < 3)
        return;
    for (size_t at = 0; at < 3 * n; at += n)
        a->loops->sharpen(planes + at, (uint8_t *)a->other.bytes + at, width, height, step->number);
    swap_windows(a);
}

static void blur(struct augment *a, const struct augment_step *step, uint8_t *planes,
                 uint32_t width, uint32_t height)
{
    size_t n = (size_t)width * height;
    struct blur_kernel kernel;

    blur_kernel_make(step->blur.size, step->blur.sigma, &kernel);
    if (kernel.radius == 0) /* this changes nothing */
        return;
    for (size_t at = 0; at < 3 * n; at += n) {
        struct blur_plane plane = {planes + at, width, height};

        blur_plane(a->blur, &kernel, &plane, a->row.bytes, (uint8_t *)a->other.bytes + at);
    }
    swap_windows(a);
}

static void move(struct augment *a, const struct augment_step *step, uint8_t *planes,
                 uint32_t width, uint32_t height)
{
    affine_apply(a->loops->affine, &step->map, width, height, planes, a->other.bytes);
    swap_windows(a);
}

/* Write row y of a channel of the noise. If mirrored, the values after the last pixel come first,
 * and are left out. */
static void write_noise(const struct augment *a, const struct augment_step *step, uint32_t c,
                        uint32_t y, uint8_t *to)
{
    const struct rect *rect = &step->erase.rect;
    const uint32_t *key = step->erase.key;
    uint32_t words = (rect->width + 3) / 4;
    uint32_t at = step->erase.upside_down ? rect->height - 1 - y : y;
    uint32_t first = (c * rect->height + at) * words;
    bool mirror = step->erase.mirror;

    a->loops->noise(a->row.bytes, words, key[0] + first * key[1], key[1], mirror);
    memcpy(to, (uint8_t *)a->row.bytes + (mirror ? 4 * words - rect->width : 0), rect->width);
}

static void erase(struct augment *a, const struct augment_step *step, uint8_t *planes,
                  uint32_t width, uint32_t height)
{
    const struct rect *rect = &step->erase.rect;

    assert(rect->left + rect->width <= width && rect->top + rect->height <= height);
    for (uint32_t c = 0; c < 3; c++)
        for (uint32_t y = 0; y < rect->height; y++) {
            uint8_t *to = planes + ((size_t)c * height + rect->top + y) * width + rect->left;

            if (step->erase.fill == PIPELINE_FILL_PIXEL)
                write_noise(a, step, c, y, to);
            else
                memset(to, step->erase.levels[c], rect->width);
        }
}

/* Apply a step of augmix, which saves the windows to mix one after the other. */
static void mix(struct augment *a, const struct augment_step *step, uint8_t *planes, uint32_t width,
                uint32_t height)
{
    size_t n = 3 * (size_t)width * height;
    uint8_t *kept = a->mixed.bytes;

    assert(step->kind == PIPELINE_MIX_BEGIN || a->mixed_count > 0);
    if (step->kind == PIPELINE_MIX_END) {
        a->loops->sum_windows(kept, n, a->weights, a->mixed_count, planes);
        return;
    }
    if (step->kind == PIPELINE_MIX_BEGIN)
        a->mixed_count = 0;
    assert(a->mixed_count < AUGMENT_MIXED_MAX);
    memcpy(kept + a->mixed_count * n, planes, n);
    a->weights[a->mixed_count++] = step->number;
    if (step->kind == PIPELINE_MIX_NEXT)
        memcpy(planes, kept, n); /* the original, for the next chain */
}

/* The steps that need the whole window. Pointwise steps are in the loops' `pointwise`. */
static void (*const windows[PIPELINE_OPS])(struct augment *a, const struct augment_step *step,
                                           uint8_t *planes, uint32_t width, uint32_t height) = {
    [PIPELINE_SHARPNESS] = sharpen,  [PIPELINE_BLUR] = blur,     [PIPELINE_EQUALIZE] = remap,
    [PIPELINE_AUTOCONTRAST] = remap, [PIPELINE_ERASE] = erase,   [PIPELINE_CUTOUT] = erase,
    [PIPELINE_AFFINE] = move,        [PIPELINE_MIX_BEGIN] = mix, [PIPELINE_MIX_NEXT] = mix,
    [PIPELINE_MIX_END] = mix,
};

static bool is_pointwise(const struct augment *a, enum pipeline_op_kind kind)
{
    return a->loops->pointwise[kind].levels || a->loops->pointwise[kind].pixels;
}

/* Apply a pointwise step, or a contrast, to n pixels of planes that are `plane` bytes apart. */
static void do_pixels(const struct augment *a, const struct augment_step *step, uint8_t *v,
                      size_t plane, size_t n)
{
    const struct augment_pointwise *loop = &a->loops->pointwise[step->kind];

    if (loop->pixels) {
        loop->pixels(v, plane, n, step->number);
        return;
    }
    for (uint32_t c = 0; c < 3; c++, v += plane)
        if (step->kind == PIPELINE_CONTRAST)
            a->loops->blend_level(v, n, a->mean, step->number);
        else
            loop->levels(v, n, step->number);
}

/* One pass through the window, band by band: some pointwise steps, then the store, or the sum for
 * the next contrast. */
struct pass {
    const struct augment_step *steps;
    uint32_t count;
    bool sums;
    const struct image_store *store; /* NULL: store nothing yet */
    bool upside_down;
    uint8_t *dst;
};

static void store_row(const struct augment *a, const struct pass *pass, const uint8_t *from,
                      uint32_t width, uint32_t height, uint32_t y)
{
    const struct image_store *store = pass->store;
    uint8_t flip = image_store_flip(store), zero = image_store_zero(store);
    size_t plane = (size_t)width * height;
    size_t at = (size_t)(pass->upside_down ? height - 1 - y : y) * width;

    assert(y < height);
    if (store->layout == PLENUM_NHWC) {
        a->loops->store_pixels(from, plane, width, store->channels, flip, zero,
                               pass->dst + at * store->channels);
        return;
    }
    for (uint32_t c = 0; c < 3; c++)
        a->loops->store_bytes(from + c * plane, width, flip, pass->dst + c * plane + at);
    if (store->channels == 4)
        memset(pass->dst + 3 * plane + at, zero, width);
}

static void do_pass(struct augment *a, const struct pass *pass, uint32_t width, uint32_t height)
{
    uint32_t rows = (uint32_t)max_u64(BAND / width, 1);
    size_t plane = (size_t)width * height;
    uint64_t sum = 0;

    for (uint32_t top = 0, end; top < height; top = end) {
        uint8_t *v = (uint8_t *)a->window.bytes + (size_t)top * width;
        size_t n;

        end = (uint32_t)min_u64(top + rows, height);
        n = (size_t)(end - top) * width;
        for (uint32_t i = 0; i < pass->count; i++)
            do_pixels(a, &pass->steps[i], v, plane, n);
        if (pass->sums)
            sum += a->loops->sum_gray(v, plane, n);
        for (uint32_t y = top; pass->store && y < end; y++, v += width)
            store_row(a, pass, v, width, height, y);
    }
    if (pass->sums) /* the mean, to the nearest integer */
        a->mean = (uint32_t)((2 * sum + plane) / (2 * plane));
}

void augment_finish(struct augment *a, const struct augment_plan *plan, uint32_t width,
                    uint32_t height, const struct image_store *store, uint8_t *dst)
{
    struct pass pass = {.steps = plan->steps, .upside_down = plan->upside_down, .dst = dst};
    const struct augment_step *step = plan->steps, *end = step + plan->count;

    for (;;) {
        if (pass.sums) /* the contrast, whose mean is now known */
            step++;
        while (step < end && is_pointwise(a, step->kind))
            step++;
        pass.count = (uint32_t)(step - pass.steps);
        pass.sums = step < end && step->kind == PIPELINE_CONTRAST;
        pass.store = step < end ? NULL : store;
        if (pass.count > 0 || pass.sums || pass.store)
            do_pass(a, &pass, width, height);
        if (pass.store)
            break;
        if (!pass.sums) {
            assert(windows[step->kind]);
            windows[step->kind](a, step, a->window.bytes, width, height);
            step++;
        }
        pass.steps = step;
    }
}

void augment_keep_moves(struct augment_plan *plan)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < plan->count; i++)
        if (plan->steps[i].kind == PIPELINE_AFFINE) {
            struct augment_step *step = &plan->steps[count++];

            *step = plan->steps[i];
            step->map.bilinear = false;
            memset(step->map.fill, 255, sizeof(step->map.fill));
        }
    plan->count = count;
    plan->mixed = 0;
}

void augment_trim(struct augment *a, size_t keep)
{
    scratch_trim(&a->window, keep);
    scratch_trim(&a->other, keep);
    scratch_trim(&a->mixed, keep);
}

void image_store_planes(const uint8_t *planes, size_t pixels, const struct image_store *store,
                        uint8_t *dst)
{
    const struct augment_loops *loops = augment_loops_of(image_kernels(0));
    uint8_t flip = image_store_flip(store), zero = image_store_zero(store);

    if (store->layout == PLENUM_NHWC) {
        loops->stream_pixels(planes, pixels, pixels, store->channels, flip, zero, dst);
        return;
    }
    loops->stream_bytes(planes, 3 * pixels, flip, dst);
    if (store->channels == 4)
        memset(dst + 3 * pixels, zero, pixels);
}
