/* SPDX-License-Identifier: MIT */
/* webp.c - decodes a WebP by libwebp, as 8-bit RGB and a fourth byte.
 *
 * A WebP is a RIFF file: chunks with a tag and a size. One chunk holds the image, lossy ("VP8 ") or
 * lossless ("VP8L"). In the extended form ("VP8X" first) there may be others next to it (alpha,
 * EXIF, profiles), or frames of an animation ("ANMF"), each with its own chunks:
 *
 *     RIFF size WEBP | VP8 ...
 *     RIFF size WEBP | VP8X flags, canvas | ... | VP8L ... | EXIF ...
 *     RIFF size WEBP | VP8X flags, canvas | ANIM | ANMF place, size (ALPH | VP8 ...) | ANMF ...
 *
 * We find the chunk here, and pass only that to libwebp: alpha is dropped, so the alpha of a lossy
 * image is not even decoded, and an animation's first frame is an image like any other. The part of
 * the canvas that the frame does not cover is black: a canvas is transparent black at first, and
 * alpha is dropped. The background colour is ignored, like in a PNG.
 *
 * libwebp decodes a part of an image without the rows below it (`use_cropping`), but pixels at the
 * edge of the part are computed as if the image ended there: in a lossy image, two samples of
 * chroma contribute to a pixel in each direction. So the part is one pixel larger on each side, and
 * begins at an even column and row; then all pixels equal those of the whole image (docs/pixels.md,
 * 4.3).
 *
 * Without libwebp, a WebP is not a bad image but an error of this loader: other builds decode it,
 * and a bad image must be bad in all builds. */
#include "config.h"

#include "loader/image/reader.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_WEBP
#include <webp/decode.h>
#endif

#include "common/util/error_set.h"
#include "common/util/util.h"
#include "loader/image/absent.h"
#include "loader/image/exif.h"
#include "loader/image/limits.h"
#include "loader/image/scratch.h"

/* "RIFF", a size, "WEBP". */
enum { RIFF_HEADER = 12 };

static bool webp_reader_knows(const uint8_t *bytes, size_t len)
{
    return len >= RIFF_HEADER && memcmp(bytes, "RIFF", 4) == 0 && memcmp(bytes + 8, "WEBP", 4) == 0;
}

#ifdef HAVE_WEBP
enum {
    STRIP_ROWS = 16,
    MARGIN = 1,
    CHUNK_HEADER = 8,
    /* Flags of a VP8X. */
    ANIMATED = 0x02,
    HAS_EXIF = 0x08,
};

struct webp_reader {
    struct image_reader base;

    const uint8_t *chunk; /* [size] the chunk of the image, with its tag and size */
    size_t size;
    uint32_t width, height; /* size of the canvas */
    struct rect frame;      /* position of the image on the canvas */

    struct rect region;    /* the region, on the canvas */
    struct rect part;      /* the part of the frame to decode; no rows: nothing is decoded */
    uint32_t rows_done;    /* rows of the region that are done */
    struct scratch pixels; /* [part.height][part.width][4] */
    struct scratch strip;  /* [STRIP_ROWS][region.width][4], if the frame does not fill it */
};

/* --- the container --- */

/* The state of reading consecutive chunks, none of which extends beyond `end`. */
struct chunks {
    const uint8_t *bytes;
    size_t at, end;
    /* The chunk that was read last. */
    const uint8_t *data;
    size_t size;
};

static uint32_t get24(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16;
}

static uint32_t get32(const uint8_t *p)
{
    return get24(p) | (uint32_t)p[3] << 24;
}

static bool chunks_next(struct chunks *c)
{
    const uint8_t *head = c->bytes + c->at;

    if (c->end - c->at < CHUNK_HEADER || get32(head + 4) > c->end - c->at - CHUNK_HEADER)
        return false;
    c->data = head + CHUNK_HEADER;
    c->size = get32(head + 4);
    c->at += CHUNK_HEADER + c->size;
    c->at += c->size % 2 && c->at < c->end; /* the last chunk may lack its padding byte */
    return true;
}

static bool chunk_is(const struct chunks *c, const char *tag)
{
    return memcmp(c->data - CHUNK_HEADER, tag, 4) == 0;
}

/* Advance to the next chunk with one of these tags. Returns false if there is none. */
static bool chunks_find(struct chunks *c, const char *tag, const char *other)
{
    while (chunks_next(c))
        if (chunk_is(c, tag) || chunk_is(c, other))
            return true;
    return false;
}

static uint8_t find_orientation(struct chunks c)
{
    static const uint8_t mark[6] = {'E', 'x', 'i', 'f', 0, 0}; /* some writers put this first */

    if (!chunks_find(&c, "EXIF", "EXIF"))
        return 1;
    if (c.size >= sizeof(mark) && memcmp(c.data, mark, sizeof(mark)) == 0)
        return exif_of_tiff(c.data + sizeof(mark), c.size - sizeof(mark));
    return exif_of_tiff(c.data, c.size);
}

/* --- the header --- */

static int damaged(struct plenum_error *err)
{
    return error_set(err, -EBADMSG, "the WebP file is damaged: its chunks contain no image");
}

/* Read the size of the image in a chunk, in pixels. Returns false if its header is invalid. */
static bool read_size(const struct chunks *c, uint32_t *width, uint32_t *height)
{
    WebPBitstreamFeatures features;

    if (WebPGetFeatures(c->data - CHUNK_HEADER, c->size + CHUNK_HEADER, &features) != VP8_STATUS_OK)
        return false;
    *width = (uint32_t)features.width;
    *height = (uint32_t)features.height;
    return true;
}

/* Find the first frame of an animation. `c` receives the chunk of its image, `frame` its position
 * and expected size. */
static bool enter_frame(struct chunks *c, struct rect *frame)
{
    const uint8_t *head;

    if (!chunks_find(c, "ANMF", "ANMF") || c->size < 16)
        return false;
    head = c->data;
    *frame = (struct rect){get24(head) * 2, get24(head + 3) * 2, get24(head + 6) + 1,
                           get24(head + 9) + 1};
    *c = (struct chunks){.bytes = head + 16, .end = c->size - 16};
    return chunks_find(c, "VP8 ", "VP8L");
}

/* Read everything except the data of the image: its canvas, frame and chunk. */
static int read_header(struct webp_reader *w, struct chunks c, uint8_t *orientation,
                       struct plenum_error *err)
{
    const struct chunks all = c;
    uint32_t width, height;
    bool extended;

    w->frame = (struct rect){0};
    if (!chunks_next(&c))
        return damaged(err);
    extended = chunk_is(&c, "VP8X");
    if (extended) {
        const uint8_t *head = c.data;

        if (c.size < 10)
            return damaged(err);
        w->width = get24(head + 4) + 1;
        w->height = get24(head + 7) + 1;
        w->frame = (struct rect){0, 0, w->width, w->height};
        *orientation = head[0] & HAS_EXIF ? find_orientation(c) : 1;
        if (head[0] & ANIMATED ? !enter_frame(&c, &w->frame) : !chunks_find(&c, "VP8 ", "VP8L"))
            return damaged(err);
    } else if (!chunk_is(&c, "VP8 ") && !chunk_is(&c, "VP8L")) {
        return damaged(err);
    }
    if (!read_size(&c, &width, &height))
        return error_set(err, -EBADMSG, "the WebP file is damaged: its image has no valid header");
    if (!extended) {
        w->width = width;
        w->height = height;
        w->frame = (struct rect){0, 0, width, height};
    }
    if (width != w->frame.width || height != w->frame.height)
        return error_set(
            err, -EBADMSG,
            "the WebP file is damaged: its image does not have the size that its header gives");
    if ((uint64_t)w->frame.left + width > w->width || (uint64_t)w->frame.top + height > w->height)
        return error_set(err, -EBADMSG,
                         "the WebP file is damaged: its first frame lies outside the image");
    w->chunk = c.data - CHUNK_HEADER;
    w->size = c.size + CHUNK_HEADER;
    if ((size_t)(c.data - all.bytes) > IMAGE_HEADER_MAX)
        return error_set(err, -EBADMSG, "the WebP header has %zu bytes, more than the limit of %d",
                         (size_t)(c.data - all.bytes), IMAGE_HEADER_MAX);
    return 0;
}

static void webp_reader_close(struct image_reader *reader)
{
    struct webp_reader *w = container_of(reader, struct webp_reader, base);

    scratch_trim(&w->pixels, 16 << 20);
    scratch_trim(&w->strip, 16 << 20);
}

static int webp_reader_open(struct image_reader *reader, const uint8_t *bytes, size_t len,
                            struct image_header *ret, struct plenum_error *err)
{
    struct webp_reader *w = container_of(reader, struct webp_reader, base);
    uint32_t riff = get32(bytes + 4); /* bytes that follow */
    uint8_t orientation = 1;
    int r;

    if (riff > len - 8)
        return error_set(err, -EBADMSG, "the WebP file is cut off: it ends after %zu bytes", len);
    if (riff < RIFF_HEADER - 8)
        return damaged(err);
    r = read_header(w, (struct chunks){.bytes = bytes, .at = RIFF_HEADER, .end = riff + (size_t)8},
                    &orientation, err);
    if (r < 0)
        return r;
    if (w->width > IMAGE_SIDE_MAX || w->height > IMAGE_SIDE_MAX ||
        (uint64_t)w->width * w->height > IMAGE_PIXELS_MAX)
        return error_set(err, -EBADMSG,
                         "%ux%u pixels are more than the limit of %d, or %d on a side", w->width,
                         w->height, IMAGE_PIXELS_MAX, IMAGE_SIDE_MAX);
    *ret =
        (struct image_header){.width = w->width, .height = w->height, .orientation = orientation};
    return 0;
}

/* --- the pixels --- */

/* Choose the pixels to decode, out of `side` pixels that start at `at` on the canvas, so that the
 * pixels from `begin` to `end` of the canvas are correct: at least one pixel, starting at an even
 * one. */
static void choose_part(uint32_t at, uint32_t side, uint32_t begin, uint32_t end, uint32_t *first,
                        uint32_t *count)
{
    begin = begin > at ? begin - at : 0;
    begin = begin < side ? begin : side - 1;
    end = end > at ? end - at : 0;
    end = end > begin ? end : begin + 1;
    *first = begin > MARGIN ? (begin - MARGIN) & ~(uint32_t)1 : 0;
    *count = (end + MARGIN < side ? end + MARGIN : side) - *first;
}

static int decode_part(struct webp_reader *w, struct plenum_error *err)
{
    const struct rect *part = &w->part;
    size_t bytes = (size_t)part->width * part->height * 4;
    WebPDecoderConfig config;

    if (scratch_reserve(&w->pixels, bytes) < 0)
        return error_set(err, -ENOMEM, "out of memory for %ux%u pixels", part->width, part->height);
    if (!WebPInitDecoderConfig(&config))
        return error_set(err, -ENOTSUP, "libwebp does not have the version that this build needs");
    config.options.use_cropping = 1;
    config.options.crop_left = (int)part->left;
    config.options.crop_top = (int)part->top;
    config.options.crop_width = (int)part->width;
    config.options.crop_height = (int)part->height;
    config.output.colorspace = MODE_RGBA;
    config.output.is_external_memory = 1;
    config.output.u.RGBA = (WebPRGBABuffer){w->pixels.bytes, (int)part->width * 4, bytes};
    switch (WebPDecode(w->chunk, w->size, &config)) {
    case VP8_STATUS_OK:
        return 0;
    case VP8_STATUS_OUT_OF_MEMORY:
        return error_set(err, -ENOMEM, "WebP decoder: out of memory");
    case VP8_STATUS_SUSPENDED:
    case VP8_STATUS_NOT_ENOUGH_DATA:
        return error_set(err, -EBADMSG, "WebP decoder: the data end too early");
    default:
        return error_set(err, -EBADMSG, "WebP decoder: the data are damaged");
    }
}

static bool is_filled(const struct webp_reader *w)
{
    const struct rect *f = &w->frame, *r = &w->region;

    return r->left >= f->left && r->left + r->width <= f->left + f->width && r->top >= f->top &&
           r->top + r->height <= f->top + f->height;
}

static int webp_reader_seek(struct image_reader *reader, const struct rect *region,
                            struct plenum_error *err)
{
    struct webp_reader *w = container_of(reader, struct webp_reader, base);
    uint32_t bottom = region->top + region->height;

    w->region = *region;
    w->rows_done = 0;
    w->part = (struct rect){0};
    if (!is_filled(w) && scratch_reserve(&w->strip, (size_t)region->width * STRIP_ROWS * 4) < 0)
        return error_set(err, -ENOMEM, "out of memory for %d rows of %u pixels", STRIP_ROWS,
                         region->width);
    if (bottom <= w->frame.top)
        return 0;
    /* Decode a part even if the region is outside the frame, because the rows of the frame
     * determine whether the image is bad. */
    choose_part(w->frame.left, w->frame.width, region->left, region->left + region->width,
                &w->part.left, &w->part.width);
    choose_part(w->frame.top, w->frame.height, region->top, bottom, &w->part.top, &w->part.height);
    return decode_part(w, err);
}

/* Returns the decoded pixels of a row of the canvas, starting at column `x`. */
static const uint8_t *pixels_at(const struct webp_reader *w, uint32_t x, uint32_t y)
{
    uint32_t column = x - w->frame.left - w->part.left, row = y - w->frame.top - w->part.top;

    assert(column < w->part.width && row < w->part.height);
    return (const uint8_t *)w->pixels.bytes + ((size_t)row * w->part.width + column) * 4;
}

/* Write a row of the region; the frame may cover a part of it. */
static void put_row(const struct webp_reader *w, uint32_t y, uint8_t *row)
{
    const struct rect *f = &w->frame, *r = &w->region;
    uint32_t left = r->left > f->left ? r->left : f->left;
    uint32_t right = r->left + r->width, frame_right = f->left + f->width;

    right = right < frame_right ? right : frame_right;
    memset(row, 0, (size_t)r->width * 4);
    if (y >= f->top && y < f->top + f->height && left < right)
        memcpy(row + (size_t)(left - r->left) * 4, pixels_at(w, left, y),
               (size_t)(right - left) * 4);
}

static int webp_reader_read(struct image_reader *reader, struct image_rows *ret,
                            struct plenum_error *err)
{
    struct webp_reader *w = container_of(reader, struct webp_reader, base);
    uint32_t left = w->region.height - w->rows_done, y = w->region.top + w->rows_done;
    uint32_t count = left < STRIP_ROWS ? left : STRIP_ROWS;

    (void)err;
    if (is_filled(w)) {
        *ret = (struct image_rows){
            .pixels = pixels_at(w, w->region.left, y),
            .pitch = (size_t)w->part.width * 4,
            .count = count,
        };
    } else {
        size_t pitch = (size_t)w->region.width * 4;

        for (uint32_t i = 0; i < count; i++)
            put_row(w, y + i, (uint8_t *)w->strip.bytes + i * pitch);
        *ret = (struct image_rows){.pixels = w->strip.bytes, .pitch = pitch, .count = count};
    }
    w->rows_done += count;
    return 0;
}

static void webp_reader_destroy(struct image_reader *reader)
{
    struct webp_reader *w = container_of(reader, struct webp_reader, base);

    scratch_free(&w->pixels);
    scratch_free(&w->strip);
    free(w);
}

static const struct image_reader_ops webp_reader_ops = {
    .knows = webp_reader_knows,
    .open = webp_reader_open,
    .seek = webp_reader_seek,
    .read = webp_reader_read,
    .close = webp_reader_close,
    .destroy = webp_reader_destroy,
};

int webp_reader_create(struct image_reader **ret)
{
    struct webp_reader *w = malloc(sizeof(*w));

    if (!w)
        return -ENOMEM;
    *w = (struct webp_reader){.base = {.ops = &webp_reader_ops}};
    *ret = &w->base;
    return 0;
}

#else

int webp_reader_create(struct image_reader **ret)
{
    return absent_reader_create(webp_reader_knows, "a WebP", "libwebp", ret);
}
#endif
