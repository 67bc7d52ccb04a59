/* SPDX-License-Identifier: MIT */
/* class_list.h - reads the classes of "classes=FILE", "classes=FOLDER" and "classes=numbers". */
#ifndef LOADER_DATASET_CLASS_LIST_H
#define LOADER_DATASET_CLASS_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

#include "loader/dataset/scope.h"

enum { CLASS_LIST_MAX = 1 << 20 }; /* classes */

/** A class whose name is an integer. */
struct class_numeral {
    int64_t value;
    uint32_t class;
};

/** Constant once created. */
struct class_list {
    bool numbers;       /* classes=numbers: all other fields are empty */
    char *path;         /* the file or folder: absolute, without links */
    char *text;         /* holds the names */
    const char **names; /* [count]; "": a class without a name */
    uint32_t *sorted;   /* [count]: class numbers, by their names in byte order */
    uint32_t count;
    struct class_numeral *numerals; /* [num_numerals]: names that are integers, by value */
    uint32_t num_numerals;
    bool has_numerals; /* some names are numbers, so a number may be a class's name */
    uint64_t hash;     /* hash of the names, in order */
};

/**
 * Read the classes that `value` names: a file with one name per line, a folder whose sub-folders
 * are the classes, in byte order, or the word "numbers".
 *
 * Errors: -EBADMSG with `err` set: no names, too many, or a duplicate name; an -errno of
 * scope_open(); -ENOMEM.
 */
int class_list_open(const struct scope *scope, const char *value, struct class_list **ret,
                    struct plenum_error *err);
/** NULL is ignored. */
void class_list_destroy(struct class_list *list);

/** Returns the number of the class with this name, or -1. */
int64_t class_list_find(const struct class_list *list, const char *name, size_t len);

/** Find the classes whose names are integers with this value, in any spelling. Returns their
 * number; `*ret` points to the first of them. */
size_t class_list_find_value(const struct class_list *list, int64_t value,
                             const struct class_numeral **ret);

/** Split a string into names, one per line; line ends are overwritten, and blank lines at the end
 * are ignored. Returns 0 with `*names` [*count] (malloc); -EBADMSG if the string contains a NUL;
 * -E2BIG if there are more than `most` names; or -ENOMEM. */
int class_names_of_text(char *text, size_t len, uint32_t most, const char ***names,
                        uint32_t *count);

#endif
