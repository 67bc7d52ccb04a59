/* SPDX-License-Identifier: MIT */
/* reader.h - the interface of a decoder: it reads the rows of one region of an encoded image.
 *
 *     open()  the header          -> size and orientation
 *     seek()  choose a region -> whatever the format needs before its first row
 *     read()  some rows at a time, until the region is delivered
 *     close() at any point, also after a failure; then open() again
 *
 * A reader stops after the region's last row. It reports any error of the file up to there as
 * -EBADMSG with a sentence, and does not look at the rest. Its pixels do not depend on the images
 * before. */
#ifndef LOADER_IMAGE_READER_H
#define LOADER_IMAGE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

#include "loader/image/image.h"
#include "loader/image/rect.h"

struct image_header {
    uint32_t width, height; /* as stored, before EXIF; within limits.h */
    uint8_t orientation;    /* EXIF's, 1 ... 8; 1 where there is none */
    bool progressive;       /* a JPEG of that kind */
    size_t junk;            /* bytes before a JPEG's first scan that belong to no segment */
    bool rgb;               /* pixels have three bytes in memory: see struct image_rows */
};

/** Bytes of a pixel in rows. */
static inline uint32_t image_pixel_bytes(const struct image_header *header)
{
    return header->rgb ? 3 : 4;
}

/** Some rows of the region. A pixel has four bytes: R, G, B, and one that means nothing, because
 * that is what vector instructions load best. Or it has three, where they lie so in the file and
 * need not be touched; then RESIZE_BEHIND bytes behind each row may be read. Borrowed until the
 * next call. */
struct image_rows {
    const uint8_t *pixels;
    size_t pitch;   /* bytes from row to row */
    uint32_t count; /* at least 1 */
};

struct image_reader;

struct image_reader_ops {
    /** Whether a file that begins so is for this reader. */
    bool (*knows)(const uint8_t *bytes, size_t len);
    /** `bytes` are borrowed until close(). -EBADMSG or -ENOMEM, like all of them; or -ENOTSUP: this
     * build lacks the library. */
    int (*open)(struct image_reader *reader, const uint8_t *bytes, size_t len,
                struct image_header *ret, struct plenum_error *err);
    /** `region` lies inside the image, and is not empty. */
    int (*seek)(struct image_reader *reader, const struct rect *region, struct plenum_error *err);
    /** Not to be called again after the region's last row. */
    int (*read)(struct image_reader *reader, struct image_rows *ret, struct plenum_error *err);
    void (*close)(struct image_reader *reader);
    void (*destroy)(struct image_reader *reader);
};

/** The first member of every reader. */
struct image_reader {
    const struct image_reader_ops *ops;
    /* To be set before open(): */
    bool whole;                /* decode a packed JPEG (pack.h) as any other JPEG */
    bool junk;                 /* header.junk is no fault: docs/pixels.md, 4.1 */
    struct image_tiles *tiles; /* use and find tiles, where the reader can; or NULL */
    bool refused_junk;         /* written by open(): it failed because of junk */
    /* Of a PNG: 0, or the bytes of an index or a grey level, whose low and high byte are then
     * delivered as R and G. */
    uint32_t mask;
};

int jpeg_reader_create(struct image_reader **ret);
/** Whose decoder IMAGE_JPEG_AUTO is on this processor; the others are themselves. */
enum image_jpeg jpeg_reader_choice(enum image_jpeg jpeg);
/** From the next open() on: whose decoder, and which loops, by their name; those of the best set
 * where it has none of that name. */
void jpeg_reader_use(struct image_reader *reader, enum image_jpeg jpeg, const char *kernels);
int png_reader_create(struct image_reader **ret);
/** From the next open() on: libpng alone decodes, as it judges all that our own decoder does. */
void png_reader_use(struct image_reader *reader, bool library);
int webp_reader_create(struct image_reader **ret);
int avif_reader_create(struct image_reader **ret);
int ppm_reader_create(struct image_reader **ret);

#endif
