/* SPDX-License-Identifier: MIT */
/* ranges.h - sets of small numbers as text: "0-3,8-11", for CPUs, NUMA nodes and instances. */
#ifndef LAUNCHER_RANGES_H
#define LAUNCHER_RANGES_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include <plenum/error.h>

/** Words of a set of `count` numbers. The layout is the kernel's, of sched_setaffinity(2). */
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
 * Set the bits that `text` names in `words`, a set of `count` numbers; the other bits stay.
 *
 * -EINVAL not a list of numbers and ranges; -ERANGE a number is `count` or more. "" names none.
 */
int ranges_parse(const char *text, unsigned long *words, size_t count, struct plenum_error *err);

/** The shortest text of a set. Owned by the caller; NULL when memory is short. */
char *ranges_format(const unsigned long *words, size_t count);

/** How many numbers are in the set. */
size_t ranges_count(const unsigned long *words, size_t count);

#endif
