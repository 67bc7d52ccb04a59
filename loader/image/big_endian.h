/* SPDX-License-Identifier: MIT */
/* big_endian.h - reads numbers in the byte order of PNG and AVIF. */
#ifndef LOADER_IMAGE_BIG_ENDIAN_H
#define LOADER_IMAGE_BIG_ENDIAN_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t get_be32(const uint8_t *p)
{
    uint32_t x;

    memcpy(&x, p, 4);
    return be32toh(x);
}

#endif
