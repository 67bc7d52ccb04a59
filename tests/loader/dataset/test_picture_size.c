/* SPDX-License-Identifier: MIT */
/* Compares the sizes that are found in the first bytes of images with those that the decoders
 * find. */
#include "config.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#include "loader/dataset/picture_size.h"
#include "loader/image/image.h"
#include "tests/loader/image/made.h"

enum { WIDTH = 70, HEIGHT = 45 };

static struct image_decoder *decoder;

static void setup(void)
{
    cr_assert(eq(int, image_decoder_create(&decoder), 0));
}

static void teardown(void)
{
    image_decoder_destroy(decoder);
}

TestSuite(picture_size, .init = setup, .fini = teardown);

/* Compare with the decoder, which returns the size if it can read the header. */
static void compare(const char *name, struct made file)
{
    struct picture_size size = picture_size_find(file.bytes, file.len);
    struct image_info info = {0};

    (void)image_verify(decoder, &(struct image_file){file.bytes, file.len}, &info, NULL);
    cr_expect(gt(u32, info.width, 0), "%s", name);
    cr_expect(eq(u32, size.width, info.width), "%s", name);
    cr_expect(eq(u32, size.height, info.height), "%s", name);
    /* a part of the file gives the same size, or none */
    for (size_t len = 0; len < file.len; len += len < 64 ? 1 : 61) {
        uint8_t *part = malloc(len + 1);

        cr_assert(ne(ptr, (void *)part, NULL));
        memcpy(part, file.bytes, len);
        size = picture_size_find(part, len);
        cr_expect(size.width == 0 || size.width == info.width || len < 64, "%s %zu", name, len);
        free(part);
    }
    free(file.bytes);
}

Test(picture_size, of_jpegs)
{
    for (size_t i = 0; i < made_kinds_count; i++) {
        struct made_jpeg spec = made_kinds[i];

        spec.width = WIDTH;
        spec.height = HEIGHT;
        compare(spec.name, make_jpeg(&spec));
    }
}

Test(picture_size, of_pngs)
{
    compare("png",
            make_png(&(struct made_png){
                .name = "png", .width = WIDTH, .height = HEIGHT, .colour_type = 2, .depth = 8}));
}

Test(picture_size, of_ppms)
{
    for (size_t i = 0; i < made_ppms_count; i++) {
        struct made_ppm spec = made_ppms[i];

        spec.width = WIDTH;
        spec.height = HEIGHT;
        compare(spec.name, make_ppm(&spec));
    }
}

#ifdef HAVE_WEBP
Test(picture_size, of_webps)
{
    for (size_t i = 0; i < made_webps_count; i++) {
        struct made_webp spec = made_webps[i];

        spec.width = WIDTH;
        spec.height = HEIGHT;
        compare(spec.name, make_webp(&spec));
    }
}
#endif

#ifdef HAVE_AVIF
/* The size as stored: before turns, mirrors and clean apertures, which the decoder applies. */
Test(picture_size, of_avifs)
{
    for (size_t i = 0; i < made_avifs_count; i++) {
        struct made_avif spec = made_avifs[i];

        spec.width = WIDTH;
        spec.height = HEIGHT;
        compare(spec.name, make_avif(&spec));
    }
}

static size_t put_box(uint8_t *at, const char *name, size_t len)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(len >> (24 - 8 * i));
    memcpy(at + 4, name, 4);
    return 8;
}

/* Some boxes end early, claim more bytes than there are, or are nested deeply. */
Test(picture_size, of_damaged_avifs)
{
    uint8_t file[4096] = {0};
    size_t n = put_box(file, "ftyp", 16) + 8, meta = n;

    n += put_box(file + n, "meta", 0) + 4;
    n += put_box(file + n, "iprp", 0);
    n += put_box(file + n, "ipco", 0);
    n += put_box(file + n, "ispe", 20);
    file[n + 6] = 1;   /* a width of 256 */
    file[n + 11] = 77; /* a height */
    cr_expect(eq(u32, picture_size_find(file, n + 12).width, 256));
    cr_expect(eq(u32, picture_size_find(file, n + 12).height, 77));
    cr_expect(eq(u32, picture_size_find(file, n + 11).width, 0));
    file[n + 5] = 1; /* 65,792: beyond what an image may have */
    cr_expect(eq(u32, picture_size_find(file, n + 12).width, 0));
    file[n + 5] = 0;
    file[n - 8 + 3] = 7; /* a box that is smaller than its header */
    cr_expect(eq(u32, picture_size_find(file, n + 12).width, 0));
    (void)put_box(file + meta, "meta", 1); /* a size of 64 bits */
    cr_expect(eq(u32, picture_size_find(file, n + 12).width, 0));
    for (n = 16; n + 12 <= sizeof(file); n += 12)
        (void)put_box(file + n, "meta", sizeof(file) - n);
    cr_expect(eq(u32, picture_size_find(file, sizeof(file)).width, 0));
}
#endif

Test(picture_size, is_none_for_other_files)
{
    static const uint8_t text[] = "this is not an image, whatever its name says";

    cr_expect(eq(u32, picture_size_find(text, sizeof(text)).width, 0));
    cr_expect(eq(u32, picture_size_find(text, 0).width, 0));
    cr_expect(eq(u32, picture_size_find((const uint8_t *)"P6 70000 3\n", 11).width, 0));
    cr_expect(eq(u32, picture_size_find((const uint8_t *)"P6 7 3\n", 7).width, 7));
}
