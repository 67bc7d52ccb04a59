/* SPDX-License-Identifier: MIT */
/* loops.c - bench/loops: runs one loop, from one of the sets of loops, a given number of times; for
 * bench/instructions.
 *
 *     bench/loops                     lists the loops for this processor: set, loop, units, unit
 *     bench/loops SET LOOP TIMES
 *
 * With arguments, it prints nothing: bench/instructions counts its instructions. Samples and
 * coefficients are pseudo-random and always the same; in each block a quarter of the coefficients
 * are not zero. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/data/crc32c.h"
#include "common/order/philox.h"
#include "common/util/util.h"
#include "loader/image/jpeg/jpeg_pixels.h"
#include "loader/image/resize/resize_kernels.h"

enum { BLOCKS = 64, SAMPLES = 512, SIDE = 448, OUT = 224, BYTES = 4096 };

/* Input and output of the loops. */
static uint8_t planes[3][SAMPLES + 2 * JPEG_PAD], pixels[SAMPLES * 4 + JPEG_PAD * 4];
static uint8_t image[SIDE][SIDE][4], result[OUT][OUT][3], samples[8][8 * BLOCKS];
static int16_t coef[BLOCKS][JPEG_COEF_ROOM] __attribute__((aligned(64))), quant[64];
static struct jpeg_block blocks[BLOCKS];
static struct jpeg_huff huff __attribute__((aligned(64)));
static const uint8_t *const rows[3] = {planes[0], planes[1], planes[2]};

static void fill(void *to, size_t bytes)
{
    uint8_t *p = to;

    for (size_t i = 0; i < bytes; i++)
        p[i] = (uint8_t)philox_draw(1, (uint32_t)(i / 4), 0, DRAW_SEED, 0).word[i % 4];
}

static void make_input(void)
{
    fill(planes, sizeof(planes));
    fill(image, sizeof(image));
    for (uint32_t i = 0; i < 64; i++)
        quant[i] = (int16_t)(1 + i / 4);
    for (uint32_t b = 0; b < BLOCKS; b++) {
        for (uint32_t i = 0; i < 64; i++) {
            struct philox_block d = philox_draw(2, i, b, DRAW_SEED, 0);

            coef[b][i] = (int16_t)(d.word[0] % 4 == 0 ? (int32_t)(d.word[1] % 41) - 20 : 0);
        }
        blocks[b] = (struct jpeg_block){coef[b], quant, &samples[0][8 * b], sizeof(samples[0])};
    }
    for (uint32_t i = 0; i < JPEG_LOOKS; i++) { /* 4-bit codes, values of up to 7 bits */
        uint32_t size = i >> 8 & 7;

        huff.one[i] = (4 + size) | 1U << 8 | 4U << 16 | size << 24;
    }
}

static void do_idct(const struct jpeg_kernels *k)
{
    k->idct(blocks, BLOCKS);
}

static void do_h2v1(const struct jpeg_kernels *k)
{
    k->h2v1(planes[0] + 1, SAMPLES, pixels);
}

static void do_h2v2(const struct jpeg_kernels *k)
{
    k->h2v2(planes[0] + 1, planes[1] + 1, SAMPLES, pixels);
}

static void do_h1v2(const struct jpeg_kernels *k)
{
    k->h1v2(planes[0], planes[1], 1, SAMPLES, pixels);
}

static void do_ycc(const struct jpeg_kernels *k)
{
    k->ycc(rows, SAMPLES, pixels);
}

static void do_rgb(const struct jpeg_kernels *k)
{
    k->rgb(rows, SAMPLES, pixels);
}

static void do_grey(const struct jpeg_kernels *k)
{
    k->grey(rows, SAMPLES, pixels);
}

static void do_tables(const struct jpeg_kernels *k)
{
    k->fill(&huff);
}

static const struct {
    const char *name;
    void (*run)(const struct jpeg_kernels *kernels);
    uint32_t units;
    const char *unit;
} jpeg_loops[] = {
    {"idct", do_idct, BLOCKS, "block"},       {"h2v1", do_h2v1, 2 * SAMPLES, "sample"},
    {"h2v2", do_h2v2, 2 * SAMPLES, "sample"}, {"h1v2", do_h1v2, SAMPLES, "sample"},
    {"ycc", do_ycc, SAMPLES, "pixel"},        {"rgb", do_rgb, SAMPLES, "pixel"},
    {"grey", do_grey, SAMPLES, "pixel"},      {"tables", do_tables, JPEG_LOOKS, "entry"},
};

/* Run a whole resize to half size; only the first one builds tables. */
static void run_resize(const struct resize_kernels *kernels, uint64_t times)
{
    const struct image_store store = {PLENUM_UINT8, PLENUM_NHWC, 3};
    const struct crop crop = {
        .box = {0, 0, SIDE, SIDE}, .width = OUT, .height = OUT, .window = {0, 0, OUT, OUT}};
    struct resize *r;
    struct rect needed;

    if (resize_create(&r) < 0)
        exit(1);
    resize_use(r, kernels);
    for (uint64_t i = 0; i < times; i++) {
        if (resize_begin(r, &crop, 4, &store, result, &needed) < 0)
            exit(1);
        resize_push(r, &image[needed.top][needed.left][0], sizeof(image[0]), needed.height);
    }
    resize_destroy(r);
}

static void list(void)
{
    for (size_t k = 0; resize_kernels[k]; k++)
        if (resize_kernels[k]->usable())
            printf("%s resize %d pixel\n", resize_kernels[k]->name, OUT * OUT);
    for (size_t k = 0; jpeg_kernels[k]; k++)
        for (size_t i = 0; jpeg_kernels[k]->usable() && i < ARRAY_LEN(jpeg_loops); i++)
            printf("%s %s %u %s\n", jpeg_kernels[k]->name, jpeg_loops[i].name, jpeg_loops[i].units,
                   jpeg_loops[i].unit);
    printf("best crc32c %d byte\nportable crc32c %d byte\n", BYTES, BYTES);
}

static bool run(const char *set, const char *loop, uint64_t times)
{
    uint32_t crc = 0;

    for (size_t k = 0; resize_kernels[k]; k++)
        if (strcmp(loop, "resize") == 0 && strcmp(set, resize_kernels[k]->name) == 0) {
            run_resize(resize_kernels[k], times);
            return true;
        }
    for (size_t k = 0; jpeg_kernels[k]; k++)
        for (size_t i = 0; i < ARRAY_LEN(jpeg_loops); i++) {
            if (strcmp(loop, jpeg_loops[i].name) != 0 || strcmp(set, jpeg_kernels[k]->name) != 0)
                continue;
            while (times-- > 0)
                jpeg_loops[i].run(jpeg_kernels[k]);
            return true;
        }
    if (strcmp(loop, "crc32c") != 0)
        return false;
    while (times-- > 0)
        crc = strcmp(set, "portable") == 0 ? crc32c_portable(crc, image, BYTES)
                                           : crc32c(crc, image, BYTES);
    return true;
}

int main(int argc, char **argv)
{
    uint64_t times;

    if (argc == 1) {
        list();
        return 0;
    }
    make_input();
    if (argc == 4 && parse_u64(argv[3], UINT32_MAX, &times) == 0 && run(argv[1], argv[2], times))
        return 0;
    fprintf(stderr, "usage: loops [SET LOOP TIMES]; without arguments, it lists the loops\n");
    return 2;
}
