/* SPDX-License-Identifier: MIT */
/* png_own.c - decodes PNGs without libpng.
 *
 *     file -> open(): chunks up to the first IDAT
 *          -> seek(): the data of all IDATs, their checksums -> `data`
 *          -> read(): inflate.c -> `window`, filtered rows
 *                     -> png_rows.c -> `line`, rows of bytes -> `strip`, pixels
 *
 * Rows of 8-bit RGB and RGBA become pixels of the strip directly, without `line`.
 *
 * The window slides: it keeps the last 32 KiB for matches, and the bytes that have not become rows
 * yet. So an image of any size takes little memory, and nothing below the last needed row is
 * inflated. But when a row is complete, zlib continues to the next code that produces a byte, and
 * reports a fault there, so we do the same.
 *
 * libpng is the reference: we give up on everything for which it might report an error, or has a
 * special rule. Ancillary chunks except tRNS and eXIf are skipped even if they are damaged, because
 * libpng only warns about them. */
#include "config.h"

#include "loader/image/png/png_own.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/util.h"
#include "loader/image/big_endian.h"
#include "loader/image/exif.h"
#include "loader/image/limits.h"
#include "loader/image/png/inflate.h"
#include "loader/image/png/png_rows.h"
#include "loader/image/png/png_sums.h"
#include "loader/image/scratch.h"

enum {
    STRIP_ROWS = 16,
    HEADER = 33,    /* the signature and IHDR */
    AROUND = 12,    /* bytes per chunk for length, type and checksum */
    ROOM = 1 << 16, /* bytes in the window that are not rows yet */
    KEPT = 16 << 20,
    /* Larger data is left to libpng: all IDATs together, or one ancillary chunk. */
    DATA_MAX = 64 << 20,
    IGNORED_MAX = 1 << 20,
    IDAT_ALWAYS = 8000000, /* libpng's limit for any chunk is at least this */
};

/* Colour types. */
enum { GREY = 0, RGB = 2, PALETTE = 3, GREY_ALPHA = 4, RGB_ALPHA = 6 };

struct png_own {
    const uint8_t *bytes;
    size_t len, data_at; /* data_at: offset of the first IDAT */
    uint32_t width, height, mask;
    uint32_t depth, colour;
    uint32_t step;           /* bytes of a pixel, or 1 */
    size_t row;              /* bytes of a row, without its filter byte */
    uint8_t palette[256][4]; /* the pixel for an index, or for a number of up to 8 bits */

    struct rect region;
    uint32_t y;                /* the next row */
    uint32_t rows;             /* rows in the strip */
    uint64_t needed;           /* bytes of the stream, up to the region's last row */
    uint64_t produced;         /* bytes produced by inflate */
    uint32_t adler;            /* Adler-32 of these bytes, if the last row is needed */
    uint8_t *at, *out, *limit; /* in the window: the next row, the write position, and its limit */
    struct inflate inflate;

    struct scratch data, window;
    struct scratch line;  /* [2][row]: two rows of bytes */
    struct scratch strip; /* [1 + STRIP_ROWS][width][4]: the row above, and rows */
};

/* --- the header --- */

struct chunk {
    const uint8_t *data;
    uint32_t len;
};

/* Get the chunk that begins here. Returns false if it is not within the file. */
static bool chunk_at(const struct png_own *o, size_t at, struct chunk *ret)
{
    assert(at <= o->len);
    if (o->len - at < AROUND || get_be32(o->bytes + at) > o->len - at - AROUND)
        return false;
    *ret = (struct chunk){o->bytes + at + 8, get_be32(o->bytes + at)};
    return true;
}

static bool chunk_is(const struct chunk *c, const char *type)
{
    return memcmp(c->data - 4, type, 4) == 0;
}

static bool chunk_is_good(const struct chunk *c)
{
    return png_crc32(c->data - 4, c->len + (size_t)4) == get_be32(c->data + c->len);
}

/* Returns whether the chunk can be skipped: it is ancillary and not too large, and its type is
 * valid. */
static bool may_be_ignored(const struct chunk *c)
{
    for (int i = -4; i < 0; i++) {
        uint8_t letter = c->data[i] | 0x20;

        if (letter < 'a' || letter > 'z')
            return false;
    }
    return (c->data[-4] & 0x20) && !(c->data[-2] & 0x20) && c->len <= IGNORED_MAX;
}

static uint32_t samples_of(uint32_t colour)
{
    return colour == RGB ? 3 : colour == RGB_ALPHA ? 4 : colour == GREY_ALPHA ? 2 : 1;
}

static bool depth_is_valid(uint32_t depth, uint32_t colour)
{
    if (depth == 8 || (depth == 16 && colour != PALETTE))
        return colour == GREY || colour == RGB || colour == PALETTE || colour == GREY_ALPHA ||
               colour == RGB_ALPHA;
    return (depth == 1 || depth == 2 || depth == 4) && (colour == GREY || colour == PALETTE);
}

static bool read_ihdr(struct png_own *o)
{
    struct chunk c;
    uint32_t bits;

    if (o->len < HEADER || memcmp(o->bytes, "\x89PNG\r\n\x1a\n", 8) != 0 || !chunk_at(o, 8, &c) ||
        c.len != 13 || !chunk_is(&c, "IHDR") || !chunk_is_good(&c))
        return false;
    o->width = get_be32(c.data);
    o->height = get_be32(c.data + 4);
    o->depth = c.data[8];
    o->colour = c.data[9];
    /* Accept only the one defined compression and family of filters, and no interlacing. */
    if (c.data[10] != 0 || c.data[11] != 0 || c.data[12] != 0 ||
        !depth_is_valid(o->depth, o->colour))
        return false;
    if (o->width == 0 || o->height == 0 || o->width > IMAGE_SIDE_MAX ||
        o->height > IMAGE_SIDE_MAX || (uint64_t)o->width * o->height > IMAGE_PIXELS_MAX)
        return false;
    if (o->mask &&
        ((o->colour != GREY && o->colour != PALETTE) || (o->depth == 16) != (o->mask == 2)))
        return false;
    bits = o->depth * samples_of(o->colour);
    o->step = (bits + 7) / 8;
    o->row = ((size_t)o->width * bits + 7) / 8;
    assert(o->step >= 1 && o->step <= 8 && o->row > 0);
    return true;
}

/* Read the palette: the pixel for each index. Indices without a colour are black, as in libpng. */
static bool read_palette(struct png_own *o, const struct chunk *c)
{
    if (o->colour != PALETTE || c->len == 0 || c->len % 3 != 0 || c->len / 3 > 1U << o->depth ||
        !chunk_is_good(c))
        return false;
    memset(o->palette, 0, sizeof(o->palette));
    for (uint32_t i = 0; i < c->len / 3; i++)
        memcpy(o->palette[i], c->data + (size_t)3 * i, 3);
    return true;
}

/* Fill in the palette for an image without one: a mask's pixels are the numbers themselves, others
 * are levels of grey. */
static void count_up(struct png_own *o)
{
    uint32_t most = o->depth < 8 ? (1U << o->depth) - 1 : 255;

    for (uint32_t i = 0; i <= most; i++) {
        if (o->mask) {
            memset(o->palette[i], 0, 4);
            o->palette[i][0] = (uint8_t)i;
        } else {
            memset(o->palette[i], (int)(i * 255 / most), 4);
        }
    }
}

static bool read_exif(const struct chunk *c, uint8_t *orientation)
{
    if (c->len < 8 || c->len > 1 << 16 ||
        (memcmp(c->data, "II*\0", 4) != 0 && memcmp(c->data, "MM\0*", 4) != 0) || !chunk_is_good(c))
        return false;
    *orientation = exif_of_tiff(c->data, c->len);
    return true;
}

/* Read the chunks between IHDR and the first IDAT. */
static bool read_chunks(struct png_own *o, uint8_t *orientation)
{
    bool palette = false, transparency = false, exif = false;
    struct chunk c;
    uint32_t colours = 0;

    for (o->data_at = HEADER;; o->data_at += AROUND + (size_t)c.len) {
        if (o->data_at > IMAGE_HEADER_MAX - AROUND || !chunk_at(o, o->data_at, &c))
            return false;
        if (chunk_is(&c, "IDAT"))
            return palette || o->colour != PALETTE;
        if (chunk_is(&c, "PLTE")) {
            if (palette || !read_palette(o, &c))
                return false;
            palette = true;
            colours = c.len / 3;
        } else if (chunk_is(&c, "tRNS")) {
            if (!palette || transparency || c.len == 0 || c.len > colours || !chunk_is_good(&c))
                return false;
            transparency = true;
        } else if (chunk_is(&c, "eXIf")) {
            if (exif || !read_exif(&c, orientation))
                return false;
            exif = true;
        } else if (!may_be_ignored(&c)) {
            return false;
        }
    }
}

int png_own_open(struct png_own *o, const uint8_t *bytes, size_t len, uint32_t mask,
                 struct image_header *ret)
{
    uint8_t orientation = 1;

    o->bytes = bytes;
    o->len = len;
    o->mask = mask;
    if (!read_ihdr(o) || !read_chunks(o, &orientation))
        return -ENOTSUP;
    if (o->colour != PALETTE || o->mask)
        count_up(o);
    *ret =
        (struct image_header){.width = o->width, .height = o->height, .orientation = orientation};
    return 0;
}

/* --- the stream --- */

/* Returns the total bytes of all consecutive IDATs, or 0 to give up. */
static size_t measure_data(const struct png_own *o, uint64_t total)
{
    size_t sum = 0;
    struct chunk c;

    for (size_t at = o->data_at; at < o->len; at += AROUND + (size_t)c.len) {
        if (o->len - at >= 8 && memcmp(o->bytes + at + 4, "IDAT", 4) != 0)
            break;
        if (!chunk_at(o, at, &c) || (c.len > IDAT_ALWAYS && c.len > total))
            return 0;
        sum += c.len;
    }
    return sum <= DATA_MAX ? sum : 0;
}

/* Concatenate the data of all IDATs. */
static int collect_data(struct png_own *o, uint64_t total)
{
    size_t sum = measure_data(o, total);
    uint8_t *to;
    struct chunk c;

    if (sum == 0)
        return -ENOTSUP;
    if (scratch_reserve(&o->data, sum + INFLATE_BEHIND_IN) < 0)
        return -ENOMEM;
    to = o->data.bytes;
    memset(to + sum, 0, INFLATE_BEHIND_IN);
    for (size_t at = o->data_at, left = sum; left > 0; at += AROUND + (size_t)c.len) {
        if (!chunk_at(o, at, &c) || !chunk_is_good(&c))
            return -ENOTSUP;
        memcpy(to, c.data, c.len);
        to += c.len;
        left -= c.len;
    }
    return inflate_start(&o->inflate, o->data.bytes, sum, total) ? 0 : -ENOTSUP;
}

static bool reaches_the_end(const struct png_own *o)
{
    return o->region.top + o->region.height == o->height;
}

/* Move the bytes that are still needed to the beginning of the window. */
static void slide(struct png_own *o)
{
    uint8_t *begin = o->window.bytes;
    size_t keep = (size_t)(o->out - o->at);

    assert(begin <= o->at && o->at <= o->out && o->out <= o->limit + INFLATE_BEHIND_OUT);
    if (keep < INFLATE_WINDOW)
        keep = INFLATE_WINDOW;
    if ((size_t)(o->out - begin) <= keep)
        return;
    memmove(begin, o->out - keep, keep);
    o->at -= o->out - keep - begin;
    o->out = begin + keep;
    assert(begin <= o->at && o->at <= o->out);
}

/* Inflate more of the stream, at most up to the byte after the needed ones. */
static bool produce(struct png_own *o)
{
    uint8_t *from;

    if (o->limit - o->out < ROOM / 4)
        slide(o);
    from = o->out;
    assert(from < o->limit && o->produced <= o->needed);
    if (!inflate_run(&o->inflate, o->window.bytes, &o->out,
                     from + min_u64((size_t)(o->limit - from), o->needed + 1 - o->produced)))
        return false;
    o->produced += (uint64_t)(o->out - from);
    if (reaches_the_end(o))
        o->adler = png_adler32(o->adler, from, (size_t)(o->out - from));
    return true;
}

/* Returns whether libpng would accept the data that it reads after the last needed row. */
static bool ends_well(struct png_own *o)
{
    while (o->produced <= o->needed && !inflate_ended(&o->inflate))
        if (!produce(o))
            return false;
    /* At the beginning of a row, libpng requires more input, even if zlib could produce the row
     * without it. */
    if (!reaches_the_end(o))
        return o->produced > o->needed && inflate_left(&o->inflate) > 0;
    return o->produced == o->needed && inflate_is_whole(&o->inflate, o->adler);
}

/* --- rows --- */

/* Convert the bytes of a row, in any format, to pixels. */
static void spread(const struct png_own *o, const uint8_t *from, uint8_t *to)
{
    if (o->depth < 8) {
        uint32_t mask = (1U << o->depth) - 1;

        for (uint32_t x = 0, bit = 8; x < o->width; x++, to += 4) {
            bit -= o->depth;
            memcpy(to, o->palette[*from >> bit & mask], 4);
            if (bit == 0) {
                from++;
                bit = 8;
            }
        }
    } else if (o->colour & 2 && o->colour != PALETTE) { /* 16 bits: only the high bytes */
        for (uint32_t x = 0; x < o->width; x++, to += 4, from += o->step) {
            to[0] = from[0];
            to[1] = from[2];
            to[2] = from[4];
            to[3] = 0;
        }
    } else if (o->mask == 2) {
        for (uint32_t x = 0; x < o->width; x++, to += 4, from += 2) {
            to[0] = from[1]; /* a PNG is big-endian */
            to[1] = from[0];
            to[2] = to[3] = 0;
        }
    } else {
        for (uint32_t x = 0; x < o->width; x++, to += 4, from += o->step)
            memcpy(to, o->palette[*from], 4);
    }
}

/* Produce the next row of the image, as row `i` of the strip. */
static bool make_row(struct png_own *o, uint32_t i)
{
    size_t pitch = (size_t)o->width * 4;
    uint8_t *row = (uint8_t *)o->strip.bytes + (i + 1) * pitch;
    uint8_t *line = (uint8_t *)o->line.bytes + o->y % 2 * o->row;
    uint8_t *above = (uint8_t *)o->line.bytes + (o->y + 1) % 2 * o->row;
    uint32_t filter;

    assert(i < STRIP_ROWS && o->y < o->height);
    while ((size_t)(o->out - o->at) < o->row + 1)
        if (inflate_ended(&o->inflate) || !produce(o))
            return false;
    filter = *o->at;
    if (filter >= PNG_ROWS_FILTERS)
        return false;
    if (o->depth == 8 && o->step >= 3) {
        png_rows_pixels(filter, o->step, o->at + 1, row - pitch, row, o->width);
    } else {
        png_rows_bytes(filter, o->step, o->at + 1, above, line, o->row);
        if (o->y >= o->region.top)
            spread(o, line, row);
    }
    o->at += o->row + 1;
    o->y++;
    return true;
}

int png_own_read(struct png_own *o, struct image_rows *ret)
{
    uint32_t bottom = o->region.top + o->region.height, count;
    size_t pitch = (size_t)o->width * 4;
    uint8_t *strip = o->strip.bytes;

    assert(o->y < bottom);
    do {
        uint32_t end = o->y < o->region.top ? o->region.top : bottom;

        count = (uint32_t)min_u64(STRIP_ROWS, end - o->y);
        memcpy(strip, strip + o->rows * pitch, pitch);
        for (o->rows = 0; o->rows < count; o->rows++)
            if (!make_row(o, o->rows))
                return -ENOTSUP;
    } while (o->y <= o->region.top);
    if (o->y == bottom && !ends_well(o))
        return -ENOTSUP;
    assert(count > 0 && o->y <= bottom);
    *ret = (struct image_rows){
        .pixels = strip + pitch + (size_t)o->region.left * 4,
        .pitch = pitch,
        .count = count,
    };
    return 0;
}

int png_own_seek(struct png_own *o, const struct rect *region)
{
    uint64_t total = (uint64_t)o->height * (o->row + 1);
    size_t pitch = (size_t)o->width * 4;
    size_t room =
        min_u64(o->row + 1 > ROOM ? o->row + 1 : ROOM, total) + min_u64(INFLATE_WINDOW, total);

    assert(region->height > 0 && region->top + region->height <= o->height);
    assert(region->width > 0 && region->left + region->width <= o->width);
    o->region = *region;
    o->y = o->rows = 0;
    o->needed = ((uint64_t)region->top + region->height) * (o->row + 1);
    o->produced = 0;
    o->adler = 1;
    if (scratch_reserve(&o->window, room + INFLATE_BEHIND_OUT) < 0 ||
        scratch_reserve(&o->line, 2 * o->row) < 0 ||
        scratch_reserve(&o->strip, (1 + STRIP_ROWS) * pitch) < 0)
        return -ENOMEM;
    o->at = o->out = o->window.bytes;
    o->limit = o->out + room;
    /* The row above the first one consists of zeros. */
    memset(o->line.bytes, 0, 2 * o->row);
    memset(o->strip.bytes, 0, pitch);
    return collect_data(o, total);
}

void png_own_close(struct png_own *o)
{
    scratch_trim(&o->data, KEPT);
    scratch_trim(&o->window, KEPT);
    scratch_trim(&o->line, KEPT);
    scratch_trim(&o->strip, KEPT);
}

int png_own_create(struct png_own **ret)
{
    *ret = calloc(1, sizeof(**ret));
    return *ret ? 0 : -ENOMEM;
}

void png_own_destroy(struct png_own *o)
{
    if (!o)
        return;
    scratch_free(&o->data);
    scratch_free(&o->window);
    scratch_free(&o->line);
    scratch_free(&o->strip);
    free(o);
}
