/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tests/loader/image/oracle.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <png.h>

#include <jerror.h>
#ifdef HAVE_AVIF
#include <avif/avif.h>
#endif
#ifdef HAVE_WEBP
#include <webp/decode.h>
#endif

#include "common/order/philox.h"
#include "loader/image/exif.h"

struct oracle_errors {
    struct jpeg_error_mgr manager;
    jmp_buf escape;
    bool in_header;
};

/* The pipeline that is rendered has the word junk. */
static bool junk_is_forgiven;

static void on_error(j_common_ptr c)
{
    longjmp(((struct oracle_errors *)c->err)->escape, 1);
}

static void on_message(j_common_ptr c, int level)
{
    bool junk =
        ((struct oracle_errors *)c->err)->in_header && c->err->msg_code == JWRN_EXTRANEOUS_DATA;

    if (level < 0 && !(junk && junk_is_forgiven))
        c->err->num_warnings++;
}

static void on_output(j_common_ptr c)
{
    (void)c;
}

static uint8_t muldiv255(int a, int b)
{
    int t = a * b + 128;

    return (uint8_t)(((t >> 8) + t) >> 8);
}

/* Decode a JPEG. If `pixels` is false, read only the header. */
static int decode_jpeg(const uint8_t *bytes, size_t len, bool pixels, uint32_t last,
                       struct oracle_image *ret)
{
    struct jpeg_decompress_struct d;
    struct oracle_errors errors;
    uint8_t *volatile row = NULL;
    uint32_t volatile rows = last;
    int volatile r = -EBADMSG;

    ret->rgb = NULL;
    d.err = jpeg_std_error(&errors.manager);
    errors.manager.error_exit = on_error;
    errors.manager.emit_message = on_message;
    errors.manager.output_message = on_output;
    jpeg_create_decompress(&d);
    if (setjmp(errors.escape))
        goto out;
    jpeg_mem_src(&d, bytes, len);
    errors.in_header = true;
    (void)jpeg_read_header(&d, TRUE);
    errors.in_header = false;
    if (d.num_components != 1 && d.num_components != 3 && d.num_components != 4)
        goto out;
    ret->orientation = exif_of_jpeg(bytes, len);
    ret->width = d.image_width;
    ret->height = d.image_height;
    if (pixels) {
        d.out_color_space = d.num_components == 4 ? JCS_CMYK : JCS_RGB;
        d.dct_method = JDCT_ISLOW;
        d.do_block_smoothing = FALSE;
        (void)jpeg_start_decompress(&d);
        ret->width = d.output_width;
        ret->height = d.output_height;
        rows = last < d.output_height ? last + 1 : d.output_height;
        row = malloc((size_t)d.output_width * 4);
        ret->rgb = malloc((size_t)d.output_width * rows * 3);
        while (d.output_scanline < rows) {
            uint8_t *out = ret->rgb + (size_t)d.output_scanline * d.output_width * 3;
            JSAMPROW to[1] = {row};

            (void)jpeg_read_scanlines(&d, to, 1);
            if (d.num_components != 4) {
                memcpy(out, row, (size_t)d.output_width * 3);
                continue;
            }
            for (uint32_t x = 0; x < d.output_width; x++)
                for (uint32_t c = 0; c < 3; c++) { /* Pillow: CMYK;I, then cmyk2rgb */
                    int ink = 255 - row[4 * x + c], nk = 255 - (255 - row[4 * x + 3]);
                    int v = nk - muldiv255(ink, nk);

                    out[3 * x + c] = (uint8_t)(v < 0 ? 0 : v);
                }
        }
    }
    r = errors.manager.num_warnings > 0 ? -EBADMSG : 0;

out:
    jpeg_destroy_decompress(&d);
    free(row);
    if (r < 0) {
        free(ret->rgb);
        ret->rgb = NULL;
    }
    return r;
}

struct png_source {
    const uint8_t *bytes;
    size_t left;
};

static void png_take(png_structp png, png_bytep out, size_t count)
{
    struct png_source *s = png_get_io_ptr(png);

    if (count > s->left)
        png_error(png, "end");
    memcpy(out, s->bytes, count);
    s->bytes += count;
    s->left -= count;
}

static void png_quiet(png_structp png, png_const_charp what)
{
    (void)png;
    (void)what;
}

static void png_leave(png_structp png, png_const_charp what)
{
    (void)what;
    png_longjmp(png, 1);
}

/* Decode everything to RGBA, then drop alpha. */
static int decode_png(const uint8_t *bytes, size_t len, bool pixels, uint32_t last,
                      struct oracle_image *ret)
{
    struct png_source source = {bytes, len};
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, NULL, png_leave, png_quiet);
    png_infop info = png_create_info_struct(png);
    png_uint_32 exif_size;
    png_bytep exif;
    uint8_t *volatile rgba = NULL;
    uint32_t volatile rows = last;
    int volatile r = -EBADMSG;

    ret->rgb = NULL;
    if (setjmp(png_jmpbuf(png)))
        goto out;
    png_set_read_fn(png, &source, png_take);
    png_read_info(png, info);
    if (png_get_eXIf_1(png, info, &exif_size, &exif) != 0)
        ret->orientation = exif_of_tiff(exif, exif_size);
    ret->width = png_get_image_width(png, info);
    ret->height = png_get_image_height(png, info);
    if (pixels) {
        size_t pitch = (size_t)ret->width * 4;
        int passes;

        rows = last < ret->height ? last + 1 : ret->height;
        png_set_expand(png);
        png_set_strip_16(png);
        png_set_gray_to_rgb(png);
        png_set_add_alpha(png, 255, PNG_FILLER_AFTER);
        passes = png_set_interlace_handling(png);
        png_read_update_info(png, info);
        rgba = malloc(pitch * ret->height);
        ret->rgb = malloc((size_t)ret->width * rows * 3);
        for (int pass = 0; pass < passes; pass++)
            for (uint32_t y = 0; y < (pass == passes - 1 ? rows : ret->height); y++)
                png_read_row(png, rgba + y * pitch, NULL);
        for (size_t i = 0; i < (size_t)ret->width * rows; i++)
            memcpy(ret->rgb + 3 * i, rgba + 4 * i, 3);
    }
    r = 0;

out:
    png_destroy_read_struct(&png, &info, NULL);
    free(rgba);
    if (r < 0) {
        free(ret->rgb);
        ret->rgb = NULL;
    }
    return r;
}

#ifdef HAVE_WEBP
static uint32_t little(const uint8_t *bytes, size_t count)
{
    return count == 0 ? 0 : bytes[0] + 256 * little(bytes + 1, count - 1);
}

/* Find the first chunk with either tag. Returns its data and their length, or NULL. */
static const uint8_t *find_chunk(const uint8_t *bytes, const uint8_t *end, const char *tag,
                                 const char *other, uint32_t *len)
{
    while (end - bytes >= 8) {
        *len = little(bytes + 4, 4);
        if (*len > end - bytes - 8)
            return NULL;
        if (memcmp(bytes, tag, 4) == 0 || memcmp(bytes, other, 4) == 0)
            return bytes + 8;
        if (*len + *len % 2 >= end - bytes - 8)
            return NULL;
        bytes += 8 + *len + *len % 2;
    }
    return NULL;
}

/* Returns a file that has only this chunk: 20 + len bytes. */
static uint8_t *wrap_chunk(const uint8_t *data, uint32_t len)
{
    uint8_t *file = malloc(20 + (size_t)len);

    memcpy(file, "RIFFsizeWEBP", 12);
    for (int i = 0; i < 4; i++)
        file[4 + i] = (uint8_t)((12 + len) >> 8 * i);
    memcpy(file + 12, data - 8, 8 + (size_t)len);
    return file;
}

/* Decode rows 0 ... last of a frame, and the row after them that libwebp needs to get them right.
 * If the whole frame can be decoded, the pixels come from that. */
static int decode_frame(const uint8_t *file, size_t len, uint32_t width, uint32_t height,
                        uint32_t last, uint8_t *rgb)
{
    uint32_t rows = last + 2 < height ? last + 2 : height;
    size_t pitch = (size_t)width * 3;
    WebPDecoderConfig config;
    uint8_t *part = malloc(pitch * height);
    int r;

    (void)WebPInitDecoderConfig(&config);
    config.options.use_cropping = 1;
    config.options.crop_width = (int)width;
    config.options.crop_height = (int)rows;
    config.output.colorspace = MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA = (WebPRGBABuffer){part, (int)pitch, pitch * rows};
    r = WebPDecode(file, len, &config) == VP8_STATUS_OK ? 0 : -EBADMSG;
    memcpy(rgb, part, pitch * (last + 1));
    if (WebPDecodeRGBInto(file, len, part, pitch * height, (int)pitch))
        memcpy(rgb, part, pitch * (last + 1));
    free(part);
    return r;
}

static int decode_webp(const uint8_t *bytes, size_t len, bool pixels, uint32_t last,
                       struct oracle_image *ret)
{
    const uint8_t *end, *image, *head, *exif;
    uint32_t image_len, head_len, exif_len, left = 0, top = 0, rows;
    int width, height, r = 0;

    ret->rgb = NULL;
    if (len < 20 || little(bytes + 4, 4) > len - 8)
        return -EBADMSG;
    end = bytes + 8 + little(bytes + 4, 4);
    if (end - bytes < 20)
        return -EBADMSG;
    image = find_chunk(bytes + 12, end, "VP8 ", "VP8L", &image_len);
    head = memcmp(bytes + 12, "VP8X", 4) == 0 ? bytes + 20 : NULL;
    if (head && little(head - 4, 4) > (size_t)(end - head))
        return -EBADMSG;
    head_len = head ? little(head - 4, 4) : 0;
    if (head ? head_len < 10 : image != bytes + 20)
        return -EBADMSG;
    if (head && head[0] & 8 &&
        (exif = find_chunk(bytes + 12, end, "EXIF", "EXIF", &exif_len)) != NULL) {
        uint32_t mark = exif_len >= 6 && memcmp(exif, "Exif\0\0", 6) == 0 ? 6 : 0;

        ret->orientation = exif_of_tiff(exif + mark, exif_len - mark);
    }
    if (head && head[0] & 2) {
        uint32_t frame_len;
        const uint8_t *frame = find_chunk(bytes + 12, end, "ANMF", "ANMF", &frame_len);

        if (!frame || frame_len < 16)
            return -EBADMSG;
        left = 2 * little(frame, 3);
        top = 2 * little(frame + 3, 3);
        image = find_chunk(frame + 16, frame + frame_len, "VP8 ", "VP8L", &image_len);
        if (!image || !WebPGetInfo(image - 8, 8 + (size_t)image_len, &width, &height) ||
            width != (int)little(frame + 6, 3) + 1 || height != (int)little(frame + 9, 3) + 1)
            return -EBADMSG;
    } else if (!image || !WebPGetInfo(image - 8, 8 + (size_t)image_len, &width, &height)) {
        return -EBADMSG;
    } else if (head &&
               (width != (int)little(head + 4, 3) + 1 || height != (int)little(head + 7, 3) + 1)) {
        return -EBADMSG;
    }
    ret->width = head ? little(head + 4, 3) + 1 : (uint32_t)width;
    ret->height = head ? little(head + 7, 3) + 1 : (uint32_t)height;
    if (left + (uint32_t)width > ret->width || top + (uint32_t)height > ret->height)
        return -EBADMSG;
    if (!pixels)
        return 0;
    rows = last < ret->height ? last + 1 : ret->height;
    ret->rgb = calloc((size_t)ret->width * rows, 3);
    if (rows > top) {
        uint32_t of_it = rows - top < (uint32_t)height ? rows - top : (uint32_t)height;
        uint8_t *rgb = malloc((size_t)width * of_it * 3), *file = wrap_chunk(image, image_len);

        r = decode_frame(file, 20 + (size_t)image_len, (uint32_t)width, (uint32_t)height, of_it - 1,
                         rgb);
        for (uint32_t y = 0; y < of_it; y++)
            memcpy(ret->rgb + ((size_t)(top + y) * ret->width + left) * 3,
                   rgb + (size_t)y * (uint32_t)width * 3, (size_t)width * 3);
        free(file);
        free(rgb);
    }
    if (r < 0) {
        free(ret->rgb);
        ret->rgb = NULL;
    }
    return r;
}
#else
static int decode_webp(const uint8_t *bytes, size_t len, bool pixels, uint32_t last,
                       struct oracle_image *ret)
{
    (void)bytes;
    (void)len;
    (void)pixels;
    (void)last;
    ret->rgb = NULL;
    return -ENOTSUP;
}
#endif

struct pixel {
    uint32_t x, y;
};

/* Returns which pixel of a stored image of w x h is shown at (x, y), by EXIF's orientation. */
static struct pixel stored_at(uint8_t orientation, uint32_t w, uint32_t h, uint32_t x, uint32_t y)
{
    switch (orientation) {
    case 1:
        return (struct pixel){x, y};
    case 2:
        return (struct pixel){w - 1 - x, y};
    case 3:
        return (struct pixel){w - 1 - x, h - 1 - y};
    case 4:
        return (struct pixel){x, h - 1 - y};
    case 5:
        return (struct pixel){y, x};
    case 6:
        return (struct pixel){y, h - 1 - x};
    case 7:
        return (struct pixel){w - 1 - y, h - 1 - x};
    default:
        return (struct pixel){w - 1 - y, x};
    }
}

#ifdef HAVE_AVIF
static bool is_avif(const uint8_t *bytes, size_t len)
{
    if (len < 12 || memcmp(bytes + 4, "ftyp", 4) != 0)
        return false;
    for (size_t at = 8; at + 4 <= len; at += 4) {
        size_t box = ((size_t)bytes[0] << 24) + (bytes[1] << 16) + (bytes[2] << 8) + bytes[3];

        if ((at == 8 || (at >= 16 && at + 4 <= box)) &&
            (memcmp(bytes + at, "avif", 4) == 0 || memcmp(bytes + at, "avis", 4) == 0))
            return true;
    }
    return false;
}

/* Returns the EXIF orientation with the same effect. It compares where each visible pixel of a
 * stored image of 2 x 3 comes from. */
static uint8_t turned_like(uint32_t quarters, bool upside_down, bool mirrored)
{
    static const uint8_t sides[9][2] = {{0},    {2, 3}, {2, 3}, {2, 3}, {2, 3},
                                        {3, 2}, {3, 2}, {3, 2}, {3, 2}};

    for (uint8_t o = 1; o <= 8; o++) {
        uint32_t w = sides[o][0], h = sides[o][1], same = 0;

        for (uint32_t i = 0; i < 6 && (w == 3) == quarters % 2; i++) {
            uint32_t x = i % w, y = i / w, width = w, height = h;
            struct pixel stored = stored_at(o, 2, 3, x, y);

            x = mirrored ? w - 1 - x : x;
            y = upside_down ? h - 1 - y : y;
            for (uint32_t k = 0; k < quarters; k++) { /* turn back: clockwise */
                uint32_t t = x;

                x = height - 1 - y;
                y = t;
                t = width;
                width = height;
                height = t;
            }
            same += x == stored.x && y == stored.y;
        }
        if (same == 6)
            return o;
    }
    abort();
}

/* The side of a clean aperture, n / d, and the offset of its centre. */
struct aperture {
    uint32_t n, d, off_n, off_d;
};

/* Returns the part of an axis that is inside a clean aperture. */
static bool clean_axis(uint32_t side, const struct aperture *a, uint32_t *begin, uint32_t *count)
{
    if (a->d == 0 || a->off_d == 0 || a->n == 0 || a->n % a->d)
        return false;
    *count = a->n / a->d;
    for (*begin = 0; (uint64_t)*begin + *count <= side; ++*begin) {
        /* Twice the distance between the centres. */
        int64_t twice = 2 * (int64_t)*begin + *count - side;

        if (twice * a->off_d == 2 * (int64_t)(int32_t)a->off_n)
            return true;
    }
    return false;
}

static uint32_t sample_of(const avifImage *image, int plane, uint32_t x, uint32_t y)
{
    const uint8_t *row = image->yuvPlanes[plane] + (size_t)y * image->yuvRowBytes[plane];

    return image->depth == 8 ? row[x] : ((const uint16_t *)(const void *)row)[x];
}

/* Returns the chroma of a pixel, times 16. */
static int64_t chroma_at(const avifImage *image, int plane, uint32_t x, uint32_t y)
{
    bool across = image->yuvFormat != AVIF_PIXEL_FORMAT_YUV444;
    bool down = image->yuvFormat == AVIF_PIXEL_FORMAT_YUV420;
    int64_t columns = across ? (image->width + 1) / 2 : image->width, sum = 0;
    int64_t rows = down ? (image->height + 1) / 2 : image->height;

    for (int i = 0; i < 4; i++) {
        int64_t cx = x, cy = y, weight = 1;

        if (across) {
            cx = cx / 2 + (i % 2 ? 0 : cx % 2 ? 1 : -1);
            cx = cx < 0 ? 0 : cx >= columns ? columns - 1 : cx;
        }
        weight *= i % 2 ? 3 : 1;
        if (down) {
            cy = cy / 2 + (i / 2 ? 0 : cy % 2 ? 1 : -1);
            cy = cy < 0 ? 0 : cy >= rows ? rows - 1 : cy;
        }
        weight *= i / 2 ? 3 : 1;
        sum += weight * sample_of(image, plane, (uint32_t)cx, (uint32_t)cy);
    }
    return sum;
}

static uint8_t rounded(int64_t value)
{
    int64_t level = (int64_t)floorl(value / 4294967296.0L + 0.5L);

    return (uint8_t)(level < 0 ? 0 : level > 255 ? 255 : level);
}

static int64_t at32(long double x)
{
    return llroundl(x * 4294967296.0L);
}

/* Compute a pixel of an AVIF, by docs/pixels.md, 4.6. */
static bool avif_pixel(const avifImage *image, uint32_t x, uint32_t y, uint8_t rgb[3])
{
    static const long double parts[10][2] = {
        [1] = {0.2126L, 0.0722L}, [2] = {0.299L, 0.114L}, [4] = {0.3L, 0.11L},
        [5] = {0.299L, 0.114L},   [6] = {0.299L, 0.114L}, [7] = {0.212L, 0.087L},
        [9] = {0.2627L, 0.0593L}};
    bool full = image->yuvRange == AVIF_RANGE_FULL;
    long double k = 1 << (image->depth - 8), most = (1 << image->depth) - 1;
    long double range = full ? most : 219 * k, chroma = 16 * (full ? most : 224 * k), r, b;
    int64_t zero = full ? 0 : 16 << (image->depth - 8), middle = 16LL << (image->depth - 1);
    int64_t luma = at32(255 / range) * (sample_of(image, 0, x, y) - zero), u, v;
    uint32_t matrix = image->matrixCoefficients;

    if (image->yuvFormat == AVIF_PIXEL_FORMAT_YUV400) {
        rgb[0] = rgb[1] = rgb[2] = rounded(luma);
        return true;
    }
    u = chroma_at(image, 1, x, y) - middle;
    v = chroma_at(image, 2, x, y) - middle;
    if (matrix == 0) {
        rgb[0] = rounded(at32(255 / (16 * range)) * (v + middle - 16 * zero));
        rgb[1] = rounded(luma);
        rgb[2] = rounded(at32(255 / (16 * range)) * (u + middle - 16 * zero));
        return image->yuvFormat == AVIF_PIXEL_FORMAT_YUV444;
    }
    if (matrix == 8) {
        rgb[0] = rounded(luma - at32(255 / chroma) * u + at32(255 / chroma) * v);
        rgb[1] = rounded(luma + at32(255 / chroma) * u);
        rgb[2] = rounded(luma - at32(255 / chroma) * u - at32(255 / chroma) * v);
        return full;
    }
    if (matrix > 9 || parts[matrix][0] == 0)
        return false;
    r = parts[matrix][0];
    b = parts[matrix][1];
    rgb[0] = rounded(luma + at32(255 * 2 * (1 - r) / chroma) * v);
    rgb[1] = rounded(luma - at32(255 * 2 * b * (1 - b) / (1 - r - b) / chroma) * u -
                     at32(255 * 2 * r * (1 - r) / (1 - r - b) / chroma) * v);
    rgb[2] = rounded(luma + at32(255 * 2 * (1 - b) / chroma) * u);
    return true;
}

static int decode_avif(const uint8_t *bytes, size_t len, bool pixels, uint32_t last,
                       struct oracle_image *ret)
{
    avifDecoder *decoder = avifDecoderCreate();
    const avifImage *image = decoder->image;
    uint32_t left = 0, top = 0, rows, flags;
    int r = -EBADMSG;

    ret->rgb = NULL;
    decoder->codecChoice = AVIF_CODEC_CHOICE_DAV1D;
    decoder->strictFlags = AVIF_STRICT_DISABLED;
    decoder->ignoreExif = decoder->ignoreXMP = AVIF_TRUE;
    decoder->imageDimensionLimit = 0;
    if (avifDecoderSetIOMemory(decoder, bytes, len) != AVIF_RESULT_OK ||
        avifDecoderParse(decoder) != AVIF_RESULT_OK)
        goto out;
    image = decoder->image;
    flags = image->transformFlags;
    ret->width = image->width;
    ret->height = image->height;
    if ((flags & AVIF_TRANSFORM_CLAP) &&
        (!clean_axis(image->width,
                     &(struct aperture){image->clap.widthN, image->clap.widthD,
                                        image->clap.horizOffN, image->clap.horizOffD},
                     &left, &ret->width) ||
         !clean_axis(image->height,
                     &(struct aperture){image->clap.heightN, image->clap.heightD,
                                        image->clap.vertOffN, image->clap.vertOffD},
                     &top, &ret->height)))
        goto out;
    ret->orientation =
        turned_like(flags & AVIF_TRANSFORM_IROT ? image->irot.angle : 0,
                    (flags & AVIF_TRANSFORM_IMIR) && ((const uint8_t *)&image->imir)[0] == 0,
                    (flags & AVIF_TRANSFORM_IMIR) && ((const uint8_t *)&image->imir)[0] == 1);
    r = 0;
    if (!pixels)
        goto out;
    decoder->imageDimensionLimit = 1; /* nothing is scaled */
    r = avifDecoderNextImage(decoder) == AVIF_RESULT_OK ? 0 : -EBADMSG;
    rows = last < ret->height ? last + 1 : ret->height;
    ret->rgb = malloc((size_t)ret->width * rows * 3);
    for (uint32_t i = 0; r == 0 && i < ret->width * rows; i++)
        if (!avif_pixel(image, left + i % ret->width, top + i / ret->width, ret->rgb + 3 * i))
            r = -EBADMSG;

out:
    if (r < 0) {
        free(ret->rgb);
        ret->rgb = NULL;
    }
    avifDecoderDestroy(decoder);
    return r;
}
#else
static bool is_avif(const uint8_t *bytes, size_t len)
{
    (void)bytes;
    (void)len;
    return false;
}

static int decode_avif(const uint8_t *bytes, size_t len, bool pixels, uint32_t last,
                       struct oracle_image *ret)
{
    (void)bytes;
    (void)len;
    (void)pixels;
    (void)last;
    ret->rgb = NULL;
    return -ENOTSUP;
}
#endif

/* Parse a number in a PPM's header, and the byte after it. Returns -1 if it is not a number. */
static int64_t ppm_number(const uint8_t *bytes, size_t len, size_t *at, uint8_t *orientation)
{
    char text[12] = "", line[32];
    size_t digits = 0;

    while (*at < len && (isspace(bytes[*at]) || bytes[*at] == '#')) {
        size_t end = *at;

        if (bytes[*at] != '#') {
            ++*at;
            continue;
        }
        while (end < len && bytes[end] != '\n' && bytes[end] != '\r')
            end++;
        for (int o = 1; o <= 8; o++) {
            int n = snprintf(line, sizeof(line), "# EXIF orientation %d", o);

            if (end - *at == (size_t)n && memcmp(bytes + *at, line, (size_t)n) == 0)
                *orientation = (uint8_t)o;
        }
        *at = end;
    }
    while (*at < len && isdigit(bytes[*at]) && digits < 11)
        text[digits++] = (char)bytes[(*at)++];
    if (digits == 0 || digits > 10 || *at == len || !isspace(bytes[*at]))
        return -1;
    ++*at;
    return atoll(text);
}

static int decode_ppm(const uint8_t *bytes, size_t len, bool pixels, uint32_t last,
                      struct oracle_image *ret)
{
    size_t at = 3, samples = bytes[1] == '6' ? 3 : 1;
    int64_t width = ppm_number(bytes, len, &at, &ret->orientation);
    int64_t height = width < 0 ? -1 : ppm_number(bytes, len, &at, &ret->orientation);
    int64_t most = height < 0 ? -1 : ppm_number(bytes, len, &at, &ret->orientation);

    ret->rgb = NULL;
    if (width < 1 || width > 65500 || height < 1 || height > 65500 || most != 255 ||
        width * height > 1 << 27 || at > 1 << 24 || len - at != (size_t)(width * height) * samples)
        return -EBADMSG;
    ret->width = (uint32_t)width;
    ret->height = (uint32_t)height;
    if (pixels) {
        size_t rows = last < ret->height ? last + 1 : ret->height;

        ret->rgb = malloc(ret->width * rows * 3);
        for (size_t i = 0; i < ret->width * rows; i++)
            for (size_t c = 0; c < 3; c++)
                ret->rgb[3 * i + c] = bytes[at + i * samples + (samples == 3 ? c : 0)];
    }
    return 0;
}

static int decode(const uint8_t *bytes, size_t len, bool pixels, uint32_t last,
                  struct oracle_image *ret)
{
    ret->orientation = 1;
    if (len >= 2 && bytes[0] == 0xFF && bytes[1] == 0xD8)
        return decode_jpeg(bytes, len, pixels, last, ret);
    if (len >= 4 && memcmp(bytes, "\x89PNG", 4) == 0)
        return decode_png(bytes, len, pixels, last, ret);
    if (len >= 12 && memcmp(bytes, "RIFF", 4) == 0 && memcmp(bytes + 8, "WEBP", 4) == 0)
        return decode_webp(bytes, len, pixels, last, ret);
    if (is_avif(bytes, len))
        return decode_avif(bytes, len, pixels, last, ret);
    if (len >= 3 && bytes[0] == 'P' && (bytes[1] == '5' || bytes[1] == '6') && isspace(bytes[2]))
        return decode_ppm(bytes, len, pixels, last, ret);
    return -EBADMSG;
}

int oracle_header(const uint8_t *bytes, size_t len, uint32_t *width, uint32_t *height,
                  uint8_t *orientation)
{
    struct oracle_image image;
    int r = decode(bytes, len, false, 0, &image);

    if (r < 0)
        return r;
    *width = image.width;
    *height = image.height;
    *orientation = image.orientation;
    return 0;
}

int oracle_decode(const uint8_t *bytes, size_t len, uint32_t last, struct oracle_image *ret)
{
    return decode(bytes, len, true, last, ret);
}

#ifdef __x86_64__
bool oracle_judges(const uint8_t *bytes, size_t len)
{
    (void)bytes;
    (void)len;
    return true;
}
#else
/* A number between the passes is at most 4 * sqrt(2) times the sum of the magnitudes in its column,
 * and two of them are added: up to this sum, everything fits 16 bits. */
enum { TAME = 2800 };

static bool is_tame(j_decompress_ptr d, jvirt_barray_ptr *arrays)
{
    for (int i = 0; i < d->num_components; i++) {
        jpeg_component_info *info = &d->comp_info[i];

        for (JDIMENSION y = 0; y < info->height_in_blocks; y++) {
            JBLOCKARRAY row = d->mem->access_virt_barray((j_common_ptr)d, arrays[i], y, 1, FALSE);

            for (JDIMENSION x = 0; x < info->width_in_blocks; x++) {
                int64_t sum = 0;

                for (int k = 0; k < DCTSIZE2; k++)
                    sum += llabs((int64_t)row[0][x][k] * info->quant_table->quantval[k]);
                if (sum > TAME)
                    return false;
            }
        }
    }
    return true;
}

bool oracle_judges(const uint8_t *bytes, size_t len)
{
    struct jpeg_decompress_struct d;
    struct oracle_errors errors;
    bool volatile tame = false; /* stays false if not all coefficients can be read */

    if (len < 2 || bytes[0] != 0xFF || bytes[1] != 0xD8)
        return true;
    d.err = jpeg_std_error(&errors.manager);
    errors.manager.error_exit = on_error;
    errors.manager.output_message = on_output;
    jpeg_create_decompress(&d);
    if (!setjmp(errors.escape)) {
        jpeg_mem_src(&d, bytes, len);
        (void)jpeg_read_header(&d, TRUE);
        tame = is_tame(&d, jpeg_read_coefficients(&d));
    }
    jpeg_destroy_decompress(&d);
    return tame;
}
#endif

/* Returns sin(pi t / 2^18) / (pi t / 2^18) times 2^30, computed as defined in docs/pixels.md. */
static int64_t sinc_of(int64_t t)
{
    static const int64_t c[8] = {1073741824, -1766234505, 871601792, -204818212,
                                 28076038,   -2519085,    159374,    -7490};
    int64_t r = t % 262144, z, sum = 0;

    if (r > 131072)
        r = 262144 - r;
    z = r * r / 262144;
    for (int k = 7; k >= 0; k--) /* rounds down, whatever the sign */
        sum = c[k] + ((sum * z) >> 18);
    sum = r * sum / t;
    return t / 262144 % 2 ? -sum : sum;
}

static int64_t filtered(enum pipeline_filter filter, int64_t t)
{
    const int64_t one = 262144;

    if (filter == PIPELINE_LANCZOS)
        return t < 3 ? one : (sinc_of(t) * sinc_of(t / 3)) >> 42;
    if (t < one)
        return (3 * t * t * t - 5 * t * t * one + 2 * one * one * one) >> 37;
    return (-t * t * t + 5 * t * t * one - 8 * t * one * one + 4 * one * one * one) >> 37;
}

static int64_t weight_of(enum pipeline_filter filter, uint32_t n, uint32_t m, uint32_t i,
                         uint32_t x)
{
    int64_t unit = 2 * (int64_t)(n > m ? n : m);
    int64_t apart = llabs((2 * (int64_t)x + 1) * m - (2 * (int64_t)i + 1) * n);
    uint64_t t;

    if (filter == PIPELINE_NEAREST)
        return x == (2 * (uint64_t)i + 1) * n / (2 * (uint64_t)m);
    if (filter == PIPELINE_BILINEAR)
        return apart < unit ? unit - apart : 0;
    if (apart >= (filter == PIPELINE_BICUBIC ? 2 : 3) * unit)
        return 0;
    t = (uint64_t)apart * ((UINT64_C(1) << 50) / (uint64_t)unit) >> 32;
    return filtered(filter, (int64_t)t);
}

void oracle_coefficients(enum pipeline_filter filter, uint32_t n, uint32_t m, uint32_t i,
                         int32_t *coef)
{
    int64_t sum = 0, rest = 16384;
    uint32_t best = 0;

    for (uint32_t x = 0; x < n; x++)
        sum += weight_of(filter, n, m, i, x);
    for (uint32_t x = 0; x < n; x++) {
        int64_t weight = weight_of(filter, n, m, i, x);

        if (filter == PIPELINE_BICUBIC || filter == PIPELINE_LANCZOS)
            coef[x] = (int32_t)((weight * ((INT64_C(1) << 46) / sum) + (INT64_C(1) << 31)) >> 32);
        else /* floor(weight * 2^14 / sum + 1/2) */
            coef[x] = (int32_t)((2 * 16384 * weight + sum) / (2 * sum));
        rest -= coef[x];
        if (coef[x] > coef[best])
            best = x;
    }
    coef[best] += (int32_t)rest;
}

static uint8_t apply(const uint8_t *from, size_t step, const int32_t *coef, uint32_t begin,
                     uint32_t end)
{
    int64_t sum = 8192;

    for (uint32_t x = begin; x < end; x++)
        sum += (int64_t)coef[x] * from[x * step];
    sum >>= 14;
    return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

void oracle_resize(const struct oracle_line *line)
{
    int32_t *coef = malloc(line->n * sizeof(*coef));

    for (uint32_t i = 0; i < line->outputs; i++) {
        oracle_coefficients(line->filter, line->n, line->m, line->first + i, coef);
        line->to[i * line->to_step] = apply(line->from, line->step, coef, 0, line->n);
    }
    free(coef);
}

/* The coefficients of a whole window, and which sources have a weight. */
struct axis {
    uint32_t n, count;
    uint32_t *begin, *end; /* [count] */
    int32_t *coef;         /* [count][n] */
    uint32_t first, last;  /* the sources with a weight in any output */
};

static struct axis make_axis(enum pipeline_filter filter, uint32_t n, uint32_t m, uint32_t first,
                             uint32_t count)
{
    struct axis a = {.n = n, .count = count, .first = UINT32_MAX};

    a.coef = malloc((size_t)n * count * sizeof(*a.coef));
    a.begin = malloc(count * sizeof(*a.begin));
    a.end = malloc(count * sizeof(*a.end));
    for (uint32_t i = 0; i < count; i++) {
        oracle_coefficients(filter, n, m, first + i, a.coef + (size_t)i * n);
        a.begin[i] = UINT32_MAX;
        for (uint32_t x = 0; x < n; x++) {
            if (weight_of(filter, n, m, first + i, x) == 0)
                continue;
            a.begin[i] = x < a.begin[i] ? x : a.begin[i];
            a.end[i] = x + 1;
        }
        a.first = a.begin[i] < a.first ? a.begin[i] : a.first;
        a.last = a.end[i] - 1 > a.last ? a.end[i] - 1 : a.last;
    }
    return a;
}

static void free_axis(struct axis *a)
{
    free(a->coef);
    free(a->begin);
    free(a->end);
}

static void store_pixel(const struct image_store *store, const struct pipeline *p, uint32_t x,
                        uint32_t y, const uint8_t *rgb, uint8_t *dst)
{
    for (uint32_t c = 0; c < store->channels; c++) {
        int value = c == 3 ? 128 : rgb[c]; /* 128 is int8's zero */
        size_t at = store->layout == PLENUM_NHWC ? ((size_t)y * p->width + x) * store->channels + c
                                                 : ((size_t)c * p->height + y) * p->width + x;

        dst[at] = (uint8_t)(store->dtype == PLENUM_INT8 ? value - 128 : value);
    }
}

/* Returns the sample that is at x in a row of n samples that `mode` extends, or -1. */
static int64_t folded(enum pipeline_pad mode, int64_t x, int64_t n)
{
    while (x < 0 || x >= n) {
        if (mode == PIPELINE_CONSTANT)
            return -1;
        if (mode == PIPELINE_EDGE || n == 1)
            return x < 0 ? 0 : n - 1;
        if (mode == PIPELINE_REFLECT)
            x = x < 0 ? -x : 2 * (n - 1) - x;
        else
            x = x < 0 ? -1 - x : 2 * n - 1 - x;
    }
    return x;
}

/* Returns which samples of the resized image are shown, [count]; -1: the level of the padding. `n`
 * is the number of samples of the resized image. tests/loader/render/test_placed.py checks what
 * the renderer computes for scale_jitter, zoom_out and iou_crop. */
static int64_t *places_of(const struct pipeline *p, const struct crop_axis *placed, int64_t n,
                          uint32_t count, uint32_t window, uint32_t random)
{
    int64_t *at = malloc(count * sizeof(*at)), pad = p->pad, all = n + 2 * pad, more, first;

    more = all < count ? count - all : 0;
    first = (int64_t)(((uint64_t)random * (uint64_t)(all + 2 * more - count + 1)) >> 32);
    for (int64_t i = 0; i < count; i++) {
        if (p->crop == PIPELINE_SCALE_JITTER || pipeline_is_placed(p)) {
            at[i] = (int64_t)placed->first + i - placed->more;
            at[i] = at[i] < n ? at[i] : -1;
        } else if (p->crop == PIPELINE_LETTERBOX) {
            int64_t space = count - n,
                    left = space / 2 + (space % 4 == 3); /* a half is rounded to even */

            at[i] = i < left || i >= left + n ? -1 : i - left;
        } else if (p->crop == PIPELINE_RANDOM_CROP) {
            at[i] = folded(p->pad_mode, first + i - more, all);
            if (at[i] >= 0)
                at[i] = folded(p->pad_mode, at[i] - pad, n);
            else
                at[i] = -1;
        } else {
            at[i] = window + i;
        }
    }
    return at;
}

struct range {
    uint32_t first, count;
};

/* Returns the range from the first to the last of these samples. If all are padding, it is the
 * sample nearest to the first position. */
static struct range range_of(const struct pipeline *p, const int64_t *at, uint32_t count,
                             uint32_t random, int64_t n)
{
    int64_t low = -1, high = -1;

    for (uint32_t i = 0; i < count; i++) {
        if (at[i] < 0)
            continue;
        low = low < 0 || at[i] < low ? at[i] : low;
        high = at[i] > high ? at[i] : high;
    }
    if (low < 0) { /* the window is on one side: in the padding before the image, or after it */
        int64_t places = n + 2 * (int64_t)p->pad - count + 1;

        low = high = (int64_t)(((uint64_t)random * (uint64_t)places) >> 32) < p->pad ? 0 : n - 1;
    }
    return (struct range){(uint32_t)low, (uint32_t)(high - low + 1)};
}

static int render(const struct pipeline *pipeline, const struct image_draw *draw,
                  const struct image_store *store, const uint8_t *bytes, size_t len, uint8_t *dst)
{
    struct philox_block random =
        philox_draw(draw->seed, draw->position, draw->epoch, DRAW_PLACE, 0);
    struct crop_tables tables = {0};
    struct oracle_image image;
    struct crop crop;
    struct axis across, down;
    struct range wide, high;
    uint32_t w, h, left, top, columns, rows, last = 0;
    uint32_t width = pipeline->width, height = pipeline->height;
    int64_t *shown_x, *shown_y;
    uint8_t orientation;
    uint8_t *narrow, *shown, *window;
    int r;

    r = oracle_header(bytes, len, &w, &h, &orientation);
    if (r < 0)
        return r;
    if (!pipeline->exif)
        orientation = 1;
    crop_locate(pipeline, draw, orientation >= 5 ? h : w, orientation >= 5 ? w : h, &tables, &crop);
    left = crop.box.left;
    top = crop.box.top;
    columns = crop.box.width;
    rows = crop.box.height;
    shown_x =
        places_of(pipeline, &crop.across, crop.width, width, crop.window.left, random.word[1]);
    shown_y = places_of(pipeline, &crop.down, crop.height, height, crop.window.top, random.word[0]);
    wide = range_of(pipeline, shown_x, width, random.word[1], crop.width);
    high = range_of(pipeline, shown_y, height, random.word[0], crop.height);
    across = make_axis(crop.filter, columns, crop.width, wide.first, wide.count);
    down = make_axis(crop.filter, rows, crop.height, high.first, high.count);
    for (int corner = 0; corner < 4; corner++) {
        uint32_t x = left + (corner & 1 ? across.first : across.last);
        uint32_t y = top + (corner & 2 ? down.first : down.last);
        struct pixel stored = stored_at(orientation, w, h, x, y);

        last = stored.y > last ? stored.y : last;
    }
    r = oracle_decode(bytes, len, last, &image);
    if (r < 0)
        goto out;
    /* The box as it is shown; pixels that were not decoded have no weight. */
    shown = calloc((size_t)columns * rows, 3);
    for (uint32_t y = down.first; y <= down.last; y++)
        for (uint32_t x = across.first; x <= across.last; x++) {
            struct pixel stored =
                stored_at(orientation, image.width, image.height, left + x, top + y);

            memcpy(shown + ((size_t)y * columns + x) * 3,
                   image.rgb + ((size_t)stored.y * image.width + stored.x) * 3, 3);
        }
    narrow = malloc((size_t)wide.count * rows * 3);
    window = malloc((size_t)width * height * 3);
    for (size_t i = 0; i < (size_t)width * height; i++)
        memcpy(window + 3 * i, pipeline->fill, 3);
    for (uint32_t y = down.first; y <= down.last; y++)
        for (uint32_t i = 0; i < wide.count; i++)
            for (uint32_t c = 0; c < 3; c++)
                narrow[((size_t)y * wide.count + i) * 3 + c] =
                    apply(shown + (size_t)y * columns * 3 + c, 3,
                          across.coef + (size_t)i * across.n, across.begin[i], across.end[i]);
    for (uint32_t i = 0; i < height; i++)
        for (uint32_t x = 0; x < width; x++) {
            uint8_t *to = window + ((size_t)i * width + (crop.mirror ? width - 1 - x : x)) * 3;
            int64_t column = shown_x[x] - wide.first, row = shown_y[i] - high.first;

            for (uint32_t c = 0; c < 3 && shown_x[x] >= 0 && shown_y[i] >= 0; c++)
                to[c] = apply(narrow + (size_t)column * 3 + c, (size_t)wide.count * 3,
                              down.coef + (size_t)row * down.n, down.begin[row], down.end[row]);
        }
    oracle_operate(pipeline, draw, window);
    for (uint32_t i = 0; i < height; i++)
        for (uint32_t x = 0; x < width; x++)
            store_pixel(store, pipeline, x, i, window + ((size_t)i * width + x) * 3, dst);
    free(window);
    free(narrow);
    free(shown);
    free(image.rgb);

out:
    free(shown_x);
    free(shown_y);
    free_axis(&across);
    free_axis(&down);
    return r;
}

int oracle_render(const struct pipeline *pipeline, const struct image_draw *draw,
                  const struct image_store *store, const uint8_t *bytes, size_t len, uint8_t *dst)
{
    int r;

    junk_is_forgiven = pipeline->junk;
    r = render(pipeline, draw, store, bytes, len, dst);
    junk_is_forgiven = false;
    return r;
}
