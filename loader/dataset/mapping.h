/* SPDX-License-Identifier: MIT */
/* mapping.h - copies bytes of small samples from a mapped file.
 *
 * pread() of a sample of 3 KiB costs three times as much as the copy of its bytes. A mapping costs
 * page tables, and the kernel sends SIGBUS where a page cannot be had: the file was cut, or storage
 * failed. mapping_copy() catches that. */
#ifndef LOADER_DATASET_MAPPING_H
#define LOADER_DATASET_MAPPING_H

#include <stddef.h>
#include <stdint.h>

/** The first `size` bytes of a file, for mapping_copy() alone; NULL: it cannot be mapped, the
 * process has mapped much, or its address space has a limit. */
const uint8_t *mapping_open(int fd, size_t size);
void mapping_close(const uint8_t *mapping, size_t size);

/**
 * Copy bytes of a mapping: 0, or -EIO when the kernel does not have all of them. Threads: any; the
 * thread must not block SIGBUS.
 */
int mapping_copy(void *dst, const uint8_t *from, size_t len);

#endif
