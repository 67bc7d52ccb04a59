/* SPDX-License-Identifier: MIT */
/* pipeline.h - the text that describes how an image is rendered, e.g. "rrc(224) flip(0.5)". */
#ifndef COMMON_PIPELINE_H
#define COMMON_PIPELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

enum {
    PIPELINE_SIDE_MAX = 8192, /* side of an output image, and any size in a pipeline, in pixels */
    PIPELINE_OPS_MAX = 16,    /* operations after the crop */
    PIPELINE_KERNEL_MAX = 99, /* width of a blur's kernel */
    PIPELINE_FACTOR_MAX = 3,  /* the largest factor of a colour operation */
    PIPELINE_ALPHA_MAX = 10,  /* of mixup and cutmix */
    PIPELINE_TEXT_MAX = 2048, /* bytes of a canonical text with its NUL */
};

/** A named definition of pixels. The bytes of a name never change; a new rule gets a new name. */
enum pipeline_version {
    PIPELINE_V1,
    PIPELINE_VERSIONS, /* number of versions */
};

/** "v1". */
const char *pipeline_version_name(enum pipeline_version version);

struct rational {
    uint32_t num, den; /* lowest terms, den >= 1 */
};

/** With a sign. */
struct rational_signed {
    int32_t num;
    uint32_t den; /* lowest terms, den >= 1 */
};

/** Does an event with this probability happen, given a random word? */
static inline bool rational_happens(struct rational p, uint32_t word)
{
    return (uint64_t)word * p.den < (uint64_t)p.num << 32;
}

/** The part of an image that a sample shows: docs/pixels.md, 3. */
enum pipeline_crop {
    PIPELINE_RRC,         /* rrc(HxW, scale=a:b, ratio=a:b): torchvision's RandomResizedCrop */
    PIPELINE_CENTER,      /* resize(...) center_crop(HxW): the middle of the resized image */
    PIPELINE_RANDOM_CROP, /* [resize(...)] [pad(...)] random_crop(HxW) */
    PIPELINE_STRETCH,     /* resize(HxW): the whole image, regardless of its proportions */
    PIPELINE_LETTERBOX,   /* letterbox(HxW, fill=g): the whole image with padding */
    PIPELINE_NO_IMAGE,    /* none: no pixels and no file; the size is 0 x 0 */
};

/** What lies beyond the edges of a padded image, by torchvision's names. */
enum pipeline_pad {
    PIPELINE_CONSTANT,  /* the level `fill` */
    PIPELINE_EDGE,      /* the outermost pixel */
    PIPELINE_REFLECT,   /* the mirror image, without its outermost pixel */
    PIPELINE_SYMMETRIC, /* the mirror image, with its outermost pixel */
    PIPELINE_PADS,
};

/** How an image is resized: docs/pixels.md, 5. */
enum pipeline_filter {
    PIPELINE_BILINEAR,
    PIPELINE_BICUBIC,
    PIPELINE_LANCZOS,
    PIPELINE_NEAREST,
    PIPELINE_RANDOM, /* bilinear or bicubic, drawn for each sample */
    PIPELINE_FILTERS,
};

/** How a rectangle is drawn: its share of an area, and its aspect ratio. */
struct pipeline_shape {
    struct rational scale_min, scale_max, ratio_min, ratio_max;
};

/** Operations on the resized window: docs/pixels.md, 10. */
enum pipeline_op_kind {
    PIPELINE_FLIP, /* left to right */
    PIPELINE_VERTICAL_FLIP,
    PIPELINE_COLOR_JITTER,
    PIPELINE_BRIGHTNESS,
    PIPELINE_CONTRAST,
    PIPELINE_SATURATION,
    PIPELINE_HUE,
    PIPELINE_SHARPNESS,
    PIPELINE_BLUR,
    PIPELINE_GRAYSCALE,
    PIPELINE_INVERT,
    PIPELINE_EQUALIZE,
    PIPELINE_AUTOCONTRAST,
    PIPELINE_SOLARIZE,
    PIPELINE_POSTERIZE,
    PIPELINE_ERASE,
    PIPELINE_CUTOUT,
    PIPELINE_ROTATE,
    PIPELINE_TRANSLATE,
    PIPELINE_SHEAR,
    PIPELINE_AFFINE,
    PIPELINE_PERSPECTIVE,
    PIPELINE_ONE_OF, /* one of several lists of operations, which follow it */
    PIPELINE_RAND_AUGMENT,
    PIPELINE_TRIVIAL_AUGMENT_WIDE,
    PIPELINE_AUTO_AUGMENT,
    PIPELINE_AUGMIX,
    /* Steps of policies that cannot be written in a pipeline: */
    PIPELINE_SOLARIZE_ADD,
    PIPELINE_MIX_BEGIN,
    PIPELINE_MIX_NEXT,
    PIPELINE_MIX_END,
    PIPELINE_OPS, /* number of operations */
};

/** AutoAugment's tables. */
enum pipeline_auto_augment {
    PIPELINE_IMAGENET,
    PIPELINE_CIFAR10,
    PIPELINE_SVHN,
    PIPELINE_AUTO_AUGMENTS,
};

/** Interpolation of a policy's operations that move pixels. */
enum pipeline_reading {
    PIPELINE_READING_USUAL, /* bilinear for timm's rand_augment and augmix, otherwise nearest */
    PIPELINE_READING_NEAREST,
    PIPELINE_READING_BILINEAR,
};

/** Parameters of one_of and of the policies. */
struct pipeline_policy {
    enum pipeline_auto_augment table;
    /** one_of: the operations of all its lists, which follow it; rand_augment: operations per
     *  sample; augmix: chains. */
    uint32_t count;
    uint32_t lists;     /* one_of */
    uint32_t magnitude; /* rand_augment; augmix: the severity */
    uint32_t depth;     /* augmix: operations per chain; 0: drawn */
    bool timm;          /* rand_augment: timm's variant, with the fields below */
    bool increasing;
    struct rational deviation; /* of the magnitude */
    /** Not for one_of. The usual interpolation is always stored as PIPELINE_READING_USUAL. */
    enum pipeline_reading reading;
};

/** Contents of an erased rectangle. */
enum pipeline_fill {
    PIPELINE_FILL_LEVELS,
    PIPELINE_FILL_RANDOM, /* a single random colour */
    PIPELINE_FILL_PIXEL,  /* a random colour for each pixel */
};

/** How rotate, translate, shear, affine and perspective move pixels. [2]: low and high. */
struct pipeline_map {
    struct rational_signed degrees[2];
    struct rational translate[2]; /* at most these fractions of the width and of the height */
    struct rational scale[2];
    struct rational_signed shear_x[2], shear_y[2]; /* degrees */
    struct rational distortion;                    /* of perspective */
    bool bilinear;                                 /* otherwise nearest */
    uint8_t fill[3];
};

struct pipeline_op {
    enum pipeline_op_kind kind;
    struct rational p; /* probability; above 0, except within one_of */
    /** [0] factors of one colour operation, sigma of a blur; [0] to [2] of a jitter's brightness,
     * contrast and saturation. */
    struct rational low[3], high[3];
    struct rational_signed hue_low, hue_high; /* hue of hue and jitter, in turns; 0: none */
    struct pipeline_shape shape;              /* erase: ratios are height / width */
    enum pipeline_fill fill;                  /* erase */
    uint32_t list;                            /* within one_of: index of its list, from 0 */
    struct pipeline_policy policy;
    struct pipeline_map map;
    /** solarize: the threshold; posterize: remaining bits; blur: the kernel's size; erase: the
     *  levels, with red in the low byte; cutout: the side */
    uint32_t number;
};

/** Does a jitter have a hue part? */
static inline bool pipeline_has_hue(const struct pipeline_op *op)
{
    return op->hue_low.num != 0 || op->hue_high.num != 0;
}

/** The operation's name in a pipeline, such as "color_jitter", or NULL. */
const char *pipeline_op_name(enum pipeline_op_kind kind);

/** Mixing with the sample at another position, after all operations: docs/pixels.md, 11. */
struct pipeline_mix {
    struct rational p;             /* probability; num 0: never mix */
    struct rational mixup, cutmix; /* alpha of each; num 0: never use it */
    struct rational cut;           /* fraction of the mixed samples that use cutmix */
};

struct pipeline {
    enum pipeline_version version;
    bool exif; /* first rotate the image according to its EXIF orientation */
    bool junk; /* accept bytes before a JPEG's first scan that belong to no segment */
    enum pipeline_crop crop;
    uint32_t width, height;      /* of the output, pixels */
    struct pipeline_shape shape; /* PIPELINE_RRC: ratios are width / height */
    /** PIPELINE_CENTER, PIPELINE_RANDOM_CROP: the size before cropping; width 0: the shorter side
     *  is resize_height; both 0: the image's own size. */
    uint32_t resize_width, resize_height;
    uint32_t pad; /* PIPELINE_RANDOM_CROP: pixels on each side */
    enum pipeline_pad pad_mode;
    uint32_t fill; /* the level of constant padding */
    enum pipeline_filter filter;
    struct rational flip; /* probability of a left-right flip, before all other operations */
    uint32_t ops_count;
    struct pipeline_op ops[PIPELINE_OPS_MAX]; /* in the order of the text */
    struct pipeline_mix mix;
    /** Canonical text: every stage with every parameter, rationals in lowest terms. Equivalent
     *  texts have the same canonical text, which parses to itself. */
    char text[PIPELINE_TEXT_MAX];
};

/**
 * Parse `text`: [v1] [exif] [junk], then a preset ("train" = rrc(224) flip(0.5), "eval" =
 * resize(256) center_crop(224)) or a crop followed by operations (docs/pipelines.md), of which
 * flip(p) is the most common, and at the end mixup or cutmix; or "none", for fields only.
 *
 * Returns 0, or -EINVAL with a message that quotes the stage at fault.
 */
int pipeline_parse(const char *text, struct pipeline *ret, struct plenum_error *err);

/** Does it give each sample a second label and a weight? */
static inline bool pipeline_mixes(const struct pipeline *pipeline)
{
    return pipeline->mix.p.num > 0;
}

/**
 * Write a pipeline's text for users, with fractions as decimals if four decimals are exact, such as
 * 0.6 for 3/5. The result has the same meaning as `text`. If `size` is too small, the text is
 * copied unchanged and truncated.
 */
void pipeline_write_decimals(const char *text, char *ret, size_t size);

/** Do a policy's operations that move pixels interpolate bilinearly? */
bool pipeline_policy_is_bilinear(const struct pipeline_op *op);

#endif
