/* SPDX-License-Identifier: MIT */
/* fuzz_png.c - passes any bytes through our own PNG decoder and libpng, which must not crash and
 * must give the same decision, message and pixels.
 *
 * The first four bytes select the region, whether it is a mask, and which checksums are corrected
 * first: none, those of chunks, or also that of the compressed data. The rest is the file. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/loader/image/png/png_ways.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct png_ways *ways;
    uint32_t dice[4];
    uint8_t *file;
    char why[300];

    if (!ways)
        ways = png_ways_create();
    if (size < 5)
        return 0;
    for (uint32_t i = 0; i < 4; i++)
        dice[i] = data[i] * 0x01010101U;
    file = malloc(size - 4);
    if (!file)
        abort();
    memcpy(file, data + 4, size - 4);
    if (data[0] % 4 > 0)
        png_mend(file, size - 4, data[0] % 4 > 1);
    if (!png_ways_agree(ways, file, size - 4, data[2] % 4 > 2 ? 0 : data[2] % 4, dice, why)) {
        fprintf(stderr, "libpng disagrees: %s\n", why);
        abort();
    }
    free(file);
    return 0;
}
