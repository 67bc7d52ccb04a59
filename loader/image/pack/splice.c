/* SPDX-License-Identifier: MIT */
/* splice.c - cuts a rectangle of intervals out of a packed JPEG.
 *
 *     the file                        the splice
 *     SOI ... APP9 ... SOS            SOI ... SOS          without APP9, with the rectangle's size
 *     | 0  1  2  3 |
 *     | 4 [5  6] 7 |                  | 5  6 |             restart markers numbered from 0
 *     | 8 [9 10]11 |                  | 9 10 | EOI
 *
 * Each interval begins with its own DC predictions, so it is the same at any position; only the
 * marker after it is renumbered.
 *
 * Why a copy: libjpeg could read the pieces in place, but the copy costs 1 % of the decoding that
 * follows, and a stream in one piece is a file that other programs can read. */
#include "config.h"

#include "loader/image/pack/splice.h"

#include <assert.h>
#include <string.h>

struct rect splice_pixels(const struct splice *s, const struct pack_layout *layout)
{
    uint32_t width = layout->interval * layout->mcu_width, height = layout->mcu_height;
    struct rect r = {.left = s->left * width, .top = s->top * height};

    r.width = s->right == layout->across ? layout->width - r.left : (s->right - s->left) * width;
    r.height = s->bottom == layout->down ? layout->height - r.top : (s->bottom - s->top) * height;
    return r;
}

bool splice_plan(const struct pack_layout *layout, const struct rect *region, struct splice *ret)
{
    uint32_t width = layout->interval * layout->mcu_width, height = layout->mcu_height;
    uint32_t right = region->left + region->width, bottom = region->top + region->height;
    struct splice s = {.left = region->left / width,
                       .right = (right + width - 1) / width,
                       .top = region->top / height,
                       .bottom = (bottom + height - 1) / height};
    uint64_t wanted = (uint64_t)(s.right - s.left) * (s.bottom - s.top);
    /* intervals that a decoder of the whole file would read */
    uint64_t before = (uint64_t)layout->across * s.bottom;

    assert(s.left < s.right && s.right <= layout->across);
    assert(s.top < s.bottom && s.bottom <= layout->down);
    *ret = s;
    return wanted * 8 <= before * 7;
}

/* Copy the file's header without the APP9 segment, and change the size in it. */
static uint8_t *write_header(const struct splice *s, const struct pack_layout *layout,
                             const uint8_t *bytes, uint8_t *to)
{
    struct rect pixels = splice_pixels(s, layout);
    uint8_t *size = to + layout->size_at;

    if (layout->size_at > layout->segment)
        size -= layout->segment_end - layout->segment;
    memcpy(to, bytes, layout->segment);
    to += layout->segment;
    memcpy(to, bytes + layout->segment_end, layout->data - layout->segment_end);
    size[0] = (uint8_t)(pixels.height >> 8);
    size[1] = (uint8_t)pixels.height;
    size[2] = (uint8_t)(pixels.width >> 8);
    size[3] = (uint8_t)pixels.width;
    return to + (layout->data - layout->segment_end);
}

int splice_write(const struct splice *s, const struct pack_layout *layout, const uint8_t *bytes,
                 size_t len, struct scratch *scratch, size_t *ret_len)
{
    uint32_t width = s->right - s->left, number = 0;
    uint8_t *to;

    assert(s->left < s->right && s->right <= layout->across && s->bottom <= layout->down);
    if (scratch_reserve(scratch, len) < 0) /* a part is never longer than the whole */
        return -ENOMEM;
    to = write_header(s, layout, bytes, scratch->bytes);
    for (uint32_t row = s->top; row < s->bottom; row++) {
        size_t first = (size_t)row * layout->across + s->left;
        const uint32_t *ends = layout->ends + first;
        uint32_t begin = first > 0 ? ends[-1] : (uint32_t)layout->data;

        /* The intervals of a row are contiguous. */
        assert((size_t)(to - (uint8_t *)scratch->bytes) + ends[width - 1] - begin <= len);
        memcpy(to, bytes + begin, ends[width - 1] - begin);
        for (uint32_t i = 0; i < width; i++)
            to[ends[i] - begin - 1] = (uint8_t)(0xD0 + number++ % 8);
        to += ends[width - 1] - begin;
    }
    to[-1] = 0xD9; /* EOI */
    *ret_len = (size_t)(to - (uint8_t *)scratch->bytes);
    return 0;
}
