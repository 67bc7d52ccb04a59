/* SPDX-License-Identifier: MIT */
/* png.c - decodes a PNG as 8-bit RGB and a fourth byte, or a mask as its numbers.
 *
 * Most PNGs are decoded by our own decoder (png_own.h), to the same pixels. If it gives up, libpng
 * decodes the file from its beginning, and the result of libpng counts.
 *
 * Palettes and grey become RGB, 16 bits become the high byte; alpha and transparency are dropped,
 * as by Pillow's convert("RGB"); gamma and profiles are ignored. A PNG can only be decoded from the
 * top: all rows above the region are read, those below are not. An interlaced PNG is read in seven
 * passes, all but the last to the bottom, with the region's rows in memory.
 *
 * libpng's warnings are not failures: it warns about colour profiles and similar chunks, which
 * change no pixel. Its errors leave by longjmp(). */
#include "config.h"

#include "loader/image/reader.h"

#include <errno.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

#include "common/util/error_set.h"
#include "common/util/util.h"
#include "loader/image/exif.h"
#include "loader/image/limits.h"
#include "loader/image/png/png_own.h"
#include "loader/image/scratch.h"

enum { STRIP_ROWS = 16 };

struct png_reader {
    struct image_reader base;

    struct png_own *own;
    bool by_library; /* libpng decodes, even if Plenum's decoder could */
    bool owned;      /* Plenum's decoder decodes this image */
    const uint8_t *file;

    png_structp png;
    png_infop info;
    const uint8_t *bytes; /* the rest of the file */
    size_t left;
    size_t len; /* bytes of the file */

    jmp_buf escape;
    bool no_memory, cut_off;
    char message[200];

    uint32_t width, height; /* size of the image */
    bool interlaced;
    struct rect region;
    uint32_t rows_done;    /* rows of the region that are done */
    struct scratch pixels; /* [STRIP_ROWS or the region's rows + 1][width][4] */
};

static void on_error(png_structp png, png_const_charp what)
{
    struct png_reader *p = png_get_error_ptr(png);

    (void)snprintf(p->message, sizeof(p->message), "%s", what);
    longjmp(p->escape, 1);
}

static void on_warning(png_structp png, png_const_charp what)
{
    (void)png;
    (void)what;
}

static png_voidp allocate(png_structp png, png_alloc_size_t size)
{
    struct png_reader *p = png_get_mem_ptr(png);
    void *memory = malloc(size);

    if (!memory)
        p->no_memory = true;
    return memory;
}

static void release(png_structp png, png_voidp memory)
{
    (void)png;
    free(memory);
}

MESSAGE static _Noreturn void give_up(png_structp png, const char *text)
{
    png_error(png, text);
}

static void read_bytes(png_structp png, png_bytep out, size_t count)
{
    struct png_reader *p = png_get_io_ptr(png);

    if (count > p->left) {
        p->cut_off = true;
        give_up(png, "Read past its end");
    }
    memcpy(out, p->bytes, count);
    p->bytes += count;
    p->left -= count;
}

static void png_reader_close(struct image_reader *reader)
{
    struct png_reader *p = container_of(reader, struct png_reader, base);

    png_destroy_read_struct(&p->png, &p->info, NULL);
    scratch_trim(&p->pixels, 16 << 20);
    png_own_close(p->own);
}

/* Set and return the error after longjmp(). */
static int failed(const struct png_reader *p, struct plenum_error *err)
{
    if (p->no_memory)
        return error_set(err, -ENOMEM, "PNG decoder: out of memory");
    if (p->cut_off)
        return error_set(err, -EBADMSG, "the PNG file is cut off: it ends after %zu bytes", p->len);
    return error_set(err, -EBADMSG, "PNG decoder: %s", p->message);
}

/* Ignore all chunks except those that change pixels, and eXIf. */
static void ignore_chunks(png_structp png)
{
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_AS_DEFAULT, (png_const_bytep) "eXIf", 1);
}

/* Check that the file can be a mask: its numbers must not need a conversion. */
static void check_mask(const struct png_reader *p, int depth, int colour)
{
    if (colour != PNG_COLOR_TYPE_GRAY && colour != PNG_COLOR_TYPE_PALETTE)
        give_up(p->png, "it has colours, but a mask must have indices or grey levels");
    if ((depth == 16) != (p->base.mask == 2))
        give_up(p->png, "its bit depth differs from that of the first mask");
    if (p->interlaced)
        give_up(p->png, "a mask must not be interlaced");
}

static uint8_t read_header(struct png_reader *p)
{
    png_bytep exif;
    png_uint_32 size;
    int depth, colour, interlace;

    png_set_read_fn(p->png, p, read_bytes);
    png_set_user_limits(p->png, IMAGE_SIDE_MAX, IMAGE_SIDE_MAX);
    ignore_chunks(p->png);
    png_read_info(p->png, p->info);
    (void)png_get_IHDR(p->png, p->info, &p->width, &p->height, &depth, &colour, &interlace, NULL,
                       NULL);
    if ((uint64_t)p->width * p->height > IMAGE_PIXELS_MAX)
        give_up(p->png, "more pixels than the limit of 134217728");
    if (p->len - p->left > IMAGE_HEADER_MAX)
        give_up(p->png, "the header has more bytes than the limit of 16777216");
    p->interlaced = interlace != PNG_INTERLACE_NONE;
    if (p->base.mask)
        check_mask(p, depth, colour);
    if (png_get_eXIf_1(p->png, p->info, &size, &exif) != 0)
        return exif_of_tiff(exif, size);
    return 1;
}

static bool png_reader_knows(const uint8_t *bytes, size_t len)
{
    return len >= 4 && memcmp(bytes, "\x89PNG", 4) == 0;
}

static int library_open(struct png_reader *p, struct image_header *ret, struct plenum_error *err)
{
    uint8_t orientation;

    p->owned = false;
    p->bytes = p->file;
    p->left = p->len;
    p->no_memory = p->cut_off = false;
    if (setjmp(p->escape))
        return failed(p, err);
    p->png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, p, on_error, on_warning, p, allocate,
                                      release);
    p->info = p->png ? png_create_info_struct(p->png) : NULL;
    if (!p->info)
        return error_set(err, -ENOMEM, "PNG decoder: out of memory");
    orientation = read_header(p);
    *ret =
        (struct image_header){.width = p->width, .height = p->height, .orientation = orientation};
    return 0;
}

static void choose_format(struct png_reader *p)
{
    if (p->base.mask) {
        png_set_packing(p->png); /* fewer than 8 bits: one byte each, with the same values */
        png_read_update_info(p->png, p->info);
        if (png_get_rowbytes(p->png, p->info) != (size_t)p->width * p->base.mask)
            give_up(p->png, "its rows have an unexpected form");
        return;
    }
    png_set_strip_16(p->png);
    png_set_palette_to_rgb(p->png);
    png_set_expand_gray_1_2_4_to_8(p->png);
    png_set_gray_to_rgb(p->png);
    png_set_filler(p->png, 0xFF, PNG_FILLER_AFTER); /* if there is no alpha */
    if (p->interlaced)
        (void)png_set_interlace_handling(p->png);
    png_read_update_info(p->png, p->info);
    if (png_get_rowbytes(p->png, p->info) != (size_t)p->width * 4)
        give_up(p->png, "its rows have an unexpected form");
}

/* Read all passes, the last one only as far as needed. */
static void read_passes(struct png_reader *p)
{
    size_t pitch = (size_t)p->width * 4;
    uint8_t *rows = p->pixels.bytes, *elsewhere = rows + p->region.height * pitch;

    for (int pass = 0; pass < 7; pass++) {
        uint32_t end = pass < 6 ? p->height : p->region.top + p->region.height;

        for (uint32_t y = 0; y < end; y++) {
            bool wanted = y >= p->region.top && y - p->region.top < p->region.height;

            png_read_row(p->png, wanted ? rows + (y - p->region.top) * pitch : elsewhere, NULL);
        }
    }
}

static int library_seek(struct png_reader *p, const struct rect *region, struct plenum_error *err)
{
    size_t rows = p->interlaced ? region->height + 1 : STRIP_ROWS;

    p->region = *region;
    p->rows_done = 0;
    if (scratch_reserve(&p->pixels, rows * p->width * 4) < 0)
        return error_set(err, -ENOMEM, "out of memory for %zu rows of %u pixels", rows, p->width);
    if (setjmp(p->escape))
        return failed(p, err);
    choose_format(p);
    if (p->interlaced) {
        read_passes(p);
    } else {
        for (uint32_t y = 0; y < region->top; y++)
            png_read_row(p->png, p->pixels.bytes, NULL);
    }
    return 0;
}

/* Turn numbers at the end of a row of pixels into R and G of the pixels, from the first one on, so
 * that no number is overwritten before it is read. */
static void spread_numbers(uint8_t *row, uint32_t width, uint32_t item)
{
    const uint8_t *from = row + (size_t)(4 - item) * width;

    for (uint32_t x = 0; x < width; x++, row += 4, from += item) {
        uint8_t low = from[item - 1], high = item == 2 ? from[0] : 0; /* a PNG is big-endian */

        row[0] = low;
        row[1] = high;
        row[2] = row[3] = 0;
    }
}

static void read_strip(struct png_reader *p, uint32_t count)
{
    size_t pitch = (size_t)p->width * 4;
    uint8_t *rows = p->pixels.bytes;

    for (uint32_t i = 0; i < count; i++) {
        uint8_t *row = rows + i * pitch;

        png_read_row(p->png, p->base.mask ? row + (4 - p->base.mask) * (size_t)p->width : row,
                     NULL);
        if (p->base.mask)
            spread_numbers(row, p->width, p->base.mask);
    }
}

static int library_read(struct png_reader *p, struct image_rows *ret, struct plenum_error *err)
{
    uint32_t left = p->region.height - p->rows_done;
    uint32_t count = left < STRIP_ROWS ? left : STRIP_ROWS;
    size_t pitch = (size_t)p->width * 4, kept;

    if (setjmp(p->escape))
        return failed(p, err);
    if (!p->interlaced)
        read_strip(p, count);
    kept = p->interlaced ? p->rows_done * pitch : 0; /* earlier rows stay in p->pixels */
    p->rows_done += count;
    *ret = (struct image_rows){
        .pixels = (uint8_t *)p->pixels.bytes + kept + (size_t)p->region.left * 4,
        .pitch = pitch,
        .count = count,
    };
    return 0;
}

/* --- choosing the decoder --- */

static int png_reader_open(struct image_reader *reader, const uint8_t *bytes, size_t len,
                           struct image_header *ret, struct plenum_error *err)
{
    struct png_reader *p = container_of(reader, struct png_reader, base);

    png_reader_close(reader);
    p->file = bytes;
    p->len = len;
    p->owned = !p->by_library && png_own_open(p->own, bytes, len, reader->mask, ret) == 0;
    return p->owned ? 0 : library_open(p, ret, err);
}

/* Change over to libpng, which reads the rest of the region, because Plenum's decoder has given
 * up. */
static int change_over(struct png_reader *p, struct plenum_error *err)
{
    struct rect rest = {p->region.left, p->region.top + p->rows_done, p->region.width,
                        p->region.height - p->rows_done};
    struct image_header header;
    int r = library_open(p, &header, err);

    return r < 0 ? r : library_seek(p, &rest, err);
}

static int png_reader_seek(struct image_reader *reader, const struct rect *region,
                           struct plenum_error *err)
{
    struct png_reader *p = container_of(reader, struct png_reader, base);
    int r;

    if (!p->owned)
        return library_seek(p, region, err);
    p->region = *region;
    p->rows_done = 0;
    r = png_own_seek(p->own, region);
    if (r == -ENOMEM)
        return error_set(err, r, "out of memory for rows of %u pixels", region->width);
    return r < 0 ? change_over(p, err) : 0;
}

static int png_reader_read(struct image_reader *reader, struct image_rows *ret,
                           struct plenum_error *err)
{
    struct png_reader *p = container_of(reader, struct png_reader, base);

    if (p->owned && png_own_read(p->own, ret) == 0) {
        p->rows_done += ret->count;
        return 0;
    }
    if (p->owned) {
        int r = change_over(p, err);

        if (r < 0)
            return r;
    }
    return library_read(p, ret, err);
}

static void png_reader_destroy(struct image_reader *reader)
{
    struct png_reader *p = container_of(reader, struct png_reader, base);

    png_reader_close(reader);
    png_own_destroy(p->own);
    scratch_free(&p->pixels);
    free(p);
}

static const struct image_reader_ops png_reader_ops = {
    .knows = png_reader_knows,
    .open = png_reader_open,
    .seek = png_reader_seek,
    .read = png_reader_read,
    .close = png_reader_close,
    .destroy = png_reader_destroy,
};

void png_reader_use(struct image_reader *reader, bool library)
{
    container_of(reader, struct png_reader, base)->by_library = library;
}

int png_reader_create(struct image_reader **ret)
{
    struct png_reader *p = malloc(sizeof(*p));

    if (!p)
        return -ENOMEM;
    *p = (struct png_reader){.base = {.ops = &png_reader_ops}};
    if (png_own_create(&p->own) < 0) {
        free(p);
        return -ENOMEM;
    }
    *ret = &p->base;
    return 0;
}
