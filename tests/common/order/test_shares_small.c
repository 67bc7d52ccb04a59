/* SPDX-License-Identifier: MIT */
/* Tests shares with phases of 8 bits, where every case can be tried.
 *
 * common/order/shares.c is compiled with narrower phases, so that what happens near 2^32 happens
 * near 2^8: every edge, every shift, every block number up to twice the period. The results are
 * checked by counting.
 */
#include "config.h"

#include <stdio.h>

#define SHARES_BITS 8
#include "common/order/shares.c"

#include "tests/tap.h"

/* Returns whether the formula for the number of high phases agrees with counting them, for every f
 * and b under this shift. */
static bool counts_right(uint32_t shift)
{
    for (uint32_t f = 0; f < 256; f++) {
        uint64_t seen = 0;

        for (uint64_t b = 0; b <= 512; b++) {
            if (count_high(b, f, shift) != seen) {
                printf("# shift %u, f %u: %llu before block %llu, not %llu\n", shift, f,
                       (unsigned long long)count_high(b, f, shift), (unsigned long long)b,
                       (unsigned long long)seen);
                return false;
            }
            seen += shares_phase(b, shift) >= 256 - f;
        }
    }
    return true;
}

/* Returns whether every arc of the circle has its share of each aligned group of 2^k phases, within
 * one. */
static bool groups_are_even(uint32_t shift)
{
    for (uint32_t f = 0; f < 256; f++)
        for (uint64_t len = 1; len <= 256; len *= 2)
            for (uint64_t b = 0; b < 256; b += len) {
                uint64_t n = count_high(b + len, f, shift) - count_high(b, f, shift);

                if (n * 256 + 255 < len * f || n * 256 > len * f + 255)
                    return false;
            }
    return true;
}

int main(void)
{
    bool counts = true, even = true;

    for (uint32_t shift = 0; shift < 256; shift++) {
        counts = counts && counts_right(shift);
        even = even && groups_are_even(shift);
    }
    tap_ok(counts, "prefixes agree with counting, for every edge, shift and block");
    tap_ok(even, "aligned groups are within one of their share");
    return tap_end();
}
