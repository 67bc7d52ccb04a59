/* SPDX-License-Identifier: MIT */
/* pack_resize.h - shrinks an image before it is packed, or stores its pixels: files of all formats
 * become JPEGs or PPMs. */
#ifndef LOADER_IMAGE_PACK_RESIZE_H
#define LOADER_IMAGE_PACK_RESIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

#include "loader/image/encode.h"
#include "loader/image/image.h"
#include "loader/image/limits.h"

enum {
    PACK_SIDE_MIN = 16, /* pixels */
    PACK_SIDE_MAX = IMAGE_SIDE_MAX,
    PACK_QUALITY = 90, /* default quality */
};

/** Selects the images that are shrunk or become raw pixels, and how they are encoded. Starts as
 * zeros: no image is selected. */
struct pack_resize {
    /* The longest, or the shortest, side is reduced to this many pixels. At most one of the two is
     * not 0. */
    uint32_t longest, shortest;
    uint32_t quality; /* 1 ... 100 */
    enum encode_subsampling subsampling;
    uint32_t raw_share; /* percentage of the samples that become raw pixels of any size */
    bool junk;          /* junk in a JPEG's header is not an error */
};

/** Returns whether this sample of a data set becomes raw pixels. Such samples are spread as evenly
 * as possible. */
static inline bool pack_resize_is_raw(const struct pack_resize *resize, uint32_t sample)
{
    uint64_t before = (uint64_t)sample * resize->raw_share;

    return (before + resize->raw_share) / 100 > before / 100;
}

/** Returns whether an image of this size is shrunk; only then sets the new size. */
bool pack_resize_sides(const struct pack_resize *resize, uint32_t width, uint32_t height,
                       uint32_t *ret_width, uint32_t *ret_height);

/** The image that a file becomes before it is packed. */
struct pack_target {
    uint32_t width, height;           /* pixels, as stored */
    bool resized;                     /* the sides differ from the file's */
    uint8_t orientation;              /* the file's EXIF orientation */
    const struct pack_resize *resize; /* how it is encoded; borrowed */
};

/**
 * Decode all of an image, resize it as stored, regardless of its EXIF, and encode it without
 * metadata. `target->resized` must be set. If all pixels are grey, it becomes a grey JPEG,
 * otherwise a YCbCr one.
 *
 * Ownership: the caller frees `*ret`. Errors: like image_render().
 */
int pack_resize_encode(struct image_decoder *decoder, const struct image_file *file,
                       const struct pack_target *target, uint8_t **ret, size_t *ret_len,
                       struct plenum_error *err);

/**
 * Like pack_resize_encode(), but creates a PPM (docs/packed.md) with the target's sides, which may
 * be the image's own. The PPM records the EXIF orientation.
 *
 * Ownership: the caller frees `*ret`. Errors: like image_render().
 */
int pack_resize_raw(struct image_decoder *decoder, const struct image_file *file,
                    const struct pack_target *target, uint8_t **ret, size_t *ret_len,
                    struct plenum_error *err);

enum { PACK_RESIZE_TEXT = 80 };

/** Write the options of plenumctl pack that describe this to `ret`, such as "--longest 500
 * --quality 90 --subsampling 420", or "images as they are". Returns `ret`. */
const char *pack_resize_text(const struct pack_resize *resize, char ret[PACK_RESIZE_TEXT]);

#endif
