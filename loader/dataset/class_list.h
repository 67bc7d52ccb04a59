/* SPDX-License-Identifier: MIT */
/* class_list.h - the classes of "classes=FILE", "classes=FOLDER" and "classes=numbers". */
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

/** Constant once it is made. */
struct class_list {
    bool numbers;       /* names are the numbers of their classes; the rest is empty */
    char *path;         /* of the file or folder: absolute, without links */
    char *text;         /* that the names lie in */
    const char **names; /* [count]; "": the class has no name */
    uint32_t *sorted;   /* [count]: class numbers, in the byte order of their names */
    uint32_t count;
    struct class_numeral *numerals; /* [num_numerals]: names that are integers, by value */
    uint32_t num_numerals;
    bool has_numerals; /* some name is a number: then a label that is one is a name, too */
    uint64_t hash;     /* of the names, in their order */
};

/**
 * Read the classes that `value` names: a file with a name in each line, a folder whose sub-folders
 * are classes, in byte order, or the word "numbers".
 *
 * Errors: -EBADMSG with a sentence: no names, too many, or a name that is there twice; an -errno of
 * scope_open(); -ENOMEM.
 */
int class_list_open(const struct scope *scope, const char *value, struct class_list **ret,
                    struct plenum_error *err);
/** NULL is ignored. */
void class_list_destroy(struct class_list *list);

/** The number of the class with this name, or -1. */
int64_t class_list_find(const struct class_list *list, const char *name, size_t len);

/** The classes whose names are integers of this value, however they are spelled: how many, and the
 * first of them, behind which the others lie. */
size_t class_list_find_value(const struct class_list *list, int64_t value,
                             const struct class_numeral **ret);

/** The names in a text, a line each, whose ends are overwritten: 0 with `*names` [*count], malloc,
 * or -EBADMSG where a byte is 0, -E2BIG beyond `most`, or -ENOMEM. Blank lines at the end do not
 * count. */
int class_names_of_text(char *text, size_t len, uint32_t most, const char ***names,
                        uint32_t *count);

#endif
