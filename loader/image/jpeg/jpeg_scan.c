/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/image/jpeg/jpeg_scan.h"

#include <assert.h>
#include <string.h>

enum {
    M_RST0 = 0xD0,
    /* If a file ends without a marker, libjpeg fails when it looks ahead beyond the end, so bytes
     * this close to the end are not used. */
    FILE_END_MARGIN = 24,
};

/* Unstuff bytes up to the next marker, the end of the file, or the end of the buffer. */
static void unstuff(struct jpeg_scan *s)
{
    uint8_t *to = s->room + (s->end - s->room);
    uint8_t *to_end = s->room + JPEG_SCAN_LEAD + JPEG_SCAN_CHUNK;

    assert(s->from <= s->len);
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
            s->marker =
                mark[1] == 0xFF ? 0 : mark[1]; /* libjpeg decides how such a sequence ends */
            s->ended = true;
        } else if (mark || s->from == s->len) {
            s->marker = 0;
            s->ended = true;
        }
    }
    assert(s->from <= s->len && to < s->room + sizeof(s->room) - 64);
    s->end = to;
}

/* Returns the number of 0xFF bytes: each was followed by a stuffed byte in the file. */
static size_t count_stuffed(const uint8_t *begin, const uint8_t *end)
{
    size_t n = 0;

    while (begin < end && (begin = memchr(begin, 0xFF, (size_t)(end - begin)))) {
        begin++;
        n++;
    }
    return n;
}

static void tell(struct jpeg_scan *s, const uint8_t *at)
{
    assert(at >= s->told && at <= s->room + sizeof(s->room));
    s->told_at += (size_t)(at - s->told) + count_stuffed(s->told, at);
    s->told = at;
}

/* Refill the buffer after the unread bytes. */
static void fill(struct jpeg_scan *s)
{
    size_t left = s->end > s->bits.at ? (size_t)(s->end - s->bits.at) : 0;
    ptrdiff_t back = s->bits.at - (s->room + JPEG_SCAN_LEAD);

    assert(back >= 0);
    /* This also moves the eight bytes before them: some of these are in bits.word and unread. */
    if (back > 0) {
        if (s->telling && s->told < s->bits.at - sizeof(s->bits.word))
            tell(s, s->bits.at - sizeof(s->bits.word));
        memmove(s->room + JPEG_SCAN_LEAD - sizeof(s->bits.word), s->bits.at - sizeof(s->bits.word),
                left + sizeof(s->bits.word));
        s->bits.at -= back;
        if (s->telling)
            s->told -= back;
    }
    s->end = s->bits.at + left;
    unstuff(s);
    if (!s->ended) {
        s->limit = s->end - JPEG_MCU_BYTES - 8;
        return;
    }
    memset(s->room + (s->end - s->room), 0, 64); /* these bytes are only used for look-ahead */
    if (s->marker == 0)
        s->end -= s->margin;
    s->limit = s->end;
}

/* Returns the number of unread bits; negative if more bits were read than there are. */
static ptrdiff_t bits_left(const struct jpeg_scan *s)
{
    return (s->end - s->bits.at) * 8 + (ptrdiff_t)s->bits.count;
}

static void begin_segment(struct jpeg_scan *s)
{
    s->bits = (struct jpeg_bits){.at = s->room + JPEG_SCAN_LEAD};
    s->end = s->told = s->bits.at;
    s->told_at = s->from;
    s->ended = false;
    s->left = s->restart;
    memset(s->dc, 0, sizeof(s->dc));
    fill(s);
}

static void begin_at(struct jpeg_scan *s, const struct jpeg_tile *tile, uint32_t restart,
                     uint32_t mcu)
{
    assert(tile->at / 8 <= s->len);
    s->from = tile->at / 8;
    s->restart = restart;
    s->number = restart > 0 && mcu > 0 ? (mcu - 1) / restart % 8 : 0;
    begin_segment(s);
    if (restart > 0 && mcu > 0) /* 0: a marker comes first */
        s->left = (restart - mcu % restart) % restart;
    jpeg_bits_refill(&s->bits);
    jpeg_bits_drop(&s->bits, tile->at % 8);
    for (uint32_t i = 0; i < JPEG_COMPONENTS; i++)
        s->dc[i] = tile->dc[i];
}

void jpeg_scan_begin(struct jpeg_scan *s, const struct image_file *file,
                     const struct jpeg_tile *tile, uint32_t restart, uint32_t mcu, bool telling)
{
    s->bytes = file->bytes;
    s->len = file->len;
    s->margin = FILE_END_MARGIN;
    s->telling = telling;
    begin_at(s, tile, restart, mcu);
}

void jpeg_scan_begin_until(struct jpeg_scan *s, const struct image_file *file,
                           const struct jpeg_tile *tile, const struct jpeg_tile *end,
                           uint32_t restart, uint32_t mcu)
{
    size_t behind = end->at / 8 + 2; /* a stuffed byte may follow the last byte */

    assert(tile->at <= end->at); /* tiles are in order, whatever the hint contains */
    s->bytes = file->bytes;
    s->len = behind < file->len ? behind : file->len;
    s->margin = 0;
    s->telling = false;
    begin_at(s, tile, restart, mcu);
}

void jpeg_scan_begin_whole(struct jpeg_scan *s, const struct image_file *file, size_t from,
                           uint32_t restart)
{
    s->bytes = file->bytes;
    s->len = file->len;
    s->margin = FILE_END_MARGIN;
    s->telling = false;
    s->from = from;
    s->restart = restart;
    s->number = 0;
    begin_segment(s);
}

/* Returns the byte that holds the next bit, and the index of that bit. */
static const uint8_t *next_bit(const struct jpeg_scan *s, uint32_t *bit)
{
    uint32_t back = (s->bits.count + 7) / 8;

    *bit = back * 8 - s->bits.count;
    return s->bits.at - back;
}

static void get_dc(const struct jpeg_scan *s, struct jpeg_tile *ret)
{
    for (uint32_t i = 0; i < JPEG_COMPONENTS; i++)
        ret->dc[i] = (int16_t)s->dc[i];
}

void jpeg_scan_tell(struct jpeg_scan *s, struct jpeg_tile *ret)
{
    uint32_t bit;

    assert(s->telling);
    tell(s, next_bit(s, &bit));
    ret->at = (uint32_t)s->told_at * 8 + bit;
    get_dc(s, ret);
}

bool jpeg_scan_is_at(const struct jpeg_scan *s, const struct jpeg_tile *tile)
{
    struct jpeg_tile here;
    const uint8_t *at;
    uint32_t bit;

    at = next_bit(s, &bit);
    if (at > s->end)
        return false;
    here.at = (uint32_t)(s->from - (size_t)(s->end - at) - count_stuffed(at, s->end)) * 8 + bit;
    get_dc(s, &here);
    return here.at == tile->at && memcmp(here.dc, tile->dc, sizeof(here.dc)) == 0;
}

bool jpeg_scan_more(struct jpeg_scan *s)
{
    if (!s->ended)
        fill(s);
    return !s->ended || bits_left(s) >= 0;
}

/* Returns whether everything was read up to the next marker: libjpeg warns about unused whole bytes
 * before a marker. */
static bool is_at_marker(const struct jpeg_scan *s)
{
    ptrdiff_t left = bits_left(s);

    return s->ended && left >= 0 && left <= 7 && s->marker != 0;
}

bool jpeg_scan_complete(const struct jpeg_scan *s)
{
    return is_at_marker(s) && s->marker == M_RST0 + s->number;
}

bool jpeg_scan_end(struct jpeg_scan *s, size_t *ret)
{
    if (!s->ended)
        fill(s);
    *ret = s->from;
    return is_at_marker(s);
}

bool jpeg_scan_restart(struct jpeg_scan *s)
{
    if (!s->ended)
        fill(s);
    if (!jpeg_scan_complete(s))
        return false;
    assert(s->from + 2 <= s->len); /* unstuff() saw the marker */
    s->from += 2;
    s->number = (s->number + 1) % 8;
    begin_segment(s);
    return true;
}

bool jpeg_scan_begin_next(struct jpeg_scan *s, const struct jpeg_scan *before)
{
    if (!before->ended || before->marker != M_RST0 + before->number)
        return false;
    assert(before->from + 2 <= before->len);
    s->bytes = before->bytes;
    s->len = before->len;
    s->margin = before->margin;
    s->telling = before->telling;
    s->from = before->from + 2;
    s->restart = before->restart;
    s->number = (before->number + 1) % 8;
    begin_segment(s);
    return true;
}
