/* SPDX-License-Identifier: MIT */
/* Compares every kind of AVIF with the oracle and with libavif's own RGB, and tests damaged
 * AVIFs. */
#include "config.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>

#ifdef HAVE_AVIF
#include <avif/avif.h>
#endif

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/order/philox.h"
#include "common/util/util.h"
#include "loader/image/avif/yuv.h"
#include "loader/image/image.h"
#include "loader/image/limits.h"
#include "loader/image/reader.h"
#include "tests/loader/image/agree.h"
#include "tests/loader/image/made.h"

static const struct image_store plain = {PLENUM_UINT8, PLENUM_NHWC, 3};

static struct pipeline parse(const char *text)
{
    struct pipeline p;

    cr_assert(eq(int, pipeline_parse(text, &p, NULL), 0), "%s", text);
    return p;
}

#ifdef HAVE_AVIF
static uint32_t depth_of(const struct made_avif *spec)
{
    return spec->depth ? spec->depth : 8;
}

/* Returns where the nth box of this type begins (with its size). */
static size_t find_box(const struct made *m, const char *name, uint32_t nth)
{
    for (size_t i = 4; i + 4 <= m->len; i++)
        if (memcmp(m->bytes + i, name, 4) == 0 && nth-- == 0)
            return i - 4;
    cr_fatal("there is no %s", name);
    return 0;
}

static void put32(uint8_t *p, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(value >> (24 - 8 * i));
}

static uint32_t get32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void expect_bad(const struct made *m, const char *sentence)
{
    struct image_decoder *decoder;
    struct plenum_error err = {""};

    cr_assert(eq(int, image_decoder_create(&decoder), 0));
    cr_expect(eq(int, image_verify(decoder, &(struct image_file){m->bytes, m->len}, NULL, &err),
                 -EBADMSG));
    cr_expect(strstr(err.text, sentence) != NULL, "'%s', not '%s'", err.text, sentence);
    image_decoder_destroy(decoder);
}

Test(avif, every_kind_equals_the_oracle, .timeout = 600)
{
    static const uint32_t sizes[][2] = {{1, 1}, {2, 3}, {3, 90}, {45, 37}, {64, 65}};
    static const char *const pipelines[] = {
        "rrc(16)",
        "exif rrc(9x20,scale=0.01:1,ratio=1/4:4) flip(0.5)",
        "exif resize(20) center_crop(16)",
        "rrc(12,scale=0.001:0.1,ratio=1/4:4)",
        "pad(3,reflect) random_crop(7x5)",
        NULL,
    };
    struct image_decoder *decoder;
    char why[300];

    cr_assert(eq(int, image_decoder_create(&decoder), 0));
    for (size_t i = 0; i < made_avifs_count * ARRAY_LEN(sizes); i++) {
        struct made_avif spec = made_avifs[i % made_avifs_count];
        struct made m;

        spec.width = sizes[i / made_avifs_count][0];
        spec.height = sizes[i / made_avifs_count][1];
        m = make_avif(&spec);
        cr_assert(oracle_agrees_in_all(decoder, pipelines, 2, i, &m, why), "%s %ux%u, %s",
                  spec.name, spec.width, spec.height, why);
        free(m.bytes);
    }
    image_decoder_destroy(decoder);
}

static void expect_region(struct image_reader *reader, const char *name, const struct made *m,
                          const struct rect *region, const struct oracle_image *want)
{
    struct image_header header;
    struct plenum_error err = {""};
    struct image_rows rows;

    cr_assert(eq(int, reader->ops->open(reader, m->bytes, m->len, &header, &err), 0), "%s",
              err.text);
    cr_assert(eq(u32, header.width, want->width));
    cr_assert(eq(u32, header.height, want->height));
    cr_assert(eq(u8, header.orientation, want->orientation), "%s", name);
    cr_assert(eq(int, reader->ops->seek(reader, region, &err), 0), "%s", err.text);
    for (uint32_t y = 0; y < region->height; y += rows.count) {
        cr_assert(eq(int, reader->ops->read(reader, &rows, &err), 0));
        for (uint32_t i = 0; i < rows.count * region->width; i++) {
            uint32_t row = i / region->width, column = i % region->width;
            const uint8_t *pixel =
                want->rgb +
                ((size_t)(region->top + y + row) * want->width + region->left + column) * 3;

            cr_assert(memcmp(rows.pixels + row * rows.pitch + (size_t)column * 4, pixel, 3) == 0,
                      "%s: pixel %u, %u of the part of %ux%u at %u, %u", name, column, y + row,
                      region->width, region->height, region->left, region->top);
        }
    }
    reader->ops->close(reader);
}

/* Check that parts have the pixels of the whole, so that the reader may convert only a part. */
static void expect_parts(const struct made_avif *spec, uint32_t seed)
{
    struct made m = make_avif(spec);
    struct oracle_image want;
    struct image_reader *reader;

    cr_assert(eq(int, avif_reader_create(&reader), 0));
    cr_assert(eq(int, oracle_decode(m.bytes, m.len, UINT32_MAX - 1, &want), 0), "%s", spec->name);
    for (uint32_t k = 0; k < 30; k++) {
        struct philox_block d = philox_draw(11, seed, k, DRAW_SEED, 0);
        struct rect region = {.left = philox_below(d.word[0], want.width),
                              .top = philox_below(d.word[1], want.height)};

        region.width = 1 + philox_below(d.word[2], want.width - region.left);
        region.height = 1 + philox_below(d.word[3], want.height - region.top);
        if (k == 0)
            region = (struct rect){0, 0, want.width, want.height};
        if (k % 3 == 1)
            region.width = region.height = 1;
        expect_region(reader, spec->name, &m, &region, &want);
    }
    reader->ops->destroy(reader);
    free(want.rgb);
    free(m.bytes);
}

Test(avif, a_part_has_the_pixels_of_the_whole, .timeout = 600)
{
    static const uint32_t sizes[][2] = {{1, 1}, {16, 16}, {47, 66}, {130, 81}};

    for (uint32_t i = 0; i < made_avifs_count * ARRAY_LEN(sizes); i++) {
        struct made_avif spec = made_avifs[i % made_avifs_count];

        spec.width = sizes[i / made_avifs_count][0];
        spec.height = sizes[i / made_avifs_count][1];
        expect_parts(&spec, i);
    }
}

Test(avif, the_tiles_of_a_grid_are_one_image, .timeout = 600)
{
    struct made_avif specs[] = {
        {"4:2:0", .columns = 2, .rows = 2, .width = 128, .height = 140},
        {"4:4:4, lossless", .sampling = 444, .columns = 3, .rows = 1, .lossless = true,
         .width = 192, .height = 65},
        {"10 bits, alpha", .depth = 10, .columns = 1, .rows = 3, .alpha = true, .turn = 1,
         .width = 64, .height = 192},
    };

    for (uint32_t i = 0; i < ARRAY_LEN(specs); i++)
        expect_parts(&specs[i], i);
}

/* Decode all pixels, with a resize to the same size. */
static void read_all(const struct made *m, struct oracle_image *ret)
{
    struct image_decoder *decoder;
    struct image_draw draw = {0};
    struct image_info info;
    struct plenum_error err = {""};
    struct pipeline p;
    char text[60];

    cr_assert(eq(int, image_decoder_create(&decoder), 0));
    cr_assert(
        eq(int, image_verify(decoder, &(struct image_file){m->bytes, m->len}, &info, &err), 0),
        "%s", err.text);
    ret->width = info.width;
    ret->height = info.height;
    ret->orientation = info.orientation;
    ret->rgb = malloc((size_t)info.width * info.height * 3);
    (void)snprintf(text, sizeof(text), "resize(%ux%u)", info.height, info.width);
    p = parse(text);
    cr_assert(eq(int,
                 image_render(decoder,
                              &(struct image_view){.pipeline = &p, .draw = draw, .dst = ret->rgb},
                              &plain, &(struct image_file){m->bytes, m->len}, &err),
                 0));
    image_decoder_destroy(decoder);
}

/* Returns the chroma of a pixel from the planes that were written. Samples are centred between two
 * pixels, so each pixel is a quarter of the distance away from one sample, towards the next. */
static double chroma_of(const struct made_avif *spec, uint32_t plane, uint32_t x, uint32_t y)
{
    double across = spec->sampling == 444 ? 1 : 2, down = spec->sampling == 0 ? 2 : 1;
    double cx = (x + 0.5) / across - 0.5, cy = (y + 0.5) / down - 0.5, sum = 0;
    double right = ceil(spec->width / across) - 1, bottom = ceil(spec->height / down) - 1;

    for (int i = 0; i < 4; i++) {
        double px = floor(cx) + i % 2, py = floor(cy) + i / 2;
        double weight = (1 - fabs(px - cx)) * (1 - fabs(py - cy));

        sum += weight * made_avif_sample(spec, plane, (uint32_t)fmin(fmax(px, 0), right),
                                         (uint32_t)fmin(fmax(py, 0), bottom));
    }
    return sum;
}

/* Compare with the published formulas (H.273) in floating point; the planes are lossless. */
Test(avif, lossless_planes_become_rgb_by_the_formula)
{
    static const double parts[10][2] = {
        [1] = {0.2126, 0.0722}, [6] = {0.299, 0.114}, [7] = {0.212, 0.087}};
    uint32_t files = 0, clamped = 0;

    for (size_t i = 0; i < made_avifs_count; i++) {
        struct made_avif spec = made_avifs[i];
        struct oracle_image got;
        struct made m;

        if (!spec.lossless)
            continue;
        files++;
        spec.width = 51;
        spec.height = 40;
        m = make_avif(&spec);
        read_all(&m, &got);
        for (uint32_t at = 0; at < spec.width * spec.height; at++) {
            uint32_t x = at % spec.width, y = at / spec.width, depth = depth_of(&spec);
            uint32_t matrix = spec.matrix ? spec.matrix : 6;
            double k = 1 << (depth - 8), most = (1 << depth) - 1;
            double zero = spec.limited ? 16 * k : 0, range = spec.limited ? 219 * k : most;
            double half = 128 * k, range_uv = spec.limited ? 224 * k : most, rgb[3];
            double luma = (made_avif_sample(&spec, 0, x, y) - zero) / range;
            double u = (chroma_of(&spec, 1, x, y) - half) / range_uv;
            double v = (chroma_of(&spec, 2, x, y) - half) / range_uv;

            if (spec.identity) {
                rgb[0] = (made_avif_sample(&spec, 2, x, y) - zero) / range;
                rgb[1] = luma;
                rgb[2] = (made_avif_sample(&spec, 1, x, y) - zero) / range;
            } else if (matrix == 8) {
                rgb[0] = luma - u + v;
                rgb[1] = luma + u;
                rgb[2] = luma - u - v;
            } else {
                double r = parts[matrix][0], b = parts[matrix][1];

                cr_assert(r > 0);
                rgb[0] = luma + 2 * (1 - r) * v;
                rgb[2] = luma + 2 * (1 - b) * u;
                rgb[1] = (luma - r * rgb[0] - b * rgb[2]) / (1 - r - b);
            }
            for (int c = 0; c < 3; c++) {
                double want = fmin(fmax(255 * rgb[c], 0), 255);

                clamped += want == 0 || want == 255;
                cr_assert(fabs(got.rgb[3 * at + (uint32_t)c] - want) < 0.5 + 1e-4,
                          "%s: %u, %u, colour %d is %u, not %f", spec.name, x, y, c,
                          got.rgb[3 * at + (uint32_t)c], want);
            }
        }
        free(got.rgb);
        free(m.bytes);
    }
    cr_expect(files >= 7 && clamped > 1000, "%u, %u", files, clamped);
}

/* libavif's own loops use floats. They differ by at most one level, where the exact value is near
 * the middle between two levels. */
Test(avif, close_to_libavif_without_libyuv)
{
    uint64_t values = 0, apart = 0;

    for (size_t i = 0; i < made_avifs_count; i++) {
        struct made_avif spec = made_avifs[i];
        avifImage *image = avifImageCreateEmpty();
        avifDecoder *decoder = avifDecoderCreate();
        struct oracle_image got;
        avifRGBImage rgb;
        struct made m;

        spec.width = 201;
        spec.height = 120;
        spec.alpha = spec.premultiplied = false; /* libavif would divide by alpha */
        m = make_avif(&spec);
        read_all(&m, &got);
        decoder->codecChoice = AVIF_CODEC_CHOICE_DAV1D;
        cr_assert(avifDecoderReadMemory(decoder, image, m.bytes, m.len) == AVIF_RESULT_OK);
        avifRGBImageSetDefaults(&rgb, image);
        rgb.depth = 8;
        rgb.format = AVIF_RGB_FORMAT_RGB;
        rgb.avoidLibYUV = AVIF_TRUE;
        rgb.chromaUpsampling = AVIF_CHROMA_UPSAMPLING_BILINEAR;
        rgb.rowBytes = rgb.width * 3;
        rgb.pixels = malloc((size_t)rgb.rowBytes * rgb.height);
        cr_assert(avifImageYUVToRGB(image, &rgb) == AVIF_RESULT_OK, "%s", spec.name);
        for (size_t k = 0; k < (size_t)rgb.rowBytes * rgb.height; k++) {
            cr_assert(abs(got.rgb[k] - rgb.pixels[k]) <= 1, "%s: value %zu is %u, not %u",
                      spec.name, k, got.rgb[k], rgb.pixels[k]);
            apart += got.rgb[k] != rgb.pixels[k];
            values++;
        }
        free(rgb.pixels);
        free(got.rgb);
        free(m.bytes);
        avifDecoderDestroy(decoder);
        avifImageDestroy(image);
    }
    cr_log_info("%llu of %llu values are a level apart", (unsigned long long)apart,
                (unsigned long long)values);
    cr_expect(apart * 1000 < values, "%llu of %llu values", (unsigned long long)apart,
              (unsigned long long)values);
}

/* Builds on other processors must give the same hash. It does not depend on the encoder, because
 * the planes are lossless. */
Test(avif, golden)
{
    XXH3_state_t state;

    (void)XXH3_64bits_reset(&state);
    for (size_t i = 0; i < made_avifs_count; i++) {
        struct made_avif spec = made_avifs[i];
        struct oracle_image got;
        struct made m;

        spec.lossless = true;
        spec.width = 61;
        spec.height = 47;
        m = make_avif(&spec);
        read_all(&m, &got);
        (void)XXH3_64bits_update(&state, got.rgb, (size_t)got.width * got.height * 3);
        free(got.rgb);
        free(m.bytes);
    }
    cr_expect(XXH3_64bits_digest(&state) == 0x551db77c07c19041, "%016llx",
              (unsigned long long)XXH3_64bits_digest(&state));
}

/* Only irot and imir rotate the image; EXIF's orientation does not. */
Test(avif, only_properties_rotate_the_image)
{
    static const uint8_t want[4][3] = {{1, 4, 2}, {8, 5, 7}, {3, 2, 4}, {6, 7, 5}};

    for (uint32_t i = 0; i < 4 * 3 * 2; i++) {
        struct made_avif spec = {.width = 7, .height = 5, .turn = i / 6, .mirror = i / 2 % 3};
        struct image_decoder *decoder;
        struct image_info info;
        struct made m;

        spec.orientation = i % 2 ? 6 : 0;
        m = make_avif(&spec);
        cr_assert(eq(int, image_decoder_create(&decoder), 0));
        cr_assert(
            eq(int, image_verify(decoder, &(struct image_file){m.bytes, m.len}, &info, NULL), 0));
        cr_expect(eq(str, (char *)info.format, "AVIF"));
        cr_expect(eq(u32, info.width, 7));
        cr_expect(eq(u32, info.height, 5));
        cr_expect(eq(u8, info.orientation, want[spec.turn][spec.mirror]), "%u, %u", spec.turn,
                  spec.mirror);
        image_decoder_destroy(decoder);
        free(m.bytes);
    }
}

/* Pixels outside of the clean aperture are not part of the image, but chroma is interpolated with
 * theirs. */
Test(avif, a_clean_aperture_is_the_image)
{
    static const uint32_t cuts[][4] = {{0, 0, 1, 0}, {0, 0, 1, 1}, {4, 2, 5, 8}, {7, 9, 0, 0}};

    for (size_t i = 0; i < ARRAY_LEN(cuts); i++) {
        bool odd = cuts[i][0] % 2 || cuts[i][1] % 2; /* not allowed if pixels share chroma */
        struct made_avif spec = {
            .width = 50, .height = 40, .lossless = true, .sampling = odd ? 444 : 0};
        struct made whole = make_avif(&spec), m;
        struct oracle_image all, got;

        spec.cut_left = cuts[i][0];
        spec.cut_top = cuts[i][1];
        spec.cut_right = cuts[i][2];
        spec.cut_below = cuts[i][3];
        m = make_avif(&spec);
        read_all(&whole, &all);
        read_all(&m, &got);
        cr_assert(eq(u32, got.width, 50 - cuts[i][0] - cuts[i][2]));
        cr_assert(eq(u32, got.height, 40 - cuts[i][1] - cuts[i][3]));
        for (uint32_t y = 0; y < got.height; y++)
            cr_expect(memcmp(got.rgb + (size_t)y * got.width * 3,
                             all.rgb + ((y + cuts[i][1]) * 50 + cuts[i][0]) * 3,
                             (size_t)got.width * 3) == 0,
                      "%zu, row %u", i, y);
        expect_parts(&spec, (uint32_t)i);
        free(got.rgb);
        free(all.rgb);
        free(whole.bytes);
        free(m.bytes);
    }
}

struct aperture_case {
    uint32_t at, value; /* the index of a number in the box, and its new value */
};

ParameterizedTestParameters(avif, apertures_that_do_not_fit)
{
    static struct aperture_case cases[] = {
        {0, 0},
        {0, 51},
        {1, 0},
        {1, 5},
        {2, 0},
        {3, 7},
        {4, 1},
        {4, 3},
        {4, 60},
        {5, 0},
        {4, (uint32_t)-3},
        {6, 1},
        {7, 0},
        {7, (uint32_t)-1},
        {0, UINT32_MAX},
        {4, INT32_MAX},
    };
    return cr_make_param_array(struct aperture_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct aperture_case *c, avif, apertures_that_do_not_fit)
{
    struct made_avif spec = {.width = 50, .height = 40, .cut_right = 2, .cut_below = 2};
    struct made m = make_avif(&spec);
    struct oracle_image image;

    put32(m.bytes + find_box(&m, "clap", 0) + 8 + 4 * (size_t)c->at, c->value);
    cr_expect(eq(int, oracle_decode(m.bytes, m.len, 0, &image), -EBADMSG), "%u = %u", c->at,
              c->value);
    expect_bad(&m, "its clean aperture does not consist of whole pixels within the image");
    free(m.bytes);
}

Test(avif, the_first_frame_of_a_sequence_is_shown)
{
    struct made_avif spec = {.width = 40, .height = 30, .lossless = true, .sampling = 444};
    struct made still = make_avif(&spec), m;
    struct oracle_image one, two;

    spec.animated = true;
    m = make_avif(&spec);
    cr_assert(memcmp(m.bytes + 8, "avis", 4) == 0);
    read_all(&still, &one);
    read_all(&m, &two);
    cr_expect(memcmp(one.rgb, two.rgb, 40 * 30 * 3) == 0);
    free(one.rgb);
    free(two.rgb);
    free(still.bytes);
    free(m.bytes);
}

/* Returns an image whose "meta" ends with `bytes` bytes of references (at least 26, and even).
 * Their type is, for example, "cdsc": the image describes another item. */
static struct made make_references(const struct made_avif *spec, const char *type, uint32_t bytes)
{
    struct made m = make_avif(spec);
    size_t meta = find_box(&m, "meta", 0), end = meta + get32(m.bytes + meta);
    size_t iloc = find_box(&m, "iloc", 0);
    uint32_t times = (bytes - 24) / 2;
    uint8_t *box;

    m.bytes = realloc(m.bytes, m.len + bytes);
    memmove(m.bytes + end + bytes, m.bytes + end, m.len - end);
    m.len += bytes;
    put32(m.bytes + meta, get32(m.bytes + meta) + bytes);
    cr_assert(eq(u32, get32(m.bytes + iloc + 12), 0x44000001)); /* one item, 32-bit offsets */
    put32(m.bytes + iloc + 22, get32(m.bytes + iloc + 22) + bytes);
    box = m.bytes + end;
    memset(box, 0, bytes);
    put32(box, bytes);
    memcpy(box + 4, "iref", 4);
    put32(box + 12, bytes - 12);
    memcpy(box + 16, type, 4);
    put32(box + 20, 1 << 16 | times);
    for (uint32_t i = 0; i < times; i++)
        box[24 + 2 * i + 1] = 1;
    return m;
}

/* libavif's time grows with the square of the lists of items: 260 KB of references took 20
 * seconds. */
Test(avif, lists_of_items_have_a_limit)
{
    static const char sentence[] =
        "the AVIF's lists of items and chunks have more bytes than the limit of 65536";
    struct made_avif small = {.width = 40, .height = 30};
    struct made m = make_references(&small, "cdsc", 26);
    struct oracle_image got;
    uint32_t other = 0;
    uint8_t *moov;

    for (size_t i = 0; i < 3; i++)
        other += get32(m.bytes + find_box(&m, (const char *[]){"iinf", "iloc", "ipma"}[i], 0));
    free(m.bytes);
    other += other % 2;
    m = make_references(&small, "cdsc", 65536 - other);
    read_all(&m, &got);
    free(got.rgb);
    free(m.bytes);
    m = make_references(&small, "cdsc", 65536 - other + 2);
    expect_bad(&m, sentence);
    free(m.bytes);

    /* Lists of chunks count, too, at their usual depth. Boxes that are nested deeper are not
     * followed. */
    m = make_avif(&(struct made_avif){.width = 40, .height = 30});
    m.bytes = realloc(m.bytes, m.len + 70000);
    moov = m.bytes + m.len;
    memset(moov, 0, 70000);
    for (size_t i = 0; i < 5; i++) {
        put32(moov + 8 * i, 70000 - 8 * (uint32_t)i);
        memcpy(moov + 8 * i + 4, "moovtrakmdiaminfstbl" + 4 * i, 4);
    }
    put32(moov + 40, 1); /* the box has a 64-bit size */
    memcpy(moov + 44, "stsc", 4);
    put32(moov + 52, 70000 - 40);
    m.len += 70000;
    expect_bad(&m, sentence);
    for (size_t i = 0; i < 70000; i += 8) {
        put32(moov + i, 70000 - (uint32_t)i);
        memcpy(moov + i + 4, "moov", 4);
    }
    read_all(&m, &got); /* libavif has found everything before it gets here */
    free(got.rgb);
    free(m.bytes);
}

/* Returns an image followed by nested boxes of these types. The innermost has `head`, and then
 * `bytes` repeated. */
static struct made with_boxes(const char *types, const uint8_t *head, uint32_t head_len,
                              const uint8_t *bytes, uint32_t len, uint32_t times)
{
    struct made m = make_avif(&(struct made_avif){.width = 40, .height = 30});
    uint32_t depth = (uint32_t)strlen(types) / 4, size = 8 * depth + head_len + len * times;
    uint8_t *at;

    m.bytes = realloc(m.bytes, m.len + size);
    at = m.bytes + m.len;
    m.len += size;
    for (uint32_t i = 0; i < depth; i++, at += 8) {
        put32(at, size - 8 * i);
        memcpy(at + 4, types + (size_t)4 * i, 4);
    }
    if (head_len > 0)
        memcpy(at, head, head_len);
    at += head_len;
    for (; times > 0; times--, at += len)
        memcpy(at, bytes, len);
    return m;
}

/* An empty track takes 8 bytes in the file and 3 KB of memory, a property 8 bytes and 100. libavif
 * treats everything after a sample description as its properties: 170 KB took 800 MB. */
Test(avif, boxes_have_a_limit)
{
    static const uint8_t track[] = "\0\0\0\x08trak", property[] = "\0\0\0\x08"
                                                                  "free";
    static const uint8_t entry[43] = "\0\0\0\x2b"
                                     "av01",
                         head[8] = {0};
    static const struct {
        const char *types;
        const uint8_t *head, *bytes;
        uint32_t head_len, len, good, bad;
    } cases[] = {
        {"moov", NULL, track, 0, 8, 65000, 65536},
        {"iprpipco", NULL, property, 0, 8, 65000, 65536},
        {"moovtrakmdiaminfstblstsd", head, entry, 8, 43, 350, 365},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct oracle_image got;
        struct made m = with_boxes(cases[i].types, cases[i].head, cases[i].head_len, cases[i].bytes,
                                   cases[i].len, cases[i].good);

        read_all(&m, &got);
        free(got.rgb);
        free(m.bytes);
        m = with_boxes(cases[i].types, cases[i].head, cases[i].head_len, cases[i].bytes,
                       cases[i].len, cases[i].bad);
        expect_bad(&m, "the AVIF has more than 65536 boxes");
        free(m.bytes);
    }
}

static void expect_tiles(const struct made_avif *spec, const char *type, uint32_t most, bool wide)
{
    for (uint32_t tiles = most; tiles <= most + 1; tiles++) {
        uint32_t bytes = 24 + 2 * tiles + (wide ? 8 : 0);
        struct made m = make_references(spec, type, bytes);
        uint8_t *iref = m.bytes + find_box(&m, "iref", 0);
        struct oracle_image got;

        if (wide) { /* the reference has a 64-bit size */
            put32(iref + 12, 1);
            put32(iref + 20, 0);
            put32(iref + 24, bytes - 12);
            put32(iref + 28, 1 << 16 | tiles);
        }
        if (tiles > most) {
            expect_bad(&m, "AVIF decoder: Decoding of color planes failed");
        } else {
            read_all(&m, &got);
            free(got.rgb);
        }
        free(m.bytes);
    }
}

/* All tiles may be the same frame, as large as an image: 1,300 of them took 60 KB in the file, but
 * 23 GB of memory and a minute. Here the references name the image itself as every tile. */
Test(avif, tiles_have_a_limit_of_pixels)
{
    struct made_avif spec = {.width = 200, .height = 200};
    uint32_t most = (1 << 29) / (200 * 200);

    expect_tiles(&spec, "dimg", most, false);
    expect_tiles(&spec, "dimg", most, true);
    expect_tiles(&spec, "auxl", most, false); /* the alpha of a tile */
}

/* dav1d's frames consist of whole blocks of 128x128 pixels: 200 frames of one column took 3 GB. */
Test(avif, narrow_tiles_have_a_lower_limit)
{
    struct made_avif narrow = {.width = 32, .height = 1250}, low = {.width = 2000, .height = 20};

    expect_tiles(&narrow, "dimg", (1 << 28) / (32 * 1250), false);
    expect_tiles(&low, "dimg", (1 << 29) / 64 * 20 / (2000 * 20), false);
}

/* Returns the AV1 data of an image's item, and where its last OBU begins, which is the frame. */
static struct made av1_of(const struct made *m, size_t *frame)
{
    size_t iloc = find_box(m, "iloc", 0), i;
    struct made ret = {.len = get32(m->bytes + iloc + 26)};

    cr_assert(eq(u32, get32(m->bytes + iloc + 12), 0x44000001)); /* one item, 32-bit offsets */
    ret.bytes = malloc(ret.len);
    memcpy(ret.bytes, m->bytes + get32(m->bytes + iloc + 22), ret.len);
    for (i = 0; i < ret.len;) {
        size_t size = 0;
        int shift = 0;

        *frame = i;
        cr_assert(eq(int, ret.bytes[i++] & 6, 2)); /* it has a size but no extension */
        do
            size |= (size_t)(ret.bytes[i] & 127) << shift;
        while (shift += 7, ret.bytes[i++] & 128);
        i += size;
    }
    cr_assert(i == ret.len && ret.bytes[*frame] == 0x32);
    return ret;
}

/* Append these bytes `times` times. */
static void add(struct made *m, const void *bytes, size_t len, uint32_t times)
{
    m->bytes = realloc(m->bytes, m->len + len * times);
    for (; times > 0; times--, m->len += len)
        memcpy(m->bytes + m->len, bytes, len);
}

static void add32(struct made *m, uint32_t value)
{
    uint8_t bytes[4];

    put32(bytes, value);
    add(m, bytes, 4, 1);
}

/* Returns the image `from` with other AV1 data, in extents of these sizes, in a new "mdat" or in an
 * "idat". */
static struct made with_av1(const struct made *from, const struct made *av1, const size_t *extents,
                            uint32_t count, bool idat)
{
    size_t iloc = find_box(from, "iloc", 0), meta = find_box(from, "meta", 0);
    size_t behind = iloc + get32(from->bytes + iloc), end = meta + get32(from->bytes + meta);
    uint32_t size = 24 + 8 * count;
    size_t at = idat ? 0 : from->len + size - (behind - iloc) + 8;
    struct made m = {NULL, 0};

    add(&m, from->bytes, iloc, 1);
    add32(&m, size);
    add(&m, "iloc\1\0\0\0\x44\0\0\1\0\1\0", 15, 1);
    add(&m, idat ? "\1\0\0" : "\0\0\0", 3, 1);
    add(&m, (uint8_t[]){(uint8_t)(count >> 8), (uint8_t)count}, 2, 1);
    for (uint32_t i = 0; i < count; at += extents[i++]) {
        add32(&m, (uint32_t)at);
        add32(&m, (uint32_t)extents[i]);
    }
    cr_assert(m.len == iloc + size);
    add(&m, from->bytes + behind, end - behind, 1);
    if (idat) {
        add32(&m, 8 + (uint32_t)av1->len);
        add(&m, "idat", 4, 1);
        add(&m, av1->bytes, av1->len, 1);
    }
    put32(m.bytes + meta, (uint32_t)(m.len - meta));
    add(&m, from->bytes + end, from->len - end, 1);
    if (!idat) {
        add32(&m, 8 + (uint32_t)av1->len);
        add(&m, "mdat", 4, 1);
        add(&m, av1->bytes, av1->len, 1);
    }
    return m;
}

/* Returns the image with other AV1 data, laid out in one of three ways. 0: one extent; 1: two, the
 * second of which begins inside an OBU and looks like a whole one; 2: in an "idat". */
static struct made lay(const struct made *from, const struct made *av1, uint32_t how)
{
    size_t half = av1->len / 2 + 3;

    if (how == 1)
        return with_av1(from, av1, (size_t[]){half, av1->len - half}, 2, false);
    return with_av1(from, av1, &av1->len, 1, how == 2);
}

/* Returns a still image of 40x30 pixels whose item has `bytes` repeated, before its frame or after
 * it. */
static struct made repeat(const void *bytes, size_t len, uint32_t times, bool behind, uint32_t how)
{
    struct made still = make_avif(&(struct made_avif){.width = 40, .height = 30}), m;
    size_t frame;
    struct made av1 = av1_of(&still, &frame), all = {NULL, 0};

    if (!bytes) {
        bytes = av1.bytes + frame;
        len = av1.len - frame;
    }
    add(&all, av1.bytes, behind ? av1.len : frame, 1);
    add(&all, bytes, len, times);
    if (!behind)
        add(&all, av1.bytes + frame, av1.len - frame, 1);
    m = lay(&still, &all, how);
    free(all.bytes);
    free(av1.bytes);
    free(still.bytes);
    return m;
}

static void expect_good(const struct made *m)
{
    struct made still = make_avif(&(struct made_avif){.width = 40, .height = 30});
    struct oracle_image want, got;

    read_all(&still, &want);
    read_all(m, &got);
    cr_expect(memcmp(got.rgb, want.rgb, 40 * 30 * 3) == 0);
    free(got.rgb);
    free(want.rgb);
    free(still.bytes);
}

/* Everything that dav1d decodes, or logs a line about, before the frame that is shown has a limit:
 * up to the limit, the file is good; with one more, it is bad. */
Test(avif, the_data_of_an_item_has_limits)
{
    static const struct {
        const char *bytes; /* NULL: the frame */
        size_t len;
        uint32_t most;
        bool behind;
        const char *sentence;
    } cases[] = {
        {NULL, 0, 8, true, "the AVIF has more than 8 frames that are not shown"},
        {"\x4a\0", 2, 16, false, "the AVIF has more than 16 OBUs of unknown kinds"},
        {"\x2a\0", 2, 16, false, "the AVIF has more than 16 OBUs of unknown kinds"},
        {"\x4e\0\1\xff", 4, 16, false, "the AVIF has more than 16 OBUs of unknown kinds"},
        {"\2\x81\0\xff", 4, 16, false, "the AVIF has more than 16 OBUs of unknown kinds"},
        {"\x2a\2\x1f\x80", 4, 16, false, "the AVIF has more than 16 OBUs of unknown kinds"},
        {"\x12\0", 2, 65536 - 3, false, "the AVIF has more than 65536 OBUs"},
        {"\x7a\3abc", 5, 65536 - 3, true, "the AVIF has more than 65536 OBUs"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        for (uint32_t how = 0; how < 3; how++) {
            /* Offsets into the "idat" are also tried in the file, whose first bytes then count as
             * an OBU. */
            uint32_t most = cases[i].most - (how == 2 && cases[i].most > 1000);
            struct made m = repeat(cases[i].bytes, cases[i].len, most, cases[i].behind, how);

            expect_good(&m);
            free(m.bytes);
            m = repeat(cases[i].bytes, cases[i].len, most + 1, cases[i].behind, how);
            expect_bad(&m, cases[i].sentence);
            free(m.bytes);
        }
    }
}

/* An extent begins with bytes that look like a single OBU up to its end, but are in the middle of
 * another OBU. */
Test(avif, extents_are_joined_before_they_are_counted)
{
    struct made still = make_avif(&(struct made_avif){.width = 40, .height = 30});

    for (uint32_t times = 8; times <= 9; times++) {
        size_t frame, cut;
        struct made av1 = av1_of(&still, &frame), all = {NULL, 0}, m;

        add(&all, av1.bytes, frame, 1);
        add(&all, "\x7a\4a", 3, 1); /* four bytes of padding */
        cut = all.len;
        add(&all,
            "\x78"
            "bc",
            3, 1); /* padding without a size: it extends to the end */
        add(&all, av1.bytes + frame, av1.len - frame, 1 + times);
        m = with_av1(&still, &all, (size_t[]){cut, all.len - cut}, 2, false);
        if (times == 8)
            expect_good(&m);
        else
            expect_bad(&m, "frames that are not shown");
        free(m.bytes);
        free(all.bytes);
        free(av1.bytes);
    }
    free(still.bytes);
}

/* libavif keeps 16 bytes for each extent; an empty one may take no space in the file. */
Test(avif, extents_have_a_limit)
{
    struct made still = make_avif(&(struct made_avif){.width = 40, .height = 30}), m;
    size_t frame, extents[1026] = {0};
    struct made av1 = av1_of(&still, &frame);

    extents[0] = 5;
    extents[1000] = av1.len - 5;
    m = with_av1(&still, &av1, extents, 1025, false);
    expect_good(&m);
    free(m.bytes);
    m = with_av1(&still, &av1, extents, 1026, false);
    expect_bad(&m, "the AVIF's items are in more than 1024 further extents");
    free(m.bytes);
    free(av1.bytes);
    free(still.bytes);
}

/* libavif copies items that have several extents, and dav1d copies some metadata: 1,000 items with
 * the same megabyte took 1.4 GB. Here no item refers to the others, but they count anyway. */
Test(avif, bytes_of_several_items_have_a_limit)
{
    enum { OTHERS = 20, FILE_LEN = 1 << 20 };
    struct made still = make_avif(&(struct made_avif){.width = 40, .height = 30});

    for (uint32_t more = 0; more <= 1; more++) {
        size_t iloc = find_box(&still, "iloc", 0), meta = find_box(&still, "meta", 0), at;
        uint32_t len = get32(still.bytes + iloc + 26);
        uint32_t left = FILE_LEN + IMAGE_SHARED_MAX - len + more;
        struct made m = {NULL, 0};

        cr_assert(eq(u32, get32(still.bytes + iloc + 12), 0x44000001));
        add(&m, still.bytes, iloc + 30, 1);
        put32(m.bytes + iloc, 30 + 14 * OTHERS);
        put32(m.bytes + iloc + 12, 0x44000001 + OTHERS);
        put32(m.bytes + iloc + 22, get32(m.bytes + iloc + 22) + 14 * OTHERS);
        put32(m.bytes + meta, get32(m.bytes + meta) + 14 * OTHERS);
        for (uint32_t i = 0; i < OTHERS; i++) {
            uint32_t part = left < FILE_LEN ? left : FILE_LEN;

            add32(&m, (100 + i) << 16);
            add32(&m, 1);
            m.len -= 2;
            memcpy(m.bytes + m.len - 2, "\0\1", 2);
            add32(&m, 0);
            add32(&m, part);
            left -= part;
        }
        cr_assert(eq(u32, left, 0));
        add(&m, still.bytes + iloc + 30, still.len - iloc - 30, 1);
        at = m.len;
        add(&m, "", 1, (uint32_t)(FILE_LEN - at));
        put32(m.bytes + at, (uint32_t)(FILE_LEN - at));
        memcpy(m.bytes + at + 4, "free", 4);
        if (more == 0)
            expect_good(&m);
        else
            expect_bad(&m, "the AVIF's items share more bytes than the limit of 16777216");
        free(m.bytes);
    }
    free(still.bytes);
}

/* In a sequence, the first frame of each track counts, although no item refers to it. */
Test(avif, the_first_frame_of_a_sequence_has_limits)
{
    struct made_avif spec = {.width = 40, .height = 30, .animated = true};

    for (uint32_t times = 8; times <= 9; times++) {
        struct made m = make_avif(&spec);
        size_t stco = find_box(&m, "stco", 0), stsz = find_box(&m, "stsz", 0), frame = 0;
        uint32_t at = get32(m.bytes + stco + 16), len = get32(m.bytes + stsz + 20);
        uint32_t second = get32(m.bytes + stsz + 24);
        uint8_t *samples = malloc(len + second);

        cr_assert(eq(u32, get32(m.bytes + stsz + 12), 0)); /* each frame has its own size */
        cr_assert(eq(u32, get32(m.bytes + stco + 12), 1)); /* both are in one chunk */
        memcpy(samples, m.bytes + at, len + second);
        while (samples[frame] != 0x32)
            frame += 2 + samples[frame + 1];
        cr_assert(lt(sz, frame, len));
        put32(m.bytes + stco + 16, (uint32_t)m.len + 8);
        put32(m.bytes + stsz + 20, len + times * (uint32_t)(len - frame));
        add32(&m, 8 + len + times * (uint32_t)(len - frame) + second);
        add(&m, "mdat", 4, 1);
        add(&m, samples, len, 1);
        add(&m, samples + frame, len - frame, times);
        add(&m, samples + len, second, 1);
        if (times == 8) {
            struct oracle_image got;

            read_all(&m, &got);
            free(got.rgb);
        } else {
            expect_bad(&m, "the AVIF has more than 8 frames that are not shown");
        }
        free(samples);
        free(m.bytes);
    }
}

/* Returns a grid of 3x3 tiles. In `tiles` of them, `before` precedes the frame, and `behind`
 * follows it, or the frame once more if `behind` is NULL. */
static struct made make_tiles(const char *before, const char *behind, uint32_t tiles)
{
    struct made m =
        make_avif(&(struct made_avif){.columns = 3, .rows = 3, .width = 192, .height = 192});
    size_t iloc = find_box(&m, "iloc", 0), item = iloc + 16 + 14, frame = 0;
    uint32_t at = get32(m.bytes + item + 6), len = get32(m.bytes + item + 10);
    struct made av1 = {NULL, 0};

    cr_assert(eq(u32, get32(m.bytes + iloc + 12), 0x4400000a)); /* ten items: grid and tiles */
    while (m.bytes[at + frame] != 0x32)
        frame += 2 + m.bytes[at + frame + 1];
    add(&av1, m.bytes + at, frame, 1);
    add(&av1, before, strlen(before), 1);
    add(&av1, m.bytes + at + frame, len - frame, behind ? 1 : 2);
    if (behind)
        add(&av1, behind, strlen(behind), 1);
    for (; tiles > 0; tiles--, item += 14) {
        put32(m.bytes + item + 6, (uint32_t)m.len + 8);
        put32(m.bytes + item + 10, (uint32_t)av1.len);
    }
    add32(&m, 8 + (uint32_t)av1.len);
    add(&m, "mdat", 4, 1);
    add(&m, av1.bytes, av1.len, 1);
    free(av1.bytes);
    return m;
}

/* All tiles of an image count together. If a frame is one of several layers, dav1d continues after
 * it, so the last OBU, which has no size, counts, too. */
Test(avif, the_data_of_all_items_is_counted)
{
    static const struct {
        const char *before, *behind, *sentence;
    } cases[] = {
        {"", NULL, "the AVIF has more than 8 frames that are not shown"},
        {"\x7a\1a\x4a\1a", "\x48", "the AVIF has more than 16 OBUs of unknown kinds"},
        {"\x7a\1a\x4a\1a", "\x28\x1f", "the AVIF has more than 16 OBUs of unknown kinds"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct made m = make_tiles(cases[i].before, cases[i].behind, 8);
        struct oracle_image got;

        read_all(&m, &got);
        free(got.rgb);
        free(m.bytes);
        m = make_tiles(cases[i].before, cases[i].behind, 9);
        expect_bad(&m, cases[i].sentence);
        free(m.bytes);
    }
}

/* A file is an AVIF if its brand is, or one of its compatible brands. */
Test(avif, brands)
{
    struct made_avif spec = {.width = 9, .height = 9};
    struct made m = make_avif(&spec);
    struct oracle_image got;

    memcpy(m.bytes + 8, "mif1", 4); /* the compatible brands follow */
    read_all(&m, &got);
    free(got.rgb);
    for (size_t at = 8; at + 4 <= m.bytes[3]; at += 4)
        if (memcmp(m.bytes + at, "avif", 4) == 0)
            memcpy(m.bytes + at, "mif1", 4);
    expect_bad(&m, "this is a HEIF image, but only");
    memcpy(m.bytes + 8, "heic", 4);
    expect_bad(&m, "this is a HEIC image, but only");
    free(m.bytes);
}

Test(avif, cut_off_at_every_byte, .timeout = 600)
{
    struct pipeline p = parse("exif rrc(8,scale=0.05:0.3)");
    struct image_decoder *decoder;
    uint32_t cut = 0;
    char why[200];

    cr_assert(eq(int, image_decoder_create(&decoder), 0));
    for (uint32_t k = 0; k < made_avifs_count; k += 3) {
        struct made_avif spec = made_avifs[k];
        struct made m;

        spec.width = 20;
        spec.height = 34;
        m = make_avif(&spec);
        for (size_t len = 0; len < m.len; len++) {
            struct image_draw draw = {.seed = 4, .position = (uint32_t)len};
            struct plenum_error err;
            int r;

            cr_assert(oracle_agrees(decoder, &(struct rendering){&p, &draw, &plain, m.bytes, len},
                                    why, &r, &err),
                      "%s, %zu of %zu bytes: %s", spec.name, len, m.len, why);
            if (!spec.animated && !spec.alpha) /* data after the first frame may be missing */
                cr_expect(eq(int, r, -EBADMSG), "%s, %zu of %zu", spec.name, len, m.len);
            cut += strncmp(err.text, "the AVIF file is cut off: it ends after ", 40) == 0;
        }
        free(m.bytes);
    }
    cr_expect(cut > 1000, "%u", cut);
    image_decoder_destroy(decoder);
}

Test(avif, damaged_anywhere, .timeout = 600)
{
    struct pipeline p = parse("exif rrc(8,scale=0.05:0.3)");
    struct image_decoder *decoder;
    struct damage d = {.pipeline = &p, .count = 300, .head = 360, .head_of = 2};
    char why[300];

    cr_assert(eq(int, image_decoder_create(&decoder), 0));
    for (uint32_t k = 0; k < made_avifs_count; k++) {
        struct made_avif spec = made_avifs[k];
        struct made m;

        spec.width = 40;
        spec.height = 50;
        m = make_avif(&spec);
        d.file = &m;
        d.key = k;
        cr_assert(oracle_agrees_on_damage(decoder, &d, why), "%s, %s", spec.name, why);
        free(m.bytes);
    }
    cr_expect(d.good > 500 && d.bad > 500, "%u, %u", d.good, d.bad);
    image_decoder_destroy(decoder);
}

struct size_case {
    char why[40];
    uint32_t width, height, to_width, to_height; /* the true size, and the size in the header */
    char sentence[60];
};

ParameterizedTestParameters(avif, sizes)
{
    static struct size_case cases[] = {
        {"smaller", 40, 50, 39, 50, "AVIF decoder: "},
        {"larger", 40, 50, 40, 51, "AVIF decoder: "},
        {"a pixel", 2, 2, 1, 1, "its image does not have the size that its header gives"},
        {"a side over the limit", 40, 50, IMAGE_SIDE_MAX + 1, 50, "are more than the limit of"},
        {"pixels over the limit", 40, 50, 1 << 14, (1 << 13) + 1, "are more than the limit of"},
        {"far more than the limit", 40, 50, 1 << 28, 1 << 20, "AVIF decoder: "},
        {"none", 40, 50, 0, 50, ""},
        {"as it is", 40, 50, 40, 50, "-"},
    };
    return cr_make_param_array(struct size_case, cases, ARRAY_LEN(cases));
}

/* A frame whose size differs from the header is not scaled: other loaders might scale it
 * differently. */
ParameterizedTest(struct size_case *c, avif, sizes)
{
    struct made_avif spec = {.width = c->width, .height = c->height};
    struct made m = make_avif(&spec);
    struct oracle_image got;
    size_t at = find_box(&m, "ispe", 0);

    put32(m.bytes + at + 12, c->to_width);
    put32(m.bytes + at + 16, c->to_height);
    if (strcmp(c->sentence, "-") == 0) {
        read_all(&m, &got);
        free(got.rgb);
    } else {
        expect_bad(&m, c->sentence);
    }
    free(m.bytes);
}

/* Matrix coefficients that docs/pixels.md does not define. */
ParameterizedTestParameters(avif, matrices)
{
    static uint32_t cases[] = {0, 3, 8, 10, 11, 12, 13, 14, 15, 99};

    return cr_make_param_array(uint32_t, cases, ARRAY_LEN(cases));
}

ParameterizedTest(uint32_t *matrix, avif, matrices)
{
    struct made_avif spec = {.width = 9, .height = 8, .limited = true};
    struct made m = make_avif(&spec);
    char sentence[80];
    struct oracle_image image;

    m.bytes[find_box(&m, "colr", 0) + 17] = (uint8_t)*matrix;
    (void)snprintf(sentence, sizeof(sentence),
                   *matrix
                       ? "an AVIF with matrix coefficients %u is not supported"
                       : "an AVIF with matrix coefficients %u and shared chroma is not supported",
                   *matrix);
    expect_bad(&m, sentence);
    cr_expect(eq(int, oracle_decode(m.bytes, m.len, 0, &image), -EBADMSG));
    spec.sampling = 400; /* for grey the matrix does not matter */
    free(m.bytes);
    m = make_avif(&spec);
    m.bytes[find_box(&m, "colr", 0) + 17] = (uint8_t)*matrix;
    read_all(&m, &image);
    free(image.rgb);
    free(m.bytes);
}

/* Running out of memory does not make an image bad. */
Test(avif, out_of_memory_is_not_a_bad_image)
{
#ifdef PLENUM_SANITIZED
    cr_skip_test("sanitizers need all addresses");
#else
    struct made_avif spec = {.width = 3000, .height = 3000};
    struct made m = make_avif(&spec);
    struct image_decoder *decoder;
    struct plenum_error err = {""};
    struct rlimit limit = {0};
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");

    cr_assert(f && fscanf(f, "%lu", &pages) == 1);
    (void)fclose(f);
    cr_assert(eq(int, image_decoder_create(&decoder), 0));
    limit.rlim_cur = limit.rlim_max =
        pages * (unsigned long)sysconf(_SC_PAGESIZE) + (4 << 20); /* too little for the planes */
    cr_assert(eq(int, setrlimit(RLIMIT_AS, &limit), 0));
    cr_expect(
        eq(int, image_verify(decoder, &(struct image_file){m.bytes, m.len}, NULL, &err), -ENOMEM),
        "%s", err.text);
    image_decoder_destroy(decoder);
    free(m.bytes);
#endif
}
#else
Test(avif, without_the_library_it_is_not_a_bad_image)
{
    static const uint8_t bytes[] = "\0\0\0\x18"
                                   "ftypmif1\0\0\0\0mif1avif....";
    struct image_decoder *decoder;
    struct plenum_error err = {""};
    struct pipeline p = parse("resize(1x1)");
    struct image_draw draw = {0};
    uint8_t got[3];

    cr_assert(eq(int, image_decoder_create(&decoder), 0));
    cr_expect(
        eq(int,
           image_render(decoder, &(struct image_view){.pipeline = &p, .draw = draw, .dst = got},
                        &plain, &(struct image_file){bytes, sizeof(bytes) - 1}, &err),
           -ENOTSUP));
    cr_expect(strstr(err.text, "built without libavif: install libavif-dev") != NULL, "%s",
              err.text);
    cr_expect(eq(int,
                 image_verify(decoder, &(struct image_file){bytes, sizeof(bytes) - 1}, NULL, &err),
                 -ENOTSUP));
    image_decoder_destroy(decoder);
}
#endif
