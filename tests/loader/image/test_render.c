/* SPDX-License-Identifier: MIT */
/* Checks that the renderer gives the oracle's bytes, whatever the image, the crop and the store. */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>

#include "common/order/philox.h"
#include "common/util/util.h"
#include "loader/image/image.h"
#include "loader/image/pack/pack.h"
#include "tests/loader/image/agree.h"
#include "tests/loader/image/made.h"

static const struct image_store stores[] = {
    {PLENUM_UINT8, PLENUM_NHWC, 3}, {PLENUM_INT8, PLENUM_NHWC, 3},  {PLENUM_UINT8, PLENUM_NHWC, 4},
    {PLENUM_INT8, PLENUM_NHWC, 4},  {PLENUM_UINT8, PLENUM_NCHW, 3}, {PLENUM_INT8, PLENUM_NCHW, 3},
    {PLENUM_UINT8, PLENUM_NCHW, 4}, {PLENUM_INT8, PLENUM_NCHW, 4},
};

static struct pipeline parse(const char *text)
{
    struct pipeline p;

    cr_assert(eq(int, pipeline_parse(text, &p, NULL), 0), "%s", text);
    return p;
}

/* Sides much smaller and larger than those of the images below, and about the same. */
static const char *const pipelines[] = {
    "rrc(24) flip(0.5)",
    "rrc(40,scale=0.01:1,ratio=1/4:4) flip(0.5)",
    "resize(37) center_crop(32)",
    "exif rrc(20) flip(1)",
    "exif resize(64) center_crop(48)",
    "rrc(224,scale=0.3:1)",
    "rrc(5,ratio=1/4:4) flip(0.5)",
    "exif resize(3) center_crop(3) flip(1)",
    "rrc(24x17) flip(0.5)",
    "exif rrc(9x40,scale=0.01:1,ratio=1/4:4) vertical_flip(0.5) sharpness(0:3) erase(1) flip(0.5)",
    "resize(37) center_crop(32x21) flip(0.5) contrast(0:2)",
    "exif resize(31x50) center_crop(30x7) flip(0.5)",
    "exif resize(23x40,interpolation=random) flip(0.5) equalize(0.5)",
    "exif letterbox(31x48,fill=114) flip(0.5)",
    "letterbox(50x9,interpolation=bicubic) vertical_flip(0.5)",
    "exif pad(4) random_crop(45x37) flip(0.5)",
    "pad(5,reflect) random_crop(32x41) flip(0.5) erase(0.5)",
    "exif pad(3,edge) random_crop(70x2) flip(0.5)",
    "pad(40,symmetric) random_crop(32) flip(0.5) vertical_flip(0.5)",
    "pad(90,fill=7) random_crop(5) flip(0.5)",
    "pad(3) random_crop(100x97) flip(0.5)",
    "pad(60,fill=200) random_crop(96) flip(0.5) vertical_flip(0.5)",
    "letterbox(64x70, fill=3) flip(0.5)",
    "pad(0,reflect) random_crop(50x66)",
    "exif resize(20) random_crop(11x20) flip(0.5)",
    "exif scale_jitter(40x31, fill=9:80:200) flip(0.5)",
    "scale_jitter(23, 1/2:20, interpolation=random) vertical_flip(0.5) rotate(9)",
    "exif zoom_out(1:4, fill=124:116:104) resize(40x30) flip(0.5)",
    "zoom_out(2:16, p=1) resize(9x35,interpolation=bicubic) invert(1) flip(0.5)",
    "exif zoom_out(1:3, p=0.8, fill=7) letterbox(37x41) flip(0.5) erase(0.5)",
    "resize(20x30,interpolation=nearest) pad(7,symmetric) random_crop(31x40)",
    "rrc(24,interpolation=bicubic) flip(0.5)",
    "rrc(40,scale=0.01:1,ratio=1/4:4,interpolation=random) flip(0.5)",
    "exif resize(37,interpolation=lanczos) center_crop(32)",
    "resize(37,interpolation=nearest) center_crop(32)",
    "rrc(24) flip(0.5) color_jitter(0.4, 0.4, 0.4, p=0.8) grayscale(0.2) solarize(128, p=0.2)",
    "rrc(25) flip(0.5) hue(-0.5:0.5, p=0.8) color_jitter(0.8, 0.8, 0.8, 0.2, p=0.8)",
    "rrc(31x27) flip(0.5) erase(0.9, value=pixel) flip(0.5) vertical_flip(0.5) erase(0.9, "
    "value=pixel)"
    " vertical_flip(0.5) flip(0.5)",
    "rrc(30) flip(0.5) erase(0.9, value=random) cutout(9, p=0.8) flip(0.5) cutout(64, p=0.1) "
    "vertical_flip(0.5)"
    " erase(0.5, value=1:2:3)",
    "rrc(13x39) blur(23, 0.1:2, p=0.8) blur(25, 0.01:100, p=0.3) blur(5, 0.3:9, p=0.5)",
    "resize(9) center_crop(2) blur(3, 0.1:2)",
    "resize(19) center_crop(17) blur(33, 3:9) blur(11, 0.1:2) blur(1, 1:1)",
    "rrc(33) vertical_flip(0.5) sharpness(0:2, p=0.5) posterize(4, p=0.5) erase(0.9) flip(0.5)",
    "resize(37) center_crop(31) equalize(0.5) autocontrast(0.5) invert(0.3) erase(0.5,value=77)",
    "rrc(37) flip(0.5) rotate(40) vertical_flip(0.5) shear(-20:30:-15:10,fill=9:80:200) flip(0.5)",
    "rrc(31) vertical_flip(0.5) affine(180,translate=0.3:0.2,scale=0.3:3,shear=20,"
    "interpolation=bilinear) flip(0.5) translate(0.4,0.4,interpolation=bilinear,fill=70)",
    "rrc(40) perspective(0.8,p=0.9) flip(0.5) perspective(1,interpolation=nearest,fill=50:60:70)",
    "resize(3) center_crop(1) rotate(90) perspective(1) "
    "affine(0,scale=0.01:100,shear=-89:89:-89:89)",
    "rrc(24x41) flip(0.5) rotate(180) perspective(0.9) vertical_flip(0.5) translate(0.2,0.7) "
    "flip(0.5)",
    "rrc(41x24) affine(180,translate=0.2:0.2,scale=0.5:2,shear=9,interpolation=bilinear) flip(0.5)",
    "resize(8) center_crop(2) flip(0.5) affine(360,scale=1/3:4,interpolation=bilinear) "
    "perspective(1)",
    "rrc(2) sharpness(0:3) color_jitter(1, 1, 1) vertical_flip(1) erase(1)",
};

struct kind {
    uint32_t index; /* in made_kinds[] */
};

ParameterizedTestParameters(render, every_kind_equals_the_oracle)
{
    static struct kind kinds[64];

    for (uint32_t i = 0; i < made_kinds_count; i++)
        kinds[i].index = i;
    return cr_make_param_array(struct kind, kinds, made_kinds_count);
}

ParameterizedTest(struct kind *k, render, every_kind_equals_the_oracle)
{
    static const uint32_t sizes[][2] = {{1, 1},    {2, 3},   {45, 37}, {64, 64},
                                        {131, 99}, {8, 900}, {900, 8}, {300, 17}};
    struct image_decoder *decoder;
    char why[200];

    cr_assert(eq(int, image_decoder_create(&decoder), 0));
    for (size_t s = 0; s < ARRAY_LEN(sizes); s++) {
        struct made_jpeg spec = made_kinds[k->index];
        struct made m;

        spec.width = sizes[s][0];
        spec.height = sizes[s][1];
        spec.orientation = (int)((s + k->index) % 9); /* 0: none */
        m = make_jpeg(&spec);
        for (uint32_t i = 0; i < ARRAY_LEN(pipelines) * 3; i++) {
            struct pipeline p = parse(pipelines[i % ARRAY_LEN(pipelines)]);
            struct image_draw draw = {.seed = k->index, .epoch = (uint32_t)s, .position = i};

            cr_assert(
                oracle_agrees(decoder,
                              &(struct rendering){&p, &draw, &stores[(i + s) % ARRAY_LEN(stores)],
                                                  m.bytes, m.len},
                              why, NULL, NULL),
                "%s %ux%u, %s, position %u: %s", spec.name, spec.width, spec.height, p.text, i,
                why);
        }
        free(m.bytes);
    }
    image_decoder_destroy(decoder);
}

struct extreme_case {
    char pipeline[40];
    uint32_t width, height;
    int orientation;
};

ParameterizedTestParameters(render, extremes)
{
    static struct extreme_case cases[] = {
        {"train", 1, 1, 0},
        {"eval", 1, 1, 0},
        {"train", 8, 3000, 0},
        {"eval", 8, 3000, 0},
        {"train", 3000, 8, 0},
        {"eval", 3000, 8, 0},
        {"exif train", 3000, 8, 6},
        {"exif eval", 8, 3000, 8},
        {"eval", 224, 224, 0},
        {"resize(224) center_crop(224)", 224, 224, 0},
        {"rrc(1)", 700, 500, 0},
        {"resize(1) center_crop(1)", 700, 500, 0},
        {"rrc(600)", 50, 40, 0},
        {"resize(300) center_crop(299)", 1, 400, 0},
        {"resize(1) center_crop(1)", 3000, 8, 0},
        {"exif rrc(2)", 8, 3000, 6},
        {"exif rrc(3)", 65500, 9, 3},
    };
    return cr_make_param_array(struct extreme_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct extreme_case *c, render, extremes)
{
    const char *text = strncmp(c->pipeline, "exif train", 10) == 0 ? "exif rrc(224) flip(0.5)"
                       : strncmp(c->pipeline, "exif eval", 9) == 0
                           ? "exif resize(256) center_crop(224)"
                           : c->pipeline;
    struct pipeline p = parse(text);
    struct image_decoder *decoder;
    char why[200];

    cr_assert(eq(int, image_decoder_create(&decoder), 0));
    for (uint32_t i = 0; i < 6; i++) {
        struct made_jpeg spec = {.width = c->width,
                                 .height = c->height,
                                 .colour = i % 3 ? MADE_COLOUR : MADE_GREY,
                                 .progressive = i % 3 == 2,
                                 .orientation = c->orientation};
        struct made m = make_jpeg(&spec);
        struct image_draw draw = {.seed = 7, .position = i};

        cr_expect(oracle_agrees(decoder, &(struct rendering){&p, &draw, &stores[i], m.bytes, m.len},
                                why, NULL, NULL),
                  "%s of %ux%u, position %u: %s", p.text, c->width, c->height, i, why);
        free(m.bytes);
    }
    image_decoder_destroy(decoder);
}

/* Returns the shared folder of photographs, or the one that PLENUM_TEST_IMAGES names. */
static char *photographs(void)
{
    const char *folder = getenv("PLENUM_TEST_IMAGES"), *top = getenv("top_srcdir");

    if (folder && *folder)
        return str_format("%s", folder);
    return str_format("%s/../shared/images", top ? top : ".");
}

/* Call `each` for the files in sub-folders whose number is `part` modulo `parts`. Returns the
 * number of all files. */
static uint32_t for_photographs(uint32_t part, uint32_t parts,
                                void (*each)(void *context, const char *path, uint32_t number),
                                void *context)
{
    char *top = photographs();
    struct dirent **classes, **files;
    int n = scandir(top, &classes, NULL, alphasort), m;
    uint32_t number = 0;

    for (int i = 0; i < n; i++) {
        char *folder = str_format("%s/%s", top, classes[i]->d_name);

        m = classes[i]->d_name[0] == '.' ? 0 : scandir(folder, &files, NULL, alphasort);
        for (int k = 0; k < m; k++) {
            char *path = str_format("%s/%s", folder, files[k]->d_name);

            if (files[k]->d_name[0] != '.' && number++ % parts == part)
                each(context, path, number);
            free(path);
            free(files[k]);
        }
        if (m > 0)
            free(files);
        free(folder);
        free(classes[i]);
    }
    if (n >= 0)
        free(classes);
    free(top);
    return number;
}

/* Check that a packed file renders like the original. */
static void compare_packed(struct image_decoder *decoder, const struct pipeline *p,
                           const struct image_draw *draw, const struct made *plain,
                           const struct pack_result *packed, const char *path)
{
    static uint8_t a[224 * 224 * 3], b[sizeof(a)];

    cr_assert(eq(int,
                 image_render(decoder, &(struct image_view){.pipeline = p, .draw = *draw, .dst = a},
                              &stores[0], &(struct image_file){plain->bytes, plain->len}, NULL),
                 0));
    cr_assert(eq(int,
                 image_render(decoder, &(struct image_view){.pipeline = p, .draw = *draw, .dst = b},
                              &stores[0], &(struct image_file){packed->bytes, packed->len}, NULL),
                 0));
    cr_assert(memcmp(a, b, (size_t)p->width * p->height * 3) == 0, "%s, packed, %s", path, p->text);
}

static void compare_photograph(void *context, const char *path, uint32_t number)
{
    struct made m = read_file(path);
    struct pack_result packed;
    struct pipeline p;
    char why[200];

    cr_assert(m.len > 0, "%s", path);
    cr_assert(eq(int, image_pack(context, &(struct image_file){m.bytes, m.len}, &packed, NULL), 0),
              "%s", path);
    for (uint32_t i = 0; i < 7; i++) {
        struct image_draw draw = {.seed = 11, .epoch = i, .position = number};

        p = parse(i < 4 ? "train" : i == 4 ? "eval" : i == 5 ? "rrc(64)" : "rrc(99)");
        cr_assert(
            oracle_agrees(context,
                          &(struct rendering){&p, &draw, &stores[(number + i) % ARRAY_LEN(stores)],
                                              m.bytes, m.len},
                          why, NULL, NULL),
            "%s, %s: %s", path, p.text, why);
        if (packed.bytes)
            compare_packed(context, &p, &draw, &m, &packed, path);
    }
    free(packed.bytes);
    free(m.bytes);
}

enum { PARTS = 4 };

struct part {
    uint32_t part;
};

ParameterizedTestParameters(render, photographs)
{
    static struct part parts[PARTS] = {{0}, {1}, {2}, {3}};

    return cr_make_param_array(struct part, parts, PARTS);
}

ParameterizedTest(struct part *p, render, photographs)
{
    struct image_decoder *decoder;
    uint32_t count;

    cr_assert(eq(int, image_decoder_create(&decoder), 0));
    count = for_photographs(p->part, PARTS, compare_photograph, decoder);
    image_decoder_destroy(decoder);
    if (count == 0)
        cr_skip("no photographs: PLENUM_TEST_IMAGES names no folder of folders of images");
}

/* Earlier images must not matter: one decoder renders many images, in two orders. */
Test(render, does_not_depend_on_history)
{
    enum { COUNT = 60, SIDE = 20 };
    static uint8_t first[COUNT][SIDE * SIDE * 3], again[SIDE * SIDE * 3];
    struct pipeline p = parse("rrc(20) flip(0.5)");
    struct image_decoder *decoder;
    struct made made[COUNT];

    cr_assert(eq(int, image_decoder_create(&decoder), 0));
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t k = 0; k < COUNT; k++) {
            uint32_t i = pass ? COUNT - 1 - k : k;
            struct image_draw draw = {.seed = 1, .position = i};
            struct made_jpeg spec = made_kinds[i % made_kinds_count];
            size_t len;

            if (pass == 0) {
                spec.width = 20 + i;
                spec.height = 90 - i;
                made[i] = make_jpeg(&spec);
            }
            len = i % 7 == 3 ? made[i].len / 2 : made[i].len; /* some are bad */
            (void)image_render(
                decoder,
                &(struct image_view){.pipeline = &p, .draw = draw, .dst = pass ? again : first[i]},
                &stores[0], &(struct image_file){made[i].bytes, len}, NULL);
            if (pass && i % 7 != 3)
                cr_assert(memcmp(first[i], again, sizeof(again)) == 0, "image %u", i);
        }
    }
    for (uint32_t i = 0; i < COUNT; i++)
        free(made[i].bytes);
    image_decoder_destroy(decoder);
}

struct nonsense_case {
    char bytes[17];
    uint8_t len;
    char sentence[140];
};

ParameterizedTestParameters(render, other_files_are_named_by_their_format)
{
    static struct nonsense_case cases[] = {
        {"", 0, "the file is empty (0 bytes)"},
        {"x", 1,
         "this is not a JPEG, PNG, WebP, AVIF or PPM image: it begins with byte 0x78 and has no "
         "other"},
        {"hello", 5, "this is not a JPEG, PNG, WebP, AVIF or PPM image: it begins with byte 0x68"},
        {"GIF89a", 6,
         "this is a GIF image, but only JPEG, PNG, WebP, AVIF and PPM are supported: convert it"},
        {"RIFFxxxxWAVEfmt ", 16,
         "this is not a JPEG, PNG, WebP, AVIF or PPM image: it begins with byte 0x52"},
#ifdef HAVE_WEBP
        {"RIFFxxxxWEBPVP8 ", 16, "the WebP file is cut off: it ends after 16 bytes"},
        {"RIFF\x04\0\0\0WEBPVP8 ", 16, "the WebP file is damaged: its chunks contain no image"},
#endif
        {"\0\0\0\x0cJXL \r\n\x87\n", 12,
         "this is a JPEG XL image, but only JPEG, PNG, WebP, AVIF and PPM are supported: "
         "convert it"},
        {"\0\0\0\x18"
         "ftypmif1",
         12,
         "this is a HEIF image, but only JPEG, PNG, WebP, AVIF and PPM are supported: convert it"},
        {"\0\0\0\x18"
         "ftypheic",
         12,
         "this is a HEIC image, but only JPEG, PNG, WebP, AVIF and PPM are supported: convert it"},
        {"BM6\0", 4,
         "this is a BMP image, but only JPEG, PNG, WebP, AVIF and PPM are supported: convert it"},
        {"II*\0", 4,
         "this is a TIFF image, but only JPEG, PNG, WebP, AVIF and PPM are supported: convert it"},
        {"\xFF\x4F\xFF\x51", 4,
         "this is a JPEG 2000 image, but only JPEG, PNG, WebP, AVIF and PPM are supported: "
         "convert it"},
        {"MM\0+", 4,
         "this is a BigTIFF image, but only JPEG, PNG, WebP, AVIF and PPM are supported: "
         "convert it"},
        {"\0\0\1\0\1\0", 6,
         "this is an ICO image, but only JPEG, PNG, WebP, AVIF and PPM are supported: convert it"},
        {"<svg xmlns", 10,
         "this is an SVG image, but only JPEG, PNG, WebP, AVIF and PPM are supported: convert it"},
        {"P6\n3 2", 6, "the PPM file ends in its header"},
        {"P3\n3 2", 6,
         "this is a PNM image in text form (P3), but only binary PPMs and PGMs "
         "(P6, P5) are supported: convert it"},
        {"P6x", 3, "this is not a JPEG, PNG, WebP, AVIF or PPM image: it begins with byte 0x50"},
        {"qoif", 4,
         "this is a QOI image, but only JPEG, PNG, WebP, AVIF and PPM are supported: convert it"},
        {"\x76\x2F\x31\x01", 4,
         "this is an OpenEXR image, but only JPEG, PNG, WebP, AVIF and PPM are supported: "
         "convert it"},
        {"#?RADIANCE", 10,
         "this is a Radiance HDR image, but only JPEG, PNG, WebP, AVIF and PPM are supported: "
         "convert it"},
        {"\x89PNX", 4,
         "this is not a JPEG, PNG, WebP, AVIF or PPM image: it begins with byte "
         "0x89"},
        {"\x89PNG\n\n", 6, "the PNG file is cut off: it ends after 6 bytes"},
        {"\xFF\xD8", 2, "the JPEG file is cut off: it ends after 2 bytes, in the header"},
        {"\xFF\xD8\xFF\xD9", 4, "JPEG decoder: JPEG datastream contains no image, in the header"},
    };
    return cr_make_param_array(struct nonsense_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct nonsense_case *c, render, other_files_are_named_by_their_format)
{
    struct pipeline p = parse("rrc(8)");
    struct image_draw draw = {0};
    struct image_decoder *decoder;
    struct plenum_error err = {""};
    uint8_t pixels[8 * 8 * 3];

    cr_assert(eq(int, image_decoder_create(&decoder), 0));
    cr_expect(
        eq(int,
           image_render(decoder, &(struct image_view){.pipeline = &p, .draw = draw, .dst = pixels},
                        &stores[0], &(struct image_file){(const uint8_t *)c->bytes, c->len}, &err),
           -EBADMSG));
    cr_expect(strcmp(err.text, c->sentence) == 0, "'%s' instead of '%s'", err.text, c->sentence);
    image_decoder_destroy(decoder);
}
