/* SPDX-License-Identifier: MIT */
/* program.h - the name by which users know the program that runs in a process. */
#ifndef COMMON_PROGRAM_H
#define COMMON_PROGRAM_H

#include <stddef.h>

/**
 * Write the name of a program from the words of its command line, each with its NUL, as in
 * /proc/PID/cmdline: the name of the file without its folder or, if that is Python, of the script
 * or module. At most `size` - 1 bytes; "" if there are no words.
 */
void program_name_of(const char *words, size_t len, char *ret, size_t size);

/** Write the name of this process's program, or "" if /proc does not show it. */
void program_name(char *ret, size_t size);

#endif
