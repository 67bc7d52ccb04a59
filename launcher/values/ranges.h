/* SPDX-License-Identifier: MIT */
/* ranges.h - sets of small numbers as text, "0-3,8-11": CPUs, NUMA nodes and instances. */
#ifndef LAUNCHER_RANGES_H
#define LAUNCHER_RANGES_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include <plenum/error.h>

/** Bits per word of a set. The layout is the kernel's, as in sched_setaffinity(2). */
#define RANGES_WORD_BITS (sizeof(unsigned long) * CHAR_BIT)
#define RANGES_WORDS(count) (((count) + RANGES_WORD_BITS - 1) / RANGES_WORD_BITS)

static inline bool ranges_has(const unsigned long *words, size_t n)
{
    return words[n / RANGES_WORD_BITS] >> n % RANGES_WORD_BITS & 1;
}

static inline void ranges_add(unsigned long *words, size_t n)
{
    words[n / RANGES_WORD_BITS] |= 1UL << n % RANGES_WORD_BITS;
}

/**
 * Set the bits listed in `text` in `words`, a set of `count` numbers; other bits are kept.
 *
 * Errors: -EINVAL if it is not a list of numbers and ranges; -ERANGE if a number is `count` or
 * more. "" is an empty set.
 */
int ranges_parse(const char *text, unsigned long *words, size_t count, struct plenum_error *err);

/** Returns the shortest text for a set. Owned by the caller; NULL if out of memory. */
char *ranges_format(const unsigned long *words, size_t count);

/** Returns the number of elements in the set. */
size_t ranges_count(const unsigned long *words, size_t count);

#endif
