/* SPDX-License-Identifier: MIT */
/* crc32c.c - uses the CPU's instruction if there is one, otherwise tables, eight bytes per step.
 *
 * The tables are computed on first use: 8 KiB, from the polynomial alone. */
#include "config.h"

#include "common/data/crc32c.h"

#include <pthread.h>
#include <string.h>

#ifdef __aarch64__
#include <sys/auxv.h>
#endif

#include "common/data/crc_tables.h"

static struct crc_tables tables;
static pthread_once_t made = PTHREAD_ONCE_INIT;

static void make_tables(void)
{
    crc_tables_make(&tables, 0x82F63B78); /* 0x1EDC6F41, bits reversed */
}

uint32_t crc32c_portable(uint32_t crc, const void *bytes, size_t len)
{
    (void)pthread_once(&made, make_tables);
    return ~crc_tables_add(&tables, ~crc, bytes, len);
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t crc32c_sse42(uint32_t crc, const void *bytes,
                                                               size_t len)
{
    const uint8_t *p = bytes;
    uint64_t sum = ~crc;

    for (; len >= 8; p += 8, len -= 8) {
        uint64_t word;

        memcpy(&word, p, 8);
        sum = __builtin_ia32_crc32di(sum, word);
    }
    for (; len > 0; p++, len--)
        sum = __builtin_ia32_crc32qi((uint32_t)sum, *p);
    return ~(uint32_t)sum;
}

uint32_t crc32c(uint32_t crc, const void *bytes, size_t len)
{
    if (__builtin_cpu_supports("sse4.2"))
        return crc32c_sse42(crc, bytes, len);
    return crc32c_portable(crc, bytes, len);
}
#elif defined(__aarch64__)
/* Compute the checksum with Arm's CRC instructions, which are optional in Armv8.0 and mandatory
 * from 8.1 on. Written in assembler, because compilers differ in how a function enables them. */
static uint32_t crc32c_arm(uint32_t crc, const void *bytes, size_t len)
{
    const uint8_t *p = bytes;
    uint32_t sum = ~crc;

    for (; len >= 8; p += 8, len -= 8) {
        uint64_t word;

        memcpy(&word, p, 8);
        __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(sum) : "r"(word));
    }
    for (; len > 0; p++, len--)
        __asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(sum) : "r"((uint32_t)*p));
    return ~sum;
}

uint32_t crc32c(uint32_t crc, const void *bytes, size_t len)
{
    const unsigned long hwcap_crc32 = 1UL << 7; /* HWCAP_CRC32 of Linux's <asm/hwcap.h> */

    if (getauxval(AT_HWCAP) & hwcap_crc32)
        return crc32c_arm(crc, bytes, len);
    return crc32c_portable(crc, bytes, len);
}
#else
uint32_t crc32c(uint32_t crc, const void *bytes, size_t len)
{
    return crc32c_portable(crc, bytes, len);
}
#endif
