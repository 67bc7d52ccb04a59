/* SPDX-License-Identifier: MIT */
/* oracle.h - a plain, simple renderer with which the real one is compared.
 *
 * It decodes whole rows with the libraries' simplest calls, keeps the whole image, and resizes with
 * two loops that follow the definition in docs/pixels.md. It shares only the geometry (crop.c) with
 * the real renderer; test_crop.c compares that with the published formula. */
#ifndef TESTS_LOADER_IMAGE_ORACLE_H
#define TESTS_LOADER_IMAGE_ORACLE_H

#include "loader/image/image.h"
#include "loader/image/resize/crop.h"

/** Like image_render(): returns 0 or -EBADMSG. */
int oracle_render(const struct pipeline *pipeline, const struct image_draw *draw,
                  const struct image_store *store, const uint8_t *bytes, size_t len, uint8_t *dst);

/** Apply the operations after the crop to a window [height][width][3]. */
void oracle_operate(const struct pipeline *pipeline, const struct image_draw *draw,
                    uint8_t *pixels);

/** Apply an operation that moves pixels, the one at index `at` of the pipeline: oracle_affine.c. */
void oracle_map(const struct pipeline_op *op, uint32_t at, const struct image_draw *draw,
                uint8_t *pixels, uint32_t width, uint32_t height);

/** What a policy draws: an operation's name in torchvision and timm, and its strength as defined in
 * docs/pixels.md, 10.2. */
struct oracle_action {
    char name[24];
    int64_t amount;
    bool timm, bilinear; /* for operations that move pixels */
};

/** The policy at index `at` of a pipeline, for a window. */
struct oracle_policy {
    const struct pipeline_op *op;
    uint32_t at;
    const struct image_draw *draw;
    uint32_t width, height;
};

/** Get operation `step` of RandAugment and similar policies. Returns false after the last one. */
bool oracle_policy_next(const struct oracle_policy *of, uint32_t step, struct oracle_action *ret);
/** Get operation `step` of one of AugMix's chains. Returns false after the last one. */
bool oracle_chain_next(const struct oracle_policy *of, uint32_t chain, uint32_t step,
                       struct oracle_action *ret);
/** Returns the weight of the image (0) or of one of AugMix's chains. */
uint64_t oracle_mix_weight(const struct pipeline_op *op, uint32_t at, const struct image_draw *draw,
                           uint32_t which);
/** Apply an operation that moves pixels and that a policy drew. */
void oracle_move(const struct oracle_action *action, uint8_t *pixels, uint32_t width,
                 uint32_t height);

/** Rows 0 ... last of an image as RGB. */
struct oracle_image {
    uint32_t width, height; /* as stored, before EXIF */
    uint8_t orientation;
    uint8_t *rgb; /* [last + 1][width][3]; malloc */
};

/** Read the header. Returns 0 or -EBADMSG. */
int oracle_header(const uint8_t *bytes, size_t len, uint32_t *width, uint32_t *height,
                  uint8_t *orientation);

/** Decode rows 0 ... last (the whole image if it has fewer). Returns 0 or -EBADMSG. */
int oracle_decode(const uint8_t *bytes, size_t len, uint32_t last, struct oracle_image *ret);

/**
 * Returns whether libjpeg-turbo's inverse DCT can be compared with our pixels of this file. On x86,
 * it always can. On other processors, sums wrap differently (docs/pixels.md, 4.1), so only files
 * whose sums stay well within 16 bits can be compared.
 */
bool oracle_judges(const uint8_t *bytes, size_t len);

/** n samples that are resized to m; outputs first ... first + outputs - 1 are kept. */
struct oracle_line {
    enum pipeline_filter filter;
    const uint8_t *from; /* samples `step` bytes apart */
    uint8_t *to;         /* outputs `to_step` bytes apart */
    uint32_t n, m, first, outputs;
    size_t step, to_step;
};

/** Resize a line. */
void oracle_resize(const struct oracle_line *line);

/** Get the coefficients [n] of output i when n samples are resized to m. */
void oracle_coefficients(enum pipeline_filter filter, uint32_t n, uint32_t m, uint32_t i,
                         int32_t *coef);

#endif
