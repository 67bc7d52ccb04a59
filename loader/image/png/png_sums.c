/* SPDX-License-Identifier: MIT */
/* png_sums.c - computes the CRC with the processor's instructions if available, otherwise with
 * tables, eight bytes per step (8 KiB, built on first use); and the Adler-32 in 16 lanes, which the
 * compiler vectorises. */
#include "config.h"

#include "loader/image/png/png_sums.h"

#include <pthread.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include "common/data/crc_tables.h"
#include "common/util/util.h"

static struct crc_tables tables;
static pthread_once_t made = PTHREAD_ONCE_INIT;

static void make_tables(void)
{
    crc_tables_make(&tables, 0xEDB88320); /* 0x04C11DB7, bits reversed */
}

/* Continue from a state, which is the complement of a CRC. */
static uint32_t crc_portable(uint32_t state, const uint8_t *bytes, size_t len)
{
    (void)pthread_once(&made, make_tables);
    return crc_tables_add(&tables, state, bytes, len);
}

uint32_t png_crc32_portable(const uint8_t *bytes, size_t len)
{
    return ~crc_portable(UINT32_MAX, bytes, len);
}

#if defined(__x86_64__)
#define CLMUL __attribute__((target("pclmul")))

CLMUL static inline __m128i load(const uint8_t *at)
{
    return _mm_loadu_si128((const __m128i *)at);
}

/* Multiply these 16 bytes by the weight of their distance, and add the bytes at that distance. */
CLMUL static inline __m128i fold(__m128i x, __m128i by, __m128i there)
{
    __m128i low = _mm_clmulepi64_si128(x, by, 0x00), high = _mm_clmulepi64_si128(x, by, 0x11);

    return _mm_xor_si128(_mm_xor_si128(low, high), there);
}

/* Compute the CRC with carry-less products: Gopal and others, "Fast CRC computation for generic
 * polynomials using PCLMULQDQ instruction", Intel, 2009. The constants are the paper's powers of x,
 * for 64 bytes and for 16. The sums are reduced to 16 bytes with the same CRC. */
CLMUL static uint32_t crc_clmul(uint32_t state, const uint8_t *bytes, size_t len)
{
    const __m128i by_64 = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4);
    const __m128i by_16 = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
    uint8_t rest[16];
    __m128i x[4];

    for (size_t i = 0; i < 4; i++)
        x[i] = load(bytes + 16 * i);
    x[0] = _mm_xor_si128(x[0], _mm_cvtsi32_si128((int)state));
    for (bytes += 64, len -= 64; len >= 64; bytes += 64, len -= 64)
        for (size_t i = 0; i < 4; i++)
            x[i] = fold(x[i], by_64, load(bytes + 16 * i));
    for (size_t i = 1; i < 4; i++)
        x[0] = fold(x[0], by_16, x[i]);
    for (; len >= 16; bytes += 16, len -= 16)
        x[0] = fold(x[0], by_16, load(bytes));
    _mm_storeu_si128((__m128i *)rest, x[0]);
    return crc_portable(crc_portable(0, rest, 16), bytes, len);
}

uint32_t png_crc32(const uint8_t *bytes, size_t len)
{
    if (len >= 64 && __builtin_cpu_supports("pclmul"))
        return ~crc_clmul(UINT32_MAX, bytes, len);
    return png_crc32_portable(bytes, len);
}
#elif defined(__aarch64__)
/* Compute the CRC with Arm's instructions, as in common/data/crc32c.c. */
static uint32_t crc_arm(uint32_t state, const uint8_t *bytes, size_t len)
{
    for (; len >= 8; bytes += 8, len -= 8) {
        uint64_t word;

        memcpy(&word, bytes, 8);
        __asm__(".arch_extension crc\n\tcrc32x %w0, %w0, %x1" : "+r"(state) : "r"(word));
    }
    for (; len > 0; bytes++, len--)
        __asm__(".arch_extension crc\n\tcrc32b %w0, %w0, %w1"
                : "+r"(state)
                : "r"((uint32_t)*bytes));
    return state;
}

uint32_t png_crc32(const uint8_t *bytes, size_t len)
{
    const unsigned long hwcap_crc32 = 1UL << 7; /* HWCAP_CRC32 of Linux's <asm/hwcap.h> */

    if (getauxval(AT_HWCAP) & hwcap_crc32)
        return ~crc_arm(UINT32_MAX, bytes, len);
    return png_crc32_portable(bytes, len);
}
#else
uint32_t png_crc32(const uint8_t *bytes, size_t len)
{
    return png_crc32_portable(bytes, len);
}
#endif

enum { LANES = 16, STEPS = 128, PRIME = 65521 };

/* Extend the two sums of an Adler-32 by LANES * steps bytes. */
static void add_steps(uint32_t *sum, uint32_t *sums, const uint8_t *bytes, uint32_t steps)
{
    uint32_t c[LANES] = {0}, d[LANES] = {0};
    uint64_t more = 0;

    for (uint32_t i = 0; i < steps; i++, bytes += LANES)
        for (int k = 0; k < LANES; k++) {
            c[k] += bytes[k];
            d[k] += c[k];
        }
    more = *sums + (uint64_t)*sum * LANES * steps;
    for (uint32_t k = 0; k < LANES; k++) {
        *sum += c[k];
        more += (uint64_t)LANES * d[k] - (uint64_t)k * c[k];
    }
    *sum %= PRIME;
    *sums = (uint32_t)(more % PRIME);
}

uint32_t png_adler32(uint32_t adler, const uint8_t *bytes, size_t len)
{
    uint32_t sum = adler & 0xFFFF, sums = adler >> 16;

    while (len >= LANES) {
        uint32_t steps = (uint32_t)min_u64(len / LANES, STEPS);

        add_steps(&sum, &sums, bytes, steps);
        bytes += (size_t)steps * LANES;
        len -= (size_t)steps * LANES;
    }
    for (; len > 0; len--) {
        sum = (sum + *bytes++) % PRIME;
        sums = (sums + sum) % PRIME;
    }
    return sums << 16 | sum;
}
