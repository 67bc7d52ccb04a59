/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "common/pipeline.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/error.h"
#include "common/pipeline_priv.h"
#include "common/util.h"

/* Two sizes, as "224x160", "224, 160" or "(224, 160)". */
static bool is_pair(const struct parser *p)
{
    const char *at = p->at;

    while (isspace((unsigned char)*at))
        at++;
    if (*at == '(' || *at == '[')
        return true;
    if (!*at || !strchr("xX*,", *at))
        return false;
    for (at++; isspace((unsigned char)*at);)
        at++;
    return isdigit((unsigned char)*at);
}

static int parse_side(struct parser *p, uint32_t *ret)
{
    uint64_t value = 0;
    const char *start;

    parser_skip_space(p);
    start = p->at;
    for (; isdigit((unsigned char)*p->at) && value <= PIPELINE_SIDE_MAX; p->at++)
        value = value * 10 + (uint64_t)(*p->at - '0');
    if (is_pair(p))
        return parser_error(
            p, "images are square: one size in pixels, as in rrc(224), is all there is");
    if (p->at == start)
        return parser_error(p, "a size in pixels is missing");
    if (value == 0 || value > PIPELINE_SIDE_MAX)
        return parser_error(p, "a size must be 1 to 8192 pixels");
    *ret = (uint32_t)value;
    return 0;
}

static const char *const filter_names[PIPELINE_FILTERS] = {
    [PIPELINE_BILINEAR] = "bilinear", [PIPELINE_BICUBIC] = "bicubic",
    [PIPELINE_LANCZOS] = "lanczos",   [PIPELINE_NEAREST] = "nearest",
    [PIPELINE_RANDOM] = "random",
};

/* Behind "interpolation=". */
static int parse_filter(struct parser *p, enum pipeline_filter *ret)
{
    for (int i = 0; i < PIPELINE_FILTERS; i++) {
        if (!parser_word(p, filter_names[i]))
            continue;
        *ret = (enum pipeline_filter)i;
        return 0;
    }
    return parser_error(p, "interpolation is one of bilinear, bicubic, lanczos, nearest and random "
                           "(bilinear or bicubic, drawn for each sample)");
}

static int parse_rrc(struct parser *p, struct pipeline *ret)
{
    static const char takes[] =
        "rrc takes a size, scale=low:high, ratio=low:high and interpolation=NAME";
    int r;

    ret->crop = PIPELINE_RRC;
    ret->shape = (struct pipeline_shape){{2, 25}, {1, 1}, {3, 4}, {4, 3}};
    if (!parser_char(p, '('))
        return parser_error(p, "rrc needs a size, as in rrc(224)");
    r = parse_side(p, &ret->width);
    if (r < 0)
        return r;
    ret->height = ret->width;
    while (parser_char(p, ',')) {
        r = parser_shape(p, &ret->shape);
        if (r == -ENOENT)
            r = parser_word(p, "interpolation") && parser_char(p, '=')
                    ? parse_filter(p, &ret->filter)
                    : parser_error(p, takes);
        if (r < 0)
            return r;
    }
    r = parser_close(p, takes);
    if (r < 0)
        return r;
    return parser_check_shape(p, &ret->shape);
}

static int parse_center(struct parser *p, struct pipeline *ret)
{
    static const char takes[] = "resize takes a size and interpolation=NAME";
    const char *after;
    int r;

    ret->crop = PIPELINE_CENTER;
    if (!parser_char(p, '('))
        return parser_error(p, "resize needs a size, as in resize(256)");
    r = parse_side(p, &ret->resize);
    if (r < 0)
        return r;
    while (parser_char(p, ',')) {
        if (parser_word(p, "interpolation") && parser_char(p, '='))
            r = parse_filter(p, &ret->filter);
        else
            r = parser_error(p, takes);
        if (r < 0)
            return r;
    }
    r = parser_close(p, takes);
    if (r < 0)
        return r;
    parser_skip_space(p);
    after = p->at;
    if (!parser_word(p, "center_crop") || !parser_char(p, '('))
        return parser_error(p, "resize(S) must be followed by center_crop(C), so that all images "
                               "get one shape");
    p->stage = after;
    r = parse_side(p, &ret->width);
    if (r < 0)
        return r;
    ret->height = ret->width;
    r = parser_close(p, "center_crop takes a size alone");
    if (r < 0)
        return r;
    if (ret->width > ret->resize)
        return parser_error(p, "center_crop must not be larger than resize");
    return 0;
}

/* No operation begins here: what may, and what is nearly so. */
int pipeline_refuse_op(struct parser *p)
{
    const char *near = pipeline_near_op(p->at, strcspn(p->at, " \t\n(|)"));
    char what[120];

    if (!near)
        return parser_error(p, "this is no operation (flip(p), color_jitter(...) and others: "
                               "docs/pipelines.md)");
    (void)snprintf(what, sizeof(what), "this is no operation; did you mean %s?", near);
    return parser_error(p, what);
}

/* Behind mixing nothing follows. */
static int parse_end(struct parser *p)
{
    parser_skip_space(p);
    p->stage = p->at;
    return *p->at ? parser_error(p, "mixup, cutmix or mix comes last, and once; to mix by either, "
                                    "write mix(mixup=0.8, cutmix=1)")
                  : 0;
}

int pipeline_add_op(struct parser *p, struct pipeline *ret, const struct pipeline_op *op)
{
    if (ret->ops_count == PIPELINE_OPS_MAX)
        return parser_error(p, "there are more than 16 operations");
    ret->ops[ret->ops_count++] = *op;
    return 0;
}

/* All that follows the crop. */
static int parse_ops(struct parser *p, struct pipeline *ret)
{
    for (;;) {
        struct pipeline_op op;
        int r;

        parser_skip_space(p);
        p->stage = p->at;
        if (!*p->at)
            return 0;
        r = pipeline_parse_mix(p, &ret->mix);
        if (r != -ENOENT)
            return r < 0 ? r : parse_end(p);
        r = pipeline_parse_one_of(p, ret);
        if (r == 0)
            continue;
        if (r == -ENOENT)
            r = pipeline_parse_op(p, &op);
        if (r == -ENOENT)
            return pipeline_refuse_op(p);
        if (r < 0)
            return r;
        if (op.p.num == 0)
            continue;
        if (op.kind == PIPELINE_FLIP && ret->ops_count == 0 && ret->flip.num == 0) {
            ret->flip = op.p;
            continue;
        }
        r = pipeline_add_op(p, ret, &op);
        if (r < 0)
            return r;
    }
}

static const char *const version_names[PIPELINE_VERSIONS] = {
    [PIPELINE_V1] = "v1",
};

const char *pipeline_version_name(enum pipeline_version version)
{
    return version_names[version];
}

static void write_crop(FILE *f, const struct pipeline *p)
{
    if (p->crop == PIPELINE_RRC) {
        (void)fprintf(f, " rrc(%u", p->width);
        pipeline_write_shape(f, &p->shape);
    } else {
        (void)fprintf(f, " resize(%u", p->resize);
    }
    if (p->filter != PIPELINE_BILINEAR)
        (void)fprintf(f, ",interpolation=%s", filter_names[p->filter]);
    (void)fputc(')', f);
    if (p->crop == PIPELINE_CENTER)
        (void)fprintf(f, " center_crop(%u)", p->width);
}

static int write_canonical(struct pipeline *p, struct plenum_error *err)
{
    const struct pipeline_op flip = {.kind = PIPELINE_FLIP, .p = p->flip};
    FILE *f = fmemopen(p->text, sizeof(p->text), "w");
    bool cut;

    if (!f)
        return error_set(err, -ENOMEM, "pipeline: out of memory");
    (void)fprintf(f, "%s%s", pipeline_version_name(p->version), p->exif ? " exif" : "");
    write_crop(f, p);
    if (p->flip.num > 0) {
        (void)fputc(' ', f);
        (void)pipeline_write_op(f, &flip);
    }
    for (uint32_t i = 0; i < p->ops_count;) {
        (void)fputc(' ', f);
        i += pipeline_write_op(f, &p->ops[i]);
    }
    if (pipeline_mixes(p))
        pipeline_write_mix(f, &p->mix);
    cut = fflush(f) != 0 || ferror(f) || ftell(f) >= (long)sizeof(p->text);
    (void)fclose(f);
    return cut ? error_set(err, -EINVAL,
                           "pipeline: it is too long: with every parameter written out it has more "
                           "than %zu characters",
                           sizeof(p->text) - 1)
               : 0;
}

static const char *const presets[][2] = {
    {"train", "rrc(224) flip(0.5)"},
    {"eval", "resize(256) center_crop(224)"},
};

int pipeline_parse(const char *text, struct pipeline *ret, struct plenum_error *err)
{
    struct pipeline made = {.version = PIPELINE_V1, .flip = {0, 1}, .mix.p = {0, 1}};
    struct parser p = {.text = text, .at = text, .stage = text, .err = err};
    int r;

    for (int i = 0; i < PIPELINE_VERSIONS; i++)
        if (parser_word(&p, version_names[i])) {
            made.version = (enum pipeline_version)i;
            break;
        }
    if (parser_word(&p, "fast-v1"))
        return error_set(err, -EINVAL,
                         "pipeline: fast-v1 is no longer there, as v1 is the faster one: leave the "
                         "word out");
    made.exif = parser_word(&p, "exif");
    parser_skip_space(&p);
    p.stage = p.at;
    for (int i = 0; i < PIPELINE_VERSIONS; i++)
        if (parser_word(&p, version_names[i]))
            return parser_error(&p, "the version comes first, as in 'v1 exif train'");
    for (size_t i = 0; i < ARRAY_LEN(presets); i++) {
        if (!parser_word(&p, presets[i][0]))
            continue;
        parser_skip_space(&p);
        if (*p.at)
            return error_set(
                err, -EINVAL,
                "pipeline: %s stands for '%s' and takes no further stages: write them out",
                presets[i][0], presets[i][1]);
        p.text = p.at = presets[i][1];
        break;
    }
    p.stage = p.at;
    if (parser_word(&p, "rrc"))
        r = parse_rrc(&p, &made);
    else if (parser_word(&p, "resize"))
        r = parse_center(&p, &made);
    else
        r = parser_error(&p, *p.at
                                 ? "it must begin with rrc(S), resize(S) center_crop(C), train or "
                                   "eval"
                                 : "it is empty; try train or eval");
    if (r < 0)
        return r;
    r = parse_ops(&p, &made);
    if (r < 0)
        return r;
    r = write_canonical(&made, err);
    if (r < 0)
        return r;
    *ret = made;
    return 0;
}
