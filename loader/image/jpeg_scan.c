#include "config.h"

#include "loader/image/jpeg_scan.h"

#include <string.h>

enum {
    M_RST0 = 0xD0,
    /* Where a file ends without a marker, libjpeg fails as soon as it looks ahead beyond the end;
     * so nothing is believed that is so close to it. */
    FILE_END_MARGIN = 24,
};

/* Copy up to the next marker, the end, or as much as there is room for. */
static void unstuff(struct jpeg_scan *s)
{
    uint8_t *to = s->room + (s->end - s->room);
    uint8_t *to_end = s->room + JPEG_SCAN_LEAD + JPEG_SCAN_CHUNK;

    while (!s->ended && to < to_end) {
        const uint8_t *from = s->bytes + s->from;
        size_t left = s->len - s->from, room = (size_t)(to_end - to), n = left < room ? left : room;
        const uint8_t *mark = n > 0 ? memchr(from, 0xFF, n) : NULL;

        if (mark)
            n = (size_t)(mark - from);
        memcpy(to, from, n);
        to += n;
        s->from += n;
        if (mark && n + 1 < left && mark[1] == 0) {
            *to++ = 0xFF;
            s->from += 2;
        } else if (mark && n + 1 < left) {
            s->marker = mark[1] == 0xFF ? 0 : mark[1]; /* what such a row ends with, libjpeg knows */
            s->ended = true;
        } else if (mark || s->from == s->len) {
            s->marker = 0;
            s->ended = true;
        }
    }
    s->end = to;
}

/* Have as much as fits behind what is not read yet. */
static void fill(struct jpeg_scan *s)
{
    size_t left = s->end > s->bits.at ? (size_t)(s->end - s->bits.at) : 0;

    if (s->bits.at != s->room + JPEG_SCAN_LEAD) {
        memmove(s->room + JPEG_SCAN_LEAD, s->bits.at, left);
        s->bits.at = s->room + JPEG_SCAN_LEAD;
    }
    s->end = s->bits.at + left;
    unstuff(s);
    if (!s->ended) {
        s->limit = s->end - JPEG_MCU_BYTES - 8;
        return;
    }
    memset(s->room + (s->end - s->room), 0, JPEG_MCU_BYTES + 64);
    if (s->marker == 0)
        s->end -= FILE_END_MARGIN;
    s->limit = s->end;
}

/* Bits that are there and not read yet; negative: more were read. */
static ptrdiff_t bits_left(const struct jpeg_scan *s)
{
    return (s->end - s->bits.at) * 8 + (ptrdiff_t)s->bits.count;
}

static void begin_segment(struct jpeg_scan *s)
{
    s->bits = (struct jpeg_bits){.at = s->room + JPEG_SCAN_LEAD};
    s->end = s->bits.at;
    s->ended = false;
    s->left = s->restart;
    memset(s->dc, 0, sizeof(s->dc));
    fill(s);
}

void jpeg_scan_begin(struct jpeg_scan *s, const uint8_t *bytes, size_t len, size_t from,
                     uint32_t restart)
{
    s->bytes = bytes;
    s->len = len;
    s->from = from;
    s->restart = restart;
    s->number = 0;
    begin_segment(s);
}

bool jpeg_scan_more(struct jpeg_scan *s)
{
    if (!s->ended)
        fill(s);
    return !s->ended || bits_left(s) >= 0;
}

bool jpeg_scan_complete(const struct jpeg_scan *s)
{
    ptrdiff_t left = bits_left(s);

    /* libjpeg warns of whole bytes before the marker. */
    return s->ended && left >= 0 && left <= 7 && s->marker == M_RST0 + s->number;
}

bool jpeg_scan_restart(struct jpeg_scan *s)
{
    if (!s->ended)
        fill(s);
    if (!jpeg_scan_complete(s))
        return false;
    s->from += 2;
    s->number = (s->number + 1) % 8;
    begin_segment(s);
    return true;
}

bool jpeg_scan_begin_next(struct jpeg_scan *s, const struct jpeg_scan *before)
{
    if (!before->ended || before->marker != M_RST0 + before->number)
        return false;
    s->bytes = before->bytes;
    s->len = before->len;
    s->from = before->from + 2;
    s->restart = before->restart;
    s->number = (before->number + 1) % 8;
    begin_segment(s);
    s->left = 0; /* it is read to its end */
    return true;
}
