/* SPDX-License-Identifier: MIT */
/* image.h - turns encoded bytes into the pixels of a training sample.
 *
 * A pure library: no threads, sockets, clocks or files. The output depends only on the arguments,
 * is computed in integers, and is the same on every machine. The rules ("version 1") are in
 * docs/pixels.md. */
#ifndef LOADER_IMAGE_IMAGE_H
#define LOADER_IMAGE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/stream.h>

#include "common/order/philox.h"
#include "common/pipeline/pipeline.h"

/** What one thread needs to render images without allocating memory for each image. Opaque.
 * Threads: one at a time. */
struct image_decoder;

/**
 * How a sample's pixels are stored: [H][W][C] or [C][H][W].
 *
 * C is 3, or 4 with a last channel that holds the zero point: the number that represents 0.0 when
 * int8 is used without an offset, so that the channel adds nothing to a sum of products. The zero
 * point is 0 as int8 and 128 as uint8, because int8 is uint8 - 128 in all channels.
 */
struct image_store {
    enum plenum_dtype dtype;
    enum plenum_layout layout;
    uint32_t channels;
};

/** Returns the byte with which values of 0 to 255 are XORed: int8 is uint8 - 128. */
static inline uint8_t image_store_flip(const struct image_store *store)
{
    return store->dtype == PLENUM_INT8 ? 0x80 : 0;
}

/** Returns the byte of the zero point. */
static inline uint8_t image_store_zero(const struct image_store *store)
{
    return store->dtype == PLENUM_INT8 ? 0 : 128;
}

/** Write an image of `pixels` pixels that was stored as uint8 [3][H][W] to `dst` in the format of
 * `store`. The result has the bytes that rendering in this format produces. */
void image_store_planes(const uint8_t *planes, size_t pixels, const struct image_store *store,
                        uint8_t *dst);

/** The numbers that determine the random draws of a sample: see common/order/philox.h. */
struct image_draw {
    uint64_t seed;
    uint32_t epoch;
    uint32_t position;
    uint32_t view; /* number of the image among those rendered from a file; below 2^16 */
};

/** Returns four random words: draw `number` for `purpose`. */
static inline struct philox_block image_draw_words(const struct image_draw *draw,
                                                   enum draw_purpose purpose, uint32_t number)
{
    return philox4x32_10((struct philox_block){{draw->position, draw->epoch,
                                                (uint32_t)purpose | draw->view << 16, number}},
                         (uint32_t)draw->seed, (uint32_t)(draw->seed >> 32));
}

/** The part of a file's picture that an image shows, in the orientation after EXIF: docs/pixels.md,
 * 3.6. */
struct image_shown {
    uint32_t height, width; /* size of the whole picture */
    float box[4];     /* left, top, right, bottom, in pixels; outside the picture is padding */
    bool mirror;      /* left and right are swapped afterwards */
    bool upside_down; /* top and bottom are swapped afterwards */
};

/** An encoded image: a whole file. Its format is detected from its first bytes, not from its
 * name. */
struct image_file {
    const uint8_t *bytes; /* [len], borrowed */
    size_t len;
};

/** Boxes of a picture: struct plenum_box, at any address. */
struct image_boxes {
    const uint8_t *bytes; /* borrowed */
    uint32_t count;
};

/** One image to render from a file. */
struct image_view {
    const struct pipeline *pipeline;
    struct image_draw draw;
    /* pipeline->width * pipeline->height * store->channels bytes; completely written on success,
     * undefined on failure. Only final bytes are written, each once, and none is read. */
    void *dst;
    struct image_boxes boxes; /* for iou_crop */
    struct image_shown shown; /* written when the image is rendered */
};

/** The properties of a file. */
struct image_info {
    const char *format;     /* "JPEG", "PNG", "WebP", "AVIF" or "PPM" (also for a PGM) */
    uint32_t width, height; /* as stored, before EXIF */
    uint8_t orientation;    /* EXIF orientation, 1 ... 8; 1 if there is none */
    bool progressive;       /* a progressive JPEG: decoding any row needs all scans */
    size_t junk;            /* bytes before a JPEG's first scan that belong to no segment */
    uint64_t pixels;        /* XXH3-64 of all rows as RGB, before EXIF; set by image_verify() */
};

/** The choice of a JPEG decoder, which does not affect pixels. */
enum image_jpeg {
    IMAGE_JPEG_AUTO,    /* PLENUM; on x86-64 processors for which it has no loops, LIBJPEG */
    IMAGE_JPEG_PLENUM,  /* Plenum's decoder; libjpeg-turbo for files that it does not support */
    IMAGE_JPEG_LIBJPEG, /* libjpeg-turbo for all files */
};

/**
 * A hint records where the tiles of one JPEG begin, so that only those under a crop are decoded.
 *
 * Only the decoder knows its format: a caller stores the bytes and passes them again with the same
 * file. A hint changes no pixel and no error. A hint of another file is ignored, and so are any
 * other bytes, unless they were forged.
 */
struct image_tiles {
    const uint8_t *hint; /* [len], or NULL if there is no hint yet */
    size_t len;
    /* Written by image_render() and image_find_tiles(): a hint with more tiles than the one passed
     * in, or NULL. Borrowed until the decoder's next image. */
    const uint8_t *found;
    size_t found_len;
    size_t found_max; /* bytes of the hint once the whole image has been decoded */
};

/** Create a decoder. Free it with image_decoder_destroy(). Returns 0 or -ENOMEM. */
int image_decoder_create(struct image_decoder **ret);
/** NULL is ignored. */
void image_decoder_destroy(struct image_decoder *decoder);

/**
 * Returns the names of the sets of loops that this processor can use, each made for one kind of
 * processor: "avx2", "portable" and so on, best first. Returns NULL after the last one.
 */
const char *image_kernels(uint32_t index);

/** Write the names of the best set of loops and of the decoder that `jpeg` selects to `ret`, such
 * as "avx2, JPEGs by Plenum". */
void image_describe_loops(enum image_jpeg jpeg, char *ret, size_t size);

/**
 * Use a set of loops other than the best one, for tests and comparisons. The pixels are the same.
 *
 * Returns -ENOENT if there is no set of that name, or if this processor cannot use it.
 */
int image_decoder_use_kernels(struct image_decoder *decoder, const char *name);

/** Parse "auto", "plenum" or "libjpeg", the value of `what`, such as an option's name. Returns 0 or
 * -EINVAL. */
int image_jpeg_parse(const char *what, const char *text, enum image_jpeg *ret,
                     struct plenum_error *err);

/** Set the JPEG decoder for the following images. The default is IMAGE_JPEG_AUTO. */
void image_decoder_use_jpeg(struct image_decoder *decoder, enum image_jpeg jpeg);

/** Set the hint to use, and to extend with more tiles, from the next image on. NULL, the default,
 * disables both. Borrowed. */
void image_decoder_use_tiles(struct image_decoder *decoder, struct image_tiles *tiles);

/**
 * Render one sample: find the crop, decode the part under it, resize, mirror, store.
 *
 * Errors: -EBADMSG the image is bad: unreadable, of an unknown kind, over a limit, or with an error
 * or warning of the decoder in the rows from the top to the last one needed (`err` has details);
 * -ENOTSUP a WebP or AVIF that this build cannot decode; -ENOMEM.
 */
int image_render(struct image_decoder *decoder, struct image_view *view,
                 const struct image_store *store, const struct image_file *file,
                 struct plenum_error *err);

/**
 * Render several images of one file, which is decoded once. Each has the pixels that image_render()
 * produces.
 *
 * @param views  [count], count at least 1. All or none of their pipelines have `exif`; the same
 *               applies to `junk`.
 *
 * Errors: like image_render(), for the rows that any of the images needs. Either all images are
 * rendered, or none.
 */
int image_render_views(struct image_decoder *decoder, struct image_view *views, uint32_t count,
                       const struct image_store *store, const struct image_file *file,
                       struct plenum_error *err);

/**
 * Render the mask that belongs to a file, once for each of its views, with the view's crop, flips
 * and other operations that move pixels, and without interpolation: each value is that of the
 * nearest pixel. Where an image shows padding, or nothing of its picture, the mask is 255 or 65535.
 *
 * @param views [count], as image_render_views() has left them, each with its own dst of
 *                    pipeline->width * pipeline->height * item_bytes bytes. Their `pipeline` and
 *                    `dst` are then overwritten.
 * @param item_bytes  1: uint8, from a PNG of 1 to 8 bits; 2: this machine's uint16, from 16 bits.
 * @param file        a PNG of indices or grey levels, which is not interlaced.
 *
 * Errors: -EBADMSG `file` is not such a PNG, is damaged, or differs in size from the image;
 * -ENOMEM.
 */
int image_render_masks(struct image_decoder *decoder, struct image_view *views, uint32_t count,
                       uint32_t item_bytes, const struct image_file *file,
                       struct plenum_error *err);

/**
 * Find the pixel of the picture that each pixel of an image shows if it is sampled like a mask.
 *
 * @param view     a view as image_render_views() has left it.
 * @param columns  [height][width]; UINT16_MAX where the image shows padding, whichever its mode, or
 *                 nothing of its picture.
 * @param rows     the same, or NULL.
 *
 * Returns 0, or -ENOMEM with `err` set.
 */
int image_find_places(struct image_decoder *decoder, const struct image_view *view,
                      uint16_t *columns, uint16_t *rows, struct plenum_error *err);

/**
 * Decode all of an image without storing it, to check whether every crop of it can be rendered. A
 * packed JPEG (pack.h) is decoded like any other.
 *
 * Pipelines without `junk` reject the image if `ret->junk` is more than 0.
 *
 * @param ret  May be NULL. Written if the header could be read, even if the rest is bad.
 *
 * Errors: like image_render() with a pipeline that has `junk`.
 */
int image_verify(struct image_decoder *decoder, const struct image_file *file,
                 struct image_info *ret, struct plenum_error *err);

/**
 * Returns the extension for files of this format: ".jpg", ".png", ".webp", ".avif" or ".ppm", also
 * for a format that this build cannot decode. Returns NULL for any other format.
 */
const char *image_extension(const struct image_decoder *decoder, const uint8_t *bytes, size_t len);

/** Set the error of a pipeline without `junk` for this number of junk bytes. Returns -EBADMSG. */
int image_refuse_junk(size_t junk, struct plenum_error *err);

/**
 * Decode all of a JPEG to get the hint of its tiles. `tiles->found` is NULL if the file can have no
 * hint, because of its kind or because the hint would be larger than a 32nd of the file.
 *
 * Errors: like image_render() with a pipeline that has `junk`.
 */
int image_find_tiles(struct image_decoder *decoder, const struct image_file *file,
                     struct image_tiles *tiles, struct plenum_error *err);

/**
 * Render the built-in images and compare them with the golden hashes of `version`.
 *
 * Returns 0; -ENOMEM; or -EPROTO if they differ or the version is unknown. Then the JPEG library of
 * this machine, or Plenum's own decoder on it, does not produce the defined pixels, and the loader
 * must not serve that version.
 */
int image_self_test(enum pipeline_version version, struct plenum_error *err);

#endif
