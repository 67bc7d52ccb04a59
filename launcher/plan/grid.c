/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "launcher/plan/grid.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/text.h"
#include "common/util/util.h"

void grid_fini(struct grid *grid)
{
    for (size_t i = 0; i < grid->count; i++)
        free(grid->cells[i]);
    free(grid->cells);
    *grid = (struct grid){0};
}

void grid_take(struct grid *grid, char *text)
{
    if (text)
        (void)text_make_plain(text);
    if (array_grow(&grid->cells, &grid->cap, grid->count, sizeof(char *)) < 0) {
        free(text);
        return;
    }
    grid->cells[grid->count++] = text;
}

void grid_add(struct grid *grid, const char *text)
{
    grid_take(grid, strdup(text));
}

void grid_add_header(struct grid *grid, const char *const *names)
{
    for (grid->columns = 0; names[grid->columns]; grid->columns++)
        grid_add(grid, names[grid->columns]);
}

char *grid_format(const struct grid *grid, unsigned indent)
{
    size_t width[GRID_COLUMNS_MAX] = {0}, gap = indent, size = 0;
    char *text = NULL;
    FILE *file = open_memstream(&text, &size);

    if (!file)
        return NULL;
    for (size_t i = 0; i < grid->count; i++) {
        size_t len = grid->cells[i] ? strlen(grid->cells[i]) : 0;

        if (len > width[i % grid->columns])
            width[i % grid->columns] = len;
    }
    for (size_t i = 0; i < grid->count; i++) {
        size_t column = i % grid->columns, len = grid->cells[i] ? strlen(grid->cells[i]) : 0;

        if (len > 0) {
            (void)fprintf(file, "%*s%s", (int)gap, "", grid->cells[i]);
            gap = 0;
        }
        gap += width[column] - len + 2;
        if (column + 1 == grid->columns) {
            (void)fputc('\n', file);
            gap = indent;
        }
    }
    if (fclose(file) != 0) {
        free(text);
        return NULL;
    }
    return text;
}
