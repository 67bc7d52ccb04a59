/* SPDX-License-Identifier: MIT */
/* Tests packed JPEGs: packing loses nothing, and a part decodes to the same pixels as the whole.
 * Also tests damaged and forged packed files. */
#include "config.h"

#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>

#include "common/order/philox.h"
#include "common/util/util.h"
#include "loader/image/pack/pack.h"
#include "loader/image/pack/splice.h"
#include "loader/image/reader.h"
#include "tests/loader/image/agree.h"
#include "tests/loader/image/forge.h"
#include "tests/loader/image/made.h"

static struct image_decoder *decoder;

static void setup(void)
{
    cr_assert(eq(int, image_decoder_create(&decoder), 0));
}

static void teardown(void)
{
    image_decoder_destroy(decoder);
}

TestSuite(pack, .init = setup, .fini = teardown);

/* Returns the outcome of packing one of made_kinds[]. */
static enum pack_outcome outcome_of(const struct made_jpeg *spec)
{
    if (spec->colour == MADE_CMYK || spec->colour == MADE_YCCK)
        return PACK_KEPT_CMYK;
    if (spec->arithmetic)
        return PACK_KEPT_ARITHMETIC;
    return spec->progressive || spec->separate ? PACK_CONVERTED : PACK_BASELINE;
}

static struct made_jpeg kind_of_size(uint32_t index, uint32_t width, uint32_t height)
{
    struct made_jpeg spec = made_kinds[index];

    spec.width = width;
    spec.height = height;
    return spec;
}

static const struct made_jpeg *kind_named(const char *name)
{
    for (size_t i = 0; i < made_kinds_count; i++)
        if (strcmp(made_kinds[i].name, name) == 0)
            return &made_kinds[i];
    cr_fatal("there is no kind %s", name);
}

static struct pack_result pack(const struct made *m, enum pack_outcome want, const char *what)
{
    struct pack_result result = {0};
    struct plenum_error err = {""};

    cr_assert(
        eq(int, image_pack(decoder, &(struct image_file){m->bytes, m->len}, &result, &err), 0),
        "%s", err.text);
    cr_assert(result.outcome == want, "%s: %s instead of %s: %s", what,
              pack_outcome_name(result.outcome), pack_outcome_name(want), err.text);
    cr_assert(eq(int, result.bytes != NULL, want <= PACK_RESIZED));
    cr_assert(result.bytes || err.text[0], "%s is kept unchanged without a reason", what);
    return result;
}

static struct pack_result pack_kind(const char *name, uint32_t width, uint32_t height)
{
    struct made_jpeg spec = *kind_named(name);
    struct pack_result result;
    struct made m;

    spec.width = width;
    spec.height = height;
    m = make_jpeg(&spec);
    result = pack(&m, outcome_of(&spec), name);
    free(m.bytes);
    return result;
}

struct kind {
    uint32_t index; /* in made_kinds[], or in another table */
};

static struct kind kinds[64];

static struct criterion_test_params every_kind(void)
{
    for (uint32_t i = 0; i < made_kinds_count; i++)
        kinds[i].index = i;
    return cr_make_param_array(struct kind, kinds, made_kinds_count);
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Check a region of the image. */
static void check_region(struct image_reader *reader, const struct made_jpeg *spec,
                         const struct made *m, const struct pack_result *packed, struct rect want)
{
    uint8_t *a, *b;

    want.width = least(want.width, spec->width - want.left);
    want.height = least(want.height, spec->height - want.top);
    a = forge_read(reader, true, m->bytes, m->len, want);
    b = forge_read(reader, false, packed->bytes, packed->len, want);
    cr_assert(a && b, "%s, %ux%u: the region %ux%u+%u+%u is bad", spec->name, spec->width,
              spec->height, want.width, want.height, want.left, want.top);
    cr_assert(memcmp(a, b, (size_t)want.width * want.height * 3) == 0,
              "%s, %ux%u: the region %ux%u+%u+%u differs", spec->name, spec->width, spec->height,
              want.width, want.height, want.left, want.top);
    free(a);
    free(b);
}

ParameterizedTestParameters(pack, regions_at_every_offset)
{
    return every_kind();
}

static void check_offsets(struct image_reader *reader, const struct made_jpeg *spec,
                          const struct made *m, const struct pack_result *packed)
{
    static const uint32_t extents[] = {1, 17, 1000};

    for (size_t e = 0; e < ARRAY_LEN(extents); e++) {
        for (uint32_t x = 0; x < spec->width; x++)
            for (uint32_t y = x % 9; y < spec->height; y += 9)
                check_region(reader, spec, m, packed, (struct rect){x, y, extents[e], 11});
        for (uint32_t y = 0; y < spec->height; y++)
            for (uint32_t x = y % 13; x < spec->width; x += 13)
                check_region(reader, spec, m, packed, (struct rect){x, y, 13, extents[e]});
    }
}

/* These sizes give several intervals per row with every sampling, and odd edges. */
ParameterizedTest(struct kind *k, pack, regions_at_every_offset)
{
    static const uint32_t sizes[][2] = {{125, 77}, {256, 50}};
    struct image_reader *reader;

    cr_assert(eq(int, jpeg_reader_create(&reader), 0));
    for (size_t s = 0; s < ARRAY_LEN(sizes); s++) {
        struct made_jpeg spec = kind_of_size(k->index, sizes[s][0], sizes[s][1]);
        struct made m = make_jpeg(&spec);
        struct pack_result packed = pack(&m, outcome_of(&spec), spec.name);

        if (packed.bytes)
            check_offsets(reader, &spec, &m, &packed);
        free(packed.bytes);
        free(m.bytes);
    }
    reader->ops->destroy(reader);
}

ParameterizedTestParameters(pack, sizes_and_crops)
{
    return every_kind();
}

/* The packed file renders as in the oracle, and like the original file. */
ParameterizedTest(struct kind *k, pack, sizes_and_crops)
{
    static const char *const texts[] = {"rrc(16,scale=0.01:1,ratio=1/4:4)", "exif rrc(8)",
                                        "exif rrc(12) flip(0.5)", "resize(20) center_crop(9)"};
    static const struct image_store store = {PLENUM_UINT8, PLENUM_NHWC, 3};

    for (uint32_t i = 0; i < 60; i++) {
        struct philox_block d = philox_draw(1, i, k->index, DRAW_SEED, 0);
        struct made_jpeg spec =
            kind_of_size(k->index, 1 + philox_below(d.word[0], i < 40 ? 300 : 20),
                         1 + philox_below(d.word[1], i < 40 ? 200 : 20));
        struct pack_result packed;
        struct made m;

        spec.seed = i;
        spec.orientation = (int)(i % 9);
        m = make_jpeg(&spec);
        packed = pack(&m, outcome_of(&spec), spec.name);
        for (uint32_t j = 0; j < 12 && packed.bytes; j++) {
            struct image_draw draw = {.seed = i, .position = j};
            uint8_t want[16 * 16 * 3], got[16 * 16 * 3];
            struct pipeline p;
            char why[200];

            cr_assert(eq(int, pipeline_parse(texts[j % ARRAY_LEN(texts)], &p, NULL), 0));
            cr_assert(oracle_agrees(
                          decoder, &(struct rendering){&p, &draw, &store, packed.bytes, packed.len},
                          why, NULL, NULL),
                      "%s, %ux%u: %s", spec.name, spec.width, spec.height, why);
            cr_assert(
                eq(int,
                   image_render(decoder,
                                &(struct image_view){.pipeline = &p, .draw = draw, .dst = want},
                                &store, &(struct image_file){m.bytes, m.len}, NULL),
                   0));
            cr_assert(
                eq(int,
                   image_render(decoder,
                                &(struct image_view){.pipeline = &p, .draw = draw, .dst = got},
                                &store, &(struct image_file){packed.bytes, packed.len}, NULL),
                   0));
            cr_assert(memcmp(want, got, (size_t)p.width * p.height * 3) == 0, "%s, %ux%u, %s",
                      spec.name, spec.width, spec.height, texts[j % ARRAY_LEN(texts)]);
        }
        free(packed.bytes);
        free(m.bytes);
    }
}

/* Returns all coefficients and quantisation tables of a file (malloc), as libjpeg reads them. */
static JCOEF *coefficients_of(const uint8_t *bytes, size_t len, size_t *count)
{
    struct jpeg_decompress_struct d;
    struct jpeg_error_mgr errors;
    jvirt_barray_ptr *arrays;
    JCOEF *all = NULL;

    *count = 0;
    d.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&d);
    jpeg_mem_src(&d, bytes, len);
    (void)jpeg_read_header(&d, TRUE);
    arrays = jpeg_read_coefficients(&d);
    for (int i = 0; i < d.num_components; i++) {
        const jpeg_component_info *c = &d.comp_info[i];

        all = realloc(
            all, (*count + (size_t)c->width_in_blocks * c->height_in_blocks * DCTSIZE2 + DCTSIZE2) *
                     sizeof(*all));
        for (int q = 0; q < DCTSIZE2; q++)
            all[(*count)++] = (JCOEF)c->quant_table->quantval[q];
        for (JDIMENSION y = 0; y < c->height_in_blocks; y++) {
            JBLOCKARRAY rows = d.mem->access_virt_barray((j_common_ptr)&d, arrays[i], y, 1, FALSE);

            memcpy(all + *count, rows[0], c->width_in_blocks * sizeof(JBLOCK));
            *count += (size_t)c->width_in_blocks * DCTSIZE2;
        }
    }
    cr_assert(eq(long, errors.num_warnings, 0));
    jpeg_destroy_decompress(&d);
    return all;
}

ParameterizedTestParameters(pack, keeps_every_coefficient)
{
    return every_kind();
}

ParameterizedTest(struct kind *k, pack, keeps_every_coefficient)
{
    for (uint32_t i = 0; i < 20; i++) {
        struct made_jpeg spec = kind_of_size(k->index, 1 + i * i, 211 - 10 * i);
        struct pack_result packed;
        size_t before, after;
        struct made m;
        JCOEF *a, *b;

        spec.seed = i;
        m = make_jpeg(&spec);
        packed = pack(&m, outcome_of(&spec), spec.name);
        if (packed.bytes) {
            a = coefficients_of(m.bytes, m.len, &before);
            b = coefficients_of(packed.bytes, packed.len, &after);
            cr_assert(eq(sz, before, after));
            cr_assert(memcmp(a, b, before * sizeof(*a)) == 0, "%s", spec.name);
            free(a);
            free(b);
        }
        free(packed.bytes);
        free(m.bytes);
    }
}

Test(pack, the_interval_divides_the_row_and_is_worthwhile)
{
    for (uint32_t mcus = 1; mcus < 300; mcus++)
        for (size_t bytes = 100; bytes < 1 << 20; bytes = bytes * 5 / 4) {
            uint32_t rows = 20, interval = pack_interval(mcus, rows, bytes);

            cr_assert(eq(u32, mcus % interval, 0));
            cr_assert(interval == mcus || (interval >= 2 && mcus >= 2 * interval));
            for (uint32_t finer = 2; finer < interval; finer++)
                cr_assert(mcus % finer != 0 || bytes / (mcus / finer * rows) < 112);
        }
    cr_expect(eq(u32, pack_interval(23, 20, 100000), 23), "a prime has no divisor");
}

/* List the codes of a header's segments, up to SOS, in hexadecimal: "E0 DB C0 ". */
static void list_segments(const uint8_t *bytes, char *text)
{
    for (size_t at = 2;; at += 2 + ((size_t)bytes[at + 2] << 8 | bytes[at + 3])) {
        text += sprintf(text, "%02X ", bytes[at + 1]);
        if (bytes[at + 1] == 0xDA)
            return;
    }
}

/* Insert a segment after SOI. */
static void insert(struct made *m, uint8_t code, const char *head, size_t head_len, size_t size)
{
    m->bytes = realloc(m->bytes, m->len + 2 + size);
    memmove(m->bytes + 4 + size, m->bytes + 2, m->len - 2);
    memset(m->bytes + 2, 'x', 2 + size);
    m->bytes[2] = 0xFF;
    m->bytes[3] = code;
    m->bytes[4] = (uint8_t)(size >> 8);
    m->bytes[5] = (uint8_t)size;
    memcpy(m->bytes + 6, head, head_len);
    m->len += 2 + size;
}

Test(pack, only_header_fields_that_change_pixels_are_kept)
{
    static const char exif[] = "Exif\0\0II*\0\x08\0\0\0\x02\0\x0F\1\x02\0\x02\0\0\0zz\0\0\x12\1\x03"
                               "\0\1\0\0\0\x06\0\0\0\0\0\0\0";
    struct made_jpeg spec = *kind_named("4:2:0");
    struct pack_result packed;
    struct image_info info;
    char segments[400];
    struct made m;

    spec.width = 160;
    spec.height = 96;
    m = make_jpeg(&spec);
    insert(&m, 0xE2, "ICC_PROFILE\0\1\1", 14, 3000);
    insert(&m, 0xED, "Photoshop 3.0", 14, 500);
    insert(&m, 0xFE, "made by", 7, 65535);
    insert(&m, 0xE1, exif, sizeof(exif), 20000); /* as large as one with a preview */
    insert(&m, 0xE9, "another program", 15, 40);
    packed = pack(&m, PACK_BASELINE, "with metadata");
    list_segments(packed.bytes, segments);
    cr_expect(eq(str, segments, (char *)"E0 E1 E9 DB DB C0 C4 C4 C4 C4 DD DA "));
    cr_assert(eq(int,
                 image_verify(decoder, &(struct image_file){packed.bytes, packed.len}, &info, NULL),
                 0));
    cr_expect(eq(u8, info.orientation, 6));
    cr_expect(lt(sz, packed.len, m.len - 80000));
    free(packed.bytes);
    free(m.bytes);
    /* Without a JFIF marker, Adobe's segment marks three components as RGB. */
    packed = pack_kind("rgb", 80, 80);
    list_segments(packed.bytes, segments);
    cr_expect(eq(str, segments, (char *)"EE E9 DB C0 C4 C4 DD DA "));
    free(packed.bytes);
}

Test(pack, unsupported_files_are_kept_with_a_reason)
{
    struct made_png png = {.width = 50, .height = 60, .colour_type = 2, .depth = 8};
    struct made_jpeg spec = *kind_named("4:2:0");
    struct made m = make_png(&png);
    struct pack_result packed;
    uint8_t saved[2];

    (void)pack(&m, PACK_KEPT_PNG, "png");
    free(m.bytes);
    spec.width = spec.height = 64;
    m = make_jpeg(&spec);
    m.len -= 30;
    (void)pack(&m, PACK_KEPT_BAD, "cut off");
    m.len += 30;
    m.bytes[m.len - 1] = 'x'; /* EOI is missing: pixels are complete, but a reader warns */
    (void)pack(&m, PACK_KEPT_ODD, "no end");
    m.bytes[m.len - 1] = 0xD9;
    memcpy(saved, m.bytes + m.len / 2, sizeof(saved));
    memcpy(m.bytes + m.len / 2, "\xFF\xD9", 2); /* EOI */
    (void)pack(&m, PACK_KEPT_BAD, "damaged");
    memcpy(m.bytes + m.len / 2, saved, sizeof(saved));
    packed = pack(&m, PACK_BASELINE, "whole again");
    free(m.bytes);
    m = (struct made){packed.bytes, packed.len};
    (void)pack(&m, PACK_KEPT_PACKED, "packed");
    /* The checksum is wrong but the image is fine, as if a program had replaced a segment by an
     * equivalent one. */
    m.bytes[forge_find(m.bytes, m.len) + 13] ^= 1;
    packed = pack(&m, PACK_BASELINE, "packed, with a wrong checksum");
    cr_expect(eq(sz, packed.len, m.len));
    m.bytes[forge_find(m.bytes, m.len) + 13] ^= 1;
    cr_expect(memcmp(packed.bytes, m.bytes, m.len) == 0, "packing again gives the same bytes");
    free(packed.bytes);
    m.len = 0;
    (void)pack(&m, PACK_KEPT_BAD, "empty");
    free(m.bytes);
}

Test(pack, is_proved_and_read_back)
{
    struct pack_result packed = pack_kind("4:2:2", 320, 200);
    struct scratch scratch = {0};
    struct pack_layout l;
    struct plenum_error err = {""};

    cr_assert(eq(int, pack_read(packed.bytes, packed.len, &scratch, &l, &err), 1), "%s", err.text);
    cr_expect(eq(u32, l.width, 320));
    cr_expect(eq(u32, l.height, 200));
    cr_expect(eq(u32, l.mcu_width, 16));
    cr_expect(eq(u32, l.mcu_height, 8));
    cr_expect(eq(u32, l.across * l.interval, 20));
    cr_expect(eq(u32, l.down, 25));
    cr_expect(eq(sz, l.ends[l.across * l.down - 1], packed.len));
    cr_expect(eq(int, pack_prove(packed.bytes, packed.len, &err), 1), "%s", err.text);
    cr_expect(eq(int, packed.whole_row, 0));
    scratch_free(&scratch);
    free(packed.bytes);
    packed = pack_kind("4:2:0", 23 * 16, 64);
    cr_expect(eq(int, packed.whole_row, 1));
    free(packed.bytes);
}

/* Once the checksum matches, only the intervals under a crop are decoded, so the decoder does not
 * detect damage in the others. This shows that the file is really spliced. */
Test(pack, decodes_only_what_lies_under_the_crop)
{
    struct pack_result packed = pack_kind("4:4:4", 160, 160);
    struct scratch scratch = {0};
    struct image_reader *reader;
    struct pack_layout l;
    uint32_t good = 0, bad = 0;

    cr_assert(eq(int, jpeg_reader_create(&reader), 0));
    cr_assert(eq(int, pack_read(packed.bytes, packed.len, &scratch, &l, NULL), 1));
    cr_assert(gt(u32, l.across, 4));
    for (uint32_t i = 0; i < l.across * l.down; i++) {
        size_t begin = i ? l.ends[i - 1] : l.data;
        uint32_t x = i % l.across * l.interval * 8, y = i / l.across * 8, width = l.interval * 8;
        struct rect region = {64, 72, 40, 40};
        bool under = x < 64 + 40 + 2 && x + width > 64 - 1 && y < 72 + 40 && y + 8 > 72;
        bool near =
            x < 64 + 40 + 24 + width && x + width > 64 - 24 && y < 72 + 40 + 8 && y + 8 > 72 - 8;
        uint8_t *pixels, saved = packed.bytes[begin];

        packed.bytes[begin] = 0xFE; /* no code of the DC tables begins like this */
        cr_assert(forge_sign(packed.bytes, packed.len));
        pixels = forge_read(reader, false, packed.bytes, packed.len, region);
        cr_assert(under ? pixels == NULL : true, "interval %u is under the region and damaged", i);
        cr_assert(near ? true : pixels != NULL, "interval %u is far from the region", i);
        good += pixels != NULL;
        bad += pixels == NULL;
        free(pixels);
        packed.bytes[begin] = saved;
    }
    cr_expect(good > 0 && bad > 0);
    scratch_free(&scratch);
    free(packed.bytes);
    reader->ops->destroy(reader);
}

struct damage_case {
    char kind[24];
    uint32_t width, height;
};

static struct damage_case damage_cases[] = {{"4:2:0", 128, 40},
                                            {"4:4:4", 64, 24},
                                            {"grey", 64, 24},
                                            {"4:1:1", 256, 20},
                                            {"rgb 2x2", 66, 33}};

/* Check that image_render() agrees with the oracle, which decodes JPEGs as a whole. */
static void check_agreement(const uint8_t *bytes, size_t len, uint32_t number, const char *what)
{
    static const struct image_store store = {PLENUM_UINT8, PLENUM_NHWC, 3};
    struct pipeline p;
    char why[200];

    cr_assert(eq(int, pipeline_parse("rrc(8,scale=0.02:0.3)", &p, NULL), 0));
    for (uint32_t i = 0; i < 2; i++) {
        struct image_draw draw = {.seed = number, .position = i};
        uint32_t width, height;
        uint8_t orientation;

        if (oracle_header(bytes, len, &width, &height, &orientation) == 0 &&
            (uint64_t)width * height > 1 << 20)
            return; /* the oracle has no limits */
        cr_assert(oracle_agrees(decoder, &(struct rendering){&p, &draw, &store, bytes, len}, why,
                                NULL, NULL),
                  "%s, %u: %s", what, number, why);
    }
}

ParameterizedTestParameters(pack, damaged_files_are_decoded_like_any_other)
{
    return cr_make_param_array(struct damage_case, damage_cases, ARRAY_LEN(damage_cases));
}

/* For a file that is truncated at any byte, or in which any byte is changed, the decision is that
 * of a decoder that reads all of it. */
ParameterizedTest(struct damage_case *c, pack, damaged_files_are_decoded_like_any_other)
{
    struct pack_result packed = pack_kind(c->kind, c->width, c->height);
    struct scratch scratch = {0};
    struct pack_layout l;

    for (size_t i = 0; i < packed.len; i++) {
        uint8_t saved = packed.bytes[i];
        struct philox_block d = philox_draw(3, (uint32_t)i, 0, DRAW_SEED, 0);
        uint8_t *exact = malloc(i + !i);

        memcpy(exact, packed.bytes, i);
        cr_assert(le(int, pack_read(exact, i, &scratch, &l, NULL), 0));
        free(exact);
        if (i % 3 == 0)
            check_agreement(packed.bytes, i, (uint32_t)i, "cut");
        packed.bytes[i] ^= (uint8_t)(1 + d.word[0] % 255);
        cr_assert(le(int, pack_read(packed.bytes, packed.len, &scratch, &l, NULL), 0));
        check_agreement(packed.bytes, packed.len, (uint32_t)i, "changed");
        packed.bytes[i] = saved;
    }
    cr_expect(eq(int, pack_read(packed.bytes, packed.len, &scratch, &l, NULL), 1));
    scratch_free(&scratch);
    free(packed.bytes);
}

ParameterizedTestParameters(pack, forged_files_have_their_own_pixels)
{
    return cr_make_param_array(struct damage_case, damage_cases, ARRAY_LEN(damage_cases));
}

/* Damage the file, then correct its checksum. */
ParameterizedTest(struct damage_case *c, pack, forged_files_have_their_own_pixels)
{
    struct pack_result packed = pack_kind(c->kind, c->width, c->height);
    struct scratch scratch = {0};
    struct image_reader *reader;
    uint8_t *bytes = malloc(packed.len);
    uint32_t taken = 0, shown = 0;

    cr_assert(eq(int, jpeg_reader_create(&reader), 0));
    for (uint32_t i = 0; i < 4000; i++) {
        struct philox_block d = philox_draw(4, i, 0, DRAW_SEED, 0);
        struct philox_block e = philox_draw(4, i, 1, DRAW_SEED, 0);
        uint32_t width, height;
        uint8_t orientation;
        struct pack_layout l;
        struct rect want;
        char why[200];
        bool good;

        memcpy(bytes, packed.bytes, packed.len);
        for (uint32_t k = 0; k <= d.word[0] % 3; k++) {
            size_t at = philox_below(d.word[k + 1], (uint32_t)packed.len);

            if (e.word[k] & 1 && at + 40 < packed.len) /* move some bytes */
                memmove(bytes + at, bytes + at + 1 + (e.word[k] >> 8) % 30, 10);
            else
                bytes[at] = (uint8_t)(e.word[k] >> 8);
        }
        if (!forge_sign(bytes, packed.len) ||
            oracle_header(bytes, packed.len, &width, &height, &orientation) < 0 ||
            (uint64_t)width * height > 1 << 20)
            continue;
        taken += pack_read(bytes, packed.len, &scratch, &l, NULL) > 0;
        want = (struct rect){philox_below(e.word[2], width), philox_below(e.word[3], height),
                             1 + (e.word[0] >> 16) % 60, 1 + (e.word[1] >> 16) % 30};
        want.width = least(want.width, width - want.left);
        want.height = least(want.height, height - want.top);
        cr_assert(forge_agrees(reader, bytes, packed.len, want, why, &good), "%s, damage %u: %s",
                  c->kind, i, why);
        shown += good;
    }
    cr_expect(taken > 100 && shown > 100, "%u files were treated as packed, and %u shown", taken,
              shown);
    free(bytes);
    scratch_free(&scratch);
    free(packed.bytes);
    reader->ops->destroy(reader);
}

static void renumber(struct made *m, const struct pack_layout *l)
{
    m->bytes[l->ends[2] - 1] ^= 1;
}

static void eight_fewer(struct made *m, const struct pack_layout *l)
{
    /* Remove eight intervals: the markers' numbers are correct, but their count is not. */
    memmove(m->bytes + l->ends[3], m->bytes + l->ends[11], m->len - l->ends[11]);
    m->len -= l->ends[11] - l->ends[3];
}

static void eight_more(struct made *m, const struct pack_layout *l)
{
    size_t extra = l->ends[11] - l->ends[3];

    m->bytes = realloc(m->bytes, m->len + extra);
    memmove(m->bytes + l->ends[11] + extra, m->bytes + l->ends[11], m->len - l->ends[11]);
    memcpy(m->bytes + l->ends[11], m->bytes + l->ends[3], extra);
    m->len += extra;
}

static void end_early(struct made *m, const struct pack_layout *l)
{
    m->bytes[l->ends[4] - 1] = 0xD9;
}

static void more_behind(struct made *m, const struct pack_layout *l)
{
    (void)l;
    m->bytes = realloc(m->bytes, m->len + 100);
    memset(m->bytes + m->len, 'x', 100);
    m->len += 100;
}

static size_t find_segment(const struct made *m, uint8_t code)
{
    for (size_t at = 2; m->bytes[at + 1] != 0xDA;
         at += 2 + ((size_t)m->bytes[at + 2] << 8 | m->bytes[at + 3]))
        if (m->bytes[at + 1] == code)
            return at;
    cr_fatal("no segment %02x", code);
}

static void other_interval(struct made *m, const struct pack_layout *l)
{
    (void)l;
    m->bytes[find_segment(m, 0xDD) + 5]++;
}

static void other_width(struct made *m, const struct pack_layout *l)
{
    (void)l;
    m->bytes[find_segment(m, 0xC0) + 7]++; /* 256 more */
}

static void other_version(struct made *m, const struct pack_layout *l)
{
    m->bytes[l->segment + 11] = 2;
}

static void two_segments(struct made *m, const struct pack_layout *l)
{
    char head[16];

    memcpy(head, m->bytes + l->segment + 4, sizeof(head));
    insert(m, 0xE9, head, sizeof(head), 18);
}

static void a_comment(struct made *m, const struct pack_layout *l)
{
    (void)l;
    insert(m, 0xFE, "hello", 5, 30);
}

static void fill_bytes(struct made *m, const struct pack_layout *l)
{
    m->bytes[l->ends[3] - 3] = 0xFF; /* allowed before a marker, but we never write it */
}

static void two_intervals(struct made *m, const struct pack_layout *l)
{
    char head[2];

    (void)l;
    memcpy(head, m->bytes + find_segment(m, 0xDD) + 4, sizeof(head));
    insert(m, 0xDD, head, sizeof(head), 4);
}

/* Changes to a 4:2:0 file with four rows of four intervals. */
static const struct forgery {
    const char *why;
    void (*change)(struct made *m, const struct pack_layout *l);
} forgeries[] = {
    {"a marker has a wrong number", renumber},
    {"eight intervals are missing", eight_fewer},
    {"eight intervals too many", eight_more},
    {"an end mark in the middle", end_early},
    {"bytes after the end", more_behind},
    {"an interval that does not divide the row", other_interval},
    {"another width", other_width},
    {"a future version", other_version},
    {"two segments of Plenum", two_segments},
    {"a comment", a_comment},
    {"fill bytes", fill_bytes},
    {"two segments with the interval", two_intervals},
};

ParameterizedTestParameters(pack, forgeries)
{
    for (uint32_t i = 0; i < ARRAY_LEN(forgeries); i++)
        kinds[i].index = i;
    return cr_make_param_array(struct kind, kinds, ARRAY_LEN(forgeries));
}

ParameterizedTest(struct kind *k, pack, forgeries)
{
    const struct forgery *c = &forgeries[k->index];
    struct pack_result packed = pack_kind("4:2:0", 128, 64);
    struct made m = {packed.bytes, packed.len};
    struct scratch scratch = {0}, ends = {0};
    struct plenum_error err = {""};
    struct pack_layout l;

    cr_assert(eq(int, pack_read(m.bytes, m.len, &scratch, &l, &err), 1), "%s", err.text);
    cr_assert(eq(u32, l.across, 4));
    cr_assert(eq(u32, l.down, 4));
    c->change(&m, &l);
    cr_assert(forge_sign(m.bytes, m.len));
    cr_expect(eq(int, pack_read(m.bytes, m.len, &ends, &l, &err), -EBADMSG), "%s", c->why);
    cr_expect(strstr(err.text, "not a valid packed file") != NULL, "%s: %s", c->why, err.text);
    for (uint32_t i = 0; i < 40; i++)
        check_agreement(m.bytes, m.len, i, c->why);
    cr_expect(eq(int, pack_prove(m.bytes, m.len, &err), -EBADMSG), "%s", c->why);
    scratch_free(&scratch);
    scratch_free(&ends);
    free(m.bytes);
}

/* A file with a correct checksum and correct markers, but damaged data, fails the proof. */
Test(pack, a_damaged_interval_is_found_by_the_proof)
{
    struct pack_result packed = pack_kind("4:2:0", 128, 64);
    struct scratch scratch = {0};
    struct plenum_error err = {""};
    struct pack_layout l;

    cr_assert(eq(int, pack_read(packed.bytes, packed.len, &scratch, &l, &err), 1), "%s", err.text);
    for (uint32_t i = 0; i < l.across * l.down; i++) {
        size_t begin = i ? l.ends[i - 1] : l.data;
        uint8_t saved = packed.bytes[begin];

        packed.bytes[begin] = 0xFE;
        cr_assert(forge_sign(packed.bytes, packed.len));
        cr_expect(eq(int, pack_prove(packed.bytes, packed.len, &err), -EBADMSG), "%u", i);
        cr_expect(err.text[0] != 0);
        packed.bytes[begin] = saved;
    }
    scratch_free(&scratch);
    free(packed.bytes);
}
