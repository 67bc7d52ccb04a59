/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>

#include "common/order/philox.h"
#include "common/util/util.h"
#include "loader/image/exif.h"

#define ENTRY(tag, type, count, a, b, c, d) \
    0, 1, tag >> 8, tag & 255, 0, type, 0, 0, 0, count, a, b, c, d
#define BIG 'M', 'M', 0, 42, 0, 0, 0, 8

struct tiff_case {
    char why[48];
    uint8_t len, want;
    uint8_t bytes[48];
};

ParameterizedTestParameters(exif, tiff)
{
    static struct tiff_case cases[] = {
        {"a short, big-endian", 26, 6, {BIG, ENTRY(0x0112, 3, 1, 0, 6, 0, 0)}},
        {"a short, little-endian", 22, 8, {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12,
                                           1,   3,   0,  1, 0, 0, 0, 8, 0, 0, 0}},
        {"a byte", 26, 3, {BIG, ENTRY(0x0112, 1, 1, 3, 0, 0, 0)}},
        {"a long", 26, 5, {BIG, ENTRY(0x0112, 4, 1, 0, 0, 0, 5)}},
        {"two values are not an orientation", 26, 1, {BIG, ENTRY(0x0112, 3, 2, 0, 6, 0, 6)}},
        {"text is not an orientation", 26, 1, {BIG, ENTRY(0x0112, 2, 1, '6', 0, 0, 0)}},
        {"0 is none", 26, 1, {BIG, ENTRY(0x0112, 3, 1, 0, 0, 0, 0)}},
        {"9 is none", 26, 1, {BIG, ENTRY(0x0112, 3, 1, 0, 9, 0, 0)}},
        {"256 + 6 is none", 26, 1, {BIG, ENTRY(0x0112, 3, 1, 1, 6, 0, 0)}},
        {"another tag", 26, 1, {BIG, ENTRY(0x0113, 3, 1, 0, 6, 0, 0)}},
        {"the last of two counts", 34, 3, {BIG, 0, 2,    1, 0x12, 0, 3, 0, 0, 0, 1, 0, 6, 0,
                                           0,   1, 0x12, 0, 3,    0, 0, 0, 1, 0, 3, 0, 0}},
        {"the second entry is cut off", 33, 6, {BIG, 0, 2,    1, 0x12, 0, 3, 0, 0, 0, 1, 0, 6, 0,
                                                0,   1, 0x12, 0, 3,    0, 0, 0, 1, 0, 3, 0, 0}},
        {"a directory after the end", 12, 1, {'M', 'M', 0, 42, 255, 255, 255, 255}},
        {"a directory at the last byte", 12, 1, {'M', 'M', 0, 42, 0, 0, 0, 11}},
        {"more entries than bytes", 22, 6, {BIG, 255, 255, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, 6, 0, 0}},
        {"no byte order", 26, 1, {'M', 'I', 0, 42, 0, 0, 0, 8}},
        {"no 42", 26, 1, {'M', 'M', 0, 43, 0, 0, 0, 8}},
        {"seven bytes", 7, 1, {BIG}},
        {"nothing", 0, 1, {0}},
    };
    return cr_make_param_array(struct tiff_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct tiff_case *c, exif, tiff)
{
    uint8_t *exact = malloc(c->len + !c->len); /* exactly this size, for sanitizers */

    memcpy(exact, c->bytes, c->len);
    cr_expect(eq(int, exif_of_tiff(exact, c->len), c->want), "%s", c->why);
    free(exact);
}

#define APP1(size) 0xFF, 0xE1, 0, size, 'E', 'x', 'i', 'f', 0, 0

struct jpeg_case {
    char why[48];
    uint8_t len, want;
    uint8_t bytes[100];
};

#define SIX BIG, ENTRY(0x0112, 3, 1, 0, 6, 0, 0)

ParameterizedTestParameters(exif, jpeg)
{
    static struct jpeg_case cases[] = {
        {"the first segment", 40, 6, {0xFF, 0xD8, APP1(30), SIX}},
        {"after a comment", 45, 6, {0xFF, 0xD8, 0xFF, 0xFE, 0, 3, 7, APP1(30), SIX}},
        {"after fill bytes", 42, 6, {0xFF, 0xD8, 0xFF, 0xFF, APP1(30), SIX}},
        {"after a marker without length", 42, 6, {0xFF, 0xD8, 0xFF, 0x01, APP1(30), SIX}},
        {"after the first scan", 46, 1, {0xFF, 0xD8, 0xFF, 0xDA, 0, 2, APP1(30), SIX}},
        {"the first of two",
         70,
         3,
         {0xFF, 0xD8, APP1(30), BIG, ENTRY(0x0112, 3, 1, 0, 3, 0, 0), APP1(30), SIX}},
        {"after an APP1 of another kind",
         48,
         6,
         {0xFF, 0xD8, 0xFF, 0xE1, 0, 6, 'h', 't', 't', 'p', APP1(30), SIX}},
        {"a length of 1", 40, 1, {0xFF, 0xD8, 0xFF, 0xE1, 0, 1, 'E', 'x', 'i', 'f', 0, 0, SIX}},
        {"a segment longer than the file", 31, 1, {0xFF, 0xD8, APP1(30), SIX}},
        {"a segment shorter than its entry", 40, 1, {0xFF, 0xD8, APP1(20), SIX}},
        {"after a byte that belongs to no segment", 41, 6, {0xFF, 0xD8, 0, APP1(30), SIX}},
        {"after a stuffed byte", 43, 6, {0xFF, 0xD8, 7, 0xFF, 0, APP1(30), SIX}},
        {"no marker at all", 16, 1, {0xFF, 0xD8, 0}},
        {"only SOI", 2, 1, {0xFF, 0xD8}},
        {"ends in a marker", 3, 1, {0xFF, 0xD8, 0xFF}},
        {"ends in a length", 5, 1, {0xFF, 0xD8, 0xFF, 0xE1, 0}},
    };
    return cr_make_param_array(struct jpeg_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct jpeg_case *c, exif, jpeg)
{
    uint8_t *exact = malloc(c->len);

    memcpy(exact, c->bytes, c->len);
    cr_expect(eq(int, exif_of_jpeg(exact, c->len), c->want), "%s", c->why);
    free(exact);
}

struct pixel {
    uint32_t x, y;
};

/* Returns which stored pixel is shown at (x, y), as the comment at the top of exif.c defines it. */
static struct pixel stored_at(int orientation, uint32_t w, uint32_t h, uint32_t x, uint32_t y)
{
    const struct pixel table[9] = {
        {0, 0}, {x, y},         {w - 1 - x, y},         {w - 1 - x, h - 1 - y}, {x, h - 1 - y},
        {y, x}, {y, h - 1 - x}, {w - 1 - y, h - 1 - x}, {w - 1 - y, x},
    };

    return table[orientation];
}

Test(exif, a_turned_region_is_the_region_of_the_turned_image)
{
    enum { W = 11, H = 7 };
    uint8_t stored[H][W][4], turned[W * H * 4];

    for (uint32_t i = 0; i < sizeof(stored); i++)
        (&stored[0][0][0])[i] = (uint8_t)(i + i / 256);
    for (uint8_t o = 1; o <= 8; o++) {
        uint32_t seen_w = exif_swaps(o) ? H : W, seen_h = exif_swaps(o) ? W : H;

        for (uint32_t k = 0; k < 200; k++) {
            struct philox_block d = philox_draw(1, k, o, DRAW_SEED, 0);
            struct rect seen, r;
            struct exif_turn turn;

            seen.left = philox_below(d.word[0], seen_w);
            seen.top = philox_below(d.word[1], seen_h);
            seen.width = 1 + philox_below(d.word[2], seen_w - seen.left);
            seen.height = 1 + philox_below(d.word[3], seen_h - seen.top);
            r = exif_to_stored(o, seen, W, H);
            cr_assert(r.left + r.width <= W && r.top + r.height <= H);
            memset(turned, 0, sizeof(turned));
            turn = (struct exif_turn){o, r.width, r.height, 4, turned};
            for (uint32_t y = 0; y < r.height; y++)
                exif_turn_row(&turn, stored[r.top + y][r.left], y);
            for (uint32_t y = 0; y < seen.height; y++)
                for (uint32_t x = 0; x < seen.width; x++) {
                    struct pixel at = stored_at(o, W, H, seen.left + x, seen.top + y);

                    cr_assert(memcmp(turned + (y * seen.width + x) * 4, stored[at.y][at.x], 3) == 0,
                              "orientation %d, region %u, (%u, %u)", o, k, x, y);
                }
        }
    }
}
