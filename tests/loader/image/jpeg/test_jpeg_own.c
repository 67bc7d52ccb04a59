/* SPDX-License-Identifier: MIT */
/* Compares our own JPEG decoder with libjpeg-turbo: every byte of every row, with every set of
 * loops.
 *
 * PLENUM_JPEG_FILES=N makes N files instead of a few hundred (100000 take a minute or two).
 * PLENUM_PHOTOS=DIR names a folder whose sub-folders contain photographs to compare as well. */
#include "config.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/order/philox.h"
#include "common/util/util.h"
#include "loader/image/jpeg/jpeg_own.h"
#include "loader/image/jpeg/jpeg_pixels.h"
#include "loader/image/reader.h"
#include "tests/loader/image/made.h"
#include "tests/loader/image/oracle.h"

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Compare a region from our decoder, which must not give up, with that part of libjpeg's image. */
static void check_region(struct jpeg_own *own, const uint8_t *bytes, size_t len,
                         const struct oracle_image *whole, struct rect want, const char *what)
{
    struct image_rows rows;
    uint32_t width, height;

    want.width = least(want.width, whole->width - want.left);
    want.height = least(want.height, whole->height - want.top);
    cr_assert(eq(int, jpeg_own_open(own, bytes, len, false, &width, &height), 0), "%s: not ours",
              what);
    cr_assert(width == whole->width && height == whole->height);
    cr_assert(eq(int, jpeg_own_seek(own, &want), 0), "%s: not ours", what);
    for (uint32_t y = 0; y < want.height;) {
        cr_assert(eq(int, jpeg_own_read(own, &rows), 0), "%s, %ux%u: gives up at row %u", what,
                  width, height, y);
        for (uint32_t i = 0; i < rows.count; i++, y++) {
            const uint8_t *rgb = whole->rgb + ((size_t)(want.top + y) * width + want.left) * 3;
            const uint8_t *got = rows.pixels + i * rows.pitch;

            for (uint32_t x = 0; x < want.width; x++, got += 4, rgb += 3)
                cr_assert(memcmp(got, rgb, 3) == 0,
                          "%s, %ux%u: %ux%u+%u+%u: (%u,%u) is %u,%u,%u instead of %u,%u,%u", what,
                          width, height, want.width, want.height, want.left, want.top, x, y, got[0],
                          got[1], got[2], rgb[0], rgb[1], rgb[2]);
        }
    }
    jpeg_own_close(own);
}

/* Compare the whole image and `regions` parts of it, with every set of loops. */
static void check_parts(struct jpeg_own *own, const struct image_file *file,
                        const struct oracle_image *image, uint32_t regions, uint32_t seed,
                        const char *what)
{
    struct oracle_image whole = *image;
    char text[200];

    for (size_t k = 0; jpeg_kernels[k]; k++) {
        if (!jpeg_kernels[k]->usable())
            continue;
        jpeg_own_use(own, jpeg_kernels[k]);
        (void)snprintf(text, sizeof(text), "%s (%s)", what, jpeg_kernels[k]->name);
        check_region(own, file->bytes, file->len, &whole,
                     (struct rect){0, 0, whole.width, whole.height}, text);
        for (uint32_t i = 0; i < regions; i++) {
            struct philox_block d = philox_draw(seed, i, 1, DRAW_SEED, 0);

            check_region(own, file->bytes, file->len, &whole,
                         (struct rect){philox_below(d.word[0], whole.width),
                                       philox_below(d.word[1], whole.height),
                                       1 + philox_below(d.word[2], whole.width),
                                       1 + philox_below(d.word[3], whole.height)},
                         text);
        }
    }
}

static void check_file(struct jpeg_own *own, const uint8_t *bytes, size_t len, uint32_t regions,
                       uint32_t seed, const char *what)
{
    struct oracle_image whole;

    cr_assert(eq(int, oracle_decode(bytes, len, UINT32_MAX, &whole), 0), "%s", what);
    check_parts(own, &(struct image_file){bytes, len}, &whole, regions, seed, what);
    free(whole.rgb);
}

/* Replace libjpeg's image by that of our loops in plain C. */
static void take_ours(struct jpeg_own *own, const uint8_t *bytes, size_t len,
                      struct oracle_image *whole)
{
    struct rect all = {.width = whole->width, .height = whole->height};
    struct image_rows rows;
    uint32_t width, height;

    jpeg_own_use(own, &jpeg_portable);
    cr_assert(eq(int, jpeg_own_open(own, bytes, len, false, &width, &height), 0));
    cr_assert(eq(int, jpeg_own_seek(own, &all), 0));
    for (uint32_t y = 0; y < height;) {
        cr_assert(eq(int, jpeg_own_read(own, &rows), 0));
        for (uint32_t i = 0; i < rows.count; i++, y++)
            for (uint32_t x = 0; x < width; x++)
                memcpy(whole->rgb + ((size_t)y * width + x) * 3,
                       rows.pixels + i * rows.pitch + 4 * x, 3);
    }
    jpeg_own_close(own);
}

/* Returns whether libjpeg can encode and upsample these sampling factors, and an MCU has at most
 * ten blocks. */
static bool possible(const uint32_t *h, const uint32_t *v)
{
    uint32_t blocks = 0, h_max = 1, v_max = 1;

    for (uint32_t i = 0; i < 3; i++) {
        blocks += h[i] * v[i];
        h_max = h[i] > h_max ? h[i] : h_max;
        v_max = v[i] > v_max ? v[i] : v_max;
    }
    for (uint32_t i = 0; i < 3; i++)
        if (h_max % h[i] != 0 || v_max % v[i] != 0)
            return false;
    return blocks <= 10;
}

/* Returns a random kind of file: half of them have common sampling factors, half any possible
 * ones. */
static struct made_jpeg spec_of(uint32_t index)
{
    static const char *const common[] = {"22 11 11", "21 11 11", "11 11 11", "12 11 11",
                                         "41 11 11"};
    struct philox_block a = philox_draw(77, index, 0, DRAW_SEED, 0);
    struct philox_block b = philox_draw(77, index, 0, DRAW_SEED, 1);
    struct made_jpeg spec = {.width = 1 + a.word[0] % 70, .height = 1 + a.word[1] % 70};
    uint32_t h[3], v[3];

    spec.seed = index;
    spec.quality = 1 + (int)(a.word[2] % 100);
    spec.colour = a.word[3] % 8 == 0 ? MADE_GREY : a.word[3] % 8 == 1 ? MADE_RGB : MADE_COLOUR;
    spec.wide_tables = a.word[3] >> 4 & 1;
    spec.optimised = a.word[3] >> 5 & 1;
    spec.no_jfif = a.word[3] >> 6 & 1;
    spec.restart = a.word[3] >> 8 & 1 ? (int)(1 + (a.word[3] >> 9) % 12) : 0;
    (void)snprintf(spec.sampling, sizeof(spec.sampling), "%s",
                   common[b.word[1] % ARRAY_LEN(common)]);
    for (uint32_t draw = 2; b.word[0] % 2 && draw < 1000; draw++) {
        struct philox_block d = philox_draw(77, index, 0, DRAW_SEED, draw);

        for (uint32_t i = 0; i < 3; i++) {
            h[i] = 1 + (d.word[0] >> 4 * i) % 4;
            v[i] = 1 + (d.word[1] >> 4 * i) % 4;
        }
        if (!possible(h, v))
            continue;
        (void)snprintf(spec.sampling, sizeof(spec.sampling), "%u%u %u%u %u%u", h[0], v[0], h[1],
                       v[1], h[2], v[2]);
        break;
    }
    (void)snprintf(spec.name, sizeof(spec.name), "file %u", index);
    return spec;
}

static uint32_t files_wanted(uint32_t usual)
{
    const char *text = getenv("PLENUM_JPEG_FILES");
    uint64_t n;

    return text && parse_u64(text, UINT32_MAX, &n) == 0 ? (uint32_t)n : usual;
}

static const char *describe(const struct made_jpeg *s, char *text, size_t size)
{
    (void)snprintf(text, size, "%s: colour %d, %s, quality %d%s%s, restart %d, script %u", s->name,
                   s->colour, s->sampling, s->quality, s->wide_tables ? ", wide tables" : "",
                   s->optimised ? ", optimised" : "", s->restart, s->script);
    return text;
}

/* Check random files. `several`: files with several scans, of all kinds. */
static void check_files_of_all_forms(bool several)
{
    struct jpeg_own *own;
    char text[200];

    cr_assert(eq(int, jpeg_own_create(&own), 0));
    for (uint32_t i = 0; i < files_wanted(700); i++) {
        struct made_jpeg spec = spec_of(i);
        struct made m;

        spec.script = several ? 1 + i : 0;
        m = make_jpeg(&spec);
        check_file(own, m.bytes, m.len, 3, i, describe(&spec, text, sizeof(text)));
        free(m.bytes);
    }
    jpeg_own_destroy(own);
}

Test(jpeg_own, files_of_all_forms)
{
    check_files_of_all_forms(false);
}

Test(jpeg_own, files_of_several_scans)
{
    check_files_of_all_forms(true);
}

/* Add a black component to any kind of file. Returns false if an MCU gets too many blocks. */
static bool print_of(struct made_jpeg *spec, uint32_t index)
{
    uint32_t blocks = 0,
             first = index / 2 % 2; /* black is sampled like the first component, or 1x1 */
    char text[sizeof(spec->sampling) + 3];

    (void)snprintf(text, sizeof(text), "%s %.2s", spec->sampling, first ? spec->sampling : "11");
    for (uint32_t i = 0; i < 4; i++)
        blocks += (uint32_t)(text[3 * i] - '0') * (uint32_t)(text[3 * i + 1] - '0');
    memcpy(spec->sampling, text, sizeof("11 11 11 11"));
    spec->colour = index % 2 ? MADE_CMYK : MADE_YCCK;
    spec->progressive = index / 4 % 2;
    return blocks <= 10;
}

/* Check a whole file that libjpeg-turbo decodes and the reader converts from CMYK. */
static void check_library(struct image_reader *reader, const struct made *m, const char *what)
{
    struct image_header header;
    struct image_rows rows;
    struct oracle_image whole;
    struct rect all = {0};

    cr_assert(eq(int, oracle_decode(m->bytes, m->len, UINT32_MAX, &whole), 0), "%s", what);
    all.width = whole.width;
    all.height = whole.height;
    cr_assert(eq(int, reader->ops->open(reader, m->bytes, m->len, &header, NULL), 0), "%s", what);
    cr_assert(eq(int, reader->ops->seek(reader, &all, NULL), 0), "%s", what);
    for (uint32_t y = 0; y < all.height;) {
        cr_assert(eq(int, reader->ops->read(reader, &rows, NULL), 0), "%s", what);
        for (uint32_t i = 0; i < rows.count; i++, y++)
            for (uint32_t x = 0; x < all.width; x++)
                cr_assert(memcmp(rows.pixels + i * rows.pitch + x * 4,
                                 whole.rgb + ((size_t)y * all.width + x) * 3, 3) == 0,
                          "%s: (%u,%u)", what, x, y);
    }
    reader->ops->close(reader);
    free(whole.rgb);
}

Test(jpeg_own, files_of_four_components)
{
    struct image_reader *reader;
    struct jpeg_own *own;
    uint32_t made = 0;
    char text[200];

    cr_assert(eq(int, jpeg_reader_create(&reader), 0));
    jpeg_reader_use(reader, IMAGE_JPEG_LIBJPEG, NULL);
    cr_assert(eq(int, jpeg_own_create(&own), 0));
    for (uint32_t i = 0; i < files_wanted(700) / 2; i++) {
        struct made_jpeg spec = spec_of(i);
        struct made m;

        if (!print_of(&spec, i))
            continue;
        m = make_jpeg(&spec);
        check_file(own, m.bytes, m.len, 3, i, describe(&spec, text, sizeof(text)));
        check_library(reader, &m, text);
        free(m.bytes);
        made++;
    }
    cr_expect(made > files_wanted(700) / 4);
    jpeg_own_destroy(own);
    reader->ops->destroy(reader);
}

/* Adobe's segment decides whether four components are YCCK; without such a segment, they are
 * CMYK. */
Test(jpeg_own, adobe_segment_of_four_components)
{
    struct made_jpeg spec = {.name = "print", .width = 50, .height = 40, .colour = MADE_YCCK};
    struct made m = make_jpeg(&spec);
    struct jpeg_own *own;
    uint32_t width, height;
    uint8_t *at;

    cr_assert(eq(int, jpeg_own_create(&own), 0));
    at = memmem(m.bytes, m.len, "Adobe", 5);
    cr_assert(at != NULL);
    cr_expect(eq(u8, at[11], 2));
    check_file(own, m.bytes, m.len, 3, 1, "YCCK");
    at[11] = 0;
    check_file(own, m.bytes, m.len, 3, 1, "CMYK");
    for (uint8_t unknown = 1; unknown < 9; unknown += 2) {
        at[11] = unknown; /* libjpeg warns */
        cr_expect(
            eq(int, jpeg_own_open(own, m.bytes, m.len, false, &width, &height), JPEG_OWN_GIVES_UP));
    }
    memcpy(at, "adobe", 5);
    check_file(own, m.bytes, m.len, 3, 1, "without the segment");
    jpeg_own_destroy(own);
    free(m.bytes);
}

/* Check files with sums that wrap, sums that are clamped between the passes, and samples far out of
 * range. libjpeg-turbo's inverse DCT wraps differently on processors other than x86, so there our
 * loops in plain C are the reference. The hash of all pixels does not depend on the processor. */
static void check_coefficients_that_no_encoder_makes(bool several, uint64_t golden)
{
    const uint32_t files = files_wanted(300);
    struct jpeg_own *own;
    XXH3_state_t state;
    char text[200];

    (void)XXH3_64bits_reset(&state);
    cr_assert(eq(int, jpeg_own_create(&own), 0));
    for (uint32_t i = 0; i < files; i++) {
        struct made_jpeg spec = spec_of(i);
        struct oracle_image whole;
        struct made m;

        spec.script = several ? 1 + i : 0;
        m = make_wild_jpeg(&spec);
        (void)describe(&spec, text, sizeof(text));
        cr_assert(eq(int, oracle_decode(m.bytes, m.len, UINT32_MAX, &whole), 0), "%s", text);
        if (!oracle_judges(m.bytes, m.len))
            take_ours(own, m.bytes, m.len, &whole);
        check_parts(own, &(struct image_file){m.bytes, m.len}, &whole, 1, i, text);
        if (i < 300)
            (void)XXH3_64bits_update(&state, whole.rgb, (size_t)whole.width * whole.height * 3);
        free(whole.rgb);
        free(m.bytes);
    }
    cr_expect(files < 300 || XXH3_64bits_digest(&state) == golden, "%016llx",
              (unsigned long long)XXH3_64bits_digest(&state));
    jpeg_own_destroy(own);
}

Test(jpeg_own, coefficients_that_no_encoder_makes)
{
    check_coefficients_that_no_encoder_makes(false, 0x1340b4c81f7f1c33);
}

Test(jpeg_own, coefficients_that_no_encoder_makes_in_several_scans)
{
    check_coefficients_that_no_encoder_makes(true, 0x7fdfc06581fa1ce6);
}

static bool is_ours(const struct made_jpeg *kind)
{
    return !kind->arithmetic;
}

struct kind {
    uint32_t index; /* in made_kinds[] */
};

ParameterizedTestParameters(jpeg_own, crops_at_every_offset)
{
    static struct kind kinds[64];

    for (uint32_t i = 0; i < made_kinds_count; i++)
        kinds[i].index = i;
    return cr_make_param_array(struct kind, kinds, made_kinds_count);
}

ParameterizedTest(struct kind *k, jpeg_own, crops_at_every_offset)
{
    struct made_jpeg spec = made_kinds[k->index];
    struct oracle_image whole;
    struct jpeg_own *own;
    uint32_t width, height;
    struct made m;

    spec.width = 67;
    spec.height = 59;
    m = make_jpeg(&spec);
    cr_assert(eq(int, jpeg_own_create(&own), 0));
    if (!is_ours(&spec)) {
        cr_expect(
            eq(int, jpeg_own_open(own, m.bytes, m.len, false, &width, &height), JPEG_OWN_GIVES_UP));
    } else {
        cr_assert(eq(int, oracle_decode(m.bytes, m.len, UINT32_MAX, &whole), 0));
        for (uint32_t y = 0; y < spec.height; y++)
            for (uint32_t x = 0; x < spec.width; x++)
                check_region(own, m.bytes, m.len, &whole,
                             (struct rect){x, y, 1 + (x * 7 + y) % 40, 1 + (y * 5 + x) % 30},
                             spec.name);
        free(whole.rgb);
    }
    jpeg_own_destroy(own);
    free(m.bytes);
}

/* Run the loops for this processor and those in plain C on random bytes. */
Test(jpeg_own, every_set_of_loops_gives_the_same_bytes)
{
    enum { COUNT = 5 };
    static int16_t coef[COUNT][JPEG_COEF_ROOM] __attribute__((aligned(64)));
    static int16_t quant[COUNT][64];
    static uint8_t rows[3][512], out[2][2048 + 1024], samples[2][8][COUNT * 8 + 3];
    struct jpeg_block blocks[2][COUNT];

    for (uint32_t round = 0; round < 3000; round++) {
        for (uint32_t i = 0; i < COUNT * 64; i++) {
            struct philox_block d = philox_draw(5, i, round, DRAW_SEED, 0);

            coef[i / 64][i % 64] = (int16_t)((int16_t)d.word[0] >> d.word[2] % 16);
            quant[i / 64][i % 64] = (int16_t)((int16_t)d.word[1] >> d.word[3] % 16);
        }
        for (uint32_t i = 0; i < sizeof(rows); i++)
            rows[i / 512][i % 512] =
                (uint8_t)philox_draw(6, i / 4, round, DRAW_SEED, 0).word[i % 4];
        for (size_t k = 0; jpeg_kernels[k]; k++) {
            const struct jpeg_kernels *kernels[2] = {&jpeg_portable, jpeg_kernels[k]};
            const uint8_t *planes[3] = {rows[0], rows[1], rows[2]};
            uint32_t n = 1 + round % 300;

            if (!kernels[1]->usable())
                continue;
            for (uint32_t s = 0; s < 2; s++) {
                for (uint32_t i = 0; i < COUNT; i++)
                    blocks[s][i] = (struct jpeg_block){coef[i], quant[i], &samples[s][0][8 * i],
                                                       sizeof(samples[s][0])};
                kernels[s]->idct(blocks[s], 1 + round % COUNT);
            }
            cr_assert(memcmp(samples[0], samples[1], sizeof(samples[0])) == 0, "idct, round %u",
                      round);
#define SAME(bytes, call)                                                                \
    do {                                                                                 \
        for (uint32_t s = 0; s < 2; s++)                                                 \
            kernels[s]->call;                                                            \
        cr_assert(memcmp(out[0], out[1], bytes) == 0, #call ", round %u, %u", round, n); \
    } while (0)
            SAME(n * 2, h2v1(rows[0] + 1, n, out[s]));
            SAME(n * 2, h2v2(rows[0] + 1, rows[1] + 1, n, out[s]));
            SAME(n, h1v2(rows[0], rows[1], 1 + round % 2, n, out[s]));
            SAME(n * 4, ycc(planes, n, out[s]));
            SAME(n * 4, rgb(planes, n, out[s]));
            SAME(n * 4, grey(planes, n, out[s]));
        }
    }
}

/* Make a table of random codes: as many of each length as fit, or fewer. */
static void random_codes(uint32_t round, uint8_t *bytes, struct jpeg_huff_spec *spec)
{
    uint32_t room = 1, shortest = 1 + round % 9;

    spec->bytes = bytes;
    spec->count = 0;
    memset(bytes, 0, 16);
    for (uint32_t len = 1; len <= 16; len++) {
        struct philox_block d = philox_draw(9, len, round, DRAW_SEED, 0);
        uint32_t n;

        room = 2 * room < 600 ? 2 * room : 600;
        if (len < shortest)
            continue;
        n = least(philox_below(d.word[0], room), 256 - spec->count);
        bytes[len - 1] = (uint8_t)least(n, 255);
        spec->count += bytes[len - 1];
        room -= bytes[len - 1];
    }
    for (uint32_t i = 0; i < spec->count; i++)
        bytes[16 + i] = (uint8_t)philox_draw(10, i, round, DRAW_SEED, 0).word[0];
}

/* Check entry i of the table of many symbols, here at most `most`: it must equal the result of
 * looking up one symbol at a time. */
static void check_many(const struct jpeg_huff *h, uint32_t i, uint32_t most)
{
    uint32_t at = 0, steps = 0, before = 0, count = 0;

    while (h->one[i] != JPEG_RARE && at < JPEG_LOOK && steps < 64 && count < most) {
        jpeg_entry e = h->one[i << at & (JPEG_LOOKS - 1)];

        if (e == JPEG_RARE || at + (e >> 16 & 255) > JPEG_LOOK)
            break;
        before = steps;
        at += e & 255;
        steps += e >> 8 & 255;
        count++;
    }
    cr_assert(eq(u32, h->many[i], count ? at | steps << 8 | before << 16 : JPEG_RARE), "%u", i);
}

/* Check entry i of the table of one or two symbols: it must equal the result of looking up one
 * symbol at a time, and contain the first symbol's value. `most` is the number of symbols that it
 * may have. */
static void check_two(const struct jpeg_huff *h, uint32_t i, uint32_t most)
{
    jpeg_entry first = h->one[i], e = h->two[i], second;
    uint32_t length = first & 255, code = first >> 16 & 255, size = first >> 24;

    if (first == JPEG_RARE) {
        cr_assert(eq(u32, e, JPEG_RARE), "%u", i);
        return;
    }
    second = length < JPEG_LOOK ? h->one[i << length & (JPEG_LOOKS - 1)] : JPEG_RARE;
    cr_assert(eq(u32, e >> 14 & 127, first >> 8 & 255),
              "entry %u has the step of its first "
              "symbol",
              i);
    if (most == 1 || (first >> 8 & 255) == JPEG_STEP_EOB || size > 3 || second == JPEG_RARE ||
        length + (second >> 16 & 255) > JPEG_LOOK) {
        cr_assert(eq(u32, e & 0xFFE03FFF, length | code << 6 | size << 10), "alone, %u", i);
        return;
    }
    cr_assert(eq(u32, e & 63, length + (second & 255)), "%u", i);
    cr_assert(eq(u32, e >> 6 & 15, length + (second >> 16 & 255)), "%u", i);
    cr_assert(eq(u32, e >> 10 & 15, second >> 24), "%u", i);
    cr_assert(eq(u32, e >> 21 & 127, second >> 8 & 255), "%u", i);
    cr_assert(eq(int, (int32_t)e >> 28, jpeg_value((uint64_t)i << (64 - JPEG_LOOK), code, size)),
              "%u", i);
}

/* For an image with little data, a table is filled with one symbol per entry. Symbols are combined
 * when another image uses the table, or at once if the image has much data. */
Test(jpeg_own, tables_are_combined_if_that_pays_off)
{
    struct jpeg_huffs huffs = {0};
    uint32_t good = 0;

    for (uint32_t round = 0; round < 300; round++) {
        const struct jpeg_huff *one, *two;
        uint8_t bytes[16 + 256];
        struct jpeg_huff_spec spec;
        bool much = round % 3 == 0;
        int r;

        random_codes(round, bytes, &spec);
        jpeg_huffs_begin(&huffs, jpeg_huff_fill, much ? 1 << 20 : 500);
        one = jpeg_huff_get(&huffs, JPEG_HUFF_AC, &spec, &r);
        two = jpeg_huff_get(&huffs, JPEG_HUFF_AC, &spec, &r); /* for another component */
        cr_assert(eq(ptr, (void *)one, (void *)two));
        for (uint32_t i = 0; one && i < JPEG_LOOKS; i++) {
            check_many(one, i, much ? UINT32_MAX : 1);
            check_two(one, i, much ? 2 : 1);
        }
        jpeg_huffs_begin(&huffs, jpeg_huff_fill, 500);
        two = jpeg_huff_get(&huffs, JPEG_HUFF_AC, &spec, &r);
        cr_assert(eq(ptr, (void *)one, (void *)two));
        for (uint32_t i = 0; one && i < JPEG_LOOKS; i++) {
            check_many(two, i, UINT32_MAX);
            check_two(two, i, 2);
        }
        good += one != NULL;
    }
    cr_expect(good > 100, "%u tables", good);
    jpeg_huffs_fini(&huffs);
}

Test(jpeg_own, tables_of_several_symbols)
{
    struct jpeg_huffs huffs = {0};
    uint32_t good = 0;

    for (uint32_t round = 0; round < 300; round++) {
        struct jpeg_huff *h = aligned_alloc(64, align_up(sizeof(*h), 64));
        uint8_t bytes[16 + 256];
        struct jpeg_huff_spec spec;
        const struct jpeg_huff *plain;
        int r;

        random_codes(round, bytes, &spec);
        jpeg_huffs_begin(&huffs, jpeg_huff_fill, 1 << 20);
        plain = jpeg_huff_get(&huffs, JPEG_HUFF_AC, &spec, &r);
        for (uint32_t i = 0; plain && i < JPEG_LOOKS; i++)
            check_many(plain, i, UINT32_MAX);
        for (size_t k = 0; plain && jpeg_kernels[k]; k++) {
            if (!jpeg_kernels[k]->usable())
                continue;
            memcpy(h, plain, sizeof(*h));
            memset(h->two, 1, sizeof(h->two));
            memset(h->many, 1, sizeof(h->many));
            jpeg_kernels[k]->fill(h);
            for (uint32_t i = 0; i < JPEG_LOOKS; i++)
                cr_assert(h->two[i] == plain->two[i] && h->many[i] == plain->many[i], "%s, %u",
                          jpeg_kernels[k]->name, i);
        }
        good += plain != NULL;
        free(h);
    }
    cr_expect(good > 100, "%u tables", good);
    jpeg_huffs_fini(&huffs);
}

/* Convert all 2^24 colours. */
Test(jpeg_own, every_colour)
{
    static uint8_t planes[3][256], out[256 * 4 + 256];
    const uint8_t *const rows[3] = {planes[0], planes[1], planes[2]};

    for (uint32_t i = 0; i < 256; i++)
        planes[0][i] = (uint8_t)i;
    for (uint32_t cb = 0; cb < 256; cb++) {
        for (uint32_t cr = 0; cr < 256; cr++) {
            double r = 1.402 * (cr - 128.0), b = 1.772 * (cb - 128.0);
            double g = -0.344136 * (cb - 128.0) - 0.714136 * (cr - 128.0);
            double want[3] = {r, g, b};

            memset(planes[1], (int)cb, 256);
            memset(planes[2], (int)cr, 256);
            for (size_t k = 0; jpeg_kernels[k]; k++) {
                if (!jpeg_kernels[k]->usable())
                    continue;
                jpeg_kernels[k]->ycc(rows, 256, out);
                for (uint32_t i = 0; i < 256 * 3; i++) {
                    double x = i / 3 + want[i % 3], got = out[i / 3 * 4 + i % 3];

                    x = x < 0 ? 0 : x > 255 ? 255 : x;
                    cr_assert(got >= x - 0.51 && got <= x + 0.51, "%u,%u,%u", i / 3, cb, cr);
                }
            }
        }
    }
}

/* Our decoder delivers the good rows, and gives up where libjpeg would report an error. */
Test(jpeg_own, damage_in_the_middle_is_left_to_libjpeg)
{
    struct made_jpeg spec = {.name = "cut off", .width = 60, .height = 400, .colour = MADE_COLOUR};
    struct made m = make_jpeg(&spec);
    struct rect all = {0, 0, 60, 400};
    struct image_rows rows;
    struct jpeg_own *own;
    uint32_t width, height, good = 0;
    int r = 0;

    cr_assert(eq(int, jpeg_own_create(&own), 0));
    cr_assert(eq(int, jpeg_own_open(own, m.bytes, m.len * 2 / 3, false, &width, &height), 0));
    cr_assert(eq(int, jpeg_own_seek(own, &all), 0));
    while (r == 0 && good < 400) {
        r = jpeg_own_read(own, &rows);
        good += r == 0 ? rows.count : 0;
    }
    cr_expect(eq(int, r, JPEG_OWN_GIVES_UP));
    cr_expect(good > 150 && good < 350, "%u rows", good);
    jpeg_own_destroy(own);
    free(m.bytes);
}

/* The result of reading a file: all of its rows, or an error. */
struct outcome {
    int r;
    struct plenum_error err;
    uint8_t *rgb; /* [height][width][3]; malloc */
};

static struct outcome read_all(struct image_reader *reader, const uint8_t *bytes, size_t len)
{
    struct outcome o = {0};
    struct image_header header;
    struct image_rows rows;
    struct rect all = {0};
    uint8_t *to;

    o.r = reader->ops->open(reader, bytes, len, &header, &o.err);
    if (o.r == 0) {
        all.width = header.width;
        all.height = header.height;
        o.r = reader->ops->seek(reader, &all, &o.err);
    }
    o.rgb = to = malloc((size_t)all.width * all.height * 3 + 1);
    for (uint32_t y = 0; o.r == 0 && y < all.height;) {
        o.r = reader->ops->read(reader, &rows, &o.err);
        for (uint32_t i = 0; o.r == 0 && i < rows.count; i++, y++)
            for (uint32_t x = 0; x < all.width; x++, to += 3)
                memcpy(to, rows.pixels + i * rows.pitch + 4 * x, 3);
    }
    reader->ops->close(reader);
    return o;
}

/* Change some bits, bytes or the length. */
static void damage(struct made *m, uint32_t seed)
{
    struct philox_block d = philox_draw(12, seed, 0, DRAW_SEED, 0);
    uint32_t at = philox_below(d.word[0], (uint32_t)m->len), kind = d.word[3] % 5;

    if (kind == 0) /* at the beginning, where the headers are */
        at %= least(400, (uint32_t)m->len);
    if (kind < 3)
        m->bytes[at] ^= (uint8_t)(1U << d.word[1] % 8);
    else if (kind == 3)
        m->bytes[at] = d.word[1] % 2 ? 0xFF : (uint8_t)d.word[2];
    else
        m->len = at + 1;
}

/* For damaged files with several scans, both readers have the same decision, message and pixels. */
Test(jpeg_own, damage_of_several_scans_is_judged_by_libjpeg)
{
    struct image_reader *ours, *library;
    uint32_t good = 0, files = files_wanted(1500);
    char text[200];

    cr_assert(jpeg_reader_create(&ours) == 0 && jpeg_reader_create(&library) == 0);
    jpeg_reader_use(library, IMAGE_JPEG_LIBJPEG, NULL);
    for (uint32_t i = 0; i < files; i++) {
        struct made_jpeg spec = spec_of(i);
        struct outcome got, want;
        struct made m;

        spec.script = 1 + i;
        m = make_jpeg(&spec);
        for (uint32_t k = 0; k <= i % 3; k++)
            damage(&m, 3 * i + k);
        jpeg_reader_use(ours, IMAGE_JPEG_PLENUM, i % 2 ? "portable" : NULL);
        got = read_all(ours, m.bytes, m.len);
        want = read_all(library, m.bytes, m.len);
        (void)describe(&spec, text, sizeof(text));
        cr_assert(got.r == want.r && strcmp(got.err.text, want.err.text) == 0, "%s: %s, not %s",
                  text, got.err.text, want.err.text);
        if (want.r == 0 && oracle_judges(m.bytes, m.len)) {
            struct oracle_image whole;

            cr_assert(eq(int, oracle_decode(m.bytes, m.len, UINT32_MAX, &whole), 0));
            cr_assert(memcmp(got.rgb, whole.rgb, (size_t)whole.width * whole.height * 3) == 0, "%s",
                      text);
            free(whole.rgb);
        }
        good += want.r == 0;
        free(got.rgb);
        free(want.rgb);
        free(m.bytes);
    }
    cr_expect(good > files / 10 && good < files, "%u of %u files are good", good, files);
    ours->ops->destroy(ours);
    library->ops->destroy(library);
}

/* A byte 0xFF may be repeated before a marker or a stuffed zero. Our decoder stops there, and
 * libjpeg continues without an error, so our decoder must not have delivered a row that ran out of
 * bits. */
Test(jpeg_own, repeated_fill_bytes_make_no_row_wrong)
{
    struct made_jpeg spec = {.name = "fill", .width = 200, .height = 200, .colour = MADE_COLOUR};
    struct image_reader *reader;
    uint32_t tried = 0;

    cr_assert(eq(int, jpeg_reader_create(&reader), 0));
    jpeg_reader_use(reader, IMAGE_JPEG_PLENUM, NULL);
    for (uint32_t seed = 0; seed < 20; seed++) {
        struct oracle_image whole;
        struct made m;
        size_t at = 0;

        spec.seed = seed;
        m = make_jpeg(&spec);
        for (size_t i = m.len / 4; i + 1 < m.len && at == 0; i++)
            if (m.bytes[i] == 0xFF && m.bytes[i + 1] == 0)
                at = i;
        if (at > 0) {
            uint8_t *more = malloc(m.len + 1);
            struct rect all = {0, 0, spec.width, spec.height};
            struct image_header header;
            struct image_rows rows;

            tried++;
            memcpy(more, m.bytes, at);
            more[at] = 0xFF;
            memcpy(more + at + 1, m.bytes + at, m.len - at);
            cr_assert(eq(int, oracle_decode(more, m.len + 1, UINT32_MAX, &whole), 0));
            cr_assert(eq(int, reader->ops->open(reader, more, m.len + 1, &header, NULL), 0));
            cr_assert(eq(int, reader->ops->seek(reader, &all, NULL), 0));
            for (uint32_t y = 0; y < all.height;) {
                cr_assert(eq(int, reader->ops->read(reader, &rows, NULL), 0));
                for (uint32_t i = 0; i < rows.count; i++, y++)
                    for (uint32_t x = 0; x < all.width; x++)
                        cr_assert(memcmp(rows.pixels + i * rows.pitch + x * 4,
                                         whole.rgb + ((size_t)y * all.width + x) * 3, 3) == 0,
                                  "seed %u: (%u,%u)", seed, x, y);
            }
            reader->ops->close(reader);
            free(whole.rgb);
            free(more);
        }
        free(m.bytes);
    }
    cr_expect(tried > 10, "only %u files have a stuffed byte", tried);
    reader->ops->destroy(reader);
}

Test(jpeg_own, photographs)
{
    const char *folder = getenv("PLENUM_PHOTOS");
    uint32_t ours = 0, width, height;
    struct jpeg_own *own;
    char pattern[4096];
    glob_t paths;

    if (!folder)
        cr_skip_test("PLENUM_PHOTOS names no folder of photographs");
    (void)snprintf(pattern, sizeof(pattern), "%s/*/*.[jJ]*", folder);
    cr_assert(eq(int, glob(pattern, 0, NULL, &paths), 0), "%s", pattern);
    cr_assert(eq(int, jpeg_own_create(&own), 0));
    for (size_t i = 0; i < paths.gl_pathc; i++) {
        struct made m = read_file(paths.gl_pathv[i]);

        if (m.bytes && jpeg_own_open(own, m.bytes, m.len, false, &width, &height) == 0) {
            check_file(own, m.bytes, m.len, 3, (uint32_t)i, paths.gl_pathv[i]);
            ours++;
        }
        free(m.bytes);
    }
    cr_log_info("our decoder supports %u of %zu photographs", ours, paths.gl_pathc);
    cr_expect(ours > 0);
    globfree(&paths);
    jpeg_own_destroy(own);
}
