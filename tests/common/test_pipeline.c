#include "config.h"

#include <errno.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>

#include "common/pipeline.h"
#include "common/util.h"

struct text_case {
    char text[96];
    char canonical[128]; /* "": refused */
};

ParameterizedTestParameters(pipeline, canonical)
{
    static struct text_case cases[] = {
        {"train", "v1 rrc(224,scale=2/25:1,ratio=3/4:4/3) flip(1/2)"},
        {"eval", "v1 resize(256) center_crop(224)"},
        {" rrc( 160 )", "v1 rrc(160,scale=2/25:1,ratio=3/4:4/3)"},
        {"v1 rrc(224, ratio=0.75:1.5, scale=0.25:0.5)", "v1 rrc(224,scale=1/4:1/2,ratio=3/4:3/2)"},
        {"rrc(8)flip(1)", "v1 rrc(8,scale=2/25:1,ratio=3/4:4/3) flip(1)"},
        {"rrc(8) flip(0)", "v1 rrc(8,scale=2/25:1,ratio=3/4:4/3)"},
        {"exif resize(10) center_crop(10)", "v1 exif resize(10) center_crop(10)"},
        {"rrc(8192)", "v1 rrc(8192,scale=2/25:1,ratio=3/4:4/3)"},
        {"v1 eval", "v1 resize(256) center_crop(224)"},
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
        {"rrc(224) flip(0.5) flip(0.5)", ""},
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
    int r = pipeline_parse(c->text, &p, &err);

    if (!c->canonical[0]) {
        cr_expect(eq(int, r, -EINVAL), "'%s' was taken for '%s'", c->text, p.text);
        cr_expect(eq(str, p.text, "untouched"));
        cr_expect(eq(ptr, (void *)strstr(err.text, "pipeline: "), (void *)err.text), "%s",
                  err.text);
        return;
    }
    cr_assert(eq(int, r, 0), "'%s': %s", c->text, err.text);
    cr_expect(eq(str, p.text, c->canonical));
    cr_assert(eq(int, pipeline_parse(p.text, &again, &err), 0), "the canonical text parses");
    cr_expect(eq(int, memcmp(&p, &again, sizeof(p)), 0), "to the same pipeline");
}

static void expect_sentence(const char *text, const char *sentence)
{
    struct pipeline p;
    struct plenum_error err = {""};

    cr_expect(eq(int, pipeline_parse(text, &p, &err), -EINVAL), "%s", text);
    cr_expect(strcmp(err.text, sentence) == 0, "'%s' gives '%s'", text, err.text);
}

Test(pipeline, the_stage_that_is_wrong_is_quoted)
{
    expect_sentence("resize(5) center_crop(6)", "pipeline: center_crop must not be larger than resize, in 'center_crop(6)'");
    expect_sentence("resize(5) flip(1)",
                    "pipeline: resize(S) must be followed by center_crop(C), so that all images get one shape, in 'resize(5)'");
    expect_sentence("exif v1 train", "pipeline: the version comes first, as in 'v1 exif train', in 'v1 train'");
    expect_sentence("train flip(0.1)",
                    "pipeline: train stands for 'rrc(224) flip(0.5)' and takes no further stages: write them out");
    expect_sentence("v1 exif eval rrc(3)", "pipeline: eval stands for 'resize(256) center_crop(224)' and takes no further "
                                           "stages: write them out");
}

Test(pipeline, what_is_gone_is_said_to_be_gone)
{
    struct pipeline p;
    struct plenum_error err = {""};

    cr_expect(eq(int, pipeline_parse("fast-v1 exif train", &p, &err), -EINVAL));
    cr_expect(ne(ptr, (void *)strstr(err.text, "fast-v1 is no longer there, as v1 is the faster one: leave the word out"),
                 NULL),
              "%s", err.text);
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
              "terms beyond a million are refused");
    cr_assert(eq(int,
                 pipeline_parse("v1 exif rrc(8192, scale=999958/999983:999979/999983, "
                                "ratio=999958/999983:999979/999983) flip(499979/999983)",
                                &p, &err),
                 0),
              "%s", err.text);
    cr_expect(lt(sz, strlen(p.text), sizeof(p.text) - 1));
    cr_expect(eq(chr, p.text[strlen(p.text) - 1], ')'), "nothing was cut off: %s", p.text);
}
