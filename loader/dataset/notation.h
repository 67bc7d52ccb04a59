/* notation.h - many files by one name: "train-{0000..0146}.tar", "train-*-of-01024". */
#ifndef LOADER_DATASET_NOTATION_H
#define LOADER_DATASET_NOTATION_H

#include <stdbool.h>
#include <stdint.h>

#include <plenum/error.h>

/** Paths in the order in which they count. Starts as zeros. */
struct notation_paths {
    char **paths; /* owned, and each */
    uint32_t count, cap;
};

enum { NOTATION_MAX = 1 << 20 }; /* paths that one name may stand for */

/**
 * Braces of a text, spelled out in the order in which they are written: "{a,b}" and ranges
 * "{000..146}", "{9..0}", "{0..100..10}", whose numbers have as many digits as the longer end
 * where one of them begins with 0. They may lie within each other. Nothing is looked up, so the
 * result is the same on every host. A brace that is no list and no range stays as it is.
 *
 * 0; -EINVAL a brace is not closed, or a text of more than NOTATION_MAX paths; -ENOMEM.
 */
int notation_braces(const char *text, struct notation_paths *ret, struct plenum_error *err);

/** Does the text hold '*', '?' or '['? */
bool notation_is_glob(const char *text);

/**
 * The files that a name stands for: a file of just this name; or braces spelled out, and each
 * result with '*', '?' or '[' matched against what lies there, in byte order.
 *
 * What holds no '*' is not looked up, so that a part of the files may be missing here.
 * 0; -ENOENT a pattern that matches nothing; -EINVAL, also when a path comes twice; -ENOMEM, -EIO.
 */
int notation_expand(const char *text, struct notation_paths *ret, struct plenum_error *err);

void notation_paths_fini(struct notation_paths *paths);

#endif
