/* SPDX-License-Identifier: MIT */
/* Tests hints (where tiles begin): pixels do not depend on whether there is a hint, or on whether
 * it is damaged or another file's. A hint depends only on the file and on how many rows were
 * read. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/order/philox.h"
#include "common/util/util.h"
#include "loader/image/jpeg/jpeg_pixels.h"
#include "loader/image/reader.h"
#include "tests/loader/image/made.h"
#include "tests/loader/image/oracle.h"

/* A copy of a hint. */
struct hint {
    uint8_t bytes[1 << 16];
    size_t len;
};

static struct image_reader *new_reader(const char *kernels)
{
    struct image_reader *reader;

    cr_assert(eq(int, jpeg_reader_create(&reader), 0));
    jpeg_reader_use(reader, IMAGE_JPEG_PLENUM, kernels);
    return reader;
}

static void keep(struct hint *hint, const struct image_tiles *tiles)
{
    cr_assert(le(sz, tiles->found_len, tiles->found_max));
    cr_assert(le(sz, tiles->found_len, sizeof(hint->bytes)));
    memcpy(hint->bytes, tiles->found, tiles->found_len);
    hint->len = tiles->found_len;
}

/* Read a region with `hint` and compare it with the oracle. If the reader found more tiles, replace
 * `hint` and return true. */
static bool check_region(struct image_reader *reader, const struct made *m,
                         const struct oracle_image *whole, const struct rect *region,
                         struct hint *hint, const char *what)
{
    struct image_tiles tiles = {.hint = hint->bytes, .len = hint->len};
    struct image_header header;
    struct image_rows rows;

    reader->tiles = &tiles;
    cr_assert(eq(int, reader->ops->open(reader, m->bytes, m->len, &header, NULL), 0), "%s", what);
    cr_assert(eq(int, reader->ops->seek(reader, region, NULL), 0), "%s", what);
    for (uint32_t y = 0; y < region->height;) {
        cr_assert(eq(int, reader->ops->read(reader, &rows, NULL), 0), "%s", what);
        for (uint32_t i = 0; i < rows.count; i++, y++)
            for (uint32_t x = 0; x < region->width; x++)
                cr_assert(
                    memcmp(rows.pixels + i * rows.pitch + x * 4,
                           whole->rgb +
                               ((size_t)(region->top + y) * whole->width + region->left + x) * 3,
                           3) == 0,
                    "%s: %ux%u+%u+%u: (%u,%u)", what, region->width, region->height, region->left,
                    region->top, x, y);
    }
    reader->ops->close(reader);
    if (tiles.found)
        keep(hint, &tiles);
    return tiles.found != NULL;
}

static struct rect any_region(uint32_t seed, uint32_t draw, const struct oracle_image *whole)
{
    struct philox_block d = philox_draw(seed, draw, 3, DRAW_SEED, 0);
    struct rect r = {.left = philox_below(d.word[0], whole->width),
                     .top = philox_below(d.word[1], whole->height)};

    r.width = 1 + philox_below(d.word[2], whole->width - r.left);
    r.height = 1 + philox_below(d.word[3], whole->height - r.top);
    return r;
}

static struct rect last_pixel(const struct oracle_image *whole)
{
    return (struct rect){whole->width - 1, whole->height - 1, 1, 1};
}

/* Returns a kind of file that has tiles, with various sampling factors and restart intervals, which
 * divide rows evenly or not. */
static struct made_jpeg spec_of(uint32_t index)
{
    static const char *const sampling[] = {"22 11 11", "21 11 11", "11 11 11",
                                           "12 11 11", "41 11 11", "22 21 12"};
    struct philox_block d = philox_draw(91, index, 0, DRAW_SEED, 0);
    struct made_jpeg spec = {.width = 40 + d.word[0] % 200, .height = 40 + d.word[1] % 160};

    spec.seed = index;
    spec.quality = 40 + (int)(d.word[2] % 60);
    spec.colour = d.word[3] % 6 == 0 ? MADE_GREY : MADE_COLOUR;
    spec.optimised = d.word[3] >> 4 & 1;
    spec.restart = d.word[3] % 3 == 0 ? (int)(1 + (d.word[3] >> 9) % 12) : 0;
    if (d.word[3] % 9 == 0) { /* intervals divide rows evenly */
        spec.width = 8 * 16 * (1 + d.word[0] % 2);
        spec.restart = 1 << (d.word[3] >> 9) % 4;
    }
    (void)snprintf(spec.sampling, sizeof(spec.sampling), "%s",
                   sampling[d.word[3] / 64 % ARRAY_LEN(sampling)]);
    if (index % 7 == 3) { /* an interval is a row or a third of a row */
        (void)snprintf(spec.sampling, sizeof(spec.sampling), "22 11 11");
        spec.colour = MADE_COLOUR;
        spec.width = 12 * 16;
        spec.restart = index % 2 ? 12 : 4;
    }
    (void)snprintf(spec.name, sizeof(spec.name), "file %u", index);
    return spec;
}

Test(jpeg_tiles, regions_are_equal_with_any_known_tiles)
{
    static struct hint hint, all, again;
    const char *text = getenv("PLENUM_JPEG_FILES");
    uint64_t files = 120;

    if (text)
        cr_assert(eq(int, parse_u64(text, UINT32_MAX, &files), 0));
    for (size_t k = 0; jpeg_kernels[k]; k++) {
        uint32_t with_hints = 0, grown = 0;
        struct image_reader *reader;

        if (!jpeg_kernels[k]->usable())
            continue;
        reader = new_reader(jpeg_kernels[k]->name);
        for (uint32_t i = 0; i < files; i++) {
            struct made_jpeg spec = spec_of(i);
            struct made m = make_jpeg(&spec);
            struct oracle_image whole;
            struct rect last;

            cr_assert(eq(int, oracle_decode(m.bytes, m.len, UINT32_MAX, &whole), 0));
            hint.len = all.len = again.len = 0;
            for (uint32_t n = 0; n < 12; n++) {
                struct rect region = any_region(i, n, &whole);
                size_t before = hint.len;

                if (check_region(reader, &m, &whole, &region, &hint, spec.name)) {
                    cr_assert(gt(sz, hint.len, before),
                              "%s: a new hint is longer than the old "
                              "one",
                              spec.name);
                    grown += before > 0;
                    with_hints += before == 0;
                }
            }
            /* The complete hint is the same whatever was read in between, and with it nothing more
             * is found. */
            last = last_pixel(&whole);
            (void)check_region(reader, &m, &whole, &last, &hint, spec.name);
            (void)check_region(reader, &m, &whole, &last, &all, spec.name);
            cr_assert(hint.len == all.len && memcmp(hint.bytes, all.bytes, all.len) == 0, "%s",
                      spec.name);
            cr_assert(le(sz, all.len, m.len / 32), "%s: %zu bytes for %zu", spec.name, all.len,
                      m.len);
            for (uint32_t n = 0; n < 12; n++) {
                struct rect region = any_region(i, 100 + n, &whole);

                cr_assert(eq(int, check_region(reader, &m, &whole, &region, &all, spec.name), 0),
                          "%s: nothing is added to a complete hint", spec.name);
            }
            free(whole.rgb);
            free(m.bytes);
        }
        reader->ops->destroy(reader);
        cr_expect(with_hints > 80 && grown > 80, "%s: %u files with hints, which grew %u times",
                  jpeg_kernels[k]->name, with_hints, grown);
    }
}

/* Crops of every kind of file, at every offset. */
Test(jpeg_tiles, crops_at_every_offset)
{
    static struct hint hint;
    struct image_reader *reader = new_reader(NULL);

    for (uint32_t i = 0; i < made_kinds_count; i++) {
        struct made_jpeg spec = made_kinds[i];
        struct oracle_image whole;
        struct rect region;
        struct made m;

        spec.width = 115;
        spec.height = 59;
        spec.quality = 95;
        m = make_jpeg(&spec);
        cr_assert(eq(int, oracle_decode(m.bytes, m.len, UINT32_MAX, &whole), 0));
        hint.len = 0;
        region = last_pixel(&whole);
        (void)check_region(reader, &m, &whole, &region, &hint, spec.name);
        for (region.top = 0; region.top < spec.height; region.top += 3)
            for (region.left = 0; region.left < spec.width; region.left++) {
                region.width = (uint32_t)min_u64(1 + (region.left * 7 + region.top) % 60,
                                                 spec.width - region.left);
                region.height = (uint32_t)min_u64(1 + (region.left + region.top) % 19,
                                                  spec.height - region.top);
                (void)check_region(reader, &m, &whole, &region, &hint, spec.name);
            }
        free(whole.rgb);
        free(m.bytes);
    }
    reader->ops->destroy(reader);
}

static struct made usual_file(uint32_t seed)
{
    struct made_jpeg spec = {.name = "usual", .width = 150, .height = 100, .colour = MADE_COLOUR};

    spec.seed = seed;
    spec.quality = 90;
    return make_jpeg(&spec);
}

/* Pixels must be correct even if any bit of a hint is wrong. */
Test(jpeg_tiles, every_flipped_bit_of_a_hint)
{
    static struct hint hint, flipped;
    struct image_reader *reader = new_reader(NULL);
    struct made m = usual_file(1);
    struct rect regions[] = {
        {0, 0, 150, 100}, {70, 30, 20, 20}, {10, 60, 130, 35}, {100, 90, 50, 10}};
    struct oracle_image whole;
    struct rect last;

    cr_assert(eq(int, oracle_decode(m.bytes, m.len, UINT32_MAX, &whole), 0));
    last = last_pixel(&whole);
    hint.len = 0;
    cr_assert(check_region(reader, &m, &whole, &last, &hint, "whole"));
    for (size_t i = 0; i < hint.len * 8; i++)
        for (size_t k = 0; k < ARRAY_LEN(regions); k++) {
            flipped = hint;
            flipped.bytes[i / 8] ^= (uint8_t)(1 << i % 8);
            (void)check_region(reader, &m, &whole, &regions[k], &flipped, "flipped");
        }
    for (size_t len = 0; len < hint.len; len++) {
        flipped = hint;
        flipped.len = len;
        (void)check_region(reader, &m, &whole, &regions[1], &flipped, "cut off");
    }
    free(whole.rgb);
    free(m.bytes);
    reader->ops->destroy(reader);
}

/* The hash covers each byte of the file. So a file that was changed above a crop gives the same
 * error or the same pixels with an old hint as without one. */
Test(jpeg_tiles, changed_files)
{
    static struct hint hint, old;
    struct image_reader *reader = new_reader(NULL), *plain = new_reader(NULL);
    struct made m = usual_file(1), other = usual_file(2);
    struct rect region = {60, 70, 40, 20}, last;
    struct oracle_image whole;
    uint32_t bad = 0;

    cr_assert(eq(int, oracle_decode(m.bytes, m.len, UINT32_MAX, &whole), 0));
    last = last_pixel(&whole);
    old.len = 0;
    cr_assert(check_region(reader, &m, &whole, &last, &old, "whole"));
    free(whole.rgb);

    hint = old;
    cr_assert(eq(int, oracle_decode(other.bytes, other.len, UINT32_MAX, &whole), 0));
    cr_assert(check_region(reader, &other, &whole, &last, &hint, "another file's hint"),
              "it was believed");
    free(whole.rgb);

    for (size_t i = 0; i < m.len; i++) {
        struct image_tiles tiles = {.hint = old.bytes, .len = old.len};
        struct image_header a, b;
        struct image_rows rows[2];
        int r, s;

        m.bytes[i] ^= 0x10;
        reader->tiles = &tiles;
        r = reader->ops->open(reader, m.bytes, m.len, &a, NULL);
        s = plain->ops->open(plain, m.bytes, m.len, &b, NULL);
        cr_assert(eq(int, r, s), "byte %zu", i);
        if (r == 0 && a.width == 150 && a.height == 100) {
            uint32_t done[2] = {0};

            r = reader->ops->seek(reader, &region, NULL);
            s = plain->ops->seek(plain, &region, NULL);
            while (r == 0 && s == 0 && done[0] < region.height) {
                r = reader->ops->read(reader, &rows[0], NULL);
                s = plain->ops->read(plain, &rows[1], NULL);
                cr_assert(eq(int, r, s), "byte %zu", i);
                cr_assert(r < 0 || rows[0].count == rows[1].count, "byte %zu", i);
                for (uint32_t y = 0; r == 0 && y < rows[0].count; y++, done[0]++)
                    cr_assert(memcmp(rows[0].pixels + y * rows[0].pitch,
                                     rows[1].pixels + y * rows[1].pitch,
                                     (size_t)region.width * 4) == 0,
                              "byte %zu", i);
            }
            bad += r < 0;
        }
        reader->ops->close(reader);
        plain->ops->close(plain);
        m.bytes[i] ^= 0x10;
    }
    cr_expect(bad > 0, "at least one change makes the file bad");
    free(m.bytes);
    free(other.bytes);
    reader->ops->destroy(reader);
    plain->ops->destroy(plain);
}
