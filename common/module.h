/* SPDX-License-Identifier: MIT */
/* module.h - parts of ours that are loaded when they are needed, as what they need is not
 * everywhere. */
#ifndef COMMON_MODULE_H
#define COMMON_MODULE_H

#include <stdbool.h>
#include <stddef.h>

#include <plenum/error.h>

/**
 * The path of the library or program that this code is in, and which of the two: the length of its
 * folder, 0 when it is not known.
 */
size_t module_own_folder(char *ret, size_t size, bool *library);

/**
 * What a module of this name ("libplenum-mpi.so") calls `symbol`; it stays loaded. It is looked for
 * beside the library or program that this code is in, in the folder that was configured, and where
 * the linker looks. NULL with a sentence.
 */
const void *module_load(const char *file, const char *symbol, struct plenum_error *err);

#endif
