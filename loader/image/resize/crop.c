/* SPDX-License-Identifier: MIT */
/* crop.c - computes torchvision's geometry in integers.
 *
 * RandomResizedCrop draws an area (uniform) and an aspect ratio (uniform in its logarithm) until a
 * rectangle of that area and ratio fits into the image. The published code (torchvision,
 * transforms.RandomResizedCrop.get_params) does this in double precision with log() and exp(),
 * whose last bits differ between C libraries. Here it is done in fixed point:
 *
 *     ratio(u) = low * (high / low)^u,   u = 0.b1 b2 ... b32 in binary
 *              = low * product over the set bits k of (high / low)^(2^-k)
 *
 * and the factors are repeated square roots of high / low, so that neither log() nor exp() is
 * needed, only an integer square root. tests/loader/image/resize/test_crop.c compares it with the
 * published formula. A "Qn" number has n bits after the binary point. */
#include "config.h"

#include "loader/image/resize/crop.h"

#include <assert.h>
#include <string.h>

#include "common/order/philox.h"
#include "common/util/util.h"
#include "loader/image/limits.h"
#include "loader/image/resize/iou.h"

enum {
    TRIES = 10,      /* like torchvision */
    RATIO_BITS = 48, /* fraction bits of a ratio of sides */
    AREA_BITS = 32,  /* fraction bits of an area */
    SIDE_BITS = 40,  /* fraction bits of sqrt(area * ratio): half of 32 + 48 */
};

/* Not ISO C, but gcc and clang have it on every 64-bit machine. */
__extension__ typedef unsigned __int128 u128;

/* Returns a / b, rounded to the nearest integer, with halves to the even one, like Python's
 * round(). */
static uint64_t divide_half_even(uint64_t a, uint64_t b)
{
    uint64_t whole, rest;

    assert(b > 0);
    whole = a / b;
    rest = a % b;
    if (2 * rest > b || (2 * rest == b && (whole & 1)))
        whole++;
    return whole;
}

static bool same(struct rational a, struct rational b)
{
    return a.num == b.num && a.den == b.den;
}

static void prepare_roots(struct crop_tables *t, struct rational low, struct rational high)
{
    uint64_t root;

    if (same(t->ratio_min, low) && same(t->ratio_max, high))
        return;
    root = (uint64_t)((((u128)high.num * low.den) << RATIO_BITS) / ((u128)high.den * low.num));
    for (int k = 0; k < 32; k++) {
        root = sqrt_product(root, UINT64_C(1) << RATIO_BITS);
        t->root[k] = root;
    }
    t->ratio_min = low;
    t->ratio_max = high;
}

/* Returns area * (low + (high - low) * word / 2^32), rounded down to Q32. */
static uint64_t draw_area(uint64_t area, struct rational low, struct rational high, uint32_t word)
{
    uint64_t a = (uint64_t)low.num * high.den, b = (uint64_t)high.num * low.den;
    u128 scale = ((u128)a << AREA_BITS) + (u128)word * (b - a);

    return (uint64_t)(area * scale / ((uint64_t)low.den * high.den));
}

uint64_t crop_scaled(uint64_t n, struct rational low, struct rational high, uint32_t word)
{
    return draw_area(n, low, high, word) >> AREA_BITS;
}

/* Returns low * (high / low)^(word / 2^32), rounded down to Q48. */
static uint64_t draw_ratio(const struct crop_tables *t, uint32_t word)
{
    uint64_t factor = (uint64_t)1 << RATIO_BITS;

    for (int k = 0; k < 32; k++)
        if (word & (UINT32_C(1) << (31 - k)))
            factor = (uint64_t)(((u128)factor * t->root[k]) >> RATIO_BITS);
    return (uint64_t)((u128)factor * t->ratio_min.num / t->ratio_min.den);
}

/* Compute the sides of a rectangle of this area and ratio, to the nearest pixel. */
static void sides_of(uint64_t area, uint64_t ratio, uint64_t *width, uint64_t *height)
{
    uint64_t root = sqrt_product(area, ratio); /* the width, Q40 */
    u128 other;

    assert(root > 0);                                /* neither the area nor the ratio is 0 */
    other = ((u128)area << (SIDE_BITS + 16)) / root; /* area / width, Q48 */
    *width = (root + (UINT64_C(1) << (SIDE_BITS - 1))) >> SIDE_BITS;
    *height = (uint64_t)((other + (UINT64_C(1) << 47)) >> 48);
}

/* Returns the largest centred rectangle whose ratio is allowed, for the case that no try fits. */
static struct rect central_box(const struct pipeline *p, uint32_t width, uint32_t height)
{
    struct rational low = p->shape.ratio_min, high = p->shape.ratio_max;
    struct rect box = {.width = width, .height = height};

    if ((uint64_t)width * low.den < (uint64_t)low.num * height)
        box.height = (uint32_t)divide_half_even((uint64_t)width * low.den, low.num);
    else if ((uint64_t)width * high.den > (uint64_t)high.num * height)
        box.width = (uint32_t)divide_half_even((uint64_t)height * high.num, high.den);
    if (box.width == 0) /* torchvision fails on such an image; we show one pixel */
        box.width = 1;
    if (box.height == 0)
        box.height = 1;
    assert(box.width <= width && box.height <= height);
    box.left = (width - box.width) / 2;
    box.top = (height - box.height) / 2;
    return box;
}

void crop_draw_sides(const struct pipeline_shape *shape, uint64_t area,
                     const struct philox_block *draw, struct crop_tables *tables, uint64_t *width,
                     uint64_t *height)
{
    prepare_roots(tables, shape->ratio_min, shape->ratio_max);
    sides_of(draw_area(area, shape->scale_min, shape->scale_max, draw->word[0]),
             draw_ratio(tables, draw->word[1]), width, height);
}

static struct rect random_box(const struct pipeline *p, const struct image_draw *draw,
                              uint32_t width, uint32_t height, struct crop_tables *tables)
{
    for (uint32_t try = 0; try < TRIES; try++) {
        struct philox_block d = image_draw_words(draw, DRAW_CROP, try);
        uint64_t w, h;

        crop_draw_sides(&p->shape, (uint64_t)width * height, &d, tables, &w, &h);
        if (w == 0 || w > width || h == 0 || h > height)
            continue;
        return (struct rect){
            .left = philox_below(d.word[3], width - (uint32_t)w + 1),
            .top = philox_below(d.word[2], height - (uint32_t)h + 1),
            .width = (uint32_t)w,
            .height = (uint32_t)h,
        };
    }
    return central_box(p, width, height);
}

/* Show all of the image, resized as by resize(...): the shorter side becomes S, and the longer one
 * int(S * long / short); or both become the requested sizes; or both stay unchanged. */
static void locate_resized(const struct pipeline *p, uint32_t width, uint32_t height,
                           struct crop *ret)
{
    uint32_t shorter = width < height ? width : height, longer = width < height ? height : width;
    uint32_t stretched = (uint32_t)((uint64_t)p->resize_height * longer / shorter);

    ret->box = (struct rect){.width = width, .height = height};
    if (p->resize_width) {
        ret->width = p->resize_width;
        ret->height = p->resize_height;
    } else if (p->resize_height) {
        ret->width = width <= height ? p->resize_height : stretched;
        ret->height = width <= height ? stretched : p->resize_height;
    } else {
        ret->width = width;
        ret->height = height;
    }
}

static void locate_center(const struct pipeline *p, struct crop *ret)
{
    assert(ret->width >= p->width && ret->height >= p->height);
    ret->window = (struct rect){
        .left = (uint32_t)divide_half_even(ret->width - p->width, 2),
        .top = (uint32_t)divide_half_even(ret->height - p->height, 2),
        .width = p->width,
        .height = p->height,
    };
}

static bool is_inside(const struct crop_axis *axis, uint32_t count)
{
    int64_t begin = (int64_t)axis->first - axis->more - axis->pad;

    return begin >= 0 && begin + count <= axis->size;
}

void crop_places(enum pipeline_pad mode, const struct crop_axis *axis, uint32_t first, bool mirror,
                 uint32_t count, int32_t *ret)
{
    for (uint32_t i = 0; i < count; i++) {
        int64_t x = crop_source(mode, axis, i) - first;

        ret[mirror ? count - 1 - i : i] = (int32_t)(x < 0 ? -1 : x);
    }
}

void crop_longest_run(const int32_t *places, uint32_t count, int32_t step, uint32_t *begin,
                      uint32_t *end)
{
    assert(step == 1 || step == -1);
    *begin = *end = 0;
    for (uint32_t i = 0, start = 0; i < count; i++) {
        if (i == 0 || places[i - 1] < 0 || places[i] != places[i - 1] + step)
            start = i;
        if (places[i] >= 0 && i + 1 - start > *end - *begin) {
            *begin = start;
            *end = i + 1;
        }
    }
}

/* Find the pixels that some output shows, or the nearest one if there are none. */
static void find_seen(enum pipeline_pad mode, const struct crop_axis *axis, uint32_t count,
                      uint32_t *first, uint32_t *seen)
{
    int64_t low = INT64_MAX, high = -1;
    int64_t begin = (int64_t)axis->first - axis->more - axis->pad;

    if (mode == PIPELINE_CONSTANT || is_inside(axis, count)) { /* none is reflected or repeated */
        low = begin < 0 ? 0 : begin;
        high = begin + count < axis->size ? begin + count - 1 : (int64_t)axis->size - 1;
    } else {
        for (uint32_t i = 0; i < count; i++) {
            int64_t x = crop_source(mode, axis, i);

            low = x >= 0 && x < low ? x : low;
            high = x > high ? x : high;
        }
    }
    if (high < low)
        low = high = begin < 0 ? 0 : axis->size - 1;
    *first = (uint32_t)low;
    *seen = (uint32_t)(high - low + 1);
    assert(low >= 0 && high < axis->size && *seen <= count);
}

/* Compute the part of the image that is shown according to ret->across and ret->down. */
static void locate_padded(const struct pipeline *p, struct crop *ret)
{
    struct rect *w = &ret->window;

    ret->padded = !is_inside(&ret->across, p->width) || !is_inside(&ret->down, p->height);
    find_seen(p->pad_mode, &ret->across, p->width, &w->left, &w->width);
    find_seen(p->pad_mode, &ret->down, p->height, &w->top, &w->height);
}

/* Choose a position for `count` pixels, drawn by `word`. If the image is too small even with
 * padding, the missing pixels are also padded, as by torchvision's RandomCrop with
 * pad_if_needed. */
static struct crop_axis draw_axis(const struct pipeline *p, uint32_t size, uint32_t count,
                                  uint32_t word)
{
    uint32_t padded = size + 2 * p->pad, more = padded < count ? count - padded : 0;

    assert(size > 0 && padded + 2 * more >= count);
    return (struct crop_axis){
        .size = size,
        .pad = p->pad,
        .more = more,
        .first = philox_below(word, padded + 2 * more - count + 1),
    };
}

static void locate_random(const struct pipeline *p, const struct image_draw *draw, struct crop *ret)
{
    struct philox_block d = image_draw_words(draw, DRAW_PLACE, 0);

    ret->down = draw_axis(p, ret->height, p->height, d.word[0]);
    ret->across = draw_axis(p, ret->width, p->width, d.word[1]);
    locate_padded(p, ret);
}

/* Choose the largest size with the proportions of an image that fits into `most_width` x
 * `most_height`. */
static void fit(uint32_t most_width, uint32_t most_height, struct crop *ret)
{
    uint32_t width = ret->box.width, height = ret->box.height;
    uint64_t wide = (uint64_t)width * most_height, high = (uint64_t)height * most_width;

    ret->width = wide >= high ? most_width : (uint32_t)divide_half_even(wide, height);
    ret->height = wide >= high ? (uint32_t)divide_half_even(high, width) : most_height;
    if (ret->width == 0)
        ret->width = 1;
    if (ret->height == 0)
        ret->height = 1;
    assert(ret->width <= most_width && ret->height <= most_height);
}

/* Let a part of `count` pixels show the end or the beginning of an image, next to the mosaic's
 * centre. */
static struct crop_axis axis_of_part(uint32_t size, uint32_t count, bool begin)
{
    return (struct crop_axis){.size = size,
                              .more = begin || size >= count ? 0 : count - size,
                              .first = begin || size < count ? 0 : size - count};
}

static void locate_part(const struct pipeline *p, uint32_t width, uint32_t height, struct crop *ret)
{
    ret->box = (struct rect){.width = width, .height = height};
    fit(p->resize_width, p->resize_height, ret);
    ret->across = axis_of_part(ret->width, p->width, p->corner & 1);
    ret->down = axis_of_part(ret->height, p->height, p->corner & 2);
    locate_padded(p, ret);
}

/* Show the largest image of the same proportions that fits, centred, like Pillow's
 * ImageOps.pad(). */
static void locate_letterbox(const struct pipeline *p, uint32_t width, uint32_t height,
                             struct crop *ret)
{
    ret->box = (struct rect){.width = width, .height = height};
    fit(p->width, p->height, ret);
    ret->across = (struct crop_axis){.size = ret->width,
                                     .more = (uint32_t)divide_half_even(p->width - ret->width, 2)};
    ret->down = (struct crop_axis){.size = ret->height,
                                   .more = (uint32_t)divide_half_even(p->height - ret->height, 2)};
    locate_padded(p, ret);
}

/* Resize the image by a random scale, relative to that at which it just fits. Show a random part of
 * the result, or all of it at the top left of the padding, like torchvision's ScaleJitter and
 * FixedSizeCrop: one number places both sides. */
static void locate_jitter(const struct pipeline *p, const struct image_draw *draw, uint32_t width,
                          uint32_t height, struct crop *ret)
{
    struct philox_block d = image_draw_words(draw, DRAW_SCALE, 0);
    bool wide = (uint64_t)width * p->height >= (uint64_t)height * p->width;
    /* The scaled side that just fits, Q32; the other one has the image's proportions. */
    uint64_t side = draw_area(wide ? p->width : p->height, p->jitter[0], p->jitter[1], d.word[0]);
    uint32_t fits = (uint32_t)(side >> AREA_BITS);
    uint32_t other =
        (uint32_t)((u128)side * (wide ? height : width) / (wide ? width : height) >> AREA_BITS);

    ret->box = (struct rect){.width = width, .height = height};
    ret->width = wide ? fits : other;
    ret->height = wide ? other : fits;
    if (ret->width == 0)
        ret->width = 1;
    if (ret->height == 0)
        ret->height = 1;
    ret->across = (struct crop_axis){.size = ret->width};
    ret->down = (struct crop_axis){.size = ret->height};
    if (ret->width > p->width)
        ret->across.first = philox_below(d.word[1], ret->width - p->width);
    if (ret->height > p->height)
        ret->down.first = philox_below(d.word[1], ret->height - p->height);
    locate_padded(p, ret);
}

static struct iou_canvas draw_canvas(const struct pipeline *p, const struct image_draw *draw,
                                     uint32_t width, uint32_t height)
{
    struct philox_block d = image_draw_words(draw, DRAW_ZOOM, 0);
    struct iou_canvas canvas = {width, height, {.width = width, .height = height}};

    if (!rational_happens(p->zoom.p, d.word[0]))
        return canvas;
    canvas.width = (uint32_t)crop_scaled(width, p->zoom.low, p->zoom.high, d.word[1]);
    canvas.height = (uint32_t)crop_scaled(height, p->zoom.low, p->zoom.high, d.word[1]);
    canvas.picture.left = philox_below(d.word[2], canvas.width - width);
    canvas.picture.top = philox_below(d.word[3], canvas.height - height);
    return canvas;
}

/* Place the part of the image's axis that is shown. The region begins at `start` of the image,
 * which has `size` pixels, and its `from` pixels become `to`. Both ends of the part come to the
 * nearest pixels, but at least one apart. */
static struct crop_axis place_part(int64_t start, uint32_t from, uint32_t size, uint32_t to,
                                   uint32_t part[2])
{
    int64_t begin = start > 0 ? start : 0, end = start + from < size ? start + from : size;
    uint32_t first, last;

    assert(begin < end);
    first = (uint32_t)divide_half_even((uint64_t)(begin - start) * to, from);
    last = (uint32_t)divide_half_even((uint64_t)(end - start) * to, from);
    if (first == to)
        first--;
    if (last <= first)
        last = first + 1;
    part[0] = (uint32_t)begin;
    part[1] = (uint32_t)(end - begin);
    return (struct crop_axis){.size = last - first, .more = first};
}

/* Show a region of a canvas as locate_resized() or locate_letterbox() shows an image, but resize
 * only the part of the image in it. */
static void locate_region(const struct pipeline *p, const struct iou_canvas *canvas,
                          const struct rect *region, struct crop *ret)
{
    int64_t x = (int64_t)region->left - canvas->picture.left;
    int64_t y = (int64_t)region->top - canvas->picture.top;
    uint32_t left = 0, top = 0, columns[2], rows[2];

    ret->width = p->width;
    ret->height = p->height;
    if (p->crop == PIPELINE_LETTERBOX) {
        locate_letterbox(p, region->width, region->height, ret);
        left = ret->across.more;
        top = ret->down.more;
    }
    ret->across = place_part(x, region->width, canvas->picture.width, ret->width, columns);
    ret->down = place_part(y, region->height, canvas->picture.height, ret->height, rows);
    ret->across.more += left;
    ret->down.more += top;
    ret->box = (struct rect){columns[0], rows[0], columns[1], rows[1]};
    ret->width = ret->across.size;
    ret->height = ret->down.size;
    locate_padded(p, ret);
}

/* Place the image on a canvas, and crop this: zoom_out, iou_crop, or both. */
static void locate_placed(const struct pipeline *p, const struct image_draw *draw,
                          const struct rect *image, const struct image_boxes *boxes,
                          struct crop *ret)
{
    struct iou_canvas canvas = draw_canvas(p, draw, image->width, image->height);
    struct rect region;

    if (!p->iou_crop || !iou_draw(p, draw, boxes, &canvas, &region))
        region = (struct rect){.width = canvas.width, .height = canvas.height};
    locate_region(p, &canvas, &region, ret);
}

/* Convert `at`, a position on a resized axis, to a position in the image, in pixels. The part of
 * the image that begins at `start` was `box` pixels long and is now `size` pixels long. */
static float place_of(uint32_t start, uint32_t box, uint32_t size, int64_t at)
{
    return (float)((double)((int64_t)start * size + at * box) / size);
}

void crop_shown(const struct crop *crop, const struct pipeline *pipeline, float ret[4])
{
    const struct crop_axis *x = &crop->across, *y = &crop->down;
    int64_t left = crop->window.left, top = crop->window.top;

    if (crop->padded) {
        left = (int64_t)x->first - x->pad - x->more;
        top = (int64_t)y->first - y->pad - y->more;
    }
    ret[0] = place_of(crop->box.left, crop->box.width, crop->width, left);
    ret[1] = place_of(crop->box.top, crop->box.height, crop->height, top);
    ret[2] = place_of(crop->box.left, crop->box.width, crop->width, left + pipeline->width);
    ret[3] = place_of(crop->box.top, crop->box.height, crop->height, top + pipeline->height);
}

static bool draw_mirror(struct rational probability, const struct image_draw *draw)
{
    uint32_t word = image_draw_words(draw, DRAW_FLIP, 0).word[0];

    return rational_happens(probability, word);
}

static enum pipeline_filter draw_filter(enum pipeline_filter asked, const struct image_draw *draw)
{
    uint32_t word;

    if (asked != PIPELINE_RANDOM)
        return asked;
    word = image_draw_words(draw, DRAW_FILTER, 0).word[0];
    return philox_below(word, 2) == 0 ? PIPELINE_BILINEAR : PIPELINE_BICUBIC;
}

void crop_locate(const struct pipeline *pipeline, const struct image_draw *draw, uint32_t width,
                 uint32_t height, struct crop_tables *tables, struct crop *ret)
{
    assert(width > 0 && width <= IMAGE_SIDE_MAX && height > 0 && height <= IMAGE_SIDE_MAX);
    assert((uint64_t)width * height <= IMAGE_PIXELS_MAX);
    ret->padded = false;
    switch (pipeline_is_placed(pipeline) ? PIPELINE_CROPS : pipeline->crop) {
    case PIPELINE_RRC:
        ret->box = random_box(pipeline, draw, width, height, tables);
        ret->width = pipeline->width;
        ret->height = pipeline->height;
        ret->window = (struct rect){.width = pipeline->width, .height = pipeline->height};
        break;
    case PIPELINE_LETTERBOX:
        locate_letterbox(pipeline, width, height, ret);
        break;
    case PIPELINE_PART:
        locate_part(pipeline, width, height, ret);
        break;
    case PIPELINE_CENTER:
    case PIPELINE_STRETCH:
        locate_resized(pipeline, width, height, ret);
        locate_center(pipeline, ret);
        break;
    case PIPELINE_RANDOM_CROP:
        locate_resized(pipeline, width, height, ret);
        locate_random(pipeline, draw, ret);
        break;
    case PIPELINE_SCALE_JITTER:
        locate_jitter(pipeline, draw, width, height, ret);
        break;
    case PIPELINE_CROPS: /* after zoom_out or iou_crop */
        locate_placed(pipeline, draw, &(struct rect){.width = width, .height = height},
                      &tables->boxes, ret);
        break;
    case PIPELINE_MOSAIC: /* rendered in parts */
    case PIPELINE_NO_IMAGE:
        assert(false); /* a pipeline that decodes nothing */
    }
    assert(ret->box.width > 0 && ret->box.left + ret->box.width <= width);
    assert(ret->box.height > 0 && ret->box.top + ret->box.height <= height);
    assert(ret->window.width > 0 && ret->window.left + ret->window.width <= ret->width);
    assert(ret->window.height > 0 && ret->window.top + ret->window.height <= ret->height);
    ret->mirror = draw_mirror(pipeline->flip, draw);
    ret->filter = draw_filter(pipeline->filter, draw);
}
