/* SPDX-License-Identifier: MIT */
/* exif.c - finds and applies EXIF's orientation.
 *
 * The value says how a stored image (width W, height H) is to be shown. Pixel (x', y') of the shown
 * image is this pixel of the stored image:
 *
 *     1: (x', y')      2: (W-1-x', y')      3: (W-1-x', H-1-y')      4: (x', H-1-y')
 *     5: (y', x')      6: (y', H-1-x')      7: (W-1-y', H-1-x')      8: (W-1-y', x')
 *
 * that is: swap the coordinates for 5 to 8, then mirror x for 2, 3, 7, 8 and y for 3, 4, 6, 7 (EXIF
 * 2.32, tag 0x0112). Pillow's ImageOps.exif_transpose does this, too.
 *
 * The bytes are untrusted: every offset is checked before it is followed, and no offset is followed
 * twice. */
#include "config.h"

#include "loader/image/exif.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "loader/image/jpeg/jpeg_marker.h"

enum { TAG_ORIENTATION = 0x0112, TYPE_BYTE = 1, TYPE_SHORT = 3, TYPE_LONG = 4 };

/* A TIFF block and its byte order. */
struct tiff {
    const uint8_t *bytes;
    size_t len;
    bool little;
};

static uint32_t get16(const struct tiff *t, size_t at)
{
    const uint8_t *p = t->bytes + at;

    return t->little ? (uint32_t)(p[0] | p[1] << 8) : (uint32_t)(p[0] << 8 | p[1]);
}

static uint32_t get32(const struct tiff *t, size_t at)
{
    return t->little ? get16(t, at) | get16(t, at + 2) << 16
                     : get16(t, at) << 16 | get16(t, at + 2);
}

/* Returns the value of a directory entry that holds one integer; 0 if it holds anything else. */
static uint32_t entry_value(const struct tiff *t, size_t entry)
{
    if (get32(t, entry + 4) != 1)
        return 0;
    switch (get16(t, entry + 2)) {
    case TYPE_BYTE:
        return t->bytes[entry + 8];
    case TYPE_SHORT:
        return get16(t, entry + 8);
    case TYPE_LONG:
        return get32(t, entry + 8);
    default:
        return 0;
    }
}

uint8_t exif_of_tiff(const uint8_t *bytes, size_t len)
{
    struct tiff t = {.bytes = bytes, .len = len};
    uint32_t value = 1;
    size_t at, count;

    if (len < 8 || (memcmp(bytes, "II", 2) != 0 && memcmp(bytes, "MM", 2) != 0))
        return 1;
    t.little = bytes[0] == 'I';
    if (get16(&t, 2) != 42)
        return 1;
    at = get32(&t, 4);
    if (at > len - 2)
        return 1;
    count = get16(&t, at);
    at += 2;
    for (; count > 0 && len - at >= 12; count--, at += 12)
        if (get16(&t, at) == TAG_ORIENTATION)
            value = entry_value(&t, at);
    return value >= 1 && value <= 8 ? (uint8_t)value : 1;
}

uint8_t exif_of_jpeg(const uint8_t *bytes, size_t len)
{
    static const uint8_t mark[6] = {'E', 'x', 'i', 'f', 0, 0};
    struct jpeg_markers m = {bytes, len, .at = 2};

    while (jpeg_markers_next(&m))
        if (m.code == 0xE1 && m.size >= sizeof(mark) && memcmp(m.data, mark, sizeof(mark)) == 0)
            return exif_of_tiff(m.data + sizeof(mark), m.size - sizeof(mark));
    return 1;
}

static bool mirrors_x(uint8_t orientation)
{
    return orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
}

static bool mirrors_y(uint8_t orientation)
{
    return orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
}

struct rect exif_to_stored(uint8_t orientation, struct rect seen, uint32_t width, uint32_t height)
{
    struct rect r = seen;

    if (exif_swaps(orientation))
        r = (struct rect){seen.top, seen.left, seen.height, seen.width};
    if (mirrors_x(orientation))
        r.left = width - r.left - r.width;
    if (mirrors_y(orientation))
        r.top = height - r.top - r.height;
    return r;
}

void exif_turn_row(const struct exif_turn *turn, const uint8_t *row, uint32_t y)
{
    bool swap = exif_swaps(turn->orientation), mirror = mirrors_x(turn->orientation);
    size_t step = swap ? (size_t)turn->height * 4 : 4;
    uint32_t v = mirrors_y(turn->orientation) ? turn->height - 1 - y : y;
    uint8_t *out = turn->turned + (swap ? (size_t)v * 4 : (size_t)v * turn->width * 4);

    assert(y < turn->height);
    for (uint32_t x = 0; x < turn->width; x++) {
        uint32_t u = mirror ? turn->width - 1 - x : x;

        memcpy(out + u * step, row + (size_t)x * turn->pixel, 4);
    }
}
