/* SPDX-License-Identifier: MIT */
/* grid.h - text in columns. */
#ifndef LAUNCHER_GRID_H
#define LAUNCHER_GRID_H

#include <stddef.h>

enum { GRID_COLUMNS_MAX = 12 };

/** Cells, row by row. {.columns = n}: empty. */
struct grid {
    size_t columns;
    char **cells; /* owned; NULL: memory was short */
    size_t count, cap;
};

void grid_fini(struct grid *grid);
/** The next cell; `text` is taken, NULL is an empty one. What would be a command to the terminal
 * becomes '?': cells hold what other hosts and files say. */
void grid_take(struct grid *grid, char *text);
/** The same, with a text that is copied. */
void grid_add(struct grid *grid, const char *text);
/** A row of names, ended by NULL; sets the number of columns. */
void grid_add_header(struct grid *grid, const char *const *names);

/** Lines with columns as wide as their widest cell, each behind `indent` blanks, nothing behind a
 * row's last cell. Owned by the caller; NULL when memory is short. */
char *grid_format(const struct grid *grid, unsigned indent);

#endif
