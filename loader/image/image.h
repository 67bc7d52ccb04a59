/* SPDX-License-Identifier: MIT */
/* image.h - encoded bytes in, pixels of a training sample out.
 *
 * A pure library: no threads, sockets, clocks or files. What comes out is a function of the
 * arguments alone, in integer arithmetic, the same on every machine. The rules ("version 1") are in
 * docs/pixels.md. */
#ifndef LOADER_IMAGE_IMAGE_H
#define LOADER_IMAGE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/stream.h>

#include "common/philox.h"
#include "common/pipeline.h"

/** What one thread needs to render image after image without allocating. Opaque. Threads: one at a
 * time. */
struct image_decoder;

/**
 * How a sample's pixels are stored: [H][W][C] or [C][H][W].
 *
 * C is 3, or 4 with a last channel that holds the zero point: the number that stands for 0.0 where
 * int8 is used without an offset, so that the channel adds nothing to a sum of products. That is 0
 * as int8, and 128 as uint8: int8 is uint8 - 128 in all channels.
 */
struct image_store {
    enum plenum_dtype dtype;
    enum plenum_layout layout;
    uint32_t channels;
};

/** What a value of 0 to 255 is xored with: int8 is uint8 - 128. */
static inline uint8_t image_store_flip(const struct image_store *store)
{
    return store->dtype == PLENUM_INT8 ? 0x80 : 0;
}

/** The byte of the zero point. */
static inline uint8_t image_store_zero(const struct image_store *store)
{
    return store->dtype == PLENUM_INT8 ? 0 : 128;
}

/** The numbers that decide what is drawn for a sample: see common/philox.h. */
struct image_draw {
    uint64_t seed;
    uint32_t epoch;
    uint32_t position;
    uint32_t view; /* number of the image among those that are made of a file; below 2^16 */
};

/** Four random words. */
static inline struct philox_block image_draw_words(const struct image_draw *draw,
                                                   enum draw_purpose purpose, uint32_t number)
{
    return philox4x32_10((struct philox_block){{draw->position, draw->epoch,
                                                (uint32_t)purpose | draw->view << 16, number}},
                         (uint32_t)draw->seed, (uint32_t)(draw->seed >> 32));
}

/** What an image shows, of its file as it is seen after EXIF: docs/pixels.md, 3.6. */
struct image_shown {
    uint32_t height, width; /* of the whole picture */
    float box[4];           /* left, top, right, bottom, in its pixels; beyond it is padding */
    bool mirror;            /* then left and right are swapped, */
    bool upside_down;       /* and top and bottom */
};

/** One image to be made of a file. */
struct image_view {
    const struct pipeline *pipeline;
    struct image_draw draw;
    void *dst;                /* pipeline->width * pipeline->height * store->channels bytes */
    struct image_shown shown; /* written, when it is made */
};

/** What a file holds. */
struct image_info {
    const char *format;     /* "JPEG", "PNG", "WebP", "AVIF" or "PPM" (a PGM, too) */
    uint32_t width, height; /* as stored, before EXIF */
    uint8_t orientation;    /* EXIF's, 1 ... 8; 1 where there is none */
    bool progressive;       /* a JPEG whose scans must all be read for any row */
    size_t junk;            /* bytes before a JPEG's first scan that belong to no segment */
    uint64_t pixels;        /* XXH3-64 of all rows as RGB, before EXIF; by image_verify() */
};

/** Which decoder decodes JPEGs; the pixels are the same. */
enum image_jpeg {
    IMAGE_JPEG_AUTO,    /* our own decoder, where there are loops for this kind of processor */
    IMAGE_JPEG_PLENUM,  /* our own decoder */
    IMAGE_JPEG_LIBJPEG, /* libjpeg-turbo, which also decodes what ours does not support */
};

/**
 * A hint says where the tiles of one JPEG begin, so that only those under a crop are decoded.
 *
 * Only the decoder knows its meaning: a caller keeps the bytes and passes them with the same file
 * again. It changes no pixel and no error. A hint of another file, or any other bytes, are ignored,
 * unless somebody forged them.
 */
struct image_tiles {
    const uint8_t *hint; /* [len], or NULL: there is none yet */
    size_t len;
    /* Written by image_render(): a hint that says more than that; NULL: there is none. Borrowed
     * until the decoder's next image. */
    const uint8_t *found;
    size_t found_len;
    size_t found_max; /* bytes of the hint when all of the image will have been decoded */
};

/** Ownership: `*ret` ends with image_decoder_destroy(). -ENOMEM. */
int image_decoder_create(struct image_decoder **ret);
/** NULL is nothing. */
void image_decoder_destroy(struct image_decoder *decoder);

/**
 * The sets of loops, each for one kind of processor, that this one can use: "avx2", "portable" and
 * so on, best first. NULL from the last one's index on.
 */
const char *image_kernels(uint32_t index);

/** Which set is the best one, and whose are baseline JPEGs where `jpeg` is chosen: "avx2, JPEGs by
 * Plenum". */
void image_describe_loops(enum image_jpeg jpeg, char *ret, size_t size);

/**
 * Use another set of loops than the best one, for tests and comparisons: the pixels are the same.
 *
 * -ENOENT: there is none of that name, or this processor cannot use it.
 */
int image_decoder_use_kernels(struct image_decoder *decoder, const char *name);

/** "auto", "plenum" or "libjpeg", as the value of `what` (an option, a variable): 0 or -EINVAL. */
int image_jpeg_parse(const char *what, const char *text, enum image_jpeg *ret,
                     struct plenum_error *err);

/** From the next image on; IMAGE_JPEG_AUTO at first. */
void image_decoder_use_jpeg(struct image_decoder *decoder, enum image_jpeg jpeg);

/** Use this hint, and find more, with every image from the next one on; NULL: do neither, as at
 * first. Borrowed. */
void image_decoder_use_tiles(struct image_decoder *decoder, struct image_tiles *tiles);

/**
 * Render one sample: find the crop, decode what lies under it, resize, mirror, store.
 *
 * @param bytes  [len] a whole JPEG, PNG, WebP, AVIF or PPM file, told apart by its first bytes,
 *               whatever it is called.
 * @param dst    pipeline->width * pipeline->height * store->channels bytes; completely written on
 *               success, undefined on failure. Only final bytes are written, each once, and none
 *               is read.
 *
 * Errors: -EBADMSG the image is bad: unreadable, of an unknown kind, over a limit, or an error or
 * warning of the decoder in the rows from the top to the last one needed (`err` says what);
 * -ENOTSUP a WebP or AVIF, which this build cannot decode; -ENOMEM.
 */
int image_render(struct image_decoder *decoder, const struct pipeline *pipeline,
                 const struct image_draw *draw, const struct image_store *store,
                 const uint8_t *bytes, size_t len, void *dst, struct plenum_error *err);

/**
 * Render several images of one file, which is decoded once: each is what image_render() makes.
 *
 * @param views  [count], count at least 1. All their pipelines have `exif`, or none; and `junk`.
 *
 * Errors: as image_render(), for the rows that any of them needs: either all are made or none.
 */
int image_render_views(struct image_decoder *decoder, struct image_view *views, uint32_t count,
                       const struct image_store *store, const uint8_t *bytes, size_t len,
                       struct plenum_error *err);

/**
 * Render the mask that belongs to a file, once for each of its views: the pixel that lies nearest,
 * of the same crop, flipped alike; where an image shows padding, 255, or 65535.
 *
 * @param views       [count], as image_render_views() has left them, each with a dst of its own for
 *                    pipeline->width * pipeline->height * item_bytes bytes.
 * @param item_bytes  1: a PNG of 1 to 8 bits, uint8; 2: of 16 bits, uint16 of this machine.
 * @param bytes       [len] a PNG of indices or grey levels, which is not interlaced.
 *
 * Errors: -EBADMSG it is another kind of file, damaged, or has another size than the image;
 * -ENOMEM.
 */
int image_render_masks(struct image_decoder *decoder, struct image_view *views, uint32_t count,
                       uint32_t item_bytes, const uint8_t *bytes, size_t len,
                       struct plenum_error *err);

/**
 * Decode all of an image and keep nothing: whether any crop of it can be rendered. A packed JPEG
 * (pack.h) is decoded as any other.
 *
 * Pipelines without `junk` take the image for bad where `ret->junk` is more than 0.
 *
 * @param ret  May be NULL. Written when the header could be read, even if what follows is bad.
 *
 * Errors: as image_render(), of a pipeline with `junk`.
 */
int image_verify(struct image_decoder *decoder, const uint8_t *bytes, size_t len,
                 struct image_info *ret, struct plenum_error *err);

/**
 * The extension that files of this format have: ".jpg", ".png", ".webp", ".avif" or ".ppm"; also of
 * a format that this build cannot decode. NULL: it is none of these.
 */
const char *image_extension(const struct image_decoder *decoder, const uint8_t *bytes, size_t len);

/** The sentence that a pipeline without `junk` needs for so many bytes: -EBADMSG. */
int image_refuse_junk(size_t junk, struct plenum_error *err);

/**
 * Decode all of a JPEG, only for the hint of its tiles: `tiles->found` is NULL where there can be
 * none, because of the file's kind or because it would have more than a 32nd of the file's bytes.
 *
 * Errors: as image_render(), of a pipeline with `junk`.
 */
int image_find_tiles(struct image_decoder *decoder, const uint8_t *bytes, size_t len,
                     struct image_tiles *tiles, struct plenum_error *err);

/**
 * Render the built-in images and compare with the golden hashes of `version`.
 *
 * -EPROTO when they differ: the JPEG library here gives other pixels than the definition, and this
 * machine must not serve it.
 */
int image_self_test(enum pipeline_version version, struct plenum_error *err);

#endif
