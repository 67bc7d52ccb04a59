/* SPDX-License-Identifier: MIT */
/* crc32c.h - CRC-32C (Castagnoli), as iSCSI, ext4 and TFRecord files use it. */
#ifndef COMMON_CRC32C_H
#define COMMON_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/** The CRC of bytes that follow those whose CRC is `crc`; begin with 0. Threads: any. */
uint32_t crc32c(uint32_t crc, const void *bytes, size_t len);

/** The same without the processor's instruction: for tests, and for other processors. */
uint32_t crc32c_portable(uint32_t crc, const void *bytes, size_t len);

#endif
