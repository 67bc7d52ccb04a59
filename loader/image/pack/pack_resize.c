/* SPDX-License-Identifier: MIT */
/* pack_resize.c - resizes images for plenumctl pack like a pipeline: resize(HxW) with Lanczos.
 *
 * docs/pixels.md defines the result in integer arithmetic, so every machine produces the same
 * pixels from a file. Only the encoder is libjpeg's, and its accurate forward DCT and quantisation
 * tables also use integers. Huffman tables are not optimised here, because packing rebuilds
 * them. */
#include "config.h"

#include "loader/image/pack/pack_resize.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/error_set.h"
#include "loader/image/ppm.h"

/* Returns part / whole of a side, to the nearest pixel, halves rounded up; at least 1. */
static uint32_t scale(uint32_t side, uint32_t part, uint32_t whole)
{
    uint32_t scaled = (uint32_t)((2 * (uint64_t)side * part + whole) / (2 * (uint64_t)whole));

    return scaled > 0 ? scaled : 1;
}

bool pack_resize_sides(const struct pack_resize *resize, uint32_t width, uint32_t height,
                       uint32_t *ret_width, uint32_t *ret_height)
{
    uint32_t longest = width > height ? width : height, shortest = width + height - longest;
    uint32_t side = resize->longest ? longest : shortest;
    uint32_t wanted = resize->longest ? resize->longest : resize->shortest;

    assert(!resize->longest || !resize->shortest);
    if (wanted == 0 || side <= wanted)
        return false;
    *ret_width = scale(width, wanted, side);
    *ret_height = scale(height, wanted, side);
    return true;
}

/* Reduce each pixel to one channel, if all of them are grey. */
static bool make_grey(uint8_t *pixels, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (pixels[3 * i] != pixels[3 * i + 1] || pixels[3 * i] != pixels[3 * i + 2])
            return false;
    for (size_t i = 0; i < count; i++)
        pixels[i] = pixels[3 * i];
    return true;
}

/* Render all of an image, as stored, at the size of the target: [height][width][3]. */
static int render_all(struct image_decoder *decoder, const struct image_file *file,
                      const struct pack_target *target, uint8_t *pixels, struct plenum_error *err)
{
    static const struct image_store store = {PLENUM_UINT8, PLENUM_NHWC, 3};
    const struct pipeline pipeline = {
        .version = PIPELINE_V1,
        .crop = PIPELINE_STRETCH,
        .width = target->width,
        .height = target->height,
        .resize_width = target->width,
        .resize_height = target->height,
        /* At the image's own size, the nearest pixel is the pixel itself. */
        .filter = target->resized ? PIPELINE_LANCZOS : PIPELINE_NEAREST,
        .flip = {0, 1},
        .junk = true, /* the caller decides */
    };
    /* The pipeline draws nothing at random. */
    struct image_view view = {.pipeline = &pipeline, .dst = pixels};

    return image_render(decoder, &view, &store, file, err);
}

int pack_resize_encode(struct image_decoder *decoder, const struct image_file *file,
                       const struct pack_target *target, uint8_t **ret, size_t *ret_len,
                       struct plenum_error *err)
{
    struct encode_options options = {
        .width = target->width,
        .height = target->height,
        .quality = (int)target->resize->quality,
        .subsampling = target->resize->subsampling,
    };
    size_t count = (size_t)target->width * target->height;
    uint8_t *pixels = malloc(3 * count);
    int r;

    assert(target->resized && options.quality >= 1 && options.quality <= 100);
    if (!pixels)
        return error_set(err, -ENOMEM, "out of memory");
    r = render_all(decoder, file, target, pixels, err);
    if (r == 0) {
        options.pixels = pixels;
        options.grey = make_grey(pixels, count);
        r = encode_jpeg(&options, ret, ret_len);
        if (r < 0) /* sides and quality are in range, so libjpeg fails only without memory */
            r = error_set(err, -ENOMEM, "out of memory");
    }
    free(pixels);
    return r;
}

int pack_resize_raw(struct image_decoder *decoder, const struct image_file *file,
                    const struct pack_target *target, uint8_t **ret, size_t *ret_len,
                    struct plenum_error *err)
{
    char header[PPM_HEADER_MAX];
    size_t at = ppm_write_header(target->width, target->height, target->orientation, header);
    size_t len = at + 3 * (size_t)target->width * target->height;
    uint8_t *bytes = malloc(len);
    int r;

    if (!bytes)
        return error_set(err, -ENOMEM, "out of memory");
    memcpy(bytes, header, at);
    r = render_all(decoder, file, target, bytes + at, err);
    if (r < 0) {
        free(bytes);
        return r;
    }
    *ret = bytes;
    *ret_len = len;
    return 0;
}

const char *pack_resize_text(const struct pack_resize *resize, char ret[PACK_RESIZE_TEXT])
{
    uint32_t side = resize->longest ? resize->longest : resize->shortest;
    char *at = ret, *end = ret + PACK_RESIZE_TEXT;

    if (side > 0)
        at += snprintf(at, (size_t)(end - at), "--%s %u", resize->longest ? "longest" : "shortest",
                       side);
    if (side > 0 && resize->raw_share < 100)
        at += snprintf(at, (size_t)(end - at), " --quality %u --subsampling %s", resize->quality,
                       resize->subsampling == ENCODE_444 ? "444" : "420");
    if (resize->raw_share == 100)
        at += snprintf(at, (size_t)(end - at), "%s--raw", side > 0 ? " " : "");
    else if (resize->raw_share > 0)
        at += snprintf(at, (size_t)(end - at), "%s--raw-share %u", side > 0 ? " " : "",
                       resize->raw_share);
    if (resize->junk)
        at += snprintf(at, (size_t)(end - at), "%s--junk", at > ret ? " " : "");
    if (at == ret)
        at += snprintf(at, (size_t)(end - at), "images as they are");
    assert(at < end);
    return ret;
}
