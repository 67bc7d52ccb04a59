/* SPDX-License-Identifier: MIT */
/* Checks that files copied in text mode are bad, and that the error names the reason, with or
 * without junk in the pipeline. An error advises junk only if the file then decodes. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/data/text_mode.h"
#include "common/order/philox.h"
#include "common/util/util.h"
#include "loader/image/image.h"
#include "loader/image/reader.h"
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

TestSuite(text_mode, .init = setup, .fini = teardown, .timeout = 600);

/* Convert as unix2dos does. If `sparing`, an LF after a CR gets no second CR. */
static struct made add_crs(const struct made *m, bool sparing)
{
    struct made ret = {malloc(2 * m->len), 0};

    for (size_t i = 0; i < m->len; i++) {
        if (m->bytes[i] == '\n' && !(sparing && i > 0 && m->bytes[i - 1] == '\r'))
            ret.bytes[ret.len++] = '\r';
        ret.bytes[ret.len++] = m->bytes[i];
    }
    return ret;
}

static struct made drop_crs(const struct made *m)
{
    struct made ret = {malloc(m->len), 0};

    for (size_t i = 0; i < m->len; i++)
        if (m->bytes[i] != '\r' || i + 1 == m->len || m->bytes[i + 1] != '\n')
            ret.bytes[ret.len++] = m->bytes[i];
    return ret;
}

static struct made strip_crs(const struct made *m)
{
    struct made ret = {malloc(m->len), 0};

    for (size_t i = 0; i < m->len; i++)
        if (m->bytes[i] != '\r')
            ret.bytes[ret.len++] = m->bytes[i];
    return ret;
}

static int render(const char *text, const struct made *m, struct plenum_error *err)
{
    struct image_draw draw = {.seed = 1};
    uint8_t pixels[16 * 16 * 3];
    struct pipeline p;

    *err = (struct plenum_error){""};
    cr_assert(eq(int, pipeline_parse(text, &p, err), 0), "%s", err->text);
    return image_render(decoder, &(struct image_view){.pipeline = &p, .draw = draw, .dst = pixels},
                        &plain, &(struct image_file){m->bytes, m->len}, err);
}

/* Expect the same message without junk, with junk, and from image_verify(). */
static void expect_sentence(const struct made *m, const char *want, const char *what)
{
    struct plenum_error err;

    cr_expect(eq(int, render("resize(16x16)", m, &err), -EBADMSG), "%s", what);
    cr_expect(strstr(err.text, want) != NULL, "%s: %s", what, err.text);
    cr_expect(eq(int, render("junk resize(16x16)", m, &err), -EBADMSG), "%s", what);
    cr_expect(strstr(err.text, want) != NULL, "%s with junk: %s", what, err.text);
    cr_expect(eq(int, image_verify(decoder, &(struct image_file){m->bytes, m->len}, NULL, &err),
                 -EBADMSG),
              "%s", what);
    cr_expect(strstr(err.text, want) != NULL, "%s by verify: %s", what, err.text);
}

static const char added[] = "it was copied in text mode (each LF became CR LF): copy it again";
static const char probably[] =
    "the file was probably copied in text mode (each CR LF became LF): copy it again";
static const char stripped[] = "it was copied in text mode (each CR was removed): copy it again";
static const char removed[] = "it was copied in text mode (each CR LF became LF): copy it again";

Test(text_mode, every_damaged_jpeg_names_the_reason)
{
    uint32_t judged = 0;

    for (uint32_t i = 0; i < 60; i++) {
        struct made_jpeg spec = made_kinds[i % made_kinds_count];
        struct plenum_error err;
        struct made m, changed;

        spec.width = 150 + i;
        spec.height = 120;
        spec.seed = i;
        m = make_jpeg(&spec);
        if (render("resize(16x16)", &m, &err) == 0) {
            changed = add_crs(&m, i % 2);
            expect_sentence(&changed, added, spec.name);
            free(changed.bytes);
            judged++;
        }
        free(m.bytes);
    }
    cr_expect(judged > 30, "%u", judged);
}

Test(text_mode, a_png_shows_it_in_its_signature)
{
    struct made_png spec = {.width = 60, .height = 50, .colour_type = 2, .depth = 8};
    struct made m = make_png(&spec), changed;

    changed = add_crs(&m, false);
    expect_sentence(&changed, added, "each LF");
    free(changed.bytes);
    changed = add_crs(&m, true);
    expect_sentence(&changed, added, "each bare LF");
    free(changed.bytes);
    changed = drop_crs(&m);
    expect_sentence(&changed, removed, "each CR LF");
    free(changed.bytes);
    free(m.bytes);
}

Test(text_mode, raw_pixels_show_it_in_their_length)
{
    struct made_ppm spec = made_ppms[0];
    struct made m, changed;

    spec.width = spec.height = 64;
    m = make_ppm(&spec);
    changed = add_crs(&m, false);
    expect_sentence(&changed, added, spec.name);
    free(changed.bytes);
    free(m.bytes);
}

/* Random bytes that begin like a JPEG: only a large file shows that CR LFs are missing. */
Test(text_mode, missing_crs_show_if_there_are_many_lines)
{
    struct made m = {malloc(4 << 20), 4 << 20}, changed;

    for (uint32_t i = 0; i < m.len; i++)
        m.bytes[i] = (uint8_t)philox_draw(5, i, 0, DRAW_SEED, 0).word[0];
    m.bytes[0] = 0xFF;
    m.bytes[1] = 0xD8;
    cr_expect(not(text_mode_removed(m.bytes, m.len)));
    changed = drop_crs(&m);
    cr_expect(text_mode_removed(changed.bytes, changed.len));
    cr_expect(not(text_mode_removed(changed.bytes, 1 << 20)));
    expect_sentence(&changed, probably, "4 MiB");
    free(changed.bytes);
    free(m.bytes);
}

/* The header of a grey JPEG with optimised tables may contain no LF. Then it stays intact, and no
 * decoder warns about the data. */
Test(text_mode, shows_even_if_the_decoder_notices_nothing)
{
    uint32_t unnoticed = 0;

    for (uint32_t i = 0; i < 40; i++) {
        struct made_jpeg spec = {.width = 200,
                                 .height = 200,
                                 .colour = MADE_GREY,
                                 .optimised = true,
                                 .quality = 97,
                                 .seed = i};
        struct made m = make_jpeg(&spec), changed = add_crs(&m, false);

        const uint8_t *scan = memmem(m.bytes, m.len, "\xFF\xDA", 2);

        if (memchr(m.bytes, '\n', (size_t)(scan - m.bytes)) == NULL)
            unnoticed++;
        expect_sentence(&changed, added, "a JPEG without LFs in its header");
        free(changed.bytes);
        free(m.bytes);
    }
    cr_expect(gt(u32, unnoticed, 0));
}

/* The header of a grey JPEG with optimised tables may contain no CR. Then it stays intact, and the
 * decoder may notice nothing. */
Test(text_mode, shows_if_every_cr_is_gone)
{
    uint32_t judged = 0, unnoticed = 0;

    for (uint32_t i = 0; i < 40; i++) {
        struct made_jpeg spec = {.width = 300,
                                 .height = 300,
                                 .colour = MADE_GREY,
                                 .optimised = true,
                                 .quality = 97,
                                 .seed = i};
        struct made m = make_jpeg(&spec), changed = strip_crs(&m);
        const uint8_t *scan = memmem(m.bytes, m.len, "\xFF\xDA", 2);

        unnoticed += !memchr(m.bytes, '\r', (size_t)(scan - m.bytes));
        if (text_mode_change(changed.bytes, changed.len)) {
            expect_sentence(&changed, stripped, "a JPEG without CRs");
            judged++;
        }
        cr_expect(text_mode_change(m.bytes, m.len) == NULL);
        cr_expect(text_mode_change(changed.bytes, (1 << 14) - 1) == NULL);
        free(changed.bytes);
        free(m.bytes);
    }
    cr_expect(gt(u32, judged, 30));
    cr_expect(gt(u32, unnoticed, 0));
}

static void expect_unchanged(const struct made *m)
{
    const char *change = text_mode_change(m->bytes, m->len);

    cr_expect(change == NULL, "%s", change);
}

/* Lines that end in CR LF, in a comment or after the image, do not prove a copy in text mode, even
 * if no other byte is an LF. */
Test(text_mode, a_valid_jpeg_with_such_lines_is_good)
{
    static const char comment[] = "\xFF\xFE\0\x12"
                                  "a\r\nb\r\nc\r\nd\r\ne\r\nf";
    uint32_t judged = 0;

    for (uint32_t i = 0; i < 200; i++) {
        struct made_jpeg spec = {.width = 8,
                                 .height = 8,
                                 .colour = MADE_GREY,
                                 .optimised = true,
                                 .quality = 97,
                                 .seed = i};
        struct made m = make_jpeg(&spec), with = {malloc(m.len + 20), m.len + 20};
        struct plenum_error err;

        if (!memchr(m.bytes, '\n', m.len)) {
            memcpy(with.bytes, m.bytes, 2);
            memcpy(with.bytes + 2, comment, 20);
            memcpy(with.bytes + 22, m.bytes + 2, m.len - 2);
            expect_unchanged(&with);
            cr_expect(eq(int, render("resize(16x16)", &with, &err), 0), "%s", err.text);
            memcpy(with.bytes, m.bytes, m.len);
            memcpy(with.bytes + m.len, comment + 4, 16);
            with.len = m.len + 16;
            expect_unchanged(&with);
            cr_expect(eq(int, render("resize(16x16)", &with, &err), 0), "%s", err.text);
            judged++;
        }
        free(with.bytes);
        free(m.bytes);
    }
    cr_expect(gt(u32, judged, 0));
}

/* Raw pixels are judged by their number, not by their values. */
Test(text_mode, a_valid_file_of_such_lines_is_good)
{
    static const char pixels[] = "\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n";
    struct made m = {(uint8_t *)strdup("P6 2 4 255 ########################"), 35};
    struct plenum_error err;

    memcpy(m.bytes + 11, pixels, 24);
    cr_expect(eq(int, render("resize(16x16)", &m, &err), 0), "%s", err.text);
    free(m.bytes);
}

/* A dark image of raw pixels has many LFs and hardly a CR. If it is cut off, the error says so and
 * does not blame text mode. */
Test(text_mode, a_truncated_dark_image_is_reported_as_truncated)
{
    static const char header[] = "P6\n100 100\n255\n";
    struct made m = {malloc(30000), 29999};
    struct plenum_error err;

    memset(m.bytes, '\n', m.len);
    memcpy(m.bytes, header, sizeof(header) - 1);
    m.bytes[1000] = '\r';
    cr_expect(eq(int, render("resize(16x16)", &m, &err), -EBADMSG));
    cr_expect(eq(str, err.text, "the PPM file is cut off: it ends after 29999 bytes"));
    memcpy(m.bytes, "\x89PNG\r\n\x1A\n", 8);
    cr_expect(eq(ptr, (void *)(uintptr_t)text_mode_change(m.bytes, m.len), NULL));
    free(m.bytes);
}

/* All files have junk in the header, and half of them more damage. */
Test(text_mode, junk_is_advised_if_it_helps)
{
    uint32_t advised = 0, silent = 0;

    for (uint32_t i = 0; i < 400; i++) {
        struct made_jpeg spec = {.width = 40, .height = 30, .colour = MADE_COLOUR, .seed = i};
        struct made m = make_jpeg(&spec), bad = {malloc(m.len + 3), m.len + 3};
        struct philox_block d = philox_draw(47, i, 0, DRAW_SEED, 0);
        struct plenum_error err;
        bool advice;

        memcpy(bad.bytes, m.bytes, 2);
        memcpy(bad.bytes + 2, "abc", 3); /* before the first segment */
        memcpy(bad.bytes + 5, m.bytes + 2, m.len - 2);
        if (i % 4 == 1)
            bad.len -= 1 + philox_below(d.word[0], 200);
        if (i % 4 == 3)
            bad.bytes[bad.len / 2 + philox_below(d.word[0], (uint32_t)bad.len / 2)] ^= 0x40;
        cr_expect(eq(int, render("resize(16x16)", &bad, &err), -EBADMSG));
        advice = strstr(err.text, "a pipeline with the word junk tolerates that");
        cr_expect(advice == (image_verify(decoder, &(struct image_file){bad.bytes, bad.len}, NULL,
                                          NULL) == 0),
                  "%u: %s", i, err.text);
        if (advice)
            cr_expect(eq(int, render("junk resize(16x16)", &bad, &err), 0), "%u: %s", i, err.text);
        advised += advice;
        silent += !advice;
        free(bad.bytes);
        free(m.bytes);
    }
    cr_expect(advised > 150 && silent > 80, "advised %u times, not %u times", advised, silent);
}

/* Check that a damaged file that contains text is not taken for a copy in text mode. */
static void expect_other_reason(const struct made *m, const char *what)
{
    struct plenum_error err;

    cr_expect(eq(int, render("resize(16x16)", m, &err), -EBADMSG), "%s", what);
    cr_expect(strstr(err.text, "text mode") == NULL, "%s: %s", what, err.text);
}

Test(text_mode, a_damaged_file_with_lines_of_text_has_another_reason)
{
    static const char lines[] = "a\r\nb\r\nc\r\nd\r\ne\r\nf";
    static const char ppm[] = "P6\r\n# a\r\n# b\r\n# c\r\n# d\r\n64 64\r\n255\r########";
    static const char webp[] = "RIFF\xff\1\0\0WEBPVP8X\n\0\0\0????????"
                               "<x:xmpmeta>\r\n\r\n\r\n\r\n\r\n\r\n</x:xmpmeta>";
    struct made m;
    uint32_t judged = 0;

    for (uint32_t i = 0; i < 200; i++) {
        struct made_jpeg spec = {.width = 8,
                                 .height = 8,
                                 .colour = MADE_GREY,
                                 .optimised = true,
                                 .quality = 97,
                                 .seed = i};
        struct made jpeg = make_jpeg(&spec);
        uint8_t code = i % 2 ? 0xFE : 0xED; /* a comment, or an IPTC caption */

        m = (struct made){malloc(jpeg.len + 20), jpeg.len + 20};
        memcpy(m.bytes, jpeg.bytes, 2);
        memcpy(m.bytes + 2, ((uint8_t[]){0xFF, code, 0, 18}), 4);
        memcpy(m.bytes + 6, lines, 16);
        memcpy(m.bytes + 22, jpeg.bytes + 2, jpeg.len - 2);
        m.len -= 6; /* it is cut off */
        if (!memchr(jpeg.bytes, '\n', jpeg.len)) {
            expect_other_reason(&m, "a JPEG");
            judged++;
        }
        free(m.bytes);
        free(jpeg.bytes);
    }
    cr_expect(gt(u32, judged, 0));
    m = (struct made){(uint8_t *)(uintptr_t)ppm, sizeof(ppm) - 1};
    expect_other_reason(&m, "a PPM");
    m = (struct made){(uint8_t *)(uintptr_t)webp, sizeof(webp) - 1};
    m.bytes = memcpy(malloc(m.len), webp, m.len);
    m.bytes[16] = '\r'; /* no LF without a CR */
    expect_unchanged(&m);
    free(m.bytes);
}

/* Archives and record files contain any bytes, and some text. */
Test(text_mode, archives_show_it_in_their_binary_members)
{
    struct made m = {malloc(4 << 20), 4 << 20}, changed;

    for (uint32_t i = 0; i < m.len; i++)
        m.bytes[i] = (uint8_t)philox_draw(6, i, 0, DRAW_SEED, 0).word[0];
    cr_expect(text_mode_archive_change(m.bytes, m.len) == NULL);
    cr_expect(not(text_mode_archive_removed(m.bytes, m.len)));
    for (int sparing = 0; sparing < 2; sparing++) {
        changed = add_crs(&m, sparing);
        for (size_t len = 16 << 10; len <= changed.len; len *= 4)
            cr_expect(text_mode_archive_change(changed.bytes, len) != NULL, "%zu", len);
        free(changed.bytes);
    }
    changed = drop_crs(&m);
    cr_expect(text_mode_archive_removed(changed.bytes, changed.len));
    free(changed.bytes);
    for (size_t i = 0; i + 64 <= m.len; i += 64) /* captions in blocks of zeros, and in UTF-8 */
        memcpy(memset(m.bytes + i, 0, 64), "a caf\xc3\xa9\r\nand a t\xc3\xa9\r\n", 21);
    cr_expect(text_mode_archive_change(m.bytes, m.len) == NULL);
    memset(m.bytes, '\n', m.len); /* dark pixels */
    m.bytes[1] = '\r';
    cr_expect(not(text_mode_archive_removed(m.bytes, m.len)));
    free(m.bytes);
}
