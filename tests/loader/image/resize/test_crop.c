/* SPDX-License-Identifier: MIT */
/* Compares the geometry with torchvision's published formula, computed in double. */
#include "config.h"

#include <math.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>

#include "common/order/philox.h"
#include "common/util/util.h"
#include "loader/image/limits.h"
#include "loader/image/resize/crop.h"

/* If a side is this close to a half in double, rounding either way is right. */
static const double epsilon = 1e-6;

static double value(struct rational r)
{
    return (double)r.num / r.den;
}

static bool near_half(double side)
{
    return fabs(side - floor(side) - 0.5) < epsilon;
}

/* Compute transforms.RandomResizedCrop.get_params with our random numbers. Returns false if the
 * result is so close to a half that either rounding is right. */
static bool published_box(const struct pipeline *p, const struct image_draw *draw, uint32_t width,
                          uint32_t height, struct rect *ret)
{
    double low = value(p->shape.ratio_min), high = value(p->shape.ratio_max), in_ratio;
    struct rect box = {.width = width, .height = height};

    for (uint32_t i = 0; i < 10; i++) {
        struct philox_block d = philox_draw(draw->seed, draw->position, draw->epoch, DRAW_CROP, i);
        double u = d.word[0] / 4294967296.0, v = d.word[1] / 4294967296.0;
        double area = (double)width * height *
                      (value(p->shape.scale_min) +
                       u * (value(p->shape.scale_max) - value(p->shape.scale_min)));
        double ratio = exp(log(low) + v * (log(high) - log(low)));
        double w = sqrt(area * ratio), h = sqrt(area / ratio);

        if (near_half(w) || near_half(h))
            return false;
        box.width = (uint32_t)nearbyint(w); /* half to even, like Python */
        box.height = (uint32_t)nearbyint(h);
        if (box.width > 0 && box.width <= width && box.height > 0 && box.height <= height) {
            box.top = (uint32_t)(((uint64_t)d.word[2] * (height - box.height + 1)) >> 32);
            box.left = (uint32_t)(((uint64_t)d.word[3] * (width - box.width + 1)) >> 32);
            *ret = box;
            return true;
        }
    }
    box.width = width;
    box.height = height;
    in_ratio = (double)width / height;
    if (in_ratio < low)
        box.height = (uint32_t)nearbyint(width / low);
    else if (in_ratio > high)
        box.width = (uint32_t)nearbyint(height * high);
    box.width += box.width == 0;
    box.height += box.height == 0;
    box.top = (height - box.height) / 2;
    box.left = (width - box.width) / 2;
    *ret = box;
    return true;
}

static struct pipeline parse(const char *text)
{
    struct pipeline p;

    cr_assert(eq(int, pipeline_parse(text, &p, NULL), 0), "%s", text);
    return p;
}

Test(crop, rrc_equals_the_published_formula)
{
    static const char *const pipelines[] = {
        "rrc(224)",
        "rrc(160,scale=0.35:1)",
        "rrc(224,scale=1:1,ratio=1:1)",
        "rrc(96,scale=0.0001:0.01,ratio=1/100:100)",
        "rrc(64,scale=1/3:2/3,ratio=0.5:0.999999)",
        "rrc(64,scale=0.999999:1,ratio=99:100)",
        "rrc(32,scale=0.08:1,ratio=4:5)",
    };
    static const uint32_t sizes[][2] = {{500, 375}, {468, 401},   {1, 1},        {1, 65500},
                                        {65500, 1}, {8, 3000},    {3000, 8},     {7, 5},
                                        {333, 500}, {9331, 6530}, {65500, 2049}, {2, 2}};
    struct crop_tables tables = {0};
    uint32_t compared = 0, close = 0;

    for (size_t i = 0; i < ARRAY_LEN(pipelines); i++) {
        struct pipeline p = parse(pipelines[i]);

        for (size_t s = 0; s < ARRAY_LEN(sizes); s++) {
            for (uint32_t position = 0; position < 3000; position++) {
                struct image_draw draw = {.seed = 77 + i, .epoch = position % 7, position};
                struct rect want;
                struct crop got;

                crop_locate(&p, &draw, sizes[s][0], sizes[s][1], &tables, &got);
                if (!published_box(&p, &draw, sizes[s][0], sizes[s][1], &want)) {
                    close++;
                    continue;
                }
                compared++;
                cr_assert(want.left == got.box.left && want.top == got.box.top &&
                              want.width == got.box.width && want.height == got.box.height,
                          "%s of %ux%u at %u: %ux%u+%u+%u, published %ux%u+%u+%u", p.text,
                          sizes[s][0], sizes[s][1], position, got.box.width, got.box.height,
                          got.box.left, got.box.top, want.width, want.height, want.left, want.top);
                cr_assert(got.width == p.width && got.height == p.height);
            }
        }
    }
    cr_log_info("%u boxes compared, %u too close to a half", compared, close);
    cr_expect(close < compared / 1000);
}

Test(crop, boxes_lie_inside_the_image)
{
    static const char *const pipelines[] = {"train",
                                            "rrc(8,scale=0.000001:1,ratio=1/100:100)",
                                            "eval",
                                            "resize(8192) center_crop(1)",
                                            "rrc(3x70)",
                                            "resize(70) center_crop(1x70)",
                                            "resize(9x8192) center_crop(9x3)"};
    struct crop_tables tables = {0};

    for (size_t i = 0; i < ARRAY_LEN(pipelines); i++) {
        struct pipeline p = parse(pipelines[i]);

        for (uint32_t k = 0; k < 20000; k++) {
            struct philox_block size = philox_draw(5, k, 0, DRAW_SEED, (uint32_t)i);
            uint32_t limit = k % 2 ? 64 : IMAGE_SIDE_MAX;
            uint32_t w = 1 + philox_below(size.word[0], limit);
            uint32_t most = IMAGE_PIXELS_MAX / w < limit ? IMAGE_PIXELS_MAX / w : limit;
            uint32_t h = 1 + philox_below(size.word[1], most);
            struct image_draw draw = {.seed = size.word[2], .position = k};
            struct crop c;

            crop_locate(&p, &draw, w, h, &tables, &c);
            cr_assert(c.box.width >= 1 && c.box.height >= 1 && c.box.left + c.box.width <= w &&
                      c.box.top + c.box.height <= h);
            cr_assert(c.window.width == p.width && c.window.height == p.height &&
                      c.window.left + c.window.width <= c.width &&
                      c.window.top + c.window.height <= c.height);
        }
    }
}

struct eval_case {
    uint32_t width, height, resize, crop;
    uint32_t new_width, new_height, left, top;
};

/* Computed by hand from torchvision's int(size * long / short) and int(round(margin / 2.0)). */
ParameterizedTestParameters(crop, eval)
{
    static struct eval_case cases[] = {
        {500, 375, 256, 224, 341, 256, 58, 16}, /* 58.5 rounds to the even 58 */
        {375, 500, 256, 224, 256, 341, 16, 58},
        {500, 373, 256, 224, 343, 256, 60, 16}, /* 59.5 rounds to the even 60 */
        {256, 256, 256, 224, 256, 256, 16, 16},
        {224, 224, 224, 224, 224, 224, 0, 0},
        {1, 1, 256, 224, 256, 256, 16, 16},
        {8, 3000, 256, 224, 256, 96000, 16, 47888},
        {3000, 8, 256, 224, 96000, 256, 47888, 16},
        {401, 468, 232, 224, 232, 270, 4, 23},
        {500, 499, 255, 254, 255, 255, 0, 0}, /* 0.5 rounds to 0 */
    };
    return cr_make_param_array(struct eval_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct eval_case *c, crop, eval)
{
    struct pipeline p = {.crop = PIPELINE_CENTER,
                         .resize_height = c->resize,
                         .width = c->crop,
                         .height = c->crop,
                         .flip = {0, 1}};
    struct crop_tables tables = {0};
    struct image_draw draw = {0};
    struct crop got;

    crop_locate(&p, &draw, c->width, c->height, &tables, &got);
    cr_expect(eq(u32, got.box.left, 0));
    cr_expect(eq(u32, got.box.top, 0));
    cr_expect(eq(u32, got.box.width, c->width));
    cr_expect(eq(u32, got.box.height, c->height));
    cr_expect(eq(u32, got.width, c->new_width));
    cr_expect(eq(u32, got.height, c->new_height));
    cr_expect(eq(u32, got.window.left, c->left));
    cr_expect(eq(u32, got.window.top, c->top));
}

struct letterbox_case {
    uint32_t width, height, to_width, to_height;
    uint32_t new_width, new_height, left, top;
};

/* Computed by hand from Pillow's ImageOps.pad(), which rounds a half to the even neighbour. */
ParameterizedTestParameters(crop, letterbox)
{
    static struct letterbox_case cases[] = {
        {500, 375, 640, 640, 640, 480, 0, 80}, {375, 500, 640, 640, 480, 640, 80, 0},
        {500, 375, 640, 480, 640, 480, 0, 0},  {1280, 720, 640, 640, 640, 360, 0, 140},
        {3, 1, 100, 100, 100, 33, 0, 34},    /* 33.5 rounds to the even 34 */
        {100, 31, 100, 100, 100, 31, 0, 34}, /* 34.5 rounds to the even 34 */
        {8, 3000, 32, 32, 1, 32, 16, 0},     /* 0.09 columns become 1; 15.5 rounds to 16 */
        {1, 1, 33, 32, 32, 32, 0, 0},        /* 0.5 rounds to 0 */
        {4, 3, 10, 10, 10, 8, 0, 1},         /* 7.5 rounds to 8 */
    };
    return cr_make_param_array(struct letterbox_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct letterbox_case *c, crop, letterbox)
{
    struct pipeline p = {
        .crop = PIPELINE_LETTERBOX, .width = c->to_width, .height = c->to_height, .flip = {0, 1}};
    struct crop_tables tables = {0};
    struct image_draw draw = {0};
    struct crop got;

    crop_locate(&p, &draw, c->width, c->height, &tables, &got);
    cr_expect(eq(u32, got.width, c->new_width));
    cr_expect(eq(u32, got.height, c->new_height));
    cr_expect(eq(u32, got.window.width, c->new_width));
    cr_expect(eq(u32, got.window.height, c->new_height));
    cr_expect(eq(int, got.padded, c->new_width < c->to_width || c->new_height < c->to_height));
    for (uint32_t x = 0; x < c->to_width; x++) {
        int64_t want = x < c->left || x >= c->left + c->new_width ? -1 : (int64_t)x - c->left;

        cr_expect(eq(i64, crop_source(PIPELINE_CONSTANT, &got.across, x), want), "column %u", x);
    }
    for (uint32_t y = 0; y < c->to_height; y++) {
        int64_t want = y < c->top || y >= c->top + c->new_height ? -1 : (int64_t)y - c->top;

        cr_expect(eq(i64, crop_source(PIPELINE_CONSTANT, &got.down, y), want), "row %u", y);
    }
}

/* The results of numpy.pad() for 0 1 2 and for 0, padded by 8. */
Test(crop, modes_of_padding_are_those_of_numpy)
{
    static const int8_t want[PIPELINE_PADS][19] = {
        [PIPELINE_CONSTANT] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 1, 2, -1, -1, -1, -1, -1, -1, -1,
                               -1},
        [PIPELINE_EDGE] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2},
        [PIPELINE_REFLECT] = {0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2},
        [PIPELINE_SYMMETRIC] = {1, 0, 0, 1, 2, 2, 1, 0, 0, 1, 2, 2, 1, 0, 0, 1, 2, 2, 1},
    };

    for (int mode = 0; mode < PIPELINE_PADS; mode++) {
        struct crop_axis three = {.size = 3, .pad = 8}, one = {.size = 1, .pad = 3};

        for (uint32_t i = 0; i < 19; i++)
            cr_expect(eq(i64, crop_source((enum pipeline_pad)mode, &three, i), want[mode][i]),
                      "mode %d, place %u", mode, i);
        for (uint32_t i = 0; i < 7; i++)
            cr_expect(eq(i64, crop_source((enum pipeline_pad)mode, &one, i),
                         mode == PIPELINE_CONSTANT && i != 3 ? -1 : 0));
    }
}

Test(crop, random_crops_reach_each_place_equally_often)
{
    struct pipeline p = parse("pad(4) random_crop(32x30)");
    struct crop_tables tables = {0};
    uint32_t across[11] = {0}, down[9] = {0};

    for (uint32_t k = 0; k < 99000; k++) {
        struct image_draw draw = {.seed = 3, .epoch = 1, .position = k};
        struct crop c;

        crop_locate(&p, &draw, 32, 32, &tables, &c);
        cr_assert(c.across.first < 11 && c.down.first < 9 && !c.across.more && !c.down.more);
        across[c.across.first]++;
        down[c.down.first]++;
    }
    for (int i = 0; i < 11; i++)
        cr_expect(across[i] > 8600 && across[i] < 9400, "left %d: %u", i, across[i]);
    for (int i = 0; i < 9; i++)
        cr_expect(down[i] > 10600 && down[i] < 11400, "top %d: %u", i, down[i]);
}

/* Torchvision calls this pad_if_needed. */
Test(crop, images_that_are_too_small_are_padded)
{
    struct pipeline p = parse("pad(2) random_crop(32)");
    struct crop_tables tables = {0};

    for (uint32_t k = 0; k < 1000; k++) {
        struct image_draw draw = {.seed = 3, .position = k};
        struct crop c;

        crop_locate(&p, &draw, 20, 28, &tables, &c);
        cr_assert(eq(u32, c.across.more, 8)); /* 20 + 2 * 2 is 8 short of 32 */
        cr_assert(eq(u32, c.down.more, 0));
        cr_assert(le(u32, c.across.first, 8));
        cr_assert(eq(u32, c.down.first, 0));
    }
}

Test(crop, mirrors_with_the_requested_probability)
{
    struct crop_tables tables = {0};
    static const struct {
        const char *pipeline;
        uint32_t low, high; /* the expected range, in 100000 draws */
    } cases[] = {
        {"rrc(8)", 0, 0},
        {"rrc(8) flip(1)", 100000, 100000},
        {"rrc(8) flip(0.5)", 49300, 50700},
        {"rrc(8) flip(1/100)", 860, 1140},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct pipeline p = parse(cases[i].pipeline);
        uint32_t count = 0;

        for (uint32_t k = 0; k < 100000; k++) {
            struct image_draw draw = {.seed = 3, .epoch = 1, .position = k};
            struct crop c;

            crop_locate(&p, &draw, 20, 20, &tables, &c);
            count += c.mirror;
        }
        cr_expect(count >= cases[i].low && count <= cases[i].high, "%s: %u", cases[i].pipeline,
                  count);
    }
}

Test(crop, tables_follow_the_pipeline)
{
    struct pipeline a = parse("rrc(64)"), b = parse("rrc(64,ratio=1/2:3)");
    struct crop_tables kept = {0};

    for (uint32_t k = 0; k < 100; k++) {
        struct crop_tables fresh = {0};
        struct image_draw draw = {.seed = 9, .position = k};
        struct crop got, want;

        crop_locate(k % 3 ? &a : &b, &draw, 640, 480, &kept, &got);
        crop_locate(k % 3 ? &a : &b, &draw, 640, 480, &fresh, &want);
        cr_assert(got.box.width == want.box.width && got.box.height == want.box.height &&
                  got.box.left == want.box.left && got.box.top == want.box.top);
    }
}
