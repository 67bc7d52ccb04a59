/* SPDX-License-Identifier: MIT */
/* module.h - modules that are loaded on demand, because their dependencies are not installed
 * everywhere. */
#ifndef COMMON_MODULE_H
#define COMMON_MODULE_H

#include <stdbool.h>
#include <stddef.h>

#include <plenum/error.h>

/**
 * Write the path of the library or program that contains this code; `*library` is true for the
 * library. Returns the length of its folder's name, or 0 if it is unknown.
 */
size_t module_own_folder(char *ret, size_t size, bool *library);

/**
 * Load the module `file`, such as "libplenum-mpi.so", which stays loaded, and return its `symbol`.
 * It is looked for next to the library or program that contains this code, in the configured
 * folder, and on the linker's path. NULL with a message.
 */
const void *module_load(const char *file, const char *symbol, struct plenum_error *err);

#endif
