/* SPDX-License-Identifier: MIT */
/* static.h - facts about the C library that the analyzers of scripts/static cannot know; no program
 * includes it. */
#include "config.h" /* _GNU_SOURCE comes first */

#include <errno.h>

/* A failed call has set errno, so `return -errno` never means success. */
static inline int *errno_of_failure(void)
{
    int *error = __errno_location();

    if (*error <= 0)
        __builtin_unreachable();
    return error;
}
#undef errno
#define errno (*errno_of_failure())
