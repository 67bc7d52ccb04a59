/* SPDX-License-Identifier: MIT */
/* git_lfs.h - recognises the small text file that git checks out instead of a git-lfs file. */
#ifndef COMMON_GIT_LFS_H
#define COMMON_GIT_LFS_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <plenum/error.h>

#define GIT_LFS_BEGINS "version https://git-lfs.github.com/spec/"

static inline bool git_lfs_is_pointer(const void *bytes, size_t len)
{
    return len >= sizeof(GIT_LFS_BEGINS) - 1 &&
           memcmp(bytes, GIT_LFS_BEGINS, sizeof(GIT_LFS_BEGINS) - 1) == 0;
}

/** Write the message about such a file; returns `code`. */
int git_lfs_refuse(int code, struct plenum_error *err);

#endif
