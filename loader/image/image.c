/* SPDX-License-Identifier: MIT */
/* image.c - from the bytes of a file to a sample in its slot.
 *
 *     bytes -> reader: header -> crop: what is shown -> resize: which rows and columns that takes
 *           -> reader: those rows -> resize -> dst, or a window -> operations -> dst
 *                                           or, where it is padded, by way of the window, too
 *
 * Rows flow through in strips of a few, so that pixels stay in the processor's cache and a large
 * image needs no more memory than a small one. Only an image that EXIF turns is collected first:
 * its rows are columns, or come from the bottom. */
#include "config.h"

#include "loader/image/image.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/error.h"
#include "common/util.h"
#include "loader/image/augment.h"
#include "loader/image/crop.h"
#include "loader/image/exif.h"
#include "loader/image/pad.h"
#include "loader/image/reader.h"
#include "loader/image/resize.h"
#include "loader/image/resize_kernels.h"
#include "loader/image/scratch.h"

enum { JPEG, PNG };

static const struct {
    const char *format;
    int (*create)(struct image_reader **ret);
} formats[] = {
    [JPEG] = {"JPEG", jpeg_reader_create},
    [PNG] = {"PNG", png_reader_create},
};

struct image_decoder {
    struct image_reader *readers[ARRAY_LEN(formats)];
    struct resize *resize;
    struct augment *augment;
    enum image_jpeg jpeg;
    const char *kernels;       /* NULL: the best */
    struct image_tiles *tiles; /* borrowed, or NULL */
    struct crop_tables tables;
    struct crop_tables ratios; /* of erasing */
    struct pad pad;
    struct scratch turned; /* the region of an image that EXIF turns */
};

/* What a file is that is none of ours, where its first bytes tell. */
static const char *guess_format(const uint8_t *bytes, size_t len)
{
    static const struct {
        const char *name;
        uint8_t at, len;
        char mark[9];
    } known[] = {
        {"a GIF", 0, 4, "GIF8"},
        {"a WebP", 8, 4, "WEBP"},
        {"a TIFF", 0, 4, "II*\0"},
        {"a TIFF", 0, 4, "MM\0*"},
        {"a BigTIFF", 0, 4, "II+\0"},
        {"a BigTIFF", 0, 4, "MM\0+"},
        {"an AVIF", 4, 8, "ftypavif"},
        {"an AVIF", 4, 8, "ftypavis"},
        {"a HEIC", 4, 8, "ftypheic"},
        {"a HEIC", 4, 8, "ftypheix"},
        {"a HEIF", 4, 8, "ftypmif1"},
        {"a HEIF", 4, 8, "ftypmsf1"},
        {"a JPEG 2000", 4, 4, "jP  "},
        {"a JPEG 2000", 0, 4, "\xFF\x4F\xFF\x51"},
        {"a JPEG XL", 0, 2, "\xFF\x0A"},
        {"a JPEG XL", 4, 4, "JXL "},
        {"a Photoshop", 0, 4, "8BPS"},
        {"an OpenEXR", 0, 4, "\x76\x2F\x31\x01"},
        {"a Radiance HDR", 0, 7, "#?RADIA"},
        {"a Radiance HDR", 0, 6, "#?RGBE"},
        {"a QOI", 0, 4, "qoif"},
        {"an ICO", 0, 4, "\0\0\1\0"},
        {"an SVG", 0, 4, "<svg"},
        {"a BMP", 0, 2, "BM"},
    };
    /* Netpbm: P1 ... P6, then white space. */
    if (len >= 3 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '6' &&
        strchr("\n\r\t ", bytes[2]) && bytes[2])
        return "a PNM";

    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (len >= (size_t)known[i].at + known[i].len &&
            memcmp(bytes + known[i].at, known[i].mark, known[i].len) == 0)
            return known[i].name;
    return NULL;
}

static int refuse_format(const uint8_t *bytes, size_t len, struct plenum_error *err)
{
    const char *guess = guess_format(bytes, len);

    if (len == 0)
        return error_set(err, -EBADMSG, "the file is empty (0 bytes)");
    if (guess)
        return error_set(err, -EBADMSG, "this is %s image; only JPEG and PNG are decoded", guess);
    return error_set(err, -EBADMSG, "this is no JPEG or PNG image: it begins with byte 0x%02x%s",
                     bytes[0], len == 1 ? " and has no other" : "");
}

static void forget_found(struct image_tiles *tiles)
{
    if (tiles)
        tiles->found = NULL;
}

/* Find the reader of a file and have it read the header. `whole`: as if the file were not packed.
 */
static int open_reader(struct image_decoder *d, const uint8_t *bytes, size_t len, bool whole,
                       struct image_header *header, const char **format, struct image_reader **ret,
                       struct plenum_error *err)
{
    int r;

    forget_found(d->tiles);
    for (size_t i = 0; i < ARRAY_LEN(formats); i++) {
        struct image_reader *reader = d->readers[i];

        if (!reader->ops->knows(bytes, len))
            continue;
        reader->whole = whole;
        reader->tiles = d->tiles;
        r = reader->ops->open(reader, bytes, len, header, err);
        if (r < 0) {
            reader->ops->close(reader);
            return r;
        }
        *format = formats[i].format;
        *ret = reader;
        return 0;
    }
    return refuse_format(bytes, len, err);
}

/* Read all rows of a region and hand them to the resize. */
static int pass_rows(struct image_decoder *d, struct image_reader *reader,
                     const struct rect *region, struct plenum_error *err)
{
    struct image_rows rows;
    int r;

    for (uint32_t y = 0; y < region->height; y += rows.count) {
        r = reader->ops->read(reader, &rows, err);
        if (r < 0)
            return r;
        resize_push(d->resize, rows.pixels, rows.pitch, rows.count);
    }
    return 0;
}

/* The same by way of d->turned; `region` is of the stored image. */
static int pass_turned(struct image_decoder *d, struct image_reader *reader,
                       const struct rect *region, uint8_t orientation, struct plenum_error *err)
{
    bool swap = exif_swaps(orientation);
    uint32_t width = swap ? region->height : region->width;
    uint32_t height = swap ? region->width : region->height;
    struct image_rows rows;
    int r;

    if (scratch_reserve(&d->turned, (size_t)width * height * 4) < 0)
        return error_set(err, -ENOMEM, "out of memory for %ux%u pixels", width, height);
    for (uint32_t y = 0; y < region->height; y += rows.count) {
        r = reader->ops->read(reader, &rows, err);
        if (r < 0)
            return r;
        for (uint32_t i = 0; i < rows.count; i++)
            exif_turn_row(orientation, rows.pixels + i * rows.pitch, y + i, region->width,
                          region->height, d->turned.bytes);
    }
    resize_push(d->resize, d->turned.bytes, (size_t)width * 4, height);
    scratch_trim(&d->turned, 64 << 20);
    return 0;
}

/* All that follows the header. */
static int render_open(struct image_decoder *d, struct image_reader *reader,
                       const struct image_header *header, const struct pipeline *pipeline,
                       const struct image_draw *draw, const struct image_store *store, void *dst,
                       struct plenum_error *err)
{
    uint8_t orientation = pipeline->exif ? header->orientation : 1;
    static const struct image_store planes = {PLENUM_UINT8, PLENUM_NCHW, 3};
    struct rect region;
    bool swap = exif_swaps(orientation), augments;
    struct augment_plan plan;
    struct crop crop;
    uint8_t *window = dst, *seen;
    int r;

    crop_locate(pipeline, draw, swap ? header->height : header->width,
                swap ? header->width : header->height, &d->tables, &crop);
    augment_draw(pipeline, draw, &d->ratios, &plan);
    crop.mirror ^= plan.mirror;
    augments = augment_is_needed(&plan) || crop.padded;
    if (augments)
        window = augment_window(d->augment, &plan, pipeline->width, pipeline->height);
    seen = crop.padded ? pad_window(&d->pad, pipeline, &crop) : window;
    if (!window || !seen ||
        resize_begin(d->resize, &crop, augments ? &planes : store, seen, &region) < 0)
        return error_set(err, -ENOMEM, "out of memory for the resize");
    region = exif_to_stored(orientation, region, header->width, header->height);
    r = reader->ops->seek(reader, &region, err);
    if (r < 0)
        return r;
    r = orientation == 1 ? pass_rows(d, reader, &region, err)
                         : pass_turned(d, reader, &region, orientation, err);
    if (r == 0 && crop.padded)
        pad_finish(&d->pad, pipeline, &crop, window);
    if (r == 0 && augments)
        augment_finish(d->augment, &plan, pipeline->width, pipeline->height, store, dst);
    return r;
}

int image_decoder_create(struct image_decoder **ret)
{
    struct image_decoder *d = malloc(sizeof(*d));
    int r;

    if (!d)
        return -ENOMEM;
    *d = (struct image_decoder){0};
    r = resize_create(&d->resize);
    if (r < 0)
        goto fail;
    r = augment_create(&d->augment);
    if (r < 0)
        goto fail;
    augment_use(d->augment, image_kernels(0));
    for (size_t i = 0; i < ARRAY_LEN(formats); i++) {
        r = formats[i].create(&d->readers[i]);
        if (r < 0)
            goto fail;
    }
    *ret = d;
    return 0;

fail:
    image_decoder_destroy(d);
    return r;
}

void image_decoder_destroy(struct image_decoder *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < ARRAY_LEN(formats); i++)
        if (d->readers[i])
            d->readers[i]->ops->destroy(d->readers[i]);
    resize_destroy(d->resize);
    augment_destroy(d->augment);
    pad_fini(&d->pad);
    scratch_free(&d->turned);
    free(d);
}

const char *image_kernels(uint32_t index)
{
    for (size_t i = 0; resize_kernels[i]; i++)
        if (resize_kernels[i]->usable() && index-- == 0)
            return resize_kernels[i]->name;
    return NULL;
}

void image_describe_loops(enum image_jpeg jpeg, char *ret, size_t size)
{
    bool library = jpeg_reader_choice(jpeg) == IMAGE_JPEG_LIBJPEG;

    (void)snprintf(ret, size, "%s, JPEGs by %s", image_kernels(0),
                   library ? "libjpeg-turbo" : "Plenum");
}

int image_decoder_use_kernels(struct image_decoder *d, const char *name)
{
    for (size_t i = 0; resize_kernels[i]; i++) {
        if (strcmp(resize_kernels[i]->name, name) != 0 || !resize_kernels[i]->usable())
            continue;
        resize_use(d->resize, resize_kernels[i]);
        augment_use(d->augment, name);
        d->kernels = resize_kernels[i]->name;
        jpeg_reader_use(d->readers[JPEG], d->jpeg, d->kernels);
        return 0;
    }
    return -ENOENT;
}

int image_jpeg_parse(const char *what, const char *text, enum image_jpeg *ret,
                     struct plenum_error *err)
{
    static const char *const names[] = {
        [IMAGE_JPEG_AUTO] = "auto",
        [IMAGE_JPEG_PLENUM] = "plenum",
        [IMAGE_JPEG_LIBJPEG] = "libjpeg",
    };

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (strcmp(text, names[i]) != 0)
            continue;
        *ret = (enum image_jpeg)i;
        return 0;
    }
    return error_set(err, -EINVAL, "%s is one of auto, plenum, libjpeg, not '%s'", what, text);
}

void image_decoder_use_jpeg(struct image_decoder *d, enum image_jpeg jpeg)
{
    if (d->jpeg == jpeg)
        return;
    d->jpeg = jpeg;
    jpeg_reader_use(d->readers[JPEG], jpeg, d->kernels);
}

void image_decoder_use_tiles(struct image_decoder *d, struct image_tiles *tiles)
{
    d->tiles = tiles;
}

int image_render(struct image_decoder *d, const struct pipeline *pipeline,
                 const struct image_draw *draw, const struct image_store *store,
                 const uint8_t *bytes, size_t len, void *dst, struct plenum_error *err)
{
    struct image_header header;
    struct image_reader *reader;
    const char *format;
    int r;

    r = open_reader(d, bytes, len, false, &header, &format, &reader, err);
    if (r < 0)
        return r;
    r = render_open(d, reader, &header, pipeline, draw, store, dst, err);
    reader->ops->close(reader);
    return r;
}

/* R, G and B of a row's pixels, without the byte behind them. */
static void hash_row(XXH3_state_t *state, const uint8_t *pixels, uint32_t width)
{
    uint8_t rgb[256 * 3];

    while (width > 0) {
        uint32_t count = width < 256 ? width : 256;

        for (uint32_t i = 0; i < count; i++)
            memcpy(rgb + 3 * i, pixels + 4 * i, 3);
        (void)XXH3_64bits_update(state, rgb, 3 * count);
        pixels += 4 * count;
        width -= count;
    }
}

/* Hash all pixels, row by row. */
static int hash_all(struct image_reader *reader, uint32_t width, uint32_t height, uint64_t *ret,
                    struct plenum_error *err)
{
    struct rect all = {.width = width, .height = height};
    struct image_rows rows;
    XXH3_state_t state;
    int r = reader->ops->seek(reader, &all, err);

    if (r < 0)
        return r;
    (void)XXH3_64bits_reset(&state);
    for (uint32_t y = 0; y < height; y += rows.count) {
        r = reader->ops->read(reader, &rows, err);
        if (r < 0)
            return r;
        for (uint32_t i = 0; i < rows.count; i++)
            hash_row(&state, rows.pixels + i * rows.pitch, width);
    }
    *ret = XXH3_64bits_digest(&state);
    return 0;
}

int image_verify(struct image_decoder *d, const uint8_t *bytes, size_t len, struct image_info *ret,
                 struct plenum_error *err)
{
    struct image_header header;
    struct image_reader *reader;
    const char *format;
    uint64_t pixels = 0;
    int r;

    r = open_reader(d, bytes, len, true, &header, &format, &reader, err);
    if (r < 0)
        return r;
    r = hash_all(reader, header.width, header.height, &pixels, err);
    reader->ops->close(reader);
    if (ret)
        *ret = (struct image_info){.format = format,
                                   .width = header.width,
                                   .height = header.height,
                                   .orientation = header.orientation,
                                   .progressive = header.progressive,
                                   .pixels = pixels};
    return r;
}

int image_find_tiles(struct image_decoder *d, const uint8_t *bytes, size_t len,
                     struct image_tiles *tiles, struct plenum_error *err)
{
    struct image_tiles *others = d->tiles;
    struct image_header header;
    struct image_reader *reader;
    struct image_rows rows;
    const char *format;
    struct rect last;
    int r;

    d->tiles = tiles;
    r = open_reader(d, bytes, len, false, &header, &format, &reader, err);
    d->tiles = others;
    if (r < 0)
        return r;
    last = (struct rect){header.width - 1, header.height - 1, 1, 1};
    r = reader->ops->seek(reader, &last, err);
    if (r >= 0)
        r = reader->ops->read(reader, &rows, err);
    reader->ops->close(reader);
    return r;
}
