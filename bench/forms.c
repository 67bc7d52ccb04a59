/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "bench/forms.h"

#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <png.h>
#ifdef HAVE_AVIF
#include <avif/avif.h>
#endif
#ifdef HAVE_WEBP
#include <webp/decode.h>
#include <webp/encode.h>
#endif

#include "common/util/util.h"
#include "loader/image/encode.h"

enum { STRIP_ROWS = 16, QUALITY = 90 };

struct forms_errors {
    struct jpeg_error_mgr manager;
    jmp_buf escape;
};

static void on_error(j_common_ptr d)
{
    longjmp(((struct forms_errors *)d->err)->escape, 1);
}

static int decode_jpeg(const struct bench_file *file, uint8_t *ret)
{
    static uint8_t strip[STRIP_ROWS * 65500 * 4];
    JSAMPROW to[STRIP_ROWS];
    struct jpeg_decompress_struct d;
    struct forms_errors errors;

    d.err = jpeg_std_error(&errors.manager);
    errors.manager.error_exit = on_error;
    jpeg_create_decompress(&d);
    if (setjmp(errors.escape)) {
        jpeg_destroy_decompress(&d);
        return -EBADMSG;
    }
    jpeg_mem_src(&d, file->bytes, file->len);
    (void)jpeg_read_header(&d, TRUE);
    d.dct_method = JDCT_ISLOW;
    if (d.num_components == 4 && ret)
        longjmp(errors.escape, 1);
    if (d.num_components < 4)
        d.out_color_space = d.num_components == 1 && !ret ? JCS_GRAYSCALE : JCS_RGB;
    (void)jpeg_start_decompress(&d);
    while (d.output_scanline < d.output_height) {
        uint32_t n = (uint32_t)min_u64(STRIP_ROWS, d.output_height - d.output_scanline);

        for (uint32_t i = 0; i < n; i++)
            to[i] = ret ? ret + ((size_t)d.output_scanline + i) * file->width * 3
                        : strip + (size_t)i * file->width * 4;
        (void)jpeg_read_scanlines(&d, to, n);
    }
    jpeg_destroy_decompress(&d);
    return 0;
}

struct png_source {
    const uint8_t *at, *end;
};

static void give_bytes(png_structp png, png_bytep to, size_t n)
{
    struct png_source *s = png_get_io_ptr(png);

    if (n > (size_t)(s->end - s->at))
        png_error(png, "cut off");
    memcpy(to, s->at, n);
    s->at += n;
}

static int decode_png(const struct bench_file *file, uint8_t *ret)
{
    static uint8_t row[65500 * 8];
    struct png_source source = {file->bytes, file->bytes + file->len};
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png ? png_create_info_struct(png) : NULL;

    if (!info || setjmp(png_jmpbuf(png))) {
        png_destroy_read_struct(&png, &info, NULL);
        return -EBADMSG;
    }
    png_set_read_fn(png, &source, give_bytes);
    png_read_info(png, info); /* form_make() wrote it: 8-bit RGB */
    for (size_t y = 0; y < file->height; y++)
        png_read_row(png, ret ? ret + y * file->width * 3 : row, NULL);
    png_destroy_read_struct(&png, &info, NULL);
    return 0;
}

#if defined(HAVE_WEBP) || defined(HAVE_AVIF)
/* Returns a destination for pixels that are not needed, or NULL. Its memory was written in advance,
 * so that the cost of new pages is not measured. */
static uint8_t *find_room(size_t need)
{
    static uint8_t *room;
    static size_t room_len;

    if (need > room_len) {
        uint8_t *grown = realloc(room, need);

        if (!grown)
            return NULL;
        room = memset(grown, 0, need);
        room_len = need;
    }
    return room;
}
#endif

#ifdef HAVE_WEBP
static int decode_webp(const struct bench_file *file, uint8_t *ret)
{
    size_t need = (size_t)file->width * file->height * 3;
    uint8_t *to = ret ? ret : find_room(need);

    if (!to)
        return -ENOMEM;
    return WebPDecodeRGBInto(file->bytes, file->len, to, need, (int)file->width * 3) ? 0 : -EBADMSG;
}

static int encode_webp(const struct encode_options *o, uint8_t **ret, size_t *ret_len)
{
    uint8_t *bytes;
    size_t len = WebPEncodeRGB(o->pixels, (int)o->width, (int)o->height, (int)o->width * 3,
                               (float)o->quality, &bytes);

    if (len == 0)
        return -ENOMEM;
    *ret = malloc(len);
    if (*ret)
        memcpy(*ret, bytes, len);
    *ret_len = len;
    WebPFree(bytes);
    return *ret ? 0 : -ENOMEM;
}
#else
static int decode_webp(const struct bench_file *file, uint8_t *ret)
{
    (void)file;
    (void)ret;
    return -EBADMSG;
}

static int encode_webp(const struct encode_options *o, uint8_t **ret, size_t *ret_len)
{
    (void)o;
    (void)ret;
    (void)ret_len;
    return -EOPNOTSUPP;
}
#endif

#ifdef HAVE_AVIF
/* Decode as Pillow does: to RGB, with libyuv if libavif has it. */
static int decode_avif(const struct bench_file *file, uint8_t *ret)
{
    avifDecoder *decoder = avifDecoderCreate();
    avifRGBImage rgb;
    int r = -EBADMSG;

    if (!decoder)
        return -ENOMEM;
    if (avifDecoderSetIOMemory(decoder, file->bytes, file->len) == AVIF_RESULT_OK &&
        avifDecoderParse(decoder) == AVIF_RESULT_OK &&
        avifDecoderNextImage(decoder) == AVIF_RESULT_OK) {
        avifRGBImageSetDefaults(&rgb, decoder->image);
        rgb.format = AVIF_RGB_FORMAT_RGB;
        rgb.rowBytes = file->width * 3;
        rgb.pixels = ret ? ret : find_room((size_t)rgb.rowBytes * file->height);
        if (!rgb.pixels)
            r = -ENOMEM;
        else if (avifImageYUVToRGB(decoder->image, &rgb) == AVIF_RESULT_OK)
            r = 0;
    }
    avifDecoderDestroy(decoder);
    return r;
}

static int write_avif(avifEncoder *encoder, avifImage *image, const struct encode_options *o,
                      avifRWData *out)
{
    avifRGBImage rgb;

    avifRGBImageSetDefaults(&rgb, image);
    rgb.format = AVIF_RGB_FORMAT_RGB;
    rgb.rowBytes = o->width * 3;
    rgb.pixels = (uint8_t *)(uintptr_t)o->pixels;
    encoder->speed = 8;
    encoder->minQuantizer = encoder->maxQuantizer = (100 - o->quality) * 63 / 100;
    return avifImageRGBToYUV(image, &rgb) == AVIF_RESULT_OK &&
                   avifEncoderWrite(encoder, image, out) == AVIF_RESULT_OK
               ? 0
               : -EOPNOTSUPP;
}

static int encode_avif(const struct encode_options *o, uint8_t **ret, size_t *ret_len)
{
    avifImage *image = avifImageCreate(o->width, o->height, 8, AVIF_PIXEL_FORMAT_YUV420);
    avifEncoder *encoder = avifEncoderCreate();
    avifRWData out = AVIF_DATA_EMPTY;
    int r = image && encoder ? write_avif(encoder, image, o, &out) : -ENOMEM;

    *ret = r == 0 ? malloc(out.size) : NULL;
    if (r == 0 && !*ret)
        r = -ENOMEM;
    if (r == 0)
        memcpy(*ret, out.data, out.size);
    *ret_len = out.size;
    avifRWDataFree(&out);
    if (encoder)
        avifEncoderDestroy(encoder);
    if (image)
        avifImageDestroy(image);
    return r;
}
#else
static int decode_avif(const struct bench_file *file, uint8_t *ret)
{
    (void)file;
    (void)ret;
    return -EBADMSG;
}

static int encode_avif(const struct encode_options *o, uint8_t **ret, size_t *ret_len)
{
    (void)o;
    (void)ret;
    (void)ret_len;
    return -EOPNOTSUPP;
}
#endif

int forms_full_decode(const struct bench_file *file, uint8_t *ret)
{
    return (file->bytes[0] == 0xFF   ? decode_jpeg
            : file->bytes[0] == 0x89 ? decode_png
            : file->bytes[0] == 0    ? decode_avif
                                     : decode_webp)(file, ret);
}

enum {
    F_420,
    F_OPTIMIZED,
    F_RESTART,
    F_422,
    F_440,
    F_411,
    F_444,
    F_GREY,
    F_CMYK,
    F_PROGRESSIVE,
    F_PNG,
    F_PNG_64,
    F_PNG_32,
    F_WEBP,
    F_AVIF
};

const struct form forms[] = {
    [F_420] = {"4:2:0", "baseline, chroma halved across and down", true},
    [F_OPTIMIZED] = {"optimized", "4:2:0 with Huffman tables made for the image", true},
    [F_RESTART] = {"restart", "4:2:0 with a restart marker after each row of MCUs", true},
    [F_422] = {"4:2:2", "chroma halved across", true},
    [F_440] = {"4:4:0", "chroma halved down", true},
    [F_411] = {"4:1:1", "chroma quartered across", true},
    [F_444] = {"4:4:4", "chroma whole", true},
    [F_GREY] = {"grey", "one component", true},
    [F_CMYK] = {"CMYK", "four components, inverted, as Adobe's programs write them", true},
    [F_PROGRESSIVE] = {"progressive", "4:2:0, libjpeg's ten scans", true},
    [F_PNG] = {"PNG", "RGB of 8 bits", false},
    [F_PNG_64] = {"PNG 64", "the same, of 64x64 pixels", false},
    [F_PNG_32] = {"PNG 32", "the same, of 32x32 pixels, as CIFAR's", false},
    [F_WEBP] = {"WebP", "lossy", false},
    [F_AVIF] = {"AVIF", "4:2:0 of 8 bits, by libavif's encoder at its third-fastest speed", false},
    {NULL, NULL, false},
};

/* Convert RGB to grey, or to inverted CMYK with as much black as possible. */
static void convert(struct encode_options *o, uint8_t *pixels)
{
    size_t count = (size_t)o->width * o->height;

    for (size_t i = 0; o->grey && i < count; i++)
        pixels[i] = (uint8_t)((pixels[3 * i] + 2 * pixels[3 * i + 1] + pixels[3 * i + 2]) / 4);
    for (size_t i = count; o->cmyk && i-- > 0;) {
        uint8_t r = pixels[3 * i], g = pixels[3 * i + 1], b = pixels[3 * i + 2];
        uint8_t k = r > g ? r : g;

        k = k > b ? k : b;
        pixels[4 * i] = (uint8_t)(k ? r * 255 / k : 255);
        pixels[4 * i + 1] = (uint8_t)(k ? g * 255 / k : 255);
        pixels[4 * i + 2] = (uint8_t)(k ? b * 255 / k : 255);
        pixels[4 * i + 3] = k;
    }
}

/* Shrink to side x side in place; each pixel is the mean of the area that it covers. The photograph
 * must be at least that large, so no pixel is overwritten before it is read. */
static void shrink(struct encode_options *o, uint8_t *pixels, uint32_t side)
{
    uint8_t *to = pixels;

    for (uint32_t y = 0; y < side; y++)
        for (uint32_t i = 0; i < side * 3; i++) {
            uint32_t x = i / 3, sum = 0, count = 0;

            for (uint32_t v = y * o->height / side; v < (y + 1) * o->height / side; v++)
                for (uint32_t u = x * o->width / side; u < (x + 1) * o->width / side; u++, count++)
                    sum += pixels[((size_t)v * o->width + u) * 3 + i % 3];
            *to++ = (uint8_t)(sum / count);
        }
    o->width = o->height = side;
}

int form_make(const struct form *form, const struct bench_file *photograph, struct bench_file *ret)
{
    static const enum encode_subsampling sampling[] = {
        [F_422] = ENCODE_422, [F_440] = ENCODE_440,  [F_411] = ENCODE_411,
        [F_444] = ENCODE_444, [F_AVIF] = ENCODE_420,
    };
    size_t f = (size_t)(form - forms);
    uint32_t side = f == F_PNG_64 ? 64 : f == F_PNG_32 ? 32 : 0;
    struct encode_options o = {
        .width = photograph->width,
        .height = photograph->height,
        .quality = QUALITY,
        .subsampling = sampling[f],
        .grey = f == F_GREY,
        .cmyk = f == F_CMYK,
        .progressive = f == F_PROGRESSIVE,
        .optimize = f == F_OPTIMIZED || f == F_PROGRESSIVE,
        .restart = f == F_RESTART,
    };
    uint8_t *pixels = malloc((size_t)o.width * o.height * 4);
    int r = pixels ? decode_jpeg(photograph, pixels) : -ENOMEM;

    if (r == 0 && (o.width < side || o.height < side))
        r = -EBADMSG;
    if (r == 0 && side > 0)
        shrink(&o, pixels, side);
    *ret = (struct bench_file){.width = o.width, .height = o.height};
    if (r == 0) {
        convert(&o, pixels);
        o.pixels = pixels;
        r = (f == F_WEBP              ? encode_webp
             : f == F_AVIF            ? encode_avif
             : f == F_PNG || side > 0 ? encode_png
                                      : encode_jpeg)(&o, &ret->bytes, &ret->len);
    }
    free(pixels);
    return r;
}
