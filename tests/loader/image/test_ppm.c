/* SPDX-License-Identifier: MIT */
/* Tests raw pixels (PPM and PGM): compares them with the oracle, and reads headers of every form
 * and damaged files. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>

#include "common/order/philox.h"
#include "common/util/util.h"
#include "loader/image/image.h"
#include "loader/image/limits.h"
#include "loader/image/ppm.h"
#include "loader/image/reader.h"
#include "loader/image/resize/resize.h"
#include "tests/loader/image/agree.h"
#include "tests/loader/image/made.h"

static const struct image_store plain = {PLENUM_UINT8, PLENUM_NHWC, 3};
static struct image_decoder *decoder;

static void setup(void)
{
    cr_assert(eq(int, image_decoder_create(&decoder), 0));
}

static void teardown(void)
{
    image_decoder_destroy(decoder);
}

TestSuite(ppm, .init = setup, .fini = teardown);

static struct pipeline parse(const char *text)
{
    struct pipeline p;

    cr_assert(eq(int, pipeline_parse(text, &p, NULL), 0), "%s", text);
    return p;
}

/* Use all sets of loops. */
Test(ppm, every_kind_equals_the_oracle)
{
    static const uint32_t sizes[][2] = {{1, 1},  {1, 2},   {1, 50},  {2, 3},    {3, 200},
                                        {45, 1}, {45, 37}, {64, 65}, {200, 150}};
    static const char *const pipelines[] = {
        "rrc(16)",
        "exif rrc(9x20,scale=0.01:1,ratio=1/4:4) flip(0.5)",
        "exif resize(20) center_crop(16)",
        "rrc(12,scale=0.001:0.1,ratio=1/4:4,interpolation=bicubic)",
        "pad(3,reflect) random_crop(7x5)",
        "pad(6,fill=9) random_crop(40x33) flip(0.5)",
        "exif pad(0) random_crop(20) flip(0.5) vertical_flip(0.5)",
        "pad(30,edge) random_crop(10x40) flip(0.5) solarize(99, p=0.5)",
        "resize(40x60,interpolation=lanczos)",
        NULL,
    };
    char why[300];

    for (size_t i = 0; i < made_ppms_count * ARRAY_LEN(sizes); i++) {
        struct made_ppm spec = made_ppms[i % made_ppms_count];
        struct made m;

        spec.width = sizes[i / made_ppms_count][0];
        spec.height = sizes[i / made_ppms_count][1];
        m = make_ppm(&spec);
        cr_assert(oracle_agrees_in_all(decoder, pipelines, 8, i, &m, why), "%s %ux%u, %s",
                  spec.name, spec.width, spec.height, why);
        free(m.bytes);
    }
}

/* Any part has the rows of the whole file. The resize reads RESIZE_BEHIND bytes past a row, so they
 * must exist. The file's copy in memory has exactly its size, so that sanitizers report an access
 * beyond it. */
Test(ppm, a_part_has_the_pixels_of_the_whole)
{
    static const uint32_t sizes[][2] = {{1, 1}, {1, 9}, {2, 2}, {16, 16}, {47, 66}};
    struct image_reader *reader;
    uint32_t read_behind = 0;

    cr_assert(eq(int, ppm_reader_create(&reader), 0));
    for (uint32_t i = 0; i < 200 * ARRAY_LEN(sizes); i++) {
        struct philox_block d = philox_draw(11, i, 0, DRAW_SEED, 0);
        struct made_ppm spec = {.grey = i % 3 == 0};
        uint32_t width = sizes[i % ARRAY_LEN(sizes)][0], height = sizes[i % ARRAY_LEN(sizes)][1];
        struct rect region = {.left = philox_below(d.word[0], width),
                              .top = philox_below(d.word[1], height)};
        size_t samples = spec.grey ? 1 : 3;
        struct image_header header;
        struct image_rows rows;
        const uint8_t *pixels;
        struct made m;

        region.width = 1 + philox_below(d.word[2], width - region.left);
        region.height = 1 + philox_below(d.word[3], height - region.top);
        spec.width = width;
        spec.height = height;
        m = make_ppm(&spec);
        pixels = m.bytes + m.len - width * height * samples;
        cr_assert(eq(int, reader->ops->open(reader, m.bytes, m.len, &header, NULL), 0));
        cr_assert(eq(int, header.rgb, !spec.grey));
        cr_assert(eq(int, reader->ops->seek(reader, &region, NULL), 0));
        for (uint32_t y = 0; y < region.height; y += rows.count) {
            cr_assert(eq(int, reader->ops->read(reader, &rows, NULL), 0));
            cr_assert(rows.count > 0 && rows.count <= region.height - y);
            for (uint32_t k = 0; k < rows.count * region.width; k++) {
                const uint8_t *want = pixels + ((region.top + y + k / region.width) * width +
                                                region.left + k % region.width) *
                                                   samples;
                const uint8_t *got = rows.pixels + k / region.width * rows.pitch +
                                     k % region.width * image_pixel_bytes(&header);

                for (uint32_t c = 0; c < 3; c++)
                    cr_assert(eq(u8, got[c], want[spec.grey ? 0 : c]));
            }
            for (uint32_t k = 0; !spec.grey && k < rows.count * RESIZE_BEHIND; k++)
                read_behind += rows.pixels[k / RESIZE_BEHIND * rows.pitch + 3 * region.width +
                                           k % RESIZE_BEHIND] > 0;
        }
        reader->ops->close(reader);
        free(m.bytes);
    }
    cr_expect(read_behind > 0);
    reader->ops->destroy(reader);
}

/* --- headers --- */

struct header_case {
    char header[96]; /* six bytes of pixels follow */
    uint32_t width, height;
    uint8_t orientation;
    char sentence[100]; /* "": the file is good */
};

ParameterizedTestParameters(ppm, headers)
{
    static struct header_case cases[] = {
        {"P6\n2 1\n255\n", 2, 1, 1, ""},
        {"P6 2 1 255 ", 2, 1, 1, ""},
        {"P6\t2\v1\f255\r", 2, 1, 1, ""},
        {"P6\r\n2 1\r\n255\n", 2, 1, 1, ""},
        {"P6\n\n  1   2\n\n\t255\n", 1, 2, 1, ""},
        {"P6\n# a comment\n2 1\n255\n", 2, 1, 1, ""},
        {"P6\n#\n#\n2 #1\n1 # 255\r255\n", 2, 1, 1, ""},
        {"P6\n0000000002 01\n0255\n", 2, 1, 1, ""},
        {"P5\n2 3\n255\n", 2, 3, 1, ""},
        {"P5\n6 1 # one row\n255\n", 6, 1, 1, ""},
        /* orientation */
        {"P6\n# EXIF orientation 6\n2 1\n255\n", 2, 1, 6, ""},
        {"P6\n2 1\n# EXIF orientation 8\r255\n", 2, 1, 8, ""},
        {"P6\n# EXIF orientation 3\n# EXIF orientation 2\n2 1\n255\n", 2, 1, 2, ""},
        {"P5\n# EXIF orientation 1\n2 3\n255\n", 2, 3, 1, ""},
        {"P6\n# EXIF orientation 9\n2 1\n255\n", 2, 1, 1, ""},
        {"P6\n# EXIF orientation 0\n2 1\n255\n", 2, 1, 1, ""},
        {"P6\n# EXIF orientation 6 \n2 1\n255\n", 2, 1, 1, ""},
        {"P6\n# EXIF orientation 66\n2 1\n255\n", 2, 1, 1, ""},
        {"P6\n#EXIF orientation 6\n2 1\n255\n", 2, 1, 1, ""},
        {"P6\n# EXIF orientation \n2 1\n255\n", 2, 1, 1, ""},
        /* bad headers */
        {"P6\n2 1\n255", 0, 0, 1, "the PPM header is damaged: its largest value is not a number"},
        {"P6\n2 1\n255#\n", 0, 0, 1,
         "the PPM header is damaged: its largest value is not a number"},
        {"P6\n2#\n1\n255\n", 0, 0, 1, "the PPM header is damaged: its width is not a number"},
        {"P6\n2 -1\n255\n", 0, 0, 1, "the PPM header is damaged: its height is not a number"},
        {"P6\n+2 1\n255\n", 0, 0, 1, "the PPM header is damaged: its width is not a number"},
        {"P6\n2.0 1\n255\n", 0, 0, 1, "the PPM header is damaged: its width is not a number"},
        {"P6\n0x2 1\n255\n", 0, 0, 1, "the PPM header is damaged: its width is not a number"},
        {"P6\n00000000002 1\n255\n", 0, 0, 1,
         "the PPM header is damaged: its width is not a number"},
        {"P6\n2 1\n", 0, 0, 1, "the PPM header is damaged: its largest value is not a number"},
        {"P6\n0 1\n255\n", 0, 0, 1, "the PPM header is damaged: it gives 0x1 pixels"},
        {"P6\n2 0\n255\n", 0, 0, 1, "the PPM header is damaged: it gives 2x0 pixels"},
        {"P6\n2 1\n254\n", 0, 0, 1,
         "the largest value of the PPM is 254, but only 255 is supported"},
        {"P6\n2 1\n1\n", 0, 0, 1, "the largest value of the PPM is 1, but only 255 is supported"},
        {"P5\n1 3\n65535\n", 0, 0, 1,
         "the largest value of the PGM is 65535, but only 255 is supported"},
        {"P6\n2 1\n0\n", 0, 0, 1, "the largest value of the PPM is 0, but only 255 is supported"},
        {"P6\n9999999999 1\n255\n", 0, 0, 1,
         "4294967295x1 pixels are more than the limit of 134217728, or 65500 on a side"},
        {"P6\n65501 1\n255\n", 0, 0, 1,
         "65501x1 pixels are more than the limit of 134217728, or 65500 on a side"},
        {"P6\n65500 65500\n255\n", 0, 0, 1,
         "65500x65500 pixels are more than the limit of 134217728, or 65500 on a side"},
        {"P6\n3 1\n255\n", 0, 0, 1, "the PPM file is cut off: it ends after 17 bytes"},
        {"P5\n1 7\n255\n", 0, 0, 1, "the PGM file is cut off: it ends after 17 bytes"},
        {"P6\n1 1\n255\n", 0, 0, 1,
         "the PPM header is damaged, or this is more than one image: 3 bytes follow its 1x1 "
         "pixels"},
        {"P5\n5 1\n255\n", 0, 0, 1,
         "the PGM header is damaged, or this is more than one image: 1 bytes follow its 5x1 "
         "pixels"},
        {"P6\n# without an end", 0, 0, 1, "the PPM file ends in its header"},
    };
    return cr_make_param_array(struct header_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct header_case *c, ppm, headers)
{
    struct pipeline p = parse("resize(1x1)");
    struct image_draw draw = {0};
    struct plenum_error err = {""};
    struct image_info info;
    uint8_t bytes[128];
    size_t len = strlen(c->header);
    char why[200];
    int r;

    memcpy(bytes, c->header, len);
    memcpy(bytes + len, "\x80\x90\xA0\xB0\xC0\xD0", 6);
    cr_assert(oracle_agrees(decoder, &(struct rendering){&p, &draw, &plain, bytes, len + 6}, why,
                            &r, &err),
              "%s", why);
    cr_expect(eq(int, r, c->sentence[0] ? -EBADMSG : 0), "%s: %s", c->header, err.text);
    cr_expect(strcmp(err.text, c->sentence) == 0, "'%s' instead of '%s'", err.text, c->sentence);
    if (r < 0)
        return;
    cr_assert(eq(int, image_verify(decoder, &(struct image_file){bytes, len + 6}, &info, NULL), 0));
    cr_expect(eq(str, (char *)info.format, "PPM"));
    cr_expect(eq(u32, info.width, c->width), "%s", c->header);
    cr_expect(eq(u32, info.height, c->height), "%s", c->header);
    cr_expect(eq(u8, info.orientation, c->orientation), "%s", c->header);
}

/* The other formats of the family are rejected. */
Test(ppm, other_formats_are_rejected)
{
    static const char *const heads[] = {"P1\n1 1\n1", "P2\n1 1\n255\n9", "P3\n1 1\n255\n1 2 3",
                                        "P4\n8 1\nx", "P7\nWIDTH 1\n",   "Pf\n1 1\n-1\n"};
    struct pipeline p = parse("resize(1x1)");
    struct image_draw draw = {0};
    uint8_t got[3];

    for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
        struct plenum_error err = {""};
        const char *want;

        cr_expect(eq(
            int,
            image_render(decoder, &(struct image_view){.pipeline = &p, .draw = draw, .dst = got},
                         &plain, &(struct image_file){(const uint8_t *)heads[i], strlen(heads[i])},
                         &err),
            -EBADMSG));
        want = i < 3 ? "a PNM image in text form (P" : "JPEG, PNG, WebP";
        cr_expect(strstr(err.text, want) != NULL, "%s: %s", heads[i], err.text);
    }
}

Test(ppm, truncated_or_longer_by_any_byte)
{
    struct pipeline p = parse("exif rrc(8,scale=0.05:0.3)");
    char why[200];

    for (uint32_t k = 0; k < made_ppms_count; k++) {
        struct made_ppm spec = made_ppms[k];
        struct made m;
        uint8_t *longer;

        spec.width = 7;
        spec.height = 9;
        m = make_ppm(&spec);
        longer = malloc(m.len + 30);
        memcpy(longer, m.bytes, m.len);
        memset(longer + m.len, '\n', 30);
        for (size_t len = 0; len < m.len + 30; len++) {
            struct image_draw draw = {.seed = 4, .position = (uint32_t)len};
            int r;

            cr_assert(oracle_agrees(decoder, &(struct rendering){&p, &draw, &plain, longer, len},
                                    why, &r, NULL),
                      "%s, %zu of %zu bytes: %s", spec.name, len, m.len, why);
            cr_expect(eq(int, r, len == m.len ? 0 : -EBADMSG), "%zu of %zu", len, m.len);
        }
        free(longer);
        free(m.bytes);
    }
}

Test(ppm, damaged_anywhere_in_the_header)
{
    struct pipeline p = parse("exif rrc(8)");
    uint32_t good = 0, bad = 0;
    char why[200];

    for (uint32_t k = 0; k < made_ppms_count; k++) {
        struct made_ppm spec = made_ppms[k];
        struct made m;
        size_t head;

        spec.width = 20;
        spec.height = 24;
        m = make_ppm(&spec);
        head = m.len - 20 * 24 * (spec.grey ? 1 : 3);
        for (size_t i = 0; i < head * 256; i++) {
            uint8_t was = m.bytes[i / 256];
            struct image_draw draw = {.seed = i};
            int r;

            m.bytes[i / 256] = (uint8_t)i;
            cr_assert(oracle_agrees(decoder, &(struct rendering){&p, &draw, &plain, m.bytes, m.len},
                                    why, &r, NULL),
                      "%s, byte %zu is %d: %s", spec.name, i / 256, (int)(i % 256), why);
            m.bytes[i / 256] = was;
            good += r == 0;
            bad += r < 0;
        }
        free(m.bytes);
    }
    cr_expect(good > 1000 && bad > 1000, "%u, %u", good, bad);
}

Test(ppm, a_header_over_the_limit)
{
    const char *tail = "\n1 1\n255\n";
    size_t tail_len = strlen(tail);

    for (size_t over = 0; over < 2; over++) {
        size_t head = IMAGE_HEADER_MAX + over, len = head + 3;
        uint8_t *bytes = malloc(len);
        struct plenum_error err = {""};

        memset(bytes, '#', len);
        memcpy(bytes, "P6\n", 3);
        memcpy(bytes + head - tail_len, tail, tail_len);
        cr_expect(eq(int, image_verify(decoder, &(struct image_file){bytes, len}, NULL, &err),
                     over ? -EBADMSG : 0));
        if (over)
            cr_expect(strstr(err.text, "the PPM header has 16777217 bytes, more than the limit") !=
                          NULL,
                      "%s", err.text);
        free(bytes);
    }
}

/* Headers that we write can be read. */
Test(ppm, headers_that_are_written)
{
    static const char first[] = "P6\n64 3\n255\n", turned[] = "P6\n# EXIF orientation 5\n";
    char header[PPM_HEADER_MAX];

    for (uint8_t o = 1; o <= 8; o++) {
        uint32_t width = o == 1 ? 64 : IMAGE_SIDE_MAX, height = 3;
        size_t n = ppm_write_header(width, height, o, header);
        size_t len = n + (size_t)width * height * 3;
        uint8_t *bytes = calloc(1, len);
        struct image_info info;

        if (o == 1)
            cr_expect(n == strlen(first) && memcmp(header, first, n) == 0);
        if (o == 5)
            cr_expect(memcmp(header, turned, strlen(turned)) == 0);
        memcpy(bytes, header, n);
        cr_assert(eq(int, image_verify(decoder, &(struct image_file){bytes, len}, &info, NULL), 0));
        cr_expect(eq(u32, info.width, width));
        cr_expect(eq(u32, info.height, height));
        cr_expect(eq(u8, info.orientation, o));
        free(bytes);
    }
}
