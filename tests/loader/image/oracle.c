#include "config.h"

#include "tests/loader/image/oracle.h"

#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <png.h>

#include "loader/image/exif.h"

struct oracle_errors {
    struct jpeg_error_mgr manager;
    jmp_buf escape;
};

static void on_error(j_common_ptr c)
{
    longjmp(((struct oracle_errors *)c->err)->escape, 1);
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

/* Without `pixels` only the size. */
static int decode_jpeg(const uint8_t *bytes, size_t len, bool pixels, uint32_t shrink,
                       uint32_t last, struct oracle_image *ret)
{
    struct jpeg_decompress_struct d;
    struct oracle_errors errors;
    uint8_t *volatile row = NULL;
    uint32_t volatile rows = last;
    int volatile r = -EBADMSG;

    ret->rgb = NULL;
    d.err = jpeg_std_error(&errors.manager);
    errors.manager.error_exit = on_error;
    errors.manager.output_message = on_output;
    jpeg_create_decompress(&d);
    if (setjmp(errors.escape))
        goto out;
    jpeg_mem_src(&d, bytes, len);
    (void)jpeg_read_header(&d, TRUE);
    if (d.num_components != 1 && d.num_components != 3 && d.num_components != 4)
        goto out;
    ret->orientation = exif_of_jpeg(bytes, len);
    ret->width = d.image_width;
    ret->height = d.image_height;
    if (pixels) {
        d.out_color_space = d.num_components == 4 ? JCS_CMYK : JCS_RGB;
        d.dct_method = JDCT_ISLOW;
        d.do_block_smoothing = FALSE;
        d.scale_num = 1;
        d.scale_denom = shrink;
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

/* All as RGBA, of which the last is dropped. */
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

static int decode(const uint8_t *bytes, size_t len, bool pixels, uint32_t shrink, uint32_t last,
                  struct oracle_image *ret)
{
    ret->orientation = 1;
    if (len >= 2 && bytes[0] == 0xFF && bytes[1] == 0xD8)
        return decode_jpeg(bytes, len, pixels, shrink, last, ret);
    if (len >= 4 && memcmp(bytes, "\x89PNG", 4) == 0)
        return decode_png(bytes, len, pixels, last, ret);
    return -EBADMSG;
}

int oracle_header(const uint8_t *bytes, size_t len, uint32_t *width, uint32_t *height,
                  uint8_t *orientation)
{
    struct oracle_image image;
    int r = decode(bytes, len, false, 1, 0, &image);

    if (r < 0)
        return r;
    *width = image.width;
    *height = image.height;
    *orientation = image.orientation;
    return 0;
}

int oracle_decode(const uint8_t *bytes, size_t len, uint32_t shrink, uint32_t last,
                  struct oracle_image *ret)
{
    return decode(bytes, len, true, shrink, last, ret);
}

uint32_t oracle_shrink(const struct pipeline *pipeline, const struct crop *crop, bool jpeg)
{
    for (uint32_t d = 8; d > 1; d /= 2)
        if (pipeline->version == PIPELINE_FAST_V1 && jpeg && crop->box.width >= d * crop->width &&
            crop->box.height >= d * crop->height)
            return d;
    return 1;
}

/* Source samples of one axis from a box of n to m: twice the distance of their centres from the
 * beginning of the box. */
struct sources {
    uint32_t n, m;
    uint32_t count;
    int64_t *twice; /* [count] */
};

static int64_t weight_of(const struct sources *s, uint32_t i, uint32_t x)
{
    int64_t reach = 2 * (int64_t)(s->n > s->m ? s->n : s->m);
    int64_t apart = llabs(s->twice[x] * s->m - (2 * (int64_t)i + 1) * s->n);

    return apart < reach ? reach - apart : 0;
}

static void find_coefficients(const struct sources *s, uint32_t i, int32_t *coef)
{
    int64_t sum = 0, rest = 16384;
    uint32_t best = 0;

    for (uint32_t x = 0; x < s->count; x++)
        sum += weight_of(s, i, x);
    for (uint32_t x = 0; x < s->count; x++) { /* floor(weight * 2^14 / sum + 1/2) */
        coef[x] = (int32_t)((2 * 16384 * weight_of(s, i, x) + sum) / (2 * sum));
        rest -= coef[x];
        if (coef[x] > coef[best])
            best = x;
    }
    coef[best] += (int32_t)rest;
}

void oracle_coefficients(uint32_t n, uint32_t m, uint32_t i, int32_t *coef)
{
    struct sources s = {n, m, n, malloc(n * sizeof(*s.twice))};

    for (uint32_t x = 0; x < n; x++)
        s.twice[x] = 2 * (int64_t)x + 1;
    find_coefficients(&s, i, coef);
    free(s.twice);
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

void oracle_resize(const uint8_t *from, uint32_t n, size_t step, uint32_t m, uint32_t first,
                   uint32_t outputs, uint8_t *to, size_t to_step)
{
    int32_t *coef = malloc(n * sizeof(*coef));

    for (uint32_t i = 0; i < outputs; i++) {
        oracle_coefficients(n, m, first + i, coef);
        to[i * to_step] = apply(from, step, coef, 0, n);
    }
    free(coef);
}

/* The coefficients of a whole window, and which sources have any weight. */
struct axis {
    uint32_t n, count;
    uint32_t *begin, *end; /* [count] */
    int32_t *coef;         /* [count][n] */
    uint32_t first, last;  /* sources with weight for any output */
};

static struct axis make_axis(const struct sources *s, uint32_t first, uint32_t count)
{
    uint32_t n = s->count;
    struct axis a = {.n = n, .count = count, .first = UINT32_MAX};

    a.coef = malloc((size_t)n * count * sizeof(*a.coef));
    a.begin = malloc(count * sizeof(*a.begin));
    a.end = malloc(count * sizeof(*a.end));
    for (uint32_t i = 0; i < count; i++) {
        find_coefficients(s, first + i, a.coef + (size_t)i * n);
        a.begin[i] = UINT32_MAX;
        for (uint32_t x = 0; x < n; x++) {
            if (weight_of(s, first + i, x) == 0)
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

/* EXIF: the stored pixel that is shown at (x, y), for a stored image of w x h. */
static void stored_at(uint8_t orientation, uint32_t w, uint32_t h, uint32_t x, uint32_t y,
                      uint32_t *sx, uint32_t *sy)
{
    switch (orientation) {
    case 1:
        *sx = x, *sy = y;
        break;
    case 2:
        *sx = w - 1 - x, *sy = y;
        break;
    case 3:
        *sx = w - 1 - x, *sy = h - 1 - y;
        break;
    case 4:
        *sx = x, *sy = h - 1 - y;
        break;
    case 5:
        *sx = y, *sy = x;
        break;
    case 6:
        *sx = y, *sy = h - 1 - x;
        break;
    case 7:
        *sx = w - 1 - y, *sy = h - 1 - x;
        break;
    default:
        *sx = w - 1 - y, *sy = x;
        break;
    }
}

/* Twice the centre, as it is seen in the turned image, of the square of d pixels of a stored image
 * of w x h that is number (x, y) of those that are seen. */
static void seen_at(uint8_t orientation, uint32_t w, uint32_t h, uint32_t d, uint32_t x, uint32_t y,
                    int64_t *cx, int64_t *cy)
{
    uint32_t sx, sy;
    int64_t px, py;

    stored_at(orientation, (w + d - 1) / d, (h + d - 1) / d, x, y, &sx, &sy);
    px = (2 * (int64_t)sx + 1) * d;
    py = (2 * (int64_t)sy + 1) * d;
    *cx = px, *cy = py;
    if (orientation == 2 || orientation == 3)
        *cx = 2 * (int64_t)w - px;
    if (orientation == 3 || orientation == 4)
        *cy = 2 * (int64_t)h - py;
    if (orientation >= 5) {
        *cx = orientation == 5 || orientation == 8 ? py : 2 * (int64_t)h - py;
        *cy = orientation == 5 || orientation == 6 ? px : 2 * (int64_t)w - px;
    }
}

/* The squares of `all` in a row (or a column) whose centres lie in a box from `begin` on. */
static struct sources choose_sources(uint32_t n, uint32_t m, uint32_t begin, const int64_t *twice,
                                     uint32_t all, uint32_t *first)
{
    struct sources s = {n, m, 0, malloc(all * sizeof(*s.twice))};

    for (uint32_t x = 0; x < all; x++) {
        if (twice[x] < 2 * (int64_t)begin || twice[x] >= 2 * ((int64_t)begin + n))
            continue;
        if (s.count == 0)
            *first = x;
        s.twice[s.count++] = twice[x] - 2 * (int64_t)begin;
    }
    return s;
}

static void store_pixel(const struct image_store *store, uint32_t side, uint32_t x, uint32_t y,
                        const uint8_t *rgb, uint8_t *dst)
{
    for (uint32_t c = 0; c < store->channels; c++) {
        int value = c == 3 ? 128 : rgb[c]; /* 128 is where int8 has its zero */
        size_t at = store->layout == PLENUM_NHWC ? ((size_t)y * side + x) * store->channels + c
                                                 : ((size_t)c * side + y) * side + x;

        dst[at] = (uint8_t)(store->dtype == PLENUM_INT8 ? value - 128 : value);
    }
}

int oracle_render(const struct pipeline *pipeline, const struct image_draw *draw,
                  const struct image_store *store, const uint8_t *bytes, size_t len, uint8_t *dst)
{
    struct crop_tables tables = {0};
    struct oracle_image image;
    struct crop crop;
    struct sources columns, rows;
    struct axis across, down;
    uint32_t w, h, d, seen_w, seen_h, left = 0, top = 0, side = pipeline->side, last = 0;
    uint8_t orientation;
    uint8_t *narrow, *shown;
    int64_t *cx, *cy, unused;
    int r;

    r = oracle_header(bytes, len, &w, &h, &orientation);
    if (r < 0)
        return r;
    if (!pipeline->exif)
        orientation = 1;
    crop_place(pipeline, draw, orientation >= 5 ? h : w, orientation >= 5 ? w : h, &tables, &crop);
    d = oracle_shrink(pipeline, &crop, bytes[0] == 0xFF);
    seen_w = ((orientation >= 5 ? h : w) + d - 1) / d;
    seen_h = ((orientation >= 5 ? w : h) + d - 1) / d;
    cx = malloc(seen_w * sizeof(*cx));
    cy = malloc(seen_h * sizeof(*cy));
    for (uint32_t x = 0; x < seen_w; x++)
        seen_at(orientation, w, h, d, x, 0, &cx[x], &unused);
    for (uint32_t y = 0; y < seen_h; y++)
        seen_at(orientation, w, h, d, 0, y, &unused, &cy[y]);
    columns = choose_sources(crop.box.width, crop.width, crop.box.left, cx, seen_w, &left);
    rows = choose_sources(crop.box.height, crop.height, crop.box.top, cy, seen_h, &top);
    across = make_axis(&columns, crop.window.left, side);
    down = make_axis(&rows, crop.window.top, side);
    for (int corner = 0; corner < 4; corner++) {
        uint32_t x = left + (corner & 1 ? across.first : across.last), sx;
        uint32_t y = top + (corner & 2 ? down.first : down.last), sy;

        stored_at(orientation, (w + d - 1) / d, (h + d - 1) / d, x, y, &sx, &sy);
        last = sy > last ? sy : last;
    }
    r = oracle_decode(bytes, len, d, last, &image);
    if (r < 0)
        goto out;
    /* The box as it is shown; where it was not decoded, it has no weight. */
    shown = calloc((size_t)columns.count * rows.count, 3);
    for (uint32_t y = down.first; y <= down.last; y++)
        for (uint32_t x = across.first; x <= across.last; x++) {
            uint32_t sx, sy;

            stored_at(orientation, image.width, image.height, left + x, top + y, &sx, &sy);
            memcpy(shown + ((size_t)y * columns.count + x) * 3,
                   image.rgb + ((size_t)sy * image.width + sx) * 3, 3);
        }
    narrow = malloc((size_t)side * rows.count * 3);
    for (uint32_t y = down.first; y <= down.last; y++)
        for (uint32_t i = 0; i < side; i++)
            for (uint32_t c = 0; c < 3; c++)
                narrow[((size_t)y * side + i) * 3 + c] =
                    apply(shown + (size_t)y * columns.count * 3 + c, 3,
                          across.coef + (size_t)i * across.n, across.begin[i], across.end[i]);
    for (uint32_t i = 0; i < side; i++)
        for (uint32_t x = 0; x < side; x++) {
            uint8_t rgb[3];

            for (uint32_t c = 0; c < 3; c++)
                rgb[c] = apply(narrow + (size_t)x * 3 + c, (size_t)side * 3,
                               down.coef + (size_t)i * down.n, down.begin[i], down.end[i]);
            store_pixel(store, side, crop.mirror ? side - 1 - x : x, i, rgb, dst);
        }
    free(narrow);
    free(shown);
    free(image.rgb);

out:
    free(cx);
    free(cy);
    free(columns.twice);
    free(rows.twice);
    free_axis(&across);
    free_axis(&down);
    return r;
}
