/* SPDX-License-Identifier: MIT */
/* normalise.h - pixels into floats, as a network takes them.
 *
 * Where the accelerator's framework does it there, the pixels are moved as bytes, which are a
 * quarter as many; see docs/training.md. This is for programs that need floats on the host, at the
 * speed of memory:
 *
 *     static const double mean[3] = {0.485, 0.456, 0.406}, std[3] = {0.229, 0.224, 0.225};
 *     struct plenum_images images = {
 *         .size = sizeof(images),
 *         .pixels = batch.pixels,
 *         .count = batch.count,
 *         .height = batch.height,
 *         .width = batch.width,
 *         .channels = batch.channels,
 *         .dtype = batch.dtype,
 *         .layout = batch.layout,
 *     };
 *     r = plenum_normalise(&images, mean, std, floats, PLENUM_TO_FLOAT32, PLENUM_NCHW, &err);
 */
#ifndef PLENUM_NORMALISE_H
#define PLENUM_NORMALISE_H

#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>
#include <plenum/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What a channel of a pixel becomes. */
enum plenum_float {
    PLENUM_TO_FLOAT32,  /**< IEEE 754 binary32. */
    PLENUM_TO_FLOAT16,  /**< IEEE 754 binary16. */
    PLENUM_TO_BFLOAT16, /**< The upper half of a binary32. */
};

/** Images that lie in memory one behind the other, such as those of a batch or of a view of one
 *  (then `count` is that of the batch times that of the view). */
struct plenum_images {
    /** sizeof(struct plenum_images). */
    size_t size;
    /** int8 or uint8, [count][height][width][channels] or [count][channels][height][width], at any
     *  address. Read only. May be NULL where `count` is 0. */
    const void *pixels;
    uint64_t count;            /**< Images; 0 is nothing to do. */
    uint32_t height;           /**< Of an image, in pixels, at least 1. */
    uint32_t width;            /**< Likewise. */
    uint32_t channels;         /**< 3, or 4, of which the last is left out. */
    enum plenum_dtype dtype;   /**< Of a pixel's channel. */
    enum plenum_layout layout; /**< Of an image. */
};

/**
 * Make floats of pixels: (pixel / 255 - mean) / std of each channel, as torchvision's ToTensor and
 * Normalize do.
 *
 * Exactly: with `level` 0 ... 255 (of int8: the value + 128), a channel c becomes
 *
 *     scale = (float)(1 / (255 * std[c]))     computed in double, and rounded once
 *     bias = (float)(-mean[c] / std[c])       likewise
 *     value = (float)level * scale + bias     a multiplication and an addition of floats, each
 *                                             rounded; no fused one
 *
 * and `value` is rounded to the nearest float16 or bfloat16, of two as near to the even one; beyond
 * the largest it is infinite. So it is the same on every processor, and equal to the bit to
 * NumPy's `level.astype("f4") * scale + bias`. (The floating-point environment must be that with
 * which a program begins.)
 *
 * @param from    The images.
 * @param mean    [3], of red, green and blue, in units in which pixels are 0 ... 1.
 * @param std     [3], likewise; above 0.
 * @param to      [count][height][width][3] or [count][3][height][width] of `type`: it must be
 *                aligned to that, best to 64 bytes, and may not overlap the pixels. Memory that was
 *                written to before is several times faster than new one. May be NULL where the
 *                count is 0.
 * @param layout  Of the floats, whatever that of the images is.
 *
 * Ownership: all memory is the caller's; nothing is kept.
 * Errors:
 *   -EINVAL     a pointer is NULL, a size, type or layout does not exist, mean or std is not
 *               finite, std is not above 0, floats would be infinite, or `to` is not aligned or
 *               overlaps the pixels;
 *   -EOVERFLOW  images and floats are larger than an address space.
 *   Nothing has been written then.
 * Threads: any, at once too: a pure function. It uses the thread that calls it alone, blocks
 *          nowhere, allocates nothing, and may be called in a child that was forked.
 */
PLENUM_API int plenum_normalise(const struct plenum_images *from, const double mean[3],
                                const double std[3], void *to, enum plenum_float type,
                                enum plenum_layout layout, struct plenum_error *err);

#ifdef __cplusplus
}
#endif

#endif
