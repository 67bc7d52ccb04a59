/* SPDX-License-Identifier: MIT */
/* stand_in.h - recognises small texts that were stored under a file's name instead of the file:
 * git-lfs's pointers, and servers' error pages. */
#ifndef COMMON_STAND_IN_H
#define COMMON_STAND_IN_H

#include <stddef.h>

#include <plenum/error.h>

enum { STAND_IN_HEAD = 256 }; /* bytes at the beginning of a file that are checked */

/**
 * Returns `code`, with a message, if the file is a stand-in, otherwise 0. Bytes after the first
 * STAND_IN_HEAD are not read. A list that begins like a web page has no valid first line.
 */
int stand_in_refuse(const void *bytes, size_t len, int code, struct plenum_error *err);

#endif
