/* SPDX-License-Identifier: MIT */
/* prove_exif.c - reads the orientation from any TIFF block, of every length up to the buffer's. */
#include "__fc_builtin.h"

#include "loader/image/exif.h"

enum { BLOCK = 128 };

static uint8_t block[BLOCK];

int main(void)
{
    Frama_C_make_unknown((char *)block, sizeof(block));
    /*@ loop unroll BLOCK + 1; */
    for (int len = 0; len <= BLOCK; len++)
        (void)exif_of_tiff(block + BLOCK - len, (size_t)len);
    return 0;
}
