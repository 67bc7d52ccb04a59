/* SPDX-License-Identifier: MIT */
/* Compares our own PNG decoder with libpng: every form, damage that checksums do not reveal, and
 * files that our decoder must not leave to libpng. PLENUM_PNG_FILES=N damages each file N times. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include <png.h>

#include "common/order/philox.h"
#include "common/util/util.h"
#include "loader/image/png/inflate.h"
#include "loader/image/png/png_rows.h"
#include "loader/image/png/png_sums.h"
#include "tests/loader/image/png/png_ways.h"

static const struct {
    int colour_type, depth;
    bool transparent;
} forms[] = {
    {PNG_COLOR_TYPE_GRAY, 1, false},       {PNG_COLOR_TYPE_GRAY, 2, false},
    {PNG_COLOR_TYPE_GRAY, 4, false},       {PNG_COLOR_TYPE_GRAY, 8, false},
    {PNG_COLOR_TYPE_GRAY, 16, false},      {PNG_COLOR_TYPE_PALETTE, 1, false},
    {PNG_COLOR_TYPE_PALETTE, 2, true},     {PNG_COLOR_TYPE_PALETTE, 4, false},
    {PNG_COLOR_TYPE_PALETTE, 8, false},    {PNG_COLOR_TYPE_PALETTE, 8, true},
    {PNG_COLOR_TYPE_RGB, 8, false},        {PNG_COLOR_TYPE_RGB, 16, false},
    {PNG_COLOR_TYPE_GRAY_ALPHA, 8, false}, {PNG_COLOR_TYPE_GRAY_ALPHA, 16, false},
    {PNG_COLOR_TYPE_RGB_ALPHA, 8, false},  {PNG_COLOR_TYPE_RGB_ALPHA, 16, false},
};

/* Each filter alone, all of them together, and several ways to compress. */
static const struct {
    int filters, level, strategy;
    bool flat;
} ways[] = {
    {PNG_FILTER_NONE, 0, 0, false},  {PNG_FILTER_SUB, 0, 0, false},   {PNG_FILTER_UP, 0, 0, false},
    {PNG_FILTER_AVG, 0, 0, false},   {PNG_FILTER_PAETH, 0, 0, false}, {PNG_ALL_FILTERS, 9, 0, true},
    {PNG_ALL_FILTERS, -1, 0, false}, {PNG_ALL_FILTERS, 1, 2, false},  {PNG_FILTER_NONE, 0, 3, true},
    {PNG_ALL_FILTERS, 0, 4, true},   {PNG_ALL_FILTERS, 0, 4, false},  {PNG_FILTER_NONE, 9, 0, true},
};

static struct made make(size_t form, size_t way, uint32_t width, uint32_t height)
{
    struct made_png spec = {.width = width,
                            .height = height,
                            .colour_type = forms[form].colour_type,
                            .depth = forms[form].depth,
                            .transparent = forms[form].transparent,
                            .orientation = (int)(width % 9),
                            .filters = ways[way].filters,
                            .level = ways[way].level,
                            .strategy = ways[way].strategy,
                            .flat = ways[way].flat};

    return make_png(&spec);
}

/* Returns the kind of mask that a form can be; 0: none. */
static uint32_t mask_of(size_t form)
{
    if (forms[form].colour_type != PNG_COLOR_TYPE_GRAY &&
        forms[form].colour_type != PNG_COLOR_TYPE_PALETTE)
        return 0;
    return forms[form].depth == 16 ? 2 : 1;
}

Test(png_own, decodes_every_form_as_libpng_does, .timeout = 600)
{
    struct png_ways *both = png_ways_create();
    char why[300];

    for (uint32_t i = 0; i < ARRAY_LEN(forms) * ARRAY_LEN(ways) * 8; i++) {
        size_t form = i % ARRAY_LEN(forms), way = i / ARRAY_LEN(forms) % ARRAY_LEN(ways);
        uint32_t width = 1 + i * 7 % 70, height = 1 + i / 3 % 90;
        struct made m = make(form, way, width, height);

        if (i % 4 == 3) { /* some files have small and empty IDATs */
            struct made cut = png_cut(&m, i % 3 == 0 ? 1 : 40, i);

            free(m.bytes);
            m = cut;
        }
        for (uint32_t k = 0; k < 6; k++) {
            struct philox_block d = philox_draw(1, i, k, DRAW_SEED, 0);
            uint32_t mask = k < 4 ? 0 : mask_of(form);

            cr_assert(png_ways_agree(both, m.bytes, m.len, mask, d.word, why),
                      "file %u, form %zu, %zu, %ux%u: %s", i, form, way, width, height, why);
            cr_assert(png_ways_were_good(both));
            cr_assert(png_ways_were_own(both), "file %u, form %zu, %zu, %ux%u is left to libpng", i,
                      form, way, width, height);
        }
        free(m.bytes);
    }
    png_ways_destroy(both);
}

/* These images are larger than inflate's window; some have rows that are larger than it. */
Test(png_own, slides_its_window_over_large_images, .timeout = 600)
{
    static const uint32_t sizes[][2] = {{500, 375}, {9000, 17}, {30000, 3}, {3, 30000}, {65500, 2}};
    struct png_ways *both = png_ways_create();
    char why[300];

    for (uint32_t i = 0; i < ARRAY_LEN(sizes) * ARRAY_LEN(ways); i++) {
        size_t way = i % ARRAY_LEN(ways), form = i % 2 ? 10 : 14 + i / 2 % 2;
        const uint32_t *size = sizes[i / ARRAY_LEN(ways)];
        struct made m = make(form, way, size[0], size[1]);

        for (uint32_t k = 0; k < 4; k++) {
            struct philox_block d = philox_draw(2, i, k, DRAW_SEED, 0);

            cr_assert(png_ways_agree(both, m.bytes, m.len, 0, d.word, why), "%ux%u, %zu, %zu: %s",
                      size[0], size[1], form, way, why);
            cr_assert(png_ways_were_own(both), "%ux%u, %zu, %zu", size[0], size[1], form, way);
        }
        free(m.bytes);
    }
    png_ways_destroy(both);
}

/* Change some bytes, sometimes only in the header's chunks, or cut off the end. */
static size_t damage(uint8_t *bytes, size_t len, const struct made *m, uint32_t i)
{
    struct philox_block d = philox_draw(3, i, 0, DRAW_SEED, 0);
    size_t within = d.word[0] % 4 == 0 && len > 80 ? 80 : len;

    memcpy(bytes, m->bytes, len);
    for (uint32_t k = 0; k < 1 + d.word[1] % 3; k++) {
        struct philox_block e = philox_draw(4, i, k, DRAW_SEED, 0);
        size_t at = philox_below(e.word[0], (uint32_t)within);

        bytes[at] = e.word[1] % 2 ? (uint8_t)e.word[2] : bytes[at] ^ (uint8_t)(1 << e.word[2] % 8);
    }
    return d.word[2] % 16 == 0 ? philox_below(d.word[3], (uint32_t)len) : len;
}

Test(png_own, judges_damaged_files_as_libpng_does, .timeout = 3600)
{
    const char *text = getenv("PLENUM_PNG_FILES");
    uint32_t times = text ? (uint32_t)atoi(text) : 150, good = 0, own = 0, all = 0;
    struct png_ways *both = png_ways_create();
    char why[300];

    for (uint32_t f = 0; f < ARRAY_LEN(forms) * ARRAY_LEN(ways); f++) {
        size_t form = f % ARRAY_LEN(forms), way = f / ARRAY_LEN(forms);
        struct made m = make(form, way, 5 + f % 30, 4 + f % 23);
        uint8_t *bytes;

        if (f % 3 == 0) {
            struct made cut = png_cut(&m, 30, f);

            free(m.bytes);
            m = cut;
        }
        bytes = malloc(m.len);
        for (uint32_t i = 0; i < times; i++, all++) {
            struct philox_block d = philox_draw(5, f, i, DRAW_SEED, 0);
            size_t len = damage(bytes, m.len, &m, f * times + i);

            if (i % 8 > 0)
                png_mend(bytes, len, i % 8 > 2);
            cr_assert(png_ways_agree(both, bytes, len, i % 5 == 0 ? mask_of(form) : 0, d.word, why),
                      "form %zu, %zu, damage %u: %s", form, way, i, why);
            good += png_ways_were_good(both);
            own += png_ways_were_own(both);
        }
        free(bytes);
        free(m.bytes);
    }
    cr_expect(good > all / 10 && good < all, "%u of %u files are valid", good, all);
    cr_expect(own > good / 2, "our decoder handled only %u of %u valid files", own, good);
    png_ways_destroy(both);
}

/* Inflate pairs literals in its tables only when a lot of input remains. */
Test(png_own, judges_damage_of_large_files_as_libpng_does, .timeout = 600)
{
    struct png_ways *both = png_ways_create();
    uint32_t good = 0, own = 0, all = 0;
    char why[300];

    for (size_t way = 0; way < ARRAY_LEN(ways); way++) {
        struct made m = make(10, way, 150, 130);
        uint8_t *bytes = malloc(m.len);

        for (uint32_t i = 0; i < 60; i++, all++) {
            struct philox_block d = philox_draw(7, (uint32_t)way, i, DRAW_SEED, 0);
            size_t len = damage(bytes, m.len, &m, (uint32_t)way << 16 | i);

            png_mend(bytes, len, true);
            cr_assert(png_ways_agree(both, bytes, len, 0, d.word, why), "%zu, damage %u: %s", way,
                      i, why);
            good += png_ways_were_good(both);
            own += png_ways_were_own(both);
        }
        free(bytes);
        free(m.bytes);
    }
    cr_expect(good > all / 10 && good < all, "%u of %u files are valid", good, all);
    cr_expect(own > good / 2, "our decoder handled only %u of %u valid files", own, good);
    png_ways_destroy(both);
}

/* --- one odd property per file --- */

struct odd {
    const char *name;
    size_t at; /* where `bytes` are inserted */
    const char *bytes;
    size_t len;
    bool own; /* our decoder does not give up */
};

/* Chunks that are inserted after IHDR. */
static const struct odd odds[] = {
    {"text", 33, "\0\0\0\3tEXta\0b....", 15, true},
    {"gamma of a wrong length", 33, "\0\0\0\1gAMAx....", 13, true},
    {"unknown", 33, "\0\0\0\0abCd....", 12, true},
    {"unknown, reserved bit", 33, "\0\0\0\0abcd....", 12, false},
    {"unknown and critical", 33, "\0\0\0\0AbCd....", 12, false},
    {"no letters", 33, "\0\0\0\0a1Cd....", 12, false},
    {"transparency without colours", 33, "\0\0\0\1tRNSx....", 13, false},
    {"a second IHDR", 33, "\0\0\0\xdIHDR\0\0\0\5\0\0\0\5\b\3\0\0\0....", 25, false},
    {"no colours", 33, "\0\0\0\0PLTE....", 12, false},
    {"a colour too short", 33, "\0\0\0\2PLTExx....", 14, false},
    {"EXIF too short", 33, "\0\0\0\1eXIfI....", 13, false},
    {"EXIF of neither order", 33,
     "\0\0\0\xa"
     "eXIfIM*\0\0\0\0\x8\0\0....",
     22, false},
    {"the end before the data", 33, "\0\0\0\0IEND....", 12, false},
};

Test(png_own, odd_chunks)
{
    struct png_ways *both = png_ways_create();
    static const uint32_t all[4] = {0};
    char why[300];

    for (uint32_t i = 0; i < ARRAY_LEN(odds) * 4; i++) {
        const struct odd *o = &odds[i / 4];
        struct made m = make(i % 2 ? 8 : 10, 0, 18, 11);
        size_t len = m.len + o->len;
        uint8_t *bytes = malloc(len);

        memcpy(bytes, m.bytes, o->at);
        memcpy(bytes + o->at, o->bytes, o->len);
        memcpy(bytes + o->at + o->len, m.bytes + o->at, m.len - o->at);
        if (i / 2 % 2)
            png_mend(bytes, len, false);
        cr_expect(png_ways_agree(both, bytes, len, 0, all, why), "%s, %u: %s", o->name, i % 4, why);
        cr_expect(png_ways_were_own(both) == o->own, "%s, %u", o->name, i % 4);
        free(bytes);
        free(m.bytes);
    }
    png_ways_destroy(both);
}

/* Data after the last needed row does not matter; all data before does. */
Test(png_own, cut_off_at_every_byte_it_is_judged_as_by_libpng)
{
    struct png_ways *both = png_ways_create();
    char why[300];
    uint32_t good = 0;

    for (size_t form = 0; form < ARRAY_LEN(forms); form++) {
        struct made whole = make(form, 4, 20, 25), m = png_cut(&whole, 50, 1);

        for (size_t len = 0; len <= m.len; len++) {
            struct philox_block d = philox_draw(6, (uint32_t)len, (uint32_t)form, DRAW_SEED, 0);

            cr_assert(png_ways_agree(both, m.bytes, len, 0, d.word, why), "%zu, %zu of %zu: %s",
                      form, len, m.len, why);
            good += png_ways_were_good(both);
        }
        free(whole.bytes);
        free(m.bytes);
    }
    cr_expect(good > 100, "%u", good);
    png_ways_destroy(both);
}

/* --- the parts --- */

Test(png_own, the_crc_is_that_of_the_definition_for_all_lengths_and_places)
{
    uint8_t bytes[400];

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * i * 31 + i);
    cr_expect(eq(u32, png_crc32((const uint8_t *)"123456789", 9), 0xcbf43926));
    for (size_t at = 0; at < 17; at++)
        for (size_t len = 0; at + len <= sizeof(bytes); len++) {
            cr_assert(eq(u32, png_crc32(bytes + at, len), png_slow_crc(bytes + at, len)));
            cr_assert(eq(u32, png_crc32_portable(bytes + at, len), png_slow_crc(bytes + at, len)));
        }
}

Test(png_own, the_adler_sum_is_that_of_the_definition)
{
    static uint8_t bytes[20000];

    for (uint32_t k = 0; k < 3; k++) {
        uint32_t a = 1, b = 0;

        for (size_t i = 0; i < sizeof(bytes); i++)
            bytes[i] = k == 0 ? 255 : k == 1 ? 0 : (uint8_t)(i * i * 7 + i / 3);
        for (size_t len = 0; len < sizeof(bytes); len++) {
            if (len < 600 || len % 977 == 0) {
                size_t cut = len / 3;
                uint32_t some = png_adler32(1, bytes, cut);

                cr_assert(eq(u32, png_adler32(1, bytes, len), b << 16 | a));
                cr_assert(eq(u32, png_adler32(some, bytes + cut, len - cut), b << 16 | a));
            }
            a = (a + bytes[len]) % 65521;
            b = (b + a) % 65521;
        }
    }
}

/* Returns the one of a, b and c that is nearest to a + b - c, ties in this order, as defined in the
 * PNG specification. */
static uint8_t nearest(int a, int b, int c)
{
    int p = a + b - c, pa = abs(p - a), pb = abs(p - b), pc = abs(p - c);

    return (uint8_t)(pa <= pb && pa <= pc ? a : pb <= pc ? b : c);
}

Test(png_own, paeth_takes_the_nearest_of_any_three)
{
    uint8_t from[9] = {0}, above[8] = {0}, got[8];

    for (uint32_t i = 0; i < 1 << 24; i++) {
        uint8_t a = (uint8_t)i, b = (uint8_t)(i >> 8), c = (uint8_t)(i >> 16);

        /* Make the first pixel `a`: its prediction is the pixel above. */
        above[0] = c;
        above[4] = b;
        from[0] = (uint8_t)(a - c);
        png_rows_pixels(4, 4, from, above, got, 2);
        cr_assert(got[0] == a && got[4] == nearest(a, b, c), "%d %d %d: %d", a, b, c, got[4]);
    }
}
