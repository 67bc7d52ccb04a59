/* SPDX-License-Identifier: MIT */
/* avif_scan.c - counts everything that can make libavif and dav1d work, or log, far more than the
 * size of a file suggests.
 *
 * Lists of items and chunks: libavif's time grows with the square of their length.
 *
 * Boxes: libavif allocates up to 4 KB for a box of eight bytes, such as a track or a property; and
 * version 0.11 treats everything after a sample description as properties of it.
 *
 * Tiles: libavif 0.11 decodes and keeps all of them before it checks whether they make up the
 * image.
 *
 * Shared bytes: any number of items may use the same bytes of the file, and each use costs a copy
 * if the item has several extents (libavif) or the bytes are metadata (dav1d).
 *
 * Frames: an item is one frame, or up to four if it has layers. But AV1 data may have any number of
 * frames before the one that is shown, each of any size, and a frame that repeats another one takes
 * only a few bytes.
 *
 * OBUs, the units of AV1 data: dav1d logs a line to standard error for each one of unknown type,
 * and libavif has no way to prevent that.
 *
 * libavif joins the extents of an item before it passes them to dav1d. So we read the box with
 * their positions (iloc) like libavif does, and walk all items, whether they are AV1 or not. Items
 * that are not AV1 add little to the counts: their data begins with zeros or text, which, read as
 * AV1, soon contains an OBU without a size, and the walk counts nothing after that one. Data that
 * no item refers to, such as the first frame of a track, is walked when libavif reads it
 * (avif.c). */
#include "config.h"

#include "loader/image/avif/avif_scan.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "common/util/error_set.h"
#include "loader/image/big_endian.h"
#include "loader/image/limits.h"

/* --- AV1 --- */

struct count {
    uint64_t obus, unknown;
    uint64_t hidden;  /* frames beyond the first of each item */
    uint64_t extents; /* extents beyond the first of each item */
};

static bool over(const struct count *count)
{
    return count->obus > IMAGE_OBUS_MAX || count->unknown > IMAGE_UNKNOWN_OBUS_MAX ||
           count->hidden > IMAGE_HIDDEN_FRAMES_MAX || count->extents > IMAGE_EXTENTS_MAX;
}

/* The position in an item's bytes. All zeros before the first byte. */
struct scan_walk {
    enum { HEADER, EXTENSION, SIZE, METADATA, PAYLOAD } at;
    uint32_t type;
    bool sized;
    uint32_t shift; /* position of the next seven bits in the OBU's size */
    uint64_t left;  /* remaining bytes of the payload; in SIZE: the size read so far */
    uint64_t obus, frames;
};

enum { OBU_FRAME_HEADER = 3, OBU_METADATA = 5, OBU_FRAME = 6, OBU_REDUNDANT_FRAME_HEADER = 7 };

/* Returns whether an OBU begins a frame. dav1d treats a redundant frame header as a frame header if
 * no other came before it. */
static bool is_frame(uint32_t type)
{
    return type == OBU_FRAME_HEADER || type == OBU_FRAME || type == OBU_REDUNDANT_FRAME_HEADER;
}

static bool is_known(uint32_t type)
{
    return (type >= 1 && type <= 7) || type == 15;
}

/* Begin the payload of an OBU. An OBU without a size is the last one. If it is also the only one,
 * its type does not count, because data that is not AV1 often looks like that; dav1d then logs one
 * line and returns no frame, so libavif decodes no further item.
 *
 * dav1d reads the type of metadata even if its size is 0, and takes the type from the bytes that
 * follow. Such metadata counts as unknown. */
static void begin_payload(struct scan_walk *walk, struct count *count, uint64_t size)
{
    bool counts = walk->sized || walk->obus > 0;

    walk->left = size;
    walk->at = walk->type == OBU_METADATA && counts ? METADATA : PAYLOAD;
    walk->obus++;
    count->obus++;
    if (is_frame(walk->type) && walk->frames++ > 0)
        count->hidden++;
    if (counts && (!is_known(walk->type) || (walk->type == OBU_METADATA && size == 0)))
        count->unknown++;
}

static void take_header_byte(struct scan_walk *walk, struct count *count, uint8_t byte)
{
    switch (walk->at) {
    case HEADER:
        walk->type = byte >> 3 & 15; /* dav1d ignores the top bit and the bottom bit */
        walk->sized = byte & 2;
        walk->left = walk->shift = 0;
        if (byte & 4)
            walk->at = EXTENSION;
        else if (walk->sized)
            walk->at = SIZE;
        else
            begin_payload(walk, count, UINT64_MAX);
        break;
    case EXTENSION:
        if (walk->sized)
            walk->at = SIZE;
        else
            begin_payload(walk, count, UINT64_MAX);
        break;
    default: /* SIZE, which has at most eight bytes */
        walk->left |= (uint64_t)(byte & 127) << walk->shift;
        walk->shift += 7;
        if (byte < 128 || walk->shift == 56)
            begin_payload(walk, count, byte < 128 ? walk->left : UINT64_MAX);
    }
}

/* Process the next bytes of an item. */
static void walk_on(struct scan_walk *walk, struct count *count, const uint8_t *bytes, size_t len)
{
    size_t n;

    for (size_t i = 0; i < len && !over(count); i += n) {
        n = 1;
        if (walk->at < METADATA) {
            take_header_byte(walk, count, bytes[i]);
            continue;
        }
        if (walk->at == METADATA && walk->left > 0 && (bytes[i] < 1 || bytes[i] > 5))
            count->unknown++;
        walk->at = PAYLOAD;
        n = walk->left < len - i ? (size_t)walk->left : len - i;
        walk->left -= n;
        if (walk->left == 0)
            walk->at = HEADER;
    }
}

static int judge(const struct count *count, struct plenum_error *err)
{
    if (count->hidden > IMAGE_HIDDEN_FRAMES_MAX)
        return error_set(err, -EBADMSG, "the AVIF has more than %d frames that are not shown",
                         IMAGE_HIDDEN_FRAMES_MAX);
    if (count->unknown > IMAGE_UNKNOWN_OBUS_MAX)
        return error_set(err, -EBADMSG, "the AVIF has more than %d OBUs of unknown kinds",
                         IMAGE_UNKNOWN_OBUS_MAX);
    if (count->obus > IMAGE_OBUS_MAX)
        return error_set(err, -EBADMSG, "the AVIF has more than %d OBUs", IMAGE_OBUS_MAX);
    if (count->extents > IMAGE_EXTENTS_MAX)
        return error_set(err, -EBADMSG, "the AVIF's items are in more than %d further extents",
                         IMAGE_EXTENTS_MAX);
    return 0;
}

/* --- the boxes --- */

struct scan_span {
    const uint8_t *bytes;
    size_t len;
};

struct box {
    const uint8_t *type;
    struct scan_span content;
    size_t size; /* including its header */
};

/* Take the next box. A damaged one takes all remaining bytes; libavif will report it. */
static bool next_box(struct scan_span *boxes, struct box *ret)
{
    enum { HEADER_BYTES = 8 };
    size_t begin = HEADER_BYTES;
    uint64_t size;

    if (boxes->len < HEADER_BYTES)
        return false;
    size = get_be32(boxes->bytes);
    if (size == 1 && boxes->len >= HEADER_BYTES + 8) {
        begin = HEADER_BYTES + 8;
        size = (uint64_t)get_be32(boxes->bytes + 8) << 32 | get_be32(boxes->bytes + 12);
    }
    if (size < begin || size > boxes->len) /* a size of 0 means up to the end */
        size = boxes->len;
    *ret = (struct box){.type = boxes->bytes + 4,
                        .content = {boxes->bytes + begin, (size_t)size - begin},
                        .size = (size_t)size};
    boxes->bytes += size;
    boxes->len -= size;
    return true;
}

static bool is_one_of(const uint8_t *type, const char *types)
{
    for (; *types; types += 4)
        if (memcmp(type, types, 4) == 0)
            return true;
    return false;
}

/* Take a number of `count` bytes; missing bytes count as 0. */
static uint64_t take(struct scan_span *from, uint32_t count)
{
    uint64_t value = 0;

    for (uint32_t i = 0; i < count; i++) {
        value <<= 8;
        if (from->len == 0)
            continue;
        value |= *from->bytes++;
        from->len--;
    }
    return value;
}

struct scan {
    struct scan_span file;
    uint64_t lists; /* bytes of lists */
    uint64_t boxes;
    uint64_t tiles;
    uint32_t side;       /* the smallest side of any image */
    uint64_t item_bytes; /* bytes of all items, even if items share bytes */
    struct count count;
};

static void walk_extent(struct scan_walk *walk, struct count *count, struct scan_span in,
                        uint64_t at, uint64_t len)
{
    if (at < in.len)
        walk_on(walk, count, in.bytes + at, len < in.len - at ? (size_t)len : in.len - (size_t)at);
}

/* Walk all items of a "meta" box. Whether offsets are relative to the file or to "idat" depends on
 * other fields of the item and on libavif's version, so we walk both. */
static void scan_items(struct scan *scan, struct scan_span iloc, struct scan_span idat)
{
    uint32_t version = (uint32_t)take(&iloc, 4) >> 24, sizes = (uint32_t)take(&iloc, 2);
    uint32_t offset_bytes = sizes >> 12, len_bytes = sizes >> 8 & 15, base_bytes = sizes >> 4 & 15;
    uint64_t items = take(&iloc, version < 2 ? 2 : 4);

    for (; items > 0 && iloc.len > 0 && !over(&scan->count); items--) {
        struct scan_walk in_file = {.at = HEADER}, in_idat = {.at = HEADER};
        uint64_t base, extents;

        (void)take(&iloc, version < 2 ? 2 : 4); /* its ID */
        (void)take(&iloc, version > 0 ? 4 : 2); /* [construction method,] data reference */
        base = take(&iloc, base_bytes);
        extents = take(&iloc, 2);
        scan->count.extents += extents > 0 ? extents - 1 : 0;
        for (; extents > 0 && !over(&scan->count); extents--) {
            uint64_t at = base + take(&iloc, offset_bytes), len = take(&iloc, len_bytes);

            scan->item_bytes += len < scan->file.len ? len : scan->file.len;
            walk_extent(&in_file, &scan->count, scan->file, at, len);
            walk_extent(&in_idat, &scan->count, idat, at, len);
        }
    }
}

/* Returns how many tiles "iref" refers to. A "dimg" reference lists the items that make up an
 * image, and an "auxl" reference the items that an alpha image belongs to; all count as tiles.
 * Versions of libavif disagree about where a reference ends, so we search at every byte. */
static uint64_t count_tiles(struct scan_span iref)
{
    uint32_t version = (uint32_t)take(&iref, 4) >> 24;
    uint64_t sum = 0;

    while (iref.len >= 8) {
        uint32_t size = get_be32(iref.bytes);
        struct scan_span behind = {iref.bytes + 8, iref.len - 8};
        bool found = is_one_of(iref.bytes + 4, "dimgauxl");

        (void)take(&iref, 1);
        if (!found)
            continue;
        if (size == 1) /* a 64-bit size follows the type */
            (void)take(&behind, 8);
        (void)take(&behind, version == 0 ? 2 : 4); /* the item's ID */
        sum += take(&behind, 2);
    }
    return sum;
}

static struct scan_span find_idat(struct scan_span boxes)
{
    struct scan_span ret = {NULL, 0};
    struct box box;

    while (next_box(&boxes, &box))
        if (is_one_of(box.type, "idat"))
            ret = box.content;
    return ret;
}

/* Count the properties of each sample description like libavif 0.11, which reads them to the end of
 * the box, beyond the end of the description. */
static void scan_descriptions(struct scan *scan, struct scan_span stsd)
{
    enum { FLAGS_AND_COUNT = 8, ENTRY = 78 };
    struct box entry, box;

    (void)take(&stsd, FLAGS_AND_COUNT);
    while (next_box(&stsd, &entry) && scan->boxes++ < IMAGE_BOXES_MAX) {
        struct scan_span properties = {entry.content.bytes, entry.content.len + stsd.len};

        for (uint32_t i = 0; i < ENTRY; i++)
            (void)take(&properties, 1);
        while (next_box(&properties, &box) && scan->boxes++ < IMAGE_BOXES_MAX)
            continue;
    }
}

static void scan_size(struct scan *scan, struct scan_span ispe)
{
    (void)take(&ispe, 4); /* version and flags */
    for (int i = 0; i < 2; i++) {
        uint32_t side = (uint32_t)take(&ispe, 4);

        if (side < scan->side)
            scan->side = side;
    }
}

static void scan_boxes(struct scan *scan, struct scan_span boxes, struct scan_span idat, int depth)
{
    enum { FLAGS = 4, DEPTH = 6 }; /* moov, trak, meta, iprp, ipco, ispe */
    struct box box;

    while (next_box(&boxes, &box) && scan->boxes++ < IMAGE_BOXES_MAX) {
        if (is_one_of(box.type, "iinfilocirefipmastsc"))
            scan->lists += box.size;
        if (is_one_of(box.type, "iloc") && scan->lists <= IMAGE_LISTS_MAX)
            scan_items(scan, box.content, idat);
        if (is_one_of(box.type, "iref") && scan->lists <= IMAGE_LISTS_MAX)
            scan->tiles += count_tiles(box.content);
        if (is_one_of(box.type, "ispe"))
            scan_size(scan, box.content);
        if (is_one_of(box.type, "stsd"))
            scan_descriptions(scan, box.content);
        if (is_one_of(box.type, "meta"))
            (void)take(&box.content, FLAGS);
        if (depth < DEPTH && is_one_of(box.type, "metaiprpipcomoovtrakmdiaminfstbl"))
            scan_boxes(scan, box.content, find_idat(box.content), depth + 1);
    }
}

/* Returns the number of pixels that a frame may have, so that all tiles together stay within the
 * limit: libavif keeps them until all are decoded. dav1d's frames consist of whole blocks of
 * 128x128 pixels, so narrow frames take more memory than their pixels need; the limit is then
 * lower. */
static uint32_t find_pixels(const struct scan *scan)
{
    enum { SIDE = 64 };
    /* The lists cannot hold more tiles than this, even if count_tiles() found more. */
    uint64_t tiles = scan->tiles < IMAGE_LISTS_MAX ? scan->tiles : IMAGE_LISTS_MAX;
    uint64_t side = scan->side > 0 ? scan->side : 1;

    if (tiles <= IMAGE_TILES_PIXELS_MAX / IMAGE_PIXELS_MAX)
        return IMAGE_PIXELS_MAX;
    return (uint32_t)(IMAGE_TILES_PIXELS_MAX * (side < SIDE ? side : SIDE) / SIDE / tiles);
}

int avif_scan(const uint8_t *bytes, size_t len, uint32_t *pixels, struct plenum_error *err)
{
    struct scan scan = {.file = {bytes, len}, .side = UINT32_MAX};

    scan_boxes(&scan, scan.file, (struct scan_span){NULL, 0}, 0);
    if (scan.lists > IMAGE_LISTS_MAX)
        return error_set(err, -EBADMSG,
                         "the AVIF's lists of items and chunks have more bytes than the limit of "
                         "%d",
                         IMAGE_LISTS_MAX);
    if (scan.boxes > IMAGE_BOXES_MAX)
        return error_set(err, -EBADMSG, "the AVIF has more than %d boxes", IMAGE_BOXES_MAX);
    if (scan.item_bytes > (uint64_t)len + IMAGE_SHARED_MAX)
        return error_set(err, -EBADMSG, "the AVIF's items share more bytes than the limit of %d",
                         IMAGE_SHARED_MAX);
    *pixels = find_pixels(&scan);
    return judge(&scan.count, err);
}

int avif_scan_sample(const uint8_t *bytes, size_t len, struct plenum_error *err)
{
    struct count count = {0};
    struct scan_walk walk = {.at = HEADER};

    walk_on(&walk, &count, bytes, len);
    return judge(&count, err);
}
