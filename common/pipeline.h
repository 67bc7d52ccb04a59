/* SPDX-License-Identifier: MIT */
/* pipeline.h - the text that says what is done to an image, e.g. "rrc(224) flip(0.5)". */
#ifndef COMMON_PIPELINE_H
#define COMMON_PIPELINE_H

#include <stdbool.h>
#include <stdint.h>

#include <plenum/error.h>

enum {
    PIPELINE_SIDE_MAX = 8192, /* of an output image, and of what is written in a text, pixels */
    PIPELINE_OPS_MAX = 16,    /* operations behind the crop */
    PIPELINE_KERNEL_MAX = 99, /* samples of a blur's kernel */
    PIPELINE_FACTOR_MAX = 3,  /* the largest factor of a colour operation */
    PIPELINE_ALPHA_MAX = 10,  /* of mixup and cutmix */
    PIPELINE_TEXT_MAX = 2048, /* bytes of a canonical text with its NUL */
};

/** A named definition of pixels. Bytes never change under a name; a new rule gets a new name. */
enum pipeline_version {
    PIPELINE_V1,
    PIPELINE_VERSIONS, /* how many there are */
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

/** Does what has this probability happen, by a random word? */
static inline bool rational_happens(struct rational p, uint32_t word)
{
    return (uint64_t)word * p.den < (uint64_t)p.num << 32;
}

/** What a sample shows: docs/pixels.md, 3. */
enum pipeline_crop {
    PIPELINE_RRC,         /* rrc(HxW, scale=a:b, ratio=a:b): torchvision's RandomResizedCrop */
    PIPELINE_CENTER,      /* resize(...) center_crop(HxW): the middle of the resized image */
    PIPELINE_RANDOM_CROP, /* [resize(...)] [pad(...)] random_crop(HxW) */
    PIPELINE_STRETCH,     /* resize(HxW): all of it, whatever its proportions */
    PIPELINE_LETTERBOX,   /* letterbox(HxW, fill=g): all of it, and padding */
    PIPELINE_NO_IMAGE,    /* none: no pixel, of no file; the size is 0 x 0 */
};

/** What lies beyond the edges of an image that is padded, by torchvision's names. */
enum pipeline_pad {
    PIPELINE_CONSTANT,  /* the level `fill` */
    PIPELINE_EDGE,      /* the outermost pixel */
    PIPELINE_REFLECT,   /* the image in a mirror, without its outermost pixel */
    PIPELINE_SYMMETRIC, /* the same with it */
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

/** How a rectangle is drawn: its share of an area, and the ratio of its sides. */
struct pipeline_shape {
    struct rational scale_min, scale_max, ratio_min, ratio_max;
};

/** What is done to the resized window: docs/pixels.md, 10. */
enum pipeline_op_kind {
    PIPELINE_FLIP, /* left and right */
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
    PIPELINE_ONE_OF, /* one of the lists of operations that follow it */
    PIPELINE_RAND_AUGMENT,
    PIPELINE_TRIVIAL_AUGMENT_WIDE,
    PIPELINE_AUTO_AUGMENT,
    PIPELINE_AUGMIX,
    /* No words of a text, but steps of policies: */
    PIPELINE_SOLARIZE_ADD,
    PIPELINE_MIX_BEGIN,
    PIPELINE_MIX_NEXT,
    PIPELINE_MIX_END,
    PIPELINE_OPS, /* how many there are */
};

/** The tables of AutoAugment. */
enum pipeline_auto_augment {
    PIPELINE_IMAGENET,
    PIPELINE_CIFAR10,
    PIPELINE_SVHN,
    PIPELINE_AUTO_AUGMENTS,
};

/** How a policy's operations that move pixels read them. */
enum pipeline_reading {
    PIPELINE_READING_USUAL, /* timm's rand_augment and augmix: bilinear; others: nearest */
    PIPELINE_READING_NEAREST,
    PIPELINE_READING_BILINEAR,
};

/** What one_of and the policies are told. */
struct pipeline_policy {
    enum pipeline_auto_augment table;
    /** one_of: operations of all its lists, which follow it; rand_augment: operations of a sample;
     * augmix: chains. */
    uint32_t count;
    uint32_t lists;     /* one_of */
    uint32_t magnitude; /* rand_augment; augmix: the severity */
    uint32_t depth;     /* augmix: operations of a chain; 0: drawn */
    bool timm;          /* rand_augment: timm's, with what follows */
    bool increasing;
    struct rational deviation; /* of the magnitude */
    /** Of all but one_of; never what is usual for the policy under another name. */
    enum pipeline_reading reading;
};

/** What an erased rectangle becomes. */
enum pipeline_fill {
    PIPELINE_FILL_LEVELS,
    PIPELINE_FILL_RANDOM, /* one colour, drawn */
    PIPELINE_FILL_PIXEL,  /* a colour for each pixel */
};

/** How pixels move: of rotate, translate, shear, affine and perspective. [2]: low and high. */
struct pipeline_map {
    struct rational_signed degrees[2];
    struct rational translate[2]; /* at most these parts of the width and of the height */
    struct rational scale[2];
    struct rational_signed shear_x[2], shear_y[2]; /* degrees */
    struct rational distortion;                    /* of a perspective */
    bool bilinear;                                 /* or nearest */
    uint8_t fill[3];
};

struct pipeline_op {
    enum pipeline_op_kind kind;
    struct rational p; /* probability; above 0, but within one_of */
    /** [0] factors of one colour operation, sigma of a blur; [0] to [2] of a jitter's brightness,
     * contrast and saturation. */
    struct rational low[3], high[3];
    struct rational_signed hue_low, hue_high; /* of hue and a jitter, in turns: 0 is none */
    struct pipeline_shape shape;              /* of erasing: ratios are height / width */
    enum pipeline_fill fill;                  /* of erasing */
    uint32_t list;                            /* within one_of: which of its lists, from 0 */
    struct pipeline_policy policy;
    struct pipeline_map map;
    /** Solarize: the threshold; posterize: bits that stay; blur: the kernel's size; erase: the
     * levels, red the low byte; cutout: the side. */
    uint32_t number;
};

/** Whether a jitter has a fourth part. */
static inline bool pipeline_has_hue(const struct pipeline_op *op)
{
    return op->hue_low.num != 0 || op->hue_high.num != 0;
}

/** "color_jitter": the word of a text. NULL: there is none. */
const char *pipeline_op_name(enum pipeline_op_kind kind);

/** Mixing with the sample of another position, behind all operations: docs/pixels.md, 11. */
struct pipeline_mix {
    struct rational p;             /* probability; num 0: nothing is mixed */
    struct rational mixup, cutmix; /* alpha of each; num 0: never that one */
    struct rational cut;           /* of what is mixed, the part that is cutmix */
};

struct pipeline {
    enum pipeline_version version;
    bool exif; /* turn the image as its EXIF orientation says before anything else */
    bool junk; /* bytes before a JPEG's first scan that belong to no segment are no fault */
    enum pipeline_crop crop;
    uint32_t width, height;      /* of the output, pixels */
    struct pipeline_shape shape; /* PIPELINE_RRC: ratios are width / height */
    /** PIPELINE_CENTER, PIPELINE_RANDOM_CROP: the size before cropping; a width of 0: its shorter
     * side is resize_height; both 0: that of the image. */
    uint32_t resize_width, resize_height;
    uint32_t pad; /* PIPELINE_RANDOM_CROP: pixels at each side */
    enum pipeline_pad pad_mode;
    uint32_t fill; /* the level of padding that is constant */
    enum pipeline_filter filter;
    struct rational flip; /* probability of a left-right mirror, before all other operations */
    uint32_t ops_count;
    struct pipeline_op ops[PIPELINE_OPS_MAX]; /* in the order of the text */
    struct pipeline_mix mix;
    /** Canonical text: every stage with every parameter, rationals in lowest terms. Two texts that
     *  mean the same have the same canonical text, and it parses to itself. */
    char text[PIPELINE_TEXT_MAX];
};

/**
 * Parse `text`: [v1] [exif] [junk] and then a preset ("train" = rrc(224) flip(0.5), "eval" =
 * resize(256) center_crop(224)) or a crop and then operations (docs/pipelines.md), flip(p) the
 * commonest, and at the end mixup or cutmix; or "none", where fields alone are wanted.
 *
 * Returns 0, or -EINVAL with a sentence that quotes the stage in question.
 */
int pipeline_parse(const char *text, struct pipeline *ret, struct plenum_error *err);

/** Does it give each sample a second label and a weight? */
static inline bool pipeline_mixes(const struct pipeline *pipeline)
{
    return pipeline->mix.p.num > 0;
}

/** Whether a policy's operations that move pixels are bilinear. */
bool pipeline_policy_is_bilinear(const struct pipeline_op *op);

#endif
