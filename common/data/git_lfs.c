/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "common/data/git_lfs.h"

#include "common/util/error_set.h"

int git_lfs_refuse(int code, struct plenum_error *err)
{
    return error_set(
        err, code,
        "it is a git-lfs pointer, not the file itself: fetch the file with 'git lfs pull'");
}
