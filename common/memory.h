/* SPDX-License-Identifier: MIT */
/* memory.h - how much memory may be taken before somebody is killed for it. */
#ifndef COMMON_MEMORY_H
#define COMMON_MEMORY_H

#include <stdint.h>

/** Bytes by a line like "VmRSS:  1234 kB" of a file in /proc: 0, or -errno where it has none. */
int memory_read(const char *path, const char *key, uint64_t *ret);

/** What limits memory most, for messages. */
struct memory_limit {
    uint64_t bytes; /* that may still be taken */
    char what[256]; /* "the machine", "control group /jobs/17" */
};

/**
 * The least of what the machine has available and what is left in each control group that this
 * process is in (version 1 and 2, all the way up). Page cache counts as available: the kernel gives
 * it up.
 */
void memory_available(struct memory_limit *ret);

/** How many processes the out-of-memory killer has killed: in the control group of this process and
 * those below it, or on the machine where no group counts. What matters is whether it grows. */
uint64_t memory_count_kills(void);

#endif
