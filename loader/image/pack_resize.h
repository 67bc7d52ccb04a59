/* SPDX-License-Identifier: MIT */
/* pack_resize.h - makes an image smaller before it is packed: one JPEG for a file of any kind. */
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
    PACK_QUALITY = 90, /* unless another is asked for */
};

/** Which images are made smaller, and how images are encoded. Starts as zeros: none are, and none
 * become raw. */
struct pack_resize {
    uint32_t longest, shortest; /* pixels: what that side becomes where it is more; one of them, the
                                   other is 0 */
    uint32_t quality;           /* 1 ... 100 */
    enum encode_subsampling subsampling;
    uint32_t raw_share; /* per cent of the samples become raw pixels, of any size */
    bool junk;          /* bytes of a JPEG's header that belong to no segment are no fault */
};

/** Whether a sample of a data set is among the share that becomes raw: they lie as evenly as can
 * be. */
static inline bool pack_resize_is_raw(const struct pack_resize *resize, uint32_t sample)
{
    uint64_t before = (uint64_t)sample * resize->raw_share;

    return (before + resize->raw_share) / 100 > before / 100;
}

/** Whether an image of this size is made smaller, and to which size. */
bool pack_resize_sides(const struct pack_resize *resize, uint32_t width, uint32_t height,
                       uint32_t *ret_width, uint32_t *ret_height);

/**
 * Decode all of an image, resize it as it is stored, whatever its EXIF says, and encode it without
 * any metadata. An image whose pixels are all grey becomes a grey JPEG, any other one YCbCr.
 *
 * Ownership: the caller frees `*ret`. Errors: as image_render().
 */
int pack_resize_encode(struct image_decoder *decoder, const struct pack_resize *resize,
                       uint32_t width, uint32_t height, const uint8_t *bytes, size_t len,
                       uint8_t **ret, size_t *ret_len, struct plenum_error *err);

/**
 * The same without an encoder: a PPM of the pixels (docs/packed.md), of these sides, which may be
 * the image's own. It says how EXIF turns it.
 *
 * Ownership: the caller frees `*ret`. Errors: as image_render().
 */
int pack_resize_raw(struct image_decoder *decoder, const struct image_info *info, uint32_t width,
                    uint32_t height, const uint8_t *bytes, size_t len, uint8_t **ret,
                    size_t *ret_len, struct plenum_error *err);

enum { PACK_RESIZE_TEXT = 80 };

/** The options of plenumctl pack that say this: "--longest 500 --quality 90 --subsampling 420". */
const char *pack_resize_text(const struct pack_resize *resize, char ret[PACK_RESIZE_TEXT]);

#endif
