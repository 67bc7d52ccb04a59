/* SPDX-License-Identifier: MIT */
/* pipeline_ops.c - the operations after the crop: their words and parameters. */
#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/pipeline/pipeline_priv.h"
#include "common/util/util.h"

/* One row for each operation: its constant, word and arguments, the message if they cannot be
 * parsed, and the bounds of its number. Operations after PIPELINE_WORDS have no word in pipelines,
 * only a name. */
#define OP(kind, name, arguments, ...) [PIPELINE_##kind] = {name, PIPELINE_##arguments, __VA_ARGS__}
static const struct {
    const char *name;
    enum pipeline_arguments arguments;
    const char *takes;
    uint32_t min, max;
} rows[PIPELINE_OPS] = {
    OP(FLIP, "flip", TURNED, "flip takes a probability, as in flip(0.5)"),
    OP(VERTICAL_FLIP, "vertical_flip", TURNED,
       "vertical_flip takes a probability, as in vertical_flip(0.5)"),
    OP(COLOR_JITTER, "color_jitter", JITTER,
       "color_jitter takes brightness, contrast, saturation and hue, each a spread (0.4) or a "
       "range (0.6:1.4), and p=PROBABILITY"),
    OP(BRIGHTNESS, "brightness", FACTORS,
       "brightness takes a range of factors, as in brightness(0.6:1.4), and p=PROBABILITY"),
    OP(CONTRAST, "contrast", FACTORS,
       "contrast takes a range of factors, as in contrast(0.6:1.4), and p=PROBABILITY"),
    OP(SATURATION, "saturation", FACTORS,
       "saturation takes a range of factors, as in saturation(0.6:1.4), and p=PROBABILITY"),
    OP(HUE, "hue", HUES, "hue takes a range of turns, as in hue(-0.1:0.1), and p=PROBABILITY"),
    OP(HSV, "hsv", GAINS,
       "hsv takes gains of hue, saturation and value, each a spread (0.7) or a range (0.5:1.5; of "
       "the hue, a range of turns), and p=PROBABILITY, as in hsv(0.015, 0.7, 0.4)"),
    OP(SHARPNESS, "sharpness", FACTORS,
       "sharpness takes a range of factors, as in sharpness(0:2), and p=PROBABILITY"),
    OP(BLUR, "blur", KERNEL,
       "blur takes the size of its kernel (odd, 1 to 99), a range of sigma and p=PROBABILITY, as "
       "in blur(23, 0.1:2)"),
    OP(GRAYSCALE, "grayscale", PLAIN, "grayscale takes a probability, as in grayscale(0.2)"),
    OP(INVERT, "invert", PLAIN, "invert takes a probability, as in invert(0.5)"),
    OP(EQUALIZE, "equalize", PLAIN, "equalize takes a probability, as in equalize(0.5)"),
    OP(AUTOCONTRAST, "autocontrast", PLAIN,
       "autocontrast takes a probability, as in autocontrast(0.5)"),
    OP(SOLARIZE, "solarize", NUMBER,
       "solarize takes a threshold of 0 to 256 and p=PROBABILITY, as in solarize(128, p=0.2)",
       .max = 256),
    OP(POSTERIZE, "posterize", NUMBER,
       "posterize takes a number of bits (0 to 8) and p=PROBABILITY, as in posterize(4, p=0.2)",
       .max = 8),
    OP(ERASE, "erase", RECTANGLE,
       "erase takes a probability, scale=low:high, ratio=low:high and value=LEVEL (0 to 255), "
       "RED:GREEN:BLUE, random or pixel, as in erase(0.25, value=pixel)"),
    OP(CUTOUT, "cutout", SQUARE,
       "cutout takes the side of a square, 1 to 8192, and p=PROBABILITY, as in cutout(16)",
       .min = 1, .max = PIPELINE_SIDE_MAX),
    OP(ONE_OF, "one_of", LISTS),
    OP(ROTATE, "rotate", MAP,
       "rotate takes degrees, a spread (30) or a range (-10:20), interpolation=nearest or "
       "bilinear, fill=LEVEL and p=PROBABILITY"),
    OP(TRANSLATE, "translate", MAP,
       "translate takes fractions of the width and the height, as in translate(0.1, 0.1), "
       "interpolation=nearest or bilinear, fill=LEVEL and p=PROBABILITY"),
    OP(SHEAR, "shear", MAP,
       "shear takes degrees, a spread (10) or ranges along x and y (-10:10:-5:5), "
       "interpolation=nearest or bilinear, fill=LEVEL and p=PROBABILITY"),
    OP(AFFINE, "affine", MAP,
       "affine takes degrees, translate=X:Y, scale=low:high, shear=low:high, "
       "interpolation=nearest or bilinear, fill=LEVEL and p=PROBABILITY, as in affine(15, "
       "scale=0.8:1.2)"),
    OP(PERSPECTIVE, "perspective", MAP,
       "perspective takes a distortion of 0 to 1, interpolation=nearest or bilinear, fill=LEVEL "
       "and p=PROBABILITY, as in perspective(0.5, p=0.5)"),
    OP(RAND_AUGMENT, "rand_augment", POLICY,
       "rand_augment takes the number of operations (1 to 15), the magnitude (0 to 30), "
       "interpolation=nearest or bilinear and p=PROBABILITY; timm's form (magnitude 0 to 10) also "
       "takes mstd=DEVIATION and inc=0|1"),
    OP(TRIVIAL_AUGMENT_WIDE, "trivial_augment_wide", POLICY,
       "trivial_augment_wide takes interpolation=nearest or bilinear, and p=PROBABILITY"),
    OP(AUTO_AUGMENT, "auto_augment", POLICY,
       "auto_augment takes imagenet, cifar10 or svhn, interpolation=nearest or bilinear, and "
       "p=PROBABILITY, as in auto_augment(imagenet)"),
    OP(AUGMIX, "augmix", POLICY,
       "augmix takes severity=1 ... 10, width=1 ... 5, depth=1 ... 3 (or -1: random), "
       "interpolation=nearest or bilinear, and p=PROBABILITY"),
    OP(SOLARIZE_ADD, "solarize_add", NUMBER),
    OP(MIX_BEGIN, "augmix", PLAIN),
    OP(MIX_NEXT, "share", SHARE),
    OP(MIX_END, NULL, SHARE),
};

const char *pipeline_op_name(enum pipeline_op_kind kind)
{
    return rows[kind].name;
}

enum pipeline_arguments pipeline_op_arguments(enum pipeline_op_kind kind)
{
    return rows[kind].arguments;
}

bool pipeline_moves(const struct pipeline *pipeline)
{
    for (uint32_t i = 0; i < pipeline->ops_count; i++) {
        enum pipeline_arguments arguments = pipeline_op_arguments(pipeline->ops[i].kind);

        if (arguments == PIPELINE_MAP || arguments == PIPELINE_POLICY)
            return true;
    }
    return false;
}

/* Parse a range of factors. If `spread`, a single number x is allowed, too: max(0, 1 - x) : 1 +
 * x. */
static int factors_of(struct parser *p, bool spread, struct pipeline_factors *ret)
{
    const struct rational most = {PIPELINE_FACTOR_MAX, 1};
    int r;

    r = parser_rational(p, &ret->low);
    if (r < 0)
        return r;
    if (parser_char(p, ':')) {
        r = parser_rational(p, &ret->high);
        if (r < 0)
            return r;
    } else if (spread) {
        struct rational x = ret->low;

        ret->high = rational_nearest((uint64_t)x.den + x.num, x.den);
        ret->low = rational_nearest(x.num < x.den ? x.den - x.num : 0, x.den);
    } else {
        return parser_error(p, "write a range as low:high");
    }
    if (rational_less(ret->high, ret->low) || rational_less(most, ret->high))
        return parser_error(p, "factors must be low:high with 0 <= low <= high <= 3");
    return 0;
}

/* Parse a range of turns of the hue. If `spread`, a single number x is allowed, too: -x : x. */
static int turns_of(struct parser *p, bool spread, struct pipeline_turns *ret)
{
    const struct rational_signed least = {-1, 2}, most = {1, 2};
    int r = parser_signed(p, &ret->low);

    if (r < 0)
        return r;
    if (parser_char(p, ':')) {
        r = parser_signed(p, &ret->high);
        if (r < 0)
            return r;
    } else if (spread) {
        ret->high = ret->low;
        ret->low.num = -ret->low.num;
    } else {
        return parser_error(p, "write a range as low:high");
    }
    if (rational_signed_less(ret->low, least) || rational_signed_less(ret->high, ret->low) ||
        rational_signed_less(most, ret->high))
        return parser_error(p, "hue must be low:high with -1/2 <= low <= high <= 1/2");
    return 0;
}

static int parse_probability(struct parser *p, struct pipeline_op *op)
{
    return parser_probability(p, &op->p);
}

static int parse_factors(struct parser *p, struct pipeline_op *op)
{
    return factors_of(p, false, &op->factors);
}

static int parse_hues(struct parser *p, struct pipeline_op *op)
{
    return turns_of(p, false, &op->turns);
}

static int parse_number(struct parser *p, struct pipeline_op *op)
{
    return parser_number(p, rows[op->kind].min, rows[op->kind].max, p->takes, &op->number);
}

static int parse_jitter(struct parser *p, struct pipeline_op *op)
{
    uint32_t parts = 1;
    int r;

    for (int i = 0; i < 3; i++)
        op->jitter.part[i] = (struct pipeline_factors){{1, 1}, {1, 1}};
    op->jitter.hue = (struct pipeline_turns){{0, 1}, {0, 1}};
    r = factors_of(p, true, &op->jitter.part[0]);
    for (; r == 0 && parser_char(p, ','); parts++) {
        if (parser_key(p, "p")) {
            r = parser_probability(p, &op->p);
            parts--;
        } else if (parts < 3) {
            r = factors_of(p, true, &op->jitter.part[parts]);
        } else {
            r = parts == 3 ? turns_of(p, true, &op->jitter.hue) : parser_error(p, p->takes);
        }
    }
    return r;
}

static int parse_gains(struct parser *p, struct pipeline_op *op)
{
    int r = turns_of(p, true, &op->gains.hue);

    for (int i = 0; r == 0 && i < 2; i++)
        r = parser_char(p, ',') ? factors_of(p, true, &op->gains.part[i])
                                : parser_error(p, p->takes);
    return r;
}

/* Parse a kernel's size and a range of sigma. */
static int parse_kernel(struct parser *p, struct pipeline_op *op)
{
    const struct rational least = {1, 100}, most = {100, 1};
    struct pipeline_factors *sigma = &op->blur.sigma;
    int r = parser_number(p, 1, PIPELINE_KERNEL_MAX, p->takes, &op->blur.size);

    if (r < 0)
        return r;
    if (op->blur.size % 2 == 0 || !parser_char(p, ','))
        return parser_error(p, p->takes);
    r = parser_range(p, &sigma->low, &sigma->high);
    if (r < 0)
        return r;
    if (rational_less(sigma->low, least) || rational_less(sigma->high, sigma->low) ||
        rational_less(most, sigma->high))
        return parser_error(p, "sigma must be low:high with 0.01 <= low <= high <= 100");
    return 0;
}

/* Parse LEVEL, RED:GREEN:BLUE, random or pixel. */
static int parse_fill(struct parser *p, struct pipeline_op *op)
{
    op->erase.fill = parser_word(p, "random")  ? PIPELINE_FILL_RANDOM
                     : parser_word(p, "pixel") ? PIPELINE_FILL_PIXEL
                                               : PIPELINE_FILL_LEVELS;
    memset(op->erase.levels, 0, sizeof(op->erase.levels));
    parser_skip_space(p);
    if (op->erase.fill != PIPELINE_FILL_LEVELS)
        return 0;
    return isdigit((unsigned char)*p->at) ? parser_levels(p, op->erase.levels)
                                          : parser_error(p, p->takes);
}

static int parse_rectangle(struct parser *p, struct pipeline_op *op)
{
    int r;

    op->erase.shape = (struct pipeline_shape){{1, 50}, {33, 100}, {3, 10}, {33, 10}};
    op->erase.fill = PIPELINE_FILL_LEVELS;
    memset(op->erase.levels, 0, sizeof(op->erase.levels));
    r = parser_probability(p, &op->p);
    if (r < 0)
        return r;
    while (parser_char(p, ',')) {
        r = parser_shape(p, &op->erase.shape);
        if (r == -ENOENT)
            r = parser_key(p, "value") ? parse_fill(p, op) : parser_error(p, p->takes);
        if (r < 0)
            return r;
    }
    return parser_check_shape(p, &op->erase.shape);
}

static void write_probability(FILE *f, const struct pipeline_op *op)
{
    rational_write(f, op->p);
}

static void write_factors(FILE *f, const struct pipeline_op *op)
{
    rational_write_range(f, op->factors.low, op->factors.high);
}

static void write_hues(FILE *f, const struct pipeline_op *op)
{
    rational_signed_write_range(f, op->turns.low, op->turns.high);
}

static void write_number(FILE *f, const struct pipeline_op *op)
{
    (void)fprintf(f, "%u", op->number);
}

static void write_jitter(FILE *f, const struct pipeline_op *op)
{
    for (int i = 0; i < 3; i++) {
        if (i > 0)
            (void)fputc(',', f);
        rational_write_range(f, op->jitter.part[i].low, op->jitter.part[i].high);
    }
    if (pipeline_has_hue(op)) {
        (void)fputc(',', f);
        rational_signed_write_range(f, op->jitter.hue.low, op->jitter.hue.high);
    }
}

static void write_gains(FILE *f, const struct pipeline_op *op)
{
    rational_signed_write_range(f, op->gains.hue.low, op->gains.hue.high);
    for (int i = 0; i < 2; i++) {
        (void)fputc(',', f);
        rational_write_range(f, op->gains.part[i].low, op->gains.part[i].high);
    }
}

static void write_kernel(FILE *f, const struct pipeline_op *op)
{
    (void)fprintf(f, "%u,", op->blur.size);
    rational_write_range(f, op->blur.sigma.low, op->blur.sigma.high);
}

static void write_rectangle(FILE *f, const struct pipeline_op *op)
{
    const uint8_t *levels = op->erase.levels;

    rational_write(f, op->p);
    pipeline_write_shape(f, &op->erase.shape);
    if (op->erase.fill == PIPELINE_FILL_RANDOM)
        (void)fputs(",value=random", f);
    else if (op->erase.fill == PIPELINE_FILL_PIXEL)
        (void)fputs(",value=pixel", f);
    else if (levels[0] == levels[1] && levels[0] == levels[2])
        (void)fprintf(f, ",value=%u", levels[0]);
    else
        (void)fprintf(f, ",value=%u:%u:%u", levels[0], levels[1], levels[2]);
}

/* Write one_of's lists of operations. */
static void write_lists(FILE *f, const struct pipeline_op *op)
{
    for (uint32_t i = 0; i < op->one_of.count; i++) {
        if (i > 0)
            (void)fputc(op[1 + i].list == op[i].list ? ' ' : '|', f);
        (void)pipeline_write_op(f, &op[1 + i]);
    }
}

/* How arguments are parsed and written, without the parentheses. The probability is the first of
 * them, or is written last, as p=. */
static const struct {
    int (*parse)(struct parser *p, struct pipeline_op *op);
    void (*write)(FILE *f, const struct pipeline_op *op);
    bool begin_with_p;
} arguments[PIPELINE_ARGUMENTS] = {
    [PIPELINE_PLAIN] = {parse_probability, write_probability, true},
    [PIPELINE_TURNED] = {parse_probability, write_probability, true},
    [PIPELINE_FACTORS] = {parse_factors, write_factors, false},
    [PIPELINE_HUES] = {parse_hues, write_hues, false},
    [PIPELINE_JITTER] = {parse_jitter, write_jitter, false},
    [PIPELINE_GAINS] = {parse_gains, write_gains, false},
    [PIPELINE_KERNEL] = {parse_kernel, write_kernel, false},
    [PIPELINE_NUMBER] = {parse_number, write_number, false},
    [PIPELINE_SQUARE] = {parse_number, write_number, false},
    [PIPELINE_RECTANGLE] = {parse_rectangle, write_rectangle, true},
    [PIPELINE_LISTS] = {NULL, write_lists, false}, /* parsed by pipeline_parse_one_of() */
    [PIPELINE_MAP] = {pipeline_parse_map, pipeline_write_map, false},
    [PIPELINE_POLICY] = {pipeline_parse_policy, pipeline_write_policy, false},
};

/* Parse the text between the parentheses. */
static int parse_arguments(struct parser *p, struct pipeline_op *op)
{
    enum pipeline_arguments kind = rows[op->kind].arguments;
    int r = arguments[kind].parse(p, op);

    while (r == 0 && !arguments[kind].begin_with_p && parser_char(p, ','))
        r = parser_key(p, "p") ? parser_probability(p, &op->p) : parser_error(p, p->takes);
    return r < 0 ? r : parser_close(p, p->takes);
}

int pipeline_parse_op(struct parser *p, struct pipeline_op *ret)
{
    struct pipeline_op op = {.p = {1, 1}};
    int r = 0;

    while (op.kind < PIPELINE_WORDS && !parser_word(p, rows[op.kind].name))
        op.kind++;
    if (op.kind == PIPELINE_WORDS || op.kind == PIPELINE_ONE_OF)
        return -ENOENT;
    p->takes = rows[op.kind].takes;
    if (rows[op.kind].arguments == PIPELINE_POLICY)
        pipeline_default_policy(&op);
    if (parser_char(p, '('))
        r = parse_arguments(p, &op);
    else if (!pipeline_policy_is_bare(op.kind))
        r = parser_error(p, p->takes);
    if (r < 0)
        return r;
    *ret = op;
    return 0;
}

void pipeline_try_name(struct str_nearest *near, const char *name)
{
    static const char *const elsewhere[][2] = {
        {"resized_crop", "rrc"},
        {"large_scale_jitter", "scale_jitter"},
        {"horizontal_flip", "flip"},
        {"vflip", "vertical_flip"},
        {"jitter", "color_jitter"},
        {"gaussian_blur", "blur"},
        {"adjust_sharpness", "sharpness"},
        {"erasing", "erase"},
        {"rotation", "rotate"},
        {"trivial_augment", "trivial_augment_wide"},
        {"hue_saturation_value", "hsv"},
    };

    str_nearest_try(near, name);
    for (size_t i = 0; i < ARRAY_LEN(elsewhere); i++) {
        if (strcmp(elsewhere[i][1], name) != 0)
            continue;
        str_nearest_try(near, elsewhere[i][0]);
        if (near->name == elsewhere[i][0])
            near->name = name;
    }
}

void pipeline_try_ops(struct str_nearest *near)
{
    static const char *const others[] = {"three_augment", "mixup", "cutmix", "mix"};

    for (enum pipeline_op_kind kind = 0; kind < PIPELINE_WORDS; kind++)
        pipeline_try_name(near, rows[kind].name);
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        str_nearest_try(near, others[i]);
}

uint32_t pipeline_write_op(FILE *f, const struct pipeline_op *op)
{
    enum pipeline_arguments kind = rows[op->kind].arguments;
    bool has_p = !arguments[kind].begin_with_p && op->p.num != op->p.den;
    bool empty = kind == PIPELINE_POLICY && pipeline_policy_is_empty(op);

    (void)fputs(rows[op->kind].name, f);
    if (empty && !has_p)
        return 1;
    (void)fputc('(', f);
    arguments[kind].write(f, op);
    if (has_p) {
        (void)fputs(empty ? "p=" : ",p=", f);
        rational_write(f, op->p);
    }
    (void)fputc(')', f);
    return 1 + (kind == PIPELINE_LISTS ? op->one_of.count : 0);
}
