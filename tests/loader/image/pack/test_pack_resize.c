/* SPDX-License-Identifier: MIT */
/* Tests shrinking before packing (which files are shrunk, to which size, and with which pixels: the
 * oracle's, encoded), and packing as raw pixels. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>

#include "common/util/util.h"
#include "loader/image/pack/pack.h"
#include "loader/image/ppm.h"
#include "tests/loader/image/made.h"
#include "tests/loader/image/oracle.h"

static struct image_decoder *decoder;

static void setup(void)
{
    cr_assert(eq(int, image_decoder_create(&decoder), 0));
}

static void teardown(void)
{
    image_decoder_destroy(decoder);
}

TestSuite(pack_resize, .init = setup, .fini = teardown);

static struct pack_result pack(const struct pack_resize *resize, const struct made *m,
                               enum pack_outcome want)
{
    struct pack_result result = {0};
    struct plenum_error err = {""};

    cr_assert(eq(int,
                 image_pack_resized(decoder, resize, &(struct image_file){m->bytes, m->len},
                                    &result, &err),
                 0),
              "%s", err.text);
    cr_assert(result.outcome == want, "%s instead of %s: %s", pack_outcome_name(result.outcome),
              pack_outcome_name(want), err.text);
    return result;
}

/* --- sizes --- */

struct size_case {
    char why[48];
    struct pack_resize resize;
    uint32_t width, height;
    bool want;
    uint32_t to_width, to_height;
};

ParameterizedTestParameters(pack_resize, sizes)
{
    static struct size_case cases[] = {
        {"wider than high", {.longest = 400}, 500, 375, true, 400, 300},
        {"higher than wide", {.longest = 400}, 375, 500, true, 300, 400},
        {"a half is rounded up", {.longest = 100}, 200, 101, true, 100, 51},
        {"less than a half is rounded down", {.longest = 100}, 300, 100, true, 100, 33},
        {"already as large as requested", {.longest = 500}, 500, 375, false, 0, 0},
        {"by one pixel", {.longest = 499}, 500, 375, true, 499, 374},
        {"shorter side", {.shortest = 256}, 500, 375, true, 341, 256},
        {"shorter side, higher than wide", {.shortest = 256}, 375, 500, true, 256, 341},
        {"only the longer one is larger", {.shortest = 256}, 5000, 256, false, 0, 0},
        {"a line", {.longest = 16}, 65500, 1, true, 16, 1},
        {"the largest", {.shortest = 2000}, 65500, 2049, true, 63934, 2000},
        {"no size is requested", {0}, 65500, 2049, false, 0, 0},
    };
    return cr_make_param_array(struct size_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct size_case *c, pack_resize, sizes)
{
    uint32_t width = 0, height = 0;

    cr_expect(eq(int, pack_resize_sides(&c->resize, c->width, c->height, &width, &height), c->want),
              "%s", c->why);
    cr_expect(eq(u32, width, c->to_width), "%s", c->why);
    cr_expect(eq(u32, height, c->to_height), "%s", c->why);
}

Test(pack_resize, options_as_text)
{
    struct pack_resize longest = {.longest = 500, .quality = 90};
    struct pack_resize shortest = {.shortest = 65500, .quality = 100, .subsampling = ENCODE_444};
    char text[PACK_RESIZE_TEXT];

    cr_expect(eq(str, (char *)pack_resize_text(&longest, text),
                 "--longest 500 --quality 90 --subsampling 420"));
    cr_expect(eq(str, (char *)pack_resize_text(&shortest, text),
                 "--shortest 65500 --quality 100 --subsampling 444"));
    shortest.raw_share = 99;
    cr_expect(eq(str, (char *)pack_resize_text(&shortest, text),
                 "--shortest 65500 --quality 100 --subsampling 444 --raw-share 99"));
    shortest.raw_share = 100;
    cr_expect(eq(str, (char *)pack_resize_text(&shortest, text), "--shortest 65500 --raw"));
    shortest.shortest = 0;
    cr_expect(eq(str, (char *)pack_resize_text(&shortest, text), "--raw"));
    shortest.raw_share = 0;
    cr_expect(eq(str, (char *)pack_resize_text(&shortest, text), "images as they are"));
}

/* --- pixels --- */

/* Read size, components and sampling from a baseline JPEG's header. */
static void read_frame(const struct pack_result *r, uint32_t *width, uint32_t *height,
                       uint32_t *components, uint32_t *sampling)
{
    for (size_t at = 2; at + 13 < r->len;
         at += 2 + ((size_t)r->bytes[at + 2] << 8) + r->bytes[at + 3]) {
        const uint8_t *p = r->bytes + at;

        if (p[1] != 0xC0)
            continue;
        *height = (uint32_t)p[5] << 8 | p[6];
        *width = (uint32_t)p[7] << 8 | p[8];
        *components = p[9];
        *sampling = p[11];
        return;
    }
    cr_fatal("the packed file has no frame header");
}

/* Shrink a file with the oracle and encode it. Returns the hash of the decoded pixels. */
static uint64_t plain_pixels(const struct pack_resize *resize, const struct made *m, bool grey,
                             uint32_t width, uint32_t height)
{
    struct image_store store = {PLENUM_UINT8, PLENUM_NHWC, 3};
    struct image_draw draw = {0};
    struct encode_options options = {.width = width,
                                     .height = height,
                                     .quality = (int)resize->quality,
                                     .subsampling = resize->subsampling,
                                     .grey = grey};
    uint8_t *pixels = malloc((size_t)width * height * 3), *bytes;
    struct pipeline pipeline;
    struct plenum_error err;
    struct image_info info;
    char text[80];
    size_t len;

    (void)snprintf(text, sizeof(text), "resize(%ux%u, interpolation=lanczos)", height, width);
    cr_assert(eq(int, pipeline_parse(text, &pipeline, &err), 0), "%s", err.text);
    cr_assert(eq(int, oracle_render(&pipeline, &draw, &store, m->bytes, m->len, pixels), 0));
    if (grey)
        for (size_t i = 0; i < (size_t)width * height; i++)
            pixels[i] = pixels[3 * i];
    options.pixels = pixels;
    cr_assert(eq(int, encode_jpeg(&options, &bytes, &len), 0));
    cr_assert(eq(int, image_verify(decoder, &(struct image_file){bytes, len}, &info, &err), 0),
              "%s", err.text);
    free(bytes);
    free(pixels);
    return info.pixels;
}

/* Check that a file becomes a packed JPEG of that size and orientation, with the pixels of
 * plain_pixels(), and that all sets of loops give the same bytes. */
static void check(const struct pack_resize *resize, const struct made *m, bool grey,
                  uint8_t orientation, uint32_t want_width, uint32_t want_height)
{
    struct pack_result result = pack(resize, m, PACK_RESIZED), again;
    uint32_t width, height, components, sampling;
    struct plenum_error err = {""};
    struct image_info info;

    read_frame(&result, &width, &height, &components, &sampling);
    cr_assert(eq(u32, width, want_width));
    cr_assert(eq(u32, height, want_height));
    cr_assert(eq(u32, components, grey ? 1 : 3));
    if (!grey)
        cr_assert(eq(u32, sampling, resize->subsampling == ENCODE_444 ? 0x11 : 0x22));
    cr_assert(eq(int, pack_prove(result.bytes, result.len, &err), 1), "%s", err.text);
    cr_assert(eq(int,
                 image_verify(decoder, &(struct image_file){result.bytes, result.len}, &info, &err),
                 0),
              "%s", err.text);
    cr_assert(eq(u32, info.orientation, orientation));
    cr_assert(eq(u64, info.pixels, plain_pixels(resize, m, grey, width, height)));
    for (uint32_t i = 1; image_kernels(i); i++) {
        cr_assert(eq(int, image_decoder_use_kernels(decoder, image_kernels(i)), 0));
        again = pack(resize, m, PACK_RESIZED);
        cr_assert(eq(sz, again.len, result.len));
        cr_assert(memcmp(again.bytes, result.bytes, again.len) == 0, "%s gives different bytes",
                  image_kernels(i));
        free(again.bytes);
    }
    cr_assert(eq(int, image_decoder_use_kernels(decoder, image_kernels(0)), 0));
    free(result.bytes);
}

struct kind {
    uint32_t index;
};

static struct kind kinds[64];

ParameterizedTestParameters(pack_resize, every_kind_of_jpeg)
{
    for (uint32_t i = 0; i < made_kinds_count; i++)
        kinds[i].index = i;
    return cr_make_param_array(struct kind, kinds, made_kinds_count);
}

ParameterizedTest(struct kind *kind, pack_resize, every_kind_of_jpeg)
{
    static const struct pack_resize longest = {.longest = 64, .quality = 90},
                                    shortest = {
                                        .shortest = 41, .quality = 75, .subsampling = ENCODE_444};
    struct made_jpeg spec = made_kinds[kind->index];
    /* Quantisation tables this coarse leave no colours. */
    bool grey = spec.colour == MADE_GREY || (spec.quality > 0 && spec.quality <= 3);
    struct made m;

    spec.width = 157;
    spec.height = 93;
    spec.orientation = (int)(kind->index % 8) + 1;
    m = make_jpeg(&spec);
    check(&longest, &m, grey, (uint8_t)spec.orientation, 64, 38);
    check(&shortest, &m, grey, (uint8_t)spec.orientation, 69, 41);
    free(m.bytes);
}

Test(pack_resize, png_becomes_jpeg)
{
    static const struct made_png specs[] = {
        {"grey", .colour_type = 0, .depth = 8},
        {"grey, 16 bits, turned", .colour_type = 0, .depth = 16, .orientation = 6},
        {"grey, transparent", .colour_type = 4, .depth = 8},
        {"colour", .colour_type = 2, .depth = 8, .interlaced = true},
        {"colour, transparent", .colour_type = 6, .depth = 8, .orientation = 3},
    };
    struct pack_resize resize = {.longest = 50, .quality = 90};

    for (size_t i = 0; i < ARRAY_LEN(specs); i++) {
        struct made_png spec = specs[i];
        struct made m;

        spec.width = 71;
        spec.height = 90;
        m = make_png(&spec);
        check(&resize, &m, !(spec.colour_type & 2),
              spec.orientation ? (uint8_t)spec.orientation : 1, 39, 50);
        free(m.bytes);
    }
}

#ifdef HAVE_WEBP
Test(pack_resize, webp_becomes_jpeg)
{
    struct pack_resize resize = {.longest = 50, .quality = 90};

    for (size_t i = 0; i < made_webps_count; i++) {
        struct made_webp spec = made_webps[i];
        uint32_t width, height;
        struct made m;

        spec.width = 71;
        spec.height = 90;
        m = make_webp(&spec);
        cr_assert(pack_resize_sides(&resize, spec.left + spec.width + spec.more_right,
                                    spec.top + spec.height + spec.more_below, &width, &height));
        check(&resize, &m, false, spec.orientation ? (uint8_t)spec.orientation : 1, width, height);
        free(m.bytes);
    }
}
#endif

#ifdef HAVE_AVIF
Test(pack_resize, avif_becomes_jpeg)
{
    struct pack_resize resize = {.longest = 50, .quality = 90};

    for (size_t i = 0; i < made_avifs_count; i++) {
        struct made_avif spec = made_avifs[i];
        uint32_t width, height;
        uint8_t orientation;
        struct made m;

        spec.width = 71;
        spec.height = 90;
        m = make_avif(&spec);
        cr_assert(eq(int, oracle_header(m.bytes, m.len, &width, &height, &orientation), 0));
        cr_assert(pack_resize_sides(&resize, 71, 90, &width, &height));
        check(&resize, &m, spec.sampling == 400, orientation, width, height);
        free(m.bytes);
    }
}
#endif

/* --- files that are not shrunk --- */

Test(pack_resize, images_that_are_not_larger_are_packed_as_usual)
{
    struct pack_resize resize = {.longest = 157, .quality = 90};

    for (size_t i = 0; i < made_kinds_count; i++) {
        struct made_jpeg spec = made_kinds[i];
        struct pack_result small = {0}, as_ever = {0};
        struct made m;

        spec.width = 157;
        spec.height = 93;
        m = make_jpeg(&spec);
        cr_assert(
            eq(int, image_pack(decoder, &(struct image_file){m.bytes, m.len}, &as_ever, NULL), 0));
        small = pack(&resize, &m, as_ever.outcome);
        cr_assert(eq(sz, small.len, as_ever.len), "%s", spec.name);
        if (small.bytes)
            cr_assert(memcmp(small.bytes, as_ever.bytes, small.len) == 0, "%s", spec.name);
        free(small.bytes);
        free(as_ever.bytes);
        free(m.bytes);
    }
}

static struct made make_cut_off(void)
{
    struct made_jpeg spec = made_kinds[0];
    struct made m;

    spec.width = 157;
    spec.height = 93;
    m = make_jpeg(&spec);
    m.len -= m.len / 4;
    return m;
}

Test(pack_resize, bad_files_are_kept)
{
    struct pack_resize resize = {.longest = 64, .quality = 90};
    struct made m = make_cut_off();
    struct pack_result result;

    result = pack(&resize, &m, PACK_KEPT_BAD);
    cr_assert(result.bytes == NULL);
    free(m.bytes);
}

/* --- raw pixels --- */

static struct pack_result make_raw(const struct pack_resize *resize, const struct made *m,
                                   enum pack_outcome want)
{
    struct pack_result result = {0};
    struct plenum_error err = {""};

    cr_assert(
        eq(int,
           image_pack_raw(decoder, resize, &(struct image_file){m->bytes, m->len}, &result, &err),
           0),
        "%s", err.text);
    cr_assert(result.outcome == want, "%s instead of %s: %s", pack_outcome_name(result.outcome),
              pack_outcome_name(want), err.text);
    return result;
}

/* Make the next of files of every kind, in every orientation. Returns false after the last one. */
static bool next_file(uint32_t *at, struct made *ret)
{
    static const struct made_png pngs[] = {
        {"grey", .colour_type = 0, .depth = 1},
        {"palette", .colour_type = 3, .depth = 4, .transparent = true, .orientation = 8},
        {"colour, 16 bits", .colour_type = 2, .depth = 16, .interlaced = true},
        {"colour, transparent", .colour_type = 6, .depth = 8, .orientation = 3},
    };
    uint32_t i = (*at)++;

    if (i < made_kinds_count) {
        struct made_jpeg spec = made_kinds[i];

        spec.width = 157;
        spec.height = 93;
        spec.orientation = (int)(i % 9);
        *ret = make_jpeg(&spec);
        return true;
    }
    i -= (uint32_t)made_kinds_count;
    if (i < ARRAY_LEN(pngs)) {
        struct made_png spec = pngs[i];

        spec.width = 157;
        spec.height = 93;
        *ret = make_png(&spec);
        return true;
    }
    i -= ARRAY_LEN(pngs);
    if (i < made_ppms_count) {
        struct made_ppm spec = made_ppms[i];

        spec.width = 157;
        spec.height = 93;
        *ret = make_ppm(&spec);
        return true;
    }
    i -= (uint32_t)made_ppms_count;
#ifdef HAVE_WEBP
    if (i < made_webps_count) {
        struct made_webp spec = made_webps[i];

        spec.width = 157;
        spec.height = 93;
        *ret = make_webp(&spec);
        return true;
    }
    i -= (uint32_t)made_webps_count;
#endif
#ifdef HAVE_AVIF
    if (i < made_avifs_count) {
        struct made_avif spec = made_avifs[i];

        spec.width = 157;
        spec.height = 93;
        *ret = make_avif(&spec);
        return true;
    }
#endif
    return false;
}

/* Raw pixels of an image render like the image, in every pipeline, crop and store. */
Test(pack_resize, raw_is_lossless)
{
    static const char *const texts[] = {
        "rrc(32) flip(0.5)",
        "exif rrc(20x40, scale=0.01:0.3) flip(0.5)",
        "exif resize(40) center_crop(32)",
        "letterbox(50)",
        "rrc(32) color_jitter(0.4, 0.4, 0.4) blur(5, 0.1:2) flip(0.5)",
    };
    static const struct image_store stores[] = {{PLENUM_UINT8, PLENUM_NHWC, 3},
                                                {PLENUM_INT8, PLENUM_NCHW, 4}};
    static uint8_t want[64 * 64 * 4], got[64 * 64 * 4];
    struct made m;

    for (uint32_t at = 0; next_file(&at, &m);) {
        struct pack_result raw = make_raw(NULL, &m, PACK_RAW);
        struct image_info before, after;

        cr_assert(
            eq(int, image_verify(decoder, &(struct image_file){m.bytes, m.len}, &before, NULL), 0));
        cr_assert(eq(
            int, image_verify(decoder, &(struct image_file){raw.bytes, raw.len}, &after, NULL), 0));
        cr_assert(eq(str, (char *)after.format, "PPM"));
        cr_assert(eq(u64, before.pixels, after.pixels));
        cr_assert(eq(u8, before.orientation, after.orientation));
        cr_assert(memcmp(raw.bytes, "P6\n", 3) == 0);
        for (uint32_t i = 0; i < 6 * ARRAY_LEN(texts); i++) {
            const struct image_store *store = &stores[i % 2];
            struct image_draw draw = {.seed = at, .position = i};
            struct pipeline p;

            cr_assert(eq(int, pipeline_parse(texts[i % ARRAY_LEN(texts)], &p, NULL), 0));
            cr_assert(
                eq(int,
                   image_render(decoder,
                                &(struct image_view){.pipeline = &p, .draw = draw, .dst = want},
                                store, &(struct image_file){m.bytes, m.len}, NULL),
                   0));
            cr_assert(
                eq(int,
                   image_render(decoder,
                                &(struct image_view){.pipeline = &p, .draw = draw, .dst = got},
                                store, &(struct image_file){raw.bytes, raw.len}, NULL),
                   0));
            cr_assert(memcmp(want, got, (size_t)p.width * p.height * store->channels) == 0,
                      "file %u, %s", at, p.text);
        }
        free(raw.bytes);
        free(m.bytes);
    }
}

/* A shrunk raw image has the oracle's pixels, those that a JPEG would be encoded from. */
Test(pack_resize, raw_pixels_of_a_shrunk_image)
{
    static const struct pack_resize resizes[] = {{.longest = 64, .raw_share = 100},
                                                 {.shortest = 41, .raw_share = 100}};
    struct image_store store = {PLENUM_UINT8, PLENUM_NHWC, 3};
    struct image_draw draw = {0};
    struct made m;

    for (uint32_t at = 0; next_file(&at, &m);) {
        const struct pack_resize *resize = &resizes[at % 2];
        struct pack_result raw = make_raw(resize, &m, PACK_RAW_RESIZED);
        struct image_info before, after;
        struct pipeline pipeline;
        uint32_t width, height;
        uint8_t *want;
        char text[80];
        size_t bytes;

        cr_assert(
            eq(int, image_verify(decoder, &(struct image_file){m.bytes, m.len}, &before, NULL), 0));
        cr_assert(eq(
            int, image_verify(decoder, &(struct image_file){raw.bytes, raw.len}, &after, NULL), 0));
        cr_assert(pack_resize_sides(resize, before.width, before.height, &width, &height));
        cr_assert(eq(u32, after.width, width));
        cr_assert(eq(u32, after.height, height));
        cr_assert(eq(u8, before.orientation, after.orientation));
        (void)snprintf(text, sizeof(text), "resize(%ux%u, interpolation=lanczos)", height, width);
        cr_assert(eq(int, pipeline_parse(text, &pipeline, NULL), 0));
        bytes = (size_t)width * height * 3;
        want = malloc(bytes);
        cr_assert(eq(int, oracle_render(&pipeline, &draw, &store, m.bytes, m.len, want), 0));
        cr_assert(memcmp(raw.bytes + raw.len - bytes, want, bytes) == 0, "file %u", at);
        free(want);
        free(raw.bytes);
        free(m.bytes);
    }
}

Test(pack_resize, bad_files_do_not_become_raw)
{
    struct pack_resize resize = {.longest = 64, .raw_share = 100};
    struct made m = make_cut_off();
    struct pack_result result;

    result = make_raw(&resize, &m, PACK_KEPT_BAD);
    cr_assert(result.bytes == NULL);
    free(m.bytes);
}

/* If raw pixels would be larger than a sample may be, the file becomes a JPEG that can be read. */
Test(pack_resize, raw_pixels_may_be_too_many, .timeout = 600)
{
    const uint32_t side = 9460; /* 3 * 9460 * 9460 is 14,000 bytes over the limit */
    uint8_t *grey = calloc(side, side), *bytes;
    struct encode_options options = {
        .pixels = grey, .width = side, .height = side, .quality = 50, .grey = true};
    struct pack_result result;
    struct made m;

    cr_assert(3 * (uint64_t)side * side > PACK_RAW_MAX);
    cr_assert(3 * (uint64_t)(side - 1) * (side - 1) < PACK_RAW_MAX - PPM_HEADER_MAX);
    cr_assert(eq(int, encode_jpeg(&options, &bytes, &m.len), 0));
    free(grey);
    m.bytes = bytes;
    result = make_raw(NULL, &m, PACK_BASELINE);
    cr_expect(memcmp(result.bytes, "\xFF\xD8", 2) == 0);
    free(result.bytes);
    free(m.bytes);
}

/* A share is exact in each hundred samples, is spread evenly, and does not change between runs. */
Test(pack_resize, a_share_is_even)
{
    for (uint32_t share = 0; share <= 100; share++) {
        struct pack_resize resize = {.raw_share = share};
        uint32_t count = 0, since = 0;

        for (uint32_t i = 0; i < 10000; i++) {
            bool raw = pack_resize_is_raw(&resize, i);

            since++;
            if (raw) {
                uint32_t apart = 100 / share;

                cr_assert(count == 0 || since == apart || since == apart + 1, "%u: %u", share, i);
                since = 0;
            }
            count += raw;
            if (i % 100 == 99)
                cr_assert(eq(u32, count, (i + 1) / 100 * share));
        }
    }
    cr_expect(not(pack_resize_is_raw(&(struct pack_resize){.raw_share = 50}, 0)));
    cr_expect(pack_resize_is_raw(&(struct pack_resize){.raw_share = 50}, 1));
    cr_expect(pack_resize_is_raw(&(struct pack_resize){.raw_share = 99}, UINT32_MAX - 1));
}
