/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/image/places.h"

#include <errno.h>

#include "common/util/error_set.h"
#include "common/util/util.h"

static int places_reader_seek(struct image_reader *reader, const struct rect *region,
                              struct plenum_error *err)
{
    struct places_reader *p = container_of(reader, struct places_reader, base);

    p->region = *region;
    p->rows_done = 0;
    if (scratch_reserve(&p->strip, (size_t)region->width * 4) < 0)
        return error_set(err, -ENOMEM, "out of memory for rows of %u pixels", region->width);
    return 0;
}

static int places_reader_read(struct image_reader *reader, struct image_rows *ret,
                              struct plenum_error *err)
{
    struct places_reader *p = container_of(reader, struct places_reader, base);
    uint32_t y = p->region.top + p->rows_done++;
    uint8_t *to = p->strip.bytes;

    (void)err;
    for (uint32_t x = 0; x < p->region.width; x++, to += 4) {
        uint32_t number = p->rows ? y : p->region.left + x;

        to[0] = (uint8_t)number;
        to[1] = (uint8_t)(number >> 8);
        to[2] = to[3] = 0;
    }
    *ret = (struct image_rows){p->strip.bytes, (size_t)p->region.width * 4, 1};
    return 0;
}

const struct image_reader_ops places_reader_ops = {
    .seek = places_reader_seek,
    .read = places_reader_read,
};
