/* SPDX-License-Identifier: MIT */
/* tree.h - a temporary folder for a test, filled by calls and removed at the end. */
#ifndef TESTS_TREE_H
#define TESTS_TREE_H

#include <stddef.h>

struct tree {
    char root[64];
};

/** Create the folder below $TMPDIR or /tmp. Indices are stored in a subfolder ($PLENUM_CACHE_DIR).
 */
void tree_init(struct tree *tree);
void tree_fini(struct tree *tree);
/** "root/name", in one of several static buffers. */
const char *tree_path(const struct tree *tree, const char *name);
/** Write a file, creating the folders above it. */
void tree_write(const struct tree *tree, const char *name, const void *bytes, size_t len);
void tree_write_text(const struct tree *tree, const char *name, const char *text);
/** Write a small JPEG whose pixels depend on `number`; grey ones are smaller. */
void tree_write_jpeg(const struct tree *tree, const char *name, unsigned width, unsigned height,
                     unsigned number);

#endif
