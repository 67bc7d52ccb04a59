/* SPDX-License-Identifier: MIT */
/* git_lfs.h - recognises the small text that git checks out in place of a file of git-lfs. */
#ifndef COMMON_GIT_LFS_H
#define COMMON_GIT_LFS_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define GIT_LFS_BEGINS "version https://git-lfs.github.com/spec/"
/** What to tell users of such a file. */
#define GIT_LFS_SENTENCE \
    "it is a pointer of git-lfs, not the file itself: 'git lfs pull' fetches it"

static inline bool git_lfs_is_pointer(const void *bytes, size_t len)
{
    return len >= sizeof(GIT_LFS_BEGINS) - 1 &&
           memcmp(bytes, GIT_LFS_BEGINS, sizeof(GIT_LFS_BEGINS) - 1) == 0;
}

#endif
