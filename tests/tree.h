/* SPDX-License-Identifier: MIT */
/* tree.h - makes a temporary folder for a test, fills it, and removes it at the end. */
#ifndef TESTS_TREE_H
#define TESTS_TREE_H

#include <stddef.h>

struct tree {
    char root[64];
};

/** Create a temporary folder under $TMPDIR or /tmp, and set PLENUM_CACHE_DIR to its subfolder for
 *  indices. */
void tree_init(struct tree *tree);
void tree_fini(struct tree *tree);
/** Returns "root/name", which is valid until the eighth call after this one. */
const char *tree_path(const struct tree *tree, const char *name);
/** Write a file, creating the folders above it. */
void tree_write(const struct tree *tree, const char *name, const void *bytes, size_t len);
void tree_write_text(const struct tree *tree, const char *name, const char *text);
/** Write a JPEG in colour whose pixels depend on `number`. */
void tree_write_jpeg(const struct tree *tree, const char *name, unsigned width, unsigned height,
                     unsigned number);

#endif
