/* SPDX-License-Identifier: MIT */
/* memory.h - how much memory can be allocated before the out-of-memory killer acts. */
#ifndef COMMON_MEMORY_H
#define COMMON_MEMORY_H

#include <stdint.h>

/** Read a line like "VmRSS: 1234 kB" from a file in /proc, in bytes. Returns 0, or -ENOENT if there
 * is none. */
int memory_read(const char *path, const char *key, uint64_t *ret);

/** The tightest limit on memory, for messages. */
struct memory_limit {
    uint64_t bytes; /* bytes that can still be allocated */
    char what[256]; /* "the machine", "the control group /jobs/17" */
};

/**
 * Compute the minimum of the memory that the machine has available and that each control group of
 * this process has left (versions 1 and 2, up to the top). Page cache counts as available, because
 * the kernel drops it on demand.
 */
void memory_available(struct memory_limit *ret);

/** Returns the number of processes that the out-of-memory killer has killed in this process's
 *  control group and below, or on the machine if no group counts them. Only its growth matters. */
uint64_t memory_count_kills(void);

#endif
