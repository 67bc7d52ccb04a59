/* SPDX-License-Identifier: MIT */
/* png_depth.h - detects PNGs with 16 bits per channel. Images show only the upper 8 bits. */
#ifndef COMMON_PNG_DEPTH_H
#define COMMON_PNG_DEPTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline bool png_is_deep(const uint8_t *bytes, size_t len)
{
    return len > 24 && memcmp(bytes, "\x89PNG\r\n\x1A\n\0\0\0\rIHDR", 16) == 0 && bytes[24] == 16;
}

#endif
