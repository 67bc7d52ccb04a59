/* splice.c - cutting a rectangle of intervals out of a packed JPEG.
 *
 *     the file                        the splice
 *     SOI ... APP9 ... SOS            SOI ... SOS          without APP9, with the rectangle's size
 *     | 0  1  2  3 |
 *     | 4 [5  6] 7 |                  | 5  6 |             restart markers numbered from 0
 *     | 8 [9 10]11 |                  | 9 10 | EOI
 *
 * Each interval begins with its own DC predictions, which makes it the same wherever it stands;
 * only the marker behind it is numbered anew.
 *
 * Why a copy: libjpeg could be fed the pieces where they lie, but the copy costs 1 % of the
 * decoding that follows, and a stream in one piece is a file that other programs read, too. */
#include "config.h"

#include "loader/image/splice.h"

#include <errno.h>
#include <string.h>

bool splice_plan(const struct pack_layout *layout, const struct rect *region, struct splice *ret)
{
    uint32_t width = layout->interval * layout->mcu_width, height = layout->mcu_height;
    uint32_t right = region->left + region->width, bottom = region->top + region->height;
    struct splice s = {.left = region->left / width,
                       .right = (right + width - 1) / width,
                       .top = region->top / height,
                       .bottom = (bottom + height - 1) / height};
    uint64_t wanted = (uint64_t)(s.right - s.left) * (s.bottom - s.top);
    uint64_t before = (uint64_t)layout->across * s.bottom; /* what is decoded from the top */

    if (wanted * 8 > before * 7)
        return false;
    s.pixels = (struct rect){.left = s.left * width, .top = s.top * height};
    s.pixels.width =
        s.right == layout->across ? layout->width - s.pixels.left : (s.right - s.left) * width;
    s.pixels.height =
        s.bottom == layout->down ? layout->height - s.pixels.top : (s.bottom - s.top) * height;
    *ret = s;
    return true;
}

/* Copy the file's header, all but the APP9 segment, and change the size that it tells. */
static uint8_t *write_header(const struct splice *s, const struct pack_layout *layout,
                             const uint8_t *bytes, uint8_t *to)
{
    uint8_t *size = to + layout->size_at - (layout->segment_end - layout->segment);

    memcpy(to, bytes, layout->segment);
    to += layout->segment;
    memcpy(to, bytes + layout->segment_end, layout->data - layout->segment_end);
    size[0] = (uint8_t)(s->pixels.height >> 8);
    size[1] = (uint8_t)s->pixels.height;
    size[2] = (uint8_t)(s->pixels.width >> 8);
    size[3] = (uint8_t)s->pixels.width;
    return to + (layout->data - layout->segment_end);
}

/* The marker behind interval `index` of a file or splice with `count` intervals. */
static uint8_t marker_behind(uint32_t index, uint32_t count)
{
    return index + 1 == count ? 0xD9 : (uint8_t)(0xD0 + index % 8);
}

/* Bytes of the next `count` intervals. */
static size_t sum_lengths(const uint8_t *bytes, size_t *lengths, uint32_t count)
{
    size_t sum = 0;

    for (; count > 0; count--)
        sum += pack_length(bytes, lengths);
    return sum;
}

int splice_write(const struct splice *s, const struct pack_layout *layout, const uint8_t *bytes,
                 size_t len, struct scratch *scratch, size_t *ret_len)
{
    uint32_t count = layout->across * layout->down, number = 0;
    uint32_t wanted = (s->right - s->left) * (s->bottom - s->top);
    size_t lengths = layout->lengths, from = layout->data;
    uint8_t *to;

    if (scratch_reserve(scratch, len) < 0) /* a part is not longer than the whole */
        return -ENOMEM;
    to = write_header(s, layout, bytes, scratch->bytes);
    from += sum_lengths(bytes, &lengths, s->top * layout->across);
    for (uint32_t row = s->top; row < s->bottom; row++) {
        from += sum_lengths(bytes, &lengths, s->left);
        for (uint32_t i = s->left; i < s->right; i++) {
            uint32_t length = pack_length(bytes, &lengths);

            memcpy(to, bytes + from, length);
            from += length;
            to += length;
            if (to[-2] != 0xFF || to[-1] != marker_behind(row * layout->across + i, count))
                return -EBADMSG;
            to[-1] = marker_behind(number++, wanted);
        }
        from += sum_lengths(bytes, &lengths, layout->across - s->right);
    }
    *ret_len = (size_t)(to - (uint8_t *)scratch->bytes);
    return 0;
}
