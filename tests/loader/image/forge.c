/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tests/loader/image/forge.h"

#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

size_t forge_find(const uint8_t *bytes, size_t len)
{
    for (size_t at = 2; at + 20 <= len; at++)
        if (memcmp(bytes + at, "\xFF\xE9", 2) == 0 && memcmp(bytes + at + 4, "Plenum", 7) == 0)
            return at;
    return 0;
}

bool forge_sign(uint8_t *bytes, size_t len)
{
    size_t at = forge_find(bytes, len);
    uint8_t *copy;
    uint64_t sum;

    if (at == 0)
        return false;
    at += 12;
    copy = malloc(len);
    memcpy(copy, bytes, at);
    memcpy(copy + at, bytes + at + 8, len - at - 8);
    sum = XXH3_64bits(copy, len - 8);
    free(copy);
    for (int i = 0; i < 8; i++)
        bytes[at + i] = (uint8_t)(sum >> (56 - 8 * i));
    return true;
}

struct errors {
    struct jpeg_error_mgr manager;
    jmp_buf escape;
};

static void on_error(j_common_ptr c)
{
    longjmp(((struct errors *)c->err)->escape, 1);
}

static void on_output(j_common_ptr c)
{
    (void)c;
}

int forge_decode(const uint8_t *bytes, size_t len, struct oracle_image *ret)
{
    struct jpeg_decompress_struct d;
    struct errors errors;

    ret->rgb = NULL;
    d.err = jpeg_std_error(&errors.manager);
    errors.manager.error_exit = on_error;
    errors.manager.output_message = on_output;
    jpeg_create_decompress(&d);
    if (setjmp(errors.escape)) {
        jpeg_destroy_decompress(&d);
        free(ret->rgb);
        ret->rgb = NULL;
        return -EBADMSG;
    }
    jpeg_mem_src(&d, bytes, len);
    (void)jpeg_read_header(&d, TRUE);
    ret->width = d.image_width;
    ret->height = d.image_height;
    if ((d.num_components != 1 && d.num_components != 3) ||
        (uint64_t)ret->width * ret->height > 1 << 22) {
        jpeg_destroy_decompress(&d);
        return -EOPNOTSUPP;
    }
    d.out_color_space = JCS_RGB;
    d.dct_method = JDCT_ISLOW;
    d.do_block_smoothing = FALSE;
    (void)jpeg_start_decompress(&d);
    ret->rgb = malloc((size_t)ret->width * ret->height * 3);
    while (d.output_scanline < d.output_height) {
        JSAMPROW row = ret->rgb + (size_t)d.output_scanline * ret->width * 3;

        (void)jpeg_read_scanlines(&d, &row, 1);
    }
    jpeg_destroy_decompress(&d);
    return 0;
}

uint8_t *forge_read(struct image_reader *reader, bool whole, const uint8_t *bytes, size_t len,
                    struct rect region)
{
    uint8_t *pixels = malloc((size_t)region.width * region.height * 3), *to = pixels;
    struct image_header header;
    struct image_rows rows;
    struct plenum_error err;
    int r;

    reader->whole = whole;
    r = reader->ops->open(reader, bytes, len, &header, &err);
    if (r == 0)
        r = reader->ops->seek(reader, &region, &err);
    for (uint32_t y = 0; r == 0 && y < region.height; y += rows.count) {
        r = reader->ops->read(reader, &rows, &err);
        for (uint32_t i = 0; r == 0 && i < rows.count; i++)
            for (uint32_t x = 0; x < region.width; x++, to += 3)
                memcpy(to, rows.pixels + i * rows.pitch + (size_t)x * 4, 3);
    }
    reader->ops->close(reader);
    if (r == 0)
        return pixels;
    free(pixels);
    return NULL;
}

bool forge_agrees(struct image_reader *reader, const uint8_t *bytes, size_t len, struct rect region,
                  char *why, bool *shown)
{
    uint8_t *got = forge_read(reader, false, bytes, len, region);
    struct oracle_image all, strict;
    int r;

    why[0] = 0;
    *shown = got != NULL;
    if (!got) {
        if (oracle_decode(bytes, len, UINT32_MAX, &strict) == 0) {
            (void)snprintf(why, 200, "a region of it is bad, but the whole file is good");
            free(strict.rgb);
        }
        return !why[0];
    }
    r = forge_decode(bytes, len, &all);
    if (r < 0) {
        if (r == -EBADMSG)
            (void)snprintf(why, 200, "a part of an image that cannot be decoded is shown");
        free(got);
        return !why[0];
    }
    for (uint32_t y = 0; y < region.height && oracle_judges(bytes, len); y++)
        for (uint32_t x = 0; x < region.width; x++)
            if (memcmp(got + ((size_t)y * region.width + x) * 3,
                       all.rgb + (((size_t)region.top + y) * all.width + region.left + x) * 3,
                       3) != 0)
                (void)snprintf(why, 200,
                               "pixel %u, %u of the region differs from the whole "
                               "file's",
                               x, y);
    free(all.rgb);
    free(got);
    return !why[0];
}
