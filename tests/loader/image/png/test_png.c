/* SPDX-License-Identifier: MIT */
/* Compares every kind of PNG with the oracle, and tests damaged PNGs. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>

#include <png.h>

#include "common/order/philox.h"
#include "common/util/util.h"
#include "loader/image/image.h"
#include "tests/loader/image/agree.h"
#include "tests/loader/image/made.h"

static const struct image_store plain = {PLENUM_UINT8, PLENUM_NHWC, 3};

static const struct made_png forms[] = {
    {"grey 1", .colour_type = PNG_COLOR_TYPE_GRAY, .depth = 1},
    {"grey 2", .colour_type = PNG_COLOR_TYPE_GRAY, .depth = 2},
    {"grey 4", .colour_type = PNG_COLOR_TYPE_GRAY, .depth = 4},
    {"grey 8", .colour_type = PNG_COLOR_TYPE_GRAY, .depth = 8},
    {"grey 16", .colour_type = PNG_COLOR_TYPE_GRAY, .depth = 16},
    {"grey 8, one transparent", .colour_type = PNG_COLOR_TYPE_GRAY, .depth = 8,
     .transparent = true},
    {"palette 1", .colour_type = PNG_COLOR_TYPE_PALETTE, .depth = 1},
    {"palette 4", .colour_type = PNG_COLOR_TYPE_PALETTE, .depth = 4},
    {"palette 8", .colour_type = PNG_COLOR_TYPE_PALETTE, .depth = 8},
    {"palette 8, alpha", .colour_type = PNG_COLOR_TYPE_PALETTE, .depth = 8, .transparent = true},
    {"rgb 8", .colour_type = PNG_COLOR_TYPE_RGB, .depth = 8},
    {"rgb 16", .colour_type = PNG_COLOR_TYPE_RGB, .depth = 16},
    {"rgb 16, one transparent", .colour_type = PNG_COLOR_TYPE_RGB, .depth = 16,
     .transparent = true},
    {"grey alpha 8", .colour_type = PNG_COLOR_TYPE_GRAY_ALPHA, .depth = 8},
    {"grey alpha 16", .colour_type = PNG_COLOR_TYPE_GRAY_ALPHA, .depth = 16},
    {"rgba 8", .colour_type = PNG_COLOR_TYPE_RGB_ALPHA, .depth = 8},
    {"rgba 16", .colour_type = PNG_COLOR_TYPE_RGB_ALPHA, .depth = 16},
};

static struct pipeline parse(const char *text)
{
    struct pipeline p;

    cr_assert(eq(int, pipeline_parse(text, &p, NULL), 0), "%s", text);
    return p;
}

Test(png, every_form_equals_the_oracle)
{
    static const uint32_t sizes[][2] = {{1, 1}, {3, 200}, {45, 37}, {64, 5}};
    struct pipeline pipelines[] = {parse("rrc(16)"), parse("resize(20) center_crop(16)")};
    struct image_decoder *decoder;
    char why[200];

    cr_assert(eq(int, image_decoder_create(&decoder), 0));
    for (size_t i = 0; i < ARRAY_LEN(forms) * ARRAY_LEN(sizes) * 2; i++) {
        struct made_png spec = forms[i / 2 % ARRAY_LEN(forms)];
        const uint32_t *size = sizes[i / 2 / ARRAY_LEN(forms)];
        struct made m;

        spec.width = size[0];
        spec.height = size[1];
        spec.interlaced = i % 2;
        m = make_png(&spec);
        for (uint32_t k = 0; k < 6; k++) {
            struct image_draw draw = {.seed = i, .position = k};

            cr_assert(
                oracle_agrees(decoder,
                              &(struct rendering){&pipelines[k % 2], &draw, &plain, m.bytes, m.len},
                              why, NULL, NULL),
                "%s %ux%u%s: %s", spec.name, spec.width, spec.height,
                spec.interlaced ? " interlaced" : "", why);
        }
        free(m.bytes);
    }
    image_decoder_destroy(decoder);
}

/* Expect the pixel that the bytes in the file encode: the high byte of 16 bits, without alpha, and
 * with grey in all channels. */
static void expect_pixel(const struct made_png *spec, const uint8_t *raw, const uint8_t *got)
{
    size_t step = spec->depth == 16 ? 2 : 1;
    bool colour = spec->colour_type & PNG_COLOR_MASK_COLOR;
    uint32_t most = spec->depth < 8 ? (1u << spec->depth) - 1 : 255;

    for (size_t c = 0; c < 3; c++) {
        uint32_t value = raw[colour ? c * step : 0];

        if (spec->depth < 8)
            value = (value >> (8 - spec->depth)) * 255 / most;
        cr_expect(got[c] == value, "%s: channel %zu is %d instead of %u", spec->name, c, got[c],
                  value);
    }
}

Test(png, a_pixel_by_hand)
{
    struct pipeline p = parse("resize(1) center_crop(1)");
    struct image_draw draw = {0};
    struct image_decoder *decoder;

    cr_assert(eq(int, image_decoder_create(&decoder), 0));
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        struct made_png spec = forms[i];
        struct made m;
        uint8_t got[3], raw[8];

        if (spec.colour_type == PNG_COLOR_TYPE_PALETTE)
            continue;
        spec.width = spec.height = 1;
        m = make_png(&spec);
        made_png_row(&spec, 0, raw);
        cr_assert(
            eq(int,
               image_render(decoder, &(struct image_view){.pipeline = &p, .draw = draw, .dst = got},
                            &plain, &(struct image_file){m.bytes, m.len}, NULL),
               0));
        expect_pixel(&spec, raw, got);
        free(m.bytes);
    }
    image_decoder_destroy(decoder);
}

Test(png, cut_off_at_every_byte)
{
    static const struct made_png specs[] = {
        {.width = 40, .height = 50, .colour_type = PNG_COLOR_TYPE_RGB, .depth = 8},
        {.width = 40, .height = 50, .colour_type = PNG_COLOR_TYPE_PALETTE, .depth = 4},
        {.width = 20,
         .height = 25,
         .colour_type = PNG_COLOR_TYPE_RGB,
         .depth = 8,
         .interlaced = true},
    };
    struct pipeline p = parse("rrc(8,scale=0.05:0.3)");
    struct image_decoder *decoder;
    char why[200];

    cr_assert(eq(int, image_decoder_create(&decoder), 0));
    for (size_t s = 0; s < ARRAY_LEN(specs); s++) {
        struct made m = make_png(&specs[s]);
        uint32_t good = 0, bad = 0, cut = 0;

        for (size_t len = 0; len <= m.len; len++) {
            struct image_draw draw = {.seed = 4, .position = (uint32_t)len};
            struct plenum_error err;
            int r;

            cr_assert(oracle_agrees(decoder, &(struct rendering){&p, &draw, &plain, m.bytes, len},
                                    why, &r, &err),
                      "%zu, %zu of %zu bytes: %s", s, len, m.len, why);
            good += r == 0;
            bad += r < 0;
            cut += strncmp(err.text, "the PNG file is cut off: it ends after ", 39) == 0;
        }
        cr_expect(good > 0 && bad > 0);
        cr_expect(bad - cut <= 4, "a file that is truncated after the signature is reported as "
                                  "truncated");
        free(m.bytes);
    }
    image_decoder_destroy(decoder);
}

Test(png, damaged_anywhere)
{
    struct made_png spec = {.width = 40,
                            .height = 50,
                            .colour_type = PNG_COLOR_TYPE_PALETTE,
                            .depth = 8,
                            .transparent = true,
                            .orientation = 6};
    struct pipeline p = parse("rrc(8,scale=0.05:0.3)");
    struct image_decoder *decoder;
    char why[300];

    cr_assert(eq(int, image_decoder_create(&decoder), 0));
    for (uint32_t interlaced = 0; interlaced < 2; interlaced++) {
        struct damage d = {.pipeline = &p, .key = interlaced, .count = 3000};
        struct made m;

        spec.interlaced = interlaced;
        m = make_png(&spec);
        d.file = &m;
        cr_assert(oracle_agrees_on_damage(decoder, &d, why), "%s", why);
        free(m.bytes);
    }
    image_decoder_destroy(decoder);
}

static uint32_t crc_of(const uint8_t *bytes, size_t len)
{
    uint32_t crc = UINT32_MAX;

    for (size_t i = 0; i < len; i++) {
        crc ^= bytes[i];
        for (int k = 0; k < 8; k++)
            crc = crc & 1 ? 0xEDB88320 ^ crc >> 1 : crc >> 1;
    }
    return ~crc;
}

static void put32(uint8_t *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> (24 - 8 * i));
}

struct bomb_case {
    uint32_t width, height;
    char sentence[60];
};

ParameterizedTestParameters(png, bombs)
{
    static struct bomb_case cases[] = {
        {65500, 65500, "more pixels than the limit"},
        {65501, 1, "Invalid IHDR"},
        {1, 0x7fffffff, "Invalid IHDR"},
        {0, 1, "Invalid IHDR"},
        {0x7fffffff, 0x7fffffff, "Invalid IHDR"},
        {11585, 11585, ""}, /* allowed, but fails at the end of its few bytes */
    };
    return cr_make_param_array(struct bomb_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct bomb_case *c, png, bombs, .timeout = 600)
{
    struct made_png spec = {
        .width = 40, .height = 50, .colour_type = PNG_COLOR_TYPE_RGB, .depth = 8};
    struct pipeline p = parse("rrc(8)");
    struct image_draw draw = {0};
    struct image_decoder *decoder;
    struct plenum_error err = {""};
    uint8_t got[8 * 8 * 3];

    cr_assert(eq(int, image_decoder_create(&decoder), 0));
    for (int interlaced = 0; interlaced < 2; interlaced++) {
        struct made m;

        spec.interlaced = interlaced;
        m = make_png(&spec);
        put32(m.bytes + 16, c->width);
        put32(m.bytes + 20, c->height);
        put32(m.bytes + 29, crc_of(m.bytes + 12, 17));
        cr_expect(
            eq(int,
               image_render(decoder, &(struct image_view){.pipeline = &p, .draw = draw, .dst = got},
                            &plain, &(struct image_file){m.bytes, m.len}, &err),
               -EBADMSG));
        cr_expect(strstr(err.text, c->sentence) != NULL, "%s", err.text);
        free(m.bytes);
    }
    image_decoder_destroy(decoder);
}

/* Adam7: the first column and row of each pass, and the steps to the next ones. */
static const struct {
    uint32_t left, top, across, down;
} passes[7] = {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4},
               {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}};

enum { SIDE = 16, PASSES_BYTES = 286 };

static uint8_t *put_chunk(uint8_t *to, const char *type, const uint8_t *bytes, size_t len)
{
    put32(to, (uint32_t)len);
    memcpy(to + 4, type, 4);
    if (len > 0)
        memcpy(to + 8, bytes, len);
    put32(to + 8 + len, crc_of(to + 4, 4 + len));
    return to + 12 + len;
}

/* Write a grey interlaced PNG of 16 x 16, not compressed, in which row `y` of this pass has an
 * invalid filter; all checksums are correct. Returns its length, or 0 if the pass has no such
 * row. */
static size_t put_interlaced(uint8_t *to, uint32_t bad_pass, uint32_t bad_y)
{
    static const uint8_t head[13] = {0, 0, 0, SIDE, 0, 0, 0, SIDE, 8, PNG_COLOR_TYPE_GRAY, 0, 0, 1};
    uint8_t data[7 + PASSES_BYTES + 4] = {0x78,
                                          0x01,
                                          1,
                                          PASSES_BYTES & 255,
                                          PASSES_BYTES >> 8,
                                          ~PASSES_BYTES & 255,
                                          (~PASSES_BYTES >> 8) & 255};
    uint8_t *at = data + 7, *end = to + 8;
    uint32_t a = 1, b = 0;
    bool damaged = false;

    for (uint32_t pass = 0; pass < 7; pass++)
        for (uint32_t y = passes[pass].top; y < SIDE; y += passes[pass].down) {
            bool here = pass == bad_pass && y == bad_y;

            *at = here ? 9 : 0;
            damaged |= here;
            at += 1 + (SIDE - passes[pass].left + passes[pass].across - 1) / passes[pass].across;
        }
    cr_assert(eq(sz, (size_t)(at - data), 7 + PASSES_BYTES));
    for (uint8_t *byte = data + 7; byte < at; byte++) {
        a = (a + *byte) % 65521;
        b = (b + a) % 65521;
    }
    put32(at, b << 16 | a);
    memcpy(to, "\x89PNG\r\n\x1a\n", 8);
    end = put_chunk(end, "IHDR", head, sizeof(head));
    end = put_chunk(end, "IDAT", data, sizeof(data));
    end = put_chunk(end, "IEND", NULL, 0);
    return damaged ? (size_t)(end - to) : 0;
}

/* docs/pixels.md, 7: all of passes 1 to 6 is needed, and pass 7 up to the last row that is shown:
 * here, row 11. */
Test(png, the_last_interlaced_pass_is_read_only_as_far_as_needed)
{
    struct pipeline p = parse("resize(16) center_crop(8)");
    struct image_draw draw = {0};
    struct image_decoder *decoder;
    uint32_t rows = 0, good = 0;

    cr_assert(eq(int, image_decoder_create(&decoder), 0));
    for (uint32_t pass = 0; pass < 7; pass++)
        for (uint32_t y = 0; y < SIDE; y++) {
            uint8_t file[1024], got[8 * 8 * 3];
            size_t len = put_interlaced(file, pass, y);
            struct plenum_error err = {""};
            int r, want = pass == 6 && y > 11 ? 0 : -EBADMSG;

            if (len == 0)
                continue;
            r = image_render(decoder,
                             &(struct image_view){.pipeline = &p, .draw = draw, .dst = got}, &plain,
                             &(struct image_file){file, len}, &err);
            cr_expect(eq(int, r, want), "row %u of pass %u: %s", y, pass + 1, err.text);
            rows++;
            good += r == 0;
        }
    cr_expect(eq(u32, rows, 30));
    cr_expect(eq(u32, good, 2));
    image_decoder_destroy(decoder);
}

Test(png, exif_rotates_png)
{
    struct pipeline plain_p = parse("resize(20) center_crop(16)");
    struct pipeline exif_p = parse("exif resize(20) center_crop(16)");
    struct made_png spec = {
        .width = 30, .height = 30, .colour_type = PNG_COLOR_TYPE_RGB, .depth = 8, .orientation = 4};
    struct made m = make_png(&spec);
    struct image_draw draw = {0};
    struct image_decoder *decoder;
    uint8_t upright[16][16 * 3], turned[16][16 * 3];

    /* The image is upside down. The window is in the middle, and the filter is symmetric except for
     * the taps that take the rounding remainder, so rows are reversed to within one level. */
    cr_assert(eq(int, image_decoder_create(&decoder), 0));
    cr_assert(
        eq(int,
           image_render(decoder,
                        &(struct image_view){.pipeline = &plain_p, .draw = draw, .dst = upright},
                        &plain, &(struct image_file){m.bytes, m.len}, NULL),
           0));
    cr_assert(
        eq(int,
           image_render(decoder,
                        &(struct image_view){.pipeline = &exif_p, .draw = draw, .dst = turned},
                        &plain, &(struct image_file){m.bytes, m.len}, NULL),
           0));
    for (int y = 0; y < 16; y++)
        for (int x = 0; x < 16 * 3; x++)
            cr_assert(abs(upright[y][x] - turned[15 - y][x]) <= 1);
    image_decoder_destroy(decoder);
    free(m.bytes);
}

/* docs/pixels.md, 4.4: the first of two eXIf chunks counts; one with a wrong CRC is ignored. */
Test(png, the_first_valid_orientation_counts)
{
    static const struct {
        int first, second; /* 0: none; negative: with a wrong CRC */
        uint8_t want;
    } cases[] = {{3, 0, 3}, {3, 6, 3}, {6, 3, 6}, {-3, 0, 1}, {-3, 6, 6}, {3, -6, 3}};
    struct image_decoder *decoder;

    cr_assert(eq(int, image_decoder_create(&decoder), 0));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct made_png spec = {
            .width = 7, .height = 5, .colour_type = PNG_COLOR_TYPE_RGB, .depth = 8};
        struct made m = make_png(&spec);
        uint8_t *bytes = malloc(m.len + 2 * 38);
        struct image_info info;
        size_t len = 33; /* signature and IHDR */

        memcpy(bytes, m.bytes, len);
        for (int k = 0; k < 2; k++) {
            int o = k ? cases[i].second : cases[i].first;
            static const uint8_t chunk[34] = "\0\0\0\x1a"
                                             "eXIf"
                                             "MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0";

            if (o == 0)
                continue;
            memcpy(bytes + len, chunk, sizeof(chunk));
            bytes[len + 27] = (uint8_t)abs(o);
            put32(bytes + len + 34, crc_of(bytes + len + 4, 30) ^ (o < 0));
            len += 38;
        }
        memcpy(bytes + len, m.bytes + 33, m.len - 33);
        len += m.len - 33;
        cr_assert(eq(int, image_verify(decoder, &(struct image_file){bytes, len}, &info, NULL), 0));
        cr_expect(eq(u8, info.orientation, cases[i].want), "%d, then %d", cases[i].first,
                  cases[i].second);
        free(bytes);
        free(m.bytes);
    }
    image_decoder_destroy(decoder);
}
