/* SPDX-License-Identifier: MIT */
/* version.h - versions of plenumrun and everything that it uses. */
#ifndef LAUNCHER_VERSION_H
#define LAUNCHER_VERSION_H

#include <stdbool.h>
#include <stddef.h>

/** Print the versions of everything in use to standard output, as JSON or for people; runs mpirun,
 * ssh and plenumd to get theirs. Returns an exit status. */
int version_print(bool as_json);

/** Run a program with `argument` and get the first line that it prints within `limit_ms`, on
 * standard output or otherwise on standard error. Returns 0, -ENODATA if it prints nothing, or
 * -errno if no process can be started. */
int version_ask(const char *program, const char *argument, unsigned limit_ms, char *ret,
                size_t size);

#endif
