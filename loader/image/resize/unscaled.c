/* SPDX-License-Identifier: MIT */
/* unscaled.c - copies pixels that are not resized to their position in the sample.
 *
 * The column of the image that each column of the sample shows does not depend on the row, so it is
 * computed once. An output row is written when the row that it shows is pushed, and rows of padding
 * together with the first one. */
#include "config.h"

#include "loader/image/resize/unscaled.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

void unscaled_fini(struct unscaled *u)
{
    scratch_free(&u->columns);
    scratch_free(&u->rows);
}

/* Compute the positions for an axis without padding. */
static void count_places(bool mirror, uint32_t count, int32_t *ret)
{
    for (uint32_t i = 0; i < count; i++)
        ret[i] = (int32_t)(mirror ? count - 1 - i : i);
}

int unscaled_begin(struct unscaled *u, const struct pipeline *pipeline, const struct crop *crop,
                   uint32_t pixel, const struct image_store *store, void *dst)
{
    const uint8_t *fill = pipeline->fill;

    assert(pixel == 3 || pixel == 4);
    u->width = pipeline->width;
    u->height = pipeline->height;
    if (scratch_reserve(&u->columns, u->width * sizeof(int32_t)) < 0 ||
        scratch_reserve(&u->rows, u->height * sizeof(int32_t)) < 0)
        return -ENOMEM;
    if (crop->padded) {
        crop_places(pipeline->pad_mode, &crop->across, crop->window.left, crop->mirror, u->width,
                    u->columns.bytes);
        crop_places(pipeline->pad_mode, &crop->down, crop->window.top, false, u->height,
                    u->rows.bytes);
    } else {
        count_places(crop->mirror, u->width, u->columns.bytes);
        count_places(false, u->height, u->rows.bytes);
    }
    assert(crop->box.width == crop->width && crop->box.height == crop->height);
    u->back = crop->mirror;
    crop_longest_run(u->columns.bytes, u->width, u->back ? -1 : 1, &u->run_begin, &u->run_end);
    u->pixel = pixel;
    u->rows_in = u->rows_out = 0;
    u->fill = fill[0] | (uint32_t)fill[1] << 8 | (uint32_t)fill[2] << 16;
    u->planes = store->layout == PLENUM_NCHW;
    u->fourth = store->channels == 4;
    u->flip = image_store_flip(store);
    u->zero = image_store_zero(store);
    u->dst = dst;
    return 0;
}

/* Constants that convert R, G, B and the byte after them to the format of the sample. */
struct shade {
    uint32_t flips, fourth;
};

static struct shade shade_of(const struct unscaled *u)
{
    return (struct shade){u->flip * 0x010101U, (uint32_t)u->zero << 24};
}

static uint32_t show(struct shade shade, uint32_t pixel)
{
    return ((pixel & 0xFFFFFF) ^ shade.flips) | shade.fourth;
}

static const uint8_t *find_pixel(const struct unscaled *u, const uint8_t *row, uint32_t i)
{
    const int32_t *columns = u->columns.bytes;

    return columns[i] < 0 ? (const uint8_t *)&u->fill : row + (size_t)columns[i] * u->pixel;
}

/* Returns pixel i of a row. */
static uint32_t show_pixel(const struct unscaled *u, struct shade shade, const uint8_t *row,
                           uint32_t i)
{
    uint32_t pixel;

    memcpy(&pixel, find_pixel(u, row, i), sizeof(pixel));
    return show(shade, pixel);
}

/* Store pixels begin ... end - 1 of a row, one after the other. */
static void store_pixels(const struct unscaled *u, const uint8_t *row, uint32_t begin, uint32_t end,
                         uint8_t *out)
{
    uint32_t bytes = u->fourth ? 4 : 3;
    struct shade shade = shade_of(u);

    for (uint32_t i = begin; i < end; i++) {
        uint32_t pixel = show_pixel(u, shade, row, i);

        memcpy(out + (size_t)i * bytes, &pixel, 3);
        if (bytes == 4)
            out[4 * (size_t)i + 3] = (uint8_t)(pixel >> 24);
    }
}

static void store_planes(const struct unscaled *u, const uint8_t *row, uint32_t begin, uint32_t end,
                         uint8_t *out)
{
    size_t plane = (size_t)u->width * u->height;
    struct shade shade = shade_of(u);

    for (uint32_t i = begin; i < end; i++) {
        uint32_t pixel = show_pixel(u, shade, row, i);

        out[i] = (uint8_t)pixel;
        out[plane + i] = (uint8_t)(pixel >> 8);
        out[2 * plane + i] = (uint8_t)(pixel >> 16);
    }
}

static ptrdiff_t step_of(const struct unscaled *u)
{
    return u->back ? -(ptrdiff_t)u->pixel : (ptrdiff_t)u->pixel;
}

/* Store the run without using the table. */
static void store_plane_run(const struct unscaled *u, const uint8_t *row, uint8_t *out)
{
    size_t plane = (size_t)u->width * u->height;
    const uint8_t *from = find_pixel(u, row, u->run_begin);
    uint8_t *r = out + u->run_begin, *g = r + plane, *b = g + plane;
    uint32_t count = u->run_end - u->run_begin;
    ptrdiff_t step = step_of(u);
    struct shade shade = shade_of(u);

    for (uint32_t i = 0; i < count; i++, from += step) {
        uint32_t pixel;

        memcpy(&pixel, from, sizeof(pixel));
        pixel ^= shade.flips;
        r[i] = (uint8_t)pixel;
        g[i] = (uint8_t)(pixel >> 8);
        b[i] = (uint8_t)(pixel >> 16);
    }
}

/* Store the run without using the table: four bytes each, the last of which the next pixel
 * overwrites. */
static void store_run(const struct unscaled *u, const uint8_t *row, uint8_t *out)
{
    size_t bytes = u->fourth ? 4 : 3;
    ptrdiff_t step = step_of(u);
    const uint8_t *from = find_pixel(u, row, u->run_begin);
    uint8_t *end = out + (size_t)(u->run_end - 1) * bytes;
    struct shade shade = shade_of(u);
    uint32_t pixel;

    for (out += u->run_begin * bytes; out < end; from += step, out += bytes) {
        memcpy(&pixel, from, sizeof(pixel));
        pixel = show(shade, pixel);
        memcpy(out, &pixel, sizeof(pixel));
    }
    memcpy(&pixel, from, sizeof(pixel));
    pixel = show(shade, pixel);
    memcpy(out, &pixel, bytes);
}

/* Copy the run if its bytes have the same layout in the row and in the sample. */
static void copy_run(const struct unscaled *u, const uint8_t *row, uint8_t *out)
{
    const uint8_t *from = find_pixel(u, row, u->run_begin);
    size_t count = (size_t)(u->run_end - u->run_begin) * 3, i = 0;
    uint64_t flips = u->flip * UINT64_C(0x0101010101010101), eight;

    out += (size_t)u->run_begin * 3;
    for (; i + sizeof(eight) <= count; i += sizeof(eight)) {
        memcpy(&eight, from + i, sizeof(eight));
        eight ^= flips;
        memcpy(out + i, &eight, sizeof(eight));
    }
    for (; i < count; i++)
        out[i] = from[i] ^ u->flip;
}

static void write_row(struct unscaled *u, const uint8_t *row, uint32_t y)
{
    uint8_t *out = u->dst + (size_t)y * u->width * (u->planes ? 1 : u->fourth ? 4 : 3);

    u->rows_out++;
    if (u->planes) {
        store_planes(u, row, 0, u->run_begin, out);
        if (u->run_begin < u->run_end)
            store_plane_run(u, row, out);
        store_planes(u, row, u->run_end, u->width, out);
        if (u->fourth)
            memset(out + 3 * (size_t)u->width * u->height, u->zero, u->width);
        return;
    }
    if (u->run_begin > 0)
        store_pixels(u, row, 0, u->run_begin, out);
    if (u->run_begin == u->run_end) {
        /* The row is only padding. */
    } else if (u->pixel == 3 && !u->fourth && !u->back) {
        copy_run(u, row, out);
    } else {
        store_run(u, row, out);
    }
    if (u->run_end < u->width)
        store_pixels(u, row, u->run_end, u->width, out);
}

/* Write a row of padding. */
static void write_padding(struct unscaled *u, uint32_t y)
{
    size_t plane = (size_t)u->width * u->height, bytes = u->fourth ? 4 : 3;
    uint8_t *out = u->dst + (size_t)y * u->width * (u->planes ? 1 : bytes);
    uint32_t pixel;

    u->rows_out++;
    if (u->planes) {
        for (uint32_t c = 0; c < 3; c++)
            memset(out + c * plane, (uint8_t)(u->fill >> 8 * c) ^ u->flip, u->width);
        if (u->fourth)
            memset(out + 3 * plane, u->zero, u->width);
        return;
    }
    pixel = show(shade_of(u), u->fill);
    for (uint32_t i = 0; i < u->width; i++, out += bytes)
        memcpy(out, &pixel, bytes);
}

void unscaled_push(struct unscaled *u, const uint8_t *rows, size_t pitch, uint32_t count)
{
    const int32_t *shows = u->rows.bytes;

    assert(u->rows_out <= u->height);
    for (uint32_t y = 0; y < u->height && count > 0; y++) {
        if (shows[y] < 0 && u->rows_in == 0)
            write_padding(u, y);
        else if (shows[y] >= 0 && (uint32_t)shows[y] >= u->rows_in &&
                 (uint32_t)shows[y] - u->rows_in < count)
            write_row(u, rows + ((uint32_t)shows[y] - u->rows_in) * pitch, y);
    }
    u->rows_in += count;
}
