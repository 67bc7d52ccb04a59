/* SPDX-License-Identifier: MIT */
/* reader.h - the interface of a decoder, which reads the rows of one region of an encoded image.
 *
 *     open()  the header          -> size and orientation
 *     seek()  choose a region -> whatever the format needs before its first row
 *     read()  some rows at a time, until the region is delivered
 *     close() at any point, also after a failure; then open() again
 *
 * A reader stops after the region's last row. It reports any error of the file up to there as
 * -EBADMSG with a message, and does not examine the rest. Its pixels do not depend on earlier
 * images. */
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
    uint8_t orientation;    /* EXIF orientation, 1 ... 8; 1 if there is none */
    bool progressive;       /* a progressive JPEG */
    size_t junk;            /* bytes before a JPEG's first scan that belong to no segment */
    bool rgb;               /* pixels have three bytes in memory: see struct image_rows */
};

/** Returns the size of a pixel in rows, in bytes. */
static inline uint32_t image_pixel_bytes(const struct image_header *header)
{
    return header->rgb ? 3 : 4;
}

/** Some rows of the region. A pixel has four bytes: R, G, B, and one that is ignored, because
 * vector instructions load four bytes best. Or it has three, if the file stores them that way and
 * they can be used in place; then RESIZE_BEHIND bytes after each row may be read. Borrowed until
 * the next call. */
struct image_rows {
    const uint8_t *pixels;
    size_t pitch;   /* distance of rows in bytes */
    uint32_t count; /* at least 1 */
};

struct image_reader;

struct image_reader_ops {
    /** Returns whether a file that begins with these bytes belongs to this reader. */
    bool (*knows)(const uint8_t *bytes, size_t len);
    /** Read the header. `bytes` are borrowed until close(). Returns 0; -EBADMSG or -ENOMEM, like
     * all of these functions; or -ENOTSUP if this build lacks the library. */
    int (*open)(struct image_reader *reader, const uint8_t *bytes, size_t len,
                struct image_header *ret, struct plenum_error *err);
    /** Choose the region to read. It must lie inside the image, and must not be empty. */
    int (*seek)(struct image_reader *reader, const struct rect *region, struct plenum_error *err);
    /** Read the next rows. Must not be called after the region's last row. */
    int (*read)(struct image_reader *reader, struct image_rows *ret, struct plenum_error *err);
    void (*close)(struct image_reader *reader);
    void (*destroy)(struct image_reader *reader);
};

/** The first member of every reader. */
struct image_reader {
    const struct image_reader_ops *ops;
    /* Set these before open(): */
    bool whole;                /* decode a packed JPEG (pack.h) like any other JPEG */
    bool junk;                 /* header.junk is not an error: docs/pixels.md, 4.1 */
    struct image_tiles *tiles; /* use and find tiles, if the reader supports them; or NULL */
    bool refused_junk;         /* set by open() if it failed because of junk */
    /* 0 for an image. For a PNG mask: the bytes of an index or a grey level, whose low and high
     * bytes are delivered as R and G. */
    uint32_t mask;
};

int jpeg_reader_create(struct image_reader **ret);
/** Resolve IMAGE_JPEG_AUTO to a decoder for this processor; other values are returned unchanged. */
enum image_jpeg jpeg_reader_choice(enum image_jpeg jpeg);
/** Choose the decoder and the loops, by name, from the next open() on. If the decoder has no set of
 * that name, it uses its best one. */
void jpeg_reader_use(struct image_reader *reader, enum image_jpeg jpeg, const char *kernels);
int png_reader_create(struct image_reader **ret);
/** Decode only with libpng, the reference for Plenum's decoder, from the next open() on; or, if
 * `library` is false, with Plenum's decoder again. */
void png_reader_use(struct image_reader *reader, bool library);
int webp_reader_create(struct image_reader **ret);
int avif_reader_create(struct image_reader **ret);
int ppm_reader_create(struct image_reader **ret);

#endif
