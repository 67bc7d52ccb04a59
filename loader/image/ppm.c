/* SPDX-License-Identifier: MIT */
/* ppm.c - reads raw pixels: a binary PPM (P6), or a binary PGM (P5), with one byte per channel.
 *
 *     P6 <space> [# comment <newline>] width <space> height <space> 255 <one space> pixels
 *
 * Nothing is decoded or copied: the header determines the position of the rows under a region, the
 * resize reads them from there, and nothing else is read. Only grey pixels are converted to RGB, a
 * few rows at a time.
 *
 * A PPM has no checksum. Only the length of the file can reveal a damaged header, so it must match
 * the header exactly. A PPM has no EXIF either: in files written by plenumctl pack, a comment
 * records how the image is turned. */
#include "config.h"

#include "loader/image/reader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/util.h"
#include "loader/image/limits.h"
#include "loader/image/ppm.h"
#include "loader/image/resize/resize.h"
#include "loader/image/scratch.h"

enum { STRIP_ROWS = 16, DIGITS_MAX = 10 };

struct ppm_reader {
    struct image_reader base;

    const uint8_t *pixels; /* [height][width][samples] */
    uint32_t width, height;
    uint32_t samples; /* channels: 3, or 1 */
    struct rect region;
    uint32_t rows_done;   /* rows of the region that are done */
    struct scratch strip; /* grey: [STRIP_ROWS][region.width][4]; otherwise one row */
};

/* --- the header --- */

size_t ppm_write_header(uint32_t width, uint32_t height, uint8_t orientation,
                        char ret[PPM_HEADER_MAX])
{
    char turned[sizeof(PPM_ORIENTATION) + 2] = "";

    if (orientation > 1)
        (void)snprintf(turned, sizeof(turned), PPM_ORIENTATION "%c\n", '0' + orientation % 10);
    return (size_t)snprintf(ret, PPM_HEADER_MAX, "P6\n%s%u %u\n255\n", turned, width, height);
}

struct ppm_header {
    const char *name; /* "PPM" or "PGM" */
    const uint8_t *at, *end;
    uint8_t orientation;
};

static bool is_space(uint8_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Skip a comment, from its # to the end of its line. */
static void skip_comment(struct ppm_header *h)
{
    const size_t len = sizeof(PPM_ORIENTATION) - 1;
    const uint8_t *begin = h->at;

    while (h->at < h->end && *h->at != '\n' && *h->at != '\r')
        h->at++;
    if ((size_t)(h->at - begin) == len + 1 && memcmp(begin, PPM_ORIENTATION, len) == 0 &&
        begin[len] >= '1' && begin[len] <= '8')
        h->orientation = (uint8_t)(begin[len] - '0');
}

/* Take a number and the white space after it, skipping white space and comments before it. */
static int take_number(struct ppm_header *h, const char *what, uint32_t *ret,
                       struct plenum_error *err)
{
    uint64_t value = 0;
    int digits = 0;

    while (h->at < h->end && (is_space(*h->at) || *h->at == '#')) {
        if (*h->at == '#')
            skip_comment(h);
        else
            h->at++;
    }
    for (; h->at < h->end && *h->at >= '0' && *h->at <= '9' && digits <= DIGITS_MAX; digits++)
        value = value * 10 + (uint64_t)(*h->at++ - '0');
    if (h->at == h->end)
        return error_set(err, -EBADMSG, "the %s file ends in its header", h->name);
    if (digits == 0 || digits > DIGITS_MAX || !is_space(*h->at))
        return error_set(err, -EBADMSG, "the %s header is damaged: its %s is not a number", h->name,
                         what);
    h->at++;
    *ret = (uint32_t)min_u64(value, UINT32_MAX);
    return 0;
}

static int read_header(struct ppm_reader *p, struct ppm_header *h, struct plenum_error *err)
{
    uint32_t most;
    int r = take_number(h, "width", &p->width, err);

    if (r == 0)
        r = take_number(h, "height", &p->height, err);
    if (r == 0)
        r = take_number(h, "largest value", &most, err);
    if (r < 0)
        return r;
    if (p->width == 0 || p->height == 0)
        return error_set(err, -EBADMSG, "the %s header is damaged: it gives %ux%u pixels", h->name,
                         p->width, p->height);
    if (most != 255)
        return error_set(err, -EBADMSG,
                         "the largest value of the %s is %u, but only 255 is supported", h->name,
                         most);
    return 0;
}

static bool ppm_reader_knows(const uint8_t *bytes, size_t len)
{
    return len >= 3 && bytes[0] == 'P' && (bytes[1] == '5' || bytes[1] == '6') &&
           is_space(bytes[2]);
}

static int ppm_reader_open(struct image_reader *reader, const uint8_t *bytes, size_t len,
                           struct image_header *ret, struct plenum_error *err)
{
    struct ppm_reader *p = container_of(reader, struct ppm_reader, base);
    struct ppm_header h = {bytes[1] == '6' ? "PPM" : "PGM", bytes + 3, bytes + len, 1};
    uint64_t pixels, left;
    int r;

    p->samples = bytes[1] == '6' ? 3 : 1;
    r = read_header(p, &h, err);
    if (r < 0)
        return r;
    pixels = (uint64_t)p->width * p->height;
    if (p->width > IMAGE_SIDE_MAX || p->height > IMAGE_SIDE_MAX || pixels > IMAGE_PIXELS_MAX)
        return error_set(err, -EBADMSG,
                         "%ux%u pixels are more than the limit of %d, or %d on a side", p->width,
                         p->height, IMAGE_PIXELS_MAX, IMAGE_SIDE_MAX);
    if (h.at - bytes > IMAGE_HEADER_MAX)
        return error_set(err, -EBADMSG, "the %s header has %zu bytes, more than the limit of %d",
                         h.name, (size_t)(h.at - bytes), IMAGE_HEADER_MAX);
    left = (uint64_t)(h.end - h.at);
    if (left < pixels * p->samples)
        return error_set(err, -EBADMSG, "the %s file is cut off: it ends after %zu bytes", h.name,
                         len);
    if (left > pixels * p->samples)
        return error_set(err, -EBADMSG,
                         "the %s header is damaged, or this is more than one image: %llu bytes "
                         "follow its %ux%u pixels",
                         h.name, (unsigned long long)(left - pixels * p->samples), p->width,
                         p->height);
    p->pixels = h.at;
    *ret = (struct image_header){.width = p->width,
                                 .height = p->height,
                                 .orientation = h.orientation,
                                 .rgb = p->samples == 3};
    return 0;
}

/* --- the pixels --- */

static int ppm_reader_seek(struct image_reader *reader, const struct rect *region,
                           struct plenum_error *err)
{
    struct ppm_reader *p = container_of(reader, struct ppm_reader, base);
    size_t bytes = p->samples == 3 ? (size_t)region->width * 3 + RESIZE_BEHIND
                                   : (size_t)region->width * STRIP_ROWS * 4;

    p->region = *region;
    p->rows_done = 0;
    if (scratch_reserve(&p->strip, bytes) < 0)
        return error_set(err, -ENOMEM, "out of memory for rows of %u pixels", region->width);
    return 0;
}

static const uint8_t *row_at(const struct ppm_reader *p, uint32_t y)
{
    return p->pixels + ((size_t)y * p->width + p->region.left) * p->samples;
}

/* Use the rows in place, except at the end of the file, after which nothing may be read. */
static uint32_t read_rgb(struct ppm_reader *p, struct image_rows *ret)
{
    uint32_t left = p->region.height - p->rows_done, count = 0;
    const uint8_t *row = row_at(p, p->region.top + p->rows_done);
    const uint8_t *end = p->pixels + (size_t)p->width * p->height * 3;
    size_t bytes = (size_t)p->region.width * 3, pitch = (size_t)p->width * 3;

    while (count < left && (size_t)(end - row) >= count * pitch + bytes + RESIZE_BEHIND)
        count++;
    if (count == 0) {
        memcpy(p->strip.bytes, row, bytes);
        row = p->strip.bytes;
        count = 1;
    }
    *ret = (struct image_rows){row, pitch, count};
    return count;
}

static uint32_t read_grey(struct ppm_reader *p, struct image_rows *ret)
{
    uint32_t left = p->region.height - p->rows_done, count = left < STRIP_ROWS ? left : STRIP_ROWS;
    uint8_t *to = p->strip.bytes;

    *ret = (struct image_rows){to, (size_t)p->region.width * 4, count};
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *from = row_at(p, p->region.top + p->rows_done + i);

        for (uint32_t x = 0; x < p->region.width; x++, to += 4)
            to[0] = to[1] = to[2] = to[3] = from[x];
    }
    return count;
}

static int ppm_reader_read(struct image_reader *reader, struct image_rows *ret,
                           struct plenum_error *err)
{
    struct ppm_reader *p = container_of(reader, struct ppm_reader, base);

    (void)err;
    p->rows_done += p->samples == 3 ? read_rgb(p, ret) : read_grey(p, ret);
    return 0;
}

static void ppm_reader_close(struct image_reader *reader)
{
    struct ppm_reader *p = container_of(reader, struct ppm_reader, base);

    scratch_trim(&p->strip, 1 << 20);
}

static void ppm_reader_destroy(struct image_reader *reader)
{
    struct ppm_reader *p = container_of(reader, struct ppm_reader, base);

    scratch_free(&p->strip);
    free(p);
}

static const struct image_reader_ops ppm_reader_ops = {
    .knows = ppm_reader_knows,
    .open = ppm_reader_open,
    .seek = ppm_reader_seek,
    .read = ppm_reader_read,
    .close = ppm_reader_close,
    .destroy = ppm_reader_destroy,
};

int ppm_reader_create(struct image_reader **ret)
{
    struct ppm_reader *p = malloc(sizeof(*p));

    if (!p)
        return -ENOMEM;
    *p = (struct ppm_reader){.base = {.ops = &ppm_reader_ops}};
    *ret = &p->base;
    return 0;
}
