/* SPDX-License-Identifier: MIT */
/* tap.h - prints TAP in programs with a plain main(). These run under ThreadSanitizer, which
 * Criterion's forks would disturb. */
#ifndef TESTS_TAP_H
#define TESTS_TAP_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static int tap_count, tap_failed;

/** Print one result in TAP; `why` states what must be true. */
__attribute__((format(printf, 2, 3), unused)) static void tap_ok(bool ok, const char *why, ...)
{
    va_list args;

    printf("%sok %d - ", ok ? "" : "not ", ++tap_count);
    va_start(args, why);
    (void)vprintf(why, args);
    va_end(args);
    printf("\n");
    (void)fflush(stdout);
    tap_failed += !ok;
}

__attribute__((unused)) static int tap_end(void)
{
    printf("1..%d\n", tap_count);
    return tap_failed ? 1 : 0;
}

__attribute__((unused, noreturn)) static void tap_skip_all(const char *why)
{
    printf("1..0 # SKIP %s\n", why);
    exit(0);
}

#endif
