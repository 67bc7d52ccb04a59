/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tests/loader/image/made.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <png.h>
#ifdef HAVE_AVIF
#include <avif/avif.h>
#endif
#ifdef HAVE_WEBP
#include <webp/encode.h>
#endif

#include "common/order/philox.h"
#include "common/util/util.h"
#include "loader/image/rect.h"

const struct made_jpeg made_kinds[] = {
    {"grey", .colour = MADE_GREY},
    {"grey 2x2", .colour = MADE_GREY, .sampling = "22"},
    {"4:4:4", .colour = MADE_COLOUR, .sampling = "11 11 11"},
    {"4:2:2", .colour = MADE_COLOUR, .sampling = "21 11 11"},
    {"4:2:0", .colour = MADE_COLOUR, .sampling = "22 11 11"},
    {"4:4:0", .colour = MADE_COLOUR, .sampling = "12 11 11"},
    {"4:1:1", .colour = MADE_COLOUR, .sampling = "41 11 11"},
    {"4:1:0", .colour = MADE_COLOUR, .sampling = "42 11 11"},
    {"1x4", .colour = MADE_COLOUR, .sampling = "14 11 11"},
    {"3x1", .colour = MADE_COLOUR, .sampling = "31 11 11"},
    {"2x3", .colour = MADE_COLOUR, .sampling = "23 11 11"},
    {"4x1 2x1 1x1", .colour = MADE_COLOUR, .sampling = "41 21 11"},
    {"2x2 2x1 1x2", .colour = MADE_COLOUR, .sampling = "22 21 12"},
    {"1x4 1x2 1x1", .colour = MADE_COLOUR, .sampling = "14 12 11"},
    {"2x4", .colour = MADE_COLOUR, .sampling = "24 11 11"},
    {"chroma larger", .colour = MADE_COLOUR, .sampling = "11 22 22"},
    {"all 2x2", .colour = MADE_COLOUR, .sampling = "22 22 11"},
    {"rgb", .colour = MADE_RGB, .sampling = "11 11 11"},
    {"rgb 2x2", .colour = MADE_RGB, .sampling = "22 11 11"},
    {"cmyk", .colour = MADE_CMYK, .sampling = "11 11 11 11"},
    {"cmyk 2x2", .colour = MADE_CMYK, .sampling = "22 11 11 22"},
    {"ycck", .colour = MADE_YCCK, .sampling = "11 11 11 11"},
    {"ycck 2x2", .colour = MADE_YCCK, .sampling = "22 11 11 22"},
    {"progressive 4:2:0", .colour = MADE_COLOUR, .progressive = true},
    {"progressive 4:4:4", .colour = MADE_COLOUR, .sampling = "11 11 11", .progressive = true},
    {"progressive grey", .colour = MADE_GREY, .progressive = true},
    {"unfinished", .colour = MADE_COLOUR, .progressive = true, .unfinished = true},
    {"arithmetic", .colour = MADE_COLOUR, .arithmetic = true},
    {"arithmetic progressive", .colour = MADE_COLOUR, .arithmetic = true, .progressive = true},
    {"restart 1", .colour = MADE_COLOUR, .restart = 1},
    {"restart 3 4:4:4", .colour = MADE_COLOUR, .sampling = "11 11 11", .restart = 3},
    {"scan a component", .colour = MADE_COLOUR, .separate = true},
    {"scan a component 4:2:2", .colour = MADE_COLOUR, .sampling = "21 11 11", .separate = true},
    {"quality 1", .colour = MADE_COLOUR, .quality = 1, .wide_tables = true},
    {"quality 100", .colour = MADE_COLOUR, .quality = 100},
    {"wide tables", .colour = MADE_COLOUR, .quality = 3, .wide_tables = true},
};
const size_t made_kinds_count = ARRAY_LEN(made_kinds);

static _Noreturn void give_up(const char *what)
{
    fprintf(stderr, "made.c: %s\n", what);
    abort();
}

/* Returns the value of component c at (x, y). */
static uint8_t paint(uint32_t seed, uint32_t x, uint32_t y, uint32_t c)
{
    struct philox_block noise = philox4x32_10((struct philox_block){{x, y, c, seed}}, 1, 2);
    uint32_t stripes = (x * (3 + c) + y * (5 - c)) * 4 % 256;
    uint32_t blob = ((x / 5 + c) ^ (y / 3)) % 7 * 36;

    return (uint8_t)((2 * stripes + blob + noise.word[0] % 160) / 5 +
                     (noise.word[1] % 16 ? 0 : 70));
}

/* Ignore libjpeg's warnings about coarse tables, which are intended. */
static void on_message(j_common_ptr c, int level)
{
    (void)c;
    (void)level;
}

static void write_orientation(j_compress_ptr c, int orientation)
{
    uint8_t block[] = {'E', 'x', 'i', 'f', 0,    0, 'M', 'M', 0, 42, 0, 0, 0,
                       8,   0,   1,   1,   0x12, 0, 3,   0,   0, 0,  1, 0, (uint8_t)orientation,
                       0,   0,   0,   0,   0,    0};

    jpeg_write_marker(c, JPEG_APP0 + 1, block, sizeof(block));
}

static void set_sampling(j_compress_ptr c, const char *sampling)
{
    for (int i = 0; i < c->num_components && strlen(sampling) >= 3 * (size_t)i + 2; i++) {
        c->comp_info[i].h_samp_factor = sampling[3 * i] - '0';
        c->comp_info[i].v_samp_factor = sampling[3 * i + 1] - '0';
    }
}

enum { SCRIPT_MAX = 80, SCRIPT_STEPS = 400 };

/* A list of scans that grows. `left`: the number of bits of each coefficient that are still to be
 * sent; -1: nothing was sent. */
struct script {
    jpeg_scan_info scans[SCRIPT_MAX];
    int count, components;
    uint32_t number, step;
    int8_t left[4][64];
};

static uint32_t script_draw(const struct script *s, uint32_t word)
{
    return philox4x32_10((struct philox_block){{s->step, s->number, word / 4, 5}}, 7, 8)
        .word[word % 4];
}

static void add_scan(struct script *s, jpeg_scan_info scan)
{
    for (int i = 0; i < scan.comps_in_scan; i++)
        for (int k = scan.Ss; k <= scan.Se; k++)
            s->left[scan.component_index[i]][k] = (int8_t)scan.Al;
    s->scans[s->count++] = scan;
}

/* Add a scan with the DC coefficients of a component, and of some or all of the later ones that are
 * in the same state. */
static void add_dc(struct script *s, int component)
{
    jpeg_scan_info scan = {0};
    int left = s->left[component][0];

    for (int c = component; c < s->components; c++)
        if (s->left[c][0] == left && (c == component || script_draw(s, 1) % 3 > 0))
            scan.component_index[scan.comps_in_scan++] = c;
    scan.Ah = left > 0 ? left : 0;
    scan.Al = left > 0 ? left - 1 : (int)(script_draw(s, 2) % 4);
    add_scan(s, scan);
}

/* Add a scan with some AC coefficients of a component, starting at the first incomplete one or
 * later. */
static void add_ac(struct script *s, int component)
{
    int8_t *left = s->left[component];
    jpeg_scan_info scan = {.comps_in_scan = 1, .component_index = {component}, .Ss = 1};
    int end, length = 1 + (int)(script_draw(s, 3) % 63);

    if (script_draw(s, 4) % 4 == 0 && s->step < SCRIPT_STEPS / 2)
        scan.Ss += (int)(script_draw(s, 5) % 63);
    while (scan.Ss < 64 && left[scan.Ss] == 0)
        scan.Ss++;
    if (scan.Ss == 64)
        return;
    end = script_draw(s, 6) % 2 ? 64 : scan.Ss + length;
    for (scan.Se = scan.Ss; scan.Se + 1 < 64 && scan.Se + 1 < end;)
        if (left[++scan.Se] != left[scan.Ss]) {
            scan.Se--;
            break;
        }
    scan.Ah = left[scan.Ss] > 0 ? left[scan.Ss] : 0;
    scan.Al = scan.Ah > 0 ? scan.Ah - 1 : (int)(script_draw(s, 7) % 4);
    add_scan(s, scan);
}

/* Fill a random list of scans. Sequential: each component has its own scan or shares one.
 * Progressive: bands are sent bit by bit, in some lists until nothing is left. */
static void fill_script(struct script *s, uint32_t number, int components)
{
    *s = (struct script){.components = components, .number = number};
    memset(s->left, -1, sizeof(s->left));
    if (number % 5 == 0) {
        for (int c = 0, n; c < components; c += n) {
            jpeg_scan_info scan = {.Se = 63};

            n = 1 + (int)(script_draw(s, 0) % 2);
            n = n < components - c ? n : components - c;
            for (int i = 0; i < n; i++)
                scan.component_index[scan.comps_in_scan++] = c + i;
            add_scan(s, scan);
        }
        return;
    }
    for (int c = 0; c < components; c++)
        if (s->left[c][0] < 0)
            add_dc(s, c);
    for (; s->step < SCRIPT_STEPS && s->count < SCRIPT_MAX; s->step++) {
        int c = (int)(script_draw(s, 9) % (uint32_t)components);

        if (script_draw(s, 10) % 8 == 0 && s->left[c][0] > 0)
            add_dc(s, c);
        else
            add_ac(s, c);
        if (s->step > script_draw(s, 8) % 2000)
            break;
    }
}

static void set_script(j_compress_ptr c, const struct made_jpeg *spec, struct script *s)
{
    if (spec->script == 0)
        return;
    fill_script(s, spec->script, c->num_components);
    c->scan_info = s->scans;
    c->num_scans = s->count;
}

struct made make_jpeg(const struct made_jpeg *spec)
{
    struct script script;
    static const int channels[] = {1, 3, 3, 4, 4, 2};
    static const jpeg_scan_info unfinished[] = {
        {3, {0, 1, 2}, 0, 0, 0, 1}, {1, {0}, 1, 5, 0, 2}, {1, {1}, 1, 63, 0, 3}};
    static const jpeg_scan_info separate[] = {
        {1, {0}, 0, 63, 0, 0}, {1, {1}, 0, 63, 0, 0}, {1, {2}, 0, 63, 0, 0}};
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    uint32_t n = (uint32_t)channels[spec->colour];
    unsigned long len = 0;
    uint8_t *bytes = NULL, *row = malloc((size_t)spec->width * n);

    c.err = jpeg_std_error(&errors);
    errors.emit_message = on_message;
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &bytes, &len);
    c.image_width = spec->width;
    c.image_height = spec->height;
    c.input_components = (int)n;
    c.in_color_space = n == 1 ? JCS_GRAYSCALE : n == 3 ? JCS_RGB : n == 4 ? JCS_CMYK : JCS_UNKNOWN;
    jpeg_set_defaults(&c);
    if (spec->colour == MADE_RGB)
        jpeg_set_colorspace(&c, JCS_RGB);
    if (spec->colour == MADE_YCCK)
        jpeg_set_colorspace(&c, JCS_YCCK);
    jpeg_set_quality(&c, spec->quality ? spec->quality : 85, spec->wide_tables ? FALSE : TRUE);
    set_sampling(&c, spec->sampling);
    c.optimize_coding = spec->optimised;
    if (spec->no_jfif)
        c.write_JFIF_header = FALSE;
    c.restart_interval = (unsigned)spec->restart;
    c.arith_code = spec->arithmetic;
    if (spec->progressive)
        jpeg_simple_progression(&c);
    if (spec->unfinished) {
        c.scan_info = unfinished;
        c.num_scans = ARRAY_LEN(unfinished);
    } else if (spec->separate) {
        c.scan_info = separate;
        c.num_scans = ARRAY_LEN(separate);
    }
    set_script(&c, spec, &script);
    jpeg_start_compress(&c, TRUE);
    if (spec->orientation)
        write_orientation(&c, spec->orientation);
    for (uint32_t y = 0; y < spec->height; y++) {
        for (uint32_t i = 0; i < spec->width * n; i++)
            row[i] = paint(spec->seed, i / n, y, i % n);
        (void)jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    free(row);
    return (struct made){bytes, len};
}

/* Returns a number of at most `bits` bits; every length is equally likely. */
static int wild(struct philox_block d, uint32_t bits)
{
    int magnitude = (int)(d.word[1] & ((1U << d.word[0] % (bits + 1)) - 1));

    return d.word[2] % 2 ? magnitude : -magnitude;
}

/* Fill a block with a few coefficients, with many, with the first row only, or with DC only. */
static void fill_wildly(JBLOCK block, uint32_t seed, uint32_t component, uint32_t at)
{
    struct philox_block kind =
        philox4x32_10((struct philox_block){{at, component, 99, seed}}, 3, 4);
    uint32_t count = kind.word[0] % 4 == 0 ? 1 : kind.word[0] % 4 == 1 ? 8 : 64;
    uint32_t sparse = 1 + kind.word[1] % 16;

    memset(block, 0, sizeof(JBLOCK));
    for (uint32_t i = 0; i < count; i++) {
        struct philox_block d =
            philox4x32_10((struct philox_block){{at, component, i, seed}}, 3, 4);

        if (i == 0 || d.word[3] % sparse == 0)
            block[i] = (JCOEF)wild(d, 10);
    }
}

struct made make_wild_jpeg(const struct made_jpeg *spec)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    jvirt_barray_ptr arrays[3];
    unsigned long len = 0;
    uint8_t *bytes = NULL;
    unsigned int table[64];
    int h_max = 1, v_max = 1;
    struct script script;

    c.err = jpeg_std_error(&errors);
    errors.emit_message = on_message;
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &bytes, &len);
    c.image_width = spec->width;
    c.image_height = spec->height;
    c.input_components = spec->colour == MADE_GREY ? 1 : 3;
    c.in_color_space = spec->colour == MADE_GREY ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&c);
    set_sampling(&c, spec->sampling);
    c.optimize_coding = TRUE;
    c.restart_interval = spec->script > 0 ? (unsigned)spec->restart : 0;
    set_script(&c, spec, &script);
    for (uint32_t t = 0; t < 2; t++) {
        for (uint32_t i = 0; i < 64; i++) {
            struct philox_block d =
                philox4x32_10((struct philox_block){{i, t, 7, spec->seed}}, 5, 6);

            table[i] = 1 + (unsigned)abs(wild(d, spec->seed % 2 ? 8 : 15));
        }
        jpeg_add_quant_table(&c, (int)t, table, 100, FALSE);
    }
    for (int i = 0; i < c.num_components; i++) {
        h_max = c.comp_info[i].h_samp_factor > h_max ? c.comp_info[i].h_samp_factor : h_max;
        v_max = c.comp_info[i].v_samp_factor > v_max ? c.comp_info[i].v_samp_factor : v_max;
    }
    for (int i = 0; i < c.num_components; i++) {
        uint32_t h = (uint32_t)c.comp_info[i].h_samp_factor;
        uint32_t v = (uint32_t)c.comp_info[i].v_samp_factor;
        uint32_t mcus = (spec->width + 8 * (uint32_t)h_max - 1) / (8 * (uint32_t)h_max);
        uint32_t rows = (spec->height + 8 * (uint32_t)v_max - 1) / (8 * (uint32_t)v_max);

        arrays[i] =
            c.mem->request_virt_barray((j_common_ptr)&c, JPOOL_IMAGE, TRUE, mcus * h, rows * v, v);
    }
#if JPEG_LIB_VERSION >= 70 /* these versions can scale, and write this size into the header */
    c.jpeg_width = c.image_width;
    c.jpeg_height = c.image_height;
#endif
    jpeg_write_coefficients(&c, arrays);
    for (int i = 0; i < c.num_components; i++) {
        jpeg_component_info *info = &c.comp_info[i];

        for (uint32_t y = 0; y < info->height_in_blocks; y++) {
            JBLOCKARRAY rows = c.mem->access_virt_barray((j_common_ptr)&c, arrays[i], y, 1, TRUE);

            for (uint32_t x = 0; x < info->width_in_blocks; x++)
                fill_wildly(rows[0][x], spec->seed, (uint32_t)i, y * info->width_in_blocks + x);
        }
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    return (struct made){bytes, len};
}

static void append(png_structp png, png_bytep bytes, size_t count)
{
    struct made *m = png_get_io_ptr(png);

    m->bytes = realloc(m->bytes, m->len + count);
    if (!m->bytes)
        give_up("out of memory");
    memcpy(m->bytes + m->len, bytes, count);
    m->len += count;
}

static void flush(png_structp png)
{
    (void)png;
}

static uint32_t png_channels(const struct made_png *spec)
{
    static const uint8_t channels[] = {1, 0, 3, 1, 2, 0, 4};

    return channels[spec->colour_type];
}

static size_t png_pitch(const struct made_png *spec)
{
    return ((size_t)spec->width * png_channels(spec) * (size_t)spec->depth + 7) / 8;
}

void made_png_row(const struct made_png *spec, uint32_t y, uint8_t *row)
{
    for (uint32_t i = 0; i < png_pitch(spec); i++)
        row[i] = spec->flat ? (uint8_t)((i / 40 + y / 9 * 3) % 5 * 3)
                            : paint(3, i / png_channels(spec), y, i % png_channels(spec));
}

struct made make_png(const struct made_png *spec)
{
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    size_t pitch = png_pitch(spec);
    uint8_t *pixels = malloc(pitch * spec->height);
    uint8_t **rows = malloc(spec->height * sizeof(*rows));
    struct made m = {0};

    if (setjmp(png_jmpbuf(png)))
        give_up("libpng cannot write this");
    png_set_write_fn(png, &m, append, flush);
    png_set_IHDR(png, info, spec->width, spec->height, spec->depth, spec->colour_type,
                 spec->interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    if (spec->colour_type == PNG_COLOR_TYPE_PALETTE) {
        png_color palette[256];
        png_byte alpha[3] = {0, 128, 7};

        for (uint32_t i = 0; i < 256; i++)
            palette[i] = (png_color){paint(9, i, 0, 0), paint(9, i, 0, 1), paint(9, i, 0, 2)};
        png_set_PLTE(png, info, palette, 1 << spec->depth);
        if (spec->transparent)
            png_set_tRNS(png, info, alpha, spec->depth == 1 ? 2 : 3, NULL);
    } else if (spec->transparent) {
        png_color_16 key = {.gray = 1, .red = 2, .green = 3, .blue = 4};

        png_set_tRNS(png, info, NULL, 0, &key);
    }
    if (spec->orientation) {
        png_byte block[] = {'I',
                            'I',
                            42,
                            0,
                            8,
                            0,
                            0,
                            0,
                            1,
                            0,
                            0x12,
                            1,
                            3,
                            0,
                            1,
                            0,
                            0,
                            0,
                            (png_byte)spec->orientation,
                            0,
                            0,
                            0,
                            0,
                            0,
                            0,
                            0};

        png_set_eXIf_1(png, info, sizeof(block), block);
    }
    if (spec->filters)
        png_set_filter(png, PNG_FILTER_TYPE_BASE, spec->filters);
    if (spec->level)
        png_set_compression_level(png, spec->level < 0 ? 0 : spec->level);
    if (spec->strategy)
        png_set_compression_strategy(png, spec->strategy);
    png_write_info(png, info);
    for (uint32_t y = 0; y < spec->height; y++) {
        rows[y] = pixels + y * pitch;
        made_png_row(spec, y, rows[y]);
    }
    png_write_image(png, rows);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    free(pixels);
    free(rows);
    return m;
}

const struct made_webp made_webps[] = {
    {"lossy", .filter = 2},
    {"lossy, simple filter", .filter = 1, .quality = 20},
    {"lossy, sharp simple filter", .filter = 1, .quality = 40, .sharpness = 5, .seed = 1},
    {"lossy, coarse", .filter = 2, .quality = 1, .sharpness = 7},
    {"lossy, no filter", .quality = 90},
    {"lossy, partitions", .filter = 2, .partitions = 3},
    {"lossy, alpha", .filter = 2, .alpha = true},
    {"lossless", .lossless = true},
    {"lossless, alpha", .lossless = true, .alpha = true},
    {"lossy, EXIF", .filter = 2, .orientation = 6},
    {"lossless, EXIF with its mark", .lossless = true, .orientation = 7, .exif_has_mark = true},
    {"animated, lossy", .filter = 2, .animated = true},
    {"animated, smaller frame", .filter = 2, .animated = true, .left = 4, .top = 18,
     .more_right = 5, .more_below = 9},
    {"animated, lossless, alpha", .lossless = true, .alpha = true, .animated = true, .left = 20,
     .orientation = 5},
    {"animated, lossy, alpha", .filter = 1, .quality = 30, .alpha = true, .animated = true,
     .top = 2, .more_right = 1},
};
const size_t made_webps_count = sizeof(made_webps) / sizeof(made_webps[0]);

void made_webp_pixel(const struct made_webp *spec, uint32_t x, uint32_t y, uint8_t rgba[4])
{
    for (uint32_t c = 0; c < 3; c++)
        rgba[c] = paint(7 + spec->seed, x, y, c);
    rgba[3] = spec->alpha ? (uint8_t)(paint(7 + spec->seed, x / 3, y / 3, 3) & 0xC0) : 255;
}

#ifdef HAVE_WEBP
static void put(struct made *m, const void *bytes, size_t len)
{
    m->bytes = realloc(m->bytes, m->len + len);
    if (!m->bytes)
        give_up("out of memory");
    memcpy(m->bytes + m->len, bytes, len);
    m->len += len;
}

/* Append a little-endian number. */
static void put_le(struct made *m, uint32_t value, size_t bytes)
{
    uint8_t le[4] = {(uint8_t)value, (uint8_t)(value >> 8), (uint8_t)(value >> 16),
                     (uint8_t)(value >> 24)};

    put(m, le, bytes);
}

static void put_chunk(struct made *m, const char *tag, const void *bytes, size_t len)
{
    put(m, tag, 4);
    put_le(m, (uint32_t)len, 4);
    put(m, bytes, len);
    put(m, "", len % 2);
}

/* Returns a RIFF file as libwebp writes it. */
static struct made encode_webp(const struct made_webp *spec)
{
    uint8_t *rgba = malloc((size_t)spec->width * spec->height * 4);
    WebPMemoryWriter writer;
    WebPPicture picture;
    WebPConfig config;
    struct made m = {0};

    if (!WebPConfigInit(&config) || !WebPPictureInit(&picture))
        give_up("libwebp does not have the version");
    for (uint32_t y = 0; y < spec->height; y++)
        for (uint32_t x = 0; x < spec->width; x++)
            made_webp_pixel(spec, x, y, rgba + ((size_t)y * spec->width + x) * 4);
    config.lossless = spec->lossless;
    config.exact = 1;
    config.quality = (float)(spec->quality ? spec->quality : 75);
    config.filter_strength = spec->filter ? 60 : 0;
    config.filter_type = spec->filter == 2;
    config.filter_sharpness = spec->sharpness;
    config.partitions = spec->partitions;
    config.method = 2;
    WebPMemoryWriterInit(&writer);
    picture.use_argb = spec->lossless;
    picture.width = (int)spec->width;
    picture.height = (int)spec->height;
    picture.writer = WebPMemoryWrite;
    picture.custom_ptr = &writer;
    if (!WebPPictureImportRGBA(&picture, rgba, (int)spec->width * 4) ||
        !WebPEncode(&config, &picture))
        give_up("libwebp cannot write this");
    put(&m, writer.mem, writer.size);
    WebPPictureFree(&picture);
    WebPMemoryWriterClear(&writer);
    free(rgba);
    return m;
}

static void put_frame(struct made *m, const struct rect *at, const void *chunks, size_t len)
{
    struct made frame = {0};

    put_le(&frame, at->left / 2, 3);
    put_le(&frame, at->top / 2, 3);
    put_le(&frame, at->width - 1, 3);
    put_le(&frame, at->height - 1, 3);
    put_le(&frame, 100, 3); /* ms */
    put_le(&frame, 0, 1);
    put(&frame, chunks, len);
    put_chunk(m, "ANMF", frame.bytes, frame.len);
    free(frame.bytes);
}

static void put_exif(struct made *m, const struct made_webp *spec)
{
    uint8_t block[] = {
        'E', 'x', 'i', 'f', 0,    0, 'M', 'M', 0, 42, 0, 0, 0,
        8,   0,   1,   1,   0x12, 0, 3,   0,   0, 0,  1, 0, (uint8_t)spec->orientation,
        0,   0,   0,   0,   0,    0};
    size_t mark = spec->exif_has_mark ? 0 : 6;

    put_chunk(m, "EXIF", block + mark, sizeof(block) - mark);
}

struct made make_webp(const struct made_webp *spec)
{
    struct made plain = encode_webp(spec), body = {0}, m = {0};
    size_t skip = memcmp(plain.bytes + 12, "VP8X", 4) == 0 ? 30 : 12;

    if (!spec->animated && !spec->orientation)
        return plain;
    put_le(&body,
           (spec->alpha ? 0x10 : 0) | (spec->orientation ? 0x08 : 0) | (spec->animated ? 0x02 : 0),
           4);
    put_le(&body, spec->left + spec->width + spec->more_right - 1, 3);
    put_le(&body, spec->top + spec->height + spec->more_below - 1, 3);
    put(&m, "WEBP", 4);
    put_chunk(&m, "VP8X", body.bytes, body.len);
    if (spec->animated) {
        struct made_webp dot = {.width = 1, .height = 1, .lossless = true};
        struct made second = encode_webp(&dot);

        put_chunk(&m, "ANIM", "\x11\x22\x33\xFF\0\0", 6); /* a background colour */
        put_frame(&m, &(struct rect){spec->left, spec->top, spec->width, spec->height},
                  plain.bytes + skip, plain.len - skip);
        put_frame(&m, &(struct rect){0, 0, 1, 1}, second.bytes + 12, second.len - 12);
        free(second.bytes);
    } else {
        put(&m, plain.bytes + skip, plain.len - skip);
    }
    if (spec->orientation)
        put_exif(&m, spec);
    free(plain.bytes);
    free(body.bytes);
    body = m;
    m = (struct made){0};
    put_chunk(&m, "RIFF", body.bytes, body.len);
    free(body.bytes);
    return m;
}
#else
struct made make_webp(const struct made_webp *spec)
{
    (void)spec;
    give_up("there is no libwebp");
}
#endif

const struct made_avif made_avifs[] = {
    {.name = "4:2:0"},
    {"4:2:0, as in video", .limited = true, .matrix = 1},
    {"4:2:0, lossless", .lossless = true},
    {"4:2:2", .sampling = 422},
    {"4:2:2, lossless, as in video", .sampling = 422, .limited = true, .lossless = true},
    {"4:4:4", .sampling = 444, .matrix = 9},
    {"4:4:4, lossless", .sampling = 444, .lossless = true, .matrix = 7, .seed = 1},
    {"identity", .sampling = 444, .identity = true, .lossless = true},
    {"identity, as in video", .sampling = 444, .identity = true, .limited = true},
    {"YCgCo", .sampling = 444, .matrix = 8, .lossless = true},
    {"grey", .sampling = 400},
    {"grey, 10 bits, as in video", .sampling = 400, .depth = 10, .limited = true},
    {"10 bits", .depth = 10, .matrix = 9, .limited = true},
    {"10 bits, 4:2:2", .depth = 10, .sampling = 422, .matrix = 4},
    {"12 bits, 4:4:4", .depth = 12, .sampling = 444, .lossless = true},
    {"12 bits", .depth = 12, .limited = true, .lossless = true},
    {"alpha", .alpha = true},
    {"alpha, premultiplied", .alpha = true, .premultiplied = true, .sampling = 444},
    {"turned", .turn = 1},
    {"mirrored, with EXIF", .mirror = 2, .orientation = 6},
    {"turned and mirrored", .turn = 3, .mirror = 1, .sampling = 422},
    {"with EXIF alone", .orientation = 8},
    {"animated", .animated = true},
    {"animated, alpha", .animated = true, .alpha = true},
};
const size_t made_avifs_count = ARRAY_LEN(made_avifs);

uint32_t made_avif_sample(const struct made_avif *spec, uint32_t plane, uint32_t x, uint32_t y)
{
    uint32_t depth = spec->depth ? spec->depth : 8;
    uint32_t high = paint(11 + spec->seed, x, y, plane), low = paint(91 + spec->seed, x, y, plane);

    return (high << 8 | low) >> (16 - depth);
}

#ifdef HAVE_AVIF
static avifPixelFormat avif_format(uint32_t sampling)
{
    return sampling == 444   ? AVIF_PIXEL_FORMAT_YUV444
           : sampling == 422 ? AVIF_PIXEL_FORMAT_YUV422
           : sampling == 400 ? AVIF_PIXEL_FORMAT_YUV400
                             : AVIF_PIXEL_FORMAT_YUV420;
}

static void set_sample(uint8_t *plane, uint32_t pitch, uint32_t depth, uint32_t x, uint32_t y,
                       uint32_t value)
{
    uint8_t *row = plane + (size_t)y * pitch;

    if (depth == 8)
        row[x] = (uint8_t)value;
    else
        ((uint16_t *)(void *)row)[x] = (uint16_t)value;
}

/* Paint the part of the planes that begins at (left, top). */
static avifImage *paint_avif(const struct made_avif *spec, uint32_t left, uint32_t top,
                             uint32_t width, uint32_t height)
{
    avifImage *image =
        avifImageCreate(width, height, spec->depth ? spec->depth : 8, avif_format(spec->sampling));
    uint32_t across = spec->sampling == 444 ? 1 : 2, down = spec->sampling == 0 ? 2 : 1;

    if (!image || avifImageAllocatePlanes(image, spec->alpha ? AVIF_PLANES_ALL : AVIF_PLANES_YUV))
        give_up("out of memory");
    image->yuvRange = spec->limited ? AVIF_RANGE_LIMITED : AVIF_RANGE_FULL;
    image->colorPrimaries = AVIF_COLOR_PRIMARIES_BT709;
    image->transferCharacteristics = AVIF_TRANSFER_CHARACTERISTICS_SRGB;
    image->matrixCoefficients = (avifMatrixCoefficients)(spec->matrix ? spec->matrix : 6);
    if (spec->identity)
        image->matrixCoefficients = AVIF_MATRIX_COEFFICIENTS_IDENTITY;
    image->alphaPremultiplied = spec->premultiplied;
    for (uint32_t p = 0; p < (spec->sampling == 400 ? 1 : 3); p++) {
        uint32_t dx = p ? across : 1, dy = p ? down : 1;

        for (uint32_t y = 0; y < (height + dy - 1) / dy; y++)
            for (uint32_t x = 0; x < (width + dx - 1) / dx; x++)
                set_sample(image->yuvPlanes[p], image->yuvRowBytes[p], image->depth, x, y,
                           made_avif_sample(spec, p, left / dx + x, top / dy + y));
    }
    for (uint32_t y = 0; spec->alpha && y < height; y++)
        for (uint32_t x = 0; x < width; x++)
            set_sample(image->alphaPlane, image->alphaRowBytes, image->depth, x, y,
                       made_avif_sample(spec, 3, x / 3, y / 3) & ~63U);
    return image;
}

static void set_properties(const struct made_avif *spec, avifImage *image)
{
    uint8_t exif[] = {'M', 'M',  0, 42, 0, 0, 0, 8, 0, 1,
                      1,   0x12, 0, 3,  0, 0, 0, 1, 0, (uint8_t)spec->orientation,
                      0,   0,    0, 0,  0, 0};
    int32_t off[2] = {(int32_t)(spec->cut_left - spec->cut_right),
                      (int32_t)(spec->cut_top - spec->cut_below)};

    if (spec->orientation)
        (void)avifImageSetMetadataExif(image, exif, sizeof(exif));
    image->transformFlags = 0; /* avifImageSetMetadataExif() may have set them */
    if (spec->turn) {
        image->transformFlags |= AVIF_TRANSFORM_IROT;
        image->irot.angle = (uint8_t)spec->turn;
    }
    if (spec->mirror) {
        image->transformFlags |= AVIF_TRANSFORM_IMIR;
        memset(&image->imir, (int)spec->mirror - 1, 1); /* libavif 1.0 renamed its field */
    }
    if (spec->cut_left || spec->cut_top || spec->cut_right || spec->cut_below) {
        image->transformFlags |= AVIF_TRANSFORM_CLAP;
        image->clap = (avifCleanApertureBox){
            spec->width - spec->cut_left - spec->cut_right,
            1,
            spec->height - spec->cut_top - spec->cut_below,
            1,
            (uint32_t)off[0],
            2,
            (uint32_t)off[1],
            2,
        };
    }
}

/* Add one image, or the tiles of a grid. */
static avifResult add_images(avifEncoder *encoder, const struct made_avif *spec)
{
    uint32_t columns = spec->columns ? spec->columns : 1, rows = spec->rows ? spec->rows : 1;
    uint32_t width = (spec->width + columns - 1) / columns;
    uint32_t height = (spec->height + rows - 1) / rows;
    avifImage *images[16];
    avifResult r;

    for (uint32_t i = 0; i < columns * rows; i++) {
        uint32_t left = i % columns * width, top = i / columns * height;

        images[i] =
            paint_avif(spec, left, top, spec->width - left < width ? spec->width - left : width,
                       spec->height - top < height ? spec->height - top : height);
    }
    set_properties(spec, images[0]);
    if (columns * rows > 1)
        r = avifEncoderAddImageGrid(encoder, columns, rows, (const avifImage *const *)images,
                                    AVIF_ADD_IMAGE_FLAG_SINGLE);
    else
        r = avifEncoderAddImage(encoder, images[0], 1,
                                spec->animated ? AVIF_ADD_IMAGE_FLAG_NONE
                                               : AVIF_ADD_IMAGE_FLAG_SINGLE);
    for (uint32_t i = 0; i < columns * rows; i++)
        avifImageDestroy(images[i]);
    return r;
}

struct made make_avif(const struct made_avif *spec)
{
    avifEncoder *encoder = avifEncoderCreate();
    avifRWData out = AVIF_DATA_EMPTY;
    struct made m = {0};
    avifResult r;

    if (!encoder)
        give_up("out of memory");
    encoder->speed = 10;
    encoder->minQuantizer = encoder->maxQuantizer = spec->lossless ? 0 : 20;
    encoder->minQuantizerAlpha = encoder->maxQuantizerAlpha = 0;
    r = add_images(encoder, spec);
    if (r == AVIF_RESULT_OK && spec->animated) {
        struct made_avif second = *spec;

        second.seed += 100;
        r = add_images(encoder, &second);
    }
    if (r == AVIF_RESULT_OK)
        r = avifEncoderFinish(encoder, &out);
    if (r != AVIF_RESULT_OK) {
        fprintf(stderr, "%s: %s: %s\n", spec->name, avifResultToString(r), encoder->diag.error);
        give_up("libavif cannot write this");
    }
    m.len = out.size;
    m.bytes = malloc(m.len);
    if (!m.bytes)
        give_up("out of memory");
    memcpy(m.bytes, out.data, m.len);
    avifRWDataFree(&out);
    avifEncoderDestroy(encoder);
    return m;
}
#else
struct made make_avif(const struct made_avif *spec)
{
    (void)spec;
    give_up("there is no libavif");
}
#endif

const struct made_ppm made_ppms[] = {
    {.name = "colour"},
    {.name = "colour, turned", .orientation = 6},
    {.name = "colour, by others", .others = true},
    {.name = "grey", .grey = true},
    {.name = "grey, turned", .grey = true, .orientation = 3},
    {.name = "grey, by others", .grey = true, .others = true},
};
const size_t made_ppms_count = ARRAY_LEN(made_ppms);

struct made make_ppm(const struct made_ppm *spec)
{
    size_t samples = (size_t)spec->width * spec->height * (spec->grey ? 1 : 3);
    char turned[40] = "", header[160];
    struct made m = {0};
    int n;

    if (spec->orientation)
        (void)snprintf(turned, sizeof(turned), "# EXIF orientation %d\n", spec->orientation);
    n = snprintf(header, sizeof(header),
                 spec->others ? "P%d\r\n# made by hand # twice\r\n%s %u\t%u \n#\n255 "
                              : "P%d\n%s%u %u\n255\n",
                 spec->grey ? 5 : 6, turned, spec->width, spec->height);
    m.len = (size_t)n + samples;
    m.bytes = malloc(m.len);
    if (!m.bytes)
        give_up("out of memory");
    memcpy(m.bytes, header, (size_t)n);
    for (size_t i = 0; i < samples; i++)
        m.bytes[(size_t)n + i] = (uint8_t)((i * i * 2654435761U >> 13) ^ i);
    return m;
}

struct made read_file(const char *path)
{
    struct made m = {0};
    FILE *f = fopen(path, "rb");
    size_t room = 0, n;

    if (!f)
        return m;
    do {
        if (m.len == room) {
            room = room ? 2 * room : 1 << 16;
            m.bytes = realloc(m.bytes, room);
            if (!m.bytes)
                give_up("out of memory");
        }
        n = fread(m.bytes + m.len, 1, room - m.len, f);
        m.len += n;
    } while (n > 0);
    fclose(f);
    return m;
}
