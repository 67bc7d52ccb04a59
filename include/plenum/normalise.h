/* SPDX-License-Identifier: MIT */
/* normalise.h - convert pixels to the normalised floats that a network takes.
 *
 * If the accelerator's framework can normalise, let it do so: copying pixels as bytes moves only a
 * quarter of the data (see docs/training.md). These functions are for programs that need floats on
 * the host. They run at the speed of memory:
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

/** The type that a pixel's channel is converted to. */
enum plenum_float {
    PLENUM_TO_FLOAT32,  /**< IEEE 754 binary32. */
    PLENUM_TO_FLOAT16,  /**< IEEE 754 binary16. */
    PLENUM_TO_BFLOAT16, /**< The upper half of a binary32. */
};

/** Images that are contiguous in memory, such as the images of a batch or of a batch's view
 *  (`count` is then the batch's count times the view's). */
struct plenum_images {
    /** sizeof(struct plenum_images). */
    size_t size;
    /** int8 or uint8, [count][height][width][channels] or [count][channels][height][width], at any
     *  alignment. Read only. May be NULL if `count` is 0. */
    const void *pixels;
    uint64_t count;            /**< Number of images; 0 makes the call a no-op. */
    uint32_t height;           /**< Image height in pixels, at least 1. */
    uint32_t width;            /**< Image width in pixels, at least 1. */
    uint32_t channels;         /**< 3, or 4, of which the last channel is dropped. */
    enum plenum_dtype dtype;   /**< Type of a pixel's channel. */
    enum plenum_layout layout; /**< Layout of an image. */
};

/**
 * Convert pixels to floats: (pixel / 255 - mean) / std for each channel, like torchvision's
 * ToTensor and Normalize.
 *
 * The exact formula, for a `level` of 0 ... 255 (an int8 value plus 128) and channel c:
 *
 *     scale = (float)(1 / (255 * std[c]))     computed in double and rounded once
 *     bias = (float)(-mean[c] / std[c])       computed in double and rounded once
 *     value = (float)level * scale + bias     a float multiplication and a float addition, each
 *                                             rounded; never fused
 *
 * For float16 and bfloat16, `value` is then rounded to nearest, ties to even; if it is too large
 * for that type, the result is infinite. So the result is the same on every processor, and bitwise
 * equal to NumPy's `level.astype("f4") * scale + bias`. (The floating-point environment must be
 * the one that a program starts with.)
 *
 * @param from    The images.
 * @param mean    [3] for red, green and blue, in units where pixels are 0 ... 1.
 * @param std     [3] for red, green and blue, in the same units; above 0.
 * @param to      [count][height][width][3] or [count][3][height][width] of `type`. Must be aligned
 *                to that type, ideally to 64 bytes, and must not overlap the pixels. Memory that
 *                has been written to before is several times faster than fresh memory. May be NULL
 *                if the count is 0.
 * @param layout  Layout of the floats; it may differ from that of the images.
 *
 * Ownership: all memory is the caller's; nothing is kept.
 * Errors: in each case, nothing has been written.
 *   -EINVAL     a pointer is NULL; a size, type or layout is invalid; mean or std is not finite;
 *               std is not above 0; a float32 `value` would be infinite; or `to` is misaligned or
 *               overlaps the pixels;
 *   -EOVERFLOW  images or floats do not fit into the address space.
 * Threads: any, even concurrently: it is a pure function. It runs only in the calling thread, never
 *          blocks, allocates nothing, and may be called in a forked child.
 */
PLENUM_API int plenum_normalise(const struct plenum_images *from, const double mean[3],
                                const double std[3], void *to, enum plenum_float type,
                                enum plenum_layout layout, struct plenum_error *err);

#ifdef __cplusplus
}
#endif

#endif
