/* SPDX-License-Identifier: MIT */
/* Checks that the description of a sample matches what was drawn for it. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/util/util.h"
#include "loader/image/ops/augment.h"
#include "loader/image/ops/augment_text.h"

/* Operations whose draws are all known in advance. */
static const struct {
    const char *operations, *words;
} cases[] = {
    {"", ""},
    {"flip(1)", "flip"},
    {"flip(1) flip(1)", ""},
    {"flip(1) vertical_flip(1)", "flip, vertical_flip"},
    {"vertical_flip(1) invert(1) vertical_flip(1)", "invert"},
    {"color_jitter(1.5:1.5, 1:1, 1:1)", "brightness 1.50"},
    {"color_jitter(1:1, 1:1, 1:1, -0.1:-0.1)", "hue -0.10"},
    {"brightness(1.31:1.31) contrast(0.72:0.72)", "brightness 1.31, contrast 0.72"},
    {"saturation(0:0)", "saturation 0.00"},
    {"hue(0.08:0.08) hue(1/2:1/2)", "hue +0.08, hue +0.50"},
    {"hsv(-0.1:-0.1, 0.5:0.5, 2:2)", "hsv -0.100 0.50 2.00"},
    {"hsv(0, 0, 0)", ""},
    {"sharpness(2:2)", "sharpness 2.00"},
    {"blur(9, 1.5:1.5)", "blur 1.50"},
    {"grayscale(1) equalize(1) autocontrast(1)", "grayscale, equalize, autocontrast"},
    {"solarize(128) posterize(4)", "solarize 128, posterize 4"},
    {"one_of(invert(1) equalize(1) | invert(1) equalize(1))", "invert, equalize"},
    {"rotate(30:30)", "rotate +30.0"},
    {"rotate(30:30) vertical_flip(1)", "vertical_flip, rotate -30.0"},
    {"flip(1) affine(20:20, scale=1.25:1.25)", "flip, rotate -20.0, scale 1.25"},
    {"shear(10:10)", "shear +10.0"},
    {"translate(0, 0)", "rotate +0.0"},
    {"perspective(0.5)", "perspective"},
    {"erase(1, scale=0.25:0.25, ratio=1:1)", "erase 32x32"},
    {"rand_augment(2, 9)", "brightness 0.73, saturation 0.73"},
    {"rand_augment(2, 9, mstd=0.5, inc=1)", "contrast 0.12"},
    {"trivial_augment_wide", "brightness 0.24"},
    {"auto_augment(imagenet)", "equalize"},
    {"augmix", "augmix, solarize 199, autocontrast, share 0.08, saturation 0.90, solarize 199, "
               "share 0.19, shear_y +1.9, translate +0 -1, solarize 199, share 0.40"},
    {"cutout(8192)", "cutout 64x64"},
    {"erase(1, scale=0.125:0.125, ratio=2:2) flip(1)", "flip, erase 16x32"},
};

static void parse(const char *operations, struct pipeline *ret)
{
    struct plenum_error err;
    char text[200];

    (void)snprintf(text, sizeof(text), "rrc(64) %s", operations);
    cr_assert(pipeline_parse(text, ret, &err) == 0, "%s: %s", text, err.text);
}

Test(augment_text, describes_what_is_drawn)
{
    const struct image_draw draw = {.seed = 1, .epoch = 2, .position = 3};
    char words[AUGMENT_TEXT_MAX];
    struct pipeline pipeline;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        parse(cases[i].operations, &pipeline);
        augment_describe(&pipeline, &draw, words, sizeof(words));
        cr_assert(strcmp(words, cases[i].words) == 0, "%s: '%s', not '%s'", cases[i].operations,
                  words, cases[i].words);
    }
}

Test(augment_text, has_every_operation)
{
    for (enum pipeline_op_kind kind = 0; kind < PIPELINE_WORDS; kind++) {
        const char *name = pipeline_op_name(kind);
        bool found = false;

        for (size_t i = 0; i < ARRAY_LEN(cases) && !found; i++)
            found = strstr(cases[i].operations, name) != NULL;
        cr_expect(found, "operation %s has no case in this test", name);
    }
}

/* Both tables of operations are complete: each step that can be drawn can be applied, and leaves a
 * whole image. */
Test(augment_text, every_step_can_be_applied)
{
    enum { SIDE = 64, BYTES = SIDE * SIDE * 3 };
    const struct image_store store = {PLENUM_UINT8, PLENUM_NHWC, 3};
    const struct image_draw draw = {.seed = 1, .epoch = 2, .position = 3};
    static struct augment_plan plan;
    static uint8_t dst[BYTES];
    struct crop_tables ratios = {0};
    struct augment *augment;

    cr_assert(augment_create(&augment) == 0);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct pipeline pipeline;
        uint8_t *window;

        parse(cases[i].operations, &pipeline);
        augment_draw(&pipeline, &draw, &ratios, &plan);
        window = augment_window(augment, &plan, SIDE, SIDE);
        cr_assert(window != NULL);
        memset(window, 120, BYTES); /* a level that no operation here makes white */
        memset(dst, 255, BYTES);
        augment_finish(augment, &plan, SIDE, SIDE, &store, dst);
        cr_expect(memchr(dst, 255, BYTES) == NULL, "%s", cases[i].operations);
    }
    augment_destroy(augment);
}

/* The text gives the sample's own share, and a box that is not larger than the picture. */
Test(augment_text, describes_what_is_mixed)
{
    char words[AUGMENT_TEXT_MAX];
    struct pipeline pipeline;
    unsigned width, height;
    double share;

    for (uint32_t position = 0; position < 100; position++) {
        const struct image_draw draw = {.position = position};

        parse("invert(1) mixup(1)", &pipeline);
        augment_describe(&pipeline, &draw, words, sizeof(words));
        cr_assert(sscanf(words, "invert, mixup %lf", &share) == 1 && share >= 0 && share <= 1);
        parse("cutmix(1)", &pipeline);
        augment_describe(&pipeline, &draw, words, sizeof(words));
        cr_assert(sscanf(words, "cutmix %ux%u", &width, &height) == 2 || words[0] == '\0');
        cr_assert(words[0] == '\0' || (width > 0 && height > 0 && width <= 64 && height <= 64));
    }
}

/* If the buffer is too small, it gets as many whole words from the beginning as fit. */
Test(augment_text, leaves_out_what_does_not_fit)
{
    const struct image_draw draw = {0};
    struct pipeline pipeline;
    char words[24];

    parse("invert(1) solarize(100) equalize(1)", &pipeline);
    for (size_t size = 1; size <= sizeof(words); size++) {
        augment_describe(&pipeline, &draw, words, size);
        cr_assert(eq(str, words, size < 7 ? "" : size < 21 ? "invert" : "invert, solarize 100"));
    }
}
