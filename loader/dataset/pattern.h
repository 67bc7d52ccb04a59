/* SPDX-License-Identifier: MIT */
/* pattern.h - names of many files: braces, as shells and WebDataset expand them, and globs. */
#ifndef LOADER_DATASET_PATTERN_H
#define LOADER_DATASET_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

#include <plenum/error.h>

enum { PATTERN_PATHS_MAX = 1000000 };

struct pattern_list {
    char **paths; /* owned */
    size_t count, cap;
};

void pattern_list_fini(struct pattern_list *list);

/** Does a text hold anything that would be expanded? */
bool pattern_is_magic(const char *text);

/** Put a path, which is taken, at the end: 0 or -ENOMEM, also for a path of NULL. */
int pattern_list_add(struct pattern_list *list, char *path);

struct scope;

/**
 * All that a pattern in a folder stands for. The folder's own name is taken as it is.
 *
 * {a,b,c} is each of them, in this order; {000..146} each number, {a..e} each letter, by steps of
 * {0..9..3}; numbers get as many digits as the longer end has if one begins with 0. Braces nest.
 * What holds *, ? or [ afterwards is replaced by the files that match, in byte order. A path that
 * exists as it is written is only itself.
 *
 * Errors: -ENOENT a part with *, ? or [ matches nothing; -E2BIG more than PATTERN_PATHS_MAX;
 * -EINVAL a range that cannot be, or ".." behind a part that is expanded; -EACCES a folder that
 * would have to be looked into lies below none of the place's roots; -ENOMEM.
 */
int pattern_expand(const struct scope *scope, const char *folder, const char *pattern,
                   struct pattern_list *ret, struct plenum_error *err);

#endif
