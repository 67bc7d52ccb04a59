/* SPDX-License-Identifier: MIT */
/* version.h - versions of plenumrun and of all that it uses. */
#ifndef LAUNCHER_VERSION_H
#define LAUNCHER_VERSION_H

#include <stdbool.h>
#include <stddef.h>

/** Print those of all that is used to standard output, as JSON or for people; asks mpirun, ssh and
 * plenumd for theirs. An exit status. */
int version_print(bool as_json);

/** The first line that a program prints when it is called with `argument`, within `limit_ms`, to
 * standard output, or else to standard error: 0, or -ENODATA when it says nothing. */
int version_ask(const char *program, const char *argument, unsigned limit_ms, char *ret,
                size_t size);

#endif
