/* SPDX-License-Identifier: MIT */
/* pipeline_ops.c - the operations after the crop: their words and parameters. */
#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/pipeline/pipeline_priv.h"
#include "common/util/util.h"

/* The kinds of arguments in parentheses. */
enum arguments {
    PROBABILITY, /* (p) */
    JITTER,      /* (brightness, contrast, saturation, hue, p=): spreads or ranges */
    RANGE,       /* (low:high, p=) of factors */
    TURNS,       /* (low:high, p=) of turns of the hue */
    KERNEL,      /* (size, low:high, p=) of a blur */
    NUMBER,      /* (number, p=) */
    RECTANGLE,   /* (p, scale=, ratio=, value=) */
    LISTS,       /* lists of operations: pipeline_policy.c */
    POLICY,      /* pipeline_policy.c */
    MAP,         /* pipeline_map.c */
};

static const struct op_form {
    const char *name;
    enum pipeline_op_kind kind;
    enum arguments arguments;
    uint32_t min, max; /* of the number */
    const char *takes;
} forms[] = {
    {"flip", PIPELINE_FLIP, PROBABILITY, 0, 0, "flip takes a probability, as in flip(0.5)"},
    {"vertical_flip", PIPELINE_VERTICAL_FLIP, PROBABILITY, 0, 0,
     "vertical_flip takes a probability, as in vertical_flip(0.5)"},
    {"color_jitter", PIPELINE_COLOR_JITTER, JITTER, 0, 0,
     "color_jitter takes brightness, contrast, saturation and hue, each a spread (0.4) or a range "
     "(0.6:1.4), and p=PROBABILITY"},
    {"brightness", PIPELINE_BRIGHTNESS, RANGE, 0, 0,
     "brightness takes a range of factors, as in brightness(0.6:1.4), and p=PROBABILITY"},
    {"contrast", PIPELINE_CONTRAST, RANGE, 0, 0,
     "contrast takes a range of factors, as in contrast(0.6:1.4), and p=PROBABILITY"},
    {"saturation", PIPELINE_SATURATION, RANGE, 0, 0,
     "saturation takes a range of factors, as in saturation(0.6:1.4), and p=PROBABILITY"},
    {"hue", PIPELINE_HUE, TURNS, 0, 0,
     "hue takes a range of turns, as in hue(-0.1:0.1), and p=PROBABILITY"},
    {"sharpness", PIPELINE_SHARPNESS, RANGE, 0, 0,
     "sharpness takes a range of factors, as in sharpness(0:2), and p=PROBABILITY"},
    {"blur", PIPELINE_BLUR, KERNEL, 1, PIPELINE_KERNEL_MAX,
     "blur takes the size of its kernel (odd, 1 to 99), a range of sigma and p=PROBABILITY, as in "
     "blur(23, 0.1:2)"},
    {"grayscale", PIPELINE_GRAYSCALE, PROBABILITY, 0, 0,
     "grayscale takes a probability, as in grayscale(0.2)"},
    {"invert", PIPELINE_INVERT, PROBABILITY, 0, 0, "invert takes a probability, as in invert(0.5)"},
    {"equalize", PIPELINE_EQUALIZE, PROBABILITY, 0, 0,
     "equalize takes a probability, as in equalize(0.5)"},
    {"autocontrast", PIPELINE_AUTOCONTRAST, PROBABILITY, 0, 0,
     "autocontrast takes a probability, as in autocontrast(0.5)"},
    {"solarize", PIPELINE_SOLARIZE, NUMBER, 0, 256,
     "solarize takes a threshold of 0 to 256 and p=PROBABILITY, as in solarize(128, p=0.2)"},
    {"posterize", PIPELINE_POSTERIZE, NUMBER, 0, 8,
     "posterize takes a number of bits (0 to 8) and p=PROBABILITY, as in posterize(4, p=0.2)"},
    {"erase", PIPELINE_ERASE, RECTANGLE, 0, 255,
     "erase takes a probability, scale=low:high, ratio=low:high and value=LEVEL (0 to 255), "
     "RED:GREEN:BLUE, random or pixel, as in erase(0.25, value=pixel)"},
    {"cutout", PIPELINE_CUTOUT, NUMBER, 1, PIPELINE_SIDE_MAX,
     "cutout takes the side of a square, 1 to 8192, and p=PROBABILITY, as in cutout(16)"},
    {"one_of", PIPELINE_ONE_OF, LISTS, 0, 0,
     "one_of takes two or more lists of operations and p=PROBABILITY, as in "
     "one_of(grayscale(1) | solarize(128))"},
    {"rotate", PIPELINE_ROTATE, MAP, 0, 0,
     "rotate takes degrees, a spread (30) or a range (-10:20), interpolation=nearest or bilinear, "
     "fill=LEVEL and p=PROBABILITY"},
    {"translate", PIPELINE_TRANSLATE, MAP, 0, 0,
     "translate takes fractions of the width and the height, as in translate(0.1, 0.1), "
     "interpolation=nearest or bilinear, fill=LEVEL and p=PROBABILITY"},
    {"shear", PIPELINE_SHEAR, MAP, 0, 0,
     "shear takes degrees, a spread (10) or ranges along x and y (-10:10:-5:5), "
     "interpolation=nearest or bilinear, fill=LEVEL and p=PROBABILITY"},
    {"affine", PIPELINE_AFFINE, MAP, 0, 0,
     "affine takes degrees, translate=X:Y, scale=low:high, shear=low:high, interpolation=nearest "
     "or bilinear, fill=LEVEL and p=PROBABILITY, as in affine(15, scale=0.8:1.2)"},
    {"perspective", PIPELINE_PERSPECTIVE, MAP, 0, 0,
     "perspective takes a distortion of 0 to 1, interpolation=nearest or bilinear, fill=LEVEL and "
     "p=PROBABILITY, as in perspective(0.5, p=0.5)"},
    {"rand_augment", PIPELINE_RAND_AUGMENT, POLICY, 0, 0,
     "rand_augment takes the number of operations (1 to 15), the magnitude (0 to 30), "
     "interpolation=nearest or bilinear and p=PROBABILITY; timm's form (magnitude 0 to 10) also "
     "takes mstd=DEVIATION and inc=0|1"},
    {"trivial_augment_wide", PIPELINE_TRIVIAL_AUGMENT_WIDE, POLICY, 0, 0,
     "trivial_augment_wide takes interpolation=nearest or bilinear, and p=PROBABILITY"},
    {"auto_augment", PIPELINE_AUTO_AUGMENT, POLICY, 0, 0,
     "auto_augment takes imagenet, cifar10 or svhn, interpolation=nearest or bilinear, and "
     "p=PROBABILITY, as in auto_augment(imagenet)"},
    {"augmix", PIPELINE_AUGMIX, POLICY, 0, 0,
     "augmix takes severity=1 ... 10, width=1 ... 5, depth=1 ... 3 (or -1: random), "
     "interpolation=nearest or bilinear, and p=PROBABILITY"},
};

static const struct op_form *form_of(enum pipeline_op_kind kind)
{
    for (size_t i = 0; i < ARRAY_LEN(forms); i++)
        if (forms[i].kind == kind)
            return &forms[i];
    return NULL;
}

const char *pipeline_op_name(enum pipeline_op_kind kind)
{
    const struct op_form *form = form_of(kind);

    return form ? form->name : NULL;
}

/* Parse a range of factors. If `spread`, one number x is also accepted: max(0, 1 - x) : 1 + x. */
static int parse_factors(struct parser *p, bool spread, struct rational *low, struct rational *high)
{
    const struct rational most = {PIPELINE_FACTOR_MAX, 1};
    int r;

    r = parser_rational(p, low);
    if (r < 0)
        return r;
    if (parser_char(p, ':')) {
        r = parser_rational(p, high);
        if (r < 0)
            return r;
    } else if (spread) {
        struct rational x = *low;

        *high = rational_nearest((uint64_t)x.den + x.num, x.den);
        *low = rational_nearest(x.num < x.den ? x.den - x.num : 0, x.den);
    } else {
        return parser_error(p, "write a range as low:high");
    }
    if (rational_less(*high, *low) || rational_less(most, *high))
        return parser_error(p, "factors must be low:high with 0 <= low <= high <= 3");
    return 0;
}

/* Parse a range of turns of the hue. If `spread`, one number x is also accepted: -x : x. */
static int parse_turns(struct parser *p, bool spread, struct pipeline_op *op)
{
    const struct rational_signed least = {-1, 2}, most = {1, 2};
    int r = parser_signed(p, &op->hue_low);

    if (r < 0)
        return r;
    if (parser_char(p, ':')) {
        r = parser_signed(p, &op->hue_high);
        if (r < 0)
            return r;
    } else if (spread) {
        op->hue_high = op->hue_low;
        op->hue_low.num = -op->hue_low.num;
    } else {
        return parser_error(p, "write a range as low:high");
    }
    if (rational_signed_less(op->hue_low, least) ||
        rational_signed_less(op->hue_high, op->hue_low) || rational_signed_less(most, op->hue_high))
        return parser_error(p, "hue must be low:high with -1/2 <= low <= high <= 1/2");
    return 0;
}

/* Parse a kernel's size and a range of sigma. */
static int parse_kernel(struct parser *p, const struct op_form *form, struct pipeline_op *op)
{
    const struct rational least = {1, 100}, most = {100, 1};
    int r = parser_number(p, form->min, form->max, form->takes, &op->number);

    if (r < 0)
        return r;
    if (op->number % 2 == 0)
        return parser_error(p, form->takes);
    if (!parser_char(p, ','))
        return parser_error(p, form->takes);
    r = parser_range(p, &op->low[0], &op->high[0]);
    if (r < 0)
        return r;
    if (rational_less(op->low[0], least) || rational_less(op->high[0], op->low[0]) ||
        rational_less(most, op->high[0]))
        return parser_error(p, "sigma must be low:high with 0.01 <= low <= high <= 100");
    return 0;
}

/* Parse LEVEL, RED:GREEN:BLUE, random or pixel. */
static int parse_fill(struct parser *p, const struct op_form *form, struct pipeline_op *op)
{
    uint8_t level[3] = {0};
    int r = 0;

    op->fill = parser_word(p, "random")  ? PIPELINE_FILL_RANDOM
               : parser_word(p, "pixel") ? PIPELINE_FILL_PIXEL
                                         : PIPELINE_FILL_LEVELS;
    parser_skip_space(p);
    if (op->fill == PIPELINE_FILL_LEVELS)
        r = isdigit((unsigned char)*p->at) ? parser_levels(p, level) : parser_error(p, form->takes);
    op->number = level[0] | (uint32_t)level[1] << 8 | (uint32_t)level[2] << 16;
    return r;
}

static int parse_rectangle(struct parser *p, const struct op_form *form, struct pipeline_op *op)
{
    int r;

    op->shape = (struct pipeline_shape){{1, 50}, {33, 100}, {3, 10}, {33, 10}};
    r = parser_probability(p, &op->p);
    if (r < 0)
        return r;
    while (parser_char(p, ',')) {
        r = parser_shape(p, &op->shape);
        if (r == -ENOENT)
            r = parser_key(p, "value") ? parse_fill(p, form, op) : parser_error(p, form->takes);
        if (r < 0)
            return r;
    }
    return parser_check_shape(p, &op->shape);
}

/* Parse further arguments of an operation whose first one is not a probability. */
static int parse_more(struct parser *p, const struct op_form *form, struct pipeline_op *op)
{
    uint32_t parts = 1;
    int r = 0;

    while (r == 0 && parser_char(p, ',')) {
        if (parser_key(p, "p")) {
            r = parser_probability(p, &op->p);
        } else if (form->arguments == JITTER && parts < 3) {
            r = parse_factors(p, true, &op->low[parts], &op->high[parts]);
            parts++;
        } else if (form->arguments == JITTER && parts == 3) {
            r = parse_turns(p, true, op);
            parts++;
        } else {
            r = parser_error(p, form->takes);
        }
    }
    return r;
}

static int parse_arguments(struct parser *p, const struct op_form *form, struct pipeline_op *op)
{
    int r = 0;

    switch (form->arguments) {
    case PROBABILITY:
        return parser_probability(p, &op->p);
    case RECTANGLE:
        return parse_rectangle(p, form, op);
    case POLICY:
        return pipeline_parse_policy(p, form->takes, op);
    case LISTS:
        return -ENOENT;
    case MAP:
        return pipeline_parse_map(p, form->takes, op);
    case JITTER:
        for (int i = 0; i < 3; i++)
            op->low[i] = op->high[i] = (struct rational){1, 1};
        r = parse_factors(p, true, &op->low[0], &op->high[0]);
        break;
    case RANGE:
        r = parse_factors(p, false, &op->low[0], &op->high[0]);
        break;
    case TURNS:
        r = parse_turns(p, false, op);
        break;
    case KERNEL:
        r = parse_kernel(p, form, op);
        break;
    case NUMBER:
        r = parser_number(p, form->min, form->max, form->takes, &op->number);
        break;
    }
    if (r < 0)
        return r;
    return parse_more(p, form, op);
}

int pipeline_parse_op(struct parser *p, struct pipeline_op *ret)
{
    const struct op_form *form = NULL;
    struct pipeline_op op = {.p = {1, 1}, .hue_low = {0, 1}, .hue_high = {0, 1}};
    int r = 0;

    for (size_t i = 0; i < ARRAY_LEN(forms) && !form; i++)
        if (parser_word(p, forms[i].name))
            form = &forms[i];
    if (!form)
        return -ENOENT;
    op.kind = form->kind;
    if (form->arguments == POLICY)
        pipeline_default_policy(&op);
    if (parser_char(p, '(')) {
        r = parse_arguments(p, form, &op);
        if (r == 0)
            r = parser_close(p, form->takes);
    } else if (form->arguments != POLICY || !pipeline_policy_is_bare(op.kind)) {
        r = parser_error(p, form->takes);
    }
    if (r < 0)
        return r;
    *ret = op;
    return 0;
}

void pipeline_try_name(struct str_nearest *near, const char *name)
{
    static const char *const elsewhere[][2] = {
        {"resized_crop", "rrc"},
        {"horizontal_flip", "flip"},
        {"vflip", "vertical_flip"},
        {"jitter", "color_jitter"},
        {"gaussian_blur", "blur"},
        {"adjust_sharpness", "sharpness"},
        {"erasing", "erase"},
        {"rotation", "rotate"},
        {"trivial_augment", "trivial_augment_wide"},
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

    for (size_t i = 0; i < ARRAY_LEN(forms); i++)
        pipeline_try_name(near, forms[i].name);
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        str_nearest_try(near, others[i]);
}

/* Write one_of's lists of operations, and its probability. */
static void write_lists(FILE *f, const struct pipeline_op *op)
{
    for (uint32_t i = 0; i < op->policy.count; i++) {
        if (i > 0)
            (void)fputc(op[1 + i].list == op[i].list ? ' ' : '|', f);
        (void)pipeline_write_op(f, &op[1 + i]);
    }
}

static void write_fill(FILE *f, const struct pipeline_op *op)
{
    uint32_t red = op->number & 255;

    if (op->fill == PIPELINE_FILL_RANDOM)
        (void)fputs(",value=random", f);
    else if (op->fill == PIPELINE_FILL_PIXEL)
        (void)fputs(",value=pixel", f);
    else if (op->number == red * 0x010101)
        (void)fprintf(f, ",value=%u", red);
    else
        (void)fprintf(f, ",value=%u:%u:%u", red, op->number >> 8 & 255, op->number >> 16);
}

uint32_t pipeline_write_op(FILE *f, const struct pipeline_op *op)
{
    const struct op_form *form = form_of(op->kind);
    bool first_is_p = form->arguments == PROBABILITY || form->arguments == RECTANGLE;
    bool has_p = !first_is_p && op->p.num != op->p.den;

    (void)fprintf(f, "%s", form->name);
    if (form->arguments == POLICY && pipeline_policy_is_empty(op) && !has_p)
        return 1;
    (void)fputc('(', f);
    switch (form->arguments) {
    case PROBABILITY:
        rational_write(f, op->p);
        break;
    case JITTER:
        for (int i = 0; i < 3; i++) {
            if (i > 0)
                (void)fputc(',', f);
            rational_write_range(f, op->low[i], op->high[i]);
        }
        if (pipeline_has_hue(op)) {
            (void)fputc(',', f);
            rational_signed_write_range(f, op->hue_low, op->hue_high);
        }
        break;
    case RANGE:
        rational_write_range(f, op->low[0], op->high[0]);
        break;
    case TURNS:
        rational_signed_write_range(f, op->hue_low, op->hue_high);
        break;
    case KERNEL:
        (void)fprintf(f, "%u,", op->number);
        rational_write_range(f, op->low[0], op->high[0]);
        break;
    case NUMBER:
        (void)fprintf(f, "%u", op->number);
        break;
    case RECTANGLE:
        rational_write(f, op->p);
        pipeline_write_shape(f, &op->shape);
        write_fill(f, op);
        break;
    case LISTS:
        write_lists(f, op);
        break;
    case POLICY:
        pipeline_write_policy(f, op);
        break;
    case MAP:
        pipeline_write_map(f, op);
        break;
    }
    if (has_p) {
        (void)fputs(form->arguments == POLICY && pipeline_policy_is_empty(op) ? "p=" : ",p=", f);
        rational_write(f, op->p);
    }
    (void)fputc(')', f);
    return 1 + (form->arguments == LISTS ? op->policy.count : 0);
}
