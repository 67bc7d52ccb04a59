/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>

#include "common/pipeline/views.h"
#include "common/util/util.h"

struct text_case {
    char text[96];
    char canonical[192]; /* "": rejected */
};

ParameterizedTestParameters(pipeline, canonical)
{
    static struct text_case cases[] = {
        {"train", "v1 rrc(224,scale=2/25:1,ratio=3/4:4/3) flip(1/2)"},
        {"eval", "v1 resize(256) center_crop(224)"},
        {"none", "v1 none"},
        {" v1  none ", "v1 none"},
        {"exif none", ""},
        {"junk none", ""},
        {"junk junk train", ""},
        {"train junk", ""},
        {"none flip(0.5)", ""},
        {"none none", ""},
        {"none(8)", ""},
        {"rrc(8) none", ""},
        {"exif cifar", "v1 exif pad(4,reflect) random_crop(32) flip(1/2)"},
        {"junk train", "v1 junk rrc(224,scale=2/25:1,ratio=3/4:4/3) flip(1/2)"},
        {"junk exif cifar", "v1 exif junk pad(4,reflect) random_crop(32) flip(1/2)"},
        {"v1 exif junk resize(9x9)", "v1 exif junk resize(9x9)"},
        {"mae", "v1 rrc(224,scale=1/5:1,ratio=3/4:4/3,interpolation=bicubic) flip(1/2)"},
        {"mae flip(0.1)", ""},
        {"cifr", ""},
        {"rrc(224 x 160)", "v1 rrc(224x160,scale=2/25:1,ratio=3/4:4/3)"},
        {"rrc(224x224)", "v1 rrc(224,scale=2/25:1,ratio=3/4:4/3)"},
        {"resize(256)center_crop(224x160)", "v1 resize(256) center_crop(224x160)"},
        {"resize(256x200,interpolation=bicubic)center_crop(224x200)",
         "v1 resize(256x200,interpolation=bicubic) center_crop(224x200)"},
        {"resize(224x224)", "v1 resize(224x224)"},
        {"resize(96x64, interpolation=nearest) flip(0.5)",
         "v1 resize(96x64,interpolation=nearest) flip(1/2)"},
        {"resize(256) random_crop(224)", "v1 resize(256) random_crop(224)"},
        {"resize(32) pad(0, reflect) random_crop(32)", "v1 resize(32) random_crop(32)"},
        {"resize(32x48) pad(4) random_crop(40x56)",
         "v1 resize(32x48) pad(4,constant,fill=0) random_crop(40x56)"},
        {"pad(4) random_crop(32) flip(0.5)", "v1 pad(4,constant,fill=0) random_crop(32) flip(1/2)"},
        {"pad(4,fill=9,constant)random_crop(32)", "v1 pad(4,constant,fill=9) random_crop(32)"},
        {"pad(4,reflect)random_crop(32x24)", "v1 pad(4,reflect) random_crop(32x24)"},
        {"pad(0, edge) random_crop(32)", "v1 pad(0,edge) random_crop(32)"},
        {"pad(8192, symmetric) random_crop(8192)", "v1 pad(8192,symmetric) random_crop(8192)"},
        {"letterbox(640)", "v1 letterbox(640,fill=0)"},
        {"mosaic(640)", "v1 mosaic(640,block=64,fill=114)"},
        {"mosaic(640x480, interpolation=bicubic, fill=0, block=13) mixup(1)",
         "v1 mosaic(640x480,block=13,fill=0,interpolation=bicubic) mixup(1)"},
        {"exif letterbox(640x480, fill=114, interpolation=bicubic)",
         "v1 exif letterbox(640x480,fill=114,interpolation=bicubic)"},
        {"letterbox(9, fill=1:2:3)", "v1 letterbox(9,fill=1:2:3)"},
        {"scale_jitter(1024)", "v1 scale_jitter(1024,1/10:2,fill=0)"},
        {"maskrcnn", "v1 scale_jitter(1024,1/10:2,fill=123:117:104) flip(1/2)"},
        {"scale_jitter(96x64, 0.5:1.5, interpolation=bicubic, fill=7:7:7) flip(0.5)",
         "v1 scale_jitter(96x64,1/2:3/2,fill=7,interpolation=bicubic) flip(1/2)"},
        {"zoom_out(1:4) resize(300x300)", "v1 zoom_out(1:4,fill=0,p=1/2) resize(300x300)"},
        {"exif zoom_out(1:2, p=1, fill=1:2:3) letterbox(640)",
         "v1 exif zoom_out(1:2,fill=1:2:3,p=1) letterbox(640,fill=1:2:3)"},
        {"zoom_out(1:4, p=0, fill=9) resize(30x20) flip(1)", "v1 resize(30x20) flip(1)"},
        {"iou_crop resize(300x300)", "v1 iou_crop(scale=3/10:1,ratio=1/2:2) resize(300x300)"},
        {"exif zoom_out(1:2,p=1)iou_crop(boxes = a_1, scale=0.5:1) resize(9x8) flip(1)",
         "v1 exif zoom_out(1:2,fill=0,p=1) iou_crop(scale=1/2:1,ratio=1/2:2,boxes=a_1) "
         "resize(9x8) flip(1)"},
        {"ssdlite", "v1 iou_crop(scale=3/10:1,ratio=1/2:2) resize(320x320) flip(1/2)"},
        {"iou_crop() resize(8x8)", "v1 iou_crop(scale=3/10:1,ratio=1/2:2) resize(8x8)"},
        {"zoom_out(1:4, p=0, fill=9) letterbox(8)", "v1 letterbox(8,fill=9)"},
        {" rrc( 160 )", "v1 rrc(160,scale=2/25:1,ratio=3/4:4/3)"},
        {"v1 rrc(224, ratio=0.75:1.5, scale=0.25:0.5)", "v1 rrc(224,scale=1/4:1/2,ratio=3/4:3/2)"},
        {"rrc(8)flip(1)", "v1 rrc(8,scale=2/25:1,ratio=3/4:4/3) flip(1)"},
        {"rrc(8) flip(0)", "v1 rrc(8,scale=2/25:1,ratio=3/4:4/3)"},
        {"exif resize(10) center_crop(10)", "v1 exif resize(10) center_crop(10)"},
        {"rrc(8192)", "v1 rrc(8192,scale=2/25:1,ratio=3/4:4/3)"},
        {"v1 eval", "v1 resize(256) center_crop(224)"},
        {"rrc(224, scale=0.2:1, interpolation=bicubic) flip(0.5)",
         "v1 rrc(224,scale=1/5:1,ratio=3/4:4/3,interpolation=bicubic) flip(1/2)"},
        {"rrc(224,interpolation=bilinear)", "v1 rrc(224,scale=2/25:1,ratio=3/4:4/3)"},
        {"rrc(9,interpolation = random, ratio=1:1)",
         "v1 rrc(9,scale=2/25:1,ratio=1:1,interpolation=random)"},
        {"resize(256, interpolation=lanczos) center_crop(224)",
         "v1 resize(256,interpolation=lanczos) center_crop(224)"},
        {"rrc(8) flip(0) vertical_flip(0) flip(0.5)flip(1)",
         "v1 rrc(8,scale=2/25:1,ratio=3/4:4/3) flip(1/2) flip(1)"},
        {"rrc(8) color_jitter(0.4, p=0.8, 1:1) invert(.5)",
         "v1 rrc(8,scale=2/25:1,ratio=3/4:4/3) color_jitter(3/5:7/5,1:1,1:1,p=4/5) invert(1/2)"},
        {"rrc(8) color_jitter(2) sharpness(0:2, p=1) solarize(128, p=0.2) posterize(4)",
         "v1 rrc(8,scale=2/25:1,ratio=3/4:4/3) color_jitter(0:3,1:1,1:1) sharpness(0:2) "
         "solarize(128,p=1/5) posterize(4)"},
        {"rrc(8) color_jitter(0.4, 1:1, 0, 0.1)",
         "v1 rrc(8,scale=2/25:1,ratio=3/4:4/3) color_jitter(3/5:7/5,1:1,1:1,-1/10:1/10)"},
        {"rrc(8) color_jitter(1:1, 0, 0, -0:0.2) color_jitter(0, 0, 0, 0)",
         "v1 rrc(8,scale=2/25:1,ratio=3/4:4/3) color_jitter(1:1,1:1,1:1,0:1/5) "
         "color_jitter(1:1,1:1,1:1)"},
        {"rrc(8) hue(-.5 : 1/3, p=0.3)",
         "v1 rrc(8,scale=2/25:1,ratio=3/4:4/3) hue(-1/2:1/3,p=3/10)"},
        {"rrc(8) hsv(0.015, 0.7, .5:1.5, p=0.5)",
         "v1 rrc(8,scale=2/25:1,ratio=3/4:4/3) hsv(-3/200:3/200,3/10:17/10,1/2:3/2,p=1/2)"},
        {"rrc(12) blur(23, 0.1:2, p=0.5) blur(1,1:1)",
         "v1 rrc(12,scale=2/25:1,ratio=3/4:4/3) blur(23,1/10:2,p=1/2) blur(1,1:1)"},
        {"rrc(8) erase(1, ratio=1:2, value=pixel) cutout(4)",
         "v1 rrc(8,scale=2/25:1,ratio=3/4:4/3) erase(1,scale=1/50:33/100,ratio=1:2,value=pixel) "
         "cutout(4)"},
        {"rrc(8) erase(1, ratio=1:2, value=random, value=7:7:7)",
         "v1 rrc(8,scale=2/25:1,ratio=3/4:4/3) erase(1,scale=1/50:33/100,ratio=1:2,value=7)"},
        {"rrc(8) erase(1, ratio=1:2, value=124:116:103)",
         "v1 rrc(8,scale=2/25:1,ratio=3/4:4/3) "
         "erase(1,scale=1/50:33/100,ratio=1:2,value=124:116:103)"},
        {"rrc(8) erase(0.25, ratio=1:2)",
         "v1 rrc(8,scale=2/25:1,ratio=3/4:4/3) erase(1/4,scale=1/50:33/100,ratio=1:2,value=0)"},
        {"rrc(8) mixup(0.2)", "v1 rrc(8,scale=2/25:1,ratio=3/4:4/3) mixup(1/5)"},
        {"rrc(8) cutmix( 1, p=.5)", "v1 rrc(8,scale=2/25:1,ratio=3/4:4/3) cutmix(1,p=1/2)"},
        {"rrc(8) invert(1) mix(mixup=0.8, cutmix=1)",
         "v1 rrc(8,scale=2/25:1,ratio=3/4:4/3) invert(1) mix(mixup=4/5,cutmix=1,switch=1/2)"},
        {"rrc(8) mix(switch=0.3, p=0.9, cutmix=1, mixup=0.8)",
         "v1 rrc(8,scale=2/25:1,ratio=3/4:4/3) mix(mixup=4/5,cutmix=1,p=9/10,switch=3/10)"},
        {"rrc(8) mix(mixup=0.8, switch=0.3)", "v1 rrc(8,scale=2/25:1,ratio=3/4:4/3) mixup(4/5)"},
        {"rrc(8) mix(mixup=1, cutmix=2, switch=1)",
         "v1 rrc(8,scale=2/25:1,ratio=3/4:4/3) cutmix(2)"},
        {"rrc(8) mix(mixup=1, cutmix=2, switch=0, p=0.5)",
         "v1 rrc(8,scale=2/25:1,ratio=3/4:4/3) mixup(1,p=1/2)"},
        {"rrc(8) mixup(1, p=0)", "v1 rrc(8,scale=2/25:1,ratio=3/4:4/3)"},
        {"rrc(8) mixup(0)", ""},
        {"rrc(8) mixup(10.1)", ""},
        {"rrc(8) mixup(0.2) flip(0.5)", ""},
        {"rrc(8) mixup(0.2) cutmix(1)", ""},
        {"rrc(8) mixup(alpha=0.2)", ""},
        {"rrc(8) mix(p=0.5)", ""},
        {"rrc(8) mix()", ""},
        {"rrc(8) mixup", ""},
        {"mixup(0.2)", ""},
        {"resize(8,interpolation=nearest)center_crop(8)",
         "v1 resize(8,interpolation=nearest) center_crop(8)"},
        {"rrc(8) one_of(grayscale(1)|solarize(9) flip(0) ) invert(1)",
         "v1 rrc(8,scale=2/25:1,ratio=3/4:4/3) one_of(grayscale(1)|solarize(9) flip(0)) invert(1)"},
        {"rrc(8) one_of(flip(0.5) | invert(0), p=0.5)",
         "v1 rrc(8,scale=2/25:1,ratio=3/4:4/3) one_of(flip(1/2)|invert(0),p=1/2)"},
        {"rrc(8) one_of(flip(1) | invert(1), p=0) flip(0.5)",
         "v1 rrc(8,scale=2/25:1,ratio=3/4:4/3) flip(1/2)"},
        {"rrc(8) rand_augment(2, 9) trivial_augment_wide",
         "v1 rrc(8,scale=2/25:1,ratio=3/4:4/3) rand_augment(2,9) trivial_augment_wide"},
        {"rrc(8) rand_augment(2, 9, inc=1, p=0.5) trivial_augment_wide(p=0.5)",
         "v1 rrc(8,scale=2/25:1,ratio=3/4:4/3) rand_augment(2,9,mstd=0,inc=1,p=1/2) "
         "trivial_augment_wide(p=1/2)"},
        {"rrc(8) rand_augment(2, 9, mstd=0.5) auto_augment(svhn)trivial_augment_wide()",
         "v1 rrc(8,scale=2/25:1,ratio=3/4:4/3) rand_augment(2,9,mstd=1/2,inc=0) "
         "auto_augment(svhn) trivial_augment_wide"},
        {"rrc(8) augmix augmix(depth = 2, p=0.5) one_of(augmix() | flip(1))",
         "v1 rrc(8,scale=2/25:1,ratio=3/4:4/3) augmix(severity=3,width=3,depth=-1) "
         "augmix(severity=3,width=3,depth=2,p=1/2) "
         "one_of(augmix(severity=3,width=3,depth=-1)|flip(1))"},
        {"rrc(32) three_augment", "v1 rrc(32,scale=2/25:1,ratio=3/4:4/3) "
                                  "one_of(grayscale(1)|solarize(128)|blur(23,1/10:2))"},
        /* Decimal fractions, as programs print them. */
        {"rrc(8, ratio=0.75:1.3333333333333333)", "v1 rrc(8,scale=2/25:1,ratio=3/4:4/3)"},
        {"rrc(8, scale=0.08333333333333333:0.9999999999999999)",
         "v1 rrc(8,scale=1/12:1,ratio=3/4:4/3)"},
        {"rrc(8) flip(0.30000000000000004)", "v1 rrc(8,scale=2/25:1,ratio=3/4:4/3) flip(3/10)"},
        {"rrc(8) flip(0.1234567)", "v1 rrc(8,scale=2/25:1,ratio=3/4:4/3) flip(118383/958903)"},
        {"rrc(8) flip(.50000000000000000000000001)",
         "v1 rrc(8,scale=2/25:1,ratio=3/4:4/3) flip(1/2)"},
        {"rrc(8) flip(0.0000004)", "v1 rrc(8,scale=2/25:1,ratio=3/4:4/3)"},
        {"rrc(8) flip(0.0000006)", "v1 rrc(8,scale=2/25:1,ratio=3/4:4/3) flip(1/1000000)"},
        {"", ""},
        {"v1", ""},
        {"fast-v1", ""},
        {"fast-v1 train", ""},
        {" fast-v1  rrc(8)", ""},
        {"fast-v2 rrc(8)", ""},
        {"fast v1 rrc(8)", ""},
        {"v1 fast-v1 rrc(8)", ""},
        {"fast-v1rrc(8)", ""},
        {"exif fast-v1 rrc(8)", ""},
        {"rrc", ""},
        {"rrc()", ""},
        {"rrc(0)", ""},
        {"rrc(8193)", ""},
        {"rrc(99999999999999999999)", ""},
        {"rrc(224", ""},
        {"rrc(224))", ""},
        {"rrc(224) rrc(224)", ""},
        {"rrc(224, scale=0:1)", ""},
        {"rrc(224, scale=0.5:0.4)", ""},
        {"rrc(224, scale=0.5:1.1)", ""},
        {"rrc(224, scale=1)", ""},
        {"rrc(224, ratio=1/0:2)", ""},
        {"rrc(224, ratio=0.001:2)", ""},
        {"rrc(224, ratio=1:1000)", ""},
        {"rrc(224, colour=1:2)", ""},
        {"rrc(224, scale=.:1)", ""},
        {"rrc(224, scale=0.0000001234567:1)", ""},
        {"resize(256)", ""},
        {"resize(224) center_crop(256)", ""},
        {"center_crop(224)", ""},
        {"rrc(224) flip(1.5)", ""},
        {"rrc(224) flip(-0.5)", ""},
        {"flip(0.5) rrc(224)", ""},
        {"rrc(224) blur(3)", ""},
        {"trainx", ""},
        {"v2 rrc(224)", ""},
    };
    return cr_make_param_array(struct text_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct text_case *c, pipeline, canonical)
{
    struct pipeline p = {.text = "untouched"}, again;
    struct plenum_error err = {""};
    char text[VIEWS_TEXT_MAX];
    int r = pipeline_parse(c->text, &p, &err);

    if (!c->canonical[0]) {
        cr_expect(eq(int, r, -EINVAL), "'%s' was parsed as '%s'", c->text, p.text);
        cr_expect(eq(str, p.text, "untouched"));
        cr_expect(eq(ptr, (void *)strstr(err.text, "pipeline: "), (void *)err.text), "%s",
                  err.text);
        return;
    }
    cr_assert(eq(int, r, 0), "'%s': %s", c->text, err.text);
    cr_expect(eq(str, p.text, c->canonical));
    cr_assert(eq(int, pipeline_parse(p.text, &again, &err), 0), "the canonical text must parse");
    cr_expect(eq(int, memcmp(&p, &again, sizeof(p)), 0), "it must give the same pipeline");
    pipeline_write_decimals(p.text, text, sizeof(text));
    cr_assert(eq(int, pipeline_parse(text, &again, &err), 0), "%s: %s", text, err.text);
    cr_expect(eq(int, memcmp(&p, &again, sizeof(p)), 0), "'%s' must be the same pipeline", text);
}

/* Users read 0.6, not 3/5; values that need more than four digits stay fractions. */
Test(pipeline, fractions_are_shown_as_decimals)
{
    static const char *const cases[][2] = {
        {"color_jitter(3/5:7/5,-1/10:1/10,p=4/5)", "color_jitter(0.6:1.4,-0.1:0.1,p=0.8)"},
        {"rrc(224,scale=2/25:1,ratio=3/4:4/3)", "rrc(224,scale=0.08:1,ratio=0.75:4/3)"},
        {"1/3 1/10000 1/20000 8/4 12345/10000", "1/3 0.0001 1/20000 2 1.2345"},
        {"view(a1,2,eval) x1/2 1/0 1/ /2 1234567890/2",
         "view(a1,2,eval) x1/2 1/0 1/ /2 1234567890/2"},
        {"", ""},
    };
    char text[100], small[30], big[] = "1/10000 1/10000 1/10000 1/10000";

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        pipeline_write_decimals(cases[i][0], text, sizeof(text));
        cr_expect(eq(str, text, (char *)cases[i][1]));
    }
    pipeline_write_decimals(big, small, sizeof(small));
    cr_expect(eq(int, strncmp(small, big, sizeof(small) - 1), 0),
              "without room, the text must be truncated unchanged");
    cr_expect(eq(sz, strlen(small), sizeof(small) - 1));
}

static void expect_sentence(const char *text, const char *sentence)
{
    struct pipeline p;
    struct plenum_error err = {""};

    cr_expect(eq(int, pipeline_parse(text, &p, &err), -EINVAL), "%s", text);
    cr_expect(strncmp(err.text, sentence, strlen(sentence)) == 0, "'%s' gives '%s'", text,
              err.text);
}

Test(pipeline, the_stage_that_is_wrong_is_quoted)
{
    expect_sentence("resize(5) center_crop(6)",
                    "pipeline: center_crop must not be larger than resize, in 'center_crop(6)'");
    expect_sentence(
        "resize(5) flip(1)",
        "pipeline: resize(S) must be followed by center_crop(S) or random_crop(S), so that all "
        "images get the same shape; or write resize(HxW), in 'resize(5)' (character 11)");
    expect_sentence("exif v1 train",
                    "pipeline: the version must come first, as in 'v1 exif train', in 'v1 train'");
    expect_sentence("train flip(0.1)", "pipeline: train means 'rrc(224) flip(0.5)' and takes no "
                                       "further stages: write all stages out instead");
    expect_sentence("v1 exif eval rrc(3)",
                    "pipeline: eval means 'resize(256) center_crop(224)' and takes no further "
                    "stages: write all stages out instead");
}

Test(pipeline, has_sixteen_operations_and_a_bounded_text)
{
    char text[4096] = "rrc(8)";
    struct pipeline p, again;
    struct plenum_error err = {""};

    for (int i = 0; i < PIPELINE_OPS_MAX; i++)
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), " invert(1/7)");
    cr_assert(eq(int, pipeline_parse(text, &p, &err), 0), "%s", err.text);
    cr_expect(eq(u32, p.ops_count, PIPELINE_OPS_MAX));
    cr_expect(eq(int, pipeline_parse(p.text, &again, &err), 0));
    cr_expect(eq(int, memcmp(&p, &again, sizeof(p)), 0));
    (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), " invert(1)");
    cr_expect(eq(int, pipeline_parse(text, &p, &err), -EINVAL));
    cr_expect(ne(ptr, (void *)strstr(err.text, "more than 16 operations"), NULL), "%s", err.text);

    (void)snprintf(text, sizeof(text), "rrc(8)");
    for (int i = 0; i < 10; i++)
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text),
                       " color_jitter(123457/999999:2,1/999983:1,1/999979:1,p=1/999961)");
    cr_expect(eq(int, pipeline_parse(text, &p, &err), 0), "%s", err.text);
    cr_expect(gt(sz, strlen(p.text), 511));
    cr_expect(eq(int, pipeline_parse(p.text, &again, &err), 0));
    cr_expect(eq(int, memcmp(&p, &again, sizeof(p)), 0));

    (void)snprintf(text, sizeof(text), "rrc(8)");
    for (int i = 0; i < PIPELINE_OPS_MAX; i++)
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text),
                       " affine(1/999983:180,translate=1/999979:1/999961,scale=123457/999999:2,"
                       "shear=1/999959:2,interpolation=bilinear,fill=124:116:104,p=1/999931)");
    cr_expect(eq(int, pipeline_parse(text, &p, &err), -EINVAL));
    cr_expect(ne(ptr, (void *)strstr(err.text, "it is too long"), NULL), "%s", err.text);
}

Test(pipeline, removed_words_are_reported_as_removed)
{
    struct pipeline p;
    struct plenum_error err = {""};

    cr_expect(eq(int, pipeline_parse("fast-v1 exif train", &p, &err), -EINVAL));
    cr_expect(
        ne(ptr,
           (void *)strstr(err.text,
                          "fast-v1 no longer exists, because v1 is now faster: leave the word out"),
           NULL),
        "%s", err.text);
}

/* These are common mistakes of users, and the messages they get. */
Test(pipeline, messages_say_what_to_write)
{
    static const struct {
        const char *text, *said[3];
    } cases[] = {
        {"rrc(224, 160)", {"write a size as 224, or as 224x160 (height x width)", "(character 8)"}},
        {"rrc((224, 224)) flip(0.5)", {"224x160 (height x width)", "(character 5)"}},
        {"resize(224,224)", {"224x160 (height x width)", "in 'resize(224,224)'"}},
        {"rrc(224X160)", {"224x160 (height x width)", "(character 8)"}},
        {"rrc(224x)", {"the width is missing", "(character 9)"}},
        {"rrc(224x160x3)", {"rrc takes a size"}},
        {"rrc(0x160)", {"a size must be 1 to 8192 pixels"}},
        {"rrc(224x0)", {"a size must be 1 to 8192 pixels"}},
        {"rrc(224x8193)", {"a size must be 1 to 8192 pixels"}},
        {"resize(224x160) center_crop(200)", {"center_crop must not be larger than resize"}},
        {"resize(224) pad(4) center_crop(200)", {"pad(N) must be followed by random_crop(S)"}},
        {"pad(4)", {"pad(N) must be followed by random_crop(S)", "in 'pad(4)'"}},
        {"pad random_crop(32)", {"pad needs a number of pixels, as in pad(4)"}},
        {"pad(8193) random_crop(32)", {"a size must be 1 to 8192 pixels"}},
        {"pad(4, mirror) random_crop(32)", {"constant, edge, reflect or symmetric"}},
        {"pad(4, reflect, fill=3) random_crop(32)", {"fill= can be used only with constant"}},
        {"pad(4, fill=256) random_crop(32)", {"a level must be a whole number from 0 to 255"}},
        {"pad(4) random_crop", {"random_crop takes only a size"}},
        {"pad(4) random_crop(32, 4)", {"224x160 (height x width)"}},
        {"random_crop(32)",
         {"random_crop must follow resize(S) or pad(N)", "pad(0) random_crop(S)"}},
        {"resize(32) random_crop(33)", {"random_crop must not be larger than resize with its"}},
        {"resize(32x40) pad(4) random_crop(41x40)", {"must not be larger", "random_crop(41x40)"}},
        {"letterbox", {"letterbox needs a size, as in letterbox(640)"}},
        {"mosaic", {"mosaic needs a size, as in mosaic(640)"}},
        {"mosaic(640, 64)", {"write a size as 224"}},
        {"mosaic(640, block=12)", {"mosaic takes a size, block=POSITIONS"}},
        {"mosaic(640x1)", {"a mosaic must have at least 2 x 2 pixels"}},
        {"mosaic(640) mosaic(320)", {"mosaic belongs to the crop"}},
        {"scale_jitter", {"scale_jitter needs a size, as in scale_jitter(1024)"}},
        {"scale_jitter(32, 2:1)", {"scale must be low:high with 1/100 <= low"}},
        {"scale_jitter(32, fill=1, 1:2)", {"scale_jitter takes a size, a range of scales"}},
        {"zoom_out(0.5:2) resize(8x8)", {"the sides of zoom_out must be low:high with 1 <= low"}},
        {"zoom_out(2) resize(8x8)", {"write a range as low:high"}},
        {"zoom_out(1:2, 3) resize(8x8)", {"zoom_out takes low:high"}},
        {"zoom_out(1:2) resize(8)", {"zoom_out must be followed by resize(HxW) or letterbox(S)"}},
        {"iou_crop(min_scale=0.3) resize(8x8)", {"iou_crop takes scale=low:high, ratio="}},
        {"iou_crop(boxes=) resize(8x8)", {"boxes= needs the name of a field, of up to 31"}},
        {"iou_crop(scale=0:1) resize(8x8)", {"scale must be low:high with 0 < low"}},
        {"iou_crop letterbox(8)", {"and iou_crop by resize(HxW), so"}},
        {"iou_crop resize(8x8) mixup(0.2)", {"iou_crop cannot be used with mixup, cutmix or mix"}},
        {"zoom_out(1:2, p=0) rrc(8)", {"zoom_out must be followed by resize(HxW)"}},
        {"zoom_out(1:2) rrc(8)", {"zoom_out must be followed by resize(HxW) or letterbox(S)"}},
        {"zoom_out(1:2) resize(8x8) center_crop(4)", {"nothing can be cropped"}},
        {"zoom_out(1:2) letterbox(8, fill=9)", {"zoom_out and letterbox must have the same fill"}},
        {"letterbox(640, 114)", {"write a size as 224"}},
        {"letterbox(640, scale=1:1)", {"letterbox takes a size, fill=LEVEL"}},
        {"letterbox(640, fill=1/2)", {"a level must be a whole number from 0 to 255"}},
        {"crop(32)", {"it must begin with rrc(S), resize(S) center_crop(S), resize(HxW)"}},
        {"resize(232, bicubic) center_crop(224)", {"resize takes a size and interpolation=NAME"}},
        {"rrc(224, bicubic)", {"rrc takes a size, scale=low:high", "interpolation=NAME"}},
        {"rrc(224, interpolation=cubic)", {"must be bilinear, bicubic, lanczos", "(character 24)"}},
        {"rrc(224, scale=(0.08, 1))", {"low:high, without brackets"}},
        {"rrc(224, scale=0.08, 1)", {"write a range as low:high"}},
        {"rrc(224) flip(50%)", {"0.25 or 1/4", "percent", "(character 17)"}},
        {"rrc(224) flip(5e-1)", {"exponent"}},
        {"rrc(224) flip(p=0.5)", {"0.25 or 1/4"}},
        {"rrc(224) flip(0.5, 0.5)", {"flip takes a probability, as in flip(0.5)"}},
        {"rrc(224) flip", {"flip takes a probability, as in flip(0.5)"}},
        {"rrc(224", {"a ')' is missing"}},
        {"rrc(224) hflip(0.5)", {"unknown operation (did you mean flip?)", "(character 10)"}},
        {"rrc(224), flip(0.5)", {"with spaces, not with commas", "(character 9)"}},
        {"rrc(224) flip(0.5); invert(1)", {"separate operations with spaces", "(character 19)"}},
        {"rrc(224) normalize(0.5)",
         {"a pipeline produces bytes", "dtype=\"float32\"", "mean=, std="}},
        {"rrc(224) to_tensor", {"a pipeline produces bytes", "(character 10)"}},
        {"rrc(224) ToTensor()", {"a pipeline produces bytes"}},
        {"rrc(224) no_augment(2, 9)", {"unknown operation (docs/pipelines.md"}},
        {"rrc(224) rand_augment(2)", {"rand_augment takes the number of operations (1 to 15)"}},
        {"rrc(224) rand_augment", {"rand_augment takes the number of operations (1 to 15)"}},
        {"rrc(224) rand_augment(16, 9)", {"(1 to 15)", "(character 25)"}},
        {"rrc(224) rand_augment(2, 31)", {"magnitude (0 to 30)"}},
        {"rrc(224) rand_augment(2, 11, inc=1)",
         {"with mstd= or inc=, the magnitude must be from 0 to 10"}},
        {"rrc(224) rand_augment(2, 9, mstd=101)", {"mstd must be from 0 to 100"}},
        {"rrc(224) rand_augment(2, 9, inc=2)", {"inc=0|1"}},
        {"rrc(224) rand_augument(2, 9)", {"did you mean rand_augment?"}},
        {"rrc(224) trivial_augment(1)", {"did you mean trivial_augment_wide?"}},
        {"RandomResizedCrop(224)", {"no pipeline begins with this (did you mean rrc?)"}},
        {"v2.RandomResizedCrop(224)", {"no pipeline begins with this (did you mean rrc?)"}},
        {"transforms.Resize(256)", {"no pipeline begins with this (did you mean resize?)"}},
        {"RandomCrop(32, padding=4)", {"no pipeline begins with this (did you mean random_crop?)"}},
        {"CenterCrop(224)", {"no pipeline begins with this (did you mean center_crop?)"}},
        {"center_crop(224)", {"center_crop must follow resize(S), as in resize(256)"}},
        {"to_tensor()", {"a pipeline produces bytes", "mean=, std=", "(character 1)"}},
        {"exif to_tensor() rrc(224)", {"a pipeline produces bytes", "(character 6)"}},
        {"normalize(0.5, 0.5)", {"a pipeline produces bytes", "dtype=\"float32\"", "mean=, std="}},
        {"T.Normalize(mean=0.5)", {"a pipeline produces bytes"}},
        {"ConvertImageDtype(float)", {"a pipeline produces bytes"}},
        {"PILToTensor() rrc(224)", {"batches are already arrays or tensors", "(character 1)"}},
        {"rrc(224) v2.ToImage()", {"batches are already arrays or tensors", "(character 10)"}},
        {"Compose([Resize(256)])", {"one after another, separated by spaces"}},
        {"rrc(224) transforms.Compose([])", {"one after another, separated by spaces"}},
        {"flip(0.5) rrc(224)", {"flip must follow the crop: begin with rrc(S)", "(character 1)"}},
        {"RandomHorizontalFlip()", {"flip must follow the crop: begin with rrc(S)"}},
        {"v2.ColorJitter(0.4) rrc(224)", {"color_jitter must follow the crop"}},
        {"mixup(0.8)", {"mixup must follow the crop"}},
        {"rrc(224) rrc(224)", {"rrc belongs to the crop, which must come first, and only once"}},
        {"rrc(224) flip(0.5) Resize(256)", {"resize belongs to the crop", "(character 20)"}},
        {"rrc(224) RandomCrop(32)", {"random_crop belongs to the crop"}},
        {"rrc(224) v2.RandomRotation(30)", {"did you mean rotate?"}},
        {"Train", {"no pipeline begins with this (did you mean train?)"}},
        {"rrc(224) RandomHorizontalFlip(0.5)", {"did you mean flip?"}},
        {"rrc(224) vflip(0.5)", {"did you mean vertical_flip?"}},
        {"rrc(224) ColorJitter(0.4)", {"did you mean color_jitter?"}},
        {"rrc(224) RandomErasing(0.1)", {"did you mean erase?"}},
        {"rrc(224) random_rotation(30)", {"did you mean rotate?"}},
        {"rrc(224) GaussianBlur(23)", {"did you mean blur?"}},
        {"rrc(224) RandAugment(2, 9)", {"did you mean rand_augment?"}},
        {"rrc(224) RandomPerspective", {"did you mean perspective?"}},
        {"rrc(224) one_of(mixup(1) | flip(1))", {"must come last, after one_of", "(character 22)"}},
        {"rrc(224) three_augment(p=0.5)", {"three_augment takes no arguments", "(character 24)"}},
        {"rrc(11) three_augment", {"images of at least 12 pixels", "(character 22)"}},
        {"rrc(224) trivial_augment_wide(1)", {"takes interpolation=nearest or bilinear, and p="}},
        {"rrc(224) auto_augment", {"imagenet, cifar10 or svhn"}},
        {"rrc(224) auto_augment(cifar100)", {"imagenet, cifar10 or svhn", "(character 23)"}},
        {"rrc(224) augmix(severity=0)", {"severity=1 ... 10"}},
        {"rrc(224) augmix(depth=-2)", {"(or -1: random)"}},
        {"rrc(224) augmix(width=6)", {"width=1 ... 5"}},
        {"rrc(224) tree_augment", {"did you mean three_augment?"}},
        {"rrc(224) one_of(augmix | three_augment)",
         {"one_of cannot contain one_of or three_augment"}},
        {"rrc(224) color_jitter(0.4, 0.4, 0.4, 0.1, 0.1)", {"color_jitter takes brightness"}},
        {"rrc(224) color_jitter(0.4, 0.4, 0.4, 0.6)",
         {"hue must be low:high with -1/2 <= low <= high <= 1/2"}},
        {"rrc(224) color_jitter(0.4, 0.4, 0.4, -0.1)",
         {"hue must be low:high with -1/2 <= low <= high"}},
        {"rrc(224) color_jitter(-0.4)", {"a number is missing"}},
        {"rrc(224) rand_augment(2, 9, mstd inc=1)", {"rand_augment takes"}},
        {"rrc(224) rotate(10, p interpolation fill=7)", {"rotate takes"}},
        {"rrc(224, scale ratio=1:2)", {"rrc takes"}},
        {"rrc(224) blur(22, 0.1:2)", {"blur takes the size of its kernel (odd, 1 to 99)"}},
        {"rrc(224) blur(101, 0.1:2)", {"blur takes the size of its kernel (odd, 1 to 99)"}},
        {"rrc(224) blur(23)", {"blur takes the size of its kernel", "as in blur(23, 0.1:2)"}},
        {"rrc(224) blur(23, 2)", {"write a range as low:high"}},
        {"rrc(224) blur(23, 0:2)", {"sigma must be low:high with 0.01 <= low <= high <= 100"}},
        {"rrc(224) blur(23, 2:1)", {"sigma must be low:high with 0.01 <= low <= high <= 100"}},
        {"rrc(11) blur(23, 1:2)",
         {"a blur's kernel can be at most twice as large as the image, minus 1"}},
        {"rrc(224) hue(0.1)", {"write a range as low:high"}},
        {"rrc(224) hue(--0.1:0.1)", {"a number is missing"}},
        {"rrc(224) hue(0.1:-0.1)", {"hue must be low:high with -1/2 <= low <= high <= 1/2"}},
        {"rrc(224) one_of(flip(1))", {"one_of takes two or more lists"}},
        {"rrc(224) one_of(flip(1) | )", {"unknown operation", "(character 27)"}},
        {"rrc(224) one_of()", {"unknown operation", "(character 17)"}},
        {"rrc(224) one_of flip(1)", {"one_of takes two or more lists"}},
        {"rrc(224) one_of(flip(1) | invert(1)", {"a ')' is missing"}},
        {"rrc(224) one_of(flip(1) | invert(1), q=1)", {"and p=PROBABILITY", "(character 38)"}},
        {"rrc(224) one_of(flip(1) | one_of(flip(1) | invert(1)))",
         {"one_of cannot contain one_of"}},
        {"rrc(224) one_of(flip(1) | inverted(1))", {"did you mean invert?", "(character 27)"}},
        {"rrc(224) onof(flip(1) | invert(1))", {"did you mean one_of?"}},
        {"rrc(224) color_jitter(2.5)", {"factors must be low:high with 0 <= low <= high <= 3"}},
        {"rrc(224) brightness(0.4)", {"write a range as low:high", "(character 24)"}},
        {"rrc(224) contrast(1.2:0.8)", {"0 <= low <= high <= 3"}},
        {"rrc(224) solarize(128, p=1.5)", {"a probability must be from 0 to 1"}},
        {"rrc(224) solarize(257)", {"a threshold of 0 to 256"}},
        {"rrc(224) hsv(0.015, 0.7)", {"hsv takes gains of hue, saturation and value"}},
        {"rrc(224) hsv(0.7, 0.7, 0.4)", {"hue must be low:high with -1/2 <= low"}},
        {"rrc(224) posterize(1/2)", {"posterize takes a number of bits (0 to 8)"}},
        {"rrc(224) grayscale", {"grayscale takes a probability, as in grayscale(0.2)"}},
        {"rrc(224) erase(0.5, scale=0:1)", {"scale must be low:high with 0 < low <= high <= 1"}},
        {"rrc(224) erase(0.5, value=256)", {"a level must be a whole number from 0 to 255"}},
        {"rrc(224) erase(0.5, value=noise)", {"RED:GREEN:BLUE, random or pixel"}},
        {"rrc(224) erase(0.5, value=1:2)", {"write one level (128), or red:green:blue"}},
        {"rrc(224) erase(0.5, value=1:2:256)", {"a level must be a whole number from 0 to 255"}},
        {"rrc(224) cutout(0)", {"cutout takes the side of a square, 1 to 8192"}},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct pipeline p;
        struct plenum_error err = {""};

        cr_expect(eq(int, pipeline_parse(cases[i].text, &p, &err), -EINVAL), "%s", cases[i].text);
        for (size_t k = 0; k < ARRAY_LEN(cases[i].said) && cases[i].said[k]; k++)
            cr_expect(ne(ptr, (void *)strstr(err.text, cases[i].said[k]), NULL), "%s: '%s'",
                      cases[i].text, err.text);
    }
}

/* A decimal must become the nearest fraction, checked against every denominator. */
Test(pipeline, a_decimal_is_the_nearest_fraction)
{
    uint64_t state = 4711;

    for (int round = 0; round < 40; round++) {
        unsigned digits = 7 + (unsigned)round % 5;
        double best = 1, value;
        uint64_t scale = 1, number;
        uint32_t best_num = 0, best_den = 0;
        char text[64];
        struct pipeline p;
        struct plenum_error err = {""};

        for (unsigned i = 0; i < digits; i++)
            scale *= 10;
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        number = (state >> 20) % scale;
        value = (double)number / (double)scale;
        for (uint32_t den = 1; den <= 1000000; den++) {
            double num = (double)(uint32_t)(value * den + 0.5), off = num / den - value;

            off = off < 0 ? -off : off;
            if (off < best * (1 - 1e-3)) { /* clearly nearer, so that doubles can decide */
                best = off;
                best_num = (uint32_t)num;
                best_den = den;
            }
        }
        (void)snprintf(text, sizeof(text), "rrc(8) flip(0.%0*llu)", (int)digits,
                       (unsigned long long)number);
        cr_assert(eq(int, pipeline_parse(text, &p, &err), 0), "%s: %s", text, err.text);
        value -= (double)p.flip.num / p.flip.den;
        value = value < 0 ? -value : value;
        cr_expect(le(dbl, value, best * 1.01 + 1e-15), "%s: %u/%u, but %u/%u is nearer", text,
                  p.flip.num, p.flip.den, best_num, best_den);
    }
}

Test(pipeline, the_longest_text_fits)
{
    struct pipeline p;
    struct plenum_error err;

    cr_assert(eq(int,
                 pipeline_parse("exif rrc(8192, scale=999983/999979999:999983/1000000, "
                                "ratio=0.015625:99.99) flip(499979/999983)",
                                &p, &err),
                 -EINVAL),
              "terms beyond a million are rejected");
    cr_assert(eq(int,
                 pipeline_parse("v1 exif rrc(8192, scale=999958/999983:999979/999983, "
                                "ratio=999958/999983:999979/999983) flip(499979/999983)",
                                &p, &err),
                 0),
              "%s", err.text);
    cr_expect(lt(sz, strlen(p.text), sizeof(p.text) - 1));
    cr_expect(eq(chr, p.text[strlen(p.text) - 1], ')'), "nothing was cut off: %s", p.text);
}

struct views_case {
    char text[160];
    char canonical[200];    /* or, if rejected, a part of the message */
    uint32_t views, images; /* 0: rejected */
};

ParameterizedTestParameters(views, canonical)
{
    static struct views_case cases[] = {
        {"rrc(8)", "v1 rrc(8,scale=2/25:1,ratio=3/4:4/3)", 1, 1},
        {"view(a, 2, rrc(8)) view(b2, 3, eval)",
         "v1 view(a,2,rrc(8,scale=2/25:1,ratio=3/4:4/3)) view(b2,3,resize(256) center_crop(224))",
         2, 5},
        {"junk exif view(junk,2,resize(8x9))", "v1 exif junk view(junk,2,resize(8x9))", 1, 2},
        {"junk view(a,1,resize(8x9))", "v1 junk view(a,1,resize(8x9))", 1, 1},
        {"v1 exif view(_x,1,resize(8x9)flip(1))view(X,31,resize(8x9))",
         "v1 exif view(_x,1,resize(8x9) flip(1)) view(X,31,resize(8x9))", 2, 32},
        {"view(a, 1, rrc(8) one_of(flip(1) | hue(0:0.1)))",
         "v1 view(a,1,rrc(8,scale=2/25:1,ratio=3/4:4/3) one_of(flip(1)|hue(0:1/10)))", 1, 1},
        {"view(a,1,eval) view(b,1,eval) view(c,1,eval) view(d,1,eval) view(e,1,eval)",
         "more than 4 views", 0, 0},
        {"view(a,1,eval) view(b,32,eval)", "more than 32 images", 0, 0},
        {"none", "v1 none", 1, 1},
        {"view(a,2,none)", "a view has images", 0, 0},
        {"view(a,33,eval)", "the number of images, 1 to 32", 0, 0},
        {"view(a,0,eval)", "the number of images, 1 to 32", 0, 0},
        {"view(a,-1,eval)", "the number of images, 1 to 32", 0, 0},
        {"view(a,1.5,eval)", "the number of images, 1 to 32", 0, 0},
        {"view(a,eval)", "the number of images, 1 to 32", 0, 0},
        {"view(1a,1,eval)", "must begin with a letter or _", 0, 0},
        {"view(,1,eval)", "must begin with a letter or _", 0, 0},
        {"view(a-b,1,eval)", "write view(NAME, COUNT, STAGES)", 0, 0},
        {"view(a23456789012345678901234567890,1,eval)", "", 1, 1},
        {"view(a2345678901234567890123456789012,1,eval)", "at most 31", 0, 0},
        {"view(a,1,eval) view(a,1,eval)", "another view has that name", 0, 0},
        {"view(a,1,eval", "a parenthesis is not closed", 0, 0},
        {"view(a,1,)", "view a: pipeline: it is empty", 0, 0},
        {"view(a,1,evil)", "view a: pipeline:", 0, 0},
        {"view(a,1,view(b,1,eval))", "view a: pipeline:", 0, 0},
        {"v1 exif  view(a,1, rrc(8) view(b,1,eval))", "(character 27)", 0, 0},
        {"view(a,1,v1 eval)", "view a: pipeline: the version must come first", 0, 0},
        {"view(a,1,exif eval)", "write exif before the first view", 0, 0},
        {"exif view(a,1,junk eval)", "write junk before the first view", 0, 0},
        {"exif view(a,1,exif eval)", "view a: pipeline:", 0, 0},
        {"view(a,1,rrc(8) mixup(0.2))", "view a: pipeline: samples with views cannot be mixed", 0,
         0},
        {"view(a,1,eval) flip(0.5)", "only another view", 0, 0},
        {"view(a,1,eval))", "only another view", 0, 0},
        {"view", "write view(NAME, COUNT, STAGES)", 0, 0},
        {"rrc(8) view(a,1,eval)", "views cannot be mixed with other stages", 0, 0},
        {"views(a,1,eval)", "did you mean view?", 0, 0},
    };

    return cr_make_param_array(struct views_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct views_case *c, views, canonical)
{
    static struct views views, again;
    struct plenum_error err = {""};
    char text[VIEWS_TEXT_MAX];
    int r = views_parse(c->text, &views, &err);

    cr_assert(eq(int, r, c->views > 0 ? 0 : -EINVAL), "%s: %s", c->text, err.text);
    if (r < 0) {
        cr_expect(ne(ptr, (void *)strstr(err.text, c->canonical), NULL), "%s", err.text);
        return;
    }
    if (c->canonical[0])
        cr_expect(eq(str, views.text, c->canonical));
    cr_expect(eq(u32, views.count, c->views));
    cr_expect(eq(u32, views.images, c->images));
    cr_assert(eq(int, views_parse(views.text, &again, &err), 0), "%s", err.text);
    cr_expect(eq(int, memcmp(&views, &again, sizeof(views)), 0),
              "the canonical text must give the same views");
    pipeline_write_decimals(views.text, text, sizeof(text));
    cr_assert(eq(int, views_parse(text, &again, &err), 0), "%s: %s", text, err.text);
    cr_expect(eq(int, memcmp(&views, &again, sizeof(views)), 0), "'%s' must be the same views",
              text);
}

/* Each view's pipeline equals that of its text, and a string that is too long is rejected
 * entirely. */
Test(views, texts_of_all_lengths)
{
    static struct views views;
    char text[4096] = "";
    struct plenum_error err;

    for (unsigned i = 0; i < 4; i++) {
        size_t len = strlen(text);

        (void)snprintf(text + len, sizeof(text) - len, " view(v%u, 2, rrc(8) ", i);
        for (unsigned k = 0; k < 16; k++)
            strcat(text, "erase(0.123457, value=255:255:1) ");
        strcat(text, ")");
        if (views_parse(text, &views, &err) < 0) {
            cr_expect(ne(ptr, (void *)strstr(err.text, "too long"), NULL), "%s", err.text);
            break;
        }
    }
    cr_expect(lt(sz, strlen(views.text), sizeof(views.text)));
}

/* A policy's interpolation= appears in the canonical text where it has an effect. */
Test(pipeline, policies_have_an_interpolation)
{
    static const char *const texts[][2] = {
        {"trivial_augment_wide(interpolation=nearest)", "trivial_augment_wide"},
        {"trivial_augment_wide( interpolation = bilinear )",
         "trivial_augment_wide(interpolation=bilinear)"},
        {"trivial_augment_wide(p=0.5, interpolation=bilinear)",
         "trivial_augment_wide(interpolation=bilinear,p=1/2)"},
        {"rand_augment(2, 9, interpolation=bilinear)", "rand_augment(2,9,interpolation=bilinear)"},
        {"rand_augment(2, 9, interpolation=nearest)", "rand_augment(2,9)"},
        {"rand_augment(2, 9, interpolation=bilinear, mstd=1/2)",
         "rand_augment(2,9,mstd=1/2,inc=0)"},
        {"rand_augment(2, 9, mstd=1/2, interpolation=nearest)",
         "rand_augment(2,9,mstd=1/2,inc=0,interpolation=nearest)"},
        {"auto_augment(svhn, interpolation=bilinear)", "auto_augment(svhn,interpolation=bilinear)"},
        {"augmix(interpolation=bilinear)", "augmix(severity=3,width=3,depth=-1)"},
        {"augmix(interpolation=nearest, p=1/3)",
         "augmix(severity=3,width=3,depth=-1,interpolation=nearest,p=1/3)"},
    };
    struct plenum_error err = {""};
    struct pipeline p;
    char text[200];

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        (void)snprintf(text, sizeof(text), "rrc(8) %s", texts[i][0]);
        cr_assert(eq(int, pipeline_parse(text, &p, &err), 0), "%s", err.text);
        cr_expect(ne(ptr, (void *)strstr(p.text, texts[i][1]), NULL), "%s", p.text);
        cr_expect(eq(str, p.text + strlen(p.text) - strlen(texts[i][1]), (char *)texts[i][1]));
    }
    cr_expect(eq(int, pipeline_parse("rrc(8) augmix(interpolation=bicubic)", &p, &err), -EINVAL));
    cr_expect(ne(ptr, (void *)strstr(err.text, "must be nearest or bilinear"), NULL));
}

/* Any decimal is a valid spread: its ends are the nearest fractions, as for a range. */
Test(pipeline, long_decimals_can_be_spreads)
{
    static const char *const spreads[] = {"0.1234567", "0.7071067811865476", "0.333333333333",
                                          "1.9999999", "0.000000001"};
    struct plenum_error err = {""};
    struct pipeline p, again;
    char text[200];

    for (size_t i = 0; i < sizeof(spreads) / sizeof(spreads[0]); i++) {
        double x = strtod(spreads[i], NULL), low = x < 1 ? 1 - x : 0, got;

        (void)snprintf(text, sizeof(text), "rrc(8) color_jitter(%s, 0.1, 0.1)", spreads[i]);
        cr_assert(eq(int, pipeline_parse(text, &p, &err), 0), "%s", err.text);
        got = (double)p.ops[0].jitter.part[0].high.num / p.ops[0].jitter.part[0].high.den;
        cr_expect(got - (1 + x) < 1e-6 && 1 + x - got < 1e-6, "%s: %g", spreads[i], got);
        got = (double)p.ops[0].jitter.part[0].low.num / p.ops[0].jitter.part[0].low.den;
        cr_expect(got - low < 1e-6 && low - got < 1e-6, "%s: %g", spreads[i], got);
        cr_expect(eq(int, pipeline_parse(p.text, &again, &err), 0), "%s", p.text);
        cr_expect(eq(str, again.text, p.text));
    }
}
