/* SPDX-License-Identifier: MIT */
/* Compares every kind of WebP with the oracle and with libwebp's simplest call; tests damaged
 * WebPs. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>

#ifdef HAVE_WEBP
#include <webp/decode.h>
#endif

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

#ifdef HAVE_WEBP
Test(webp, every_kind_equals_the_oracle)
{
    static const uint32_t sizes[][2] = {{1, 1}, {2, 3}, {3, 200}, {45, 37}, {64, 65}, {200, 150}};
    static const char *const pipelines[] = {
        "rrc(16)",
        "exif rrc(9x20,scale=0.01:1,ratio=1/4:4) flip(0.5)",
        "exif resize(20) center_crop(16)",
        "rrc(12,scale=0.001:0.1,ratio=1/4:4)",
        "pad(3,reflect) random_crop(7x5)",
        NULL,
    };
    struct image_decoder *decoder;
    char why[300];

    cr_assert(eq(int, image_decoder_create(&decoder), 0));
    for (size_t i = 0; i < made_webps_count * ARRAY_LEN(sizes); i++) {
        struct made_webp spec = made_webps[i % made_webps_count];
        struct made m;

        spec.width = sizes[i / made_webps_count][0];
        spec.height = sizes[i / made_webps_count][1];
        m = make_webp(&spec);
        cr_assert(oracle_agrees_in_all(decoder, pipelines, 8, i, &m, why), "%s %ux%u, %s",
                  spec.name, spec.width, spec.height, why);
        free(m.bytes);
    }
    image_decoder_destroy(decoder);
}

/* Decode a file with libwebp's simplest call; of an animation, decode the frame. Returns
 * [height][width][4]. */
static uint8_t *whole(const struct made_webp *spec, uint32_t *width, uint32_t *height)
{
    struct made_webp still = *spec;
    uint32_t left = spec->animated ? spec->left : 0, top = spec->animated ? spec->top : 0;
    uint8_t *rgba, *canvas;
    struct made m;
    int w, h;

    still.animated = false;
    still.left = still.top = still.more_right = still.more_below = 0;
    m = make_webp(&still);
    rgba = WebPDecodeRGBA(m.bytes, m.len, &w, &h);
    cr_assert(rgba != NULL);
    *width = left + (uint32_t)w + (spec->animated ? spec->more_right : 0);
    *height = top + (uint32_t)h + (spec->animated ? spec->more_below : 0);
    canvas = calloc((size_t)*width * *height, 4);
    for (uint32_t y = 0; y < (uint32_t)h; y++)
        memcpy(canvas + ((size_t)(top + y) * *width + left) * 4, rgba + (size_t)y * (uint32_t)w * 4,
               (size_t)w * 4);
    WebPFree(rgba);
    free(m.bytes);
    return canvas;
}

static void expect_region(struct image_reader *reader, const struct made_webp *spec,
                          const struct made *m, const struct rect *region, const uint8_t *want,
                          uint32_t width)
{
    struct image_header header;
    struct plenum_error err = {""};
    struct image_rows rows;

    cr_assert(eq(int, reader->ops->open(reader, m->bytes, m->len, &header, &err), 0), "%s",
              err.text);
    cr_assert(eq(int, reader->ops->seek(reader, region, &err), 0), "%s", err.text);
    for (uint32_t y = 0; y < region->height; y += rows.count) {
        cr_assert(eq(int, reader->ops->read(reader, &rows, &err), 0));
        for (uint32_t i = 0; i < rows.count * region->width; i++) {
            uint32_t row = i / region->width, column = i % region->width;
            const uint8_t *pixel =
                want + ((size_t)(region->top + y + row) * width + region->left + column) * 4;

            cr_assert(memcmp(rows.pixels + row * rows.pitch + (size_t)column * 4, pixel, 3) == 0,
                      "%s: pixel %u, %u of the part of %ux%u at %u, %u", spec->name, column,
                      y + row, region->width, region->height, region->left, region->top);
        }
    }
    reader->ops->close(reader);
}

/* The reader may decode only a part because the pixels of any part equal those of the whole. */
Test(webp, a_part_has_the_pixels_of_the_whole, .timeout = 600)
{
    static const uint32_t sizes[][2] = {{1, 1}, {16, 16}, {47, 66}, {130, 81}};
    struct image_reader *reader;

    cr_assert(eq(int, webp_reader_create(&reader), 0));
    for (uint32_t i = 0; i < made_webps_count * ARRAY_LEN(sizes); i++) {
        struct made_webp spec = made_webps[i % made_webps_count];
        uint32_t width, height;
        uint8_t *want;
        struct made m;

        spec.width = sizes[i / made_webps_count][0];
        spec.height = sizes[i / made_webps_count][1];
        m = make_webp(&spec);
        want = whole(&spec, &width, &height);
        for (uint32_t k = 0; k < 100; k++) {
            struct philox_block d = philox_draw(11, i, k, DRAW_SEED, 0);
            struct rect region = {.left = philox_below(d.word[0], width),
                                  .top = philox_below(d.word[1], height)};

            region.width = 1 + philox_below(d.word[2], width - region.left);
            region.height = 1 + philox_below(d.word[3], height - region.top);
            if (k == 0)
                region = (struct rect){0, 0, width, height};
            expect_region(reader, &spec, &m, &region, want, width);
        }
        free(want);
        free(m.bytes);
    }
    reader->ops->destroy(reader);
}

/* Check one pixel of a lossless file: alpha is dropped, and the colours of transparent pixels are
 * kept. */
Test(webp, a_pixel_by_hand)
{
    struct made_webp spec = {.width = 1, .height = 1, .lossless = true, .alpha = true};
    struct pipeline p = parse("resize(1) center_crop(1)");
    struct image_draw draw = {0};
    struct image_decoder *decoder;
    uint32_t clear = 0;

    cr_assert(eq(int, image_decoder_create(&decoder), 0));
    for (spec.seed = 0; spec.seed < 40; spec.seed++) {
        uint8_t got[3], want[4];
        struct made m = make_webp(&spec);

        made_webp_pixel(&spec, 0, 0, want);
        clear += want[3] == 0;
        cr_assert(
            eq(int,
               image_render(decoder, &(struct image_view){.pipeline = &p, .draw = draw, .dst = got},
                            &plain, &(struct image_file){m.bytes, m.len}, NULL),
               0));
        cr_expect(memcmp(got, want, 3) == 0, "seed %u", spec.seed);
        free(m.bytes);
    }
    cr_expect(clear > 0);
    image_decoder_destroy(decoder);
}

/* Around the first frame the canvas is black, whatever background colour the file has. */
Test(webp, the_area_outside_the_first_frame_is_black)
{
    struct made_webp spec = {.width = 4,
                             .height = 6,
                             .lossless = true,
                             .animated = true,
                             .left = 2,
                             .top = 4,
                             .more_right = 3,
                             .more_below = 1};
    struct pipeline p = parse("resize(11x9)");
    struct image_draw draw = {0};
    struct image_decoder *decoder;
    struct made m = make_webp(&spec);
    uint8_t got[11][9][3];

    cr_assert(eq(int, image_decoder_create(&decoder), 0));
    cr_assert(
        eq(int,
           image_render(decoder, &(struct image_view){.pipeline = &p, .draw = draw, .dst = got},
                        &plain, &(struct image_file){m.bytes, m.len}, NULL),
           0));
    for (uint32_t y = 0; y < 11; y++)
        for (uint32_t x = 0; x < 9; x++) {
            uint8_t want[4] = {0};

            if (x >= 2 && x < 6 && y >= 4 && y < 10)
                made_webp_pixel(&spec, x - 2, y - 4, want);
            cr_expect(memcmp(got[y][x], want, 3) == 0, "pixel %u, %u", x, y);
        }
    free(m.bytes);
    image_decoder_destroy(decoder);
}

Test(webp, exif_is_reported_for_extended_files)
{
    struct image_decoder *decoder;

    cr_assert(eq(int, image_decoder_create(&decoder), 0));
    for (int i = 0; i < 4 * 10; i++) {
        struct made_webp spec = {.width = 7, .height = 5, .lossless = i % 2, .orientation = i / 4};
        struct image_info info;
        struct made m;

        spec.exif_has_mark = i / 2 % 2;
        m = make_webp(&spec);
        cr_assert(
            eq(int, image_verify(decoder, &(struct image_file){m.bytes, m.len}, &info, NULL), 0));
        cr_expect(eq(str, (char *)info.format, "WebP"));
        cr_expect(eq(u32, info.width, 7));
        cr_expect(eq(u8, info.orientation, i / 4 < 1 || i / 4 > 8 ? 1 : (uint8_t)(i / 4)));
        if (spec.orientation) { /* without the flag, EXIF is ignored */
            m.bytes[20] = 0;
            cr_assert(eq(
                int, image_verify(decoder, &(struct image_file){m.bytes, m.len}, &info, NULL), 0));
            cr_expect(eq(u8, info.orientation, 1));
        }
        free(m.bytes);
    }
    image_decoder_destroy(decoder);
}

Test(webp, cut_off_at_every_byte, .timeout = 600)
{
    struct pipeline p = parse("rrc(8,scale=0.05:0.3)");
    struct image_decoder *decoder;
    char why[200];

    cr_assert(eq(int, image_decoder_create(&decoder), 0));
    for (uint32_t k = 0; k < made_webps_count; k++) {
        struct made_webp spec = made_webps[k];
        struct made m;

        spec.width = 20;
        spec.height = 34;
        m = make_webp(&spec);
        for (size_t len = 0; len < m.len; len++) {
            struct image_draw draw = {.seed = 4, .position = (uint32_t)len};
            struct plenum_error err;
            int r;

            cr_assert(oracle_agrees(decoder, &(struct rendering){&p, &draw, &plain, m.bytes, len},
                                    why, &r, &err),
                      "%s, %zu of %zu bytes: %s", spec.name, len, m.len, why);
            cr_expect(eq(int, r, -EBADMSG));
            if (len >= 12)
                cr_expect(strncmp(err.text, "the WebP file is cut off: it ends after ", 40) == 0);
        }
        free(m.bytes);
    }
    image_decoder_destroy(decoder);
}

/* The sizes of the chunks are reduced to match. Rows before the end may be shown, and are
 * unchanged. */
Test(webp, cut_off_within_the_image, .timeout = 600)
{
    struct pipeline p = parse("rrc(8,scale=0.05:0.3)");
    struct image_decoder *decoder;
    uint32_t good = 0, bad = 0;
    char why[200];

    cr_assert(eq(int, image_decoder_create(&decoder), 0));
    for (int lossless = 0; lossless < 2; lossless++) {
        struct made_webp spec = {.width = 50, .height = 100, .lossless = lossless, .filter = 2};
        struct made m = make_webp(&spec);

        for (uint32_t cut = 0; cut + 20 < m.len; cut += 1 + (uint32_t)m.len / 800) {
            struct image_draw draw = {.seed = 4, .position = cut};
            uint32_t size = (uint32_t)m.len - 20 - cut, riff = size + 12;
            int r;

            for (int i = 0; i < 4; i++) {
                m.bytes[4 + i] = (uint8_t)(riff >> 8 * i);
                m.bytes[16 + i] = (uint8_t)(size >> 8 * i);
            }
            cr_assert(oracle_agrees(decoder,
                                    &(struct rendering){&p, &draw, &plain, m.bytes, 20 + size}, why,
                                    &r, NULL),
                      "%s, %u bytes less: %s", lossless ? "lossless" : "lossy", cut, why);
            good += r == 0;
            bad += r < 0;
        }
        free(m.bytes);
    }
    cr_expect(good > 100 && bad > 100, "%u, %u", good, bad);
    image_decoder_destroy(decoder);
}

Test(webp, damaged_anywhere, .timeout = 600)
{
    struct pipeline p = parse("exif rrc(8,scale=0.05:0.3)");
    struct image_decoder *decoder;
    struct damage d = {.pipeline = &p, .count = 600, .head = 100, .head_of = 3};
    char why[300];

    cr_assert(eq(int, image_decoder_create(&decoder), 0));
    for (uint32_t k = 0; k < made_webps_count; k++) {
        struct made_webp spec = made_webps[k];
        struct made m;

        spec.width = 40;
        spec.height = 50;
        m = make_webp(&spec);
        d.file = &m;
        d.key = k;
        cr_assert(oracle_agrees_on_damage(decoder, &d, why), "%s, %s", spec.name, why);
        free(m.bytes);
    }
    image_decoder_destroy(decoder);
}

struct canvas_case {
    char why[40];
    bool animated;
    uint32_t left, top, more_right, more_below; /* the frame, as in the file's header */
    uint32_t canvas_width, canvas_height;       /* the size in the header */
    char sentence[60];
};

ParameterizedTestParameters(webp, headers)
{
    static struct canvas_case cases[] = {
        {"a frame beyond the canvas", true, 4, 0, .canvas_width = 43, .canvas_height = 50,
         .sentence = "its first frame lies outside the image"},
        {"a canvas too small", false, .canvas_width = 39, .canvas_height = 50,
         .sentence = "its image does not have the size"},
        {"a canvas too large", false, .canvas_width = 40, .canvas_height = 51,
         .sentence = "its image does not have the size"},
        {"a side over the limit", true, .canvas_width = IMAGE_SIDE_MAX + 1, .canvas_height = 50,
         .sentence = "are more than the limit of"},
        {"pixels over the limit", true, .canvas_width = 1 << 14, .canvas_height = (1 << 13) + 1,
         .sentence = "are more than the limit of"},
        {"as many as the limit", true, .canvas_width = 1 << 14, .canvas_height = 1 << 13},
    };
    return cr_make_param_array(struct canvas_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct canvas_case *c, webp, headers, .timeout = 600)
{
    struct made_webp spec = {.width = 40,
                             .height = 50,
                             .animated = c->animated,
                             .left = c->left,
                             .top = c->top,
                             .orientation = 1};
    struct pipeline p = parse("resize(8x8)");
    struct image_draw draw = {0};
    struct image_decoder *decoder;
    struct plenum_error err = {""};
    struct made m = make_webp(&spec);
    uint8_t got[8 * 8 * 3];
    int r;

    for (int i = 0; i < 3; i++) {
        m.bytes[24 + i] = (uint8_t)((c->canvas_width - 1) >> 8 * i);
        m.bytes[27 + i] = (uint8_t)((c->canvas_height - 1) >> 8 * i);
    }
    cr_assert(eq(int, image_decoder_create(&decoder), 0));
    r = image_render(decoder, &(struct image_view){.pipeline = &p, .draw = draw, .dst = got},
                     &plain, &(struct image_file){m.bytes, m.len}, &err);
    cr_expect(eq(int, r, c->sentence[0] ? -EBADMSG : 0), "%s: %s", c->why, err.text);
    cr_expect(strstr(err.text, c->sentence) != NULL, "%s: %s", c->why, err.text);
    free(m.bytes);
    image_decoder_destroy(decoder);
}

Test(webp, a_header_over_the_limit)
{
    struct made_webp spec = {.width = 4, .height = 4, .orientation = 1};
    struct made m = make_webp(&spec);
    struct image_decoder *decoder;
    struct plenum_error err = {""};
    size_t head = 30, more = IMAGE_HEADER_MAX;

    cr_assert(eq(int, image_decoder_create(&decoder), 0));
    for (int over = 0; over < 2; over++) {
        /* Insert a chunk of any name, so that the image's data begin at the limit, or after it. */
        uint32_t junk = (uint32_t)(more - head - 16) + 2 * (uint32_t)over;
        size_t len = m.len + 8 + junk;
        uint8_t *bytes = calloc(1, len);
        uint32_t riff = (uint32_t)len - 8;

        memcpy(bytes, m.bytes, head);
        memcpy(bytes + head, "JUNK", 4);
        for (int i = 0; i < 4; i++) {
            bytes[4 + i] = (uint8_t)(riff >> 8 * i);
            bytes[head + 4 + i] = (uint8_t)(junk >> 8 * i);
        }
        memcpy(bytes + head + 8 + junk, m.bytes + head, m.len - head);
        cr_expect(eq(int, image_verify(decoder, &(struct image_file){bytes, len}, NULL, &err),
                     over ? -EBADMSG : 0));
        if (over)
            cr_expect(strstr(err.text, "bytes, more than the limit of") != NULL, "%s", err.text);
        free(bytes);
    }
    free(m.bytes);
    image_decoder_destroy(decoder);
}
#else
Test(webp, without_the_library_it_is_not_a_bad_image)
{
    static const uint8_t bytes[] = "RIFF\x10\0\0\0WEBPVP8L\4\0\0\0....";
    struct image_decoder *decoder;
    struct plenum_error err = {""};
    struct pipeline p = parse("resize(1x1)");
    struct image_draw draw = {0};
    uint8_t got[3];

    cr_assert(eq(int, image_decoder_create(&decoder), 0));
    cr_expect(
        eq(int,
           image_render(decoder, &(struct image_view){.pipeline = &p, .draw = draw, .dst = got},
                        &plain, &(struct image_file){bytes, sizeof(bytes) - 1}, &err),
           -ENOTSUP));
    cr_expect(strstr(err.text, "built without libwebp: install libwebp-dev") != NULL, "%s",
              err.text);
    cr_expect(eq(int,
                 image_verify(decoder, &(struct image_file){bytes, sizeof(bytes) - 1}, NULL, &err),
                 -ENOTSUP));
    image_decoder_destroy(decoder);
}
#endif
