/* SPDX-License-Identifier: MIT */
/* crc_tables.h - a reflected 32-bit CRC from tables, eight bytes per step, for any polynomial. */
#ifndef COMMON_CRC_TABLES_H
#define COMMON_CRC_TABLES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/** of[k][b] is the CRC of byte b followed by k zero bytes. 8 KiB. */
struct crc_tables {
    uint32_t of[8][256];
};

/** Compute the tables for a polynomial, whose bits are given in reverse order. */
static inline void crc_tables_make(struct crc_tables *t, uint32_t polynomial)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t crc = b;

        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? polynomial : 0);
        t->of[0][b] = crc;
    }
    for (uint32_t b = 0; b < 256; b++)
        for (int k = 1; k < 8; k++)
            t->of[k][b] = t->of[k - 1][b] >> 8 ^ t->of[0][t->of[k - 1][b] & 0xff];
}

/** Process bytes. A state is the complement of the CRC so far. Returns the next state. */
static inline uint32_t crc_tables_add(const struct crc_tables *t, uint32_t state, const void *bytes,
                                      size_t len)
{
    const uint8_t *p = bytes;

    for (; len >= 8; p += 8, len -= 8) {
        uint32_t low, high;

        memcpy(&low, p, 4);
        memcpy(&high, p + 4, 4);
        low ^= state;
        state = t->of[7][low & 0xff] ^ t->of[6][low >> 8 & 0xff] ^ t->of[5][low >> 16 & 0xff] ^
                t->of[4][low >> 24] ^ t->of[3][high & 0xff] ^ t->of[2][high >> 8 & 0xff] ^
                t->of[1][high >> 16 & 0xff] ^ t->of[0][high >> 24];
    }
    for (; len > 0; p++, len--)
        state = state >> 8 ^ t->of[0][(state ^ *p) & 0xff];
    return state;
}

#endif
