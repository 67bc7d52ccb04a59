/* SPDX-License-Identifier: MIT */
/* pattern.h - expands the names of many files: braces, as in shells and WebDataset, and globs. */
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

/** Returns whether a string contains anything that would be expanded. */
bool pattern_is_magic(const char *text);

/** Append a path, and take ownership of it. Returns 0, or -ENOMEM, also if `path` is NULL. */
int pattern_list_add(struct pattern_list *list, char *path);

struct scope;

/**
 * Expand a pattern in a folder. The folder's own name is not expanded.
 *
 * {a,b,c} expands to each of these, in this order; {000..146} to each number, {a..e} to each
 * letter, {0..9..3} in steps of 3. If one end begins with 0, numbers are padded to the length of
 * the longer end. Braces nest. Then a path with *, ? or [ is replaced by the matching files, in
 * byte order. A path that exists as written expands only to itself.
 *
 * Errors: -ENOENT a part with *, ? or [ has no match; -E2BIG more than PATTERN_PATHS_MAX; -EINVAL
 * an invalid range, or ".." after a part that is expanded; -EACCES a folder that has to be listed
 * is not below a root of the scope; others of the file system; -ENOMEM.
 */
int pattern_expand(const struct scope *scope, const char *folder, const char *pattern,
                   struct pattern_list *ret, struct plenum_error *err);

/** Expands one pattern that has *, ? or [ but no braces, and appends the names to `ret`. Returns 0
 * or -errno. */
typedef int pattern_glob(void *arg, const char *pattern, struct pattern_list *ret,
                         struct plenum_error *err);

/** Like pattern_expand(), for names that are not paths of files: `glob` finds the matching names,
 * and existence is not checked. */
int pattern_expand_names(const char *folder, const char *pattern, pattern_glob *glob, void *arg,
                         struct pattern_list *ret, struct plenum_error *err);

#endif
