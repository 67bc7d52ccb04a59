/* SPDX-License-Identifier: MIT */
/* policy.c - draws the operations of policies. Spaces and tables are those of torchvision 0.29's
 * transforms/autoaugment.py and of timm 1.0's data/auto_augment.py. */
#include "config.h"

#include "loader/image/ops/policy.h"

#include <string.h>

#include "common/util/util.h"
#include "loader/image/ops/affine.h"
#include "loader/image/ops/augment_draw.h"
#include "loader/image/ops/augment_loops.h"
#include "loader/image/ops/fixed.h"

enum op {
    SHEAR_X,
    SHEAR_Y,
    TRANSLATE_X,
    TRANSLATE_Y,
    ROTATE,
    BRIGHTNESS,
    COLOR,
    CONTRAST,
    SHARPNESS,
    POSTERIZE,
    SOLARIZE,
    AUTOCONTRAST,
    EQUALIZE,
    INVERT,
    SOLARIZE_ADD,
    IDENTITY,
};

/* A window and the operations drawn for it. */
struct target {
    struct augment_plan *plan;
    uint32_t width, height;
    bool timm, bilinear; /* how geometric operations fill and interpolate */
};

/* ---- torchvision: a bin of an operation's range ---- */

/* The operations' strengths in the last bin. In the first bin, they are 0 (posterize: `bits`;
 * solarize: 255). */
struct space {
    uint32_t last;             /* the last bin's number */
    uint32_t shear, enhance;   /* in hundredths */
    uint32_t rotate;           /* in degrees */
    struct rational translate; /* in pixels, or as a part of the side */
    bool relative;
    uint32_t bits, fewer; /* posterize: bits at the first bin, and how many fewer at the last */
};

static const struct space rand_space = {30, 30, 90, 30, {150, 331}, true, 8, 4};
static const struct space wide_space = {30, 99, 99, 135, {32, 1}, false, 8, 6};
static const struct space auto_space = {9, 30, 90, 30, {150, 331}, true, 8, 4};
static const struct space augmix_space = {9, 30, 90, 30, {1, 3}, true, 4, 4};

static int64_t with_sign(int64_t amount, bool negative)
{
    return negative ? -amount : amount;
}

/* Returns a translation in whole pixels. */
static int64_t translation(const struct space *space, uint32_t bin, uint32_t side)
{
    uint64_t num = (uint64_t)space->translate.num * (space->relative ? side : 1);

    return (int64_t)(num * bin / ((uint64_t)space->translate.den * space->last));
}

/* Add a geometric operation. `amount` is a shear's factor, an angle or a distance, times 2^16. */
static void add_geometry(const struct target *to, enum op op, int64_t amount)
{
    static const uint8_t mean[3] = {124, 116, 104};
    struct affine map;

    if (amount == 0) /* nothing changes */
        return;
    if (op == SHEAR_X)
        affine_shear_x(&map, amount);
    else if (op == SHEAR_Y)
        affine_shear_y(&map, amount);
    else if (op == TRANSLATE_X)
        affine_translate(&map, amount, 0);
    else if (op == TRANSLATE_Y)
        affine_translate(&map, 0, amount);
    else
        affine_rotation(&map, amount, to->width, to->height);
    map.bilinear = to->bilinear;
    if (to->timm)
        memcpy(map.fill, mean, sizeof(mean));
    add_step(to->plan, PIPELINE_AFFINE, 0)->map = map;
}

/* The kinds of the operations that add_colour() and add_plain() add. */
static const enum pipeline_op_kind kinds[] = {
    [BRIGHTNESS] = PIPELINE_BRIGHTNESS,
    [COLOR] = PIPELINE_SATURATION,
    [CONTRAST] = PIPELINE_CONTRAST,
    [SHARPNESS] = PIPELINE_SHARPNESS,
    [AUTOCONTRAST] = PIPELINE_AUTOCONTRAST,
    [EQUALIZE] = PIPELINE_EQUALIZE,
    [INVERT] = PIPELINE_INVERT,
};

static void add_colour(const struct target *to, enum op op, int64_t factor)
{
    if (factor != 1 << AUGMENT_BITS) /* a factor of 1 changes nothing */
        add_step(to->plan, kinds[op], (uint32_t)factor);
}

/* Add an operation without a strength. */
static void add_plain(const struct target *to, enum op op)
{
    assert(op == AUTOCONTRAST || op == EQUALIZE || op == INVERT || op == IDENTITY);
    if (op != IDENTITY)
        add_step(to->plan, kinds[op], 0);
}

static void add_bin(const struct target *to, const struct space *space, enum op op, uint32_t bin,
                    bool negative)
{
    const int64_t hundred = 100 * (int64_t)space->last;

    switch (op) {
    case SHEAR_X:
    case SHEAR_Y:
        add_geometry(to, op,
                     with_sign(fixed_of((int64_t)space->shear * bin, hundred, 16), negative));
        break;
    case TRANSLATE_X:
    case TRANSLATE_Y:
        add_geometry(
            to, op,
            with_sign(translation(space, bin, op == TRANSLATE_X ? to->width : to->height) << 16,
                      negative));
        break;
    case ROTATE:
        add_geometry(to, op,
                     with_sign(fixed_of((int64_t)space->rotate * bin, space->last, 16), negative));
        break;
    case BRIGHTNESS:
    case COLOR:
    case CONTRAST:
    case SHARPNESS:
        add_colour(to, op,
                   fixed_of(negative ? hundred - (int64_t)space->enhance * bin
                                     : hundred + (int64_t)space->enhance * bin,
                            hundred, AUGMENT_BITS));
        break;
    case POSTERIZE:
        add_step(to->plan, PIPELINE_POSTERIZE,
                 space->bits - (2 * space->fewer * bin + space->last) / (2 * space->last));
        break;
    case SOLARIZE:
        add_step(to->plan, PIPELINE_SOLARIZE, 255 - 255 * bin / space->last);
        break;
    default:
        add_plain(to, op);
        break;
    }
}

/* ---- timm: a level of 0 to 10, times 2^16 ---- */

enum { LEVEL_MAX = 10 << 16 };

/* Φ^-1(1/2 + k/128) times 2^16, to the nearest integer; the last one makes the variance 1. */
static const uint32_t quantiles[65] = {
    0,     1283,   2567,   3852,   5139,   6427,   7718,   9012,   10310,  11611,  12917,
    14228, 15545,  16869,  18199,  19536,  20882,  22237,  23601,  24976,  26362,  27759,
    29170, 30594,  32032,  33487,  34958,  36446,  37954,  39482,  41032,  42605,  44203,
    45828, 47482,  49166,  50884,  52637,  54428,  56262,  58140,  60067,  62048,  64087,
    66191, 68364,  70616,  72954,  75389,  77933,  80600,  83408,  86377,  89536,  92917,
    96565, 100540, 104924, 109834, 115453, 122076, 130248, 141156, 158437, 200459,
};

static uint32_t draw_level(const struct pipeline_policy *policy, uint32_t word)
{
    uint32_t k = word << 1 >> 26, part = word & 0x1FFFFFF;
    uint64_t z = quantiles[k] + (((uint64_t)(quantiles[k + 1] - quantiles[k]) * part) >> 25);
    int64_t by = (int64_t)(z * policy->deviation.num / policy->deviation.den);
    int64_t level = ((int64_t)policy->magnitude << 16) + with_sign(by, word >> 31);

    return level < 0 ? 0 : level > LEVEL_MAX ? LEVEL_MAX : (uint32_t)level;
}

/* Returns floor(most · level / LEVEL_MAX). */
static uint32_t part_of(uint32_t level, uint32_t most)
{
    return (uint32_t)((uint64_t)level * most / LEVEL_MAX);
}

static int64_t enhancement(const struct pipeline_policy *policy, uint32_t level, bool negative)
{
    const int64_t ten = 10 * (int64_t)LEVEL_MAX, nine = 9 * (int64_t)level;

    if (!policy->increasing)
        return fixed_of(LEVEL_MAX + 2 * nine, ten, AUGMENT_BITS);
    return fixed_of(negative ? ten - nine : ten + nine, ten, AUGMENT_BITS);
}

static void add_level(const struct target *to, const struct pipeline_policy *policy, enum op op,
                      uint32_t level, bool negative)
{
    const int64_t side = op == TRANSLATE_X ? to->width : to->height;

    switch (op) {
    case SHEAR_X:
    case SHEAR_Y:
        add_geometry(to, op, with_sign(fixed_of(3 * (int64_t)level, 100, 0), negative));
        break;
    case TRANSLATE_X:
    case TRANSLATE_Y:
        add_geometry(to, op, with_sign(fixed_of(45 * side * level, 1000, 0), negative));
        break;
    case ROTATE:
        add_geometry(to, op, with_sign(3 * (int64_t)level, negative));
        break;
    case BRIGHTNESS:
    case COLOR:
    case CONTRAST:
    case SHARPNESS:
        add_colour(to, op, enhancement(policy, level, negative));
        break;
    case POSTERIZE:
        add_step(to->plan, PIPELINE_POSTERIZE,
                 policy->increasing ? 4 - part_of(level, 4) : part_of(level, 4));
        break;
    case SOLARIZE:
        add_step(to->plan, PIPELINE_SOLARIZE,
                 policy->increasing ? 256 - part_of(level, 256) : part_of(level, 256));
        break;
    case SOLARIZE_ADD:
        add_step(to->plan, PIPELINE_SOLARIZE_ADD, part_of(level, 110));
        break;
    default:
        add_plain(to, op);
        break;
    }
}

/* ---- draws ---- */

static const uint8_t torchvision_ops[] = {
    IDENTITY, SHEAR_X,  SHEAR_Y,   TRANSLATE_X, TRANSLATE_Y, ROTATE,       BRIGHTNESS,
    COLOR,    CONTRAST, SHARPNESS, POSTERIZE,   SOLARIZE,    AUTOCONTRAST, EQUALIZE,
};

static const uint8_t timm_ops[] = {
    AUTOCONTRAST, EQUALIZE,   INVERT,    ROTATE,  POSTERIZE, SOLARIZE,    SOLARIZE_ADD, COLOR,
    CONTRAST,     BRIGHTNESS, SHARPNESS, SHEAR_X, SHEAR_Y,   TRANSLATE_X, TRANSLATE_Y,
};

static const uint8_t augmix_ops[] = {
    SHEAR_X,      SHEAR_Y,  TRANSLATE_X, TRANSLATE_Y, ROTATE,   POSTERIZE, SOLARIZE,
    AUTOCONTRAST, EQUALIZE, BRIGHTNESS,  COLOR,       CONTRAST, SHARPNESS,
};

/* Word 0 selects the operation, word 3 the sign. */
#define DRAW_ONE(ops, d) ((enum op)(ops)[philox_below((d).word[0], ARRAY_LEN(ops))])

static bool is_negative(const struct philox_block *d)
{
    return d->word[3] >> 31;
}

static void draw_rand(const struct target *to, const struct pipeline_policy *policy,
                      const struct philox_block *d)
{
    if (!policy->timm)
        add_bin(to, &rand_space, DRAW_ONE(torchvision_ops, *d), policy->magnitude, is_negative(d));
    else if (d->word[1] >> 31 == 0)
        add_level(to, policy, DRAW_ONE(timm_ops, *d), draw_level(policy, d->word[2]),
                  is_negative(d));
}

static void draw_wide(const struct target *to, const struct philox_block *d)
{
    add_bin(to, &wide_space, DRAW_ONE(torchvision_ops, *d),
            philox_below(d->word[2], wide_space.last + 1), is_negative(d));
}

/* An operation of AutoAugment, its probability in tenths, and its bin. */
struct pair_op {
    uint8_t op, tenths, bin;
};

static const struct pair_op pairs[PIPELINE_AUTO_AUGMENTS][25][2] = {
    [PIPELINE_IMAGENET] =
        {
            {{POSTERIZE, 4, 8}, {ROTATE, 6, 9}},  {{SOLARIZE, 6, 5}, {AUTOCONTRAST, 6, 0}},
            {{EQUALIZE, 8, 0}, {EQUALIZE, 6, 0}}, {{POSTERIZE, 6, 7}, {POSTERIZE, 6, 6}},
            {{EQUALIZE, 4, 0}, {SOLARIZE, 2, 4}}, {{EQUALIZE, 4, 0}, {ROTATE, 8, 8}},
            {{SOLARIZE, 6, 3}, {EQUALIZE, 6, 0}}, {{POSTERIZE, 8, 5}, {EQUALIZE, 10, 0}},
            {{ROTATE, 2, 3}, {SOLARIZE, 6, 8}},   {{EQUALIZE, 6, 0}, {POSTERIZE, 4, 6}},
            {{ROTATE, 8, 8}, {COLOR, 4, 0}},      {{ROTATE, 4, 9}, {EQUALIZE, 6, 0}},
            {{EQUALIZE, 0, 0}, {EQUALIZE, 8, 0}}, {{INVERT, 6, 0}, {EQUALIZE, 10, 0}},
            {{COLOR, 6, 4}, {CONTRAST, 10, 8}},   {{ROTATE, 8, 8}, {COLOR, 10, 2}},
            {{COLOR, 8, 8}, {SOLARIZE, 8, 7}},    {{SHARPNESS, 4, 7}, {INVERT, 6, 0}},
            {{SHEAR_X, 6, 5}, {EQUALIZE, 10, 0}}, {{COLOR, 4, 0}, {EQUALIZE, 6, 0}},
            {{EQUALIZE, 4, 0}, {SOLARIZE, 2, 4}}, {{SOLARIZE, 6, 5}, {AUTOCONTRAST, 6, 0}},
            {{INVERT, 6, 0}, {EQUALIZE, 10, 0}},  {{COLOR, 6, 4}, {CONTRAST, 10, 8}},
            {{EQUALIZE, 8, 0}, {EQUALIZE, 6, 0}},
        },
    [PIPELINE_CIFAR10] =
        {
            {{INVERT, 1, 0}, {CONTRAST, 2, 6}},          {{ROTATE, 7, 2}, {TRANSLATE_X, 3, 9}},
            {{SHARPNESS, 8, 1}, {SHARPNESS, 9, 3}},      {{SHEAR_Y, 5, 8}, {TRANSLATE_Y, 7, 9}},
            {{AUTOCONTRAST, 5, 0}, {EQUALIZE, 9, 0}},    {{SHEAR_Y, 2, 7}, {POSTERIZE, 3, 7}},
            {{COLOR, 4, 3}, {BRIGHTNESS, 6, 7}},         {{SHARPNESS, 3, 9}, {BRIGHTNESS, 7, 9}},
            {{EQUALIZE, 6, 0}, {EQUALIZE, 5, 0}},        {{CONTRAST, 6, 7}, {SHARPNESS, 6, 5}},
            {{COLOR, 7, 7}, {TRANSLATE_X, 5, 8}},        {{EQUALIZE, 3, 0}, {AUTOCONTRAST, 4, 0}},
            {{TRANSLATE_Y, 4, 3}, {SHARPNESS, 2, 6}},    {{BRIGHTNESS, 9, 6}, {COLOR, 2, 8}},
            {{SOLARIZE, 5, 2}, {INVERT, 0, 0}},          {{EQUALIZE, 2, 0}, {AUTOCONTRAST, 6, 0}},
            {{EQUALIZE, 2, 0}, {EQUALIZE, 6, 0}},        {{COLOR, 9, 9}, {EQUALIZE, 6, 0}},
            {{AUTOCONTRAST, 8, 0}, {SOLARIZE, 2, 8}},    {{BRIGHTNESS, 1, 3}, {COLOR, 7, 0}},
            {{SOLARIZE, 4, 5}, {AUTOCONTRAST, 9, 0}},    {{TRANSLATE_Y, 9, 9}, {TRANSLATE_Y, 7, 9}},
            {{AUTOCONTRAST, 9, 0}, {SOLARIZE, 8, 3}},    {{EQUALIZE, 8, 0}, {INVERT, 1, 0}},
            {{TRANSLATE_Y, 7, 9}, {AUTOCONTRAST, 9, 0}},
        },
    [PIPELINE_SVHN] =
        {
            {{SHEAR_X, 9, 4}, {INVERT, 2, 0}},       {{SHEAR_Y, 9, 8}, {INVERT, 7, 0}},
            {{EQUALIZE, 6, 0}, {SOLARIZE, 6, 6}},    {{INVERT, 9, 0}, {EQUALIZE, 6, 0}},
            {{EQUALIZE, 6, 0}, {ROTATE, 9, 3}},      {{SHEAR_X, 9, 4}, {AUTOCONTRAST, 8, 0}},
            {{SHEAR_Y, 9, 8}, {INVERT, 4, 0}},       {{SHEAR_Y, 9, 5}, {SOLARIZE, 2, 6}},
            {{INVERT, 9, 0}, {AUTOCONTRAST, 8, 0}},  {{EQUALIZE, 6, 0}, {ROTATE, 9, 3}},
            {{SHEAR_X, 9, 4}, {SOLARIZE, 3, 3}},     {{SHEAR_Y, 8, 8}, {INVERT, 7, 0}},
            {{EQUALIZE, 9, 0}, {TRANSLATE_Y, 6, 6}}, {{INVERT, 9, 0}, {EQUALIZE, 6, 0}},
            {{CONTRAST, 3, 3}, {ROTATE, 8, 4}},      {{INVERT, 8, 0}, {TRANSLATE_Y, 0, 2}},
            {{SHEAR_Y, 7, 6}, {SOLARIZE, 4, 8}},     {{INVERT, 6, 0}, {ROTATE, 8, 4}},
            {{SHEAR_Y, 3, 7}, {TRANSLATE_X, 9, 3}},  {{SHEAR_X, 1, 6}, {INVERT, 6, 0}},
            {{SOLARIZE, 7, 2}, {TRANSLATE_Y, 6, 7}}, {{SHEAR_Y, 8, 4}, {INVERT, 8, 0}},
            {{SHEAR_X, 7, 9}, {TRANSLATE_Y, 8, 3}},  {{SHEAR_Y, 8, 5}, {AUTOCONTRAST, 7, 0}},
            {{SHEAR_X, 7, 2}, {INVERT, 1, 0}},
        },
};

static void draw_pair(const struct target *to, enum pipeline_auto_augment table, uint32_t at,
                      const struct image_draw *draw)
{
    const struct pair_op *pair = pairs[table][philox_below(draw_words(draw, at, 1).word[0], 25)];

    for (uint32_t i = 0; i < 2; i++) {
        struct philox_block d = draw_words(draw, at, 2 + i);

        if (rational_happens((struct rational){pair[i].tenths, 10}, d.word[1]))
            add_bin(to, &auto_space, (enum op)pair[i].op, pair[i].bin, is_negative(&d));
    }
}

/* ---- AugMix ---- */

enum { CHAINS_MAX = 5, CHAIN_DRAWS = 3 };

static void sort(uint32_t *v, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++)
        for (uint32_t j = i; j > 0 && v[j] < v[j - 1]; j--) {
            uint32_t kept = v[j];

            v[j] = v[j - 1];
            v[j - 1] = kept;
        }
}

/* Draw the chains' weights, times 2^16: the distances between sorted random cuts of 0 ...
 * `together`. */
static void draw_weights(uint32_t chains, uint32_t together, uint32_t at,
                         const struct image_draw *draw, uint32_t weights[CHAINS_MAX])
{
    uint32_t cuts[CHAINS_MAX], before = 0;

    for (uint32_t i = 0; i + 1 < chains; i++)
        cuts[i] = philox_below(draw_words(draw, at, CHAIN_DRAWS * i + 2).word[1], together + 1);
    sort(cuts, chains - 1);
    cuts[chains - 1] = together;
    for (uint32_t i = 0; i < chains; i++) {
        weights[i] = cuts[i] - before;
        before = cuts[i];
    }
}

static void draw_chain(const struct target *to, const struct pipeline_policy *policy, uint32_t at,
                       uint32_t first, const struct image_draw *draw)
{
    struct philox_block d = draw_words(draw, at, first);
    uint32_t depth = policy->depth;

    if (depth == 0)
        depth = 1 + philox_below(d.word[1], CHAIN_DRAWS);
    for (uint32_t i = 0; i < depth; i++) {
        d = draw_words(draw, at, first + i);
        add_bin(to, &augmix_space, DRAW_ONE(augmix_ops, d),
                philox_below(d.word[2], policy->magnitude), is_negative(&d));
    }
}

static void draw_mix(const struct target *to, const struct pipeline_policy *policy, uint32_t at,
                     const struct image_draw *draw, uint32_t word)
{
    uint32_t weights[CHAINS_MAX], own = word >> 16;

    if (to->plan->mixed < 1 + policy->count)
        to->plan->mixed = 1 + policy->count;
    draw_weights(policy->count, (1 << 16) - own, at, draw, weights);
    add_step(to->plan, PIPELINE_MIX_BEGIN, own);
    for (uint32_t i = 0; i < policy->count; i++) {
        draw_chain(to, policy, at, CHAIN_DRAWS * i + 1, draw);
        add_step(to->plan, PIPELINE_MIX_NEXT, weights[i]);
    }
    add_step(to->plan, PIPELINE_MIX_END, 0);
}

void policy_draw(const struct pipeline_op *op, uint32_t at, const struct image_draw *draw,
                 uint32_t width, uint32_t height, struct augment_plan *plan)
{
    const struct pipeline_policy *policy = &op->policy;
    struct target to = {.plan = plan, .width = width, .height = height};
    struct philox_block d;

    to.timm = policy->timm;
    to.bilinear = pipeline_policy_is_bilinear(op);
    switch (op->kind) {
    case PIPELINE_RAND_AUGMENT:
        for (uint32_t i = 0; i < policy->count; i++) {
            d = draw_words(draw, at, 1 + i);
            draw_rand(&to, policy, &d);
        }
        break;
    case PIPELINE_TRIVIAL_AUGMENT_WIDE:
        d = draw_words(draw, at, 1);
        draw_wide(&to, &d);
        break;
    case PIPELINE_AUTO_AUGMENT:
        draw_pair(&to, policy->table, at, draw);
        break;
    case PIPELINE_AUGMIX:
        draw_mix(&to, policy, at, draw, draw_words(draw, at, 0).word[1]);
        break;
    default:
        assert(false);
    }
}
