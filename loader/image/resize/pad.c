/* SPDX-License-Identifier: MIT */
/* pad.c - copies the visible part of an image to its position in the sample, and pads it.
 *
 * A row of the sample is a run of a row of the image, with padding before and after it: the run is
 * copied, and the padding is taken from a table. */
#include "config.h"

#include "loader/image/resize/pad.h"

#include <assert.h>
#include <string.h>

void pad_fini(struct pad *pad)
{
    scratch_free(&pad->seen);
    scratch_free(&pad->columns);
}

uint8_t *pad_window(struct pad *pad, const struct pipeline *pipeline, const struct crop *crop)
{
    size_t plane = (size_t)crop->window.width * crop->window.height;

    assert(crop->padded && plane > 0);
    if (scratch_reserve(&pad->seen, 3 * plane) < 0 ||
        scratch_reserve(&pad->columns, pipeline->width * sizeof(int32_t)) < 0)
        return NULL;
    return pad->seen.bytes;
}

/* Find the columns of a row. The visible part is already mirrored, so adjacent columns there are
 * adjacent here. */
static void find_columns(const struct pipeline *pipeline, const struct crop *crop, int32_t *columns)
{
    crop_places(pipeline->pad_mode, &crop->across, crop->window.left, crop->mirror, pipeline->width,
                columns);
    for (uint32_t i = 0; crop->mirror && i < pipeline->width; i++)
        if (columns[i] >= 0)
            columns[i] = (int32_t)crop->window.width - 1 - columns[i];
}

void pad_finish(struct pad *pad, const struct pipeline *pipeline, const struct crop *crop,
                uint8_t *planes)
{
    uint32_t width = pipeline->width, height = pipeline->height, begin, end;
    size_t plane = (size_t)crop->window.width * crop->window.height;
    int32_t *columns = pad->columns.bytes;

    find_columns(pipeline, crop, columns);
    crop_longest_run(columns, width, 1, &begin, &end);
    for (uint32_t y = 0; y < height; y++) {
        int64_t source = crop_source(pipeline->pad_mode, &crop->down, y);

        for (uint32_t c = 0; c < 3; c++) {
            const uint8_t *row = pad->seen.bytes;
            uint8_t *to = planes + ((size_t)c * height + y) * width;

            if (source < 0) {
                memset(to, pipeline->fill[c], width);
                continue;
            }
            assert(source >= crop->window.top &&
                   source < (int64_t)crop->window.top + crop->window.height);
            row += c * plane + ((size_t)source - crop->window.top) * crop->window.width;
            for (uint32_t x = 0; x < begin; x++)
                to[x] = columns[x] < 0 ? pipeline->fill[c] : row[columns[x]];
            memcpy(to + begin, row + (begin < end ? columns[begin] : 0), end - begin);
            for (uint32_t x = end; x < width; x++)
                to[x] = columns[x] < 0 ? pipeline->fill[c] : row[columns[x]];
        }
    }
}

void pad_trim(struct pad *pad, size_t keep)
{
    scratch_trim(&pad->seen, keep);
}
