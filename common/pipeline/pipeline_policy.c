/* SPDX-License-Identifier: MIT */
/* pipeline_policy.c - one_of, and the policies that draw operations: their words and parameters. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/pipeline/pipeline_priv.h"
#include "common/util/util.h"

enum {
    RAND_OPS_MAX = 15, /* because an operation has only 16 draws */
    BINS = 31,
    TIMM_MAGNITUDE_MAX = 10,
    DEVIATION_MAX = 100, /* timm interprets larger values differently */
    SEVERITY_MAX = 10,
    WIDTH_MAX = 5,
    DEPTH_MAX = 3,
};

static const char *const table_names[PIPELINE_AUTO_AUGMENTS] = {
    [PIPELINE_IMAGENET] = "imagenet",
    [PIPELINE_CIFAR10] = "cifar10",
    [PIPELINE_SVHN] = "svhn",
};

static int parse_table(struct parser *p, struct pipeline_policy *policy)
{
    for (int i = 0; i < PIPELINE_AUTO_AUGMENTS; i++)
        if (parser_word(p, table_names[i])) {
            policy->table = (enum pipeline_auto_augment)i;
            return 0;
        }
    return parser_error(p, p->takes);
}

static int parse_deviation(struct parser *p, struct pipeline_policy *policy)
{
    const struct rational most = {DEVIATION_MAX, 1};
    int r = parser_rational(p, &policy->deviation);

    if (r < 0)
        return r;
    if (rational_less(most, policy->deviation))
        return parser_error(p, "mstd must be from 0 to 100");
    policy->timm = true;
    return 0;
}

static int parse_rand_key(struct parser *p, struct pipeline_policy *policy)
{
    uint32_t increasing;
    int r;

    if (parser_key(p, "mstd"))
        return parse_deviation(p, policy);
    if (!parser_key(p, "inc"))
        return parser_error(p, p->takes);
    r = parser_number(p, 0, 1, p->takes, &increasing);
    policy->timm = true;
    policy->increasing = increasing;
    return r;
}

static int parse_augmix_key(struct parser *p, struct pipeline_policy *policy)
{
    if (parser_key(p, "severity"))
        return parser_number(p, 1, SEVERITY_MAX, p->takes, &policy->magnitude);
    if (parser_key(p, "width"))
        return parser_number(p, 1, WIDTH_MAX, p->takes, &policy->count);
    if (!parser_key(p, "depth"))
        return parser_error(p, p->takes);
    if (!parser_char(p, '-'))
        return parser_number(p, 1, DEPTH_MAX, p->takes, &policy->depth);
    policy->depth = 0;
    return parser_char(p, '1') ? 0 : parser_error(p, p->takes);
}

static int parse_key_of(struct parser *p, struct pipeline_op *op)
{
    if (parser_key(p, "p"))
        return parser_probability(p, &op->p);
    if (parser_key(p, "interpolation")) {
        bool bilinear;
        int r = parser_map_interpolation(p, &bilinear);

        op->policy.reading = bilinear ? PIPELINE_READING_BILINEAR : PIPELINE_READING_NEAREST;
        return r;
    }
    if (op->kind == PIPELINE_RAND_AUGMENT)
        return parse_rand_key(p, &op->policy);
    if (op->kind == PIPELINE_AUGMIX)
        return parse_augmix_key(p, &op->policy);
    return parser_error(p, p->takes);
}

/* Parse the first argument, which has no key. */
static int parse_first(struct parser *p, struct pipeline_op *op)
{
    int r;

    if (op->kind == PIPELINE_AUTO_AUGMENT)
        return parse_table(p, &op->policy);
    r = parser_number(p, 1, RAND_OPS_MAX, p->takes, &op->policy.count);
    if (r < 0)
        return r;
    if (!parser_char(p, ','))
        return parser_error(p, p->takes);
    return parser_number(p, 0, BINS - 1, p->takes, &op->policy.magnitude);
}

bool pipeline_policy_is_bare(enum pipeline_op_kind kind)
{
    return kind == PIPELINE_TRIVIAL_AUGMENT_WIDE || kind == PIPELINE_AUGMIX;
}

static enum pipeline_reading usual_reading(const struct pipeline_op *op)
{
    return op->policy.timm || op->kind == PIPELINE_AUGMIX ? PIPELINE_READING_BILINEAR
                                                          : PIPELINE_READING_NEAREST;
}

bool pipeline_policy_is_bilinear(const struct pipeline_op *op)
{
    enum pipeline_reading reading = op->policy.reading;

    return (reading == PIPELINE_READING_USUAL ? usual_reading(op) : reading) ==
           PIPELINE_READING_BILINEAR;
}

bool pipeline_policy_is_empty(const struct pipeline_op *op)
{
    return op->kind == PIPELINE_TRIVIAL_AUGMENT_WIDE &&
           op->policy.reading == PIPELINE_READING_USUAL;
}

void pipeline_default_policy(struct pipeline_op *op)
{
    uint32_t three = op->kind == PIPELINE_AUGMIX ? 3 : 0;

    op->policy = (struct pipeline_policy){.magnitude = three, .count = three, .deviation = {0, 1}};
}

int pipeline_parse_policy(struct parser *p, struct pipeline_op *op)
{
    int r = 0;

    parser_skip_space(p);
    if (*p->at == ')' && pipeline_policy_is_bare(op->kind))
        return 0;
    if (pipeline_policy_is_bare(op->kind))
        r = parse_key_of(p, op);
    else
        r = parse_first(p, op);
    while (r == 0 && parser_char(p, ','))
        r = parse_key_of(p, op);
    if (r < 0)
        return r;
    if (op->policy.timm && op->policy.magnitude > TIMM_MAGNITUDE_MAX)
        return parser_error(p, "with mstd= or inc=, the magnitude must be from 0 to 10");
    if (op->policy.reading == usual_reading(op))
        op->policy.reading = PIPELINE_READING_USUAL;
    return 0;
}

void pipeline_write_policy(FILE *f, const struct pipeline_op *op)
{
    const struct pipeline_policy *policy = &op->policy;

    if (op->kind == PIPELINE_AUTO_AUGMENT) {
        (void)fputs(table_names[policy->table], f);
    } else if (op->kind == PIPELINE_RAND_AUGMENT) {
        (void)fprintf(f, "%u,%u", policy->count, policy->magnitude);
        if (policy->timm) {
            (void)fputs(",mstd=", f);
            rational_write(f, policy->deviation);
            (void)fprintf(f, ",inc=%d", policy->increasing);
        }
    } else if (op->kind == PIPELINE_AUGMIX) {
        (void)fprintf(f, "severity=%u,width=%u,depth=", policy->magnitude, policy->count);
        if (policy->depth > 0)
            (void)fprintf(f, "%u", policy->depth);
        else
            (void)fputs("-1", f);
    }
    if (policy->reading != PIPELINE_READING_USUAL)
        (void)fprintf(f, "%sinterpolation=%s", op->kind == PIPELINE_TRIVIAL_AUGMENT_WIDE ? "" : ",",
                      policy->reading == PIPELINE_READING_BILINEAR ? "bilinear" : "nearest");
}

/* ---- one_of ---- */

/* Parse the operations of one list, up to its end. */
static int parse_list(struct parser *p, struct pipeline *ret, struct pipeline_op *one_of)
{
    const uint32_t before = one_of->one_of.count;

    for (;;) {
        struct pipeline_op op;
        int r;

        parser_skip_space(p);
        if (strchr("|,)", *p->at) && one_of->one_of.count > before) { /* also at the text's end */
            one_of->one_of.lists++;
            return 0;
        }
        p->stage = p->at;
        if (parser_word(p, "one_of") || parser_word(p, "three_augment"))
            return parser_error(p, "one_of cannot contain one_of or three_augment");
        if (parser_word(p, "mixup") || parser_word(p, "cutmix") || parser_word(p, "mix"))
            return parser_error(p, "mixup, cutmix or mix must come last, after one_of");
        r = pipeline_parse_op(p, &op);
        if (r == -ENOENT)
            return pipeline_refuse_op(p);
        if (r < 0)
            return r;
        op.list = one_of->one_of.lists;
        one_of->one_of.count++;
        r = pipeline_add_op(p, ret, &op);
        if (r < 0)
            return r;
    }
}

static int parse_lists(struct parser *p, struct pipeline *ret)
{
    static const char takes[] = "one_of takes two or more lists of operations and p=PROBABILITY, "
                                "as in one_of(grayscale(1) | solarize(128), p=0.5)";
    struct pipeline_op one_of = {.kind = PIPELINE_ONE_OF, .p = {1, 1}};
    const char *stage = p->stage;
    uint32_t at = ret->ops_count;
    int r;

    if (!parser_char(p, '('))
        return parser_error(p, takes);
    r = pipeline_add_op(p, ret, &one_of);
    do {
        if (r == 0)
            r = parse_list(p, ret, &one_of);
    } while (r == 0 && parser_char(p, '|'));
    if (r < 0)
        return r;
    p->stage = stage;
    if (parser_char(p, ',')) {
        r = parser_key(p, "p") ? parser_probability(p, &one_of.p) : parser_error(p, takes);
        if (r < 0)
            return r;
    }
    if (one_of.one_of.lists < 2)
        return parser_error(p, takes);
    ret->ops[at] = one_of;
    if (one_of.p.num == 0) { /* it never does anything: remove it */
        memset(&ret->ops[at], 0, (ret->ops_count - at) * sizeof(ret->ops[0]));
        ret->ops_count = at;
    }
    return parser_close(p, takes);
}

int pipeline_parse_one_of(struct parser *p, struct pipeline *ret)
{
    static const char three[] = "(grayscale(1) | solarize(128) | blur(23, 0.1:2))";
    struct parser within = {.text = three, .at = three, .stage = three, .err = p->err};

    if (parser_word(p, "one_of"))
        return parse_lists(p, ret);
    if (!parser_word(p, "three_augment"))
        return -ENOENT;
    if (parser_char(p, '('))
        return parser_error(p, "three_augment takes no arguments; for a probability, write "
                               "one_of(grayscale(1) | solarize(128) | blur(23, 0.1:2), p=0.5)");
    if (parse_lists(&within, ret) < 0)
        return parser_error(p, "three_augment counts as four of the 16 possible operations, and "
                               "needs images of at least 12 pixels");
    return 0;
}
