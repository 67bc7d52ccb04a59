/* SPDX-License-Identifier: MIT */
/* program.h - what users call the program that runs in a process. */
#ifndef COMMON_PROGRAM_H
#define COMMON_PROGRAM_H

#include <stddef.h>

/**
 * The name of the program with these words, each with its NUL, as in /proc/PID/cmdline: that of the
 * file without its folder, and of the script or module where the file is Python.
 *
 * At most `size` - 1 bytes; "" without a word.
 */
void program_name_of(const char *words, size_t len, char *ret, size_t size);

/** The name of this process's program, or "" where /proc does not tell. */
void program_name(char *ret, size_t size);

#endif
