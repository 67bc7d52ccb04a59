/* SPDX-License-Identifier: MIT */
/* pipeline.h - the text that describes how an image is rendered, such as "rrc(224) flip(0.5)". */
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
    PIPELINE_BLOCK_MIN = 13,  /* positions in a block of mosaics */
    PIPELINE_BLOCK_MAX = 1000000,
    PIPELINE_ALPHA_MAX = 10,  /* the largest alpha of mixup and cutmix */
    PIPELINE_ZOOM_MAX = 16,   /* largest side of zoom_out's canvas, in sides of the image */
    PIPELINE_FIELD_MAX = 32,  /* bytes of a field's name with its NUL */
    PIPELINE_TEXT_MAX = 2048, /* bytes of a canonical text with its NUL */
};

/** A named definition of pixels. The bytes of a name never change; a new rule gets a new name. */
enum pipeline_version {
    PIPELINE_V1,
    PIPELINE_VERSIONS, /* number of versions */
};

/** Returns a version's name, such as "v1". */
const char *pipeline_version_name(enum pipeline_version version);

struct rational {
    uint32_t num, den; /* lowest terms, den >= 1 */
};

/** A fraction with a sign. */
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
    PIPELINE_RRC,          /* rrc(HxW, scale=a:b, ratio=a:b): torchvision's RandomResizedCrop */
    PIPELINE_CENTER,       /* resize(...) center_crop(HxW): the middle of the resized image */
    PIPELINE_RANDOM_CROP,  /* [resize(...)] [pad(...)] random_crop(HxW) */
    PIPELINE_STRETCH,      /* resize(HxW): the whole image, regardless of its proportions */
    PIPELINE_LETTERBOX,    /* letterbox(HxW, fill=g): the whole image with padding */
    PIPELINE_SCALE_JITTER, /* scale_jitter(HxW, a:b, fill=g): at a random scale */
    PIPELINE_MOSAIC,       /* mosaic(HxW, block=A, fill=g): parts of four pictures */
    PIPELINE_PART,         /* one of these parts; no text has it */
    PIPELINE_NO_IMAGE,     /* none: no pixels and no file; the size is 0 x 0 */
    PIPELINE_CROPS,        /* number of kinds */
};

/** How padding is filled. The modes are named as in torchvision. */
enum pipeline_pad {
    PIPELINE_CONSTANT,  /* the level `fill` */
    PIPELINE_EDGE,      /* the outermost pixel */
    PIPELINE_REFLECT,   /* the mirror image, without its outermost pixel */
    PIPELINE_SYMMETRIC, /* the mirror image, with its outermost pixel */
    PIPELINE_PADS,
};

/** A larger canvas, of which the image covers a random part: torchvision's RandomZoomOut. */
struct pipeline_zoom {
    struct rational p;         /* num 0: never */
    struct rational low, high; /* sides of the canvas, in sides of the image */
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

/** The form of an operation's arguments. It decides how they are parsed and written
 * (pipeline_ops.c), how values are drawn (augment_draw.c), how they are described (augment_text.c),
 * and which member of a pipeline_op's union is valid. */
enum pipeline_arguments {
    PIPELINE_PLAIN,     /* (p) */
    PIPELINE_TURNED,    /* (p): a flip, for which no pixels have to be computed */
    PIPELINE_FACTORS,   /* (low:high, p=): factors */
    PIPELINE_HUES,      /* (low:high, p=): turns */
    PIPELINE_JITTER,    /* (brightness, contrast, saturation, hue, p=), spreads or ranges: jitter */
    PIPELINE_GAINS,     /* (hue, saturation, value, p=), spreads or ranges: gains */
    PIPELINE_KERNEL,    /* (size, low:high, p=): blur */
    PIPELINE_NUMBER,    /* (number, p=): number */
    PIPELINE_SQUARE,    /* (number, p=): number, the side */
    PIPELINE_RECTANGLE, /* (p, scale=, ratio=, value=): erase */
    PIPELINE_LISTS,     /* (operations | operations, p=): one_of */
    PIPELINE_MAP,       /* pipeline_map.c: map */
    PIPELINE_POLICY,    /* pipeline_policy.c: policy */
    PIPELINE_SHARE,     /* for a step that has no word in texts: number */
    PIPELINE_ARGUMENTS, /* number of kinds */
};

/** Operations on the resized window: docs/pixels.md, 10. Each has a row in pipeline_ops.c. If it
 * computes pixels, it also has one in augment_loops.inc or augment.c. */
enum pipeline_op_kind {
    PIPELINE_FLIP, /* left to right */
    PIPELINE_VERTICAL_FLIP,
    PIPELINE_COLOR_JITTER,
    PIPELINE_BRIGHTNESS,
    PIPELINE_CONTRAST,
    PIPELINE_SATURATION,
    PIPELINE_HUE,
    PIPELINE_HSV,
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
    PIPELINE_ONE_OF, /* one of several lists of operations, which follow it */
    PIPELINE_ROTATE,
    PIPELINE_TRANSLATE,
    PIPELINE_SHEAR,
    PIPELINE_AFFINE,
    PIPELINE_PERSPECTIVE,
    PIPELINE_RAND_AUGMENT,
    PIPELINE_TRIVIAL_AUGMENT_WIDE,
    PIPELINE_AUTO_AUGMENT,
    PIPELINE_AUGMIX,
    PIPELINE_WORDS, /* number of operations that have a word in texts; steps of policies: */
    PIPELINE_SOLARIZE_ADD = PIPELINE_WORDS,
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

/** Parameters of the policies. */
struct pipeline_policy {
    enum pipeline_auto_augment table;
    uint32_t count;     /* rand_augment: operations per sample; augmix: chains */
    uint32_t magnitude; /* rand_augment; augmix: the severity */
    uint32_t depth;     /* augmix: operations per chain; 0: drawn */
    bool timm;          /* rand_augment: timm's variant, with the fields below */
    bool increasing;
    struct rational deviation; /* the magnitude's standard deviation */
    /** The usual interpolation is always stored as PIPELINE_READING_USUAL. */
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
    struct rational distortion;                    /* perspective */
    bool bilinear;                                 /* otherwise nearest */
    uint8_t fill[3];
};

/** Factors of a colour operation, or sigmas of a blur. */
struct pipeline_factors {
    struct rational low, high;
};

/** Turns of the hue. */
struct pipeline_turns {
    struct rational_signed low, high;
};

struct pipeline_op {
    enum pipeline_op_kind kind;
    struct rational p; /* probability; above 0, except within one_of */
    uint32_t list;     /* within one_of: index of its list, from 0 */
    /** pipeline_op_arguments() says which member is valid. */
    union {
        struct pipeline_factors factors;
        struct pipeline_turns turns;
        struct {
            struct pipeline_factors part[3]; /* brightness, contrast, saturation */
            struct pipeline_turns hue;       /* both 0: none */
        } jitter;
        struct {
            struct pipeline_turns hue;
            struct pipeline_factors part[2]; /* saturation, value */
        } gains;
        struct {
            uint32_t size; /* the kernel's size */
            struct pipeline_factors sigma;
        } blur;
        uint32_t number; /* solarize: the threshold; posterize: remaining bits; cutout: the side */
        struct {
            struct pipeline_shape shape; /* its ratios are height / width */
            enum pipeline_fill fill;
            uint8_t levels[3];
        } erase;
        struct {
            uint32_t count; /* the operations of all lists, which follow this one */
            uint32_t lists;
        } one_of;
        struct pipeline_map map;
        struct pipeline_policy policy;
    };
};

/** Does a jitter have a hue part? */
static inline bool pipeline_has_hue(const struct pipeline_op *op)
{
    return op->jitter.hue.low.num != 0 || op->jitter.hue.high.num != 0;
}

/** Returns the operation's word in texts and descriptions, such as "color_jitter"; NULL: none. */
const char *pipeline_op_name(enum pipeline_op_kind kind);

enum pipeline_arguments pipeline_op_arguments(enum pipeline_op_kind kind);

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
    uint32_t width, height;      /* size of the output in pixels */
    struct pipeline_shape shape; /* rrc, iou_crop: its ratios are width / height */
    /** PIPELINE_CENTER, PIPELINE_RANDOM_CROP, PIPELINE_STRETCH: the size before cropping (STRETCH:
     *  equal to width and height). If width is 0, the shorter side becomes resize_height; if both
     *  are 0 (only RANDOM_CROP), the image keeps its own size. */
    uint32_t resize_width, resize_height;
    uint32_t pad; /* PIPELINE_RANDOM_CROP: pixels on each side */
    enum pipeline_pad pad_mode;
    uint8_t fill[3];                /* the colour of constant padding, and around a smaller image */
    struct pipeline_zoom zoom;      /* PIPELINE_STRETCH, PIPELINE_LETTERBOX */
    bool iou_crop;                  /* PIPELINE_STRETCH: first crop, depending on boxes */
    char boxes[PIPELINE_FIELD_MAX]; /* the field that iou_crop uses; "": the only one of boxes */
    struct rational jitter[2];      /* PIPELINE_SCALE_JITTER: the smallest and largest scale */
    uint32_t block;                 /* PIPELINE_MOSAIC: positions among which its pictures are */
    /** PIPELINE_PART: the mosaic's size is resize_width and resize_height; bit 0 of its corner: it
     *  is on the right, bit 1: at the bottom. */
    uint32_t corner;
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
 * Parse `text`: [v1] [exif] [junk], then a preset (such as "eval", which is resize(256)
 * center_crop(224)), or a crop followed by operations such as flip(p) (docs/pipelines.md), with
 * mixup, cutmix or mix at the end; or "none", for fields only.
 *
 * Returns 0, or -EINVAL with a message that quotes the stage at fault.
 */
int pipeline_parse(const char *text, struct pipeline *ret, struct plenum_error *err);

/** Does each sample show parts of four pictures? */
static inline bool pipeline_is_mosaic(const struct pipeline *pipeline)
{
    return pipeline->crop == PIPELINE_MOSAIC;
}

/** Does the pipeline give each sample a second label and a weight? */
static inline bool pipeline_mixes(const struct pipeline *pipeline)
{
    return pipeline->mix.p.num > 0;
}

/** Does zoom_out or iou_crop precede the resize? */
static inline bool pipeline_is_placed(const struct pipeline *pipeline)
{
    return pipeline->zoom.p.num > 0 || pipeline->iou_crop;
}

/** Returns whether an operation, perhaps of a policy, may move pixels other than by flips. */
bool pipeline_moves(const struct pipeline *pipeline);

/**
 * Write a pipeline's text for users, with fractions as decimals if four decimals are exact, such as
 * 0.6 for 3/5. The result has the same meaning as `text`. If `size` is too small, the text is
 * copied unchanged and truncated.
 */
void pipeline_write_decimals(const char *text, char *ret, size_t size);

/** Do a policy's operations that move pixels interpolate bilinearly? */
bool pipeline_policy_is_bilinear(const struct pipeline_op *op);

#endif
