/* SPDX-License-Identifier: MIT */
/* pipeline_crop.c - the part of the image that a sample shows: the stages before the operations.
 *
 *     rrc(HxW) | mosaic(HxW) | scale_jitter(HxW) | [zoom_out] letterbox(HxW) |
 *     [zoom_out] [iou_crop] resize(HxW) |
 *     [resize(S) | resize(HxW)] [pad(N)] [center_crop | random_crop]
 *
 * Not every combination of the last ones is allowed, because all images must get the same shape. */
#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/pipeline/pipeline_priv.h"
#include "common/util/util.h"

/* Returns whether the rest of a size shows that it is a pair in a form that is not supported, such
 * as "224, 160", "(224, 160)" or "224*160". */
static bool is_pair(const struct parser *p)
{
    const char *at = p->at;

    while (isspace((unsigned char)*at))
        at++;
    if (*at == '(' || *at == '[')
        return true;
    if (!*at || !strchr("X*,", *at))
        return false;
    for (at++; isspace((unsigned char)*at);)
        at++;
    return isdigit((unsigned char)*at) && at[strspn(at, "0123456789./ ")] != ':'; /* a range */
}

static int parse_pixels(struct parser *p, uint32_t *ret)
{
    uint32_t value = 0;
    const char *start;

    parser_skip_space(p);
    start = p->at;
    for (; isdigit((unsigned char)*p->at) && value <= PIPELINE_SIDE_MAX; p->at++)
        value = value * 10 + (uint32_t)(*p->at - '0');
    if (is_pair(p))
        return parser_error(p, "write a size as 224, or as 224x160 (height x width)");
    if (p->at == start)
        return parser_error(p, "a size in pixels is missing");
    if (value > PIPELINE_SIDE_MAX)
        return parser_error(p, "a size must be 1 to 8192 pixels");
    *ret = value;
    return 0;
}

static int parse_side(struct parser *p, uint32_t *ret)
{
    int r = parse_pixels(p, ret);

    if (r == 0 && *ret == 0)
        return parser_error(p, "a size must be 1 to 8192 pixels");
    return r;
}

/* Parse "224" or "224x160"; for the former, `width` becomes 0. */
static int parse_one_or_two(struct parser *p, uint32_t *height, uint32_t *width)
{
    int r = parse_side(p, height);

    if (r < 0)
        return r;
    *width = 0;
    if (!parser_char(p, 'x'))
        return 0;
    parser_skip_space(p);
    if (!isdigit((unsigned char)*p->at))
        return parser_error(
            p, "the width is missing: write a size as 224, or as 224x160 (height x width)");
    return parse_side(p, width);
}

/* Like parse_one_or_two(), but "224" means a square. */
static int parse_size(struct parser *p, uint32_t *height, uint32_t *width)
{
    int r = parse_one_or_two(p, height, width);

    if (r == 0 && *width == 0)
        *width = *height;
    return r;
}

static const char *const filter_names[PIPELINE_FILTERS] = {
    [PIPELINE_BILINEAR] = "bilinear", [PIPELINE_BICUBIC] = "bicubic",
    [PIPELINE_LANCZOS] = "lanczos",   [PIPELINE_NEAREST] = "nearest",
    [PIPELINE_RANDOM] = "random",
};

static const char *const pad_names[PIPELINE_PADS] = {
    [PIPELINE_CONSTANT] = "constant",
    [PIPELINE_EDGE] = "edge",
    [PIPELINE_REFLECT] = "reflect",
    [PIPELINE_SYMMETRIC] = "symmetric",
};

/* Parse "interpolation=NAME". `takes` is a message that lists the stage's arguments. */
static int parse_filter(struct parser *p, const char *takes, enum pipeline_filter *ret)
{
    if (!parser_key(p, "interpolation"))
        return parser_error(p, takes);
    for (int i = 0; i < PIPELINE_FILTERS; i++) {
        if (!parser_word(p, filter_names[i]))
            continue;
        *ret = (enum pipeline_filter)i;
        return 0;
    }
    return parser_error(p, "interpolation must be bilinear, bicubic, lanczos, nearest or random "
                           "(bilinear or bicubic, chosen for each sample)");
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
    r = parse_size(p, &ret->height, &ret->width);
    while (r == 0 && parser_char(p, ',')) {
        r = parser_shape(p, &ret->shape);
        if (r == -ENOENT)
            r = parse_filter(p, takes, &ret->filter);
    }
    if (r < 0)
        return r;
    r = parser_close(p, takes);
    if (r < 0)
        return r;
    return parser_check_shape(p, &ret->shape);
}

static int parse_letterbox(struct parser *p, bool zooms, struct pipeline *ret)
{
    static const char takes[] =
        "letterbox takes a size, fill=LEVEL (0 to 255) or R:G:B, and interpolation=NAME";
    uint8_t zoomed[3];
    int r;

    memcpy(zoomed, ret->fill, sizeof(zoomed));
    ret->crop = PIPELINE_LETTERBOX;
    if (!parser_char(p, '('))
        return parser_error(p, "letterbox needs a size, as in letterbox(640)");
    r = parse_size(p, &ret->height, &ret->width);
    while (r == 0 && parser_char(p, ',')) {
        r = parser_fill(p, ret->fill);
        if (r == -ENOENT)
            r = parse_filter(p, takes, &ret->filter);
    }
    if (r == 0 && zooms && memcmp(zoomed, ret->fill, sizeof(zoomed)) != 0)
        r = parser_error(p, "zoom_out and letterbox must have the same fill");
    return r < 0 ? r : parser_close(p, takes);
}

/* Parse scale_jitter(S, low:high). */
static int parse_jitter(struct parser *p, struct pipeline *ret)
{
    static const char takes[] = "scale_jitter takes a size, a range of scales (0.1:2), fill=LEVEL "
                                "(0 to 255) or R:G:B, and interpolation=NAME";
    const struct rational least = {1, 100}, most = {100, 1};
    int r;

    ret->crop = PIPELINE_SCALE_JITTER;
    ret->jitter[0] = (struct rational){1, 10};
    ret->jitter[1] = (struct rational){2, 1};
    if (!parser_char(p, '('))
        return parser_error(p, "scale_jitter needs a size, as in scale_jitter(1024)");
    r = parse_size(p, &ret->height, &ret->width);
    for (bool first = true; r == 0 && parser_char(p, ','); first = false) {
        parser_skip_space(p);
        if (first && !isalpha((unsigned char)*p->at)) {
            r = parser_range(p, &ret->jitter[0], &ret->jitter[1]);
            continue;
        }
        r = parser_fill(p, ret->fill);
        if (r == -ENOENT)
            r = parse_filter(p, takes, &ret->filter);
    }
    if (r == 0 && (rational_less(ret->jitter[0], least) || rational_less(most, ret->jitter[1]) ||
                   rational_less(ret->jitter[1], ret->jitter[0])))
        r = parser_error(p, "scale must be low:high with 1/100 <= low <= high <= 100");
    return r < 0 ? r : parser_close(p, takes);
}

static int parse_mosaic(struct parser *p, struct pipeline *ret)
{
    static const char takes[] = "mosaic takes a size, block=POSITIONS (13 to 1000000), fill=LEVEL "
                                "(0 to 255) or R:G:B, and interpolation=NAME";
    int r;

    ret->crop = PIPELINE_MOSAIC;
    ret->block = 64;
    memset(ret->fill, 114, sizeof(ret->fill));
    if (!parser_char(p, '('))
        return parser_error(p, "mosaic needs a size, as in mosaic(640)");
    r = parse_size(p, &ret->height, &ret->width);
    while (r == 0 && parser_char(p, ',')) {
        r = parser_fill(p, ret->fill);
        if (r == -ENOENT)
            r = parser_key(p, "block")
                    ? parser_number(p, PIPELINE_BLOCK_MIN, PIPELINE_BLOCK_MAX, takes, &ret->block)
                    : parse_filter(p, takes, &ret->filter);
    }
    if (r < 0)
        return r;
    if (ret->height < 2 || ret->width < 2)
        return parser_error(p, "a mosaic must have at least 2 x 2 pixels");
    return parser_close(p, takes);
}

static int parse_resize(struct parser *p, struct pipeline *ret)
{
    static const char takes[] = "resize takes a size and interpolation=NAME";
    int r;

    if (!parser_char(p, '('))
        return parser_error(p, "resize needs a size, as in resize(256)");
    r = parse_one_or_two(p, &ret->resize_height, &ret->resize_width);
    while (r == 0 && parser_char(p, ','))
        r = parse_filter(p, takes, &ret->filter);
    if (r < 0)
        return r;
    return parser_close(p, takes);
}

static int parse_pad_mode(struct parser *p, const char *takes, enum pipeline_pad *ret)
{
    for (int i = 0; i < PIPELINE_PADS; i++) {
        if (!parser_word(p, pad_names[i]))
            continue;
        *ret = (enum pipeline_pad)i;
        return 0;
    }
    return parser_error(p, takes);
}

static int parse_pad(struct parser *p, struct pipeline *ret)
{
    static const char takes[] = "pad takes a number of pixels; constant, edge, reflect or "
                                "symmetric; and, for constant, fill=LEVEL (0 to 255) or R:G:B";
    bool filled = false;
    int r;

    if (!parser_char(p, '('))
        return parser_error(p, "pad needs a number of pixels, as in pad(4)");
    r = parse_pixels(p, &ret->pad);
    while (r == 0 && parser_char(p, ',')) {
        r = parser_fill(p, ret->fill);
        filled |= r == 0;
        if (r == -ENOENT)
            r = parse_pad_mode(p, takes, &ret->pad_mode);
    }
    if (r < 0)
        return r;
    if (filled && ret->pad_mode != PIPELINE_CONSTANT)
        return parser_error(p, "fill= can be used only with constant");
    return parser_close(p, takes);
}

/* Begin this stage if its word comes next. Returns whether it did. */
static bool begin_stage(struct parser *p, const char *word)
{
    const char *start;

    parser_skip_space(p);
    start = p->at;
    if (!parser_word(p, word))
        return false;
    p->stage = start;
    return true;
}

/* Parse the size of center_crop or random_crop, which must fit into the resized and padded
 * image. */
static int parse_crop_size(struct parser *p, enum pipeline_crop crop, struct pipeline *ret)
{
    const char *takes =
        crop == PIPELINE_CENTER ? "center_crop takes only a size" : "random_crop takes only a size";
    uint32_t height = ret->resize_height + 2 * ret->pad;
    uint32_t width = (ret->resize_width ? ret->resize_width : ret->resize_height) + 2 * ret->pad;
    int r;

    if (!parser_char(p, '('))
        return parser_error(p, takes);
    r = parse_size(p, &ret->height, &ret->width);
    if (r == 0)
        r = parser_close(p, takes);
    if (r < 0)
        return r;
    if (ret->resize_height && (ret->height > height || ret->width > width))
        return parser_error(p, crop == PIPELINE_CENTER
                                   ? "center_crop must not be larger than resize"
                                   : "random_crop must not be larger than resize with its padding");
    ret->crop = crop;
    return 0;
}

/* Parse the crop after optional resize and pad stages. */
static int parse_cut(struct parser *p, bool padded, struct pipeline *ret)
{
    if (!padded && begin_stage(p, "center_crop"))
        return parse_crop_size(p, PIPELINE_CENTER, ret);
    if (begin_stage(p, "random_crop"))
        return parse_crop_size(p, PIPELINE_RANDOM_CROP, ret);
    if (padded)
        return parser_error(p, "pad(N) must be followed by random_crop(S)");
    if (ret->resize_width == 0)
        return parser_error(p, "resize(S) must be followed by center_crop(S) or random_crop(S), so "
                               "that all images get the same shape; or write resize(HxW)");
    ret->crop = PIPELINE_STRETCH;
    ret->height = ret->resize_height;
    ret->width = ret->resize_width;
    return 0;
}

/* Parse the resize after zoom_out or iou_crop. */
static int parse_zoomed(struct parser *p, struct pipeline *ret)
{
    static const char follows[] =
        "zoom_out must be followed by resize(HxW) or letterbox(S), and iou_crop by resize(HxW), so "
        "that all images get the same shape";
    int r = begin_stage(p, "resize") ? parse_resize(p, ret) : parser_error(p, follows);

    if (r == 0 && ret->resize_width == 0)
        r = parser_error(p, follows);
    if (r == 0)
        r = parse_cut(p, false, ret);
    if (r == 0 && ret->crop != PIPELINE_STRETCH)
        r = parser_error(p, "after zoom_out or iou_crop and resize(HxW), nothing can be cropped");
    if (ret->zoom.p.num == 0) /* nothing is ever filled then */
        memset(ret->fill, 0, sizeof(ret->fill));
    return r;
}

int pipeline_parse_crop(struct parser *p, struct pipeline *ret)
{
    bool resized, padded, zooms, placed;
    int r = pipeline_parse_zoom(p, ret);

    if (r < 0)
        return r;
    zooms = ret->zoom.low.num > 0;
    placed = zooms || ret->iou_crop;
    if (ret->zoom.p.num == 0)
        ret->zoom = (struct pipeline_zoom){.p = {0, 1}};
    if (!placed && parser_word(p, "rrc"))
        return parse_rrc(p, ret);
    if (!placed && parser_word(p, "scale_jitter"))
        return parse_jitter(p, ret);
    if (!ret->iou_crop && parser_word(p, "letterbox"))
        return parse_letterbox(p, zooms, ret);
    if (!placed && parser_word(p, "mosaic"))
        return parse_mosaic(p, ret);
    if (placed)
        return parse_zoomed(p, ret);
    resized = parser_word(p, "resize");
    if (resized)
        r = parse_resize(p, ret);
    if (r < 0)
        return r;
    padded = begin_stage(p, "pad");
    if (padded)
        r = parse_pad(p, ret);
    if (r < 0)
        return r;
    if (resized || padded)
        r = parse_cut(p, padded, ret);
    else if (parser_word(p, "random_crop"))
        r = parser_error(p, "random_crop must follow resize(S) or pad(N); pad(0) random_crop(S) "
                            "crops images without resizing them");
    else if (parser_word(p, "center_crop"))
        r = parser_error(p,
                         "center_crop must follow resize(S), as in resize(256) center_crop(224)");
    else
        r = parser_error(
            p, *p->at ? "it must begin with rrc(S), resize(S) center_crop(S), "
                        "resize(HxW), letterbox(S), scale_jitter(S), zoom_out(1:4), iou_crop, "
                        "pad(N) random_crop(S), or be "
                        "train, eval, none or another preset of docs/pipelines.md"
                      : "it is empty; try train or eval");
    if (r == 0 && resized && ret->pad == 0) { /* nothing is ever padded then */
        ret->pad_mode = PIPELINE_CONSTANT;
        memset(ret->fill, 0, sizeof(ret->fill));
    }
    return r;
}

static void write_size(FILE *f, uint32_t height, uint32_t width)
{
    (void)fprintf(f, "%u", height);
    if (width != height)
        (void)fprintf(f, "x%u", width);
}

static void write_filter(FILE *f, const struct pipeline *p)
{
    if (p->filter != PIPELINE_BILINEAR)
        (void)fprintf(f, ",interpolation=%s", filter_names[p->filter]);
    (void)fputc(')', f);
}

static void write_resize(FILE *f, const struct pipeline *p)
{
    (void)fprintf(f, " resize(%u", p->resize_height);
    if (p->resize_width) /* also for a square, which would otherwise mean the shorter side */
        (void)fprintf(f, "x%u", p->resize_width);
    write_filter(f, p);
}

static void write_pad(FILE *f, const struct pipeline *p)
{
    (void)fprintf(f, " pad(%u,%s", p->pad, pad_names[p->pad_mode]);
    if (p->pad_mode == PIPELINE_CONSTANT)
        pipeline_write_fill(f, p->fill);
    (void)fputc(')', f);
}

void pipeline_write_crop(FILE *f, const struct pipeline *p)
{
    static const char *const heads[PIPELINE_CROPS] = {
        [PIPELINE_RRC] = "rrc",
        [PIPELINE_LETTERBOX] = "letterbox",
        [PIPELINE_MOSAIC] = "mosaic",
        [PIPELINE_SCALE_JITTER] = "scale_jitter",
    };

    if (p->crop == PIPELINE_NO_IMAGE) {
        (void)fputs(" none", f);
        return;
    }
    pipeline_write_zoom(f, p);
    if (heads[p->crop]) {
        (void)fprintf(f, " %s(", heads[p->crop]);
        write_size(f, p->height, p->width);
        if (p->crop == PIPELINE_SCALE_JITTER) {
            (void)fputc(',', f);
            rational_write_range(f, p->jitter[0], p->jitter[1]);
        }
        if (p->crop == PIPELINE_RRC)
            pipeline_write_shape(f, &p->shape);
        if (p->crop == PIPELINE_MOSAIC)
            (void)fprintf(f, ",block=%u", p->block);
        if (p->crop != PIPELINE_RRC)
            pipeline_write_fill(f, p->fill);
        write_filter(f, p);
        return;
    }
    if (p->resize_height)
        write_resize(f, p);
    if (p->crop == PIPELINE_STRETCH)
        return;
    if (p->crop == PIPELINE_RANDOM_CROP && (p->pad || !p->resize_height))
        write_pad(f, p);
    (void)fputs(p->crop == PIPELINE_CENTER ? " center_crop(" : " random_crop(", f);
    write_size(f, p->height, p->width);
    (void)fputc(')', f);
}
