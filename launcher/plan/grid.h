/* SPDX-License-Identifier: MIT */
/* grid.h - text in columns. */
#ifndef LAUNCHER_GRID_H
#define LAUNCHER_GRID_H

#include <stddef.h>

enum { GRID_COLUMNS_MAX = 12 };

/** Cells, row by row. {.columns = n} is an empty grid. */
struct grid {
    size_t columns;
    char **cells; /* owned; NULL: allocation failed */
    size_t count, cap;
};

void grid_fini(struct grid *grid);
/** Append a cell. Takes `text`; NULL is an empty cell. Terminal control characters become '?',
 * because cells contain text from other hosts and files. */
void grid_take(struct grid *grid, char *text);
/** Like grid_take(), but copies the text. */
void grid_add(struct grid *grid, const char *text);
/** Append a row of names, terminated by NULL; sets the number of columns. */
void grid_add_header(struct grid *grid, const char *const *names);

/** Format lines with columns as wide as their widest cell, each line indented by `indent` spaces,
 * without trailing spaces. Owned by the caller; NULL if out of memory. */
char *grid_format(const struct grid *grid, unsigned indent);

#endif
