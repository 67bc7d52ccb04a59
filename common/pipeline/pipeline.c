/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "common/pipeline/pipeline.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/pipeline/pipeline_priv.h"
#include "common/util/error_set.h"
#include "common/util/util.h"

/* Compare names without regard to case and underscores: "ToTensor" is "to_tensor". */
static bool is_spelled(const struct str_nearest *near, const char *name)
{
    for (size_t i = 0; i < near->len; i++) {
        if (near->word[i] == '_')
            continue;
        if (tolower((unsigned char)near->word[i]) != *name)
            return false;
        name++;
    }
    return near->len > 0 && *name == '\0';
}

/* Find a similar name for the next word. In other libraries, many names begin with "Random" and
 * follow a module's name ("v2.RandomRotation"); here, only random_crop begins with it. */
static struct str_nearest near_of(const char *at)
{
    struct str_nearest near = {.word = at, .len = strcspn(at, " \t\n(|)")};
    const char *dot = memrchr(at, '.', near.len);

    if (dot && isalpha((unsigned char)dot[1])) {
        near.len -= (size_t)(dot + 1 - near.word);
        near.word = dot + 1;
    }
    if (near.len > 7 && strncasecmp(near.word, "random", 6) == 0 &&
        !is_spelled(&near, "randomcrop")) {
        size_t skipped = near.word[6] == '_' ? 7 : 6;

        near.word += skipped;
        near.len -= skipped;
    }
    return near;
}

/* Names in other libraries' pipelines that have no counterpart here, in lower case and without
 * underscores, and what to do instead. */
static const struct {
    const char *sentence;
    const char *names[8];
} foreign[] = {
    {"a pipeline produces bytes: use Loader(dtype=\"float32\", mean=, std=) or normalise() to turn "
     "them into floats",
     {"normalize", "normalise", "totensor", "todtype", "convertimagedtype", "tofloat"}},
    {"the loader's batches are already arrays or tensors: leave this out",
     {"piltotensor", "topilimage", "toimage", "topuretensor", "totensorv2"}},
    {"write stages one after another, separated by spaces, as in 'rrc(224) flip(0.5)'",
     {"compose", "sequential"}},
};

/* Reject the next word if other libraries' pipelines have it and ours need none. */
static int refuse_foreign(struct parser *p)
{
    struct str_nearest near = near_of(p->at);

    for (size_t i = 0; i < ARRAY_LEN(foreign); i++)
        for (const char *const *name = foreign[i].names; *name; name++)
            if (is_spelled(&near, *name))
                return parser_error(p, foreign[i].sentence);
    return 0;
}

/* Words that begin a pipeline, except presets. */
static const char *const crops[] = {"rrc",          "resize",   "letterbox", "mosaic", "pad",
                                    "scale_jitter", "zoom_out", "iou_crop",  "view",   "none"};

static void try_crops(struct str_nearest *near)
{
    for (size_t i = 0; i < ARRAY_LEN(crops); i++)
        pipeline_try_name(near, crops[i]);
}

/* Compare with the words that follow another stage of the crop. */
static void try_cuts(struct str_nearest *near)
{
    pipeline_try_name(near, "center_crop");
    pipeline_try_name(near, "random_crop");
}

/* Report that no operation begins here, with the allowed words and a similar word. */
int pipeline_refuse_op(struct parser *p)
{
    struct str_nearest near = near_of(p->at);
    const char *op;
    char what[160];
    int r = refuse_foreign(p);

    if (r < 0)
        return r;
    if (parser_word(&(struct parser){.at = p->at}, "view"))
        return parser_error(p, "views cannot be mixed with other stages; write a view's stages "
                               "within its parentheses: view(a, 2, rrc(32)) view(b, 1, rrc(16))");
    if (*p->at == ',' || *p->at == ';')
        return parser_error(p, "separate operations with spaces, not with commas or semicolons");
    pipeline_try_ops(&near);
    op = near.name;
    try_crops(&near);
    try_cuts(&near);
    if (!near.name)
        return parser_error(p, "unknown operation (docs/pipelines.md lists all of them)");
    if (near.name == op)
        (void)snprintf(what, sizeof(what), "unknown operation (did you mean %s?)", op);
    else
        (void)snprintf(what, sizeof(what),
                       "%s belongs to the crop, which must come first, and only once", near.name);
    return parser_error(p, what);
}

/* Check that nothing follows mixing. */
static int parse_end(struct parser *p)
{
    parser_skip_space(p);
    p->stage = p->at;
    return *p->at ? parser_error(p, "mixup, cutmix or mix must come last, and only once; to use "
                                    "both, write mix(mixup=0.8, cutmix=1)")
                  : 0;
}

int pipeline_add_op(struct parser *p, struct pipeline *ret, const struct pipeline_op *op)
{
    if (op->kind == PIPELINE_BLUR &&
        (op->blur.size / 2 >= ret->width || op->blur.size / 2 >= ret->height))
        return parser_error(p,
                            "a blur's kernel can be at most twice as large as the image, minus 1");
    if (ret->ops_count == PIPELINE_OPS_MAX)
        return parser_error(p, "there are more than 16 operations");
    ret->ops[ret->ops_count++] = *op;
    return 0;
}

/* Parse everything after the crop. */
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

static int write_canonical(struct pipeline *p, struct plenum_error *err)
{
    const struct pipeline_op flip = {.kind = PIPELINE_FLIP, .p = p->flip};
    FILE *f = fmemopen(p->text, sizeof(p->text), "w");
    bool cut;

    if (!f)
        return error_set(err, -ENOMEM, "pipeline: out of memory");
    (void)fprintf(f, "%s%s%s", pipeline_version_name(p->version), p->exif ? " exif" : "",
                  p->junk ? " junk" : "");
    pipeline_write_crop(f, p);
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
    {"torchvision_v2", "rrc(176) flip(0.5) trivial_augment_wide(interpolation=bilinear) "
                       "erase(0.1, value=124:116:104) mix(mixup=0.2, cutmix=1)"},
    {"timm_a1", "rrc(224, interpolation=random) flip(0.5) rand_augment(2, 7, mstd=0.5, "
                "inc=1) mix(mixup=0.2, cutmix=1)"},
    {"dino_global", "rrc(224, scale=0.32:1, interpolation=bicubic) flip(0.5) "
                    "color_jitter(0.4, 0.4, 0.2, 0.1, p=0.8) grayscale(0.2) blur(9, 0.1:2)"},
    {"mae", "rrc(224, scale=0.2:1, interpolation=bicubic) flip(0.5)"},
    {"cifar", "pad(4, reflect) random_crop(32) flip(0.5)"},
    {"maskrcnn", "scale_jitter(1024, fill=123:117:104) flip(0.5)"},
    {"ssd", "zoom_out(1:4, fill=123:117:104) iou_crop resize(300x300) flip(0.5) "
            "brightness(0.875:1.125, p=0.5) one_of(contrast(0.5:1.5, p=0.5) saturation(0.5:1.5, "
            "p=0.5) hue(-0.05:0.05, p=0.5) | saturation(0.5:1.5, p=0.5) hue(-0.05:0.05, p=0.5) "
            "contrast(0.5:1.5, p=0.5))"},
    {"ssdlite", "iou_crop resize(320x320) flip(0.5)"},
};

/* Reject words that look like the start of a pipeline but are not. */
static int check_start(struct parser *p)
{
    struct str_nearest near = near_of(p->at);
    const char *start;
    char what[200];
    int r = refuse_foreign(p);

    if (r < 0)
        return r;
    for (size_t i = 0; i < ARRAY_LEN(presets); i++)
        pipeline_try_name(&near, presets[i][0]);
    try_crops(&near);
    try_cuts(&near);
    start = near.name;
    pipeline_try_ops(&near);
    if (!near.name || (start && parser_word(&(struct parser){.at = p->at}, start)))
        return 0;
    if (near.name == start)
        (void)snprintf(what, sizeof(what), "no pipeline begins with this (did you mean %s?)",
                       near.name);
    else
        (void)snprintf(what, sizeof(what),
                       "%s must follow the crop: begin with rrc(S), resize(S) center_crop(S) or "
                       "another crop of docs/pipelines.md",
                       near.name);
    return parser_error(p, what);
}

void parser_head(struct parser *p, bool *exif, bool *junk)
{
    *exif = parser_word(p, "exif");
    *junk = parser_word(p, "junk");
    *exif = *exif || parser_word(p, "exif");
}

int pipeline_parse(const char *text, struct pipeline *ret, struct plenum_error *err)
{
    struct pipeline made = {
        .version = PIPELINE_V1, .flip = {0, 1}, .mix.p = {0, 1}, .zoom.p = {0, 1}};
    struct parser p = {.text = text, .at = text, .stage = text, .err = err};
    int r;

    for (int i = 0; i < PIPELINE_VERSIONS; i++)
        if (parser_word(&p, version_names[i])) {
            made.version = (enum pipeline_version)i;
            break;
        }
    if (parser_word(&p, "fast-v1"))
        return error_set(
            err, -EINVAL,
            "pipeline: fast-v1 no longer exists, because v1 is now faster: leave the word out");
    parser_head(&p, &made.exif, &made.junk);
    parser_skip_space(&p);
    p.stage = p.at;
    for (int i = 0; i < PIPELINE_VERSIONS; i++)
        if (parser_word(&p, version_names[i]))
            return parser_error(&p, "the version must come first, as in 'v1 exif train'");
    for (size_t i = 0; i < ARRAY_LEN(presets); i++) {
        if (!parser_word(&p, presets[i][0]))
            continue;
        parser_skip_space(&p);
        if (*p.at)
            return error_set(
                err, -EINVAL,
                "pipeline: %s means '%s' and takes no further stages: write all stages out instead",
                presets[i][0], presets[i][1]);
        p.text = p.at = presets[i][1];
        break;
    }
    p.stage = p.at;
    r = check_start(&p);
    if (r < 0)
        return r;
    if (parser_word(&p, "none")) {
        parser_skip_space(&p);
        if (*p.at || made.exif || made.junk)
            return parser_error(
                &p, "'none' produces no images, and must be the only word of the pipeline");
        made.crop = PIPELINE_NO_IMAGE;
    } else {
        r = pipeline_parse_crop(&p, &made);
        if (r < 0)
            return r;
    }
    r = parse_ops(&p, &made);
    if (r == 0 && made.iou_crop && pipeline_mixes(&made))
        r = parser_error(&p, "iou_crop cannot be used with mixup, cutmix or mix");
    if (r < 0)
        return r;
    r = write_canonical(&made, err);
    if (r < 0)
        return r;
    *ret = made;
    return 0;
}
