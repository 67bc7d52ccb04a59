/* SPDX-License-Identifier: MIT */
/* oracle.h - the plain, obvious renderer, by which the real one is judged.
 *
 * It decodes whole rows with the libraries' plainest calls, keeps the whole image, and resizes with
 * two loops straight from the definition in docs/pixels.md. Only the geometry (crop.c) is shared
 * with the real renderer; test_crop.c judges that by the published formula. */
#ifndef TESTS_LOADER_IMAGE_ORACLE_H
#define TESTS_LOADER_IMAGE_ORACLE_H

#include "loader/image/crop.h"
#include "loader/image/image.h"

/** As image_render(): 0, or -EBADMSG. */
int oracle_render(const struct pipeline *pipeline, const struct image_draw *draw,
                  const struct image_store *store, const uint8_t *bytes, size_t len, uint8_t *dst);

/** The operations behind the crop, on a window [height][width][3]. */
void oracle_operate(const struct pipeline *pipeline, const struct image_draw *draw,
                    uint8_t *pixels);

/** One operation that moves pixels, number `at` of the text: oracle_affine.c. */
void oracle_map(const struct pipeline_op *op, uint32_t at, const struct image_draw *draw,
                uint8_t *pixels, uint32_t width, uint32_t height);

/** What a policy draws: torchvision's and timm's name, and a strength as docs/pixels.md, 10.2, has
 * it. */
struct oracle_action {
    char name[24];
    int64_t amount;
    bool timm, bilinear; /* of what moves pixels */
};

/** Operation `step` of RandAugment and its like. False: there are no more. */
bool oracle_policy_next(const struct pipeline_op *op, uint32_t at, const struct image_draw *draw,
                        uint32_t width, uint32_t height, uint32_t step, struct oracle_action *ret);
/** Likewise of one of AugMix's chains, and the weights of the image (0) and the chains. */
bool oracle_chain_next(const struct pipeline_op *op, uint32_t at, const struct image_draw *draw,
                       uint32_t width, uint32_t height, uint32_t chain, uint32_t step,
                       struct oracle_action *ret);
uint64_t oracle_mix_weight(const struct pipeline_op *op, uint32_t at, const struct image_draw *draw,
                           uint32_t which);
/** What moves pixels, by a policy. */
void oracle_move(const struct oracle_action *action, uint8_t *pixels, uint32_t width,
                 uint32_t height);

/** Rows 0 ... last of an image as RGB. */
struct oracle_image {
    uint32_t width, height; /* as it was decoded */
    uint8_t orientation;
    uint8_t *rgb; /* [last + 1][width][3]; malloc */
};

/** What the header says: 0, or -EBADMSG. */
int oracle_header(const uint8_t *bytes, size_t len, uint32_t *width, uint32_t *height,
                  uint8_t *orientation);

/** Decode rows 0 ... last (the whole image where it has fewer): 0, or -EBADMSG. */
int oracle_decode(const uint8_t *bytes, size_t len, uint32_t last, struct oracle_image *ret);

/**
 * Whether the library's inverse DCT is a judge here. On x86 it always is. That of other processors
 * wraps otherwise (docs/pixels.md, 4.1), and is one for files whose sums are far from 16 bits.
 */
bool oracle_judges(const uint8_t *bytes, size_t len);

/** Resize `count` samples that are `step` bytes apart from n to m and write outputs first ... first
 * + outputs - 1, `to_step` bytes apart. */
void oracle_resize(enum pipeline_filter filter, const uint8_t *from, uint32_t n, size_t step,
                   uint32_t m, uint32_t first, uint32_t outputs, uint8_t *to, size_t to_step);

/** Coefficients of output i of n -> m, [n]. */
void oracle_coefficients(enum pipeline_filter filter, uint32_t n, uint32_t m, uint32_t i,
                         int32_t *coef);

#endif
