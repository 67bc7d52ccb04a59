/* SPDX-License-Identifier: MIT */
/* avif.c - decodes an AVIF by libavif and dav1d, as 8-bit RGB and a fourth byte.
 *
 * An AVIF is a file of boxes. "ftyp" comes first and names the brand; "meta" says which item is the
 * image, where its data is, and its properties (size, colours, how it is turned and cropped).
 * libavif reads them and lets dav1d decode the AV1 frame, which can only be done as a whole. The
 * result of decoding AV1 is specified bit for bit; the conversion of its planes to RGB is not.
 * libavif converts in floats or by libyuv, with results that depend on the build. So we convert the
 * planes ourselves (yuv.h), and only for the region.
 *
 *     open()  the boxes -> size and orientation
 *     seek()  AV1       -> planes, which libavif keeps until close()
 *     read()  planes    -> some rows of the region
 *
 * If it has libyuv, libavif scales a frame whose size differs from its item's. We make that an
 * error: imageDimensionLimit, which applies only to scaling once the boxes have been read, is then
 * set to 1.
 *
 * Without libavif, an AVIF is not a bad image but an error of this loader, as in webp.c. */
#include "config.h"

#include "loader/image/reader.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_AVIF
#include <avif/avif.h>
#endif

#include "common/util/error_set.h"
#include "common/util/util.h"
#include "loader/image/absent.h"
#include "loader/image/avif/avif_scan.h"
#include "loader/image/avif/yuv.h"
#include "loader/image/big_endian.h"
#include "loader/image/limits.h"
#include "loader/image/scratch.h"

static bool is_brand(const uint8_t *p)
{
    return memcmp(p, "avif", 4) == 0 || memcmp(p, "avis", 4) == 0;
}

/* Returns whether the first box is an "ftyp" with a brand of AVIF, as its own or as a compatible
 * one. */
static bool avif_reader_knows(const uint8_t *bytes, size_t len)
{
    enum { BRAND = 8, COMPATIBLE = 16 };
    size_t end;

    if (len < BRAND + 4 || memcmp(bytes + 4, "ftyp", 4) != 0)
        return false;
    if (is_brand(bytes + BRAND))
        return true;
    end = get_be32(bytes) < len ? get_be32(bytes) : len;
    for (size_t at = COMPATIBLE; at + 4 <= end; at += 4)
        if (is_brand(bytes + at))
            return true;
    return false;
}

#ifdef HAVE_AVIF
enum { STRIP_ROWS = 16 };

struct avif_reader {
    struct image_reader base;

    avifDecoder *decoder; /* for the current image, or NULL */
    avifIO io;            /* reads the file */
    const uint8_t *bytes;
    size_t len;
    uint32_t pixels;             /* maximum pixels of a frame */
    struct plenum_error refused; /* why read_bytes() failed, or "" */
    struct rect clean;           /* the image within the frame */

    struct yuv_image planes;
    struct yuv_rule rule;
    struct rect region;   /* the requested region of the image */
    uint32_t rows_done;   /* rows of the region that are done */
    struct scratch room;  /* working memory of yuv_convert() */
    struct scratch strip; /* [STRIP_ROWS][region.width][4] */
};

static void avif_reader_close(struct image_reader *reader)
{
    struct avif_reader *a = container_of(reader, struct avif_reader, base);

    if (a->decoder)
        avifDecoderDestroy(a->decoder);
    a->decoder = NULL;
    scratch_trim(&a->room, 1 << 20);
    scratch_trim(&a->strip, 16 << 20);
}

/* Read bytes for libavif, which reads everything through this function. So data is counted even if
 * libavif finds it in a way that avif_scan() does not know. */
static avifResult read_bytes(avifIO *io, uint32_t flags, uint64_t offset, size_t size,
                             avifROData *ret)
{
    struct avif_reader *a = io->data;

    (void)flags;
    if (offset > a->len)
        return AVIF_RESULT_IO_ERROR;
    if (size > a->len - offset)
        size = a->len - (size_t)offset;
    *ret = (avifROData){.data = a->bytes + offset, .size = size};
    return avif_scan_sample(ret->data, size, &a->refused) < 0 ? AVIF_RESULT_IO_ERROR
                                                              : AVIF_RESULT_OK;
}

/* Set the error for a failed call. libavif does not report that dav1d is out of memory, but
 * malloc() then sets errno, which was 0 before. */
static int failed(const struct avif_reader *a, avifResult result, struct plenum_error *err)
{
    const char *more = a->decoder->diag.error;

    if (a->refused.text[0])
        return error_set(err, -EBADMSG, "%s", a->refused.text);
    if (result == AVIF_RESULT_OUT_OF_MEMORY || errno == ENOMEM)
        return error_set(err, -ENOMEM, "AVIF decoder: out of memory");
    if (result == AVIF_RESULT_TRUNCATED_DATA)
        return error_set(err, -EBADMSG, "the AVIF file is cut off: it ends after %zu bytes",
                         a->len);
    return error_set(err, -EBADMSG, "AVIF decoder: %s%s%s", avifResultToString(result),
                     more[0] ? ": " : "", more);
}

/* --- the properties --- */

/* Returns the EXIF orientation that is equivalent to the image's counterclockwise turn, followed by
 * its mirror. */
static uint8_t find_orientation(const avifImage *image)
{
    static const uint8_t turns[4][3] = {
        /* not mirrored; top and bottom swapped; left and right swapped */
        {1, 4, 2},
        {8, 5, 7},
        {3, 2, 4},
        {6, 7, 5},
    };
    uint32_t turn = 0, mirror = 0;

    if (image->transformFlags & AVIF_TRANSFORM_IROT)
        turn = image->irot.angle % 4;
    if (image->transformFlags & AVIF_TRANSFORM_IMIR)
#if AVIF_VERSION >= 1000000
        mirror = 1 + image->imir.axis % 2;
#else
        mirror = 1 + image->imir.mode % 2;
#endif
    return turns[turn][mirror];
}

/* One axis of a clean aperture: n / d pixels out of `side` are shown, and their middle is off_n /
 * off_d pixels away from the middle of the side. */
struct aperture {
    uint32_t side, n, d;
    int32_t off_n;
    uint32_t off_d;
};

/* Find the pixels of an aperture. Returns false if they are not whole pixels within the side. */
static bool find_clean(struct aperture c, uint32_t *begin, uint32_t *count)
{
    int64_t twice; /* twice `begin`, times off_d */

    if (c.d == 0 || c.off_d == 0 || c.n == 0 || c.n % c.d != 0 || c.n / c.d > c.side)
        return false;
    *count = c.n / c.d;
    twice = (int64_t)(c.side - *count) * c.off_d + 2 * (int64_t)c.off_n;
    if (twice < 0 || twice % (2 * (int64_t)c.off_d) != 0)
        return false;
    *begin = (uint32_t)(twice / (2 * (int64_t)c.off_d));
    return *begin <= c.side - *count;
}

static int find_image(struct avif_reader *a, struct plenum_error *err)
{
    const avifImage *image = a->decoder->image;
    const avifCleanApertureBox *c = &image->clap;
    struct rect *clean = &a->clean;
    struct aperture across, down;

    if (image->width > IMAGE_SIDE_MAX || image->height > IMAGE_SIDE_MAX ||
        (uint64_t)image->width * image->height > IMAGE_PIXELS_MAX)
        return error_set(err, -EBADMSG,
                         "%ux%u pixels are more than the limit of %d, or %d on a side",
                         image->width, image->height, IMAGE_PIXELS_MAX, IMAGE_SIDE_MAX);
    if (image->width == 0 || image->height == 0)
        return error_set(err, -EBADMSG, "the AVIF file is damaged: its image has no pixels");
    *clean = (struct rect){0, 0, image->width, image->height};
    across =
        (struct aperture){image->width, c->widthN, c->widthD, (int32_t)c->horizOffN, c->horizOffD};
    down =
        (struct aperture){image->height, c->heightN, c->heightD, (int32_t)c->vertOffN, c->vertOffD};
    if (image->transformFlags & AVIF_TRANSFORM_CLAP &&
        (!find_clean(across, &clean->left, &clean->width) ||
         !find_clean(down, &clean->top, &clean->height)))
        return error_set(err, -EBADMSG,
                         "the AVIF file is damaged: its clean aperture does not consist of whole "
                         "pixels within the image");
    return 0;
}

static int avif_reader_open(struct image_reader *reader, const uint8_t *bytes, size_t len,
                            struct image_header *ret, struct plenum_error *err)
{
    struct avif_reader *a = container_of(reader, struct avif_reader, base);
    avifResult result;
    int r;

    avif_reader_close(reader);
    if (!avifCodecName(AVIF_CODEC_CHOICE_DAV1D, AVIF_CODEC_FLAG_CAN_DECODE))
        return error_set(err, -ENOTSUP,
                         "this is an AVIF image, and this loader's libavif was built without "
                         "dav1d: install one that has it, or convert the image");
    r = avif_scan(bytes, len, &a->pixels, err);
    if (r < 0)
        return r;
    errno = 0;
    a->bytes = bytes;
    a->len = len;
    a->refused.text[0] = '\0';
    a->io = (avifIO){.read = read_bytes, .sizeHint = len, .persistent = AVIF_TRUE, .data = a};
    a->decoder = avifDecoderCreate();
    if (!a->decoder)
        return error_set(err, -ENOMEM, "AVIF decoder: out of memory");
    a->decoder->codecChoice = AVIF_CODEC_CHOICE_DAV1D;
    a->decoder->maxThreads = 1;
    a->decoder->ignoreExif = AVIF_TRUE;
    a->decoder->ignoreXMP = AVIF_TRUE;
    a->decoder->strictFlags = AVIF_STRICT_DISABLED;
    a->decoder->imageDimensionLimit = 0;
    a->decoder->imageCountLimit = IMAGE_FRAMES_MAX;
    avifDecoderSetIO(a->decoder, &a->io);
    result = avifDecoderParse(a->decoder);
    if (result != AVIF_RESULT_OK)
        return failed(a, result, err);
    r = find_image(a, err);
    if (r < 0)
        return r;
    *ret = (struct image_header){.width = a->clean.width,
                                 .height = a->clean.height,
                                 .orientation = find_orientation(a->decoder->image)};
    return 0;
}

/* --- the pixels --- */

static int find_planes(struct avif_reader *a, struct plenum_error *err)
{
    const avifImage *image = a->decoder->image;
    avifPixelFormatInfo format;

    avifGetPixelFormatInfo(image->yuvFormat, &format);
    a->planes = (struct yuv_image){
        .width = image->width,
        .height = image->height,
        .depth = image->depth,
        .mono = image->yuvFormat == AVIF_PIXEL_FORMAT_YUV400,
        .half_x = format.chromaShiftX,
        .half_y = format.chromaShiftY,
        .full_range = image->yuvRange == AVIF_RANGE_FULL,
        .matrix = image->matrixCoefficients,
    };
    for (int i = 0; i < (a->planes.mono ? 1 : 3); i++) {
        a->planes.planes[i] = image->yuvPlanes[i];
        a->planes.pitches[i] = image->yuvRowBytes[i];
        if (!image->yuvPlanes[i])
            return error_set(err, -EBADMSG, "the AVIF file is damaged: it lacks a plane");
    }
    if (image->depth != 8 && image->depth != 10 && image->depth != 12)
        return error_set(err, -EBADMSG, "an AVIF with %u bits is not supported: convert it",
                         image->depth);
    if (!yuv_find_rule(&a->planes, &a->rule))
        return error_set(err, -EBADMSG,
                         "an AVIF with matrix coefficients %u%s is not supported: convert it",
                         a->planes.matrix, a->planes.matrix == 0 ? " and shared chroma" : "");
    return 0;
}

static int decode(struct avif_reader *a, struct plenum_error *err)
{
    uint32_t width = a->decoder->image->width, height = a->decoder->image->height;
    const avifImage *image;
    avifResult result;

    errno = 0;
    a->decoder->imageSizeLimit = a->pixels; /* also limits the AV1 frame */
    a->decoder->imageDimensionLimit = 1;    /* limits scaled frames */
    result = avifDecoderNextImage(a->decoder);
    if (result != AVIF_RESULT_OK)
        return failed(a, result, err);
    image = a->decoder->image;
    if (image->width != width || image->height != height ||
        /* the limit permits scaling to 1x1, and libavif then owns the planes */
        (width == 1 && height == 1 && image->imageOwnsYUVPlanes))
        return error_set(
            err, -EBADMSG,
            "the AVIF file is damaged: its image does not have the size that its header gives");
    return find_planes(a, err);
}

static int avif_reader_seek(struct image_reader *reader, const struct rect *region,
                            struct plenum_error *err)
{
    struct avif_reader *a = container_of(reader, struct avif_reader, base);

    a->region = *region;
    a->rows_done = 0;
    if (scratch_reserve(&a->strip, (size_t)region->width * STRIP_ROWS * 4) < 0 ||
        scratch_reserve(&a->room, yuv_room(region->width) * sizeof(int32_t)) < 0)
        return error_set(err, -ENOMEM, "out of memory for %d rows of %u pixels", STRIP_ROWS,
                         region->width);
    return decode(a, err);
}

static int avif_reader_read(struct image_reader *reader, struct image_rows *ret,
                            struct plenum_error *err)
{
    struct avif_reader *a = container_of(reader, struct avif_reader, base);
    const struct rect *region = &a->region;
    uint32_t left = region->height - a->rows_done;
    uint32_t count = left < STRIP_ROWS ? left : STRIP_ROWS;
    size_t pitch = (size_t)region->width * 4;
    uint8_t *strip = a->strip.bytes;

    (void)err;
    assert(left > 0);
    for (uint32_t i = 0; i < count; i++) {
        struct yuv_run run = {
            .y = a->clean.top + region->top + a->rows_done + i,
            .left = a->clean.left + region->left,
            .width = region->width,
        };

        yuv_convert(&a->planes, &a->rule, run, a->room.bytes, strip + i * pitch);
    }
    *ret = (struct image_rows){.pixels = strip, .pitch = pitch, .count = count};
    a->rows_done += count;
    return 0;
}

static void avif_reader_destroy(struct image_reader *reader)
{
    struct avif_reader *a = container_of(reader, struct avif_reader, base);

    avif_reader_close(reader);
    scratch_free(&a->room);
    scratch_free(&a->strip);
    free(a);
}

static const struct image_reader_ops avif_reader_ops = {
    .knows = avif_reader_knows,
    .open = avif_reader_open,
    .seek = avif_reader_seek,
    .read = avif_reader_read,
    .close = avif_reader_close,
    .destroy = avif_reader_destroy,
};

int avif_reader_create(struct image_reader **ret)
{
    struct avif_reader *a = malloc(sizeof(*a));

    if (!a)
        return -ENOMEM;
    *a = (struct avif_reader){.base = {.ops = &avif_reader_ops}};
    *ret = &a->base;
    return 0;
}

#else

int avif_reader_create(struct image_reader **ret)
{
    return absent_reader_create(avif_reader_knows, "an AVIF", "libavif", ret);
}
#endif
