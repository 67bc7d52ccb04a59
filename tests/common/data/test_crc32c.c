/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/data/crc32c.h"

/* The examples of RFC 3720, B.4, and the check value of CRC catalogues. */
Test(crc32c, gives_the_published_answers)
{
    static const uint8_t read_pdu[48] = {0x01, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,    0, 0, 0, 0,
                                         0x14, 0,    0, 0, 0, 0, 4, 0, 0, 0, 0, 0x14, 0, 0, 0, 0x18,
                                         0x28, 0,    0, 0, 0, 0, 0, 0, 2, 0, 0, 0,    0, 0, 0, 0};
    uint8_t bytes[32];

    cr_expect(eq(u32, crc32c(0, "123456789", 9), 0xe3069283));
    cr_expect(eq(u32, crc32c(0, "", 0), 0));
    memset(bytes, 0, 32);
    cr_expect(eq(u32, crc32c(0, bytes, 32), 0x8a9136aa));
    memset(bytes, 0xff, 32);
    cr_expect(eq(u32, crc32c(0, bytes, 32), 0x62a8ab43));
    for (int i = 0; i < 32; i++)
        bytes[i] = (uint8_t)i;
    cr_expect(eq(u32, crc32c(0, bytes, 32), 0x46dd794e));
    for (int i = 0; i < 32; i++)
        bytes[i] = (uint8_t)(31 - i);
    cr_expect(eq(u32, crc32c(0, bytes, 32), 0x113fdb5c));
    cr_expect(eq(u32, crc32c(0, read_pdu, 48), 0xd9963a56));
}

/* Computes the checksum one bit at a time, as it is defined. */
static uint32_t slow(const uint8_t *p, size_t len)
{
    uint32_t crc = 0xffffffff;

    for (size_t i = 0; i < len; i++)
        for (int bit = 0; bit < 8; bit++) {
            uint32_t one = (crc ^ (uint32_t)(p[i] >> bit)) & 1;

            crc = crc >> 1 ^ (one ? 0x82F63B78 : 0);
        }
    return ~crc;
}

Test(crc32c, both_loops_agree_with_the_definition_at_all_lengths_offsets_and_splits)
{
    uint8_t bytes[300];

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * i * 31 + i);
    for (size_t at = 0; at < 9; at++)
        for (size_t len = 0; at + len <= sizeof(bytes); len++) {
            uint32_t want = slow(bytes + at, len);
            size_t cut = len / 3;

            cr_assert(eq(u32, crc32c(0, bytes + at, len), want));
            cr_assert(eq(u32, crc32c_portable(0, bytes + at, len), want));
            cr_assert(
                eq(u32, crc32c(crc32c(0, bytes + at, cut), bytes + at + cut, len - cut), want));
        }
}
