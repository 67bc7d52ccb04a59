/* SPDX-License-Identifier: MIT */
/* test_normalise.c - converts pixels to floats, and compares each set of loops with a plain
 * implementation, bit for bit. */
#include "config.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include <plenum/normalise.h>

#include "common/util/util.h"
#include "libdist/normalise_loops.h"

static const double imagenet_mean[3] = {0.485, 0.456, 0.406};
static const double imagenet_std[3] = {0.229, 0.224, 0.225};

/* ---- the plain implementation ---- */

/* Returns the value of a positive half, from its bits. */
static double half_value(uint32_t bits, enum plenum_float type)
{
    uint32_t exponent_bits = type == PLENUM_TO_FLOAT16 ? 5 : 8, mantissa_bits = 15 - exponent_bits;
    uint32_t exponent = bits >> mantissa_bits;
    uint32_t mantissa = bits & ((1U << mantissa_bits) - 1);
    int least = 2 - (1 << (exponent_bits - 1)); /* for normal numbers */

    if (exponent == 0)
        return ldexp(mantissa, least - (int)mantissa_bits);
    return ldexp(mantissa | 1U << mantissa_bits, (int)exponent - 1 + least - (int)mantissa_bits);
}

/* Returns the nearest half, with ties to even, by searching all halves in order of value. The value
 * after the largest one is infinity. */
static uint16_t nearest_half(float value, enum plenum_float type)
{
    uint32_t infinity = type == PLENUM_TO_FLOAT16 ? 0x7c00 : 0x7f80, low = 0, high = infinity;
    double size = fabs((double)value), below, above;

    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;

        if (half_value(middle, type) <= size)
            low = middle;
        else
            high = middle;
    }
    below = size - half_value(low, type);
    above = half_value(high, type) - size;
    if (below > above || (below == above && low % 2 == 1) || size >= half_value(infinity, type))
        low = high;
    return (uint16_t)(low | (signbit(value) ? 0x8000U : 0));
}

static void plainly(const struct plenum_images *from, const double *mean, const double *std,
                    uint8_t *to, enum plenum_float type, enum plenum_layout layout)
{
    size_t image = (size_t)from->height * from->width;
    static uint16_t halves[3][256];

    for (uint32_t c = 0; c < 3; c++) {
        const float scale = (float)(1 / (255 * std[c])), bias = (float)(-mean[c] / std[c]);

        for (size_t n = 0; n < 256 && type != PLENUM_TO_FLOAT32; n++) {
            volatile float product = (float)n * scale;
            volatile float value = product + bias;

            halves[c][n] = nearest_half(value, type);
        }
        for (size_t n = 0; n < from->count; n++)
            for (size_t i = 0; i < image; i++) {
                size_t at = from->layout == PLENUM_NHWC ? (n * image + i) * from->channels + c
                                                        : (n * from->channels + c) * image + i;
                size_t out =
                    layout == PLENUM_NHWC ? (n * image + i) * 3 + c : (n * 3 + c) * image + i;
                int level = from->dtype == PLENUM_INT8 ? ((const int8_t *)from->pixels)[at] + 128
                                                       : ((const uint8_t *)from->pixels)[at];
                volatile float product = (float)level * scale;
                volatile float value = product + bias;
                float copy = value;

                if (type == PLENUM_TO_FLOAT32)
                    memcpy(to + out * sizeof(float), &copy, sizeof(float));
                else
                    memcpy(to + out * 2, &halves[c][level], 2);
            }
    }
}

/* ---- memory that ends at an inaccessible page ---- */

static uint8_t *guarded(size_t bytes, size_t off, void **base, size_t *whole)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (bytes + off + page - 1) / page * page;
    uint8_t *p =
        mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    cr_assert(p != MAP_FAILED);
    cr_assert(eq(int, mprotect(p + room, page, PROT_NONE), 0));
    *base = p;
    *whole = room + page;
    return p + room - bytes - off;
}

/* Writes pixels that have, in any layout, all 256 values of each channel in 256 pixels. */
static void fill(uint8_t *pixels, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        pixels[i] = (uint8_t)(i * 167 + (i >> 8) * 31 + i / 3);
}

struct constants {
    double mean[3], std[3];
};

/* Compares one set of loops, in every variant. `off` is the offset of the floats, in floats, and of
 * the pixels, in bytes. */
static void compare(const struct normalise_loops *loops, uint32_t count, uint32_t height,
                    uint32_t width, const struct constants *k, size_t off)
{
    size_t all = (size_t)count * height * width;

    for (uint32_t way = 0; way < 2 * 2 * 2 * 3 * 2 * 2; way++) {
        uint32_t channels = 3 + way % 2;
        enum plenum_float type = way / 16 % 3;
        enum plenum_layout layout = way / 2 % 2;
        size_t one = type == PLENUM_TO_FLOAT32 ? 4 : 2, whole_in, whole_out;
        void *base_in, *base_out;
        uint8_t *pixels = guarded(all * channels, off, &base_in, &whole_in);
        uint8_t *floats = guarded(all * 3 * one, off * one, &base_out, &whole_out);
        uint8_t *want = malloc(all * 3 * one);
        struct plenum_images images = {.size = sizeof(images),
                                       .pixels = pixels,
                                       .count = count,
                                       .height = height,
                                       .width = width,
                                       .channels = channels,
                                       .dtype = way / 4 % 2,
                                       .layout = way / 8 % 2};
        const struct normalise_job job = {.from = &images,
                                          .mean = k->mean,
                                          .std = k->std,
                                          .to = floats,
                                          .type = type,
                                          .layout = layout};
        struct plenum_error err;

        cr_assert(ne(ptr, want, NULL));
        fill(pixels, all * channels);
        memset(base_out, 0xa5, (size_t)(floats - (uint8_t *)base_out) + all * 3 * one);
        plainly(&images, k->mean, k->std, want, type, layout);
        cr_assert(eq(int, normalise_with(loops, way / 48 % 2 ? 0 : SIZE_MAX, &job, &err), 0), "%s",
                  err.text);
        cr_assert(memcmp(floats, want, all * 3 * one) == 0, "%s, %ux%ux%u, way %u, off %zu",
                  loops->name, count, height, width, way, off);
        for (uint8_t *p = base_out; p < floats; p++)
            cr_assert(eq(u8, p[0], 0xa5), "nothing may be written before the floats");
        free(want);
        (void)munmap(base_in, whole_in);
        (void)munmap(base_out, whole_out);
    }
}

static const struct constants imagenet = {{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};

Test(normalise, equals_the_plain_loop_bit_for_bit_in_every_size)
{
    static const uint32_t sizes[][3] = {{1, 1, 1},  {3, 1, 1},   {5, 7, 13},  {1, 1, 15},
                                        {1, 1, 16}, {2, 1, 17},  {3, 4, 8},   {1, 1, 31},
                                        {1, 1, 32}, {2, 16, 16}, {2, 96, 96}, {1, 224, 223}};

    for (size_t l = 0; normalise_loops[l]; l++)
        for (size_t i = 0; i < ARRAY_LEN(sizes) && normalise_loops[l]->usable(); i++)
            compare(normalise_loops[l], sizes[i][0], sizes[i][1], sizes[i][2], &imagenet, 0);
}

Test(normalise, works_at_every_address)
{
    for (size_t l = 0; normalise_loops[l]; l++)
        for (size_t off = 1; off <= 33 && normalise_loops[l]->usable(); off++)
            compare(normalise_loops[l], 2, 7, 11 + (uint32_t)off % 2, &imagenet, off);
}

/* Halves are tested that are infinite, smaller than normal ones, halfway between two, or zero. */
Test(normalise, works_for_every_value)
{
    static const struct constants some[] = {
        {{0, 0, 0}, {1, 1, 1}},
        {{0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}},
        {{0, 0.25, -3}, {1 / 255., 8 / 255., 1 / 2040.}},
        {{-1, 1e3, -1e3}, {1e-6, 1e-5, 1.5e-2}},
        {{1e-9, 0, 0.3}, {1e3, 6e4, 3e6}},
        {{0, 0.1, 0.9}, {1e7, 1e12, 1e30}},
        {{0, 0, 1}, {3e-39, 1e-38, 1e40}},
        {{0.123456789, 0.7, 0.31}, {1. / 3, 0.017, 0.9999}},
    };

    for (size_t l = 0; normalise_loops[l]; l++)
        for (size_t i = 0; i < ARRAY_LEN(some) && normalise_loops[l]->usable(); i++)
            compare(normalise_loops[l], 1, 16, 32, &some[i], 0);
}

/* Beside the examples, this law holds: a value depends only on its byte, wherever that is. */
Test(normalise, gives_a_value_for_a_byte)
{
    uint8_t pixels[256][3];
    float floats[256][3];
    struct plenum_images images = {sizeof(images), pixels, 1, 256, 1, 3, PLENUM_UINT8, PLENUM_NHWC};
    struct plenum_error err;

    for (uint32_t i = 0; i < 256; i++)
        for (uint32_t c = 0; c < 3; c++)
            pixels[i][c] = (uint8_t)i;
    cr_assert(eq(int,
                 plenum_normalise(&images, imagenet_mean, imagenet_std, floats, PLENUM_TO_FLOAT32,
                                  PLENUM_NHWC, &err),
                 0),
              "%s", err.text);
    for (uint32_t i = 0; i < 256; i++)
        for (uint32_t c = 0; c < 3; c++) {
            double exact = (i / 255. - imagenet_mean[c]) / imagenet_std[c];

            cr_expect(fabs((double)floats[i][c] - exact) < 1e-6, "%u, %u", i, c);
            cr_expect(i == 0 || floats[i][c] > floats[i - 1][c], "%u, %u", i, c);
        }
}

/* ---- faults ---- */

static uint8_t some_pixels[2 * 4 * 4 * 4];
static float some_floats[2 * 4 * 4 * 3];

struct fault {
    const char *why;
    struct plenum_images images;
    double mean, std; /* of the second channel */
    int type, layout;
    size_t off; /* of the floats, in bytes */
    int want;
    const char *text; /* words of the message */
};

Test(normalise, reports_errors)
{
    enum { SIZE = sizeof(struct plenum_images) };
    /* clang-format off */
    static const struct fault faults[] = {
        {"no fault", {SIZE, some_pixels, 2, 4, 4, 3, 1, 0}, 0.5, 1, 0, 0, 0, 0, ""},
        {"size", {8, some_pixels, 2, 4, 4, 3, 1, 0}, 0.5, 1, 0, 0, 0, -EINVAL, "the images' 'size' is 8: set it to sizeof"},
        {"type of pixels", {SIZE, some_pixels, 2, 4, 4, 3, 2, 0}, 0.5, 1, 0, 0, 0, -EINVAL, "pixel type 2"},
        {"negative", {SIZE, some_pixels, 2, 4, 4, 3, -1, 0}, 0.5, 1, 0, 0, 0, -EINVAL, "pixel type -1"},
        {"layout", {SIZE, some_pixels, 2, 4, 4, 3, 1, 2}, 0.5, 1, 0, 0, 0, -EINVAL, "layout 2"},
        {"layout of floats", {SIZE, some_pixels, 2, 4, 4, 3, 1, 1}, 0.5, 1, 0, 5, 0, -EINVAL, "layout 5"},
        {"type", {SIZE, some_pixels, 2, 4, 4, 3, 1, 0}, 0.5, 1, 3, 0, 0, -EINVAL, "float type 3"},
        {"channels", {SIZE, some_pixels, 2, 4, 4, 1, 1, 0}, 0.5, 1, 0, 0, 0, -EINVAL, "have 1 channels, not 3"},
        {"height", {SIZE, some_pixels, 2, 0, 4, 3, 1, 0}, 0.5, 1, 0, 0, 0, -EINVAL, "are 0x4: both must be 1"},
        {"width", {SIZE, some_pixels, 2, 4, 0, 3, 1, 0}, 0.5, 1, 0, 0, 0, -EINVAL, "are 4x0: both must be 1"},
        {"std of 0", {SIZE, some_pixels, 2, 4, 4, 3, 1, 0}, 0.5, 0, 0, 0, 0, -EINVAL, "std[1] is 0: it must be"},
        {"std below 0", {SIZE, some_pixels, 2, 4, 4, 3, 1, 0}, 0.5, -1, 0, 0, 0, -EINVAL, "std[1] is -1: it must"},
        {"std NaN", {SIZE, some_pixels, 2, 4, 4, 3, 1, 0}, 0.5, NAN, 0, 0, 0, -EINVAL, "a finite number above 0"},
        {"std infinite", {SIZE, some_pixels, 2, 4, 4, 3, 1, 0}, 0.5, INFINITY, 0, 0, 0, -EINVAL, "std[1] is inf"},
        {"mean NaN", {SIZE, some_pixels, 2, 4, 4, 3, 1, 0}, NAN, 1, 0, 0, 0, -EINVAL, "it must be a finite number"},
        {"mean infinite", {SIZE, some_pixels, 2, 4, 4, 3, 1, 0}, -INFINITY, 1, 0, 0, 0, -EINVAL, "mean[1] is -inf"},
        {"scale", {SIZE, some_pixels, 2, 4, 4, 3, 1, 0}, 0, 1e-300, 0, 0, 0, -EINVAL, "would be infinite"},
        {"bias", {SIZE, some_pixels, 2, 4, 4, 3, 1, 0}, 1e300, 1, 0, 0, 0, -EINVAL, "would be infinite"},
        {"no pixels", {SIZE, NULL, 2, 4, 4, 3, 1, 0}, 0.5, 1, 0, 0, 0, -EINVAL, "one of them is NULL"},
        {"nothing to do", {SIZE, NULL, 0, 4, 4, 3, 1, 0}, 0.5, 1, 0, 0, 0, 0, ""},
        {"too many", {SIZE, some_pixels, UINT64_MAX, 4, 4, 3, 1, 0}, 0.5, 1, 0, 0, 0, -EOVERFLOW, "address space"},
        {"too many floats", {SIZE, some_pixels, UINT64_MAX / 200, 4, 4, 3, 1, 0}, 0.5, 1, 0, 0, 0, -EOVERFLOW, "address space"},
        {"too large", {SIZE, some_pixels, 2, UINT32_MAX, UINT32_MAX, 3, 1, 0}, 0.5, 1, 0, 0, 0, -EOVERFLOW, "4294967295x4294967295"},
        {"address", {SIZE, some_pixels, 2, 4, 4, 3, 1, 0}, 0.5, 1, 0, 0, 2, -EINVAL, "a multiple of 4 bytes"},
        {"address of halves", {SIZE, some_pixels, 2, 4, 4, 3, 1, 0}, 0.5, 1, 1, 0, 1, -EINVAL, "a multiple of 2"},
        {"halves at 2n", {SIZE, some_pixels, 1, 4, 4, 3, 1, 0}, 0.5, 1, 2, 0, 2, 0, ""},
        {"same address", {SIZE, some_floats, 2, 4, 4, 3, 1, 0}, 0.5, 1, 0, 0, 0, -EINVAL, "overlap"},
        {"overlap", {SIZE, (uint8_t *)some_floats + 300, 2, 4, 4, 3, 1, 0}, 0.5, 1, 0, 0, 0, -EINVAL, "overlap"},
    };
    /* clang-format on */

    for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
        const struct fault *f = &faults[i];
        double mean[3] = {0.5, f->mean, 0.5}, std[3] = {1, f->std, 1};
        struct plenum_error err = {""};
        float before[ARRAY_LEN(some_floats)];

        memset(some_floats, 0x33, sizeof(some_floats));
        memcpy(before, some_floats, sizeof(before));
        cr_expect(
            eq(int,
               plenum_normalise(&f->images, mean, std, (uint8_t *)some_floats + f->off,
                                (enum plenum_float)f->type, (enum plenum_layout)f->layout, &err),
               f->want),
            "%s: %s", f->why, err.text);
        cr_expect(strstr(err.text, f->text) != NULL, "%s: %s", f->why, err.text);
        cr_expect(eq(int, f->want == 0, err.text[0] == 0), "%s", f->why);
        cr_expect(f->want == 0 || memcmp(before, some_floats, sizeof(before)) == 0, "%s", f->why);
    }
}

Test(normalise, refuses_null)
{
    struct plenum_images images = {sizeof(images), some_pixels, 2, 4, 4, 3,
                                   PLENUM_UINT8,   PLENUM_NHWC};
    struct plenum_error err;

    cr_expect(eq(int, plenum_normalise(NULL, imagenet_mean, imagenet_std, some_floats, 0, 0, &err),
                 -EINVAL));
    cr_expect(
        eq(int, plenum_normalise(&images, NULL, imagenet_std, some_floats, 0, 0, &err), -EINVAL));
    cr_expect(
        eq(int, plenum_normalise(&images, imagenet_mean, NULL, some_floats, 0, 0, NULL), -EINVAL));
    cr_expect(
        eq(int, plenum_normalise(&images, imagenet_mean, imagenet_std, NULL, 0, 0, NULL), -EINVAL));
    cr_expect(eq(str, err.text, "images, mean and std are needed: one of them is NULL"));
}
