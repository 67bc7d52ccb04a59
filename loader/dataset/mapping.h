/* SPDX-License-Identifier: MIT */
/* mapping.h - copies bytes of small samples from a mapped file.
 *
 * pread() of a sample of 3 KiB costs three times as much as copying its bytes. A mapping costs page
 * tables, and the kernel raises SIGBUS if a page cannot be read because the file was truncated or
 * storage failed. mapping_copy() handles that. */
#ifndef LOADER_DATASET_MAPPING_H
#define LOADER_DATASET_MAPPING_H

#include <stddef.h>
#include <stdint.h>

/** Map the first `size` bytes of a file. Read them only with mapping_copy(). The first call
 * installs a handler for SIGBUS. Returns NULL if the file is empty or cannot be mapped, if the
 * process has already mapped too much, or if its address space is limited. */
const uint8_t *mapping_open(int fd, size_t size);
void mapping_close(const uint8_t *mapping, size_t size);

/**
 * Copy bytes from a mapping. Returns 0, or -EIO if the kernel cannot provide all of them. Threads:
 * any that does not block SIGBUS.
 */
int mapping_copy(void *dst, const uint8_t *from, size_t len);

#endif
