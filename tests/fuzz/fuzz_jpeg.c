/* SPDX-License-Identifier: MIT */
/* fuzz_jpeg.c - passes any bytes through our own JPEG decoder and libjpeg-turbo, which must not
 * crash and must make the same decision, and give the same pixels for good files.
 *
 * The first four bytes select the region, and whether junk is allowed; the rest is the file. Images
 * of more than 2^16 pixels are skipped to save time. Our decoder always runs; if it
 * gives up, the reader falls back to libjpeg-turbo. While decoding, our decoder collects a hint,
 * with which the same region and another one must give the same result again. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <plenum/error.h>

#include "common/util/util.h"
#include "loader/image/image.h"
#include "loader/image/jpeg/jpeg_pixels.h"
#include "loader/image/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint32_t pixels_max = 1 << 16;

/* The result of reading a file: the decision and the rows that were delivered. */
struct outcome {
    int r;
    uint32_t rows;
    struct plenum_error err;
    uint8_t *pixels; /* [pixels_max][3] */
};

static _Noreturn void report(const char *what, const struct rect *region, const struct outcome *a,
                             const struct outcome *b)
{
    fprintf(stderr, "region %ux%u+%u+%u, ", region->width, region->height, region->left,
            region->top);
    fprintf(stderr, "%s: %d after %u rows (%s), %d after %u rows (%s)\n", what, a->r, a->rows,
            a->err.text, b->r, b->rows, b->err.text);
    abort();
}

static void run(struct image_reader *reader, const uint8_t *bytes, size_t len,
                const struct rect *region, struct outcome *o)
{
    struct image_header header;
    struct image_rows rows;
    uint8_t *to = o->pixels;

    o->rows = 0;
    o->err.text[0] = 0;
    o->r = reader->ops->open(reader, bytes, len, &header, &o->err);
    if (o->r == 0)
        o->r = reader->ops->seek(reader, region, &o->err);
    while (o->r == 0 && o->rows < region->height) {
        o->r = reader->ops->read(reader, &rows, &o->err);
        for (uint32_t i = 0; o->r == 0 && i < rows.count; i++, o->rows++)
            for (uint32_t x = 0; x < region->width; x++, to += 3)
                memcpy(to, rows.pixels + i * rows.pitch + x * 4, 3);
    }
    reader->ops->close(reader);
}

static void compare(const char *what, const struct rect *region, const struct outcome *got,
                    const struct outcome *want)
{
    if (got->r != want->r || strcmp(got->err.text, want->err.text) != 0)
        report(what, region, got, want);
    if (want->r == 0 &&
        memcmp(got->pixels, want->pixels, (size_t)region->width * region->height * 3) != 0)
        report(what, region, got, want);
}

/* Returns the region mirrored at the image's centre, which often has rows below the region's. */
static struct rect other_region(const struct rect *r, const struct image_header *header)
{
    return (struct rect){.left = header->width - r->left - r->width,
                         .top = header->height - r->top - r->height,
                         .width = r->width,
                         .height = r->height};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct image_reader *ours, *library;
    static struct outcome got, want;
    static uint8_t hint[1 << 16];
    struct image_tiles tiles = {0};
    struct image_header header = {0}, same = {0};
    struct rect region = {0};

    if (!ours) {
        got.pixels = malloc((size_t)pixels_max * 3);
        want.pixels = malloc((size_t)pixels_max * 3);
        if (jpeg_reader_create(&ours) < 0 || jpeg_reader_create(&library) < 0 || !got.pixels ||
            !want.pixels)
            abort();
        jpeg_reader_use(library, IMAGE_JPEG_LIBJPEG, NULL);
    }
    if (size < 6 || data[4] != 0xFF || data[5] != 0xD8)
        return 0;
    jpeg_reader_use(ours, IMAGE_JPEG_PLENUM, data[0] % 2 ? "avx2" : "portable");
    ours->junk = library->junk = data[2] % 2;
    want.r = library->ops->open(library, data + 4, size - 4, &header, &want.err);
    library->ops->close(library);
    got.r = ours->ops->open(ours, data + 4, size - 4, &same, &got.err);
    ours->ops->close(ours);
    if (got.r != want.r || (want.r == 0 && memcmp(&header, &same, sizeof(same)) != 0))
        report("the header", &region, &got, &want);
    if (want.r < 0 || (uint64_t)header.width * header.height > pixels_max)
        return 0;
    region.left = data[1] * 7U % header.width;
    region.top = data[2] * 7U % header.height;
    region.width = 1 + data[3] * 5U % (header.width - region.left);
    region.height = 1 + (data[0] / 2) * 3U % (header.height - region.top);
    run(library, data + 4, size - 4, &region, &want);
    ours->tiles = &tiles;
    run(ours, data + 4, size - 4, &region, &got);
    compare("without a hint", &region, &got, &want);
    if (want.r < 0 || !tiles.found || tiles.found_len > sizeof(hint))
        return 0;
    memcpy(hint, tiles.found, tiles.found_len);
    tiles.hint = hint;
    tiles.len = tiles.found_len;
    run(ours, data + 4, size - 4, &region, &got);
    compare("with a hint", &region, &got, &want);
    region = other_region(&region, &header);
    run(library, data + 4, size - 4, &region, &want);
    run(ours, data + 4, size - 4, &region, &got);
    compare("with the hint of another region", &region, &got, &want);
    return 0;
}
