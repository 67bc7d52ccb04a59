/* SPDX-License-Identifier: MIT */
/* crc32c.h - CRC-32C (Castagnoli), as used by iSCSI, ext4 and TFRecord files. */
#ifndef COMMON_CRC32C_H
#define COMMON_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/** Continue a CRC: `crc` is that of the preceding bytes; start with 0. Threads: any. */
uint32_t crc32c(uint32_t crc, const void *bytes, size_t len);

/** Like crc32c(), but does not use the CPU's instruction. For tests and other processors. */
uint32_t crc32c_portable(uint32_t crc, const void *bytes, size_t len);

#endif
