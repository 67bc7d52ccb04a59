/* SPDX-License-Identifier: MIT */
/* Compares regions of JPEGs with full decodes, and tests damaged and hostile JPEGs. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>

#include "common/order/philox.h"
#include "common/util/util.h"
#include "loader/image/image.h"
#include "loader/image/limits.h"
#include "loader/image/reader.h"
#include "tests/loader/image/agree.h"
#include "tests/loader/image/made.h"

static const struct image_store plain = {PLENUM_UINT8, PLENUM_NHWC, 3};

static struct pipeline parse(const char *text)
{
    struct pipeline p;

    cr_assert(eq(int, pipeline_parse(text, &p, NULL), 0), "%s", text);
    return p;
}

static void expect_sentence(const struct plenum_error *err, const char *want)
{
    cr_expect(strcmp(err->text, want) == 0, "'%s' instead of '%s'", err->text, want);
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Compare a region from the reader with the same part of a full decode. */
static void check_region(struct image_reader *reader, const struct made *m,
                         const struct oracle_image *whole, struct rect want, const char *what)
{
    struct image_header header;
    struct image_rows rows;
    struct plenum_error err = {""};
    int r;

    want.width = least(want.width, whole->width - want.left);
    want.height = least(want.height, whole->height - want.top);
    r = reader->ops->open(reader, m->bytes, m->len, &header, &err);
    if (r == 0)
        r = reader->ops->seek(reader, &want, &err);
    for (uint32_t y = 0; r == 0 && y < want.height;) {
        r = reader->ops->read(reader, &rows, &err);
        for (uint32_t i = 0; r == 0 && i < rows.count; i++, y++) {
            const uint8_t *rgb =
                whole->rgb + ((size_t)(want.top + y) * whole->width + want.left) * 3;
            const uint8_t *got = rows.pixels + i * rows.pitch;
            bool same = true;

            for (uint32_t x = 0; x < want.width; x++, got += 4, rgb += 3)
                same = same && got[0] == rgb[0] && got[1] == rgb[1] && got[2] == rgb[2];
            cr_assert(same, "%s, %ux%u: row %u of the region %ux%u+%u+%u", what, whole->width,
                      whole->height, y, want.width, want.height, want.left, want.top);
        }
    }
    cr_assert(r == 0, "%s: %s", what, err.text);
    reader->ops->close(reader);
}

struct kind {
    uint32_t index; /* in made_kinds[] */
};

static struct kind kinds[64];

static struct criterion_test_params every_kind(void)
{
    for (uint32_t i = 0; i < made_kinds_count; i++)
        kinds[i].index = i;
    return cr_make_param_array(struct kind, kinds, made_kinds_count);
}

/* Make one file of this kind, and decode all of it. */
static struct made make_and_decode(const struct made_jpeg *spec, struct oracle_image *whole)
{
    struct made m = make_jpeg(spec);

    cr_assert(eq(int, oracle_decode(m.bytes, m.len, UINT32_MAX, whole), 0), "%s", spec->name);
    cr_assert(eq(u32, whole->width, spec->width));
    cr_assert(eq(u32, whole->height, spec->height));
    return m;
}

/* Check regions of every extent at every position of a file of this kind and size. */
static void check_every_offset(struct image_reader *reader, const struct made_jpeg *kind,
                               uint32_t width, uint32_t height)
{
    static const uint32_t extents[] = {1, 2, 17, 1000};
    struct made_jpeg spec = *kind;
    struct oracle_image whole;
    struct made m;

    spec.width = width;
    spec.height = height;
    m = make_and_decode(&spec, &whole);
    for (size_t e = 0; e < ARRAY_LEN(extents); e++) {
        for (uint32_t x = 0; x < width; x++)
            for (uint32_t y = 0; y < height; y += 5)
                check_region(reader, &m, &whole, (struct rect){x, y, extents[e], 11}, spec.name);
        for (uint32_t y = 0; y < height; y++)
            for (uint32_t x = 0; x < width; x += 5)
                check_region(reader, &m, &whole, (struct rect){x, y, 13, extents[e]}, spec.name);
    }
    free(m.bytes);
    free(whole.rgb);
}

ParameterizedTestParameters(jpeg, regions_at_every_offset)
{
    return every_kind();
}

ParameterizedTest(struct kind *k, jpeg, regions_at_every_offset)
{
    struct image_reader *reader;

    cr_assert(eq(int, jpeg_reader_create(&reader), 0));
    check_every_offset(reader, &made_kinds[k->index], 70, 50);
    check_every_offset(reader, &made_kinds[k->index], 33, 71);
    reader->ops->destroy(reader);
}

ParameterizedTestParameters(jpeg, sizes_from_1_to_70)
{
    return every_kind();
}

ParameterizedTest(struct kind *k, jpeg, sizes_from_1_to_70)
{
    struct image_reader *reader;

    cr_assert(eq(int, jpeg_reader_create(&reader), 0));
    for (uint32_t i = 0; i < 140; i++) {
        struct made_jpeg spec = made_kinds[k->index];
        struct oracle_image whole;
        struct made m;

        spec.width = 1 + i % 70;
        spec.height = i / 70 % 2 == 0 ? 1 + i * 37 % 70 : 71 - spec.width;
        spec.seed = i;
        m = make_and_decode(&spec, &whole);
        check_region(reader, &m, &whole, (struct rect){0, 0, 70, 70}, spec.name);
        for (uint32_t j = 0; j < 8; j++) {
            struct philox_block d = philox_draw(k->index, i, j, DRAW_SEED, 0);

            check_region(reader, &m, &whole,
                         (struct rect){philox_below(d.word[0], whole.width),
                                       philox_below(d.word[1], whole.height),
                                       1 + philox_below(d.word[2], whole.width),
                                       1 + philox_below(d.word[3], whole.height)},
                         spec.name);
        }
        free(m.bytes);
        free(whole.rgb);
    }
    reader->ops->destroy(reader);
}

struct damage_case {
    char kind[24]; /* a name in made_kinds[] */
    uint32_t width, height;
};

static struct made make_kind(const char *name, uint32_t width, uint32_t height)
{
    for (size_t i = 0; i < made_kinds_count; i++) {
        struct made_jpeg spec = made_kinds[i];

        if (strcmp(spec.name, name) != 0)
            continue;
        spec.width = width;
        spec.height = height;
        return make_jpeg(&spec);
    }
    cr_fatal("there is no kind %s", name);
}

static struct damage_case damage_cases[] = {
    {"4:2:0", 45, 52},
    {"4:2:2", 30, 40},
    {"grey", 40, 48},
    {"4:4:4", 21, 33},
    {"progressive 4:2:0", 37, 35},
    {"restart 1", 40, 70},
    {"arithmetic", 40, 52},
    {"scan a component", 30, 30},
    {"ycck 2x2", 25, 36},
};

ParameterizedTestParameters(jpeg, cut_off_at_every_byte)
{
    return cr_make_param_array(struct damage_case, damage_cases, ARRAY_LEN(damage_cases));
}

ParameterizedTest(struct damage_case *c, jpeg, cut_off_at_every_byte)
{
    struct pipeline pipelines[] = {parse("rrc(16,scale=0.05:0.3)"), parse("rrc(4,scale=0.05:1)")};
    struct made m = make_kind(c->kind, c->width, c->height);
    struct image_decoder *decoder;
    uint32_t good = 0, bad = 0;
    char why[200];

    cr_assert(eq(int, image_decoder_create(&decoder), 0));
    for (size_t len = 0; len <= m.len; len++) {
        for (uint32_t i = 0; i < 5; i++) {
            struct image_draw draw = {.seed = 4, .position = (uint32_t)len * 5 + i};
            struct plenum_error err;
            int r;

            cr_assert(
                oracle_agrees(decoder,
                              &(struct rendering){&pipelines[i % 2], &draw, &plain, m.bytes, len},
                              why, &r, &err),
                "%s, %zu of %zu bytes: %s", c->kind, len, m.len, why);
            good += r == 0;
            bad += r < 0;
        }
    }
    cr_expect(good > 0 && bad > 0);
    image_decoder_destroy(decoder);
    free(m.bytes);
}

ParameterizedTestParameters(jpeg, damaged_anywhere)
{
    return cr_make_param_array(struct damage_case, damage_cases, ARRAY_LEN(damage_cases));
}

ParameterizedTest(struct damage_case *c, jpeg, damaged_anywhere)
{
    struct pipeline pipelines[] = {parse("rrc(16,scale=0.05:0.3)"), parse("rrc(4,scale=0.05:1)")};
    struct made m = make_kind(c->kind, c->width, c->height);
    struct image_decoder *decoder;
    uint8_t *bytes = malloc(m.len);
    char why[200];

    cr_assert(eq(int, image_decoder_create(&decoder), 0));
    for (uint32_t i = 0; i < 3000; i++) {
        struct philox_block d = philox_draw(8, i, 0, DRAW_SEED, 0);
        struct image_draw draw = {.seed = 5, .position = i};
        uint32_t count = 1 + d.word[0] % 3, width, height;
        uint8_t orientation;

        memcpy(bytes, m.bytes, m.len);
        for (uint32_t k = 0; k < count; k++)
            bytes[philox_below(d.word[k + 1], (uint32_t)m.len)] =
                (uint8_t)(d.word[0] >> (8 + 8 * k));
        /* Skip large images: the oracle has no limits. */
        if (oracle_header(bytes, m.len, &width, &height, &orientation) == 0 &&
            (uint64_t)width * height > 1 << 20)
            continue;
        cr_assert(oracle_agrees(decoder,
                                &(struct rendering){&pipelines[i % 2], &draw, &plain, bytes, m.len},
                                why, NULL, NULL),
                  "%s, damage %u: %s", c->kind, i, why);
    }
    image_decoder_destroy(decoder);
    free(bytes);
    free(m.bytes);
}

/* Returns the first marker `code` at or after `at`. Fails the test if there is none. */
static size_t find_marker(const struct made *m, uint8_t code, size_t at)
{
    for (; at + 1 < m->len; at++)
        if (m->bytes[at] == 0xFF && m->bytes[at + 1] == code)
            return at;
    cr_fatal("no marker %02x", code);
}

/* Remove all segments with this code. */
static void remove_segments(struct made *m, uint8_t code)
{
    for (size_t at = 2; m->bytes[at + 1] != 0xDA;) {
        size_t size = 2 + ((size_t)m->bytes[at + 2] << 8 | m->bytes[at + 3]);

        if (m->bytes[at + 1] == code) {
            memmove(m->bytes + at, m->bytes + at + size, m->len - at - size);
            m->len -= size;
        } else {
            at += size;
        }
    }
}

/* Change the size in the header. */
static void declare(struct made *m, uint8_t sof, uint32_t width, uint32_t height)
{
    size_t at = find_marker(m, sof, 2);

    m->bytes[at + 5] = (uint8_t)(height >> 8);
    m->bytes[at + 6] = (uint8_t)height;
    m->bytes[at + 7] = (uint8_t)(width >> 8);
    m->bytes[at + 8] = (uint8_t)width;
}

static int render(struct image_decoder *decoder, const struct made *m, uint8_t *pixels,
                  struct plenum_error *err)
{
    struct pipeline p = parse("rrc(16)");
    struct image_draw draw = {.seed = 1};

    return image_render(decoder, &(struct image_view){.pipeline = &p, .draw = draw, .dst = pixels},
                        &plain, &(struct image_file){m->bytes, m->len}, err);
}

Test(jpeg, an_image_does_not_use_tables_of_the_previous_one)
{
    struct made whole = make_kind("4:2:0", 40, 40), no_quant = make_kind("4:2:0", 40, 40);
    struct made no_huff = make_kind("4:2:0", 40, 40),
                other = make_kind("progressive 4:2:0", 40, 40);
    uint8_t want[16 * 16 * 3], got[16 * 16 * 3];
    struct image_decoder *decoder;
    struct plenum_error err;

    cr_assert(eq(int, image_decoder_create(&decoder), 0));
    remove_segments(&no_quant, 0xDB);
    remove_segments(&no_huff, 0xC4);
    cr_assert(eq(int, render(decoder, &whole, want, &err), 0));
    cr_expect(eq(int, render(decoder, &no_quant, got, &err), -EBADMSG));
    cr_expect(strstr(err.text, "Quantization table 0x00 was not defined") != NULL, "%s", err.text);
    /* A file without Huffman tables uses those of the standard, whatever was decoded earlier. */
    cr_assert(eq(int, render(decoder, &other, got, &err), 0));
    cr_assert(eq(int, render(decoder, &no_huff, got, &err), 0), "%s", err.text);
    cr_expect(memcmp(want, got, sizeof(got)) == 0);
    image_decoder_destroy(decoder);
    free(whole.bytes);
    free(no_quant.bytes);
    free(no_huff.bytes);
    free(other.bytes);
}

/* Repeat the last scan of a file. */
static void repeat_last_scan(struct made *m, uint32_t times)
{
    size_t at = 0, size;

    for (size_t i = 2; i + 1 < m->len; i++)
        if (m->bytes[i] == 0xFF && m->bytes[i + 1] == 0xDA)
            at = i;
    size = m->len - 2 - at;
    m->bytes = realloc(m->bytes, m->len + times * size);
    for (uint32_t i = 0; i < times; i++)
        memcpy(m->bytes + m->len - 2 + i * size, m->bytes + at, size);
    m->len += times * size;
    m->bytes[m->len - 2] = 0xFF;
    m->bytes[m->len - 1] = 0xD9;
}

/* Insert `count` comments of 65533 bytes after SOI. */
static void add_comments(struct made *m, size_t count)
{
    size_t size = 65537, extra = count * size;

    m->bytes = realloc(m->bytes, m->len + extra);
    memmove(m->bytes + 2 + extra, m->bytes + 2, m->len - 2);
    memset(m->bytes + 2, 'x', extra);
    for (size_t i = 0; i < count; i++)
        memcpy(m->bytes + 2 + i * size, "\xFF\xFE\xFF\xFF", 4);
    m->len += extra;
}

struct refusal_case {
    char why[40], kind[24], sentence[60];
    uint32_t width, height; /* written into the header if `sof` is not 0 */
    uint32_t scans, comments;
    uint8_t sof;
    int want;
};

/* No file may take long: the test has a time limit. */
ParameterizedTestParameters(jpeg, bombs)
{
    static struct refusal_case cases[] = {
        {"65500 x 65500", "4:2:0", "65500x65500 pixels are more than the limit", 65500, 65500,
         .sof = 0xC0, .want = -EBADMSG},
        {"65535 x 8", "4:2:0", "Maximum supported image dimension is 65500", 65535, 8, .sof = 0xC0,
         .want = -EBADMSG},
        {"no height", "4:2:0", "Empty JPEG image", 64, 0, .sof = 0xC0, .want = -EBADMSG},
        {"large and empty", "4:2:0", "remature end", 11585, 11585, .sof = 0xC0, .want = -EBADMSG},
        {"large and progressive", "progressive 4:4:4", "too many for a JPEG with several scans",
         11585, 11585, .sof = 0xC2, .want = -EBADMSG},
        {"large, progressive and empty", "progressive 4:2:0", "", 10000, 10000, .sof = 0xC2,
         .want = -EBADMSG},
        {"50 scans are many, but fine", "scan a component", "", .scans = 50, .want = 0},
        {"1000 scans", "scan a component", "more than 100 scans", .scans = 1000, .want = -EBADMSG},
        {"1000 progressive scans", "progressive grey", "", .scans = 1000, .want = -EBADMSG},
        {"a header of 15 MiB", "4:2:0", "", .comments = 240, .want = 0},
        {"a header of 17 MiB", "4:2:0", "more than the limit of 16777216", .comments = 270,
         .want = -EBADMSG},
    };
    return cr_make_param_array(struct refusal_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct refusal_case *c, jpeg, bombs, .timeout = 600)
{
    struct made m = make_kind(c->kind, 400, 300);
    struct image_decoder *decoder;
    struct plenum_error err = {""};
    uint8_t pixels[16 * 16 * 3];
    uint64_t start;

    cr_assert(eq(int, image_decoder_create(&decoder), 0));
    if (c->sof)
        declare(&m, c->sof, c->width, c->height);
    if (c->scans)
        repeat_last_scan(&m, c->scans);
    if (c->comments)
        add_comments(&m, c->comments);
    start = time_cpu_ns();
    cr_expect(eq(int, render(decoder, &m, pixels, &err), c->want), "%s: %s", c->why, err.text);
    cr_expect(strstr(err.text, c->sentence) != NULL, "%s: %s", c->why, err.text);
#ifndef PLENUM_SANITIZED
    cr_expect(time_cpu_ns() - start < 3 * NS_PER_SEC, "%s takes too long", c->why);
#else
    (void)start;
#endif
    image_decoder_destroy(decoder);
    free(m.bytes);
}

Test(jpeg, unsupported_forms_are_rejected_with_a_message)
{
    struct made_jpeg spec = {.width = 40, .height = 40, .colour = MADE_TWO};
    struct made two = make_jpeg(&spec), twelve = make_kind("4:2:0", 40, 40);
    struct made lossless = make_kind("4:2:0", 40, 40), hierarchical = make_kind("4:2:0", 40, 40);
    struct made ordinary = make_kind("4:4:4", 40, 40);
    uint8_t *adobe = malloc(ordinary.len + 16);
    struct image_decoder *decoder;
    struct plenum_error err;
    uint8_t pixels[16 * 16 * 3];

    cr_assert(eq(int, image_decoder_create(&decoder), 0));
    cr_expect(eq(int, render(decoder, &two, pixels, &err), -EBADMSG));
    expect_sentence(&err, "a JPEG with 2 components is neither grey, colour nor CMYK");
    twelve.bytes[find_marker(&twelve, 0xC0, 2) + 4] = 12;
    cr_expect(eq(int, render(decoder, &twelve, pixels, &err), -EBADMSG));
    expect_sentence(&err, "a JPEG with 12 bits per sample is not supported, only 8");
    lossless.bytes[find_marker(&lossless, 0xC0, 2) + 1] = 0xC3;
    cr_expect(eq(int, render(decoder, &lossless, pixels, &err), -EBADMSG));
    expect_sentence(&err, "a lossless JPEG is not supported");
    hierarchical.bytes[find_marker(&hierarchical, 0xC0, 2) + 1] = 0xCE;
    cr_expect(eq(int, render(decoder, &hierarchical, pixels, &err), -EBADMSG));
    expect_sentence(&err, "a hierarchical JPEG is not supported");
    memcpy(adobe,
           "\xFF\xD8\xFF\xEE\0\x0E"
           "Adobe\0\x64\0\0\0\0\x02",
           18);
    memcpy(adobe + 18, ordinary.bytes + 20, ordinary.len - 20); /* replaces JFIF's APP0 */
    cr_expect(
        eq(int, render(decoder, &(struct made){adobe, ordinary.len - 2}, pixels, &err), -EBADMSG));
    expect_sentence(&err, "JPEG decoder: Unknown Adobe color transform code 2, in the header");
    image_decoder_destroy(decoder);
    free(adobe);
    free(ordinary.bytes);
    free(hierarchical.bytes);
    free(two.bytes);
    free(twelve.bytes);
    free(lossless.bytes);
}

/* A file that is damaged after the last row that is needed is good. */
Test(jpeg, data_after_the_last_row_does_not_matter)
{
    struct pipeline all = parse("rrc(16,scale=1:1,ratio=1:1)");
    struct made m = make_kind("4:2:0", 64, 256);
    struct image_decoder *decoder;
    struct plenum_error err;
    uint8_t pixels[16 * 16 * 3];
    struct image_info info;
    struct image_draw draw = {0};

    /* The box is the middle 64 x 64: rows 96 ... 159. */
    cr_assert(eq(int, image_decoder_create(&decoder), 0));
    cr_expect(eq(int,
                 image_render(decoder,
                              &(struct image_view){.pipeline = &all, .draw = draw, .dst = pixels},
                              &plain, &(struct image_file){m.bytes, m.len * 3 / 4}, &err),
                 0));
    cr_expect(eq(int,
                 image_render(decoder,
                              &(struct image_view){.pipeline = &all, .draw = draw, .dst = pixels},
                              &plain, &(struct image_file){m.bytes, m.len / 2}, &err),
                 -EBADMSG));
    cr_expect(strstr(err.text, "the JPEG file is cut off: it ends after ") == err.text, "%s",
              err.text);
    cr_expect(eq(int,
                 image_verify(decoder, &(struct image_file){m.bytes, m.len * 3 / 4}, &info, &err),
                 -EBADMSG));
    cr_expect(strstr(err.text, "the JPEG file is cut off: it ends after ") == err.text, "%s",
              err.text);
    cr_expect(eq(u32, info.width, 64));
    cr_expect(eq(int, image_verify(decoder, &(struct image_file){m.bytes, m.len}, &info, &err), 0));
    cr_expect(eq(u32, info.height, 256));
    cr_expect(strcmp(info.format, "JPEG") == 0);
    image_decoder_destroy(decoder);
    free(m.bytes);
}
